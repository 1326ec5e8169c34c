"""The argument about a finding can be read, and continued: `council show ID FINDING`, `council challenge`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bridgehead.assembly.council.councils import Councils
from bridgehead.assembly.council.reports import Reports
from bridgehead.assembly.council.run import Audience, Finished
from bridgehead.contract.words import Intensity
from bridgehead.council.reporting.report import CouncilReport, FindingEntry
from bridgehead.council.scope.scope import ScopeRequest
from bridgehead.errors import NotFound, UserError
from council.cli.conftest import Hall, StandIn
from support.installed import Machine

FOUND = {
    "type": "finding",
    "severity": "HIGH",
    "title": "Order ids are joined into SQL",
    "description": "Whoever calls it can read every order.",
    "evidence": "orders/store.py:10",
    "action": "bind the id",
}
QUESTION = "Is the id not checked before?"


def answer(outcome: str, response: str, **more: Any) -> dict[str, Any]:
    note = {
        "finding_id": "SS001",
        "challenge": "short",
        "mechanism": "non-applicability",
        **more,
    }
    return {
        "outputs": [],
        "challenge_notes": [{**note, "outcome": outcome, "response": response}],
    }


@pytest.fixture
def reviewed(hall: Hall, codex: StandIn) -> Finished:
    codex.log_in()
    codex.answers({"outputs": [FOUND]})
    return hall.call(runtimes=("codex",))


def challenge(
    hall: Hall, finding_id: str = "SS001", text: str = QUESTION
) -> CouncilReport:
    report = (
        Councils(hall.assembly).challenge(None, finding_id, text, Audience()).report
    )
    assert isinstance(report, CouncilReport)
    return report


def only(report: CouncilReport) -> FindingEntry:
    (entry,) = report.everything()
    return entry


def test_a_question_goes_to_the_seat_and_its_answer_supersedes_the_report(
    hall: Hall, codex: StandIn, reviewed: Finished
) -> None:
    assert reviewed.written is not None
    asked_before = len(codex.prompts)
    codex.answers(
        answer(
            "downgraded", "callers pass numbers, orders/store.py:10", new_severity="LOW"
        )
    )

    report = challenge(hall)

    (prompt,) = codex.prompts[asked_before:]
    assert (
        f"QUESTION: {QUESTION}" in prompt
        and "you reported it" in prompt
        and "Order ids are joined" in prompt
    )
    entry = only(report)
    assert (entry.id, entry.severity, entry.severity_original) == (
        "SS001",
        "LOW",
        "HIGH",
    )
    assert [(step.step, step.by) for step in entry.record][-2:] == [
        ("challenge", "you"),
        ("defence", "codex"),
    ]
    assert entry.record[-2].text == QUESTION and entry.record[-1].text.startswith(
        "downgraded: callers pass numbers"
    )
    assert entry.challenges == 1
    assert report.supersedes == reviewed.written.markdown
    project = hall.assembly.places.project
    newest = Reports(hall.assembly).find(None)
    old = json.loads((project / reviewed.written.json).read_text())
    assert newest.report == report and newest.doubt is None
    assert (
        old["superseded_by"] == newest.files.markdown and old["verdict"] == "CONCERNS"
    )
    for form in (reviewed.written.markdown, reviewed.written.html):
        assert "superseded by" in (project / form).read_text()
    assert "It supersedes" in (project / newest.files.markdown).read_text()


def test_a_withdrawal_needs_evidence_and_a_bare_one_is_a_dispute(
    hall: Hall, codex: StandIn, reviewed: Finished
) -> None:
    codex.answers(answer("withdrawn", "I was wrong"))
    disputed = only(challenge(hall))
    assert (disputed.cls, disputed.id, disputed.was) == ("disputed", "D001", "SS001")
    assert (disputed.positions[-1].bridge, disputed.positions[-1].position) == (
        "codex",
        "I was wrong",
    )

    codex.answers(
        answer("withdrawn", "the id is bound, orders/store.py:10", finding_id="D001")
    )
    gone = challenge(hall, "D001", "And now?")
    assert [one.id for one in gone.withdrawn_findings] == [
        "D001"
    ] and gone.verdict == "PASS"
    assert [step.text for step in only(gone).record if step.by == "you"][
        -1
    ] == "And now?"
    with pytest.raises(UserError, match="D001 was withdrawn"):
        challenge(hall, "D001")


def test_a_question_that_nobody_answers_is_told_and_changes_nothing(
    hall: Hall, codex: StandIn, reviewed: Finished
) -> None:
    codex.answers({"outputs": [], "challenge_notes": []})
    report = challenge(hall)
    entry = only(report)
    assert (entry.severity, entry.unanswered) == ("HIGH", 1)
    assert "question_unanswered:SS001" in report.warnings
    shown = Reports(hall.assembly).find(None).render("text", width=100, colour=False)
    assert "1 of them unanswered" in shown and "survived" not in shown


def test_what_cannot_be_asked_is_refused_before_anything_is_spent(
    hall: Hall, codex: StandIn, reviewed: Finished
) -> None:
    asked_before = len(codex.prompts)
    with pytest.raises(NotFound, match="no finding 'SS009'"):
        challenge(hall, "SS009")
    with pytest.raises(UserError, match="the question is empty"):
        challenge(hall, text="  ")
    hall.call(runtimes=("static",), intensity=Intensity.QUICK)
    with pytest.raises(UserError, match="cannot answer questions"):
        challenge(hall)
    assert len(codex.prompts) == asked_before


def test_a_finding_opens_into_its_record_with_the_cited_lines(
    hall: Hall, codex: StandIn
) -> None:
    codex.log_in()
    raised = {
        "target_finding_id": "X001",
        "challenge_text": "The caller <b>binds</b> it",
        "mechanism": "non-applicability",
    }
    defended = {
        "finding_id": "X001",
        "status": "confirmed",
        "defense": "No caller binds anything",
    }
    codex.answers(
        {
            "outputs": [FOUND],
            "challenges": [raised],
            "responses": [defended],
            "rulings": [],
        }
    )
    finished = hall.call(runtimes=("codex",), intensity=Intensity.STANDARD)
    assert finished.written is not None and isinstance(finished.report, CouncilReport)
    entry = finished.report.single_source_findings[0]
    steps = [(step.step, step.by) for step in entry.record]
    assert (
        steps[0][0] == "claim"
        and ("challenge", "codex, challenger") in steps
        and ("defence", "codex, security") in steps
    )
    line = (
        (hall.assembly.places.project / "orders" / "store.py")
        .read_text()
        .split("\n")[9]
    )
    cited = entry.cited[0]
    assert (cited.cited, cited.first, cited.lines[2]) == ((10, 10), 8, line)

    machine = Machine(
        hall.assembly.places.project.parent / "home", hall.assembly.places.project
    )
    shown = machine.run("council", "show", finished.report.review_id, entry.id).out
    page = (hall.assembly.places.project / finished.written.html).read_text()
    text = (hall.assembly.places.project / finished.written.markdown).read_text()
    for form in (shown, page, text):
        assert (
            "challenge by codex, challenger, round 2" in form
            and "No caller binds anything" in form
        )
    assert f">   10  {line}" in shown and f">   10  {line}" in text
    assert (
        "<b>binds</b>" not in page
        and "<b>binds</b>" not in text.partition("## Report")[0]
    )
    document = machine.run(
        "council", "show", finished.report.review_id, entry.id, "--json"
    ).json
    assert document["record"][0]["step"] == "claim" and document["id"] == entry.id


def test_cited_lines_show_no_secret_that_the_models_were_not_shown(hall: Hall) -> None:
    project = hall.assembly.places.project
    (project / "orders" / "login.py").write_text(
        'USER = "op"\nPASSWORD = "Tr0ub4dor-and-3"\nHOST = "db"\n'
    )
    finished = hall.call(
        runtimes=("static",), scope=ScopeRequest(paths=("orders/login.py",))
    )
    assert finished.written is not None and isinstance(finished.report, CouncilReport)
    (entry,) = [one for one in finished.report.everything() if "secret" in one.title]
    assert entry.cited[0].lines == (
        'USER = "op"',
        'PASSWORD = "********"',
        'HOST = "db"',
    )
    for name in finished.written.files.values():
        assert "Tr0ub4dor-and-3" not in (project / name).read_text()
