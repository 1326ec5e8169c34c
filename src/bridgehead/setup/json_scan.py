"""Where things stand in a JSON text: objects, members and commas with their positions, and comments where allowed.

Written so that a settings file can be edited in place: its formatting, its comments and everything we do not know stay
as they are. Pure.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Final

from bridgehead.errors import UserError

DEEPEST: Final = 100

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR: Final = re.compile(r"true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")


class NotJson(UserError):
    """A settings file that cannot be read as what it should be."""

    def __init__(self, problem: str, text: str, position: int) -> None:
        line = text.count("\n", 0, position) + 1
        super().__init__(f"line {line}: {problem}")


@dataclass
class Member:
    """`"key": value`, from the key to the end of the value; `comma` is the position of the comma behind it."""

    key: str
    start: int
    value: Value
    comma: int | None = None


@dataclass
class Value:
    """A stretch of the text; an object also has members."""

    start: int
    end: int
    members: list[Member] | None = None

    def member(self, key: str) -> Member | None:
        return next((one for one in self.members or () if one.key == key), None)


@dataclass
class Scanner:
    """Reads one JSON text."""

    text: str
    comments: bool = False
    position: int = field(default=0)

    def scan(self) -> Value:
        """The whole text as a value; NotJson when it is none."""
        self._skip()
        value = self._value(0)
        self._skip()
        if self.position != len(self.text):
            raise self._problem("something follows the end")
        return value

    def _value(self, depth: int) -> Value:
        if depth > DEEPEST:
            raise self._problem("nested too deeply")
        start = self.position
        match self.text[start : start + 1]:
            case "{":
                members = self._members(depth)
                return Value(start, self.position, members)
            case "[":
                self._elements(depth)
            case '"':
                self._string()
            case _:
                self._match(_SCALAR, "a value is missing")
        return Value(start, self.position)

    def _members(self, depth: int) -> list[Member]:
        members: list[Member] = []
        self.position += 1
        while not self._closed(
            "}", begun=bool(members), separated=not members or members[-1].comma is not None
        ):
            start = self.position
            key = self._string()
            if any(one.key == key for one in members):
                raise self._problem(f"{key!r} is there twice")
            self._skip()
            self._match(re.compile(":"), f"a colon is missing after {key!r}")
            self._skip()
            member = Member(key, start, self._value(depth + 1))
            members.append(member)
            member.comma = self._comma()
        return members

    def _elements(self, depth: int) -> None:
        self.position += 1
        comma: int | None = self.position
        begun = False
        while not self._closed("]", begun=begun, separated=comma is not None):
            self._value(depth + 1)
            comma, begun = self._comma(), True

    def _closed(self, bracket: str, *, begun: bool, separated: bool) -> bool:
        """Whether the end of a list is reached; a comma before it is allowed where comments are."""
        self._skip()
        if self.text[self.position : self.position + 1] == bracket:
            if begun and separated and not self.comments:
                raise self._problem("a comma before the end of a list")
            self.position += 1
            return True
        if not separated:
            raise self._problem("a comma is missing")
        return False

    def _comma(self) -> int | None:
        self._skip()
        if self.text[self.position : self.position + 1] != ",":
            return None
        self.position += 1
        return self.position - 1

    def _string(self) -> str:
        start = self.position
        self._match(_STRING, "a text in double quotes is missing")
        try:
            value = json.loads(self.text[start : self.position])
        except ValueError as error:
            raise self._problem(str(error)) from error
        assert isinstance(value, str)
        return value

    def _skip(self) -> None:
        while True:
            found = _SPACE.match(self.text, self.position)
            self.position = found.end() if found else self.position
            comment = _COMMENT.match(self.text, self.position)
            if comment is None:
                return
            if not self.comments:
                raise self._problem("comments are not allowed in this file")
            self.position = comment.end()

    def _match(self, pattern: re.Pattern[str], problem: str) -> None:
        found = pattern.match(self.text, self.position)
        if found is None:
            raise self._problem(problem)
        self.position = found.end()

    def _problem(self, problem: str) -> NotJson:
        return NotJson(problem, self.text, self.position)
