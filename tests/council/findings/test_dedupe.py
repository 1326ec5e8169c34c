"""Clustering: the index that makes it fast finds exactly what comparing every pair would find."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import resources

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.council_labels import agreement, join, labelled_outputs
from bridgehead.contract.report import Output
from bridgehead.contract.words import OutputType, Severity
from bridgehead.council.findings.dedupe import (
    Candidate,
    Wording,
    by_severity_then_id,
    cluster,
    matches,
    tokens,
)
from bridgehead.council.findings.references import FileReference
from bridgehead.council.findings.weaknesses import weaknesses

WORDS = [
    "order",
    "query",
    "cache",
    "user",
    "input",
    "token",
    "session",
    "index",
    "lock",
    "retry",
    "page",
    "limit",
]

# A basis that many texts share, with words taken out and added, so that overlaps lie around the thresholds.
texts = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=7),
    st.lists(st.sampled_from(WORDS), max_size=4).map(
        lambda left_out: [w for w in WORDS if w not in left_out]
    ),
).map(" ".join)
references = st.builds(
    lambda name, line, length: (
        FileReference(name, line, line + length) if line else FileReference(name)
    ),
    st.sampled_from(["a.py", "src/a.py", "b.py"]),
    st.sampled_from([0, 1, 2, 5, 17, 40]),
    st.sampled_from([0, 3, 3000]),
)


@st.composite
def candidates(draw: st.DrawFn) -> list[Candidate]:
    count = draw(st.integers(0, 14))
    return [
        Candidate(
            id=f"C{number:03d}",
            type=draw(
                st.sampled_from(
                    [
                        OutputType.FINDING,
                        OutputType.COMPLIANCE_GAP,
                        OutputType.OBSERVATION,
                    ]
                )
            ),
            severity=draw(st.sampled_from([None, *Severity])),
            domain=draw(st.sampled_from(["security", "api"])),
            wording=Wording(tokens(draw(texts)), tokens(draw(texts))),
            references=tuple(draw(st.lists(references, max_size=2))),
            requirement_id=draw(st.sampled_from([None, "R-1", "R-2"])),
            names=frozenset(
                draw(st.lists(st.sampled_from(["load_order", "saveUser"]), max_size=2))
            ),
            told=draw(
                st.sampled_from(["", "CWE-89", "SQL injection", "path traversal"])
            ),
        )
        for number in range(count)
    ]


def by_every_pair(
    given_ones: Sequence[Candidate], *, same_domain: bool
) -> list[tuple[str, ...]]:
    groups: list[list[Candidate]] = []
    for candidate in sorted(given_ones, key=by_severity_then_id):
        home = next(
            (
                group
                for group in groups
                if matches(group[0], candidate, same_domain=same_domain)
            ),
            None,
        )
        if home is None:
            groups.append([candidate])
        else:
            home.append(candidate)
    return [tuple(member.id for member in group) for group in groups]


@settings(max_examples=150)
@given(candidates(), st.booleans())
def test_property_the_index_finds_what_comparing_every_pair_finds(
    given_ones: list[Candidate], same_domain: bool
) -> None:
    found = [one.ids for one in cluster(given_ones, same_domain=same_domain)]
    assert found == by_every_pair(given_ones, same_domain=same_domain)


@given(candidates())
def test_property_every_candidate_is_in_exactly_one_cluster(
    given_ones: list[Candidate],
) -> None:
    ids = [name for one in cluster(given_ones, same_domain=True) for name in one.ids]
    assert sorted(ids) == sorted(candidate.id for candidate in given_ones)


@given(candidates())
def test_property_the_survivor_has_the_highest_severity_of_its_cluster(
    given_ones: list[Candidate],
) -> None:
    for one in cluster(given_ones, same_domain=True):
        ranks = [
            member.severity.rank if member.severity else 0 for member in one.members
        ]
        assert ranks[0] == max(ranks)


def test_the_index_finds_what_comparing_every_pair_finds_in_reports_of_known_duplicates() -> (
    None
):
    labelled = labelled_outputs(400, seed=3)
    given_ones = [Candidate.of(output) for output in labelled.outputs]

    assert [one.ids for one in join(labelled.outputs)] == by_every_pair(
        given_ones, same_domain=True
    )


def test_known_duplicates_are_joined_and_hardly_anything_else() -> None:
    labelled = labelled_outputs(1_000, seed=3)
    found = agreement(join(labelled.outputs), labelled.label)

    assert found.precision > 0.9
    assert found.recall > 0.85


def test_tokens_of_plain_english_and_of_anything_else_are_made_by_the_same_rule() -> (
    None
):
    plain = "The user_id and the Order-ID of API v2, 42 and 7"
    assert (
        tokens(plain)
        == tokens(plain + " é") - {"é"}
        == {"user", "id", "order", "api", "v2", "42"}
    )


def output(
    title: str, description: str, evidence: str | None, agent: str = "security"
) -> Output:
    return Output(
        id=f"{agent}-{title}",
        type=OutputType.FINDING,
        severity=Severity.HIGH,
        status=None,
        title=title,
        description=description,
        evidence=evidence,
        action=None,
        domain="security",
        agent=agent,
    )


def are_joined(one: Output, other: Output) -> bool:
    return matches(Candidate.of(one), Candidate.of(other), same_domain=False)


ANALYSER = output(
    "A statement is put together and run",
    "ast-grep (go-sql-built, CWE-89): A statement is put together and run",
    "store.go:41, store.go:77",
    "ast-grep",
)


def test_a_model_and_an_analyser_about_one_place_and_weakness_are_one_finding() -> None:
    model = output(
        "User input reaches the database",
        "SQL injection: name is pasted into the text.",
        "store.go:76-78",
    )

    assert are_joined(model, ANALYSER)
    assert [len(one.ids) for one in join([model, ANALYSER])] == [2]


@pytest.mark.parametrize(
    ("description", "evidence"),
    [
        ("Path traversal: name is pasted into the path.", "store.go:77"),
        ("SQL injection: name is pasted into the text.", "store.go:60"),
        ("SQL injection: name is pasted into the text.", "other.go:77"),
        ("The name is used too early.", "store.go:77"),
    ],
)
def test_another_weakness_or_another_place_is_another_finding(
    description: str, evidence: str
) -> None:
    assert not are_joined(
        output("User input goes too far", description, evidence), ANALYSER
    )


def test_findings_about_one_thing_of_the_code_are_joined_although_one_names_no_line() -> (
    None
):
    one = output(
        "load_order loses rows",
        "The loop of load_order skips the last of the rows.",
        "in store.py",
    )
    same = output(
        "Rows go",
        "load_order ends its loop early, the last entry is missing.",
        "store.py:12",
    )
    other = output(
        "Rows go",
        "load_item ends its order loop early, the last is missing.",
        "store.py:92",
    )

    assert are_joined(one, same)
    assert not are_joined(one, other)


def test_names_are_found_in_time_proportional_to_the_text() -> None:
    long = "a" * 300_000

    assert Candidate.of(
        output("title", f"{long} load_order saveUser close() {long}_x", None)
    ).names >= {
        "load_order",
        "saveUser",
        "close",
    }


def test_the_words_for_a_weakness_are_found_in_any_case_and_kept_in_small_letters() -> (
    None
):
    assert (
        weaknesses("SQL Injection in the login")
        == weaknesses("sql injection in the login")
        == {"sql"}
    )
    table = yaml.safe_load(
        (
            resources.files("bridgehead.council.findings") / "weaknesses.yaml"
        ).read_bytes()
    )
    assert [
        kind
        for kind, entry in table.items()
        if re.search(r"(?<!\\)[A-Z]", entry["words"])
    ] == []
