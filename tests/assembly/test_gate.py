"""Which council a gate asks about: the one that was begun last, whether or not it came to an end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.council import councils
from bridgehead.assembly.council.councils import Councils
from bridgehead.assembly.council.gate import check_gate, unfinished_council
from bridgehead.assembly.council.reports import Reports
from bridgehead.assembly.council.request import CouncilRequest
from bridgehead.assembly.council.run import Audience
from bridgehead.contract.record_words import Part, RunState
from bridgehead.contract.words import Intensity
from bridgehead.control_plane.records import Run
from bridgehead.council.reporting.gate import GateDemands
from bridgehead.council.request.plan import CouncilOptions
from bridgehead.errors import UserError
from bridgehead.host.clock import ManualClock, iso_ms
from council.cli.conftest import committed_orders

REPORT = {"report": {"json": "r.json", "markdown": "r.md", "html": "r.html"}}
NOW = iso_ms(ManualClock().now())
REQUEST = CouncilRequest(
    options=CouncilOptions(intensity=Intensity.QUICK, runtimes=("static",))
)


def run(state: RunState, **data: Any) -> Run:
    return Run(
        id="k1",
        part=Part.COUNCIL,
        kind="review",
        title="review",
        state=state,
        started_at=NOW,
        updated_at=NOW,
        data=data,
    )


@pytest.fixture
def assembly(tmp_path: Path) -> Assembly:
    machine = committed_orders(tmp_path)
    return Assembly(
        machine.project, machine.environ(PATH="/usr/local/bin:/usr/bin:/bin")
    )


@pytest.mark.parametrize(
    ("known", "says"),
    [
        (run(RunState.RUNNING), "was begun and has not ended"),
        (run(RunState.RUNNING, **REPORT), "was begun and has not ended"),
        (run(RunState.FAILED, failure="OSError"), "broke off: OSError"),
        (run(RunState.FAILED, failure="OSError", **REPORT), "broke off: OSError"),
        (run(RunState.WAITING, waiting_for=["win"]), "waits for win"),
    ],
)
def test_a_council_without_a_result_is_known_by_its_record(
    known: Run, says: str
) -> None:
    council = unfinished_council(known)

    assert council is not None
    assert council.objection == f"council k1 {says}"


@pytest.mark.parametrize("state", [RunState.COMPLETED, RunState.WAITING])
def test_a_council_with_a_report_is_judged_by_it(state: RunState) -> None:
    assert unfinished_council(run(state, **REPORT)) is None


@pytest.mark.parametrize("crash", [KeyError("timeout"), KeyboardInterrupt()])
def test_a_council_that_crashes_before_it_is_settled_leaves_a_trace(
    assembly: Assembly, monkeypatch: pytest.MonkeyPatch, crash: BaseException
) -> None:
    Councils(assembly).call(REQUEST, Audience())
    assert check_gate(assembly, None, GateDemands()).passed

    def fail(*_: object, **__: object) -> None:
        raise crash

    monkeypatch.setattr(councils, "open_council", fail)
    with pytest.raises(type(crash)):
        Councils(assembly).call(REQUEST, Audience())

    decision = check_gate(assembly, None, GateDemands())
    assert not decision.passed
    assert f"broke off: {type(crash).__name__}" in decision.refusals[0]


def test_a_request_that_is_refused_in_words_leaves_none(
    assembly: Assembly, monkeypatch: pytest.MonkeyPatch
) -> None:
    Councils(assembly).call(REQUEST, Audience())

    def refuse(*_: object, **__: object) -> None:
        raise UserError("no")

    monkeypatch.setattr(councils, "open_council", refuse)
    with pytest.raises(UserError):
        Councils(assembly).call(REQUEST, Audience())

    assert check_gate(assembly, None, GateDemands()).passed


def test_a_council_that_crashes_on_its_way_is_recorded_as_failed(
    assembly: Assembly, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("timeout")

    monkeypatch.setattr("bridgehead.assembly.council.run.local_seats", fail)
    with pytest.raises(KeyError):
        Councils(assembly).call(REQUEST, Audience())

    (council,) = Reports(assembly).runs(limit=5)
    assert council.state is RunState.FAILED
    assert council.data["failure"] == "KeyError: 'timeout'"


class BackwardClock(ManualClock):
    """A clock that has gone back a second whenever it is looked at."""

    STEP = timedelta(seconds=1)

    def __init__(self) -> None:
        super().__init__(datetime(2026, 11, 15, tzinfo=UTC))

    def now(self) -> datetime:
        self._now -= self.STEP
        return self._now


def test_a_clock_that_goes_back_does_not_hide_how_a_council_ended(
    assembly: Assembly,
) -> None:
    finished = Councils(assembly, BackwardClock()).call(REQUEST, Audience())

    (council,) = Reports(assembly).runs(limit=5)
    assert council.id == finished.council.review_id
    assert council.state is RunState.COMPLETED
    assert check_gate(assembly, None, GateDemands()).passed
