"""Annotations are read on every Python, also where they are evaluated only when they are looked at (3.14)."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from bridgehead.flows.definition import written_annotations


class Lazy:
    """A function whose annotations name what exists only for a type checker, as Python 3.14 has it."""

    @property
    def __annotations__(self) -> dict[str, Any]:  # type: ignore[override]
        raise NameError("name 'Order' is not defined")

    def __call__(self) -> None: ...


def test_annotations_that_cannot_be_evaluated_are_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = SimpleNamespace(
        Format=SimpleNamespace(STRING="string"),
        get_annotations=lambda _, format: {"order": "Order"} if format else {},
    )
    monkeypatch.setitem(sys.modules, "annotationlib", library)  # type: ignore[arg-type]

    assert written_annotations(Lazy()) == {"order": "Order"}


def test_annotations_that_can_be_are_as_they_were_written() -> None:
    def ship(order: int) -> None: ...

    assert written_annotations(ship) == {"order": "int", "return": "None"}
