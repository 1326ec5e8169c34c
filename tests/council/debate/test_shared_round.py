"""Round 1 in one call: every role has a section, and a role without one has not looked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bridgehead.contract.looks import Looked, LookKind, Unlooked
from bridgehead.contract.report import BridgeReport
from bridgehead.contract.words import ErrorClass, Status
from bridgehead.council.calls import (
    Answer,
    Call,
    CallFailed,
    DeadlineReached,
    Reply,
    Role,
)
from bridgehead.council.council import run_for
from bridgehead.council.debate.call_batch import Budget
from bridgehead.council.debate.seat_run import SeatRun
from bridgehead.council.request.plan import CouncilOptions
from council.support.driving import (
    AT,
    Driver,
    drive,
    item,
    items,
    seat,
    sections,
    surroundings,
    task,
)

DOMAINS = ["security", "testing"]
BOTH = sections(
    security=items(item("SQL injection")),
    testing=items(item("No test of the empty list")),
    integration=items(item("The caller passes None")),
    cross_domain=items(item("Nobody rotates the key")),
)


def held(script: Any, **fields: Any) -> BridgeReport:
    report = drive(script, shared=True, **{"domains": DOMAINS, **fields}).run.report
    assert report is not None
    return report


def looks(report: BridgeReport) -> dict[str, tuple[str, str | None]]:
    assert isinstance(report.looks, tuple)
    return {
        look.on: (look.outcome, look.reason)
        for look in report.looks
        if look.kind is LookKind.DOMAIN
    }


@pytest.mark.parametrize("intensity", ["quick", "standard"])
def test_all_roles_of_a_seat_share_one_call(intensity: str) -> None:
    driver = drive(lambda _: BOTH, shared=True, domains=DOMAINS, intensity=intensity)
    assert driver.keys() == ["claude/1/analysis/experts"]
    assert driver.calls[0].answer is Answer.SECTIONS


def test_each_item_belongs_to_the_role_of_its_section() -> None:
    report = held(lambda _: BOTH)
    assert [(one.id, one.domain, one.agent) for one in report.outputs] == [
        ("C001", "security", "Security Auditor"),
        ("C002", "testing", "Test Quality Engineer"),
        ("C003", "integration", "Integration Checker"),
        ("C004", "cross-domain", "Challenger"),
    ]
    assert report.domains_covered == ("security", "testing")


def test_a_shared_round_is_reported_as_such_and_not_as_degraded() -> None:
    report = held(lambda _: BOTH)
    assert (report.exchange_mode, report.local_council_degraded) == ("shared", False)
    assert (report.confidence, report.usage.calls) == ("high", 1)


def test_the_prompt_names_every_role_and_shows_the_rules_first() -> None:
    (call,) = drive(lambda _: BOTH, shared=True, domains=DOMAINS).calls
    names = ["security", "testing", "integration", "cross-domain"]
    places = [call.prompt.index(f'Section "{name}"') for name in names]
    assert places == sorted(places)
    assert call.prompt.index("Evidence\n") < call.prompt.index("SCOPE:") < places[0]


def test_shared_prompts_of_a_seat_begin_alike() -> None:
    first, second = (
        drive(lambda _: BOTH, shared=True, domains=domains).calls[0].prompt
        for domains in (["security"], ["security", "testing"])
    )
    start = first.index("You review the scope in several roles")
    assert first[:start] == second[:start]


def test_a_section_that_is_missing_is_a_domain_not_looked_at() -> None:
    driver = drive(lambda _: sections(security=items()), shared=True, domains=DOMAINS)
    report = driver.run.report
    assert report is not None
    assert looks(report) == {
        "security": (Looked.TO_THE_END, None),
        "testing": (Looked.NOT, Unlooked.DIED),
    }
    assert report.domains_covered == ("security",)
    missing = [one["domain"] for one in driver.named("agent_failed")]
    assert missing == ["testing", "integration", "cross-domain"]


@pytest.mark.parametrize(
    "section",
    [
        {"outputs": ["nothing valid"]},
        {"outputs": None},
        {"outputs": [{"title": "x", "type": "finding | recommendation"}]},
        {},
    ],
)
def test_a_section_that_cannot_be_read_is_a_domain_not_looked_at(
    section: dict[str, Any],
) -> None:
    report = held(lambda _: sections(security=items(), testing=section))
    assert looks(report)["testing"] == (Looked.NOT, Unlooked.DIED)


def test_a_section_that_declines_is_a_refusal_of_that_role_alone() -> None:
    refusal = {"outputs": [], "summary": "I cannot review this code."}
    report = held(lambda _: sections(security=refusal, testing=items(item("A"))))
    assert looks(report) == {
        "security": (Looked.NOT, Unlooked.REFUSED),
        "testing": (Looked.TO_THE_END, None),
    }


def test_words_that_decline_beside_the_sections_speak_for_the_empty_ones() -> None:
    said = json.dumps(sections(security=items(), testing=items(item("A"))))
    report = held(lambda _: f"I can't help with security.\n{said}")
    assert looks(report)["security"] == (Looked.NOT, Unlooked.REFUSED)
    assert looks(report)["testing"] == (Looked.TO_THE_END, None)


def test_a_finding_may_quote_words_that_decline() -> None:
    quoting = items(item("The bot says: I cannot review this code"))
    report = held(lambda _: sections(security=items(), testing=quoting))
    assert looks(report)["security"] == (Looked.TO_THE_END, None)


def test_of_a_reply_that_was_cut_off_no_role_looked_to_the_end() -> None:
    cut = '{"sections": [{"domain": "security", "outputs": []}, {"domain": "tes'
    report = held(lambda _: cut)
    assert looks(report) == {
        "security": (Looked.IN_PART, Unlooked.CUT),
        "testing": (Looked.NOT, Unlooked.CUT),
    }


def test_one_repair_is_asked_for_where_no_section_can_be_read() -> None:
    answers = iter(["Looks good to me!", BOTH])
    driver = drive(lambda _: next(answers), shared=True, domains=DOMAINS)
    assert driver.keys() == [
        "claude/1/analysis/experts",
        "claude/1/analysis/experts#2",
    ]
    assert len(driver.run.report.outputs) == 4  # type: ignore[union-attr]


def test_a_seat_whose_call_fails_is_skipped_with_the_reason() -> None:
    report = held(lambda _: None)
    assert (report.status, report.skip_reason) == (Status.SKIPPED, "cli_error: boom")
    assert {reason for _, reason in looks(report).values()} == {Unlooked.DIED}


def test_a_plain_list_is_that_of_the_only_expert() -> None:
    report = held(lambda _: items(item("SQL injection")), domains=["security"])
    assert [one.domain for one in report.outputs] == ["security"]


def test_with_several_experts_a_plain_list_is_nobodys() -> None:
    report = held(lambda _: items())
    assert (report.status, report.skip_reason) == (Status.SKIPPED, "parse_failure")


def test_a_second_section_of_the_same_name_changes_nothing() -> None:
    said = sections(security=items(item("First")), testing=items())
    said["sections"].append({"domain": "Security", "outputs": []})
    assert [one.title for one in held(lambda _: said).outputs] == ["First"]


def test_domains_are_found_however_they_are_spelled() -> None:
    said = {"sections": [{"domain": " Data_Integrity ", "outputs": [item("A")]}]}
    report = held(lambda _: said, domains=["data-integrity", "testing"])
    assert [one.domain for one in report.outputs] == ["data-integrity"]


def test_a_deadline_keeps_nothing_of_a_call_that_has_not_come_back() -> None:
    run = SeatRun(seat(), task(domains=DOMAINS), surroundings(), shared=True)
    run.start(AT)
    turn = run.feed(DeadlineReached(seat="claude", at=AT))
    assert len(turn.cancelled) == 1
    assert run.report is not None and run.report.status is Status.SKIPPED


def test_a_budget_without_a_call_asks_nobody() -> None:
    budget = Budget(CouncilOptions(max_calls=0))
    run = SeatRun(
        seat(), task(domains=DOMAINS), surroundings(), budget=budget, shared=True
    )
    assert run.start(AT).calls == ()
    assert run.report is not None
    assert run.report.skip_reason == "budget_exhausted: max_calls"


def test_several_models_are_asked_once_each() -> None:
    several = seat("opencode", models=("a/one", "b/two"))
    run = run_for(several, task(domains=DOMAINS), surroundings(), shared=True)
    driver = Driver(run, lambda _: BOTH)
    report = driver.drive()
    assert driver.keys() == [
        "opencode/1/analysis/experts@a/one",
        "opencode/1/analysis/experts@b/two",
    ]
    assert report.intra_bridge_confirmed == 4
    assert report.exchange_mode == "shared"


def test_of_several_models_the_best_look_counts() -> None:
    def says(call: Call) -> Reply | CallFailed:
        if call.key.model == "a/one":
            failed = ErrorClass.QUOTA
            return CallFailed(key=call.key, reason="x", error_class=failed, at=AT)
        return Reply(key=call.key, text='{"outputs": []}', at=AT)

    several = seat("opencode", models=("a/one", "b/two"))
    run = run_for(several, task(), surroundings(), shared=True)
    for call in run.start(AT).calls:
        assert call.key.role is Role.EXPERTS
        run.feed(says(call))
    assert run.report is not None
    assert looks(run.report) == {"security": (Looked.TO_THE_END, None)}
