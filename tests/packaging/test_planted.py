"""A review of a file with a planted defect finds it or says that it did not look; anything else is told as broken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.council_static import FOLDER, language_of
from tools import installs
from tools.installs import Environment, held_back, what_breaks
from tools.planted import FILES, Outcome, Reviewed, judge


def report(*evidence: str, incomplete: bool = False) -> dict[str, Any]:
    findings = [{"evidence": text} for text in evidence]
    return {
        "verdict": None if incomplete else "PASS",
        "incomplete": incomplete,
        "single_source_findings": findings,
    }


def test_ten_languages_have_a_file_each() -> None:
    assert len({language_of(name) for name in FILES}) == 10
    assert all((FOLDER / name).is_file() for name in FILES)


@pytest.mark.parametrize(
    ("told", "outcome"),
    [
        (report("a.go:3 `x`, a.go:7 `y`"), Outcome.FOUND),
        (report("a.go:3 `x`"), Outcome.MISSED),
        (report(), Outcome.MISSED),
        (report(incomplete=True), Outcome.INCOMPLETE),
        (report("a.go:7 `y`", incomplete=True), Outcome.FOUND),
    ],
)
def test_a_pass_over_a_planted_defect_is_a_miss(
    told: dict[str, Any], outcome: Outcome
) -> None:
    reviewed = judge("Go", told, {7, 9})

    assert reviewed.outcome is outcome
    assert reviewed.is_sound == (outcome is not Outcome.MISSED)


def test_a_missed_defect_and_a_failing_selection_are_each_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [Reviewed("Go", Outcome.MISSED), Reviewed("PHP", Outcome.INCOMPLETE)]
    monkeypatch.setattr(installs, "review_each", lambda program: iter(found))
    monkeypatch.setattr(installs, "_succeeds", lambda command, seconds: False)

    problems = what_breaks(Environment(Path("/nowhere")))

    assert [problem.split(":")[0] for problem in problems] == [
        "a review of a planted defect in Go",
        "the selection of the tests fails",
    ]


def test_releases_beyond_our_bounds_are_tried_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    newer = {"ruff": "9.0", "rich": "99.0", "pip": "99.0"}
    monkeypatch.setattr(Environment, "outdated", lambda self: newer)

    assert held_back(Environment(Path("/nowhere"))) == {"ruff": "9.0"}


def test_newest_reports_and_lowest_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Environment, "create", lambda self, program: True)
    monkeypatch.setattr(Environment, "install", lambda self, *words: True)
    monkeypatch.setattr(Environment, "outdated", lambda self: {})
    monkeypatch.setattr(installs, "what_breaks", lambda environment: ["something"])
    monkeypatch.setattr(installs, "write_lowest", lambda environment: Path("x"))
    monkeypatch.setattr(installs, "find_pythons", lambda named: {(3, 11): "python"})

    assert installs.newest() == 0
    assert installs.lowest() == 1
