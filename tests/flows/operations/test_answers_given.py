"""An answer is held against what was asked for when it is given; one that does not fit leaves the question open."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from bridgehead.contract.fencing import Fence
from bridgehead.contract.pending import SAYS_SCHEMA, Question
from bridgehead.contract.record_words import AnswerStatus, Part, PendingKind
from bridgehead.contract.words import Trust
from bridgehead.errors import AlreadyAnswered, UserError
from bridgehead.flows import Context, Flow, RunInputs, asking
from bridgehead.flows.calls import Reply
from bridgehead.flows.files.checkpoint_files import CheckpointFiles
from bridgehead.flows.interfaces import OpenRequest
from bridgehead.flows.journals.sqlite import SqliteJournal
from bridgehead.flows.operations.pending_items import question_of
from bridgehead.flows.operations.respond import RespondRequest, respond
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
    respond(
        RespondRequest(flow_project.root, Reply(text=text, **reply)),
        RunInputs(clock=flow_project.clock),
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("not json", "contains no JSON"),
        ('{"verdict": "good"}', '"score" is a required property'),
        ('{"verdict": "good", "score": "high"}', "is not of type"),
        ("[]", "is not of type"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_and_the_question_stays_open(
    flow_project: Any, text: str, why: str
) -> None:
    flow_project.run(FLOW)
    with pytest.raises(UserError, match=why) as refused:
        give(flow_project, text)
    assert '"score"' in refused.value.message and "stays open" in (
        refused.value.hint or ""
    )
    assert not flow_project.response_path.exists()
    give(flow_project, 'Sure: {"verdict": "good", "score": 9}')
    assert flow_project.resume(FLOW).result == "good 9"


def test_a_result_type_is_described_to_the_agent_like_a_schema(
    flow_project: Any,
) -> None:
    flow_project.run(FLOW)
    request = flow_project.request()
    assert request["prompt"].startswith("Is it good?\n\nAnswer with one JSON document")
    assert '"verdict"' in request["prompt"]
    assert request["context"]["answer_schema"]["required"] == ["verdict", "score"]


def test_a_failure_needs_no_json(flow_project: Any) -> None:
    flow_project.run(
        Flow(
            "check",
            "1",
            lambda ctx: ctx.ask_outcome("q", agent="a", prompt="?", result=Review).ok,
        )
    )
    give(
        flow_project, "", status=RequestStatus.ERROR, error_type="UNKNOWN", message="no"
    )
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
        lambda ctx: (
            ctx.ask(
                "review", agent="reviewer", prompt="Is it good?", result=Shorter
            ).verdict
        ),
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
    for start in (
        fence.preamble,
        fence.wrap("hello", origin="x", trust=Trust.UNTRUSTED),
    ):
        assert (
            question_of(asked(prompt=f"{start}\nSum it up.")).title
            == "release: release notes, by writer"
        )
    assert (
        question_of(asked(version="1.0")).title == "release: release notes, by writer"
    )


def test_only_an_expiry_closes_a_pending_question() -> None:
    assert question_of(asked()).expires_at is None
    ends = "2026-11-15T11:15:02Z"
    assert question_of(asked(context={"expires_at": ends})).expires_at == ends


def test_the_same_check_meets_whoever_answers_through_the_record(
    flow_project: Any,
) -> None:
    from bridgehead.assembly.application import Assembly
    from bridgehead.assembly.flows.recording import RecordingAnnouncer
    from bridgehead.assembly.pending import pending_list
    from bridgehead.contract.doors import Door
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
        with pytest.raises(UserError, match="contains no JSON"):
            waiting.answer(item.id, Answer(text="not json"), Door.PAGE)
        (item,) = waiting.items(PendingFilter(), limit=9)
        good = json.dumps({"verdict": "good", "score": 9})
        assert (
            waiting.answer(
                item.id, Answer(status=AnswerStatus.SUCCESS, text=good), Door.PAGE
            ).answer
            is not None
        )


def many(count: int) -> Flow:
    def work(ctx: Context) -> list[str]:
        return ctx.gather(
            *[
                asking("q", agent="reviewer", prompt=f"{number}?")
                for number in range(count)
            ]
        )

    return Flow("many", "1", work)


def git(root: Path, *words: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    return subprocess.run(
        ("git", *identity, *words), cwd=root, check=True, capture_output=True, text=True
    ).stdout


def test_cleaning_the_work_tree_during_a_pause_loses_nothing(flow_project: Any) -> None:
    git(flow_project.root, "init", "-q")
    git(flow_project.root, "commit", "-q", "--allow-empty", "-m", "start")
    flow_project.run(FLOW)
    asked = flow_project.request()
    flow_project.answer(
        '{"verdict": "good", "score": 9}'
    )  # as a handler of another program writes it
    assert git(flow_project.root, "status", "--porcelain") == ""
    git(flow_project.root, "clean", "-fdq")
    assert flow_project.request() == asked
    assert flow_project.resume(FLOW).result == "good 9"


def test_an_answer_that_was_given_outlives_its_file(flow_project: Any) -> None:
    flow_project.run(FLOW)
    give(flow_project, '{"verdict": "good", "score": 9}')
    for file in (flow_project.request_path, flow_project.response_path):
        file.unlink()
    with pytest.raises(AlreadyAnswered):
        respond(
            RespondRequest(
                flow_project.root, Reply(text="{}"), flow_project.announcer.asked_ids[0]
            )
        )
    assert flow_project.resume(FLOW).result == "good 9"


def test_an_answer_kept_while_a_pass_is_under_way_is_not_overwritten_by_it(
    flow_project: Any,
) -> None:
    flow = many(2)
    flow_project.run(flow)
    with SqliteJournal(flow_project.private / "journal.db") as journal:
        run = journal.unfinished()
        assert run is not None
        seen = journal.attempts(run.id)
        assert journal.keep_answer(
            seen[1].request_id, {"request_id": seen[1].request_id}
        )
        assert not journal.keep_answer(seen[1].request_id, {})
        journal.hold(run.id, seen, at="2026-11-15T10:15:03Z")
        assert journal.attempts(run.id)[1].response == {
            "request_id": seen[1].request_id
        }


def test_the_work_for_one_answer_does_not_grow_with_the_number_of_others(
    flow_project: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand answers to one run took the square of a thousand: every file read, every request written again."""
    work: dict[str, int] = {}

    def count(owner: Any, name: str, size: Any) -> None:
        original = getattr(owner, name)

        def counted(self: Any, *given: Any, **named: Any) -> Any:
            work[name] = work.get(name, 0) + size(given)
            return original(self, *given, **named)

        monkeypatch.setattr(owner, name, counted)

    count(CheckpointFiles, "read", lambda given: 1)
    count(SqliteJournal, "_put_attempts", lambda given: len(given[1]))
    count(SqliteJournal, "attempts", lambda given: 1)
    inputs = RunInputs(clock=flow_project.clock, announcer=flow_project.announcer)
    costs = []
    for size in (6, 24):
        flow = many(size)
        asked = len(flow_project.announcer.asked_ids)
        flow_project.run(flow, fresh=True)
        ids = flow_project.announcer.asked_ids[-size:]
        work.clear()
        flow_project.resume(flow)  # nobody has answered: all of them wait on
        waiting = (dict(work), len(flow_project.announcer.asked_ids) - asked - size)
        for request_id in ids[:-2]:
            respond(
                RespondRequest(flow_project.root, Reply(text="x"), request_id), inputs
            )
        work.clear()
        respond(RespondRequest(flow_project.root, Reply(text="x"), ids[-2]), inputs)
        costs.append((waiting, dict(work)))
    assert costs[0] == costs[1]


def test_who_has_only_to_choose_is_shown_the_choices_and_not_the_schema(
    flow_project: Any,
) -> None:
    places = {"enum": ["test", "live"]}
    flow_project.run(
        Flow(
            "ship",
            "1",
            lambda ctx: ctx.ask("to", agent="human", prompt="Where to?", schema=places),
        )
    )
    sent = str(flow_project.request()["prompt"])
    question = Question(
        key="k",
        kind=PendingKind.FLOW_REQUEST,
        part=Part.FLOWS,
        origin="flow",
        title="t",
        prompt=sent,
        schema=places,
    )
    assert sent.startswith(f"Where to?{SAYS_SCHEMA}") and question.text == "Where to?"
    assert structs.replace(question, schema={"type": "integer"}).text == sent

    with pytest.raises(UserError, match=r"refused: it must be one of: test, live$"):
        give(flow_project, "elsewhere")
    give(flow_project, "live")
