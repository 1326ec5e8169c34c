"""A review of a change judges the change: what is wrong on other lines is listed apart."""

from __future__ import annotations

import pytest

from bridgehead.assembly.council.events import report_facts
from bridgehead.contract.words import Verdict
from bridgehead.council.calls import Call, Role, Step
from bridgehead.council.reporting.render.html import render_html
from bridgehead.council.reporting.render.markdown import render_markdown
from bridgehead.council.reporting.render.text import render_text
from bridgehead.council.reporting.report import CouncilReport
from bridgehead.council.scope.scope import touched_lines
from council.support.driving import item, items, surroundings
from council.test_council import FILES, HERE, Council, finds, ready

TITLE = "Order id reaches the SQL text"
PATCH = """\
diff --git a/src/a.py b/src/a.py
--- a/src/a.py
+++ b/src/a.py
@@ -1,5 +1,6 @@
 one
-two
+two, changed
+and more
 three
 four
 five
@@ -20,4 +21,3 @@ def f():
 twenty
-gone
 after it
 end
\\ No newline at end of file
diff --git a/old name.py b/new name.py
similarity index 90%
rename from old name.py
rename to new name.py
--- a/old name.py
+++ b/new name.py
@@ -3 +3 @@
-x = 1
+x = 2
diff --git a/gone.py b/gone.py
deleted file mode 100644
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-x
"""
Touched = dict[str, tuple[tuple[int, int], ...]]


def test_a_patch_touches_what_it_adds_and_what_stands_beside_a_gap() -> None:
    assert touched_lines(PATCH) == {
        "src/a.py": ((2, 3), (21, 22)),
        "new name.py": ((3, 3),),
    }


def reviewed(touched: Touched | None, **fields: object) -> CouncilReport:
    council = Council(
        {"claude": ready("claude"), "codex": ready("codex")}, finds(TITLE, **fields)
    )
    council.run._inputs = surroundings(FILES, touched=touched)
    return council.drive().report


@pytest.mark.parametrize(
    "touched", [{"src/orders.py": ((1, 2),)}, {"other.py": ((4, 4),)}]
)
def test_a_finding_on_other_lines_is_listed_apart_and_counts_for_nothing(
    touched: Touched,
) -> None:
    report = reviewed(touched)

    assert (report.verdict, report.gate_verdict) == (Verdict.PASS, Verdict.PASS)
    assert list(report.findings()) == []
    assert [one.title for one in report.untouched_findings] == [TITLE]
    assert "1 finding on lines the change did not touch" in render_text(report)
    for shown in (render_markdown(report), render_html(report, [])):
        assert "On lines the change did not touch" in shown


@pytest.mark.parametrize("touched", [{"src/orders.py": ((4, 9),)}, None])
def test_a_finding_on_its_lines_counts_and_so_does_every_one_with_whole_files(
    touched: Touched | None,
) -> None:
    report = reviewed(touched)

    assert report.verdict is Verdict.CONCERNS
    assert (len(list(report.findings())), report.untouched_findings) == (1, ())


def test_a_finding_without_a_place_is_about_the_change() -> None:
    report = reviewed({"src/orders.py": ((1, 1),)}, evidence=None)

    assert (len(list(report.findings())), report.untouched_findings) == (1, ())


def test_headline_list_record_and_comparison_count_the_same() -> None:
    """Seen: findings that were dismissed or on other lines counted as new beside a headline without them."""

    def says(call: Call) -> object:
        there = {"severity": "HIGH", "evidence": "src/orders.py:1 `import db`"}
        usual = finds(TITLE)(call)
        if call.key.step is Step.ANALYSIS and call.key.role is Role.EXPERT:
            return items(
                item(TITLE, severity="HIGH", evidence=HERE),
                item("The driver is old", **there),
            )
        return usual

    council = Council(
        {"claude": ready("claude"), "codex": ready("codex")},
        says,
        previous_review_id="r0",
    )
    council.run._inputs = surroundings(FILES, touched={"src/orders.py": ((4, 4),)})
    report = council.drive().report

    standing = list(report.findings())
    assert [one.title for one in standing] == [TITLE]
    assert [one.title for one in report.untouched_findings] == ["The driver is old"]
    assert [one.title for one in report.comparison.new] == [TITLE]
    assert report_facts(report, {})["findings"] == {"HIGH": 1}
    shown = render_text(report)
    assert shown.startswith("CONCERNS   1 high")
    assert "since the last run: 1 new" in shown
