"""What was not looked at follows from the looks alone, and only a PASS gives way to it."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.contract.looks import Look, Looked, Unlooked, not_looked
from bridgehead.contract.words import Verdict
from bridgehead.council.calls import Call, Role
from bridgehead.council.reporting.gate import GateDemands, GatedState, decide_gate
from bridgehead.council.reporting.not_looked_at import not_looked_at_lines
from bridgehead.council.reporting.seat_report import completed_report
from bridgehead.council.runtimes.static.due import hidden_looks, is_due
from bridgehead.council.scope.withheld import LeftOut, Reason
from bridgehead.council.synthesis.coverage import file_looks, uncovered
from bridgehead.council.synthesis.finding import SeatReport
from bridgehead.council.synthesis.verdict import stands
from council.support.driving import item, items, task
from council.test_council import NOTHING_FOUND, Council, facts, finds, ready

END = Look(by="ruff", on="a.py", outcome=Looked.TO_THE_END)
DIED = not_looked("ast-grep", "a.py", Unlooked.DIED)
NOBODY = not_looked("", "a.py", Unlooked.NOBODY_ABLE)
IN_PART = Look(
    by="claude", on="a.py", outcome=Looked.IN_PART, reason=Unlooked.CUT, advice=None
)
OTHER = not_looked("", "b.kt", Unlooked.NOBODY_ABLE)


@pytest.mark.parametrize(
    ("looks", "missed"),
    [
        ([], []),
        ([END], []),
        ([DIED], [DIED]),
        ([DIED, END], []),
        ([END, DIED], []),
        ([IN_PART], [IN_PART]),
        ([DIED, IN_PART], [IN_PART]),
        ([NOBODY, DIED], [DIED]),
        ([END, OTHER], [OTHER]),
        ([DIED, OTHER], [DIED, OTHER]),
    ],
)
def test_what_nobody_looked_at_to_the_end_is_uncovered(
    looks: list[Look], missed: list[Look]
) -> None:
    assert list(uncovered(looks)) == missed


@pytest.mark.parametrize(
    ("verdict", "missed", "left"),
    [
        (Verdict.PASS, [], Verdict.PASS),
        (Verdict.PASS, [DIED], None),
        (Verdict.CONCERNS, [DIED], Verdict.CONCERNS),
        (Verdict.FAIL, [DIED], Verdict.FAIL),
        (None, [DIED], None),
    ],
)
def test_only_a_pass_gives_way_to_what_was_not_looked_at(
    verdict: Verdict | None, missed: list[Look], left: Verdict | None
) -> None:
    assert stands(verdict, missed) is left


@pytest.mark.parametrize(
    ("path", "text", "due"),
    [
        ("a.kt", "fun main() {}\n", True),
        ("lib/x.pl", "print 1;\n", True),
        ("main.c", "int main;\n", True),
        ("App.vue", "<template/>\n", True),
        ("nb.ipynb", "{}\n", True),
        ("bin/deploy", "#!/bin/sh\nrm -rf /\n", True),
        ("templates/page.html", "<p>{{ name }}</p>\n", True),
        ("Dockerfile", "FROM a:1\n", True),
        ("about.html", "<p>About us</p>\n", False),
        ("LICENSE", "MIT\n", False),
        ("README.md", "# Read me\n", False),
        ("uv.lock", "version = 1\n", False),
        ("data.json", "{}\n", False),
        ("logo.svg", "<svg/>\n", False),
        ("empty.c", "\n", False),
    ],
)
def test_code_is_due_and_documents_and_data_are_not(
    path: str, text: str, due: bool
) -> None:
    assert is_due(path, text) is due


@pytest.mark.parametrize(
    ("path", "reason", "told"),
    [
        ("big.py", Reason.TOO_LARGE, Unlooked.TOO_LARGE),
        ("wide.py", Reason.BINARY, Unlooked.UNREADABLE),
        ("key.py", Reason.SECRET, Unlooked.KEPT_BACK),
        ("locked.py", Reason.UNREADABLE, Unlooked.UNREADABLE),
        ("shown.py", Reason.MASKED, None),
        ("photo.png", Reason.BINARY, None),
        (".env", Reason.SECRET, None),
        ("vendor/big.js", Reason.TOO_LARGE, None),
    ],
)
def test_code_that_is_shown_to_nobody_is_not_looked_at(
    path: str, reason: Reason, told: Unlooked | None
) -> None:
    found = [look.reason for look in hidden_looks([LeftOut(path, reason)])]

    assert found == ([told] if told else [])


def test_what_a_change_brings_is_due_wherever_it_brings_it() -> None:
    vendored = LeftOut("vendor/big.js", Reason.TOO_LARGE)

    (look,) = hidden_looks([vendored], in_change=True)

    assert look.reason is Unlooked.TOO_LARGE


def test_a_line_says_what_was_not_looked_at_why_and_what_to_do() -> None:
    (line,) = not_looked_at_lines([OTHER])
    assert line.startswith("not looked at (no seat or analyser here reads it): b.kt; ")
    assert line.endswith("add a seat with a model, or read it yourself")
    many = [not_looked("ruff", f"{name}.py", Unlooked.DIED) for name in "abcdefg"]
    (line,) = not_looked_at_lines(many)
    assert line.startswith("not looked at (ruff gave no usable answer): a.py, b.py")
    assert "and 2 more" in line


def test_what_a_standing_role_invents_throws_doubt_on_all_looks_of_its_seat() -> None:
    invented = item("Invented", severity="HIGH", evidence="src/orders.py:900")

    def says(call: Call) -> object:
        is_standing = call.key.role is Role.INTEGRATION
        return items(*([invented] if is_standing else []))

    report = Council({"claude": ready("claude")}, says).drive().report

    assert (report.verdict, report.incomplete) == (None, True)
    assert {look.reason for look in report.not_looked_at} == {Unlooked.INVENTED}


def test_a_rig_that_is_not_verified_covers_no_file() -> None:
    missed = not_looked("static", "a.c", Unlooked.NOBODY_ABLE)
    found = completed_report(task(), facts("static"), NOTHING_FOUND)
    static = SeatReport(msgspec.structs.replace(found, looks=(missed,)))
    rig = SeatReport(
        completed_report(task(), facts("rig:x"), NOTHING_FOUND), verified=False
    )

    assert [look.on for look in uncovered(file_looks([static, rig], []))] == ["a.c"]


def test_a_gate_that_only_says_what_is_unread_still_refuses_what_failed() -> None:
    report = Council({"claude": ready("claude")}, finds()).drive().report
    unread = msgspec.structs.replace(
        report, incomplete=True, verdict=None, not_looked_at=(NOBODY,)
    )
    failed = msgspec.structs.replace(unread, not_looked_at=(DIED,))

    state = GatedState("the working tree", {})
    demands = GateDemands(unread_passes=True)
    assert decide_gate(unread, demands, [state]).passed
    assert not decide_gate(unread, GateDemands(), [state]).passed
    assert not decide_gate(failed, demands, [state]).passed
