"""Set or remove one member of a JSON settings file.

Every other character, and every comment, stays as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridgehead.errors import UserError

DEEPEST: Final = 100

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR: Final = re.compile(
    r"true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?"
)
STEP: Final = "  "


class NotJson(UserError):
    """A settings file that is not the JSON it should be."""

    def __init__(self, problem: str, text: str, position: int) -> None:
        line = text.count("\n", 0, position) + 1
        super().__init__(f"line {line}: {problem}")


@dataclass
class Member:
    """`"key": value`, from the key to the end of the value.

    `comma` is the position of the comma behind it.
    """

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
        for member in self.members or ():
            if member.key == key:
                return member
        return None


@dataclass
class Scanner:
    """Reads one JSON text."""

    text: str
    comments: bool = False
    position: int = 0

    def scan(self) -> Value:
        """Return the whole text as a value, or raise NotJson."""
        self._skip()
        value = self._value(0)
        self._skip()
        if self.position != len(self.text):
            raise self._problem("unexpected text after the end")
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
                self._items(depth)
            case '"':
                self._string()
            case _:
                self._match(_SCALAR, "a value is missing")
        return Value(start, self.position)

    def _items(self, depth: int) -> None:
        self.position += 1
        begun = False
        separated = True
        while not self._closed("]", begun=begun, separated=separated):
            self._value(depth + 1)
            begun = True
            separated = self._comma() is not None

    def _members(self, depth: int) -> list[Member]:
        members: list[Member] = []
        self.position += 1
        separated = True
        while not self._closed("}", begun=bool(members), separated=separated):
            start = self.position
            key = self._string()
            if any(member.key == key for member in members):
                raise self._problem(f"{key!r} appears twice")
            self._skip()
            self._match(re.compile(":"), f"a colon is missing after {key!r}")
            self._skip()
            member = Member(key, start, self._value(depth + 1))
            members.append(member)
            member.comma = self._comma()
            separated = member.comma is not None
        return members

    def _closed(self, bracket: str, *, begun: bool, separated: bool) -> bool:
        """Return whether the end of a list is reached.

        A comma before it is allowed where comments are.
        """
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
        self._match(_STRING, "a string in double quotes is missing")
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


def value_at(text: str, path: Sequence[str], *, comments: bool) -> Any:
    """Return the value at `path`; None if there is none."""
    member = _find(_root(text, comments), path)
    if member is None:
        return None
    written = text[member.value.start : member.value.end]
    return _plain(written, Scanner(written, comments).scan())


def with_value(
    text: str, path: Sequence[str], value: Mapping[str, Any], *, comments: bool
) -> str:
    """Return `text` with `value` at `path`; missing objects are added."""
    if not text.strip():
        text = "{}\n"
    root = _root(text, comments)
    member = _find(root, path)
    if member is not None:
        before = text[: member.value.start]
        after = text[member.value.end :]
        return before + _written(value, _indent_at(text, member.start)) + after
    parent, missing = _deepest(text, root, path)
    for key in reversed(missing[1:]):
        value = {key: value}
    return _inserted(text, parent, missing[0], value)


def without_value(text: str, path: Sequence[str], *, comments: bool) -> str:
    """Return `text` without the member at `path` and the comma that separated it."""
    root = _root(text, comments)
    member = _find(root, path)
    if member is None:
        return text
    parent = _find(root, path[:-1]) if len(path) > 1 else None
    siblings = (parent.value if parent else root).members or []
    index = siblings.index(member)
    is_last = index == len(siblings) - 1
    if member.comma is not None:
        end = member.comma + 1 if is_last else siblings[index + 1].start
        return text[: member.start] + text[end:]
    before = text[: _after_space(text, member.start)]
    comma = siblings[index - 1].comma if index else None
    if comma is not None:
        before = before[:comma] + before[comma + 1 :]
    return before + text[member.value.end :]


def _root(text: str, comments: bool) -> Value:
    if text.startswith("\ufeff"):
        raise NotJson("the file begins with a byte order mark", text, 0)
    root = Scanner(text, comments).scan()
    if root.members is None:
        raise NotJson("the file does not contain an object", text, 0)
    return root


def _find(root: Value, path: Sequence[str]) -> Member | None:
    member: Member | None = None
    for key in path:
        member = root.member(key)
        if member is None:
            return None
        root = member.value
    return member


def _deepest(
    text: str, root: Value, path: Sequence[str]
) -> tuple[Value, Sequence[str]]:
    """Return the innermost object on the way to `path`, and the keys it lacks."""
    for index, key in enumerate(path):
        member = root.member(key)
        if member is None:
            return root, path[index:]
        if member.value.members is None:
            raise NotJson(f"{key!r} is not an object", text, member.start)
        root = member.value
    raise AssertionError("the whole path exists")


def _inserted(text: str, parent: Value, key: str, value: Any) -> str:
    """Return `text` with one more member in an object."""
    members = parent.members or []
    newline = "\r\n" if "\r\n" in text else "\n"
    outer = _indent_at(text, parent.start)
    is_one_line = bool(members) and "\n" not in text[parent.start : parent.end]
    if members and not is_one_line:
        indent = _indent_at(text, members[0].start)
    else:
        indent = outer + STEP
    entry = f"{json.dumps(key)}: {_written(value, indent, newline)}"
    if not members:
        content = f"{{{newline}{indent}{entry}{newline}{outer}}}"
        return text[: parent.start] + content + text[parent.end :]
    # The comma goes right behind the last value, the entry behind the comments that
    # belong to it.
    last = members[-1]
    close = _after_space(text, parent.end - 1)
    comma = "" if last.comma is not None else ","
    comments = text[last.value.end : close]
    separator = " " if is_one_line else newline + indent
    added = f"{comma}{comments}{separator}{entry}"
    return text[: last.value.end] + added + text[close:]


def _written(value: Any, indent: str, newline: str = "\n") -> str:
    lines = json.dumps(value, indent=len(STEP), ensure_ascii=False).split("\n")
    return f"{newline}{indent}".join(lines)


def _indent_at(text: str, position: int) -> str:
    """Return the white space that the line of `position` begins with."""
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _after_space(text: str, position: int) -> int:
    """Return where the white space before `position` begins."""
    return len(text[:position].rstrip(" \t\r\n"))


def _plain(text: str, value: Value) -> Any:
    """Return the value itself, without comments."""
    if value.members is None:
        try:
            return json.loads(text[value.start : value.end])
        except ValueError:
            return None  # a list with comments in it: nothing we ever wrote
    return {member.key: _plain(text, member.value) for member in value.members}
