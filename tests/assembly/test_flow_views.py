"""What a page reads about flows: the list over projects, one flow with its steps, times and open requests."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.flows.recording import RecordingAnnouncer
from bridgehead.assembly.flows.views import list_flows, view_flow, why_unfit
from bridgehead.assembly.pending import pending_list
from bridgehead.contract.doors import Door
from bridgehead.contract.pending import Answer
from bridgehead.contract.record_words import PendingState, RunState
from bridgehead.control_plane.records import EventFilter
from bridgehead.control_plane.stores.base import Store
from bridgehead.errors import NotFound
from bridgehead.flows import (
    Context,
    Flow,
    RunInputs,
    RunRequest,
    RunResult,
    asking,
    run_flow,
)
from bridgehead.flows.calls import Reply
from bridgehead.flows.operations.cancel import cancel
from bridgehead.flows.operations.respond import RespondRequest, respond
from flows.conftest import FlowProject

SCHEMA = {
    "type": "object",
    "required": ["score"],
    "properties": {"score": {"type": "integer"}},
}


def review(ctx: Context, file: str = "notes.txt") -> Any:
    ctx.step("read", lambda name: name, file)
    return ctx.gather(
        asking("careful", agent="reviewer", prompt="How good is it?", schema=SCHEMA),
        asking("quick", agent="linter", prompt="Quickly?"),
    )


REVIEW = Flow("review", "3", review)


@pytest.fixture
def assembly(
    flow_project: FlowProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Assembly:
    monkeypatch.setenv("BRIDGEHEAD_HOME", str(tmp_path / "bridgehead"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    return Assembly(elsewhere)


@pytest.fixture
def store(assembly: Assembly) -> Iterator[Store]:
    with assembly.store() as opened:
        yield opened


def recorded_run(flow_project: FlowProject, **flags: Any) -> RunResult:
    def refuse(message: str) -> None:
        raise AssertionError(message)

    with RecordingAnnouncer(flow_project.root, refuse) as announcer:
        around = RunInputs(clock=flow_project.clock, announcer=announcer)
        return run_flow(REVIEW, RunRequest(root=flow_project.root, **flags), around)


def test_a_paused_flow_shows_its_steps_with_times_and_its_open_requests(
    flow_project: FlowProject, assembly: Assembly, store: Store
) -> None:
    paused = recorded_run(flow_project)
    (line,) = list_flows(assembly, store)
    assert (line.id, line.name, line.version, line.state) == (
        paused.flow_id,
        "review",
        "3",
        RunState.WAITING,
    )
    assert (line.project, line.waits_for) == (
        str(flow_project.root),
        ("reviewer", "linter"),
    )

    view = view_flow(assembly, store, paused.flow_id[-4:])
    assert view.summary == line and view.settings == {}
    assert [(step.path, step.kind, step.status) for step in view.steps] == [
        ("read#0", "step", "completed"),
        ("gather#0", "part", "waiting"),
        ("gather#0/branch#0", "part", "waiting"),
        ("gather#0/branch#0/careful#0", "ask", "pending"),
        ("gather#0/branch#1", "part", "waiting"),
        ("gather#0/branch#1/quick#0", "ask", "queued"),
    ]
    careful, quick = view.requests
    assert (careful.agent, careful.schema, careful.deadline) == (
        "reviewer",
        SCHEMA,
        "2026-11-15T10:17:02Z",
    )
    assert careful.prompt.startswith("How good is it?")
    assert (quick.queued, quick.schema, quick.deadline) == (True, None, None)
    assert why_unfit("review", careful, '{"score": "nine"}') is not None
    assert why_unfit("review", careful, 'It is {"score": 9}.') is None
    assert why_unfit("review", quick, "anything") is None

    assert careful.item_id is not None
    item = store.find_pending(careful.item_id)
    assert (item.question.prompt, item.question.schema) == (careful.prompt, SCHEMA)


def test_an_ask_has_taken_the_time_from_its_first_request_to_its_answer(
    flow_project: FlowProject, assembly: Assembly, store: Store
) -> None:
    recorded_run(flow_project)
    asked = view_flow(assembly, store, store.runs()[0].id).requests[0]
    flow_project.clock.advance(timedelta(seconds=90).total_seconds())
    pending_list(assembly, store, lambda _: None).answer(
        str(asked.item_id),
        Answer(text='{"score": 9}', by="ada", at="2026-11-15T10:16:32.000Z"),
        Door.PAGE,
    )
    recorded_run(flow_project, resume=True)
    view = view_flow(assembly, store, store.runs()[0].id)
    careful = next(step for step in view.steps if step.name == "careful")
    assert (careful.status, careful.started, careful.ended) == (
        *("completed", "2026-11-15T10:15:02Z", "2026-11-15T10:16:32Z"),
    )
    assert [request.agent for request in view.requests] == ["linter"]
    paused = store.events(EventFilter(kinds=("flow.paused",)))[-1].event
    assert (paused.data["agent"], paused.data["waits_for"]) == ("linter", ["linter"])
    assert [step["path"] for step in paused.data["steps"]] == [
        "gather#0/branch#0/careful#0"
    ]


def test_what_was_cancelled_waits_for_nobody(
    flow_project: FlowProject, assembly: Assembly, store: Store
) -> None:
    flow_id = recorded_run(flow_project).flow_id
    with RecordingAnnouncer(flow_project.root, pytest.fail) as announcer:
        cancel(
            flow_project.root,
            flow_id,
            RunInputs(clock=flow_project.clock, announcer=announcer),
        )
    view = view_flow(assembly, store, flow_id)
    assert (view.summary.state, view.summary.waits_for, view.requests) == (
        RunState.CANCELLED,
        (),
        (),
    )
    run = store.run(flow_id)
    assert run is not None and (run.state, run.ended_at) == (
        RunState.CANCELLED,
        "2026-11-15T10:15:02.000Z",
    )
    items = [store.find_pending(item_id) for item_id in ("q-1", "q-2")]
    assert {item.state for item in items} == {PendingState.WITHDRAWN}


def test_a_project_that_is_gone_is_shown_as_the_record_knew_it(
    flow_project: FlowProject, assembly: Assembly, store: Store
) -> None:
    flow_id = recorded_run(flow_project, given={"file": "a.txt"}).flow_id
    shutil.rmtree(flow_project.root)
    (line,) = list_flows(assembly, store)
    assert (line.id, line.state, line.waits_for) == (
        flow_id,
        RunState.WAITING,
        ("reviewer", "linter"),
    )
    view = view_flow(assembly, store, flow_id)
    assert (view.journal_missing, view.settings, view.steps) == (
        True,
        {"file": "a.txt"},
        (),
    )
    with pytest.raises(NotFound):
        view_flow(assembly, store, "no-such-flow")


def test_a_flow_that_told_the_record_nothing_is_seen_from_its_project(
    flow_project: FlowProject, store: Store
) -> None:
    silent = flow_project.run(REVIEW)
    here = Assembly(flow_project.root)
    assert [line.id for line in list_flows(here, store)] == [silent.flow_id]
    view = view_flow(here, store, silent.flow_id)
    assert [request.item_id for request in view.requests] == [None, None]


def test_answers_to_template_create_are_judged_by_its_phase(
    flow_project: FlowProject, assembly: Assembly, store: Store
) -> None:
    recorded_run(flow_project)
    request = (
        view_flow(assembly, store, store.runs()[0].id).requests[0]._replace(phase=1)
    )
    unsure = {
        "technology_stack": {"primary_language": "Python"},
        "overall_confidence": 0.5,
    }
    assert "confidence is 0.5" in str(
        why_unfit("template-create", request, json.dumps(unsure))
    )
    sure = json.dumps({**unsure, "overall_confidence": 0.9})
    assert why_unfit("template-create", request, sure) is None
    assert why_unfit("template-create", request._replace(phase=2), "whatever") is None


def test_an_answer_after_the_deadline_is_taken(
    flow_project: FlowProject, assembly: Assembly, store: Store
) -> None:
    recorded_run(flow_project)
    asked = view_flow(assembly, store, store.runs()[0].id).requests[0]
    flow_project.clock.advance(3600.0)
    late = Answer(text='{"score": 9}', by="ada", at="2026-11-15T11:15:02.000Z")
    item = pending_list(assembly, store, lambda _: None).answer(
        str(asked.item_id), late, Door.PAGE
    )
    assert item.state is PendingState.ANSWERED
    assert "accept" in recorded_run(flow_project, resume=True).actions


def test_what_was_answered_by_flow_respond_waits_for_nobody(
    flow_project: FlowProject, assembly: Assembly, store: Store
) -> None:
    recorded_run(flow_project)
    with RecordingAnnouncer(flow_project.root, pytest.fail) as announcer:
        reply = Reply(text='{"score": 9}')
        respond(
            RespondRequest(flow_project.root, reply),
            RunInputs(clock=flow_project.clock, announcer=announcer),
        )
    waiting = [item.id for item in store.pending()]
    assert waiting == ["q-2"]


def test_queued_questions_are_told_once_and_again_to_a_record_that_does_not_know_them(
    flow_project: FlowProject, store: Store
) -> None:
    flow_project.run(REVIEW)  # by a program that tells no record
    recorded_run(flow_project, resume=True)
    assert len(store.pending()) == 2
    recorded_run(flow_project, resume=True)
    assert len(store.pending()) == 2
