"""Values in the journal: the same before and after."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.flows.errors import FlowMistake
from bridgehead.flows.values.codec import (
    NotRecordable,
    Unfit,
    canonical,
    decode,
    encode,
    from_plain,
    to_plain,
)


class Colour(Enum):
    RED = "red"


class Word(StrEnum):
    YES = "yes"


class Point(NamedTuple):
    x: int
    y: int


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Struct(msgspec.Struct):
    a: int
    b: str = "b"


@dataclass
class Inner:
    path: Path
    colours: list[Colour] = field(default_factory=list)


@dataclass
class Outer:
    inner: Inner
    when: datetime
    maybe: int | None = None
    pairs: tuple[int, ...] = ()
    table: dict[str, Inner] = field(default_factory=dict)


OUTER = Outer(
    Inner(Path("/a"), [Colour.RED]),
    datetime(2026, 1, 1, tzinfo=UTC),
    3,
    (1, 2),
    {"k": Inner(Path("b"))},
)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (OUTER, Outer),
        ([Point(1, 2)], list[Point]),
        ({"title": "x", "year": 3}, Movie),
        ({"title": "x"}, Movie),
        (Struct(1), Struct),
        (Word.YES, Word),
        ((1, "a"), tuple[int, str]),
        (None, int | None),
        (5, Literal[5, 6]),
        (2.5, float),
        (2, float),
        ({"a": [1]}, dict[str, list[int]]),
        ("text", str),
        ([1, {"a": None}], Any),
        ("\ud800", str),
        ({1, 2}, set[int]),
        (frozenset({"a"}), frozenset[str]),
        ({Point(1, 2)}, set[Point]),
        (b"\x00bytes", bytes),
        (date(2026, 2, 28), date),
        (time(10, 15), time),
        (timedelta(days=1, microseconds=5), timedelta),
        (UUID(int=7), UUID),
        (Decimal("1.10"), Decimal),
        ({1: "a", 2: "b"}, dict[int, str]),
        ({date(2026, 1, 1): 1}, dict[date, int]),
    ],
)
def test_a_value_comes_back_as_it_was(value: Any, kind: Any) -> None:
    assert from_plain(decode(encode(value)), kind) == value
    assert from_plain(to_plain(value), kind) == value


def described(value: Any) -> str:
    """A value with the types of all its parts; a set may come back in another order."""
    if isinstance(value, set | frozenset):
        return f"{type(value).__name__}({sorted(map(described, value))})"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({[described(one) for one in value]})"
    if isinstance(value, dict):
        return (
            f"dict({[(described(key), described(one)) for key, one in value.items()]})"
        )
    return repr(value)


@pytest.mark.parametrize(
    "value",
    [
        {1, 2},
        frozenset({(1, 2), ("a", None)}),
        [(1, [2]), {"a": {3}}],
        b"\xff\x00",
        date(2026, 1, 1),
        datetime(2026, 1, 1, tzinfo=UTC),
        time(1, 2, 3, 4),
        timedelta(days=-1, microseconds=1),
        UUID(int=1),
        Decimal("1.10"),
        Path("/a"),
        {1: {2: "b"}, None: (), False: 0, (1, 2): b""},
        {"~": "set", "v": [1]},
        {"~": {"~": {1}}},
    ],
)
def test_a_value_without_a_type_comes_back_as_it_was(value: Any) -> None:
    back = decode(encode(value))
    assert back == value and described(back) == described(value)
    assert json.loads(json.dumps(to_plain(value))) == to_plain(value)


def test_what_older_journals_hold_has_the_digest_it_had() -> None:
    old = [
        (1, "a"),
        {"p": Path("/x"), "at": datetime(2026, 1, 1, tzinfo=UTC)},
        Colour.RED,
        {"~": 1},
    ]
    spelled = '[[1,"a"],{"at":"2026-01-01T00:00:00+00:00","p":"/x"},"red",{"~":1}]'
    assert canonical(old) == spelled.encode()
    assert (
        canonical([{1: "a", 2: "b"}])
        == canonical([{2: "b", 1: "a"}])
        != canonical([{"1": "a", "2": "b"}])
    )
    assert canonical([{3, 1, 2}]) == canonical([{2, 3, 1}])


def test_a_type_takes_what_older_journals_hold_in_its_place() -> None:
    assert from_plain(Path("/a"), str) == "/a"
    assert from_plain((1, 2), list[int]) == [1, 2]
    assert from_plain("1.5", Decimal) == Decimal("1.5")
    assert from_plain({"1": 2}, dict[int, int]) == {1: 2}


@pytest.mark.parametrize(
    "value",
    [float("nan"), object(), lambda: 1, (x for x in "a"), {object(): 1}, {object()}],
)
def test_what_has_no_json_form_is_refused_at_once(value: Any) -> None:
    with pytest.raises(NotRecordable, match="cannot be recorded"):
        encode({"a": value})


@pytest.mark.parametrize(
    ("plain", "kind"),
    [
        (True, int),
        ("1", int),
        (1.5, int),
        (True, float),
        (1, str),
        ("blue", Colour),
        ({"title": 3}, Movie),
        ({}, Movie),
        ({"inner": {}}, Outer),
        ([1, 2], tuple[int]),
        ("x", int | None),
        ([1], dict[str, int]),
        ("x", list[int]),
        ({"a": "no"}, Struct),
        (3, Literal["a"]),
        ("yesterday", datetime),
        ("yesterday", date),
        ("1,5", Decimal),
        ("no", UUID),
        (3, bytes),
        ("abc", set[str]),
        ({"x": 1}, dict[int, int]),
        (None, str),
        (1, None),
    ],
)
def test_what_is_not_of_the_type_is_unfit(plain: Any, kind: Any) -> None:
    with pytest.raises(Unfit):
        from_plain(plain, kind)


def test_a_type_without_a_json_form_is_a_mistake_in_the_flow() -> None:
    with pytest.raises(FlowMistake, match="cannot be used"):
        from_plain([], object.__class__)


def test_the_complaint_names_the_member() -> None:
    with pytest.raises(Unfit, match="inner: path"):
        from_plain({"inner": {"path": 3}, "when": "2026-01-01T00:00:00Z"}, Outer)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)


@settings(deadline=None, max_examples=50)
@given(st.dictionaries(st.text(max_size=5), JSON, min_size=2, max_size=5))
def test_the_order_of_keys_does_not_change_a_digest(document: dict[str, Any]) -> None:
    backwards = dict(reversed(document.items()))
    assert canonical(document) == canonical(backwards)
