"""Bodies of envelopes as pages show them: a small part of Markdown, everything else as it was written. Pure.

Foreign text: escaped before anything is recognised in it, and what would hide is spelled out. There are no links, no
images and no raw HTML, and no letter of what was written is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from markupsafe import Markup, escape

from bridgehead.council.render.telling import visible

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*)")
_HEADING: Final = re.compile(r"(#{1,6}) +(\S.*)")
_BULLET: Final = re.compile(r" *[-*+] +(\S.*)")
_NUMBERED: Final = re.compile(r" *\d{1,9}[.)] +\S.*")
# On escaped text; each stands on one line and holds no mark of its own kind, so nothing is tried twice.
_INLINE: Final = (
    (re.compile(r"\*\*([^*\n]+)\*\*"), r"<strong>\1</strong>"),
    (re.compile(r"(?<![*\w])\*([^*\s][^*\n]*)\*(?![*\w])"), r"<em>\1</em>"),
)
_CODE: Final = re.compile(r"`([^`\n]+)`")


class _Kind(Enum):
    BLANK = auto()
    TEXT = auto()
    HEADING = auto()
    BULLETS = auto()
    NUMBERS = auto()
    QUOTE = auto()
    TABLE = auto()
    CODE = auto()


@dataclass(slots=True)
class _Block:
    kind: _Kind
    lines: list[str] = field(default_factory=list)
    label: str = ""


def letter(text: str) -> Markup:
    """The text as markup."""
    return Markup("\n").join(_drawn(block) for block in _blocks(visible(text)))


def _blocks(text: str) -> list[_Block]:
    found = [_Block(_Kind.BLANK)]
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.fullmatch(line)
        if fence:
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
                found.append(_Block(_Kind.BLANK))
            else:
                found[-1].lines.append(line)
        elif mark:
            fence = mark[1]
            found.append(_Block(_Kind.CODE, label=mark[2].strip()))
        else:
            _take(found, line)
    return found


def _take(found: list[_Block], line: str) -> None:
    """Put a line where it belongs: to the block before it, or into one of its own."""
    kind, before = _kind_of(line), found[-1]
    goes_on = kind is _Kind.TEXT and line.startswith(" ") and before.kind in (_Kind.BULLETS, _Kind.NUMBERS)
    if goes_on:
        before.lines[-1] += f"\n{line.strip()}"
    elif kind is before.kind and kind is not _Kind.HEADING:
        before.lines.append(line)
    else:
        found.append(_Block(kind, [line]))


def _kind_of(line: str) -> _Kind:
    if not line.strip():
        return _Kind.BLANK
    if _HEADING.fullmatch(line):
        return _Kind.HEADING
    if _BULLET.fullmatch(line):
        return _Kind.BULLETS
    if _NUMBERED.fullmatch(line):
        return _Kind.NUMBERS
    return {">": _Kind.QUOTE, "|": _Kind.TABLE}.get(line.lstrip()[0], _Kind.TEXT)


def _drawn(block: _Block) -> Markup:
    lines = block.lines
    match block.kind:
        case _Kind.BLANK:
            return Markup("")
        case _Kind.HEADING:
            return _heading(lines[0])
        case _Kind.BULLETS:
            return _list("bullets", (_BULLET.sub(r"\1", line, count=1) for line in lines))
        case _Kind.NUMBERS:
            return _list("numbers", (line.strip() for line in lines))
        case _Kind.QUOTE:
            quoted = "\n".join(line.lstrip().removeprefix(">").removeprefix(" ") for line in lines)
            return Markup("<blockquote>{}</blockquote>").format(_inline(quoted))
        case _Kind.TABLE | _Kind.CODE:
            label = Markup('<span class="soft">{}\n</span>').format(block.label) if block.label else ""
            return Markup('<pre tabindex="0">{}{}</pre>').format(label, "\n".join(lines))
        case _Kind.TEXT:
            return Markup("<p>{}</p>").format(_inline("\n".join(lines)))


def _heading(line: str) -> Markup:
    """One of three sizes; the page itself has the two larger ones."""
    found = _HEADING.fullmatch(line)
    assert found is not None
    level = min(len(found[1]), 3) + 2
    return Markup("<h{0}>{1}</h{0}>").format(level, _inline(found[2]))


def _list(look: str, items: Iterator[str]) -> Markup:
    drawn = Markup("").join(Markup("<li>{}</li>").format(_inline(item)) for item in items)
    return Markup('<ul class="{}">{}</ul>').format(look, drawn)


def _inline(text: str) -> Markup:
    """Code first: what stands in it is taken as it is."""
    pieces = _CODE.split(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(piece) if place % 2 else _emphasised(piece)
        for place, piece in enumerate(pieces)
    )


def _emphasised(text: str) -> Markup:
    marked = str(escape(text))
    for pattern, drawn in _INLINE:
        marked = pattern.sub(drawn, marked)
    # Safe: `text` was escaped, and the patterns put only tags of ours around parts of it.
    return Markup(marked)
