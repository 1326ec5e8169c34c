"""The corpus, the scores and the acceptance numbers of the simulated council; the figures come from bench/."""

from __future__ import annotations

import pytest

from bench.council import critical_path, latency_of
from bench.council_corpus import DOMAINS, OPERATORS, Operator, clean_twin, make_project
from bench.council_quality import (
    BASELINES,
    COUNCIL,
    COUNCILS,
    GIVING_IN,
    SHARED,
    SHARED_CALLS,
    UNION,
    accept,
)
from bench.council_scores import Rate, Score, deserved_verdict, score, total
from bench.council_simulation import (
    Condition,
    Finding,
    Review,
    agreed,
    hold_council,
    plain_union,
    sample,
)
from bench.plots import Line, line_chart
from bench.simulated import Site
from bridgehead.contract.words import CouncilProtocol, Severity, Verdict
from bridgehead.council.calls import CallKey, Role, Step


def test_every_site_stands_where_it_says_and_its_twin_is_right() -> None:
    project, twin = make_project(4), clean_twin(4)

    for site, clean in zip(project.sites, twin.sites, strict=True):
        assert project.files[site.path].splitlines()[site.line - 1] == site.code
        assert (site.path, site.line, site.tellings) == (
            clean.path,
            clean.line,
            clean.tellings,
        )
        assert (site.code == clean.code) is not site.is_defect
    assert twin.defects == ()
    assert {site.domain for site in project.sites} == set(DOMAINS)


def test_no_two_places_of_a_project_share_a_title() -> None:
    for seed in range(20):
        titles = [
            telling.title
            for site in make_project(seed).sites
            for telling in site.tellings
        ]
        assert len(titles) == len(set(titles))


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.kind)
def test_a_mutation_changes_the_line(operator: Operator) -> None:
    assert operator.right != operator.wrong


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [(0, 10, 0.0, 0.278), (5, 10, 0.237, 0.763), (95, 100, 0.888, 0.978)],
)
def test_the_interval_of_a_rate_is_wilsons(
    hits: int, trials: int, low: float, high: float
) -> None:
    assert Rate(hits, trials).interval == (
        pytest.approx(low, abs=0.001),
        pytest.approx(high, abs=0.001),
    )


def test_a_review_is_scored_against_what_is_known_of_its_project() -> None:
    project = make_project(4)
    first, second, third = project.defects[:3]
    lookalike = next(site for site in project.sites if not site.is_defect)
    worse = Severity.LOW if second.severity is not Severity.LOW else Severity.HIGH

    def said(site: Site, severity: Severity, *also: str) -> Finding:
        title = site.tellings[0].title
        return Finding(title, severity, (title, *also))

    review = Review(
        (
            said(first, first.severity),
            said(first, first.severity),
            said(second, worse, lookalike.tellings[0].title),
            said(lookalike, lookalike.severity),
        ),
        calls=3,
        withdrawn=(third.tellings[1].title, first.tellings[0].title),
    )
    found = score(project, review)

    assert (
        found.found,
        found.invented,
        found.entries,
        found.repeated,
        found.mixed,
    ) == (2, 1, 4, 1, 1)
    assert (found.misrated, found.lost, found.calls) == (1, 1, 3)
    assert found.recall.value == 2 / len(project.defects)
    assert total([found, found]).invented == 2


def test_a_project_deserves_the_verdict_of_its_worst_defect() -> None:
    assert deserved_verdict(clean_twin(4)) is Verdict.PASS
    worst = max(make_project(4).defects, key=lambda site: site.severity.rank).severity
    expected = Verdict.FAIL if worst is Severity.CRITICAL else Verdict.CONCERNS
    assert deserved_verdict(make_project(4)) is expected


def test_a_council_reports_what_its_models_see_less_what_is_withdrawn() -> None:
    project, condition = make_project(5), Condition(correlation=0.0)
    council, union = (
        hold_council(project, condition, 5),
        plain_union(project, condition, 5),
    )

    def places(review: Review) -> set[tuple[str, int]]:
        by_title = {
            telling.title: site for site in project.sites for telling in site.tellings
        }
        sites = [
            by_title[title] for finding in review.findings for title in finding.titles
        ]
        return {(site.path, site.line) for site in sites}

    assert places(council) <= places(union)
    assert council.withdrawn
    assert council.calls > 8 * len(DOMAINS)
    assert hold_council(project, condition, 5) == council


def test_a_majority_is_a_part_of_the_union() -> None:
    union = sample(make_project(6), Condition(0.3), 6, 5)
    majority = agreed(union, 3)

    assert 0 < len(majority.findings) < len(union.findings)
    assert set(majority.findings) <= set(union.findings)


def scores(**found: int) -> dict[str, Score]:
    """All strategies alike, except those given."""
    names = [*COUNCILS, *BASELINES, UNION]
    return {
        name: Score(
            projects=200, defects=2000, found=found.get(name, 1000), invented=1000
        )
        for name in names
    }


def test_a_council_no_better_than_a_baseline_is_not_accepted() -> None:
    good = Score(projects=200, defects=2000, found=1500, invented=500)
    better = {**scores(), COUNCIL: good, SHARED: good}

    assert all(check.met for check in accept({0.3: better}))
    met = [check.met for check in accept({0.3: scores()})]
    assert met == [False, True, True, True, True, True]


def test_a_council_that_falls_behind_the_union_or_loses_true_findings_is_not_accepted() -> (
    None
):
    good = Score(projects=200, defects=2000, found=1500, invented=500)
    behind = Score(projects=200, defects=2000, found=900, invented=1000, lost=100)

    given = {**scores(), COUNCIL: good, SHARED: good, GIVING_IN: behind}
    checks = list(accept({0.3: given}))

    assert [check.met for check in checks] == [True, False, False, True, True, True]


def test_shared_calls_that_find_less_or_are_too_many_are_not_accepted() -> None:
    good = Score(projects=200, defects=2000, found=1500, invented=500, calls=7400)
    worse = Score(projects=200, defects=2000, found=1400, invented=500, calls=2000)
    checks = accept({0.3: {**scores(), COUNCIL: good, SHARED: worse}})
    assert [check.met for check in checks][-2:] == [False, False]


def test_a_shared_council_of_four_makes_nine_calls_at_most() -> None:
    shared = Condition(0.3, protocol=CouncilProtocol.SHARED)
    for seed in range(5):
        assert hold_council(make_project(seed), shared, seed).calls <= SHARED_CALLS


def test_the_critical_path_is_that_of_the_slowest_seat_and_stage_b() -> None:
    def key(bridge: str, step: Step, domain: str) -> CallKey:
        return CallKey(seat=bridge, round=1, step=step, role=Role.EXPERT, domain=domain)

    first = [key("a", Step.ANALYSIS, "x"), key("a", Step.ANALYSIS, "y")]
    second = key("b", Step.ANALYSIS, "x")
    last = key("a", Step.STAGE_B, "x")

    waves = max(max(map(latency_of, first)), latency_of(second))
    assert critical_path([*first, second, last]) == pytest.approx(
        waves + latency_of(last)
    )


def test_a_chart_draws_every_line_with_its_intervals() -> None:
    chart = line_chart(
        "a < b", "x", "y", [Line("one", [(0, 0.5, 0.4, 0.6), (1, 0.7, 0.6, 0.8)])]
    )

    assert chart.startswith("<svg") and "a &lt; b" in chart
    assert chart.count("<circle") == 2
