"""Decide how to settle an outstanding call (R8 and R9 of flows §9, recoveries of §6).

These are pure functions. The answer has already been matched to the call by its request
id (mailbox.py); the time, new ids and the judge of an answer's text are arguments.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from typing import Any, NamedTuple

from bridgehead.flows.calls import (
    Accepted,
    Attempt,
    Call,
    Failed,
    MatchedAnswer,
    Verdict,
)
from bridgehead.flows.errors import log_warning
from bridgehead.flows.files.documents import (
    Contract,
    InvalidDocument,
    is_supported,
    normalise,
)
from bridgehead.flows.values.times import utc_text
from bridgehead.flows.words import (
    CANCELLED,
    DEFAULT_MAX_RETRIES,
    EXPIRED,
    AttemptStatus,
    DocumentKind,
    ErrorType,
    Profile,
    RequestStatus,
)

Judge = Callable[[str], Verdict]

RETRIED = frozenset({ErrorType.INVOCATION_FAILED.value, ErrorType.TIMEOUT.value})


class Rules(NamedTuple):
    """The settings of the run and the flow that decide how a call is settled."""

    contract: Contract = Contract.OPEN
    profile: Profile = Profile.INTEROP
    max_retries: int = DEFAULT_MAX_RETRIES
    missing_agent_falls_back: bool = False


class Action(Enum):
    """The words of flows §9 for what happened to a call."""

    ACCEPT = "accept"
    ACCEPT_WITH_WARNING = "accept_with_warning"
    FALLBACK = "fallback"
    RETRY = "retry"
    STOP = "stop"
    WAIT = "wait"
    REISSUE = "reissue"
    QUEUED = "queued"


class Settlement(NamedTuple):
    """What happened to a call, and those of its attempts that changed.

    The verdict is set if an attempt has ended.
    """

    action: Action
    attempts: tuple[Attempt, ...] = ()
    verdict: Verdict | None = None
    ignored_old_attempt: bool = False


def settle(
    call: Call,
    answer: MatchedAnswer | None,
    judge: Judge,
    rules: Rules,
    *,
    request_on_file: bool,
    now: datetime,
    new_id: Callable[[], str],
) -> Settlement:
    """Return what becomes of `call`, given the answer to one of its attempts, if any.

    `request_on_file` says whether the request file holds its current request.
    """
    ignored = False
    if answer is not None:
        verdict = read_verdict(answer.document, judge, rules.profile)
        if answer.attempt.request_id == call.current.request_id:
            current = call.current._replace(response=answer.document)
            return _conclude(call.with_current(current), verdict, rules, now, new_id)
        if isinstance(verdict, Accepted):
            answered = answer.attempt._replace(response=answer.document)
            late = answered.ended(AttemptStatus.COMPLETED)
            overtaken = call.current.ended(AttemptStatus.SUPERSEDED_BY_LATE_ANSWER)
            return Settlement(_accepting(verdict), (late, overtaken), verdict)
        # The failure of that older attempt has been handled; the newest is still open.
        ignored = True
    settled = _without_answer(call, rules, request_on_file, now, new_id)
    return settled._replace(ignored_old_attempt=ignored)


def read_verdict(
    document: Mapping[str, Any], judge: Judge, profile: Profile
) -> Verdict:
    """Return the verdict on a response, by the schema and the rules of flows §3."""
    if not is_supported(document):
        return _unfit(f"unsupported contract version {document.get('version')}")
    try:
        response = normalise(document, DocumentKind.RESPONSE, profile)
    except InvalidDocument as error:
        return _unfit(str(error))
    message = response.get("error_message", "")
    match RequestStatus(response["status"]):
        case RequestStatus.SUCCESS:
            if response.get("error_type") or message:
                log_warning(
                    f"response {response['request_id']}: success with error fields "
                    "set; they are ignored"
                )
            text = response.get("response", "")
            return judge(text) if text else _unfit("success without a response")
        case RequestStatus.TIMEOUT:
            return Failed(ErrorType.TIMEOUT.value, message)
        case RequestStatus.CANCELLED:
            return Failed(CANCELLED, message)
        case RequestStatus.ERROR:
            return Failed(response.get("error_type", ErrorType.UNKNOWN.value), message)


def _unfit(message: str) -> Failed:
    return Failed(ErrorType.VALIDATION_ERROR.value, message)


def _conclude(
    call: Call, verdict: Verdict, rules: Rules, now: datetime, new_id: Callable[[], str]
) -> Settlement:
    current = call.current
    if isinstance(verdict, Accepted):
        completed = current.ended(AttemptStatus.COMPLETED)
        return Settlement(_accepting(verdict), (completed,), verdict)
    if verdict.reason == CANCELLED:
        cancelled = current.ended(AttemptStatus.CANCELLED, CANCELLED)
        return Settlement(Action.STOP, (cancelled,), verdict)
    if stops_the_flow(verdict, rules):
        failed = current.ended(AttemptStatus.FAILED, verdict.reason)
        return Settlement(Action.STOP, (failed,), verdict)
    if verdict.reason in RETRIED and current.number < rules.max_retries:
        return _retry(call, verdict, rules, now, new_id)
    given_up = current.ended(AttemptStatus.FALLBACK, verdict.reason)
    return Settlement(Action.FALLBACK, (given_up,), verdict)


def stops_the_flow(failure: Failed, rules: Rules) -> bool:
    """Return whether the agent is missing and the flow cannot continue without it."""
    is_missing = failure.reason == ErrorType.AGENT_NOT_FOUND.value
    return is_missing and not rules.missing_agent_falls_back


def _accepting(verdict: Accepted) -> Action:
    return Action.ACCEPT if verdict.warning is None else Action.ACCEPT_WITH_WARNING


def _retry(
    call: Call, failure: Failed, rules: Rules, now: datetime, new_id: Callable[[], str]
) -> Settlement:
    """Ask once more, with twice the timeout.

    The new request id distinguishes its answer from one to an older attempt (flows §6).
    """
    old = call.current
    longest = rules.contract.longest_timeout_seconds
    document = {
        **old.document,
        "request_id": new_id(),
        "timeout_seconds": min(longest, 2 * old.document["timeout_seconds"]),
        "created_at": utc_text(now),
        "retry_count": old.number + 1,
    }
    superseded = old.ended(AttemptStatus.SUPERSEDED, failure.reason)
    retried = Attempt(old.path, document, AttemptStatus.PENDING)
    return Settlement(Action.RETRY, (superseded, retried), failure)


def _without_answer(
    call: Call,
    rules: Rules,
    request_on_file: bool,
    now: datetime,
    new_id: Callable[[], str],
) -> Settlement:
    current = call.current
    if current.expires_at is not None and current.is_expired(now):
        expired = Failed(EXPIRED, f"no answer by {utc_text(current.expires_at)}")
        return _conclude(call, expired, rules, now, new_id)
    if current.status is AttemptStatus.QUEUED:
        return Settlement(Action.QUEUED)
    waited = current._replace(resumes=current.resumes + 1)
    if not request_on_file:
        return Settlement(Action.REISSUE, (waited.issued(now),))
    # A deadline matters only if there is no answer, and at the deadline itself it has
    # not passed (flows §6). It ends the handler's attempt. Only the seed's own flow
    # also ends the call; any other flow accepts an answer however late it comes.
    if rules.contract is Contract.SEED and now > current.deadline:
        late = Failed(ErrorType.TIMEOUT.value, "no answer before the deadline")
        return _conclude(call.with_current(waited), late, rules, now, new_id)
    return Settlement(Action.WAIT, (waited,))
