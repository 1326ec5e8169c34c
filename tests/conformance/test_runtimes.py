"""Recorded runs of the real agent CLIs go through our readers with the outcome that runtimes §11 gives.

The rules below are that section as tables; which recordings exist is decided by the vectors' index alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bridgehead.contract.words import ErrorClass
from bridgehead.council.runtimes.acp import read_acp
from bridgehead.council.runtimes.claude import read_claude
from bridgehead.council.runtimes.codex import read_codex
from bridgehead.council.runtimes.exchange import (
    CallOutcome,
    HttpReply,
    RuntimeAnswer,
    RuntimeRefusal,
    RuntimeRequest,
)
from bridgehead.council.runtimes.gemini import read_gemini
from bridgehead.council.runtimes.opencode import (
    OpencodeServer,
    listed_models,
    read_opencode,
)
from bridgehead.host.command import CommandResult, Ended
from support import vector_files

READERS: dict[str, Callable[[CommandResult], CallOutcome]] = {
    "claude": read_claude,
    "codex": read_codex,
    "gemini": read_gemini,
    "opencode": read_opencode,
}

BY_SCENARIO: dict[str, set[ErrorClass]] = {
    "e401": {ErrorClass.AUTH},
    "e400key": {ErrorClass.AUTH},
    "e404": {ErrorClass.UNKNOWN_MODEL},
    "ectx": {ErrorClass.TOO_LONG},
    "e429": {ErrorClass.RATE_LIMIT},
    "equota": {ErrorClass.QUOTA},
    "e500": {ErrorClass.SERVER_ERROR},
    "e529": {ErrorClass.SERVER_ERROR},
    "malformed": {ErrorClass.MALFORMED},
    "badsse": {ErrorClass.MALFORMED},
}
# Scenario `ok` with an exit code other than 0: what the case's name says went wrong.
BY_NAME: dict[str, ErrorClass] = {
    "badflag": ErrorClass.BAD_USAGE,
    "ask-for-approval-flag": ErrorClass.BAD_USAGE,
    "resume-sandbox-flag": ErrorClass.BAD_USAGE,
    "models-list": ErrorClass.BAD_USAGE,
    "badresume": ErrorClass.UNKNOWN_SESSION,
    "badsession": ErrorClass.UNKNOWN_SESSION,
    "othercwd": ErrorClass.UNKNOWN_SESSION,
    "down": ErrorClass.UNREACHABLE,
    "emptyprompt": ErrorClass.NO_PROMPT,
    "nokey": ErrorClass.AUTH,
    "nogit": ErrorClass.UNTRUSTED_FOLDER,
    "untrusted": ErrorClass.UNTRUSTED_FOLDER,
    "unknown-model": ErrorClass.UNKNOWN_MODEL,
    "unknown-provider": ErrorClass.UNKNOWN_MODEL,
}
GOES_WELL = ("ok", "toolwrite", "toolbash")
TEXT_FORMAT = ("codex/success-text", "claude/err-text-e401")
OTHER_COMMANDS = ("auth-", "login-", "models", "session-list", "list-sessions")


def recordings() -> Iterable[Any]:
    index = vector_files.load("runtimes", "index.json")
    if index is None:
        yield vector_files.absent("runtimes", "index.json", values=2)
        return
    for entry in index["files"]:
        if not vector_files.is_there("runtimes", entry["file"]):
            yield vector_files.absent("runtimes", entry["file"], values=2)
            continue
        name = entry["file"].rsplit(".", 1)[0]
        document = (
            vector_files.load("runtimes", entry["file"])
            if entry["file"].endswith(".json")
            else None
        )
        yield pytest.param(name, document, id=f"runtimes-{name.replace('/', '-')}")


def is_prompt_run(name: str, document: Any) -> bool:
    case = name.partition("/")[2]
    # `codex models list` is the one of these commands that is taken for a prompt, and refused.
    other = case.startswith(OTHER_COMMANDS) and case != "models-list"
    return (
        isinstance(document, dict)
        and "scenario" in document
        and not other
        and name not in TEXT_FORMAT
    )


def as_result(recorded: dict[str, Any]) -> CommandResult:
    """A recording as the runner would have returned it: killed by signal N is code 128 + N."""
    code = recorded["exit_code"]
    return CommandResult(
        argv=tuple(recorded["argv"]),
        ended=Ended.EXITED,
        exit_code=code if code >= 0 else 128 - code,
        started_at=datetime(2026, 11, 15, tzinfo=UTC),
        stdout=recorded["stdout"].encode(),
        stderr=recorded["stderr"].encode(),
    )


def expected_classes(cli: str, case: str, scenario: str) -> set[ErrorClass] | None:
    """The classes a refused run may have; None when section 11 does not say."""
    if scenario == "cut":
        return {ErrorClass.MALFORMED}
    if scenario == "equota" and cli == "gemini":
        return {ErrorClass.QUOTA, ErrorClass.RATE_LIMIT}
    if scenario in BY_SCENARIO:
        return BY_SCENARIO[scenario]
    named = [
        error_class for word, error_class in BY_NAME.items() if case.endswith(word)
    ]
    return set(named) or None


def goes_well(cli: str, recorded: dict[str, Any]) -> bool:
    if recorded["scenario"] == "cut":
        return cli in ("claude", "gemini")
    return recorded["scenario"] in GOES_WELL and recorded["exit_code"] == 0


@pytest.mark.parametrize(("name", "recorded"), list(recordings()))
def test_a_recorded_run_is_read_as_what_it_was(name: str, recorded: Any) -> None:
    if not is_prompt_run(name, recorded):
        read_something_else(name, recorded)
        return
    cli, _, case = name.partition("/")
    outcome = READERS[cli](as_result(recorded))

    if goes_well(cli, recorded):
        assert isinstance(outcome, RuntimeAnswer)
        assert outcome.text.strip()
        assert outcome.session
        return
    assert isinstance(outcome, RuntimeRefusal)
    classes = expected_classes(cli, case, recorded["scenario"])
    if recorded["exit_code"] >= 0 and recorded["scenario"] != "hang":
        assert classes, (
            f"section 11 of the runtimes specification does not name the case {case}"
        )
    if classes is not None:
        assert outcome.error_class in classes


def read_something_else(name: str, recorded: Any) -> None:
    """Recordings of other commands go through the reader that exists for them."""
    match name.partition("/")[::2]:
        case ("claude", case) if case.startswith("auth-"):
            assert (recorded["exit_code"] == 0) is json.loads(recorded["stdout"])[
                "loggedIn"
            ]
        case ("codex", case) if case.startswith("login-"):
            assert (recorded["exit_code"] == 0) is (
                "Not logged in" not in recorded["stderr"]
            )
        case ("opencode", "serve-http"):
            read_exchanges(recorded)
        case ("opencode", case) if case.startswith("models"):
            assert listed_models(recorded["stdout"]) == recorded["stdout"].split()
        case (_, case) if case.startswith("acp-"):
            read_conversation(recorded, succeeds=case == "acp-ok")
        case _:
            pytest.skip(
                f"{name}: another protocol or command, which the product does not use"
            )


def read_conversation(events: list[dict[str, Any]], *, succeeds: bool) -> None:
    """Two questions in one ACP session; each ends with a result or an error."""
    ends = [
        number
        for number, event in enumerate(events)
        if event["event"].startswith("prompt ")
    ]
    assert len(ends) == 2
    for begin, end in ((0, ends[0]), (ends[0] + 1, ends[1])):
        outcome = read_acp(events[begin : end + 1])
        if succeeds:
            assert isinstance(outcome, RuntimeAnswer), outcome
            assert outcome.text.startswith("FAKE-REPLY")
            assert outcome.usage.tokens_in == 11 and outcome.usage.tokens_out in (7, 9)
        else:
            assert isinstance(outcome, RuntimeRefusal), outcome
            assert outcome.error_class is ErrorClass.AUTH


# What a recorded reply to a prompt means, by its HTTP status (runtimes §6).
BY_STATUS = {
    400: ErrorClass.BAD_USAGE,
    401: ErrorClass.AUTH,
    404: ErrorClass.UNKNOWN_SESSION,
    500: ErrorClass.UNKNOWN_MODEL,
}


def read_exchanges(recorded: list[dict[str, Any]]) -> None:
    """Every recorded prompt to an opencode server goes through the reader of that connection."""
    server = OpencodeServer("http://127.0.0.1:4096", "password", HttpReply(200, "{}"))
    ask = RuntimeRequest("x", Path("/snapshot"), 60, session="ses_1")
    prompts = [
        one
        for one in recorded
        if one["request"]["method"] == "POST"
        and one["request"]["path"].endswith("/message")
    ]
    assert prompts
    for exchange in prompts:
        outcome = server.read(
            ask, HttpReply(exchange["status"], json.dumps(exchange["response"]))
        )
        if exchange["status"] == 200:
            assert isinstance(outcome, RuntimeAnswer)
            assert outcome.text.strip()
            assert outcome.session
        else:
            assert isinstance(outcome, RuntimeRefusal)
            assert outcome.error_class is BY_STATUS[exchange["status"]]
