"""A model that did not look lets nothing pass: through the installed command and a real endpoint."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bridgehead.testing.exchange import (
    Breakage,
    Ending,
    Fault,
    ModelRequest,
    Reaction,
    Say,
)
from bridgehead.testing.model_server import ModelServer
from bridgehead.testing.scripts import Scripted
from support.installed import Done, Machine

pytestmark = pytest.mark.xdist_group("council_cli")

BARE = "/usr/local/bin:/usr/bin:/bin"
MODEL = "model-1"
EMPTY = json.dumps({"outputs": []})
SOUND = "def total(prices):\n    return sum(prices)\n"
Answers = Callable[[ModelRequest], Reaction]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    machine = Machine(tmp_path / "home", tmp_path / "project")
    (machine.project / "prices.py").write_text(SOUND)
    return machine


@contextmanager
def endpoint(machine: Machine, answers: Answers) -> Iterator[ModelServer]:
    """A trusted seat `openai` whose every question is answered by `answers`."""
    with ModelServer(script=lambda request: Scripted(answers(request))) as server:
        entry = {
            "enabled": True,
            "base_url": f"{server.base_url()}/v1",
            "models": [MODEL],
        }
        (machine.project / ".bridge-settings.json").write_text(
            json.dumps({"bridges": {"openai": entry}})
        )
        trusted = machine.run("config", "trust", ".bridge-settings.json")
        assert trusted.code == 0, trusted.err
        yield server


def review(machine: Machine, *words: str) -> Done:
    return machine.run(
        "council",
        "review",
        "prices.py",
        "--runtime",
        "openai",
        "--runtime",
        "static",
        "--intensity",
        "quick",
        "--gate",
        "fail",
        "--json",
        *words,
        PATH=BARE,
    )


def says(text: str, ending: Ending = Ending.WHOLE) -> Answers:
    return lambda _: Say(text, ending)


def refuses_but_security(request: ModelRequest) -> Reaction:
    """Only one expert of several does its work."""
    if "security" in request.user_texts[-1].casefold()[:400]:
        return Say(EMPTY)
    return Say("I can't help with that request. []")


UNLOOKED: dict[str, tuple[Answers, str]] = {
    "refusal in prose with an empty list": (
        says("I'm sorry, but I can't assist with reviewing this code. []"),
        "refused",
    ),
    "files it could not open": (
        says('I was unable to read the files. {"outputs": []}'),
        "refused",
    ),
    "content filter": (says(EMPTY, Ending.FILTER), "filtered"),
    "cut by length with nothing": (says(EMPTY, Ending.LENGTH), "cut"),
    "401": (lambda _: Fault.UNAUTHORISED, "no_login"),
    "quota": (lambda _: Fault.QUOTA, "no_quota"),
    "server error": (lambda _: Fault.SERVER_ERROR, "died"),
    "garbage": (says("looks good to me"), "died"),
    "an empty answer": (says(""), "died"),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("answers", "reason"), UNLOOKED.values(), ids=UNLOOKED)
def test_a_model_that_did_not_look_lets_nothing_pass_although_static_is_clean(
    machine: Machine, answers: Answers, reason: str
) -> None:
    with endpoint(machine, answers):
        done = review(machine, "--domain", "security")

    report = done.json
    assert done.code == 3, done.err
    assert (report["verdict"], report["incomplete"]) == (None, True)
    (look,) = report["not_looked_at"]
    assert (look["by"], look["on"], look["kind"]) == ("openai", "security", "domain")
    assert look["reason"] == reason
    gate = machine.run("council", "gate", PATH=BARE)
    assert gate.code == 3 and "security" in gate.out


def test_a_model_that_looked_passes(machine: Machine) -> None:
    with endpoint(machine, says(EMPTY)):
        done = review(machine, "--domain", "security")

    assert done.code == 0, done.err
    assert (done.json["verdict"], done.json["not_looked_at"]) == ("PASS", [])


def test_every_domain_needs_one_model_that_looked(machine: Machine) -> None:
    with endpoint(machine, refuses_but_security):
        done = review(machine, "--domain", "security", "--domain", "testing")

    assert done.code == 3, done.err
    missed = {look["on"]: look["reason"] for look in done.json["not_looked_at"]}
    assert missed == {"testing": "refused"}


def test_a_budget_too_small_asks_what_it_can_and_says_what_is_left(
    machine: Machine,
) -> None:
    with endpoint(machine, says(EMPTY)) as server:
        done = review(
            machine, "--domain", "security", "--domain", "testing", "--max-calls", "1"
        )
        asked = len(server.log.questions())

    assert done.code == 3, done.err
    assert asked == 1
    missed = {look["on"]: look["reason"] for look in done.json["not_looked_at"]}
    assert missed == {"testing": "budget"}


def test_a_busy_server_that_names_a_time_is_waited_for(machine: Machine) -> None:
    asked: list[ModelRequest] = []

    def busy_at_first(request: ModelRequest) -> Reaction:
        asked.append(request)
        return Fault.RATE_LIMIT if len(asked) == 1 else Say(EMPTY)

    with endpoint(machine, busy_at_first):
        done = review(machine, "--domain", "security")

    assert done.code == 0, done.err
    assert done.json["verdict"] == "PASS"


def test_a_model_that_hangs_is_given_up_after_the_timeout_that_was_asked_for(
    machine: Machine,
) -> None:
    with endpoint(machine, lambda _: Breakage.HANG):
        done = review(machine, "--domain", "security", "--timeout", "2")

    assert done.code == 3, done.err
    (look,) = done.json["not_looked_at"]
    assert look["reason"] == "timed_out"
    (seat,) = [seat for seat in done.json["participants"] if seat["bridge"] == "openai"]
    assert seat["reason"] == "timeout_after_2s"


def test_a_serious_finding_about_code_that_does_not_exist_is_no_finding_and_no_look(
    machine: Machine,
) -> None:
    invented: dict[str, Any] = {
        "type": "finding",
        "severity": "HIGH",
        "title": "Prices are evaluated",
        "description": "eval of what the user sends",
        "evidence": "prices.py:2 `eval(prices)`",
    }
    with endpoint(machine, says(json.dumps({"outputs": [invented]}))):
        done = review(machine, "--domain", "security")

    assert done.code == 3, done.err
    assert done.json["verdict"] is None
    (look,) = done.json["not_looked_at"]
    assert (look["reason"], look["outcome"]) == ("invented", "in_part")


def test_every_form_of_the_report_says_what_was_not_looked_at(machine: Machine) -> None:
    line = "not looked at (openai refused): the domain security; ask another model"
    with endpoint(machine, says("I cannot help with this. []")):
        review(machine, "--domain", "security")

    shown = machine.run("council", "show", PATH=BARE)
    assert line in " ".join(shown.out.split())
    for form in ("md", "html", "sarif"):
        written = machine.run("council", "show", "--format", form, PATH=BARE)
        assert line in written.out.replace("\\", ""), form
    (run,) = json.loads(
        machine.run("council", "show", "--format", "sarif", PATH=BARE).out
    )["runs"]
    assert run["invocations"][0]["executionSuccessful"] is False
