"""From a runtime's outcome to what the run is fed: a reply, or a failure and its skip reason (council §19). Pure."""

from __future__ import annotations

from collections.abc import Callable

from bridgehead.council.calls import Call, CallFailed, Reply, Result
from bridgehead.council.refusals import DETAIL_CHARACTERS, excerpt, skip_reason
from bridgehead.council.runtimes.exchange import Outcome, Refused


def as_result(
    call: Call, outcome: Outcome, *, at: str, duration_seconds: float, mask: Callable[[str], str]
) -> Result:
    """The result of a call; what programs said about their failure is masked before it goes anywhere."""
    if not isinstance(outcome, Refused):
        return Reply(
            key=call.key,
            text=outcome.text,
            at=at,
            session=outcome.session,
            model=outcome.model,
            duration_seconds=duration_seconds,
            usage=outcome.usage,
        )
    usual = skip_reason(outcome.error_class, mask(outcome.message), call.timeout_seconds)
    return CallFailed(
        key=call.key,
        reason=outcome.reason or usual,
        error_class=outcome.error_class,
        at=at,
        detail=excerpt(mask(outcome.detail or outcome.message), DETAIL_CHARACTERS),
        duration_seconds=duration_seconds,
        usage=outcome.usage,
    )
