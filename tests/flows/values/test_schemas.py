"""Result types as JSON Schemas: what is described is what is read."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

import jsonschema
import pytest

from bridgehead.flows.values.codec import Unfit, from_plain
from bridgehead.flows.values.schemas import schema_of


class Colour(Enum):
    RED = "red"


class Extra(TypedDict):
    name: str
    note: NotRequired[str]


class Pair(NamedTuple):
    left: int
    right: int


@dataclass
class Review:
    verdict: Literal["pass", "fail"]
    score: int
    share: float = 0.0
    tags: list[str] = field(default_factory=list)
    colour: Colour | None = None
    extra: Extra | None = None
    counts: dict[str, int] = field(default_factory=dict)
    where: Path | None = None
    at: datetime | None = None
    parts: list[Review] = field(default_factory=list)


GOOD: list[tuple[Any, Any]] = [
    (
        Review,
        {
            "verdict": "pass",
            "score": 3,
            "extra": {"name": "x"},
            "colour": "red",
            "unknown": 1,
        },
    ),
    (
        Review,
        {"verdict": "pass", "score": 5.0, "parts": [{"verdict": "fail", "score": 1}]},
    ),
    (list[int], [1, 2]),
    (tuple[int, str], [1, "a"]),
    (tuple[int, ...], [1, 2, 3]),
    (Pair, [1, 2]),
    (int | None, None),
    (bool, True),
]
BAD: list[tuple[Any, Any]] = [
    (Review, "not an object"),
    (Review, {"verdict": "maybe", "score": 3}),
    (Review, {"verdict": "pass"}),
    (Review, {"verdict": "pass", "score": "3"}),
    (Review, {"verdict": "pass", "score": 3, "extra": {"note": "no name"}}),
    (Review, {"verdict": "pass", "score": 3, "counts": {"a": "b"}}),
    (list[int], [1, "2"]),
    (tuple[int, str], [1]),
    (bool, 1),
]


@pytest.mark.parametrize(("wanted", "plain"), GOOD)
def test_what_can_be_read_obeys_the_schema(wanted: Any, plain: Any) -> None:
    from_plain(plain, wanted)
    jsonschema.validate(plain, schema_of(wanted) or {})


@pytest.mark.parametrize(("wanted", "plain"), BAD)
def test_what_cannot_be_read_breaks_the_schema(wanted: Any, plain: Any) -> None:
    with pytest.raises(Unfit):
        from_plain(plain, wanted)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(plain, schema_of(wanted) or {})


def test_any_json_will_do_where_nothing_is_said() -> None:
    assert schema_of(Any) is None
    assert schema_of(list) == {"type": "array"}
