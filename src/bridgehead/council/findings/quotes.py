"""Passages quoted in a piece of evidence, and the file references beside them (council §25.1 steps 1 and 2)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bridgehead.council.file_references import FileReference, locate_references
from bridgehead.council.findings.tree import squeeze

LEAST_QUOTE: Final = 3

_FENCE_LINE: Final = re.compile(r"^[^\S\n]*`{3,}[^\n]*(?:\n|\Z)", re.MULTILINE)
_BACKTICKS: Final = re.compile(r"`+")
_DOUBLE_QUOTED: Final = re.compile(r'"([^"\n]*)"|“([^”]*)”')
# `order_id`, `os.path.join`, `parse()`, `CWE-89`: a name proves nothing and fails nothing.
_BARE_NAME: Final = re.compile(r"[\w.:$-]+(\(\))?")


@dataclass(frozen=True, slots=True)
class Quote:
    text: str
    start: int
    end: int
    """Of the quote with its marks."""
    inside: int
    """Where the text itself begins; what a fence says behind its backticks stands before it."""

    def holds(self, place: int) -> bool:
        return self.inside <= place < self.inside + len(self.text)


@dataclass(frozen=True, slots=True)
class Citation:
    """One reference and the quotes that belong to it."""

    reference: FileReference
    quotes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cited:
    """What a piece of evidence cites; `loose` are its quotes when it names no file."""

    citations: tuple[Citation, ...]
    loose: tuple[str, ...]


def read_citations(evidence: str) -> Cited:
    """References in order, equal ones once, each with its quotes."""
    quotes = [quote for quote in _marked_passages(evidence) if _is_quote(quote.text)]
    located = [
        found
        for found in locate_references(evidence)
        if not any(quote.holds(found.start) for quote in quotes)
    ]
    if not located:
        return Cited((), tuple(quote.text for quote in quotes))
    belonging: dict[FileReference, list[str]] = {found.reference: [] for found in located}
    for quote in quotes:
        before = [found for found in located if found.start < quote.inside]
        owner = before[-1] if before else located[0]
        belonging[owner.reference].append(quote.text)
    return Cited(tuple(Citation(reference, tuple(texts)) for reference, texts in belonging.items()), ())


def _marked_passages(evidence: str) -> list[Quote]:
    """Fenced blocks and backtick spans; only where there are none, passages in quotation marks."""
    passages = list(_fenced(evidence))
    blanked = evidence
    for block in passages:
        blanked = blanked[: block.start] + " " * (block.end - block.start) + blanked[block.end :]
    passages += _spans(blanked)
    if passages:
        return sorted(passages, key=lambda passage: passage.start)
    return [
        Quote(match[match.lastindex or 0], match.start(), match.end(), match.start() + 1)
        for match in _DOUBLE_QUOTED.finditer(evidence)
    ]


def _fenced(evidence: str) -> Iterator[Quote]:
    fences = list(_FENCE_LINE.finditer(evidence))
    for opening, closing in zip(fences[::2], [*fences[1::2], None], strict=False):
        inside_end = closing.start() if closing else len(evidence)
        end = closing.end() if closing else len(evidence)
        yield Quote(evidence[opening.end() : inside_end], opening.start(), end, opening.end())


def _spans(text: str) -> Iterator[Quote]:
    """A run of n backticks to the next run of exactly n."""
    runs = list(_BACKTICKS.finditer(text))
    position = 0
    while position < len(runs):
        opening = runs[position]
        closing = next(
            (i for i in range(position + 1, len(runs)) if len(runs[i][0]) == len(opening[0])), None
        )
        if closing is None:
            position += 1
            continue
        end = runs[closing].end()
        yield Quote(text[opening.end() : runs[closing].start()], opening.start(), end, opening.end())
        position = closing + 1


def _is_quote(text: str) -> bool:
    trimmed = text.strip()
    if len(squeeze(trimmed)) < LEAST_QUOTE or _BARE_NAME.fullmatch(trimmed):
        return False
    return not _is_reference(trimmed)


def _is_reference(text: str) -> bool:
    bare = re.sub(r":[0-9]+$", "", text) if re.search(r":[0-9]+:[0-9]+$", text) else text
    return any(found.start == 0 and found.end == len(bare) for found in locate_references(bare))
