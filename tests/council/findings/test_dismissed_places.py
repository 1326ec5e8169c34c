"""Which occurrences of a defect an entry of the dismissals file covers (council §25.4)."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from bridgehead.contract.words import Severity
from bridgehead.council.findings.dismissals import (
    MOST_LISTED,
    Dismissable,
    Dismissed,
    apply_dismissals,
    read_entry,
)
from bridgehead.council.findings.tree import Tree
from bridgehead.council.runtimes.static import seat

TODAY = dt.date(2026, 11, 18)
FIRST = "v1:0000000000000001"
SECOND = "v1:0000000000000002"
OLD_NAME = "v1:00000000000000ff"


def applied(
    occurrences: tuple[tuple[str, ...], ...], found: str = "Eval", **entry: Any
) -> Dismissed:
    table = {
        "fingerprint": FIRST,
        "title": "Eval",
        "reason": "fine",
        "date": "2026-11-01",
        **entry,
    }
    finding = Dismissable(
        "SS001", Severity.HIGH, found, (FIRST, OLD_NAME), occurrences=occurrences
    )
    return apply_dismissals([table], [finding], Tree.of({}), {}, TODAY)


@pytest.mark.parametrize(
    ("occurrences", "entry", "applies"),
    [
        (((FIRST,),), {}, True),
        ((), {}, True),
        (((FIRST,), (SECOND,)), {}, False),
        (((FIRST,), (SECOND,)), {"covers": [SECOND]}, True),
        (((FIRST,), (SECOND, OLD_NAME)), {"covers": [OLD_NAME]}, True),
        (((FIRST,),), {"covers": [SECOND]}, True),
    ],
)
def test_an_entry_covers_the_places_it_names_and_no_other(
    occurrences: tuple[tuple[str, ...], ...], entry: dict[str, Any], applies: bool
) -> None:
    result = applied(occurrences, **entry)

    assert bool(result.dismissed) is applies
    if not applies:
        assert result.notes["SS001"].why == "another_place"


def test_of_more_places_than_are_listed_the_title_counts() -> None:
    names = [f"v1:{number:016x}" for number in range(1, MOST_LISTED + 1)]
    places = tuple((name,) for name in names)

    more = applied(places, "Eval (51 places)", title="Eval (50 places)", covers=names)
    same = applied(places, "Eval (50 places)", title="Eval (50 places)", covers=names)

    assert (more.dismissed, same.dismissed) == ({}, {"SS001": 0})
    assert vars(seat)["_MOST_PLACES"] == MOST_LISTED


@pytest.mark.parametrize("covers", ["v1:x", [1], {}])
def test_covers_that_cannot_be_read_make_an_entry_invalid(covers: object) -> None:
    assert applied(((FIRST,),), covers=covers).entries[0].status == "invalid"
    assert read_entry({"fingerprint": FIRST, "covers": covers}) is None
