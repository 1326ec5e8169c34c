"""Identity of findings beyond the shared vectors: globs, records, written dismissals, hostile references."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.contract.report import Output
from bridgehead.contract.words import OutputState, OutputType, Severity
from bridgehead.council.findings.dismissals import (
    Dismissable,
    Dismissed,
    apply_dismissals,
    code_of,
    is_plain,
    matches_glob,
    read_entry,
)
from bridgehead.council.findings.evidence import (
    MOST_LOOSE_QUOTES,
    MOST_QUOTES,
    Anchor,
    EvidenceOutcome,
    check_evidence,
)
from bridgehead.council.findings.fingerprint import (
    Identity,
    cluster_fingerprint,
    identify,
    places,
)
from bridgehead.council.findings.history import FoundAgain, Run, carry_forward, compare
from bridgehead.council.findings.problems import distinct_problems
from bridgehead.council.findings.tree import (
    FileText,
    Tree,
    current_name,
    earlier_names,
    stopping_when,
)
from bridgehead.council.scope.scope import changed_lines

CODE = "import db\n\ndef load(cur, oid):\n    cur.execute(q + oid)\n    return cur.fetchone()\n"
GOOD = {"fingerprint": "v1:0011223344556677", "reason": "checked", "date": "2026-11-01"}


@pytest.mark.parametrize(
    ("path", "glob", "fits"),
    [
        ("src/a.py", "src/a.py", True),
        ("src/a.py", "src/*.py", True),
        ("src/x/a.py", "src/*.py", False),
        ("src/x/a.py", "src/**", True),
        ("src/x/a.py", "**/a.py", True),
        ("a.py", "**/a.py", True),
        ("src/a.py", "src/?.py", True),
        ("src/a.py", "src/[a-c].py", True),
        ("src/d.py", "src/[!a-c].py", True),
        ("src/a.py", "src/[z-a].py", False),
        ("src/a+b.py", "src/a+b.py", True),
        ("src/a.pyc", "src/a.py", False),
    ],
)
def test_globs_stay_inside_a_component_unless_doubled(
    path: str, glob: str, fits: bool
) -> None:
    assert matches_glob(path, glob) is fits


def test_a_glob_without_special_characters_is_plain() -> None:
    assert is_plain("src/a.py") and not is_plain("src/*.py")


@given(st.text(max_size=30), st.text(max_size=30))
def test_property_no_glob_raises(path: str, glob: str) -> None:
    matches_glob(path, glob)


@given(st.text(max_size=200))
def test_property_no_evidence_raises_and_nothing_outside_the_tree_is_read(
    evidence: str,
) -> None:
    asked: list[str] = []

    def read(path: str) -> str:
        asked.append(path)
        return CODE

    check_evidence(evidence, Tree(["src/a.py"], read))
    check_evidence(
        f"../../etc/passwd.txt:1 /etc/shadow.txt:2 {evidence}", Tree(["src/a.py"], read)
    )
    assert set(asked) <= {"src/a.py"}


@given(st.integers(0, 60), st.integers(0, 60))
def test_property_a_fingerprint_survives_lines_put_before_it(
    above: int, below: int
) -> None:
    def fingerprint(text: str, line: int) -> str:
        tree = Tree.of({"a.py": text})
        anchor = check_evidence(f"a.py:{line}", tree).anchor
        return identify(
            type=OutputType.FINDING,
            title="t",
            domain="security",
            requirement_id=None,
            anchor=anchor,
            tree=tree,
            renames={},
        ).fingerprint

    padded = "".join(f"x_{n} = {n}\n" for n in range(above)) + CODE + "y = 1\n" * below
    assert fingerprint(padded, above + 4) == fingerprint(CODE, 4)
    assert fingerprint(CODE, 4) in places(FileText(padded), "a.py", "problem")


def test_renames_are_followed_over_chains_and_end_at_a_cycle() -> None:
    chain = {"a.py": "b.py", "b.py": "c.py"}
    assert current_name("a.py", chain) == "c.py"
    assert earlier_names("c.py", chain) == ("b.py", "a.py")
    swapped = {"a.py": "b.py", "b.py": "a.py"}
    assert current_name("a.py", swapped) == "b.py"
    assert earlier_names("a.py", swapped) == ("b.py",)


@pytest.mark.parametrize(
    "evidence",
    [
        "```python src/a.py:4\ncur.execute(q + oid)\n```",
        "src/a.py:4\n```\ndef load(cur, oid):\r+    cur.execute(q + oid)\r-return cur.fetchone()\n```",
    ],
)
def test_a_fence_may_name_its_file_and_a_diff_sign_may_follow_any_line_end(
    evidence: str,
) -> None:
    check = check_evidence(evidence, Tree.of({"src/a.py": CODE}))
    assert check.strength == "quote"
    assert [(one.path, one.cited) for one in check.references] == [("src/a.py", (4, 4))]


@pytest.mark.parametrize(
    ("evidence", "outcome", "reason"),
    [
        ("/srv/build/src/a.py:4", "passed", None),
        ("/etc/a.py:4", "failed", "file_missing"),
        ("/src/gone.py:4", "failed", "file_missing"),
        ("~/src/gone.py:4", "failed", "file_missing"),
        ("/srv/xsrc/a.py:4", "failed", "file_missing"),
        ("a.py:4", "passed", None),
        ("src/a.py:99", "failed", "line_out_of_range"),
        ("src/a.py:1 `cur.execute(everything)`", "failed", "quote_not_found"),
        ("b.py:1", "unchecked", "file_ambiguous"),
        ("`shared = line_of_two`", "unchecked", "no_reference"),
        ("src/long.py:1 `needle = found_late`", "failed", "quote_not_found"),
        ("src/long.py:60 `needle = found_late`", "passed", None),
    ],
)
def test_evidence_counts_only_where_it_can_be_found(
    evidence: str, outcome: str, reason: str | None
) -> None:
    tree = Tree.of(
        {
            "src/a.py": CODE,
            "one/b.py": "shared = line_of_two\n",
            "two/b.py": "shared = line_of_two\n",
            "src/long.py": "x = 1\n" * 80 + "needle = found_late\n",
        }
    )
    check = check_evidence(evidence, tree)
    assert (check.outcome, check.reason) == (outcome, reason)


def test_a_long_run_of_characters_is_walked_once() -> None:
    # Walked once for each of its characters, this would take longer than the whole suite.
    wall = "-" * 400_000
    assert check_evidence(
        f"{wall} {wall}a://b a.py:4", Tree.of({"a.py": CODE})
    ).anchor == Anchor("a.py", (4, 4))


def test_a_cluster_is_known_by_the_place_most_members_name() -> None:
    members = [Identity("v1:b"), Identity("v1:a"), Identity("v1:b"), Identity("t1:x")]
    assert cluster_fingerprint(members) == ("v1:b", ("t1:x", "v1:a", "v1:b"))
    assert cluster_fingerprint([Identity("t1:b"), Identity("t1:a")])[0] == "t1:a"


def test_the_code_a_dismissal_remembers_is_the_cited_lines_squeezed() -> None:
    tree = Tree.of({"a.py": CODE, "b.py": CODE.replace("q + oid", "q+oid")})
    assert code_of(Anchor("a.py", (4, 5)), tree) == code_of(
        Anchor("b.py", (4, 5)), tree
    )
    assert (code_of(Anchor("a.py", (4, 4)), tree) or "").startswith("1:")
    assert code_of(Anchor("gone.py", (1, 1)), tree) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"fingerprint": "v2:0011223344556677"},
        {"reason": "  "},
        {"date": None},
        {"date": "2026-13-01"},
        {"expires": "soon"},
        {"paths": "src/"},
        {"severity": "GRAVE"},
    ],
)
def test_an_entry_whose_limits_cannot_be_read_has_no_effect(
    fields: dict[str, object],
) -> None:
    assert read_entry({**GOOD, **fields}) is None
    assert (
        read_entry(
            {**GOOD, "expires": None, "severity": None, "paths": None, "code": None}
        )
        is not None
    )


def found(fingerprint: str) -> FoundAgain:
    return FoundAgain(
        type=OutputType.FINDING, title="T", description="D", fingerprints=(fingerprint,)
    )


def run(**findings: FoundAgain) -> Run:
    return Run(
        findings, frozenset({"claude"}), frozenset(), frozenset({"security"}), ("src/",)
    )


def test_two_findings_with_one_fingerprint_get_records_of_their_own() -> None:
    both = run(A=found("t1:0"), B=found("t1:0"))
    records = carry_forward((), both, compare((), both, Tree.of({}), {}))
    assert [record.key for record in records] == ["t1:0", "t1:0-2"]
    again = compare(records, both, Tree.of({}), {})
    assert {state.state for state in again.current.values()} == {"persistent"}
    assert len({state.record for state in again.current.values()}) == 2


def test_a_fixed_record_stays_fixed_silently_and_its_return_is_a_regression() -> None:
    first = run(A=found("t1:0"))
    records = carry_forward((), first, compare((), first, Tree.of({}), {}))
    nothing = run()
    gone = compare(records, nothing, Tree.of({}), {})
    assert gone.previous["t1:0"].state in ("fixed", "unknown")
    settled = carry_forward(records, nothing, gone)
    assert compare(settled, nothing, Tree.of({}), {}).previous in ({}, gone.previous)


@pytest.mark.parametrize(
    ("seat", "unlooked"),
    [
        ("static", {"unlooked_files": frozenset({"a.py"})}),
        ("claude", {"unlooked_files": frozenset({"a.py"})}),
        ("claude", {"unlooked_domains": frozenset({"security"})}),
    ],
)
def test_what_was_not_looked_at_again_is_not_fixed(
    seat: str, unlooked: dict[str, frozenset[str]]
) -> None:
    tree = Tree.of({"a.py": "x = 1\n"})
    before = FoundAgain(
        type=OutputType.FINDING,
        title="T",
        description="D",
        fingerprints=("t1:0",),
        path="a.py",
        seats=(seat,),
        domains=("security",),
    )
    first = looked_at(A=before)
    records = carry_forward((), first, compare((), first, tree, {}))

    looked = compare(records, looked_at(), tree, {}).previous["t1:0"]
    unsure = compare(records, replace(looked_at(), **unlooked), tree, {}).previous

    assert looked.state == "fixed"
    assert (unsure["t1:0"].state, unsure["t1:0"].why) == ("unknown", "not_looked_at")


def looked_at(**findings: FoundAgain) -> Run:
    return Run(
        findings,
        frozenset({"claude", "static"}),
        frozenset({"a.py"}),
        frozenset({"security"}),
        ("a.py",),
    )


@pytest.mark.parametrize(
    ("evidence", "outcome", "reason"),
    [
        ("a.py:2 `if not admin:`", "unchecked", "quote_removed"),
        ("a.py:2 `- if not admin:`", "unchecked", "quote_removed"),
        ("a.py:2 `if not owner:`", "failed", "quote_not_found"),
        ("old/b.py:7", "unchecked", "file_removed"),
        ("a/old/b.py:7", "unchecked", "file_removed"),
        ("old/c.py:7", "failed", "file_missing"),
    ],
)
def test_what_a_change_takes_away_may_be_cited(
    evidence: str, outcome: str, reason: str
) -> None:
    patch = (
        "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,2 @@\n def f(admin):\n"
        "-    if not admin:\n-        raise Denied\n+    pass\n"
        "diff --git a/old/b.py b/old/b.py\ndeleted file mode 100644\n--- a/old/b.py\n+++ /dev/null\n"
        "@@ -1 +0,0 @@\n-check()\n"
    )
    tree = Tree.of({"a.py": "def f(admin):\n    pass\n"}, changed_lines(patch, "-"))

    found = check_evidence(evidence, tree)

    assert (found.outcome, found.reason) == (outcome, reason)


def test_whoever_quotes_without_end_is_not_searched_for_without_end() -> None:
    looks: list[None] = []
    tree = Tree.of({f"m{number}.py": "x = 1\n" for number in range(10)})
    with stopping_when(lambda: bool(looks.append(None))):
        check_evidence(" ".join(f"`y = {number}`" for number in range(5_000)), tree)
        check_evidence(
            "m1.py:1 " + " ".join(f"`y = {number}`" for number in range(5_000)), tree
        )

    assert len(looks) == MOST_LOOSE_QUOTES * 10 + 1 + MOST_QUOTES


@pytest.mark.parametrize(
    "evidence",
    [
        "m1.py:1 `y = 1`, `y = 2`, `y = 3`",
        "`y = 1`, `y = 2`, `y = 3`",
        "m1.py:1, m2.py:2",
    ],
)
def test_a_check_ends_when_the_council_is_asked_to_stop(evidence: str) -> None:
    tree = Tree.of({f"m{number}.py": "x = 1\n" for number in range(3)})
    looks: list[None] = []

    def soon() -> bool:
        looks.append(None)
        return len(looks) == 2

    with stopping_when(soon):
        check = check_evidence(evidence, tree)

    assert (check.outcome, check.reason, len(looks)) == (
        EvidenceOutcome.UNCHECKED,
        "stopped",
        2,
    )
    assert check_evidence(evidence, tree).reason != "stopped"
    with stopping_when(lambda: True):
        assert check_evidence(evidence, tree).reason != "stopped", (
            "what was checked before is known"
        )


TREE = Tree(["src/load.py"], {"src/load.py": CODE}.__getitem__)
TITLE = "Query is built from user input"


def applied(entry: dict[str, object], finding: Dismissable) -> Dismissed:
    table = {**GOOD, "title": TITLE, **entry}
    return apply_dismissals([table], [finding], TREE, {}, dt.date(2026, 11, 2))


def dismissable(**fields: Any) -> Dismissable:
    whole = {
        "id": "F-001",
        "severity": Severity.HIGH,
        "title": TITLE,
        "fingerprints": (GOOD["fingerprint"],),
        **fields,
    }
    return Dismissable(**whole)


def test_a_baseline_hides_a_finding_only_where_every_place_was_accepted() -> None:
    entry: dict[str, object] = {"places": ["v1:aaaa", "v1:bbbb"]}

    known = applied(entry, dismissable(places=(("v1:bbbb",),)))
    with_new_place = applied(entry, dismissable(places=(("v1:bbbb",), ("v1:cccc",))))
    without_place = applied(entry, dismissable())

    assert known.dismissed == {"F-001": 0}
    assert with_new_place.dismissed == without_place.dismissed == {}


def test_a_dismissal_for_some_paths_hides_nothing_that_has_no_place() -> None:
    entry: dict[str, object] = {"paths": ["**"]}

    assert applied(entry, dismissable()).dismissed == {}
    at_home = dismissable(anchor=Anchor("src/load.py", (4, 4)))
    assert applied(entry, at_home).dismissed == {"F-001": 0}


@pytest.mark.parametrize("word", ["false", "true", 1, 0, None, False])
def test_only_true_accepts_a_critical_finding(word: object) -> None:
    critical = dismissable(severity=Severity.CRITICAL)

    refused = applied({"accept_critical": word}, critical)

    assert refused.dismissed == {}
    assert refused.entries[0].why == "critical_not_accepted"
    assert applied({"accept_critical": True}, critical).dismissed == {"F-001": 0}


def test_a_problem_counts_as_a_gap_if_one_of_its_members_is_one() -> None:
    finding = output("F-001", OutputType.FINDING)
    gap = output("CG-001", OutputType.COMPLIANCE_GAP)

    [problem] = distinct_problems([finding, gap])

    assert problem.ids == ("CG-001", "F-001") and problem.gap


def output(output_id: str, kind: OutputType) -> Output:
    return Output(
        id=output_id,
        type=kind,
        status=OutputState.CONFIRMED,
        severity=Severity.HIGH,
        domain="security",
        agent="a",
        title=TITLE,
        description="The query is built from what the user typed.",
        evidence="src/load.py:4",
        action="Bind it.",
    )


def test_a_value_that_was_masked_makes_no_quote_an_invention() -> None:
    code = 'import db\nPASSWORD = "correct-horse-battery"\nuse(PASSWORD)\n'
    tree = Tree(["src/a.py"], {"src/a.py": code}.__getitem__)

    def outcome(evidence: str) -> tuple[str, str | None]:
        checked = check_evidence(evidence, tree)
        return checked.outcome.value, checked.reason

    assert outcome('src/a.py:2 `PASSWORD = "********"`') == ("passed", None)
    assert outcome("src/a.py:2 `[left out: github-token]`") == ("passed", None)
    assert outcome("src/a.py:9 `[left out: github-token]`")[0] == "failed"
    assert outcome('src/a.py:2 `TOKEN = "********"`') == ("passed", None)
    assert outcome("src/a.py:2 `TOKEN = made_up()`") == ("failed", "quote_not_found")
