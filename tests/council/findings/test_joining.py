"""Joining: which comments speak of one problem."""

from __future__ import annotations

import random
import re
from importlib import resources
from itertools import combinations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bench.council_labels import agreement, labelled_outputs
from bench.council_labels import join as join_outputs
from bridgehead.contract.report import Output
from bridgehead.contract.words import OutputType, Severity
from bridgehead.council.findings.joining import (
    Comment,
    is_same_problem,
    join,
    likeness,
)
from bridgehead.council.findings.references import FileReference, Relation, relate
from bridgehead.council.findings.weaknesses import weaknesses
from bridgehead.council.findings.wording import stem, stems, tokens

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
def candidates(draw: st.DrawFn) -> list[Comment]:
    count = draw(st.integers(0, 14))
    return [
        Comment(
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
            text=(text := draw(texts)),
            words=stems(text),
            references=tuple(draw(st.lists(references, max_size=2))),
            requirement_id=draw(st.sampled_from([None, "R-1", "R-2"])),
        )
        for number in range(count)
    ]


@given(candidates())
def test_property_every_candidate_is_in_exactly_one_cluster(
    given_ones: list[Comment],
) -> None:
    ids = [name for one in join(given_ones, same_domain=True) for name in one.ids]
    assert sorted(ids) == sorted(candidate.id for candidate in given_ones)


@given(candidates())
def test_property_the_survivor_has_the_highest_severity_of_its_cluster(
    given_ones: list[Comment],
) -> None:
    for one in join(given_ones, same_domain=True):
        ranks = [
            member.severity.rank if member.severity else 0 for member in one.members
        ]
        assert ranks[0] == max(ranks)


@given(candidates(), st.randoms(use_true_random=False))
def test_property_the_order_in_which_comments_arrive_changes_nothing(
    given_ones: list[Comment], dice: random.Random
) -> None:
    shuffled = dice.sample(given_ones, len(given_ones))

    assert join(shuffled, same_domain=False) == join(given_ones, same_domain=False)


@given(candidates())
def test_property_no_problem_spans_two_files_or_two_requirements(
    given_ones: list[Comment],
) -> None:
    for problem in join(given_ones, same_domain=False):
        for one, other in combinations(problem.members, 2):
            assert relate(one.references, other.references) is not Relation.DIFFERENT
            named = {one.requirement_id, other.requirement_id} - {None}
            assert len(named) < 2


def comment(name: str, text: str) -> Comment:
    return Comment.of_text(name, OutputType.FINDING, text)


REVIEWERS = [
    comment("C001", "The retry loop in fetchInvoice never stops when the host is down"),
    comment("C002", "fetchInvoice retries forever if the host cannot be reached"),
    comment(
        "C003", "Infinite retries: fetchInvoice has no limit for unreachable hosts"
    ),
    comment("C004", "The cache key of the price list leaves out the currency"),
    comment("C005", "Prices of one currency are served for another from the cache"),
]


def test_what_reviewers_say_of_one_problem_in_other_words_is_joined() -> None:
    problems = join(REVIEWERS, same_domain=False)

    assert [problem.ids for problem in problems] == [
        ("C001", "C002", "C003"),
        ("C004", "C005"),
    ]


def test_one_word_in_common_is_no_agreement() -> None:
    pair = [comment("C001", "Quota overflows"), comment("C002", "Quota renamed")]

    assert len(join(pair, same_domain=False)) == 2


def test_a_pair_that_a_person_split_is_not_joined_again() -> None:
    problems = join(
        REVIEWERS, same_domain=False, kept_apart=[frozenset({"C004", "C005"})]
    )

    assert [problem.ids for problem in problems][1:] == [("C004",), ("C005",)]


def test_a_pair_that_somebody_called_the_same_is_joined_whatever_its_words() -> None:
    problems = join(
        [REVIEWERS[0], REVIEWERS[3]],
        same_domain=False,
        said_same=[frozenset({"C001", "C004"})],
    )

    assert [problem.ids for problem in problems] == [("C001", "C004")]


def test_what_joins_two_comments_is_named_by_their_own_words() -> None:
    alike = likeness(REVIEWERS[1], REVIEWERS[2])

    assert alike.words[0] == "fetchInvoice"
    assert "retries" in alike.words
    assert alike.relation is Relation.NONE


@pytest.mark.parametrize(
    "words",
    [
        ["validate", "validates", "validated", "validation", "validating"],
        ["query", "queries"],
        ["cache", "caches", "cached", "caching"],
        ["handler", "handles", "handled"],
        ["dispatch", "dispatches", "dispatching"],
    ],
)
def test_forms_of_one_word_have_one_stem(words: list[str]) -> None:
    assert len({stem(word) for word in words}) == 1


def test_known_duplicates_are_joined_and_hardly_anything_else() -> None:
    labelled = labelled_outputs(1_000, seed=3)
    found = agreement(join_outputs(labelled.outputs), labelled.label)

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
    return is_same_problem(Comment.of(one), Comment.of(other), same_domain=False)


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
    assert [len(one.ids) for one in join_outputs([model, ANALYSER])] == [2]


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


def test_two_messages_of_one_analyser_have_its_name_in_common_and_nothing_else() -> (
    None
):
    default = output(
        "Do not use mutable data structures for argument defaults",
        "ruff (B006): Do not use mutable data structures for argument defaults",
        "store.py:22",
    )
    unused = output(
        "Loop control variable not in use",
        "ruff (B007): Loop control variable not in use",
        "store.py:24",
    )

    assert not are_joined(default, unused)


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
        "Connection stays open",
        "load_item does not close it after an error.",
        "store.py:92",
    )

    assert are_joined(one, same)
    assert not are_joined(one, other)


def test_names_are_found_in_time_proportional_to_the_text() -> None:
    long = "a" * 300_000

    assert stems(f"{long} load_order saveUser {long}_x") >= {
        "=loadorder",
        "=saveuser",
        "load",
        stem("order"),
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
