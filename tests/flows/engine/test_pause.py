"""Pausing, going on, starting over, waiting here."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridgehead.errors import FileError
from bridgehead.exit_codes import ExitCode
from bridgehead.flows import (
    Context,
    Failed,
    Flow,
    MockAgentInvoker,
    RunInputs,
    RunRequest,
    run_flow,
)
from bridgehead.flows.errors import FlowFailed, ForeignAnswer, NoCheckpoint
from bridgehead.flows.files.checkpoint_files import SIZE_LIMITS
from bridgehead.flows.words import REQUEST_FILE, RESPONSE_FILE, RunStatus


def make(function: Callable[..., Any], version: str = "1", **details: Any) -> Flow:
    return Flow("demo", version, function, **details)


def one_question(ctx: Context) -> str:
    answer: str = ctx.ask("question", agent="reviewer", prompt="Ready?")
    return f"<{answer}>"


ONE = make(one_question)


def test_a_flow_pauses_for_an_answer_and_ends_with_it(flow_project: Any) -> None:
    paused = flow_project.run(ONE)
    assert (paused.status, paused.exit_code, paused.actions) == (
        RunStatus.WAITING,
        ExitCode.WAITING,
        ("fresh_start",),
    )
    assert flow_project.files() == {".agent-request.json"}
    request = flow_project.request()
    assert list(request) == [
        *("request_id", "version", "phase", "phase_name", "agent_name", "prompt"),
        *("context", "timeout_seconds", "created_at", "retry_count"),
    ]
    assert request["version"] == "1.1"
    assert request["context"]["response_file"] == str(flow_project.response_path)
    assert paused.pause.line() == (
        f'BRIDGEHEAD-PAUSE {{"request_file":"{flow_project.request_path}",'
        f'"response_file":"{flow_project.response_path}",'
        f'"request_id":"{request["request_id"]}","agent_name":"reviewer","timeout_seconds":120}}'
    )

    flow_project.answer("yes")
    done = flow_project.resume(ONE)
    assert (done.status, done.exit_code, done.result, done.actions) == (
        RunStatus.COMPLETED,
        0,
        "<yes>",
        ("accept",),
    )
    assert flow_project.files() == set()


def test_a_finished_flow_says_so_when_it_is_resumed_again(flow_project: Any) -> None:
    flow_project.run(ONE)
    flow_project.answer("yes")
    flow_project.resume(ONE)
    again = flow_project.resume(ONE)
    assert (again.actions, again.result, again.exit_code) == (
        ("already_complete",),
        "<yes>",
        0,
    )


def test_resuming_where_nothing_is_paused_is_refused(flow_project: Any) -> None:
    with pytest.raises(NoCheckpoint):
        flow_project.resume(ONE)
    flow_project.put_response(b"orphan")
    with pytest.raises(NoCheckpoint):
        flow_project.resume(ONE)
    assert flow_project.files() == {".agent-response.json"}


def test_a_forgotten_resume_flag_does_not_ask_again(flow_project: Any) -> None:
    flow_project.run(ONE)
    flow_project.answer("yes")
    done = flow_project.run(ONE)
    assert done.result == "<yes>"
    assert "resumed the paused run" in done.notices[0]


def test_resuming_without_an_answer_waits_and_leaves_the_request_as_it_is(
    flow_project: Any,
) -> None:
    flow_project.run(ONE)
    before = flow_project.request_path.read_bytes()
    for _ in range(3):
        assert flow_project.resume(ONE).actions == ("wait",)
    assert flow_project.request_path.read_bytes() == before


def test_a_deleted_request_is_written_again_with_a_new_deadline(
    flow_project: Any,
) -> None:
    flow_project.run(ONE)
    before = flow_project.request()
    flow_project.request_path.unlink()
    flow_project.clock.advance(3600)
    assert flow_project.resume(ONE).actions == ("reissue",)
    assert flow_project.request() == {**before, "created_at": "2026-11-15T11:15:02Z"}


def test_an_answer_that_came_long_after_the_deadline_is_taken(
    flow_project: Any,
) -> None:
    flow_project.run(ONE)
    flow_project.answer("late")
    flow_project.clock.advance(100_000)
    assert flow_project.resume(ONE).result == "<late>"


def test_starting_over_moves_the_old_run_to_post_mortem(flow_project: Any) -> None:
    first = flow_project.run(ONE)
    old = flow_project.request()
    flow_project.answer("old")
    fresh = flow_project.run(ONE, fresh=True)
    assert fresh.actions == ("fresh_start",) and fresh.flow_id != first.flow_id
    assert flow_project.request()["request_id"] != old["request_id"]
    (folder,) = flow_project.post_mortems()
    assert {path.name for path in folder.iterdir()} == {
        ".agent-request.json",
        ".agent-response.json",
    }
    flow_project.response_path.write_bytes(
        (folder / ".agent-response.json").read_bytes()
    )
    assert flow_project.resume(ONE).actions == ("rejected:foreign", "wait")


def test_an_answer_that_was_there_before_the_request_is_put_away(
    flow_project: Any,
) -> None:
    flow_project.put_response(json.dumps({"request_id": "x"}).encode())
    flow_project.run(ONE)
    assert flow_project.files() == {".agent-request.json"}
    assert len(flow_project.rejected()) == 1


def test_waiting_for_the_answer_in_the_same_process(
    flow_project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        flow_project.clock.advance(seconds)
        if len(naps) == 6:
            flow_project.answer("at last")

    monkeypatch.setattr(flow_project.clock, "sleep", nap)
    done = flow_project.run(ONE, wait_seconds=60)
    assert done.result == "<at last>"
    assert naps == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0]


def test_waiting_ends_when_its_time_is_up(flow_project: Any) -> None:
    paused = flow_project.run(ONE, wait_seconds=30)
    assert paused.exit_code == 42
    assert flow_project.clock.monotonic() == pytest.approx(30)


def test_an_ask_that_expires_while_it_is_waited_for_is_acted_upon(
    flow_project: Any,
) -> None:
    def work(ctx: Context) -> Any:
        return ctx.ask(
            "q",
            agent="a",
            prompt="?",
            expires=100,
            fallback=lambda failure: failure.reason,
        )

    assert (
        flow_project.run(Flow("demo", "1", work), wait_seconds=150).result == "expired"
    )


def test_a_deadline_that_passes_while_waiting_changes_nothing(
    flow_project: Any,
) -> None:
    paused = flow_project.run(ONE, wait_seconds=150)
    assert (paused.exit_code, paused.actions) == (42, ("fresh_start",))


def test_with_an_invoker_the_flow_never_pauses(flow_project: Any) -> None:
    mock = MockAgentInvoker({"reviewer": "mocked"})
    done = flow_project.run(ONE, invoker=mock)
    assert (done.result, flow_project.files()) == ("<mocked>", set())
    assert mock.invocations[0]["timeout_seconds"] == 120


def test_an_invoker_gets_the_same_retries_as_a_handler(flow_project: Any) -> None:
    mock = MockAgentInvoker()
    mock.add_error("reviewer", "TIMEOUT", "slow")
    mock.add_sequence("reviewer", ["finally", ValueError("never reached")])
    assert flow_project.run(ONE, invoker=mock).result == "<finally>"
    assert [call["timeout_seconds"] for call in mock.invocations] == [120, 240]

    mock.add_error("reviewer", "AGENT_NOT_FOUND", "who?")
    mock._sequences["reviewer"].reverse()
    with pytest.raises(FlowFailed, match="AGENT_NOT_FOUND: who"):
        flow_project.run(ONE, invoker=mock)


def test_a_mock_without_an_answer_fails_the_ask(flow_project: Any) -> None:
    with pytest.raises(
        FlowFailed, match="No mock response configured for agent: reviewer"
    ):
        flow_project.run(ONE, invoker=MockAgentInvoker())
    assert MockAgentInvoker().has_response() is False


@pytest.mark.parametrize(
    ("data", "note"),
    [
        (b'{"request_id": "0f8b', "malformed"),
        (b"\xff\xfe", "malformed"),
        (b'{"sections": []}', "no_id"),
        (b'{"request_id": 7}', "no_id"),
        (b'{"request_id": "7c9e6679-7425-40de-944b-e07fc1f90ae7"}', "foreign"),
        (b"", "malformed"),
    ],
)
def test_what_answers_nothing_is_put_away_and_the_flow_waits_on(
    flow_project: Any, data: bytes, note: str
) -> None:
    flow_project.run(ONE)
    flow_project.put_response(data)
    assert flow_project.resume(ONE).actions == (f"rejected:{note}", "wait")
    (kept,) = flow_project.rejected()
    assert kept.read_bytes() == data
    flow_project.answer("yes")
    assert flow_project.resume(ONE).result == "<yes>"


def test_an_answer_that_is_too_large_is_put_away(
    flow_project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow_project.run(ONE)
    monkeypatch.setitem(SIZE_LIMITS, ".agent-response.json", 1000)
    flow_project.answer("x" * 1000)
    assert flow_project.resume(ONE).actions == ("rejected:malformed", "wait")
    assert flow_project.rejected()[0].stat().st_size > 1000


def test_an_answer_behind_a_link_is_put_away_and_not_read(
    flow_project: Any, tmp_path: Path
) -> None:
    flow_project.run(ONE)
    flow_project.answer("planted")
    flow_project.response_path.rename(tmp_path / "planted.json")
    flow_project.response_path.symlink_to(tmp_path / "planted.json")
    assert flow_project.resume(ONE).actions == ("rejected:malformed", "wait")
    assert (tmp_path / "planted.json").exists()


def test_only_the_first_answer_counts(flow_project: Any) -> None:
    def work(ctx: Context) -> list[str]:
        return [
            ctx.ask("q", agent="a", prompt="1"),
            ctx.ask("q", agent="a", prompt="2"),
        ]

    flow_project.run(make(work))
    first = flow_project.answer("one")
    flow_project.resume(make(work))
    flow_project.put_response(
        json.dumps({**first, "response": "changed my mind"}).encode()
    )
    assert flow_project.resume(make(work)).actions == ("rejected:foreign", "wait")
    flow_project.answer("two")
    assert flow_project.resume(make(work)).result == ["one", "two"]


@pytest.mark.parametrize("name", [REQUEST_FILE, RESPONSE_FILE])
def test_a_file_that_cannot_be_removed_is_no_failure_of_the_flow(
    flow_project: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    flow_project.run(ONE)
    flow_project.answer("x")
    unlink = Path.unlink

    def broken(path: Path, missing_ok: bool = False) -> None:
        if path.name == name:
            raise OSError(errno.EIO, "Input/output error", str(path))
        unlink(path, missing_ok)

    with (
        monkeypatch.context() as disk,
        pytest.raises(FileError, match=f"{name} was not removed"),
    ):
        disk.setattr(Path, "unlink", broken)
        flow_project.resume(ONE)

    assert flow_project.resume(ONE).result == "<x>"


def test_the_tolerant_profile_is_for_those_who_opt_in(flow_project: Any) -> None:
    flow_project.run(ONE)
    flow_project.answer(None, response={"a": 1}, note="x")
    assert flow_project.resume(ONE, tolerant=True).result == '<{"a":1}>'


def test_an_answer_of_another_account_is_refused_until_it_is_accepted(
    flow_project: Any,
) -> None:
    flow_project.run(ONE)
    flow_project.answer("x")
    before = flow_project.response_path.read_bytes()
    others = RunInputs(clock=flow_project.clock, response_owners=frozenset({12345}))
    with pytest.raises(ForeignAnswer, match="belongs to uid"):
        run_flow(ONE, RunRequest(root=flow_project.root, resume=True), others)
    assert flow_project.response_path.read_bytes() == before
    accepted = RunRequest(
        root=flow_project.root, resume=True, accept_foreign_owner=True
    )
    assert run_flow(ONE, accepted, others).result == "<x>"


def test_the_failure_of_an_ask_reads_as_a_sentence() -> None:
    assert str(Failed("TIMEOUT", "no answer")) == "TIMEOUT: no answer"
    assert str(Failed("cancelled")) == "cancelled"
