"""A runtime that refused for want of quota, or for good, is not asked again until some time has passed (hazard 5)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bridgehead.assembly.council.councils import Councils
from bridgehead.assembly.council.refusals import BELIEVED
from bridgehead.assembly.council.request import CouncilRequest
from bridgehead.assembly.council.run import Audience, Finished
from bridgehead.contract.words import ErrorClass, Intensity
from bridgehead.council.request.plan import CouncilOptions
from bridgehead.council.scope.scope import ScopeRequest
from bridgehead.doctor.checkup import check_refusals
from bridgehead.doctor.diagnosis import Diagnosis
from bridgehead.host.clock import ManualClock, SystemClock
from council.cli.conftest import Hall, StandIn

QUOTA = "Quota exceeded. Check your plan and billing details."
RETIRED = "The model this account used has been retired."


def held(hall: Hall, after: timedelta = timedelta(), *runtimes: str) -> Finished:
    """A council held that much later; without names it seats whom it can find."""
    options = CouncilOptions(intensity=Intensity.QUICK, runtimes=runtimes)
    request = CouncilRequest(
        scope=ScopeRequest(paths=("orders/store.py",)),
        domains=("security",),
        options=options,
    )
    clock = ManualClock(SystemClock().now() + after)
    return Councils(hall.assembly, clock).call(request, Audience())


def shown_by_doctor(hall: Hall) -> list[Diagnosis]:
    with hall.assembly.store(read_only=True) as store:
        return check_refusals(store)


@pytest.mark.parametrize(
    ("said", "kind"),
    [(QUOTA, ErrorClass.QUOTA), (RETIRED, ErrorClass.RETIRED)],
    ids=["quota", "retired"],
)
def test_a_refused_runtime_is_not_asked_again_until_its_time_is_over(
    hall: Hall, codex: StandIn, said: str, kind: ErrorClass
) -> None:
    codex.log_in()
    codex.answers({"fail": said})
    held(hall)
    asked = len(codex.prompts)
    assert asked > 0

    again = held(hall)

    assert len(codex.prompts) == asked, "nothing was dispatched"
    assert again.report is not None
    reason = again.report.skip_reasons["codex"]
    assert (
        reason.startswith(f"still_refused: {kind.value}, asked again after ")
        and said in reason
    )
    (shown,) = shown_by_doctor(hall)
    assert kind.value in shown.message and shown.kind == "codex.refused"
    codex.answers({"outputs": []})
    held(hall, BELIEVED[kind] + timedelta(minutes=1))
    assert len(codex.prompts) > asked, "its time is over"
    assert shown_by_doctor(hall) == []


def test_who_is_named_or_called_for_again_is_asked(hall: Hall, codex: StandIn) -> None:
    codex.log_in()
    codex.answers({"fail": QUOTA})
    held(hall)
    asked = len(codex.prompts)

    skipped = held(hall)
    codex.answers({"outputs": []})
    retried = hall.resume(skipped.council.review_id, retry=("codex",))
    assert len(codex.prompts) > asked
    assert retried.report is not None and "codex" not in retried.report.bridges_skipped

    codex.answers({"fail": QUOTA})
    held(hall)
    asked = len(codex.prompts)
    held(hall, timedelta(), "codex")
    assert len(codex.prompts) > asked


def test_a_missing_login_is_looked_at_each_time(hall: Hall, codex: StandIn) -> None:
    codex.log_in()
    codex.answers(
        {"fail": "unexpected status 401 Unauthorized: Incorrect API key provided"}
    )
    held(hall)
    asked = len(codex.prompts)

    held(hall)

    assert len(codex.prompts) > asked
