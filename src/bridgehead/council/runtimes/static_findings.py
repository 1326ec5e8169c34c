"""From messages of analysers to findings: what belongs together, in which order, with which line as evidence. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from bridgehead.contract.words import Severity
from bridgehead.council.findings.tree import FileText
from bridgehead.council.runtimes.analysers.base import Message

# Small remarks of one kind in one file are one finding; nobody reads forty unused imports one by one.
_JOINED_BELOW: Final = Severity.MEDIUM
_MOST_PLACES: Final = 10
_LONGEST_QUOTE: Final = 300


def grouped(messages: Sequence[tuple[str, Message]]) -> list[tuple[str, list[Message]]]:
    """(tool, messages) of each finding: the worst first, then by place."""
    groups: dict[tuple[str, ...], tuple[str, list[Message]]] = {}
    for tool, message in sorted(set(messages), key=_order):
        key: tuple[str, ...] = (tool, message.rule, message.path)
        if message.severity.rank >= _JOINED_BELOW.rank:
            key = (*key, str(message.line), message.text)
        groups.setdefault(key, (tool, []))[1].append(message)
    return [(tool, group[:_MOST_PLACES]) for tool, group in groups.values()]


def is_quotable(message: Message, withheld: Mapping[str, str]) -> bool:
    """Lines of files that bear a secret are named, not repeated: reports travel further than files."""
    return message.quotable and message.path not in withheld


def quoted(message: Message, texts: Mapping[str, str], *, quote: bool) -> str:
    """`path:line` and the line in backticks, in a longer run of them where the line has some (council §25.1)."""
    place = f"{message.path}:{message.line}"
    lines = FileText(texts[message.path]).lines
    if not quote or not 1 <= message.line <= len(lines):
        return place
    line = lines[message.line - 1].strip()[:_LONGEST_QUOTE]
    if not line:
        return place
    longest = max((len(run) for run in re.findall(r"`+", line)), default=0)
    fence = "`" * (longest + 1)
    padding = " " if longest else ""
    return f"{place} {fence}{padding}{line}{padding}{fence}"


def _order(entry: tuple[str, Message]) -> tuple[int, str, int, str, str]:
    tool, message = entry
    return -message.severity.rank, message.path, message.line, tool, message.rule
