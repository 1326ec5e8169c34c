"""Counts the characters a parser looks at, so that a test can say how its work grows without looking at a clock.

Regular expressions, slices, the JSON and TOML readers of the named modules are replaced by ones that count: a search
costs the characters from where it began to where it stopped, a slice its length, a reader the text it was given.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class CountedText(str):
    """A text whose slices cost their length."""

    work: Work

    def __getitem__(self, key: Any) -> str:
        found = super().__getitem__(key)
        self.work.steps += len(found)
        return found


class Work:
    """What was looked at so far."""

    def __init__(self) -> None:
        self.steps = 0

    def text(self, text: str) -> CountedText:
        counted = CountedText(text)
        counted.work = self
        return counted

    def watch(self, monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> None:
        for module in modules:
            for name, value in list(vars(module).items()):
                if isinstance(value, re.Pattern):
                    monkeypatch.setattr(module, name, _CountedPattern(value, self))
                elif value is json:
                    monkeypatch.setattr(module, name, _counted_json(self))

    def watch_toml(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """tomllib joins the parts of a name one by one, so a name costs the square of its parts."""
        parse_key = tomllib._parser.parse_key  # type: ignore[attr-defined]

        def counted(text: str, position: int) -> tuple[int, tuple[str, ...]]:
            end, parts = parse_key(text, position)
            self.steps += len(parts) ** 2
            return end, parts

        monkeypatch.setattr(tomllib._parser, "parse_key", counted)  # type: ignore[attr-defined]


class _CountedPattern:
    def __init__(self, pattern: re.Pattern[str], work: Work) -> None:
        self._pattern = pattern
        self._work = work

    def search(self, text: str, start: int = 0) -> re.Match[str] | None:
        found = self._pattern.search(text, start)
        self._work.steps += (found.end() if found else len(text)) - start
        return found

    def finditer(self, text: str, start: int = 0) -> Iterator[re.Match[str]]:
        for found in self._pattern.finditer(text, start):
            self._work.steps += found.end() - start
            start = found.end()
            yield found
        self._work.steps += len(text) - start

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pattern, name)

    def findall(self, text: str) -> list[Any]:
        self._work.steps += len(text)
        return self._pattern.findall(text)

    def match(self, text: str, start: int = 0) -> re.Match[str] | None:
        found = self._pattern.match(text, start)
        self._work.steps += found.end() - start if found else 1
        return found

    def fullmatch(self, text: str) -> re.Match[str] | None:
        self._work.steps += len(text)
        return self._pattern.fullmatch(text)

    def sub(self, new: Any, text: str, count: int = 0) -> str:
        self._work.steps += len(text)
        return self._pattern.sub(new, text, count)

    def split(self, text: str) -> list[Any]:
        self._work.steps += len(text)
        return self._pattern.split(text)


def _counted_json(work: Work) -> SimpleNamespace:
    def loads(text: str, **options: Any) -> Any:
        work.steps += len(text)
        return json.loads(text, **options)

    class Decoder(json.JSONDecoder):
        def raw_decode(self, text: str, start: int = 0) -> tuple[Any, int]:
            try:
                value, end = super().raw_decode(text, start)
            except RecursionError:
                work.steps += 1000
                raise
            except json.JSONDecodeError as error:
                work.steps += error.pos - start + error.pos // 256
                raise
            work.steps += end - start
            return value, end

    return SimpleNamespace(**{**vars(json), "loads": loads, "JSONDecoder": Decoder})


def growth(count: Callable[[int], int], size: int) -> float:
    """How much more work twice the input is."""
    return count(2 * size) / count(size)
