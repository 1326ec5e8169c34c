"""What was not looked at follows from the looks alone, and only a PASS gives way to it."""

from __future__ import annotations

import pytest

from bridgehead.contract.looks import Look, Looked, Unlooked, not_looked
from bridgehead.contract.words import Verdict
from bridgehead.council.reporting.not_looked_at import not_looked_at_lines
from bridgehead.council.runtimes.static.due import hidden_looks, is_due
from bridgehead.council.scope.withheld import LeftOut, Reason
from bridgehead.council.synthesis.coverage import uncovered
from bridgehead.council.synthesis.verdict import stands

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


def test_a_line_says_what_was_not_looked_at_why_and_what_to_do() -> None:
    (line,) = not_looked_at_lines([OTHER])
    assert line.startswith("not looked at (no seat or analyser here reads it): b.kt; ")
    assert line.endswith("add a seat with a model, or read it yourself")
    many = [not_looked("ruff", f"{name}.py", Unlooked.DIED) for name in "abcdefg"]
    (line,) = not_looked_at_lines(many)
    assert line.startswith("not looked at (ruff gave no usable answer): a.py, b.py")
    assert "and 2 more" in line
