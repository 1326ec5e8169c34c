"""A citation of a file that is there and was not reviewed is not invented (council §25.1)."""

from __future__ import annotations

import pytest

from bridgehead.council.findings.evidence import EvidenceOutcome, check_evidence
from bridgehead.council.findings.tree import Tree

TREE = Tree.of({"src/a.py": "x = 1\n"}, outside=("src/b.py", "lib/deep/c.py"))


@pytest.mark.parametrize(
    ("cited", "outcome", "reason"),
    [
        ("src/b.py:3", EvidenceOutcome.UNCHECKED, "outside_scope"),
        ("b/src/b.py:3", EvidenceOutcome.UNCHECKED, "outside_scope"),
        ("deep/c.py:7 `x = 2`", EvidenceOutcome.UNCHECKED, "outside_scope"),
        ("src/d.py:3", EvidenceOutcome.FAILED, "file_missing"),
        ("other/b.py:3", EvidenceOutcome.FAILED, "file_missing"),
        ("src/a.py:9", EvidenceOutcome.FAILED, "line_out_of_range"),
        ("src/a.py:1", EvidenceOutcome.PASSED, None),
    ],
)
def test_a_file_outside_the_scope_is_unchecked_and_one_that_is_nowhere_is_missing(
    cited: str, outcome: EvidenceOutcome, reason: str | None
) -> None:
    check = check_evidence(cited, TREE)

    assert (check.outcome, check.reason) == (outcome, reason)
