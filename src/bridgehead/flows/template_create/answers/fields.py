"""Read members out of an agent's JSON (flows §12): required ones fail the answer, others get their default.

Everything forgiven is noted in `warnings`, in the words of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from bridgehead.flows.values.codec import Unfit

Item = TypeVar("Item")


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class Fields:
    """An object of an answer. `warnings` is shared by all objects of the same answer."""

    def __init__(self, members: Mapping[str, Any], warnings: list[str], where: str = "") -> None:
        self.members = members
        self.warnings = warnings
        self._where = where

    @classmethod
    def of(cls, value: Any, what: str, warnings: list[str]) -> Fields:
        """The object that must be there."""
        if not isinstance(value, dict):
            raise Unfit(f"{what} is not an object")
        return cls(value, warnings, what)

    def required_text(self, name: str) -> str:
        value = self.members.get(name)
        if not isinstance(value, str) or not value.strip():
            raise Unfit(f"{self._named(name)} is not a text")
        return value

    def required_number(self, name: str, low: float, high: float) -> float:
        value = self.members.get(name)
        if not is_number(value) or not low <= value <= high:  # type: ignore[operator]
            raise Unfit(f"{self._named(name)} is not a number from {low:g} to {high:g}")
        return float(value)  # type: ignore[arg-type]

    def required_list(self, name: str) -> list[Any]:
        value = self.members.get(name)
        if not isinstance(value, list):
            raise Unfit(f"{self._named(name)} is not a list")
        return value

    def required_texts(self, name: str) -> tuple[str, ...]:
        value = self.required_list(name)
        return tuple(self._kept(value, name, lambda item: item if isinstance(item, str) and item else None))

    def text(self, name: str, default: str = "") -> str:
        value = self.members.get(name, default)
        return str(value if isinstance(value, str) and value else self._default(name, default))

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        value = self.members.get(name, default)
        fits = isinstance(value, str) and value in choices
        return str(value if fits else self._default(name, default))

    def whole(self, name: str, low: int, high: int, default: int) -> int:
        value = self.members.get(name, default)
        fits = is_number(value) and low <= value <= high and value == int(value)
        return int(value) if fits else self._default(name, default)

    def child(self, name: str) -> Fields:
        """An object that may be missing; then everything in it has its default."""
        value = self.members.get(name, {})
        found: dict[str, Any] = value if isinstance(value, dict) else self._default(name, {})
        return Fields(found, self.warnings, self._named(name))

    def texts(self, name: str) -> tuple[str, ...]:
        return tuple(self.items(name, lambda item: item if isinstance(item, str) and item else None))

    def items(self, name: str, read: Callable[[Any], Item | None]) -> list[Item]:
        """The items of a list that `read` can use; the others are dropped, the list itself never fails."""
        value = self.members.get(name, [])
        listed: list[Any] = value if isinstance(value, list) else self._default(name, [])
        return self._kept(listed, name, read)

    def _kept(self, values: Sequence[Any], name: str, read: Callable[[Any], Item | None]) -> list[Item]:
        kept = []
        for position, value in enumerate(values):
            item = read(value)
            if item is None:
                self.warnings.append(f"{self._named(name)}[{position}] is not usable and was dropped")
            else:
                kept.append(item)
        return kept

    def _default(self, name: str, default: Any) -> Any:
        if name in self.members and self.members[name] != default:
            self.warnings.append(f"{self._named(name)} is not usable; {default!r} is taken instead")
        return default

    def _named(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name
