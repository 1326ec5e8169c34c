"""Steps run once; what they returned is replayed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import pytest

from bridgehead.flows import Context, Flow, StepFailed
from bridgehead.flows.errors import FlowFailed, IncompatibleFlow, NonDeterministic

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


def test_a_step_runs_once_however_often_the_flow_is_resumed(
    flow_project: Any, counter: Count
) -> None:
    def work(ctx: Context) -> list[Any]:
        first = ctx.step("count", counter, "first")
        answer = ctx.ask("q", agent="a", prompt="?")
        return [first, answer, ctx.step("count", counter, "first")]

    flow_project.run(make(work))
    flow_project.resume(make(work))
    flow_project.answer("x")
    assert flow_project.resume(make(work)).result == [1, "x", 2]


def test_results_have_the_type_the_step_promises_before_and_after_the_pause(
    flow_project: Any,
) -> None:
    seen: list[Any] = []

    def review(name: str) -> Review:
        return Review(name, 3)

    def work(ctx: Context) -> None:
        seen.append(ctx.step("review", review, "good"))
        seen.append(ctx.step("plain", lambda: (1, 2)))
        seen.append(
            ctx.step("said", lambda: {"verdict": "v", "score": 1}, result=Review)
        )
        ctx.ask("q", agent="a", prompt="?")

    flow_project.run(make(work))
    flow_project.resume(make(work))
    assert seen[:3] == seen[3:] == [Review("good", 3), (1, 2), Review("v", 1)]


def test_a_step_that_failed_fails_again_without_being_run(
    flow_project: Any, counter: Count
) -> None:
    def fragile() -> None:
        counter("fragile")
        raise ValueError("broken")

    def work(ctx: Context) -> str:
        try:
            ctx.step("fragile", fragile)
        except StepFailed as failure:
            return f"{failure.error_type} {failure.message} {ctx.ask('q', agent='a', prompt='?')}"
        return "unreachable"

    flow_project.run(make(work))
    flow_project.answer("x")
    assert flow_project.resume(make(work)).result == "ValueError broken x"
    assert counter("fragile") == 2


def test_time_randomness_and_environment_stay_as_they_were(
    flow_project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def work(ctx: Context) -> None:
        seen.append(
            [
                ctx.now(),
                ctx.uuid(),
                ctx.random(),
                ctx.env("FLOW_TEST"),
                ctx.env("NOT_SET", "d"),
                ctx.uuid(),
            ]
        )
        ctx.ask("q", agent="a", prompt="?")

    monkeypatch.setenv("FLOW_TEST", "before")
    flow_project.run(make(work))
    monkeypatch.setenv("FLOW_TEST", "after")
    flow_project.clock.advance(60)
    flow_project.resume(make(work))
    assert seen[0] == seen[1]
    assert isinstance(seen[0][0], datetime) and seen[0][3:5] == ["before", "d"]
    assert seen[0][1] != seen[0][5]


def test_a_result_that_cannot_be_recorded_is_a_mistake_at_once(
    flow_project: Any,
) -> None:
    with pytest.raises(
        FlowFailed, match=r"s#0 has run; its result cannot be recorded: a generator"
    ):
        flow_project.run(make(lambda ctx: ctx.step("s", lambda: (x for x in "ab"))))


def test_an_argument_that_cannot_be_recorded_is_refused_before_the_effect(
    flow_project: Any, counter: Count
) -> None:
    with pytest.raises(
        FlowFailed,
        match=r"send#0 was not run: one of its arguments cannot be recorded: a object",
    ):
        flow_project.run(
            make(lambda ctx: ctx.step("send", lambda thing: counter("sent"), object()))
        )
    assert counter("sent") == 1


def test_what_json_has_no_word_for_is_the_same_before_and_after_the_pause(
    flow_project: Any,
) -> None:
    seen: list[Any] = []

    def work(ctx: Context) -> list[Any]:
        seen.append(
            ctx.step("load", lambda: {1: {"a", "b"}, 2: (b"x", date(2026, 1, 1))})
        )
        ctx.ask("q", agent="a", prompt="?")
        return [seen[-1][1], ctx.step("use", lambda days: days, {date(2026, 1, 1)})]

    flow_project.run(make(work))
    flow_project.answer("x")
    done = flow_project.resume(make(work))
    assert seen[0] == seen[1] == {1: {"a", "b"}, 2: (b"x", date(2026, 1, 1))}
    assert done.result == [["a", "b"], ["2026-01-01"]]


def test_steps_and_fallbacks_must_not_use_the_context(flow_project: Any) -> None:
    with pytest.raises(FlowFailed, match=r"step#0 used the flow's context"):
        flow_project.run(
            make(lambda ctx: ctx.step("step", lambda: ctx.step("inner", int)))
        )


@pytest.mark.parametrize("name", ["", "a/b", "a#1"])
def test_a_name_that_would_break_paths_is_refused(flow_project: Any, name: str) -> None:
    with pytest.raises(FlowFailed, match="is not a valid step name"):
        flow_project.run(make(lambda ctx: ctx.step(name, int)))


def test_other_inputs_than_before_the_pause_are_refused_and_nothing_is_lost(
    flow_project: Any,
) -> None:
    def version_a(ctx: Context) -> str:
        ctx.step("s", str, "a")
        answer: str = ctx.ask("q", agent="a", prompt="?")
        return answer

    def version_b(ctx: Context) -> str:
        ctx.step("s", str, "b")
        answer: str = ctx.ask("q", agent="a", prompt="?")
        return answer

    flow_project.run(make(version_a))
    flow_project.answer("x")
    with pytest.raises(NonDeterministic, match="the inputs differ at s#0"):
        flow_project.resume(make(version_b))
    assert flow_project.resume(make(version_a)).result == "x"


def test_another_kind_of_call_at_the_same_place_is_refused(flow_project: Any) -> None:
    flow_project.run(
        make(lambda ctx: [ctx.step("s", int), ctx.ask("q", agent="a", prompt="?")])
    )
    with pytest.raises(NonDeterministic, match="ask instead of step"):
        flow_project.resume(make(lambda ctx: ctx.ask("s", agent="a", prompt="?")))


def test_a_recorded_step_that_is_never_reached_again_is_refused(
    flow_project: Any,
) -> None:
    flow_project.run(
        make(lambda ctx: [ctx.step("s", int), ctx.ask("q", agent="a", prompt="?")])
    )
    flow_project.answer("x")
    with pytest.raises(
        NonDeterministic, match="now has the ask q#0, recorded is the step at s#0"
    ):
        flow_project.resume(make(lambda ctx: ctx.ask("q", agent="a", prompt="?")))


def _changed(*names: str) -> Callable[[Callable[[str], int]], Callable[[Context], Any]]:
    """A flow of these steps, and a question before the last two."""

    def with_counter(count: Callable[[str], int]) -> Callable[[Context], Any]:
        def body(ctx: Context) -> Any:
            for name in names[:-1]:
                ctx.step(name, count, name)
            answer = ctx.ask("q", agent="a", prompt="?")
            ctx.step(names[-1], count, names[-1])
            return answer

        return body

    return with_counter


@pytest.mark.parametrize(
    ("names", "difference"),
    [
        (
            ("a", "renamed", "c"),
            "now has the step renamed#0, recorded is the step at b#0",
        ),
        (("b", "a", "c"), "now has the step b#0, recorded is the step at a#0"),
        (("a", "c"), "now has the ask q#0, recorded is the step at b#0"),
        (("a", "b", "new", "c"), "now has the step new#0, recorded is the ask at q#0"),
    ],
    ids=["renamed", "reordered", "removed", "inserted"],
)
def test_changed_code_is_noticed_before_anything_runs_and_the_old_code_goes_on(
    flow_project: Any, counter: Count, names: tuple[str, ...], difference: str
) -> None:
    old = make(_changed("a", "b", "c")(counter))
    flow_project.run(old)
    flow_project.answer("x")
    before = dict(counter.counts)  # type: ignore[attr-defined]
    with pytest.raises(NonDeterministic, match=difference) as refused:
        flow_project.resume(make(_changed(*names)(counter)))
    assert "restore the old code" in (refused.value.hint or "")
    assert counter.counts == before  # type: ignore[attr-defined]
    assert flow_project.resume(old).result == "x"
    assert counter.counts == {"a": 1, "b": 1, "c": 1}  # type: ignore[attr-defined]


def test_a_change_on_purpose_lets_paused_runs_go_on_the_old_way(
    flow_project: Any,
) -> None:
    def old(ctx: Context) -> list[Any]:
        return [ctx.step("a", int), ctx.ask("q", agent="a", prompt="?")]

    def new(ctx: Context) -> list[Any]:
        first = ctx.step("a", int)
        signed = (
            ctx.step("sign", lambda: "signed") if ctx.patched("sign") else "not signed"
        )
        return [first, ctx.ask("q", agent="a", prompt="?"), signed]

    flow_project.run(make(old))
    flow_project.answer("x")
    assert flow_project.resume(make(new)).result == [0, "x", "not signed"]
    flow_project.run(make(new))
    flow_project.answer("y")
    assert flow_project.resume(make(new)).result == [0, "y", "signed"]


def test_branches_are_met_again_in_any_order(flow_project: Any) -> None:
    def branch(ctx: Context, name: str) -> list[Any]:
        return [
            ctx.step("before", str, name),
            ctx.ask("q", agent=name, prompt="?"),
            ctx.step("after", int),
        ]

    flow = make(lambda ctx: [ctx.map("each", branch, ["a", "b"]), ctx.step("end", int)])
    flow_project.run(flow)
    for _ in range(2):
        flow_project.answer("x")
        done = flow_project.resume(flow)
    assert done.result == [[["a", "x", 0], ["b", "x", 0]], 0]


def test_a_step_may_be_run_again_when_its_inputs_change(
    flow_project: Any, counter: Count
) -> None:
    def work(tag: str) -> Callable[[Context], list[Any]]:
        def body(ctx: Context) -> list[Any]:
            kept = ctx.step("kept", counter, "kept")
            again = ctx.step(
                "again",
                lambda text: text + str(counter("again")),
                tag,
                on_change="rerun",
            )
            after = ctx.step("after", counter, "after")
            return [kept, again, after, ctx.ask("q", agent="a", prompt="?")]

        return body

    flow_project.run(make(work("a")))
    flow_project.resume(make(work("b")))
    flow_project.answer("x")
    assert flow_project.resume(make(work("b"))).result == [1, "b2", 2, "x"]


def test_a_question_that_follows_from_a_step_done_again_is_asked_again(
    flow_project: Any,
) -> None:
    def work(tag: str) -> Callable[[Context], Any]:
        return lambda ctx: ctx.ask(
            "q",
            agent="a",
            prompt=ctx.step("tag", str, tag, on_change="rerun", result=str),
        )

    flow_project.run(make(work("v1")))
    (old,) = flow_project.announcer.asked_ids
    flow_project.answer("an answer about v1")
    flow_project.resume(make(work("v2")))
    assert (
        flow_project.request()["prompt"] == "v2"
        and not flow_project.response_path.exists()
    )
    assert flow_project.announcer.settled_ids == [(old, "superseded")]
    flow_project.answer("an answer about v2")
    assert flow_project.resume(make(work("v2"))).result == "an answer about v2"


@pytest.mark.parametrize(
    "other",
    [
        lambda ctx: ctx.ask("q", agent="a", prompt="another?"),
        lambda ctx: ctx.ask("q", agent="b", prompt="?"),
        lambda ctx: "no question at all",
    ],
    ids=["another prompt", "another agent", "not asked"],
)
def test_the_answer_to_another_question_than_is_asked_now_is_not_taken(
    flow_project: Any, other: Any
) -> None:
    flow_project.run(make(lambda ctx: ctx.ask("q", agent="a", prompt="?")))
    flow_project.answer("x")
    with pytest.raises(NonDeterministic, match="at q#0"):
        flow_project.resume(make(other))
    assert (
        flow_project.response_path.exists() and flow_project.request()["prompt"] == "?"
    )


def test_a_flow_of_another_version_does_not_take_up_a_paused_run(
    flow_project: Any,
) -> None:
    flow_project.run(make(one_question, "1"))
    flow_project.answer("x")
    before = flow_project.response_path.read_bytes()
    with pytest.raises(
        IncompatibleFlow, match="paused by version 1 and is now version 2"
    ):
        flow_project.resume(make(one_question, "2"))
    assert flow_project.response_path.read_bytes() == before
    assert (
        flow_project.resume(make(one_question, "3"), force_version=True).result == "<x>"
    )


def test_a_version_may_say_which_older_ones_it_can_take_up(flow_project: Any) -> None:
    flow_project.run(make(one_question, "1"))
    flow_project.answer("x")
    assert (
        flow_project.resume(make(one_question, "2", compatible_with=["1"])).result
        == "<x>"
    )


def test_a_comment_more_or_less_does_not_strand_a_paused_run(flow_project: Any) -> None:
    def same_steps(ctx: Context) -> str:
        """Differs from `one_question` in everything but what it does."""
        reply = ctx.ask("question", agent="reviewer", prompt="Ready?")
        return "<" + str(reply) + ">"

    flow_project.run(ONE)
    flow_project.answer("x")
    assert flow_project.resume(make(same_steps)).result == "<x>"


def test_a_flow_that_swallows_its_pause_is_told_so(flow_project: Any) -> None:
    def work(ctx: Context) -> str:
        try:
            ctx.ask("q", agent="a", prompt="?")
        except BaseException:
            return "went on"
        return "unreachable"

    with pytest.raises(FlowFailed, match="caught its own pause"):
        flow_project.run(make(work))


def test_a_broad_except_in_a_flow_does_not_swallow_the_pause(flow_project: Any) -> None:
    def work(ctx: Context) -> str:
        try:
            return str(ctx.ask("q", agent="a", prompt="?"))
        except Exception:
            return "swallowed"

    assert flow_project.run(make(work)).exit_code == 42


def test_a_sleep_is_counted_from_the_first_time_it_was_come_to(
    flow_project: Any,
) -> None:
    def work(ctx: Context) -> str:
        ctx.sleep(60)
        answer: str = ctx.ask("q", agent="a", prompt="?")
        ctx.sleep(5)
        return answer

    begun = flow_project.clock.now()
    flow_project.run(make(work))
    flow_project.clock.advance(1000)
    flow_project.answer("x")

    assert flow_project.resume(make(work)).result == "x"
    assert (flow_project.clock.now() - begun).total_seconds() == 60 + 1000 + 5
