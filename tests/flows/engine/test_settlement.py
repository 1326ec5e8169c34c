"""What becomes of an outstanding call: flows §6 and §9 as tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.flows.calls import (
    Accepted,
    Attempt,
    Call,
    Failed,
    MatchedAnswer,
    Verdict,
)
from bridgehead.flows.engine.settlement import (
    Action,
    Rules,
    Settlement,
    read_verdict,
    settle,
)
from bridgehead.flows.files.documents import Contract
from bridgehead.flows.words import AttemptStatus, Profile

NOW = datetime(2025, 11, 18, 10, 31, tzinfo=UTC)
OLD, CURRENT, NEW = (f"{digit}f8b2c1e-6a57-4d0e-9b1c-2f6d7a8e9c01" for digit in "012")


def attempt(request_id: str = CURRENT, **members: Any) -> Attempt:
    status = members.pop("status", AttemptStatus.PENDING)
    document = {
        "request_id": request_id,
        "agent_name": "reviewer",
        "prompt": "?",
        "created_at": "2025-11-18T10:30:00Z",
        "timeout_seconds": 120,
        "retry_count": 0,
        **members,
    }
    return Attempt("ask#0", document, status)


def response(request_id: str = CURRENT, **members: Any) -> dict[str, Any]:
    return {
        "request_id": request_id,
        "version": "1.0",
        "status": "success",
        "created_at": "2025-11-18T10:30:30Z",
        **members,
    }


def judge(text: str) -> Verdict:
    if text == "bad":
        return Failed("low_confidence")
    return Accepted(text, "hm" if text == "hm" else None)


def settled(
    call: Call,
    document: dict[str, Any] | None = None,
    *,
    rules: Rules | None = None,
    on_file: bool = True,
    now: datetime = NOW,
) -> Settlement:
    answer = None
    if document is not None:
        named = next(
            one for one in call.attempts if one.request_id == document["request_id"]
        )
        answer = MatchedAnswer(named, document)
    return settle(
        call,
        answer,
        judge,
        rules or Rules(),
        request_on_file=on_file,
        now=now,
        new_id=lambda: NEW,
    )


CALL = Call("ask#0", (attempt(),))
RETRIED = Call(
    "ask#0", (attempt(OLD, status=AttemptStatus.SUPERSEDED), attempt(retry_count=1))
)


@pytest.mark.parametrize(
    ("members", "action", "status", "reason"),
    [
        ({"response": "ok"}, Action.ACCEPT, AttemptStatus.COMPLETED, None),
        ({"response": "hm"}, Action.ACCEPT_WITH_WARNING, AttemptStatus.COMPLETED, None),
        (
            {"response": "bad"},
            Action.FALLBACK,
            AttemptStatus.FALLBACK,
            "low_confidence",
        ),
        ({"response": ""}, Action.FALLBACK, AttemptStatus.FALLBACK, "VALIDATION_ERROR"),
        ({}, Action.FALLBACK, AttemptStatus.FALLBACK, "VALIDATION_ERROR"),
        (
            {"status": "done"},
            Action.FALLBACK,
            AttemptStatus.FALLBACK,
            "VALIDATION_ERROR",
        ),
        (
            {"version": "2.0", "response": "ok"},
            Action.FALLBACK,
            AttemptStatus.FALLBACK,
            "VALIDATION_ERROR",
        ),
        ({"status": "error"}, Action.FALLBACK, AttemptStatus.FALLBACK, "UNKNOWN"),
        (
            {"status": "error", "error_type": "PARSE_ERROR"},
            Action.FALLBACK,
            AttemptStatus.FALLBACK,
            "PARSE_ERROR",
        ),
        (
            {"status": "error", "error_type": "AGENT_NOT_FOUND"},
            Action.STOP,
            AttemptStatus.FAILED,
            "AGENT_NOT_FOUND",
        ),
        (
            {"status": "cancelled", "error_type": "TIMEOUT"},
            Action.STOP,
            AttemptStatus.CANCELLED,
            "cancelled",
        ),
        (
            {"status": "timeout", "error_type": "UNKNOWN"},
            Action.RETRY,
            AttemptStatus.SUPERSEDED,
            "TIMEOUT",
        ),
        (
            {"status": "error", "error_type": "INVOCATION_FAILED"},
            Action.RETRY,
            AttemptStatus.SUPERSEDED,
            "INVOCATION_FAILED",
        ),
    ],
)
def test_an_answer_to_the_current_attempt_decides(
    members: dict[str, Any], action: Action, status: AttemptStatus, reason: str | None
) -> None:
    result = settled(CALL, response(**members))
    assert result.action is action
    assert (result.attempts[0].status, result.attempts[0].error_type) == (
        status,
        reason,
    )
    assert result.attempts[0].response == response(**members)


def test_a_retry_is_a_new_request_with_twice_the_time() -> None:
    result = settled(CALL, response(status="timeout"))
    new = result.attempts[1]
    assert new.document == {
        **CALL.current.document,
        "request_id": NEW,
        "retry_count": 1,
        "timeout_seconds": 240,
        "created_at": "2025-11-18T10:31:00Z",
    }
    assert new.status is AttemptStatus.PENDING and new.resumes == 0


@pytest.mark.parametrize(
    ("contract", "longest"), [(Contract.SEED, 600), (Contract.OPEN, 1000)]
)
def test_the_time_of_a_retry_is_capped_by_the_contract(
    contract: Contract, longest: int
) -> None:
    call = Call("ask#0", (attempt(timeout_seconds=500),))
    result = settled(call, response(status="timeout"), rules=Rules(contract=contract))
    assert result.attempts[1].document["timeout_seconds"] == longest


def test_after_the_last_retry_comes_the_fallback() -> None:
    call = Call("ask#0", (attempt(retry_count=2),))
    assert settled(call, response(status="timeout")).action is Action.FALLBACK
    assert (
        settled(CALL, response(status="timeout"), rules=Rules(max_retries=0)).action
        is Action.FALLBACK
    )


def test_a_missing_agent_can_be_survived() -> None:
    document = response(status="error", error_type="AGENT_NOT_FOUND")
    assert (
        settled(CALL, document, rules=Rules(missing_agent_falls_back=True)).action
        is Action.FALLBACK
    )


def test_a_late_success_settles_the_call_and_overtakes_the_newer_attempt() -> None:
    result = settled(RETRIED, response(OLD, response="ok"))
    assert result.action is Action.ACCEPT
    assert [(a.request_id, a.status, a.error_type) for a in result.attempts] == [
        (OLD, AttemptStatus.COMPLETED, None),
        (CURRENT, AttemptStatus.SUPERSEDED_BY_LATE_ANSWER, None),
    ]


@pytest.mark.parametrize(
    "members",
    [
        {"status": "error"},
        {"status": "cancelled"},
        {"response": "bad"},
        {"response": ""},
        {"status": "x"},
    ],
)
def test_anything_but_a_usable_success_of_an_old_attempt_is_ignored(
    members: dict[str, Any],
) -> None:
    result = settled(RETRIED, response(OLD, **members))
    assert result.ignored_old_attempt
    assert result.action is Action.WAIT


def test_an_unseen_request_is_issued_again_even_when_its_time_is_over() -> None:
    result = settled(CALL, on_file=False, now=NOW + timedelta(hours=1))
    assert result.action is Action.REISSUE
    again = result.attempts[0]
    assert (again.request_id, again.document["created_at"], again.resumes) == (
        CURRENT,
        "2025-11-18T11:31:00Z",
        1,
    )


def test_the_deadline_has_not_passed_at_equality() -> None:
    deadline = CALL.current.deadline
    seed = Rules(contract=Contract.SEED)
    assert settled(CALL, rules=seed, now=deadline).action is Action.WAIT
    assert (
        settled(CALL, rules=seed, now=deadline + timedelta(microseconds=1)).action
        is Action.RETRY
    )


def test_a_deadline_ends_no_call_of_other_flows() -> None:
    assert (
        settled(CALL, now=CALL.current.deadline + timedelta(days=365)).action
        is Action.WAIT
    )


def test_only_an_expiry_ends_a_call_and_an_answer_that_came_later_still_counts() -> (
    None
):
    call = Call("ask#0", (attempt(context={"expires_at": "2025-11-18T10:40:00Z"}),))
    end = call.current.expires_at
    assert end is not None and settled(call, now=end).action is Action.WAIT
    late = end + timedelta(microseconds=1)
    ended = settled(call, now=late, on_file=False)
    assert isinstance(ended.verdict, Failed) and (
        ended.action,
        ended.verdict.reason,
    ) == (Action.FALLBACK, "expired")
    assert settled(call, response(response="fine"), now=late).action is Action.ACCEPT


def test_a_queued_request_has_no_deadline_yet() -> None:
    call = Call("ask#0", (attempt(status=AttemptStatus.QUEUED),))
    assert settled(call, on_file=False, now=NOW + timedelta(days=9)) == Settlement(
        Action.QUEUED
    )


def test_success_with_error_fields_is_taken_and_noted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    document = response(response="ok", error_message="but")
    assert read_verdict(document, judge, Profile.INTEROP) == Accepted("ok")
    assert "error fields" in caplog.text


@settings(max_examples=200, deadline=None)
@given(
    retry_count=st.integers(0, 5),
    resumes=st.integers(0, 50),
    seconds=st.integers(-1000, 5000),
    on_file=st.booleans(),
    status=st.sampled_from(
        [None, "success", "error", "timeout", "cancelled", "nonsense"]
    ),
    text=st.sampled_from(["ok", "hm", "bad", ""]),
    error_type=st.sampled_from([None, "TIMEOUT", "AGENT_NOT_FOUND", "PARSE_ERROR"]),
)
def test_every_call_ends_waits_or_is_asked_again_and_never_more_than_allowed(
    retry_count: int,
    resumes: int,
    seconds: int,
    on_file: bool,
    status: str | None,
    text: str,
    error_type: str | None,
) -> None:
    current = attempt(retry_count=retry_count)._replace(resumes=resumes)
    members = {"status": status, "response": text, "error_type": error_type}
    document = (
        response(**{k: v for k, v in members.items() if v is not None})
        if status
        else None
    )
    call = Call("ask#0", (current,))
    result = settled(
        call, document, on_file=on_file, now=NOW + timedelta(seconds=seconds)
    )

    outstanding = [a for a in result.attempts if a.outstanding]
    if result.action in (Action.WAIT, Action.REISSUE, Action.RETRY):
        assert len(outstanding) == 1
        assert outstanding[0].number <= max(2, retry_count)
    else:
        assert outstanding == [] and result.verdict is not None
    if document is not None and status != "nonsense":
        assert result.action not in (Action.WAIT, Action.REISSUE)
    # The number of resumes is information only.
    again = Call("ask#0", (current._replace(resumes=0),))
    assert (
        settled(
            again, document, on_file=on_file, now=NOW + timedelta(seconds=seconds)
        ).action
        is result.action
    )
