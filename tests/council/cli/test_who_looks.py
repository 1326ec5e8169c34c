"""The tree under review does not choose who looks at it, through the installed command."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from council.cli.conftest import BARE
from support.installed import Done, Machine

pytestmark = pytest.mark.xdist_group("council_cli")

SEATS = ".bridge-settings.json"


def review(machine: Machine, *words: str, **environ: str) -> Done:
    return machine.run(
        "council", "review", "--json", "--non-interactive", *words, PATH=BARE, **environ
    )


def write_seats(machine: Machine, **document: Any) -> None:
    (machine.project / SEATS).write_text(json.dumps(document))


def commit(machine: Machine, message: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    for words in (("add", "-A", "-f"), ("commit", "-q", "-m", message)):
        subprocess.run(
            ["git", *identity, *words],
            cwd=machine.project,
            env=machine.environ(),
            check=True,
        )


def status_of(done: Done, seat: str) -> str:
    rows = {row["bridge"]: row["status"] for row in done.json["participants"]}
    return str(rows[seat])


def test_an_untrusted_tree_switches_off_neither_a_seat_nor_an_analyser(
    orders: Machine,
) -> None:
    write_seats(
        orders,
        bridges={"static": {"enabled": False, "tools": []}, "openai": {}},
        withdrawal_guard=False,
        coordinator="opencode",
    )

    done = review(orders, "orders")

    assert done.code == 0, done.err
    assert status_of(done, "static") == "COMPLETED"
    assert "openai" not in [row["bridge"] for row in done.json["participants"]]
    assert done.json["verdict"] != "PASS"
    for key in (
        "static.enabled",
        "static.tools",
        "openai",
        "withdrawal_guard",
        "coordinator",
    ):
        assert f"untrusted_setting_ignored:{key}" in done.json["warnings"]


def test_a_change_is_reviewed_with_the_settings_before_it(orders: Machine) -> None:
    usual = {"bridges": {"static": {"tools": ["ruff"]}}}
    write_seats(orders, **usual)
    assert orders.run("config", "trust", SEATS).code == 0
    commit(orders, "choose the analysers")
    write_seats(orders, bridges={"static": {"enabled": False}})
    (orders.project / "bridgehead.toml").write_text("[council]\ntimeout = 1\n")
    (orders.project / "new.py").write_text("import os\n")
    commit(orders, "send them away")

    before = review(orders, "--diff", "HEAD~1")
    plain = review(orders, "new.py")
    assert orders.run("config", "trust", SEATS).code == 0
    trusted = review(orders, "--diff", "HEAD~1")

    assert status_of(before, "static") == "COMPLETED"
    ignored = {
        f"settings_of_change_ignored:{name}" for name in (SEATS, "bridgehead.toml")
    }
    assert ignored <= set(before.json["warnings"])
    assert "untrusted_setting_ignored:static.tools" not in before.json["warnings"], (
        "what the user has trusted stays trusted"
    )
    assert "untrusted_setting_ignored:static.enabled" in plain.json["warnings"]
    assert trusted.code != 0 or status_of(trusted, "static") == "SKIPPED"


def test_settings_are_written_again_as_they_are_in_the_working_tree(
    orders: Machine,
) -> None:
    write_seats(orders, bridges={"codex": {"model": "of-the-base"}})
    commit(orders, "name a model")
    write_seats(orders, bridges={"codex": {"model": "of-mine"}})
    (orders.project / "new.py").write_text("import os\n")

    done = review(orders, "--diff", "HEAD", "--write-settings")

    assert done.code == 0, done.err
    written = json.loads((orders.project / SEATS).read_text())
    assert written["bridges"]["codex"] == {"model": "of-mine"}


@pytest.fixture
def clean(tmp_path: Path) -> Machine:
    """A project in which nothing is found."""
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    machine = Machine(tmp_path / "home", tmp_path / "project")
    (machine.project / "fine.py").write_text('"""Fine."""\n')
    subprocess.run(
        ["git", "init", "-q"], cwd=machine.project, env=machine.environ(), check=True
    )
    commit(machine, "start")
    return machine


def ask_gate(machine: Machine, *words: str, **environ: str) -> Done:
    return machine.run("council", "gate", "--json", *words, PATH=BARE, **environ)


@pytest.mark.parametrize("name", ["claude", "shellchekc"])
def test_nothing_passes_without_those_that_are_required(
    clean: Machine, name: str
) -> None:
    (clean.project / "bridgehead.toml").write_text(
        f'[council]\nrequire = ["ruff", "{name}"]\n'
    )
    commit(clean, "require somebody")

    done = review(clean, "fine.py", "--runtime", "static", "--gate", "fail")
    told = review(clean, "fine.py", "--runtime", "static")
    gate = ask_gate(clean, "--allow-incomplete", "in a hurry")

    assert (done.code, told.code, gate.code) == (3, 0, 3)
    assert (done.json["verdict"], done.json["incomplete"]) == (None, True)
    assert done.json["required_missing"] == [name]
    assert {"static", "ruff"} <= set(done.json["looked"])
    assert f"required_missing:{name}" in done.json["warnings"]
    refusal = f"{name} did not look to the end and is required"
    assert refusal in gate.json["refused_because"]
    shown = clean.run("council", "show", PATH=BARE)
    assert f"nothing found, but {name} did not look to the end" in shown.out


def test_what_is_required_and_looked_passes(clean: Machine) -> None:
    words = ("fine.py", "--runtime", "static", "--require", "ruff", "--gate", "fail")

    done = review(clean, *words, BRIDGEHEAD_COUNCIL_REQUIRE="static")

    assert (done.code, done.json["verdict"]) == (0, "PASS")
    assert ask_gate(clean, "--require", "ruff", "--require", "static").code == 0
    refused = ask_gate(clean, BRIDGEHEAD_COUNCIL_REQUIRE="gemini")
    assert refused.code == 3
    assert refused.json["refused_because"] == [
        "gemini did not look to the end and is required"
    ]


def test_a_change_cannot_drop_what_is_required(clean: Machine) -> None:
    settings = clean.project / "bridgehead.toml"
    settings.write_text('[council]\nrequire = ["claude"]\n')
    commit(clean, "require somebody")
    settings.write_text("")
    (clean.project / "new.py").write_text('"""New."""\n')
    commit(clean, "require nobody")

    done = review(
        clean, "--diff", "HEAD~1", "--runtime", "static", "--gate", "concerns"
    )
    gate = ask_gate(clean)

    assert (done.code, gate.code) == (3, 3)
    assert done.json["required_missing"] == ["claude"]


def test_what_was_not_looked_at_passes_only_where_the_user_says_so(
    clean: Machine,
) -> None:
    (clean.project / "main.c").write_text("int main(void) { return 0; }\n")
    (clean.project / "bridgehead.toml").write_text('[council]\nunread = "say"\n')
    words = (".", "--runtime", "static", "--gate", "fail")

    refused = review(clean, *words)
    refused_later = ask_gate(clean)
    said = review(clean, *words, BRIDGEHEAD_COUNCIL_UNREAD="say")
    said_later = ask_gate(clean, BRIDGEHEAD_COUNCIL_UNREAD="say")
    missed = ask_gate(clean, "--require", "codex", BRIDGEHEAD_COUNCIL_UNREAD="say")
    shown = clean.run("council", "gate", PATH=BARE, BRIDGEHEAD_COUNCIL_UNREAD="say")
    assert clean.run("config", "trust").code == 0
    trusted = ask_gate(clean)

    assert (refused.code, refused_later.code) == (3, 3)
    assert "council.unread ignored because the file is not trusted" in refused.err
    assert (said.code, said_later.code, trusted.code) == (0, 0, 0)
    assert (said.json["verdict"], said.json["unread"]) == (None, ["main.c"])
    (line,) = said_later.json["not_looked_at"]
    assert line.startswith("not looked at") and "main.c" in line
    assert "main.c" in shown.out
    assert missed.code == 3
