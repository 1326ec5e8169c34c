"""Flows in one process after another: what is recorded, replayed, asked, settled, refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from bridgehead.exit_codes import ExitCode
from bridgehead.flows import (
    AskFailed,
    Context,
    Failed,
    Flow,
    MockAgentInvoker,
    RunOptions,
    StepFailed,
    asking,
    flow,
)
from bridgehead.flows.announcer import FlowEvent
from bridgehead.flows.errors import (
    FlowFailed,
    FlowMistake,
    ForeignAnswer,
    IncompatibleFlow,
    NoCheckpoint,
    NonDeterministic,
    OtherRun,
)
from bridgehead.flows.words import RunStatus

Count = Callable[[str], int]


@dataclass
class Review:
    verdict: str
    score: int


def make(function: Callable[..., Any], version: str = "1", **details: Any) -> Flow:
    return Flow("demo", version, function, **details)


def one_question(ctx: Context) -> str:
    answer: str = ctx.ask("question", agent="reviewer", prompt="Ready?")
    return f"<{answer}>"


ONE = make(one_question)


# Pausing and going on


def test_a_flow_pauses_for_an_answer_and_ends_with_it(theatre: Any) -> None:
    paused = theatre.run(ONE)
    assert (paused.status, paused.exit_code, paused.actions) == (
        RunStatus.WAITING,
        ExitCode.WAITING,
        ("fresh_start",),
    )
    assert theatre.files() == {".agent-request.json"}
    request = theatre.request()
    assert list(request) == [
        *("request_id", "version", "phase", "phase_name", "agent_name", "prompt"),
        *("context", "timeout_seconds", "created_at", "retry_count"),
    ]
    assert request["version"] == "1.1"
    assert request["context"]["response_file"] == str(theatre.response_path)
    assert paused.pause.line() == (
        f'BRIDGEHEAD-PAUSE {{"request_file":"{theatre.request_path}","response_file":"{theatre.response_path}",'
        f'"request_id":"{request["request_id"]}","agent_name":"reviewer","timeout_seconds":120}}'
    )

    theatre.answer("yes")
    done = theatre.resume(ONE)
    assert (done.status, done.exit_code, done.result, done.actions) == (
        RunStatus.COMPLETED,
        0,
        "<yes>",
        ("accept",),
    )
    assert theatre.files() == set()


def test_a_finished_flow_says_so_when_it_is_resumed_again(theatre: Any) -> None:
    theatre.run(ONE)
    theatre.answer("yes")
    theatre.resume(ONE)
    again = theatre.resume(ONE)
    assert (again.actions, again.result, again.exit_code) == (("already_complete",), "<yes>", 0)


def test_resuming_where_nothing_is_paused_is_refused(theatre: Any) -> None:
    with pytest.raises(NoCheckpoint):
        theatre.resume(ONE)
    theatre.put_response(b"orphan")
    with pytest.raises(NoCheckpoint):
        theatre.resume(ONE)
    assert theatre.files() == {".agent-response.json"}


def test_a_forgotten_resume_flag_does_not_ask_again(theatre: Any) -> None:
    theatre.run(ONE)
    theatre.answer("yes")
    done = theatre.run(ONE)
    assert done.result == "<yes>"
    assert "went on with the paused run" in done.notices[0]


def test_resuming_without_an_answer_waits_and_leaves_the_request_as_it_is(theatre: Any) -> None:
    theatre.run(ONE)
    before = theatre.request_path.read_bytes()
    for _ in range(3):
        assert theatre.resume(ONE).actions == ("wait",)
    assert theatre.request_path.read_bytes() == before


def test_a_deleted_request_is_written_again_with_a_new_deadline(theatre: Any) -> None:
    theatre.run(ONE)
    before = theatre.request()
    theatre.request_path.unlink()
    theatre.clock.advance(3600)
    assert theatre.resume(ONE).actions == ("reissue",)
    assert theatre.request() == {**before, "created_at": "2026-11-15T11:15:02Z"}


def test_an_answer_that_came_long_after_the_deadline_is_taken(theatre: Any) -> None:
    theatre.run(ONE)
    theatre.answer("late")
    theatre.clock.advance(100_000)
    assert theatre.resume(ONE).result == "<late>"


def test_starting_over_moves_the_old_run_to_post_mortem(theatre: Any) -> None:
    first = theatre.run(ONE)
    old = theatre.request()
    theatre.answer("old")
    fresh = theatre.run(ONE, fresh=True)
    assert fresh.actions == ("fresh_start",) and fresh.flow_id != first.flow_id
    assert theatre.request()["request_id"] != old["request_id"]
    (grave,) = theatre.graves()
    assert {path.name for path in grave.iterdir()} == {".agent-request.json", ".agent-response.json"}
    theatre.response_path.write_bytes((grave / ".agent-response.json").read_bytes())
    assert theatre.resume(ONE).actions == ("rejected:foreign", "wait")


def test_an_answer_that_was_there_before_the_request_is_put_away(theatre: Any) -> None:
    theatre.put_response(json.dumps({"request_id": "x"}).encode())
    theatre.run(ONE)
    assert theatre.files() == {".agent-request.json"}
    assert len(theatre.rejected()) == 1


# Steps


def test_a_step_runs_once_however_often_the_flow_is_resumed(theatre: Any, counter: Count) -> None:
    def work(ctx: Context) -> list[Any]:
        first = ctx.step("count", counter, "first")
        answer = ctx.ask("q", agent="a", prompt="?")
        return [first, answer, ctx.step("count", counter, "first")]

    theatre.run(make(work))
    theatre.resume(make(work))
    theatre.answer("x")
    assert theatre.resume(make(work)).result == [1, "x", 2]


def test_results_have_the_type_the_step_promises_before_and_after_the_pause(theatre: Any) -> None:
    seen: list[Any] = []

    def review(name: str) -> Review:
        return Review(name, 3)

    def work(ctx: Context) -> None:
        seen.append(ctx.step("review", review, "good"))
        seen.append(ctx.step("plain", lambda: (1, 2)))
        seen.append(ctx.step("said", lambda: {"verdict": "v", "score": 1}, result=Review))
        ctx.ask("q", agent="a", prompt="?")

    theatre.run(make(work))
    theatre.resume(make(work))
    assert seen[:3] == seen[3:] == [Review("good", 3), [1, 2], Review("v", 1)]


def test_a_step_that_failed_fails_again_without_being_run(theatre: Any, counter: Count) -> None:
    def fragile() -> None:
        counter("fragile")
        raise ValueError("broken")

    def work(ctx: Context) -> str:
        try:
            ctx.step("fragile", fragile)
        except StepFailed as failure:
            return f"{failure.error_type} {failure.message} {ctx.ask('q', agent='a', prompt='?')}"
        return "unreachable"

    theatre.run(make(work))
    theatre.answer("x")
    assert theatre.resume(make(work)).result == "ValueError broken x"
    assert counter("fragile") == 2


def test_time_randomness_and_environment_stay_as_they_were(
    theatre: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def work(ctx: Context) -> None:
        seen.append(
            [ctx.now(), ctx.uuid(), ctx.random(), ctx.env("FLOW_TEST"), ctx.env("NOT_SET", "d"), ctx.uuid()]
        )
        ctx.ask("q", agent="a", prompt="?")

    monkeypatch.setenv("FLOW_TEST", "before")
    theatre.run(make(work))
    monkeypatch.setenv("FLOW_TEST", "after")
    theatre.clock.advance(60)
    theatre.resume(make(work))
    assert seen[0] == seen[1]
    assert isinstance(seen[0][0], datetime) and seen[0][3:5] == ["before", "d"]
    assert seen[0][1] != seen[0][5]


def test_a_result_that_cannot_be_recorded_is_a_mistake_at_once(theatre: Any) -> None:
    with pytest.raises(FlowFailed, match="set cannot be recorded"):
        theatre.run(make(lambda ctx: ctx.step("s", lambda: {1, 2})))


def test_steps_and_fallbacks_must_not_use_the_context(theatre: Any) -> None:
    with pytest.raises(FlowFailed, match=r"step#0 used the flow's context"):
        theatre.run(make(lambda ctx: ctx.step("step", lambda: ctx.step("inner", int))))


@pytest.mark.parametrize("name", ["", "a/b", "a#1"])
def test_a_name_that_would_break_paths_is_refused(theatre: Any, name: str) -> None:
    with pytest.raises(FlowFailed, match="cannot name a step"):
        theatre.run(make(lambda ctx: ctx.step(name, int)))


# Asks


def test_a_typed_answer_is_checked_and_read(theatre: Any) -> None:
    def work(ctx: Context) -> str:
        review = ctx.ask("q", agent="a", prompt="?", result=Review)
        assert isinstance(review, Review)
        return review.verdict

    theatre.run(make(work))
    theatre.answer('Sure:\n```json\n{"verdict": "fine", "score": 4}\n```')
    assert theatre.resume(make(work)).result == "fine"


def test_an_answer_that_breaks_its_schema_takes_the_fallback_and_says_so(theatre: Any) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    def work(ctx: Context) -> Any:
        return ctx.ask(
            "q", agent="a", prompt="?", schema=schema, fallback=lambda failure: {"n": failure.reason}
        )

    theatre.run(make(work))
    assert '"required"' in theatre.request()["prompt"]
    theatre.answer('{"n": "many"}')
    done = theatre.resume(make(work))
    assert (done.actions, done.result) == (("fallback",), {"n": "VALIDATION_ERROR"})
    assert [(remark.kind, remark.path) for remark in done.remarks] == [("fallback", "q#0")]


def test_a_failure_without_a_fallback_is_an_exception_the_flow_may_handle(theatre: Any) -> None:
    def work(ctx: Context) -> str:
        try:
            ctx.ask("q", agent="a", prompt="?")
        except AskFailed as failed:
            return f"{failed.path} {failed.failure.reason} {ctx.ask('again', agent='a', prompt='?')}"
        return "unreachable"

    theatre.run(make(work))
    theatre.answer(None, status="error", error_type="PARSE_ERROR")
    theatre.resume(make(work))
    theatre.answer("x")
    assert theatre.resume(make(work)).result == "q#0 PARSE_ERROR x"


def test_a_deadline_is_a_value_for_those_who_ask_for_the_outcome(theatre: Any) -> None:
    def work(ctx: Context) -> list[Any]:
        outcome = ctx.ask_outcome("q", agent="a", prompt="?", timeout=10, max_retries=0)
        return [outcome.ok, outcome.timed_out, outcome.value]

    theatre.run(make(work))
    theatre.clock.advance(10)
    assert theatre.resume(make(work)).actions == ("wait",)
    theatre.clock.advance(0.001)
    assert theatre.resume(make(work)).result == [False, True, None]


def test_a_retry_is_a_new_request_and_an_old_answer_still_counts(theatre: Any) -> None:
    theatre.run(ONE)
    first = theatre.request()
    theatre.clock.advance(121)
    assert theatre.resume(ONE).actions == ("retry",)
    second = theatre.request()
    assert second["request_id"] != first["request_id"]
    assert (second["retry_count"], second["timeout_seconds"]) == (1, 240)

    theatre.answer("late", request_id=first["request_id"])
    assert theatre.resume(ONE).result == "<late>"


def test_a_failure_of_an_old_attempt_says_nothing_new(theatre: Any) -> None:
    theatre.run(ONE)
    first = theatre.request()
    theatre.answer(None, status="timeout")
    theatre.resume(ONE)
    assert theatre.files() == {".agent-request.json"}
    theatre.answer(None, status="error", request_id=first["request_id"])
    assert theatre.resume(ONE).actions == ("ignored:old_attempt", "wait")


def test_three_attempts_and_then_the_flow_must_do_without(theatre: Any) -> None:
    theatre.run(ONE)
    for _ in range(2):
        theatre.answer(None, status="error", error_type="INVOCATION_FAILED")
        assert theatre.resume(ONE).actions == ("retry",)
    theatre.answer(None, status="error", error_type="INVOCATION_FAILED", error_message="quota")
    with pytest.raises(FlowFailed, match="INVOCATION_FAILED: quota") as failed:
        theatre.resume(ONE)
    assert failed.value.exit_code == 1
    assert theatre.files() == set()


def test_the_limit_of_retries_stays_with_the_run(theatre: Any) -> None:
    theatre.run(ONE, options=RunOptions(max_retries=0))
    theatre.answer(None, status="timeout")
    with pytest.raises(FlowFailed):
        theatre.resume(ONE)


def test_a_cancelled_answer_stops_the_flow_and_keeps_its_files(theatre: Any) -> None:
    theatre.run(ONE)
    theatre.answer(None, status="cancelled", error_message="not today")
    with pytest.raises(FlowFailed, match="not today") as failed:
        theatre.resume(ONE)
    assert failed.value.error_type == "cancelled"
    assert theatre.files() == set()
    assert {path.name for path in failed.value.post_mortem.iterdir()} >= {".agent-request.json"}
    assert theatre.announcer.kinds[-1] == "flow.cancelled"


def test_a_missing_agent_stops_the_flow_and_names_those_there_are(theatre: Any) -> None:
    known = make(one_question, agents=("reviewer-pro", "tester"))
    theatre.run(known)
    theatre.answer(None, status="error", error_type="AGENT_NOT_FOUND")
    with pytest.raises(FlowFailed) as failed:
        theatre.resume(known)
    assert "closest: reviewer-pro" in failed.value.hint and "--on-missing-agent" in failed.value.hint


def test_without_agents_every_ask_takes_its_fallback_at_once(theatre: Any) -> None:
    def work(ctx: Context) -> str:
        answer: str = ctx.ask("q", agent="a", prompt="?", fallback=lambda failure: failure.reason)
        return answer

    done = theatre.run(make(work), options=RunOptions(heuristics_only=True))
    assert (done.result, done.actions) == ("heuristics_only", ("fresh_start",))
    assert theatre.files() == set()


@pytest.mark.parametrize(
    "described",
    [{"agent": "Not Legal"}, {"prompt": ""}, {"timeout": 0}, {"timeout": 90_000}, {"agent": "a" * 65}],
)
def test_a_request_its_own_schema_refuses_is_never_written(theatre: Any, described: dict[str, Any]) -> None:
    ask = {"agent": "a", "prompt": "?", **described}
    with pytest.raises(FlowFailed, match="cannot be sent"):
        theatre.run(make(lambda ctx: ctx.ask("q", **ask)))
    assert theatre.files() == set()


# Answers that are none


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
def test_what_answers_nothing_is_put_away_and_the_flow_waits_on(theatre: Any, data: bytes, note: str) -> None:
    theatre.run(ONE)
    theatre.put_response(data)
    assert theatre.resume(ONE).actions == (f"rejected:{note}", "wait")
    (kept,) = theatre.rejected()
    assert kept.read_bytes() == data
    theatre.answer("yes")
    assert theatre.resume(ONE).result == "<yes>"


def test_only_the_first_answer_counts(theatre: Any) -> None:
    def work(ctx: Context) -> list[str]:
        return [ctx.ask("q", agent="a", prompt="1"), ctx.ask("q", agent="a", prompt="2")]

    theatre.run(make(work))
    first = theatre.answer("one")
    theatre.resume(make(work))
    theatre.put_response(json.dumps({**first, "response": "changed my mind"}).encode())
    assert theatre.resume(make(work)).actions == ("rejected:foreign", "wait")
    theatre.answer("two")
    assert theatre.resume(make(work)).result == ["one", "two"]


def test_the_tolerant_profile_is_for_those_who_opt_in(theatre: Any) -> None:
    theatre.run(ONE)
    theatre.answer(None, response={"a": 1}, note="x")
    assert theatre.resume(ONE, tolerant=True).result == '<{"a":1}>'


# Several at once


def several(ctx: Context) -> list[Any]:
    return ctx.gather(
        asking("left", agent="a", prompt="left?"),
        lambda branch: [branch.step("s", lambda: 1), branch.ask("right", agent="b", prompt="right?")],
    )


def test_branches_wait_together_and_are_handed_out_one_by_one(theatre: Any) -> None:
    paused = theatre.run(make(several))
    assert paused.pause.outstanding == 2
    assert theatre.request()["prompt"] == "left?"
    theatre.clock.advance(60)
    theatre.answer("L")
    assert theatre.resume(make(several)).actions == ("accept",)
    # Queueing does not use up the time of a request.
    assert (theatre.request()["prompt"], theatre.request()["created_at"]) == (
        "right?",
        "2026-11-15T10:16:02Z",
    )
    theatre.answer("R")
    assert theatre.resume(make(several)).result == ["L", [1, "R"]]


def test_a_queued_request_may_be_answered_out_of_turn(theatre: Any) -> None:
    theatre.run(make(several))
    queued = theatre.announcer.asked_ids[1]
    theatre.answer("R", request_id=queued)
    assert theatre.resume(make(several)).actions == ("wait", "accept")
    theatre.answer("L")
    assert theatre.resume(make(several)).result == ["L", [1, "R"]]


def test_a_retry_keeps_its_place_before_the_queue(theatre: Any) -> None:
    theatre.run(make(several))
    theatre.answer(None, status="timeout")
    theatre.resume(make(several))
    assert (theatre.request()["prompt"], theatre.request()["retry_count"]) == ("left?", 1)


def test_a_map_is_a_branch_for_each_item(theatre: Any) -> None:
    def work(ctx: Context) -> list[str]:
        return ctx.map(
            "files", lambda branch, item: branch.ask("q", agent="a", prompt=item) + item, ["x", "y", "z"]
        )

    theatre.run(make(work))
    for answer in ("1", "2", "3"):
        theatre.answer(answer)
        last = theatre.resume(make(work))
    assert last.result == ["1x", "2y", "3z"]


def test_an_exception_in_one_branch_is_the_flows_to_handle(theatre: Any) -> None:
    def work(ctx: Context) -> str:
        try:
            ctx.gather(asking("q", agent="a", prompt="?"), lambda branch: branch.step("bad", lambda: 1 / 0))
        except StepFailed:
            return "handled"
        return "unreachable"

    assert theatre.run(make(work)).result == "handled"


# Nested


def test_a_nested_flow_is_one_record_once_it_has_ended(theatre: Any, counter: Count) -> None:
    @flow("inner", version="3")
    def inner(ctx: Context, topic: str) -> str:
        counter("inner")
        return topic + ctx.ask("q", agent="a", prompt=topic)

    def outer(ctx: Context) -> list[Any]:
        with ctx.scope("part") as part:
            first = part.call(inner, topic="one")
        return [first, ctx.call(inner, topic="two"), ctx.ask("q", agent="a", prompt="last")]

    theatre.run(make(outer))
    for answer in ("1", "2", "3"):
        theatre.answer(answer)
        last = theatre.resume(make(outer))
    assert last.result == ["one1", "two2", "3"]
    # Two runs each, one before and one after its answer; none after it had ended.
    assert counter("inner") == 5


# Changed code


def test_other_inputs_than_before_the_pause_are_refused_and_nothing_is_lost(theatre: Any) -> None:
    def version_a(ctx: Context) -> str:
        ctx.step("s", str, "a")
        answer: str = ctx.ask("q", agent="a", prompt="?")
        return answer

    def version_b(ctx: Context) -> str:
        ctx.step("s", str, "b")
        answer: str = ctx.ask("q", agent="a", prompt="?")
        return answer

    theatre.run(make(version_a))
    theatre.answer("x")
    with pytest.raises(NonDeterministic, match="the inputs differ at s#0"):
        theatre.resume(make(version_b))
    assert theatre.resume(make(version_a)).result == "x"


def test_another_kind_of_call_at_the_same_place_is_refused(theatre: Any) -> None:
    theatre.run(make(lambda ctx: [ctx.step("s", int), ctx.ask("q", agent="a", prompt="?")]))
    with pytest.raises(NonDeterministic, match="ask instead of step"):
        theatre.resume(make(lambda ctx: ctx.ask("s", agent="a", prompt="?")))


def test_a_recorded_step_that_is_never_reached_again_is_refused(theatre: Any) -> None:
    theatre.run(make(lambda ctx: [ctx.step("s", int), ctx.ask("q", agent="a", prompt="?")]))
    theatre.answer("x")
    with pytest.raises(NonDeterministic, match="not reached"):
        theatre.resume(make(lambda ctx: ctx.ask("q", agent="a", prompt="?")))


def test_a_step_may_be_run_again_when_its_inputs_change(theatre: Any, counter: Count) -> None:
    def work(tag: str) -> Callable[[Context], list[Any]]:
        def body(ctx: Context) -> list[Any]:
            kept = ctx.step("kept", counter, "kept")
            again = ctx.step("again", lambda text: text + str(counter("again")), tag, on_change="rerun")
            after = ctx.step("after", counter, "after")
            return [kept, again, after, ctx.ask("q", agent="a", prompt="?")]

        return body

    theatre.run(make(work("a")))
    theatre.resume(make(work("b")))
    theatre.answer("x")
    assert theatre.resume(make(work("b"))).result == [1, "b2", 2, "x"]


def test_a_flow_of_another_version_does_not_take_up_a_paused_run(theatre: Any) -> None:
    theatre.run(make(one_question, "1"))
    theatre.answer("x")
    before = theatre.response_path.read_bytes()
    with pytest.raises(IncompatibleFlow, match="paused by version 1 and is now version 2"):
        theatre.resume(make(one_question, "2"))
    assert theatre.response_path.read_bytes() == before
    assert theatre.resume(make(one_question, "3"), force_version=True).result == "<x>"


def test_a_version_may_say_which_older_ones_it_can_take_up(theatre: Any) -> None:
    theatre.run(make(one_question, "1"))
    theatre.answer("x")
    assert theatre.resume(make(one_question, "2", compatible_with=["1"])).result == "<x>"


def test_a_comment_more_or_less_does_not_strand_a_paused_run(theatre: Any) -> None:
    def same_steps(ctx: Context) -> str:
        """Differs from `one_question` in everything but what it does."""
        reply = ctx.ask("question", agent="reviewer", prompt="Ready?")
        return "<" + str(reply) + ">"

    theatre.run(ONE)
    theatre.answer("x")
    assert theatre.resume(make(same_steps)).result == "<x>"


def test_a_flow_that_swallows_its_pause_is_told_so(theatre: Any) -> None:
    def work(ctx: Context) -> str:
        try:
            ctx.ask("q", agent="a", prompt="?")
        except BaseException:
            return "went on"
        return "unreachable"

    with pytest.raises(FlowFailed, match="caught its own pause"):
        theatre.run(make(work))


def test_a_broad_except_in_a_flow_does_not_swallow_the_pause(theatre: Any) -> None:
    def work(ctx: Context) -> str:
        try:
            return str(ctx.ask("q", agent="a", prompt="?"))
        except Exception:
            return "swallowed"

    assert theatre.run(make(work)).exit_code == 42


# One root, one run


def test_another_flow_is_refused_where_one_is_paused(theatre: Any) -> None:
    first = theatre.run(ONE)
    other = Flow("other", "1", one_question)
    for request in ({}, {"resume": True}, {"fresh": True}):
        with pytest.raises(OtherRun, match="flow demo") as refused:
            theatre.run(other, **request)
    assert first.flow_id in refused.value.hint
    assert theatre.request()["prompt"] == "Ready?"


def test_settings_that_contradict_the_paused_run_are_refused(theatre: Any) -> None:
    def work(ctx: Context, tag: str, count: int = 3) -> str:
        return ctx.ask("q", agent="a", prompt=tag) + str(count)

    theatre.run(make(work), given={"tag": "v1"}, defaults={"count": 3}, options=RunOptions(max_retries=5))
    for given in ({"tag": "v2"}, {"count": 4}):
        with pytest.raises(OtherRun, match="with (tag|count)"):
            theatre.run(make(work), given=given)
        with pytest.raises(OtherRun):
            theatre.resume(make(work), given=given)
    with pytest.raises(OtherRun, match="max_retries"):
        theatre.run(make(work), options=RunOptions(max_retries=4), given={"tag": "v1"})
    theatre.answer("x")
    assert theatre.resume(make(work), given={"tag": "v1"}).result == "x3"


def test_a_required_setting_that_is_missing_starts_nothing(theatre: Any) -> None:
    def work(ctx: Context, tag: str) -> str:
        return tag

    theatre.run(ONE)
    with pytest.raises(FlowMistake, match="needs --tag"):
        theatre.run(make(work), fresh=True)
    assert theatre.resume(ONE).actions == ("wait",)


def test_settings_have_the_types_of_the_parameters(theatre: Any) -> None:
    def work(ctx: Context, folder: Path, names: list[str], limit: int | None = None) -> list[Any]:
        return [isinstance(folder, Path), names, limit]

    given = {"folder": Path("/a"), "names": ["x"], "limit": 3}
    assert theatre.run(make(work), given=given).result == [True, ["x"], 3]
    with pytest.raises(FlowFailed, match="does not fit"):
        theatre.run(make(work), given={**given, "limit": "x"})


# Failures


def test_a_flow_that_raises_fails_and_keeps_its_traceback(theatre: Any) -> None:
    def work(ctx: Context) -> None:
        ctx.ask("q", agent="a", prompt="?")
        raise RuntimeError("boom \ud800")

    theatre.run(make(work))
    theatre.answer("x")
    with pytest.raises(FlowFailed, match="RuntimeError: boom") as failed:
        theatre.resume(make(work))
    assert "RuntimeError" in (failed.value.post_mortem / "traceback.txt").read_text()
    with pytest.raises(NoCheckpoint):
        theatre.resume(make(work))


def test_a_flow_cannot_fake_a_pause_with_its_exit_code(theatre: Any) -> None:
    def work(ctx: Context) -> None:
        raise SystemExit(42)

    with pytest.raises(FlowFailed, match="SystemExit: 42"):
        theatre.run(make(work))


def test_only_the_newest_post_mortems_are_kept(theatre: Any) -> None:
    def work(ctx: Context) -> None:
        raise RuntimeError

    for _ in range(12):
        theatre.clock.advance(1)
        with pytest.raises(FlowFailed):
            theatre.run(make(work))
    assert len(theatre.graves()) == 10


# Waiting here, answering here


def test_waiting_for_the_answer_in_the_same_process(theatre: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        theatre.clock.advance(seconds)
        if len(naps) == 6:
            theatre.answer("at last")

    monkeypatch.setattr(theatre.clock, "sleep", nap)
    done = theatre.run(ONE, wait_seconds=60)
    assert done.result == "<at last>"
    assert naps == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0]


def test_waiting_ends_when_its_time_is_up(theatre: Any) -> None:
    paused = theatre.run(ONE, wait_seconds=30)
    assert paused.exit_code == 42
    assert theatre.clock.monotonic() == pytest.approx(30)


def test_a_deadline_that_passes_while_waiting_is_acted_upon(theatre: Any) -> None:
    paused = theatre.run(ONE, wait_seconds=150)
    assert paused.actions == ("fresh_start", "retry")
    assert theatre.request()["retry_count"] == 1


def test_with_an_invoker_the_flow_never_pauses(theatre: Any) -> None:
    mock = MockAgentInvoker({"reviewer": "mocked"})
    done = theatre.run(ONE, invoker=mock)
    assert (done.result, theatre.files()) == ("<mocked>", set())
    assert mock.invocations[0]["timeout_seconds"] == 120


def test_an_invoker_gets_the_same_retries_as_a_handler(theatre: Any) -> None:
    mock = MockAgentInvoker()
    mock.add_error("reviewer", "TIMEOUT", "slow")
    mock.add_sequence("reviewer", ["finally", ValueError("never reached")])
    assert theatre.run(ONE, invoker=mock).result == "<finally>"
    assert [call["timeout_seconds"] for call in mock.invocations] == [120, 240]

    mock.add_error("reviewer", "AGENT_NOT_FOUND", "who?")
    mock._sequences["reviewer"].reverse()
    with pytest.raises(FlowFailed, match="AGENT_NOT_FOUND: who"):
        theatre.run(ONE, invoker=mock)


def test_a_mock_without_an_answer_fails_the_ask(theatre: Any) -> None:
    with pytest.raises(FlowFailed, match="No mock response configured for agent: reviewer"):
        theatre.run(ONE, invoker=MockAgentInvoker())
    assert MockAgentInvoker().has_response() is False


# Who is told


def test_listeners_are_told_what_happens(theatre: Any) -> None:
    theatre.run(ONE)
    theatre.clock.advance(121)
    theatre.resume(ONE)
    first, second = theatre.announcer.asked_ids
    assert theatre.announcer.settled_ids == [(first, "superseded")]
    theatre.answer("x")
    theatre.resume(ONE)
    assert theatre.announcer.kinds == [
        *("flow.started", "flow.paused", "flow.resumed", "flow.paused"),
        *("flow.resumed", "flow.completed"),
    ]
    assert theatre.announcer.settled_ids[-1] == (second, "completed")


def test_an_event_that_is_announced_again_has_the_same_id(theatre: Any) -> None:
    ids: list[str] = []

    def heard(event: FlowEvent) -> None:
        ids.append(event.id)

    theatre.announcer.happened = heard
    theatre.run(ONE)
    theatre.resume(ONE)
    paused = [event_id for event_id in ids if "paused" in event_id]
    assert len(paused) == 2 and len(set(paused)) == 1


# The owner of an answer


def test_an_answer_of_another_account_is_refused_until_it_is_accepted(theatre: Any) -> None:
    theatre.run(ONE)
    theatre.answer("x")
    before = theatre.response_path.read_bytes()
    from bridgehead.flows import RunRequest, Surroundings, run_flow

    others = Surroundings(clock=theatre.clock, response_owners=frozenset({12345}))
    with pytest.raises(ForeignAnswer, match="--accept-foreign-owner|belongs to uid"):
        run_flow(ONE, RunRequest(root=theatre.root, resume=True), others)
    assert theatre.response_path.read_bytes() == before
    accepted = RunRequest(root=theatre.root, resume=True, accept_foreign_owner=True)
    assert run_flow(ONE, accepted, others).result == "<x>"


def test_the_failure_of_an_ask_reads_as_a_sentence() -> None:
    assert str(Failed("TIMEOUT", "no answer")) == "TIMEOUT: no answer"
    assert str(Failed("cancelled")) == "cancelled"
