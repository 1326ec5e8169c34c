"""Nobody passes what nobody has read, and what a seat did not see stands in the council's report."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.contract.words import Confidence, TaskType, Verdict
from bridgehead.council.reporting.gate import (
    Gate,
    GateDemands,
    GatedState,
    GateOutcome,
    council_exit_code,
    decide_gate,
)
from bridgehead.council.reporting.render.markdown import render_markdown
from bridgehead.council.reporting.render.text import render_text
from bridgehead.council.scope.material import scope_material
from bridgehead.exit_codes import ExitCode
from council.support.driving import surroundings
from council.test_council import FILES, Council, finds, ready

LARGE = {**FILES, "src/a.py": "x = 1\n" * 30_000, "src/b.py": "x = 1\n" * 30_000}


def blind(bridge: str) -> object:
    return ready(bridge, reads_files=False, connection="api")


def held(seats: dict[str, object], says: object = None) -> Council:
    council = Council(
        seats, says or finds(), files=LARGE, task_fields={"files": 3, "loc": 60_005}
    )
    council.run._inputs = surroundings(LARGE, material=scope_material(LARGE))
    return council.drive()


def test_a_seat_that_missed_a_file_has_not_looked_to_the_end() -> None:
    report = held({"claude": ready("claude"), "codex": blind("codex")}).report

    assert report.looked == ("claude",)
    assert not report.incomplete


def test_what_no_seat_has_read_is_no_pass_and_no_gate_opens() -> None:
    report = held({"claude": blind("claude"), "codex": blind("codex")}).report

    assert (report.verdict, report.gate_verdict, report.incomplete) == (
        None,
        None,
        True,
    )
    assert report.unread == ("src/a.py", "src/b.py")
    assert msgspec.to_builtins(report)["verdict"] is None
    state = GatedState("the working tree", {})
    refusals = decide_gate(report, GateDemands(), [state]).refusals
    (refusal,) = refusals
    assert refusal.startswith("not looked at (too large): src/a.py, src/b.py; ")
    code = council_exit_code(
        GateOutcome.REPORT,
        verdict=None,
        task_type=TaskType.REVIEW,
        gate=Gate.FAIL,
        incomplete=True,
    )
    assert code is ExitCode.GATE
    for shown in (render_text(report), render_markdown(report)):
        assert "INCOMPLETE" in shown
        assert "PASS" not in shown
    assert "not looked at (too large): src/a.py, src/b.py" in render_text(report)
    assert "src/b.py" in render_markdown(report)


def test_a_seat_that_could_open_the_files_makes_it_a_verdict_and_the_other_says_what_it_saw() -> (
    None
):
    report = held({"claude": ready("claude"), "codex": blind("codex")}).report

    assert (report.verdict, report.incomplete, report.unread) == (
        Verdict.PASS,
        False,
        (),
    )
    assert [one.coverage for one in report.participants] == [None, 33]
    assert [one.confidence for one in report.participants] == [
        Confidence.HIGH,
        Confidence.MEDIUM,
    ]
    assert "material_left_out:codex:2" in report.warnings
    assert "saw 33 % of the files" in render_text(report)


def test_what_is_bad_already_stays_so_and_is_refused_all_the_same() -> None:
    report = held(
        {"claude": blind("claude"), "codex": blind("codex")},
        finds("SQL is built from input"),
    ).report

    assert (report.verdict, report.incomplete) == (Verdict.CONCERNS, True)
    state = GatedState("the working tree", {})
    refusals = decide_gate(report, GateDemands(), [state]).refusals
    assert any(line.startswith("not looked at") for line in refusals)


@pytest.mark.parametrize(
    ("warning", "told"),
    [
        ("static_truncated:12", "static_truncated:claude:12"),
        ("asked_without_tools:claude", "asked_without_tools:claude"),
        ("analyser_failed:ruff", "analyser_failed:claude:ruff"),
    ],
)
def test_what_a_seat_warns_of_is_in_the_report_of_the_council(
    warning: str, told: str
) -> None:
    council = Council({"claude": ready("claude", warnings=(warning,))}, finds()).drive()

    assert told in council.report.warnings
