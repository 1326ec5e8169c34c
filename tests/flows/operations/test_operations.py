"""Answering, looking and cancelling from outside."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from bridgehead.errors import AlreadyAnswered, NotFound, UserError
from bridgehead.flows import Context, Flow, RunInputs, asking
from bridgehead.flows.calls import Reply
from bridgehead.flows.errors import FlowFailed, NoCheckpoint
from bridgehead.flows.journals.base import Run
from bridgehead.flows.operations.cancel import cancel
from bridgehead.flows.operations.inspect import ListRequest, find_run, list_runs, status
from bridgehead.flows.operations.respond import RespondRequest, respond
from bridgehead.flows.words import RequestStatus, RunStatus

TEXT = Reply(text="the answer")


def one(ctx: Context) -> str:
    answer: str = ctx.ask("q", agent="a", prompt="?")
    return answer


def two(ctx: Context) -> list[str]:
    return ctx.gather(
        asking("left", agent="a", prompt="l"), asking("right", agent="a", prompt="r")
    )


ONE, TWO = Flow("one", "1", one), Flow("two", "1", two)


def answer(
    flow_project: Any, reply: Reply = TEXT, request_id: str | None = None
) -> Path:
    inputs = RunInputs(clock=flow_project.clock, announcer=flow_project.announcer)
    return respond(RespondRequest(flow_project.root, reply, request_id), inputs).path


def test_an_answer_is_written_whole_and_fits_the_request(flow_project: Any) -> None:
    flow_project.run(ONE)
    reply = Reply(
        text="größer\r\n", model="m", tokens=0, confidence=0.5, duration_seconds=1.5
    )
    assert answer(flow_project, reply) == flow_project.response_path
    assert json.loads(flow_project.response_path.read_bytes()) == {
        "request_id": flow_project.request()["request_id"],
        "version": "1.0",
        "status": "success",
        "created_at": "2026-11-15T10:15:02Z",
        "response": "größer\r\n",
        "duration_seconds": 1.5,
        "metadata": {"model": "m", "tokens_used": 0, "confidence": 0.5},
    }
    assert flow_project.resume(ONE).result == "größer\r\n"
    assert "flow.responded" in flow_project.announcer.kinds


@pytest.mark.parametrize("seconds", [float("nan"), float("inf")])
def test_an_answer_that_no_reader_of_json_would_read_is_not_written(
    flow_project: Any, seconds: float
) -> None:
    flow_project.run(ONE)
    with pytest.raises(UserError, match="duration_seconds"):
        answer(flow_project, Reply(text="x", duration_seconds=seconds))
    assert not flow_project.response_path.exists()


def test_a_request_takes_one_answer(flow_project: Any) -> None:
    flow_project.run(ONE)
    answer(flow_project)
    before = flow_project.response_path.read_bytes()
    with pytest.raises(AlreadyAnswered, match="first answer counts"):
        answer(flow_project, Reply(text="another"))
    assert flow_project.response_path.read_bytes() == before
    request_id = flow_project.request()["request_id"]
    flow_project.resume(ONE)
    with pytest.raises(AlreadyAnswered):
        answer(flow_project, request_id=request_id)
    assert flow_project.files() == set()


def test_of_many_answers_at_once_exactly_one_wins(flow_project: Any) -> None:
    flow_project.run(ONE)
    outcomes: list[str] = []
    ready = threading.Barrier(8)

    def contend(number: int) -> None:
        ready.wait(30)
        try:
            respond(RespondRequest(flow_project.root, Reply(text=f"answer {number}")))
        except AlreadyAnswered:
            outcomes.append("late")
        else:
            outcomes.append(f"answer {number}")

    threads = [threading.Thread(target=contend, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (winner,) = [outcome for outcome in outcomes if outcome != "late"]
    assert flow_project.resume(ONE).result == winner


def test_several_requests_may_be_answered_before_the_flow_goes_on(
    flow_project: Any,
) -> None:
    flow_project.run(TWO)
    left, right = flow_project.announcer.asked_ids
    assert answer(flow_project, Reply(text="L"), left) == flow_project.response_path
    assert answer(flow_project, Reply(text="R"), right.upper()).name == "journal.db"
    with pytest.raises(AlreadyAnswered):
        answer(flow_project, Reply(text="R2"), right)
    done = flow_project.resume(TWO)
    assert (done.result, done.actions) == (["L", "R"], ("accept", "accept"))
    assert not list(flow_project.private.glob("inbox/*"))


def test_an_attempt_that_has_been_given_up_may_still_be_answered(
    flow_project: Any,
) -> None:
    flow_project.run(ONE)
    first = flow_project.request()["request_id"]
    flow_project.clock.advance(121)
    flow_project.resume(ONE)
    answer(flow_project, request_id=first)
    assert flow_project.resume(ONE).result == "the answer"


def test_a_program_without_a_journal_is_answered_through_its_request_file(
    flow_project: Any,
) -> None:
    request = {
        "request_id": "0f8b2c1e-6a57-4d0e-9b1c-2f6d7a8e9c01",
        "version": "1.0",
        "phase": 1,
        "phase_name": "anything",
        "agent_name": "anyone",
        "prompt": "?",
        "created_at": "2026-11-15T10:15:02Z",
    }
    flow_project.request_path.write_text(json.dumps(request))
    answer(flow_project)
    assert flow_project.files() == {".agent-request.json", ".agent-response.json"}
    assert not (flow_project.root / ".bridgehead").exists()

    given = flow_project.response_path.read_bytes()
    flow_project.request_path.write_text(
        json.dumps({**request, "request_id": "0f8b2c1e-6a57-4d0e-9b1c-2f6d7a8e9c02"})
    )
    with pytest.raises(
        AlreadyAnswered
    ):  # an answer that was not taken yet is not replaced by the next
        answer(flow_project, Reply(text="another"))
    assert flow_project.response_path.read_bytes() == given


@pytest.mark.parametrize(
    ("reply", "complaint"),
    [
        (Reply(text=None), "needs text"),
        (Reply(text=""), "needs text"),
        (Reply(text="x", confidence=1.5), "confidence"),
        (Reply(text="x", duration_seconds=-1), "duration_seconds"),
        (Reply(RequestStatus.ERROR, error_type="NONSENSE"), "error_type"),
        (Reply(text="x" * (17 * 1024 * 1024)), "too large"),
    ],
)
def test_an_answer_the_flow_would_refuse_is_refused_here(
    flow_project: Any, reply: Reply, complaint: str
) -> None:
    flow_project.run(ONE)
    with pytest.raises(UserError, match=complaint):
        answer(flow_project, reply)
    assert flow_project.files() == {".agent-request.json"}


def test_nobody_asked(flow_project: Any) -> None:
    with pytest.raises(NotFound, match="no request is open"):
        answer(flow_project)
    flow_project.run(ONE)
    with pytest.raises(NotFound, match=r"no request .* is open"):
        answer(flow_project, request_id="7c9e6679-7425-40de-944b-e07fc1f90ae7")


def test_a_run_shows_its_steps_and_what_it_waits_for(flow_project: Any) -> None:
    flow_project.run(TWO)
    found = status(flow_project.root)
    assert [call.path for call in found.outstanding] == [
        "gather#0/branch#0/left#0",
        "gather#0/branch#1/right#0",
    ]
    assert found.run.status is RunStatus.WAITING
    assert status(flow_project.root, found.run.id[-4:]).run == found.run
    with pytest.raises(NotFound):
        status(flow_project.root, "nope")


def test_looking_creates_nothing(flow_project: Any) -> None:
    assert list_runs(ListRequest(flow_project.root)).runs == ()
    with pytest.raises(NotFound, match="no flow has run"):
        status(flow_project.root)
    with pytest.raises(NoCheckpoint):
        cancel(flow_project.root, "x")
    assert list(flow_project.root.iterdir()) == []


def test_an_ambiguous_ending_names_the_candidates() -> None:
    runs = [
        Run(f"flow-{n}-4f2a", "f", "1", "", "/", RunStatus.FAILED, {}, "", "")
        for n in range(2)
    ]
    assert find_run(runs, "flow-1-4f2a", Path("/")) is runs[1]
    with pytest.raises(NotFound, match="flow-0-4f2a, flow-1-4f2a"):
        find_run(runs, "4f2a", Path("/"))


def test_cancelling_withdraws_the_requests_and_keeps_the_files(
    flow_project: Any,
) -> None:
    run = flow_project.run(TWO)
    inputs = RunInputs(clock=flow_project.clock, announcer=flow_project.announcer)
    done = cancel(flow_project.root, run.flow_id, inputs)
    assert flow_project.files() == set()
    assert (done.post_mortem / ".agent-request.json").exists()
    assert [status for _, status in flow_project.announcer.settled_ids] == [
        "cancelled",
        "cancelled",
    ]
    with pytest.raises(UserError, match="has already ended"):
        cancel(flow_project.root, run.flow_id)
    with pytest.raises(AlreadyAnswered):
        answer(flow_project, request_id=flow_project.announcer.asked_ids[0])
    assert flow_project.run(ONE).exit_code == 42


def test_a_run_that_ended_takes_no_answer_to_what_it_asked(flow_project: Any) -> None:
    is_broken = False

    def fragile(ctx: Context) -> str:
        if is_broken:
            raise ValueError("broken")
        return one(ctx)

    flow = Flow("fragile", "1", fragile)
    flow_project.run(flow)
    request_id = flow_project.request()["request_id"]
    is_broken = True
    with pytest.raises(FlowFailed):
        flow_project.resume(flow)

    with pytest.raises(AlreadyAnswered):
        answer(flow_project, request_id=request_id)

    assert not flow_project.response_path.exists()


def test_a_request_id_in_capitals_is_the_same_request(flow_project: Any) -> None:
    flow_project.run(ONE)
    request_id = flow_project.request()["request_id"]

    answer(flow_project, request_id=request_id.upper())

    assert json.loads(flow_project.response_path.read_bytes())["request_id"] == (
        request_id
    )
    with pytest.raises(AlreadyAnswered):
        answer(flow_project, Reply(text="another"), request_id)
    assert flow_project.resume(ONE).result == "the answer"


def test_an_answer_that_names_its_request_in_capitals_is_the_first(
    flow_project: Any,
) -> None:
    flow_project.run(ONE)
    request_id = flow_project.request()["request_id"]
    flow_project.answer("from a handler", request_id=request_id.upper())

    with pytest.raises(AlreadyAnswered):
        answer(flow_project, Reply(text="another"))

    assert flow_project.resume(ONE).result == "from a handler"
