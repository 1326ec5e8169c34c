"""Clustering: the index that makes it fast finds exactly what comparing every pair would find."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from bench.council_labels import agreement, join, labelled_outputs
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

WORDS = "order query cache user input token session index lock retry page limit".split()

# A basis that many texts share, with words taken out and added, so that overlaps lie around the thresholds.
texts = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=7),
    st.lists(st.sampled_from(WORDS), max_size=4).map(
        lambda left_out: [w for w in WORDS if w not in left_out]
    ),
).map(" ".join)
references = st.builds(
    lambda name, line, length: FileReference(name, line, line + length) if line else FileReference(name),
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
                st.sampled_from([OutputType.FINDING, OutputType.COMPLIANCE_GAP, OutputType.OBSERVATION])
            ),
            severity=draw(st.sampled_from([None, *Severity])),
            domain=draw(st.sampled_from(["security", "api"])),
            wording=Wording(tokens(draw(texts)), tokens(draw(texts))),
            references=tuple(draw(st.lists(references, max_size=2))),
            requirement_id=draw(st.sampled_from([None, "R-1", "R-2"])),
        )
        for number in range(count)
    ]


def by_every_pair(given_ones: Sequence[Candidate], *, same_domain: bool) -> list[tuple[str, ...]]:
    groups: list[list[Candidate]] = []
    for candidate in sorted(given_ones, key=by_severity_then_id):
        home = next(
            (group for group in groups if matches(group[0], candidate, same_domain=same_domain)), None
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
def test_property_every_candidate_is_in_exactly_one_cluster(given_ones: list[Candidate]) -> None:
    ids = [name for one in cluster(given_ones, same_domain=True) for name in one.ids]
    assert sorted(ids) == sorted(candidate.id for candidate in given_ones)


@given(candidates())
def test_property_the_survivor_has_the_highest_severity_of_its_cluster(given_ones: list[Candidate]) -> None:
    for one in cluster(given_ones, same_domain=True):
        ranks = [member.severity.rank if member.severity else 0 for member in one.members]
        assert ranks[0] == max(ranks)


def test_the_index_finds_what_comparing_every_pair_finds_in_reports_of_known_duplicates() -> None:
    labelled = labelled_outputs(400, seed=3)
    given_ones = [Candidate.of(output) for output in labelled.outputs]

    assert [one.ids for one in join(labelled.outputs)] == by_every_pair(given_ones, same_domain=True)


def test_known_duplicates_are_joined_and_hardly_anything_else() -> None:
    labelled = labelled_outputs(1_000, seed=3)
    found = agreement(join(labelled.outputs), labelled.label)

    assert found.precision > 0.85
    assert found.recall > 0.55


def test_tokens_of_plain_english_and_of_anything_else_are_made_by_the_same_rule() -> None:
    plain = "The user_id and the Order-ID of API v2, 42 and 7"
    assert tokens(plain) == tokens(plain + " é") - {"é"} == {"user", "id", "order", "api", "v2", "42"}
