"""An answer is held against what was asked for when it is given; one that does not fit leaves the question open."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from bridgehead.contract.fencing import Fence
from bridgehead.contract.record_words import AnswerStatus
from bridgehead.contract.words import Trust
from bridgehead.flows import Context, Flow, RunInputs
from bridgehead.flows.handlers import Reply
from bridgehead.flows.interfaces import OpenRequest
from bridgehead.flows.operations.pending_items import question_of
from bridgehead.flows.operations.respond import RespondRequest, UnfitReply, respond
from bridgehead.flows.words import RequestStatus


@dataclass
class Review:
    verdict: str
    score: int


def review(ctx: Context) -> str:
    found = ctx.ask("review", agent="reviewer", prompt="Is it good?", result=Review)
    return f"{found.verdict} {found.score}"


FLOW = Flow("check", "1", review)


def give(flow_project: Any, text: str, **reply: Any) -> None:
    respond(RespondRequest(flow_project.root, Reply(text=text, **reply)), RunInputs(clock=flow_project.clock))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("not json", "holds no JSON"),
        ('{"verdict": "good"}', '"score" is a required property'),
        ('{"verdict": "good", "score": "high"}', "is not of type"),
        ("[]", "is not of type"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays_open(
    flow_project: Any, text: str, why: str
) -> None:
    flow_project.run(FLOW)
    with pytest.raises(UnfitReply, match=why) as refused:
        give(flow_project, text)
    assert '"score"' in refused.value.message and "stays open" in (refused.value.hint or "")
    assert not flow_project.response_path.exists()
    give(flow_project, 'Sure: {"verdict": "good", "score": 9}')
    assert flow_project.resume(FLOW).result == "good 9"


def test_a_result_type_is_described_to_the_agent_like_a_schema(flow_project: Any) -> None:
    flow_project.run(FLOW)
    request = flow_project.request()
    assert request["prompt"].startswith("Is it good?\n\nAnswer with one JSON document")
    assert '"verdict"' in request["prompt"]
    assert request["context"]["answer_schema"]["required"] == ["verdict", "score"]


def test_a_failure_needs_no_json(flow_project: Any) -> None:
    flow_project.run(
        Flow("check", "1", lambda ctx: ctx.ask_outcome("q", agent="a", prompt="?", result=Review).ok)
    )
    give(flow_project, "", status=RequestStatus.ERROR, error_type="UNKNOWN", message="no")
    assert flow_project.response_path.exists()


def test_a_result_type_may_change_while_its_question_waits(flow_project: Any) -> None:
    @dataclass
    class Shorter:
        verdict: str

    flow_project.run(FLOW)
    give(flow_project, '{"verdict": "good", "score": 9}')
    shorter = Flow(
        "check",
        "1",
        lambda ctx: ctx.ask("review", agent="reviewer", prompt="Is it good?", result=Shorter).verdict,
    )
    assert flow_project.resume(shorter).result == "good"


def asked(**members: Any) -> OpenRequest:
    request = {
        "request_id": "r",
        "version": "1.1",
        "phase": 1,
        "phase_name": "release_notes",
        "agent_name": "writer",
        "prompt": "Write release notes for v1.4.\nBe brief.",
        **members,
    }
    return OpenRequest("flow-1", "release", "/srv/app", request, None)


def test_the_title_of_a_question_is_the_question() -> None:
    assert question_of(asked()).title == "release: Write release notes for v1.4."
    assert len(question_of(asked(prompt="word " * 100)).title) <= 90
    fence = Fence(lambda alphabet: alphabet[0])
    for start in (fence.preamble, fence.wrap("hello", origin="x", trust=Trust.UNTRUSTED)):
        assert question_of(asked(prompt=f"{start}\nSum it up.")).title == "release: release notes, by writer"
    assert question_of(asked(version="1.0")).title == "release: release notes, by writer"


def test_only_an_expiry_closes_a_pending_question() -> None:
    assert question_of(asked()).expires_at is None
    ends = "2026-11-15T11:15:02Z"
    assert question_of(asked(context={"expires_at": ends})).expires_at == ends


def test_the_same_check_meets_whoever_answers_through_the_record(flow_project: Any) -> None:
    from bridgehead.assembly.application import Assembly
    from bridgehead.assembly.flows.recording import RecordingAnnouncer
    from bridgehead.assembly.pending import pending_list
    from bridgehead.contract.pending import Answer
    from bridgehead.control_plane.records import PendingFilter
    from bridgehead.flows import RunRequest, run_flow

    assembly = Assembly(flow_project.root)
    with RecordingAnnouncer(flow_project.root, print) as announcer:
        run_flow(FLOW, RunRequest(flow_project.root), RunInputs(announcer=announcer))
    with assembly.store() as store:
        waiting = pending_list(assembly, store, print)
        (item,) = waiting.items(PendingFilter(), limit=9)
        assert item.question.title == "check: Is it good?"
        with pytest.raises(UnfitReply, match="holds no JSON"):
            waiting.answer(item.id, Answer(text="not json"))
        (item,) = waiting.items(PendingFilter(), limit=9)
        good = json.dumps({"verdict": "good", "score": 9})
        assert waiting.answer(item.id, Answer(status=AnswerStatus.SUCCESS, text=good)).answer is not None
