"""What the readers make of runs that the recordings do not hold: odd characters, odd codes, refused accounts."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from bridgehead.contract.words import ErrorClass
from bridgehead.council.replies.reply import open_envelope
from bridgehead.council.runtimes.claude import read_claude
from bridgehead.council.runtimes.codex import read_codex
from bridgehead.council.runtimes.exchange import (
    CallOutcome,
    RuntimeAnswer,
    RuntimeRefusal,
)
from bridgehead.council.runtimes.gemini import read_gemini
from bridgehead.council.runtimes.opencode import read_opencode
from bridgehead.host.command import CommandResult, Ended

# Line ends for Python, plain characters for JSON: programs print them as they are.
SPOKEN = "first\u2028second\x85third\x0b"


def ran(code: int, printed: str = "", complained: str = "") -> CommandResult:
    at = datetime(2026, 11, 15, tzinfo=UTC)
    return CommandResult(
        ("x",),
        Ended.EXITED,
        code,
        at,
        stdout=printed.encode(),
        stderr=complained.encode(),
    )


def lines(*events: dict[str, object]) -> str:
    return "".join(json.dumps(event, ensure_ascii=False) + "\n" for event in events)


CLAUDE = lines(
    {"type": "result", "is_error": False, "result": SPOKEN, "session_id": "s"}
)
CODEX = lines(
    {"type": "thread.started", "thread_id": "s"},
    {"type": "item.completed", "item": {"type": "agent_message", "text": SPOKEN}},
    {"type": "turn.completed", "usage": {}},
)
GEMINI = lines(
    {"type": "init", "session_id": "s"},
    {"type": "message", "role": "assistant", "content": SPOKEN},
    {"type": "result", "status": "success", "stats": {}},
)
OPENCODE = lines(
    {"type": "step_start", "sessionID": "s"},
    {"type": "text", "sessionID": "s", "part": {"text": SPOKEN}},
    {"type": "step_finish", "sessionID": "s", "part": {"reason": "stop"}},
)
READERS: list[tuple[Callable[[CommandResult], CallOutcome], str]] = [
    (read_claude, CLAUDE),
    (read_codex, CODEX),
    (read_gemini, GEMINI),
    (read_opencode, OPENCODE),
]


@pytest.mark.parametrize(("read", "printed"), READERS)
def test_a_line_separator_inside_an_answer_ends_no_line(
    read: Callable[[CommandResult], CallOutcome], printed: str
) -> None:
    outcome = read(ran(0, printed))

    assert isinstance(outcome, RuntimeAnswer)
    assert outcome.text == SPOKEN


@pytest.mark.parametrize(("read", "printed"), READERS)
@pytest.mark.parametrize("code", [-15, 137])
def test_a_killed_program_has_not_answered_whatever_it_had_printed(
    read: Callable[[CommandResult], CallOutcome], printed: str, code: int
) -> None:
    assert isinstance(read(ran(code, printed)), RuntimeRefusal)


def test_a_line_separator_inside_an_event_does_not_break_its_envelope() -> None:
    assert open_envelope(CODEX).text == SPOKEN


def test_codex_code_2_is_a_wrong_command_line_whatever_it_says() -> None:
    outcome = read_codex(
        ran(
            2,
            complained="error: a value is required for '--model <MODEL>' but none was given",
        )
    )

    assert isinstance(outcome, RuntimeRefusal)
    assert outcome.error_class is ErrorClass.BAD_USAGE


def error_object(message: str, code: int) -> str:
    return json.dumps(
        {
            "session_id": "s",
            "error": {"type": "Error", "message": message, "code": code},
        },
        indent=2,
    )


@pytest.mark.parametrize(
    ("code", "complained", "expected"),
    [
        (
            41,
            "IneligibleTierError: this account\n" + error_object("sign in", 41),
            ErrorClass.RETIRED,
        ),
        (41, "Failed to sign in: IneligibleTierError", ErrorClass.RETIRED),
        (42, error_object("No input provided via stdin.", 42), ErrorClass.NO_PROMPT),
        (173, "the server would not", ErrorClass.RATE_LIMIT),
        (247, "the server would not", ErrorClass.SERVER_ERROR),
        (145, error_object("the server would not", 1), ErrorClass.AUTH),
        (
            1,
            "x" * 70_000 + "\n  status: 404\n" + error_object("no", 1),
            ErrorClass.UNKNOWN_MODEL,
        ),
    ],
)
def test_gemini_refusals_are_read_from_text_trace_and_exit_code(
    code: int, complained: str, expected: ErrorClass
) -> None:
    outcome = read_gemini(ran(code, complained=complained))

    assert isinstance(outcome, RuntimeRefusal)
    assert outcome.error_class is expected


CUT = "Model stream ended without a finish reason."
EMPTY = "The model returned an empty response with no text or thoughts."


@pytest.mark.parametrize(
    ("code", "said", "expected"),
    [(1, CUT, ErrorClass.MALFORMED), (0, EMPTY, ErrorClass.EMPTY)],
)
def test_gemini_may_say_in_an_event_why_its_stream_failed(
    code: int, said: str, expected: ErrorClass
) -> None:
    printed = lines(
        {"type": "init", "session_id": "s"},
        {"type": "error", "severity": "error", "message": said},
        {"type": "result", "status": "error", "stats": {}},
    )
    outcome = read_gemini(ran(code, printed))

    assert isinstance(outcome, RuntimeRefusal)
    assert (outcome.error_class, outcome.message) == (expected, said)


@pytest.mark.parametrize(
    "printed",
    [
        json.dumps(
            {"session_id": "s", "response": "all it said", "error": {"message": CUT}}
        ),
        lines(
            {"type": "init", "session_id": "s"},
            {"type": "message", "role": "assistant", "content": "all it said"},
            {"type": "error", "severity": "error", "message": CUT},
            {"type": "result", "status": "error", "stats": {}},
        ),
    ],
    ids=["json", "stream-json"],
)
def test_what_gemini_said_before_its_stream_was_cut_is_used_in_both_formats(
    printed: str,
) -> None:
    outcome = read_gemini(ran(0, printed))

    assert isinstance(outcome, RuntimeAnswer)
    assert (outcome.text, outcome.session) == ("all it said", "s")


def test_an_error_instead_of_geminis_answer_is_read() -> None:
    outcome = read_gemini(
        ran(0, '{"response": "", "error": {"message": "Overloaded", "code": 503}}')
    )

    assert isinstance(outcome, RuntimeRefusal)
    assert outcome.error_class is ErrorClass.SERVER_ERROR


@pytest.mark.parametrize("read", [read for read, _ in READERS])
@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("on_stderr", [False, True])
@pytest.mark.parametrize(
    ("prose", "expected"),
    [
        ("Not logged in \u00b7 Please run /login", ErrorClass.AUTH),
        ("Your credit balance is too low to access the API", ErrorClass.QUOTA),
        ("You have exhausted your daily quota on this model.", ErrorClass.QUOTA),
        ("This version has been discontinued. Update to go on.", ErrorClass.RETIRED),
        ("IneligibleTierError: this account is not eligible", ErrorClass.RETIRED),
    ],
)
def test_a_refusal_in_prose_is_recognised_whatever_the_exit_code(
    read: Callable[[CommandResult], CallOutcome],
    code: int,
    on_stderr: bool,
    prose: str,
    expected: ErrorClass,
) -> None:
    outcome = read(
        ran(code, "" if on_stderr else f"{prose}\n", f"{prose}\n" if on_stderr else "")
    )

    assert isinstance(outcome, RuntimeRefusal)
    assert outcome.error_class is expected
    assert outcome.message.startswith(prose[:20])
