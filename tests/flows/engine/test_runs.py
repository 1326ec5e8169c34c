"""One run per root; settings, failures, and who is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridgehead.flows import Context, Flow, RunOptions
from bridgehead.flows.errors import FlowFailed, FlowMistake, NoCheckpoint, OtherRun
from bridgehead.flows.interfaces import FlowEvent


def make(function: Callable[..., Any], version: str = "1", **details: Any) -> Flow:
    return Flow("demo", version, function, **details)


def one_question(ctx: Context) -> str:
    answer: str = ctx.ask("question", agent="reviewer", prompt="Ready?")
    return f"<{answer}>"


ONE = make(one_question)


def test_another_flow_is_refused_where_one_is_paused(flow_project: Any) -> None:
    first = flow_project.run(ONE)
    other = Flow("other", "1", one_question)
    for request in ({}, {"resume": True}, {"fresh": True}):
        with pytest.raises(OtherRun, match="flow demo") as refused:
            flow_project.run(other, **request)
    assert first.flow_id in refused.value.hint
    assert flow_project.request()["prompt"] == "Ready?"


def test_settings_that_contradict_the_paused_run_are_refused(flow_project: Any) -> None:
    def work(ctx: Context, tag: str, count: int = 3) -> str:
        return ctx.ask("q", agent="a", prompt=tag) + str(count)

    flow_project.run(
        make(work),
        given={"tag": "v1"},
        defaults={"count": 3},
        options=RunOptions(max_retries=5),
    )
    for given in ({"tag": "v2"}, {"count": 4}):
        with pytest.raises(OtherRun, match=r"with (tag|count)"):
            flow_project.run(make(work), given=given)
        with pytest.raises(OtherRun):
            flow_project.resume(make(work), given=given)
    with pytest.raises(OtherRun, match="max_retries"):
        flow_project.run(
            make(work), options=RunOptions(max_retries=4), given={"tag": "v1"}
        )
    flow_project.answer("x")
    assert flow_project.resume(make(work), given={"tag": "v1"}).result == "x3"


def test_a_required_setting_that_is_missing_starts_nothing(flow_project: Any) -> None:
    def work(ctx: Context, tag: str) -> str:
        return tag

    flow_project.run(ONE)
    with pytest.raises(FlowMistake, match="needs --tag"):
        flow_project.run(make(work), fresh=True)
    assert flow_project.resume(ONE).actions == ("wait",)


def test_settings_have_the_types_of_the_parameters(flow_project: Any) -> None:
    def work(
        ctx: Context, folder: Path, names: list[str], limit: int | None = None
    ) -> list[Any]:
        return [isinstance(folder, Path), names, limit]

    given = {"folder": Path("/a"), "names": ["x"], "limit": 3}
    assert flow_project.run(make(work), given=given).result == [True, ["x"], 3]
    with pytest.raises(FlowFailed, match="does not fit"):
        flow_project.run(make(work), given={**given, "limit": "x"})


def test_a_flow_that_raises_fails_and_keeps_its_traceback(flow_project: Any) -> None:
    def work(ctx: Context) -> None:
        ctx.ask("q", agent="a", prompt="?")
        raise RuntimeError("boom \ud800")

    flow_project.run(make(work))
    flow_project.answer("x")
    with pytest.raises(FlowFailed, match="RuntimeError: boom") as failed:
        flow_project.resume(make(work))
    assert "RuntimeError" in (failed.value.post_mortem / "traceback.txt").read_text()
    with pytest.raises(NoCheckpoint):
        flow_project.resume(make(work))


@pytest.mark.parametrize(
    "work",
    [
        lambda ctx: object(),
        lambda ctx: ctx.ask("q", agent="a", prompt="?", context={"seen": object()}),
        lambda ctx: ctx.ask(
            "q", agent="a", prompt="?", context={"share": float("nan")}
        ),
    ],
    ids=["returned", "in a context", "not a number"],
)
def test_what_json_cannot_say_fails_the_flow_and_leaves_the_root_free(
    flow_project: Any, work: Any
) -> None:
    with pytest.raises(FlowFailed, match="cannot be recorded"):
        flow_project.run(make(work))
    assert flow_project.files() == set()
    assert flow_project.run(Flow("other", "1", lambda ctx: "done")).result == "done"


def test_a_flow_cannot_fake_a_pause_with_its_exit_code(flow_project: Any) -> None:
    def work(ctx: Context) -> None:
        raise SystemExit(42)

    with pytest.raises(FlowFailed, match="SystemExit: 42"):
        flow_project.run(make(work))


def test_only_the_newest_post_mortems_are_kept(flow_project: Any) -> None:
    def work(ctx: Context) -> None:
        raise RuntimeError

    for _ in range(12):
        flow_project.clock.advance(1)
        with pytest.raises(FlowFailed):
            flow_project.run(make(work))
    assert len(flow_project.post_mortems()) == 10


def test_listeners_are_told_what_happens(flow_project: Any) -> None:
    flow_project.run(ONE)
    flow_project.answer(None, status="timeout")
    flow_project.resume(ONE)
    first, second = flow_project.announcer.asked_ids
    assert flow_project.announcer.settled_ids == [(first, "superseded")]
    flow_project.answer("x")
    flow_project.resume(ONE)
    assert flow_project.announcer.kinds == [
        *("flow.started", "flow.paused", "flow.resumed", "flow.paused"),
        *("flow.resumed", "flow.completed"),
    ]
    assert flow_project.announcer.settled_ids[-1] == (second, "completed")


def test_an_event_that_is_announced_again_has_the_same_id(flow_project: Any) -> None:
    ids: list[str] = []

    def heard(event: FlowEvent) -> None:
        ids.append(event.id)

    flow_project.announcer.happened = heard
    flow_project.run(ONE)
    flow_project.resume(ONE)
    paused = [event_id for event_id in ids if "paused" in event_id]
    assert len(paused) == 2 and len(set(paused)) == 1
