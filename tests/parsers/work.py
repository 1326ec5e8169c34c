"""Counts what a parser does: lines of Python, and the characters its patterns and slices look at."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

import bridgehead
from parsers.table import Parser, call
from support.counted_work import Work

SOURCE = bridgehead.__path__[0]


@contextmanager
def counting_patterns() -> Iterator[Work]:
    """Every pattern that a module of ours has compiled counts what it looks at."""
    work = Work()
    with pytest.MonkeyPatch.context() as patched:
        ours = [
            module
            for name, module in list(sys.modules.items())
            if name.startswith("bridgehead.")
        ]
        work.watch(
            patched,
            *(
                module
                for module in ours
                if any(isinstance(v, re.Pattern) for v in vars(module).values())
            ),
        )
        yield work


class Tracer:
    """Lines executed, in all Python files that are not ours to test with, and which steps between lines of ours."""

    def __init__(self, most_lines: int | None = None) -> None:
        self.lines = 0
        self.arcs: set[tuple[int, int, int]] = set()
        self._most_lines = most_lines
        self._last: dict[int, int] = {}

    @contextmanager
    def tracing(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)

    def _called(self, frame: FrameType, event: str, _argument: Any) -> Any:
        return (
            self._ours if frame.f_code.co_filename.startswith(SOURCE) else self._others
        )

    def _ours(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self._count()
            code, line = id(frame.f_code), frame.f_lineno
            self.arcs.add((code, self._last.get(code, 0), line))
            self._last[code] = line
        return self._ours

    def _others(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            self._count()
        return self._others

    def _count(self) -> None:
        self.lines += 1
        if self._most_lines is not None and self.lines > self._most_lines:
            raise OverBudget


class OverBudget(BaseException):
    """More work than the length of the input allows."""


def steps(parser: Parser, text: str, work: Work) -> int:
    """What reading `text` costs."""
    before, tracer = work.steps, Tracer()
    with tracer.tracing():
        call(parser, text)
    return tracer.lines + work.steps - before
