"""Does the cited file exist, the cited line, the quoted text? Checked by code, no model (council §25.1)."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from bridgehead.council.findings.references import (
    FileReference,
    LocatedReference,
    locate_references,
)
from bridgehead.council.findings.tree import (
    FileText,
    ReadingStopped,
    Tree,
    look_up,
    squeeze,
)

LEAST_QUOTE: Final = 3
# Each is looked for in the file it belongs to, a loose one in all; whoever quotes more does not make that any longer.
MOST_QUOTES: Final = 50
MOST_LOOSE_QUOTES: Final = 5

_FENCE_LINE: Final = re.compile(r"^[^\S\n]*`{3,}[^\n]*(?:\n|\Z)", re.MULTILINE)
_BACKTICKS: Final = re.compile(r"`+")
_DOUBLE_QUOTED: Final = re.compile(r'"([^"\n]*)"|“([^“”]*)”')
# `order_id`, `os.path.join`, `parse()`, `CWE-89`: a name proves nothing and fails nothing.
_BARE_NAME: Final = re.compile(r"[\w.:$-]+(\(\))?")
NEAR_LINES: Final = 40
_DIFF_SIGN: Final = re.compile(r"((?:^|[\r\n])[^\S\r\n]*)[+-]")
_MASKED: Final = re.compile(r"\*{8}|\[left out: [a-z0-9-]{1,64}\]|\[masked\]")
"""What stands where a secret was, in a text that was masked."""
_ELLIPSIS: Final = re.compile(rf"\.\.\.|…|{_MASKED.pattern}")
"""What stands for words that a quote leaves out; a value that was masked is left out, too."""


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


def read_citations(evidence: str, unusual: Sequence[str] = ()) -> Cited:
    """References in order, equal ones once, each with its quotes; `unusual` are paths that do not look like one."""
    quotes = [
        quote for quote in _marked_passages(evidence) if _is_quote(quote.text, unusual)
    ]
    located = list(_outside(quotes, locate_references(evidence, unusual)))
    if not located:
        return Cited((), tuple(quote.text for quote in quotes[:MOST_LOOSE_QUOTES]))
    belonging: dict[FileReference, list[str]] = {
        found.reference: [] for found in located
    }
    starts = [found.start for found in located]
    for quote in quotes[:MOST_QUOTES]:
        owner = located[max(bisect_left(starts, quote.inside) - 1, 0)]
        belonging[owner.reference].append(quote.text)
    return Cited(
        tuple(
            Citation(reference, tuple(texts)) for reference, texts in belonging.items()
        ),
        (),
    )


def _outside(
    quotes: Sequence[Quote], located: Iterable[LocatedReference]
) -> Iterator[LocatedReference]:
    """The references that stand in no quote; both come in the order of the text, and quotes never overlap."""
    waiting = iter(quotes)
    quote = next(waiting, None)
    for found in located:
        while quote is not None and quote.end <= found.start:
            quote = next(waiting, None)
        if quote is None or not quote.holds(found.start):
            yield found


def _marked_passages(evidence: str) -> list[Quote]:
    """Fenced blocks and backtick spans; only where there are none, passages in quotation marks."""
    passages = list(_fenced(evidence))
    kept: list[str] = []
    position = 0
    for block in passages:
        kept += (evidence[position : block.start], " " * (block.end - block.start))
        position = block.end
    passages += _spans("".join((*kept, evidence[position:])))
    if passages:
        return sorted(passages, key=lambda passage: passage.start)
    return [
        Quote(
            match[match.lastindex or 0], match.start(), match.end(), match.start() + 1
        )
        for match in _DOUBLE_QUOTED.finditer(evidence)
    ]


def _fenced(evidence: str) -> Iterator[Quote]:
    fences = list(_FENCE_LINE.finditer(evidence))
    for opening, closing in zip(fences[::2], [*fences[1::2], None], strict=False):
        inside_end = closing.start() if closing else len(evidence)
        end = closing.end() if closing else len(evidence)
        yield Quote(
            evidence[opening.end() : inside_end], opening.start(), end, opening.end()
        )


def _spans(text: str) -> Iterator[Quote]:
    """A run of n backticks to the next run of exactly n."""
    runs = list(_BACKTICKS.finditer(text))
    closings: list[int | None] = [None] * len(runs)
    following: dict[int, int] = {}  # by length, the place of the next run
    for place in range(len(runs) - 1, -1, -1):
        length = len(runs[place][0])
        closings[place], following[length] = following.get(length), place
    position = 0
    while position < len(runs):
        opening = runs[position]
        closing = closings[position]
        if closing is None:
            position += 1
            continue
        end = runs[closing].end()
        yield Quote(
            text[opening.end() : runs[closing].start()],
            opening.start(),
            end,
            opening.end(),
        )
        position = closing + 1


def _is_quote(text: str, unusual: Sequence[str]) -> bool:
    trimmed = text.strip()
    if len(squeeze(trimmed)) < LEAST_QUOTE or _BARE_NAME.fullmatch(trimmed):
        return False
    bare = (
        re.sub(r":[0-9]+$", "", trimmed)
        if re.search(r":[0-9]+:[0-9]+$", trimmed)
        else trimmed
    )
    return not any(
        found.start == 0 and found.end == len(bare)
        for found in locate_references(bare, unusual)
    )


Lines = tuple[int, int]


class EvidenceOutcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    UNCHECKED = "unchecked"


class Strength(StrEnum):
    QUOTE = "quote"
    LINE = "line"


@dataclass(frozen=True, slots=True)
class Anchor:
    """Where a finding is, in the tree that was reviewed."""

    path: str
    lines: Lines


@dataclass(frozen=True, slots=True)
class CheckedReference:
    path: str
    cited: Lines | None
    outcome: EvidenceOutcome
    reason: str | None = None
    strength: Strength | None = None
    lines: Lines | None = None
    corrected: bool = False

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "cited": list(self.cited) if self.cited else None,
            "outcome": self.outcome.value,
            "reason": self.reason,
            "strength": self.strength.value if self.strength else None,
            "lines": list(self.lines) if self.lines else None,
            "corrected": self.corrected,
        }


@dataclass(frozen=True, slots=True)
class EvidenceCheck:
    """The result for one item: passed if one reference passed, else failed if one failed, else unchecked."""

    outcome: EvidenceOutcome
    reason: str | None
    references: tuple[CheckedReference, ...] = ()

    @property
    def anchor(self) -> Anchor | None:
        passed = [
            ref
            for ref in self.references
            if ref.outcome is EvidenceOutcome.PASSED and ref.lines
        ]
        quoted = [ref for ref in passed if ref.strength is Strength.QUOTE]
        best = next(iter(quoted or passed), None)
        return (
            None
            if best is None or best.lines is None
            else Anchor(best.path, best.lines)
        )

    @property
    def strength(self) -> Strength | None:
        strengths = {
            ref.strength
            for ref in self.references
            if ref.outcome is EvidenceOutcome.PASSED
        }
        return (
            Strength.QUOTE
            if Strength.QUOTE in strengths
            else Strength.LINE
            if strengths
            else None
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "outcome": self.outcome.value,
            "strength": self.strength.value if self.strength else None,
            "reason": self.reason,
            "references": [reference.to_json() for reference in self.references],
        }


def check_evidence(evidence: str | None, tree: Tree) -> EvidenceCheck:
    """Check what a piece of evidence cites against the tree; not to the end if the council is asked to stop."""
    if evidence is None or not evidence.strip():
        return EvidenceCheck(EvidenceOutcome.UNCHECKED, "no_evidence")
    try:
        found: EvidenceCheck = tree.checked.get(evidence) or _check(evidence, tree)
    except ReadingStopped:
        return EvidenceCheck(EvidenceOutcome.UNCHECKED, "stopped")
    tree.checked[evidence] = found
    return found


def _check(evidence: str, tree: Tree) -> EvidenceCheck:
    cited = read_citations(evidence, tree.unusual)
    if not cited.citations:
        # Without a reference a quote that stands in exactly one file is enough.
        for quote in cited.loose:
            texts = (
                (path, text)
                for path in tree.paths
                if (text := tree.file(path)) is not None
            )
            holders = [
                (path, found)
                for path, text in texts
                if (found := next(search_quote(quote, text), None))
            ]
            if len(holders) == 1:
                path, lines = holders[0]
                passed = CheckedReference(
                    path, None, EvidenceOutcome.PASSED, None, Strength.QUOTE, lines
                )
                return EvidenceCheck(EvidenceOutcome.PASSED, None, (passed,))
        return EvidenceCheck(EvidenceOutcome.UNCHECKED, "no_reference")
    checked = tuple(_check_citation(citation, tree) for citation in cited.citations)
    for outcome in EvidenceOutcome:
        first = next(
            (reference for reference in checked if reference.outcome is outcome), None
        )
        if first is not None:
            return EvidenceCheck(outcome, first.reason, checked)
    raise AssertionError("every reference has one of the outcomes")


@dataclass(frozen=True, slots=True)
class _Occurrence:
    lines: Lines
    quote: int

    def distance(self, cited: Lines | None) -> int:
        if cited is None:
            return 0
        first = self.lines[0]
        return max(0, cited[0] - first, first - cited[1])


def _check_citation(citation: Citation, tree: Tree) -> CheckedReference:
    look_up()
    reference = citation.reference
    cited = reference.lines
    path, trouble = _resolve(reference.path, tree)
    if (
        trouble == "file_missing"
        and re.sub(r"^[ab]/", "", reference.path) in tree.removed
    ):
        trouble = "file_removed"
    if trouble == "file_missing" and tree.is_outside(reference.path):
        trouble = "outside_scope"
    if trouble is not None:
        outcome = (
            EvidenceOutcome.FAILED
            if trouble == "file_missing"
            else EvidenceOutcome.UNCHECKED
        )
        return CheckedReference(path, cited, outcome, trouble)
    text = tree.file(path)
    if text is None:
        return CheckedReference(
            path, cited, EvidenceOutcome.UNCHECKED, "file_unreadable"
        )
    nearest = _nearest(citation.quotes, text, cited)
    if nearest is not None and nearest.distance(cited) <= NEAR_LINES:
        corrected = nearest.distance(cited) > 0
        return CheckedReference(
            path,
            cited,
            EvidenceOutcome.PASSED,
            None,
            Strength.QUOTE,
            nearest.lines,
            corrected=corrected,
        )
    gone = tree.removed.get(path)
    if gone is not None and _nearest(citation.quotes, gone, None) is not None:
        return CheckedReference(path, cited, EvidenceOutcome.UNCHECKED, "quote_removed")
    # Of a quote that was masked little may be left to be looked for.
    whole = [quote for quote in citation.quotes if _MASKED.search(quote) is None]
    return _check_lines(path, cited, text, quoted=bool(whole))


def _check_lines(
    path: str, cited: Lines | None, text: FileText, *, quoted: bool
) -> CheckedReference:
    if cited is not None and not 1 <= cited[0] <= len(text.lines):
        return CheckedReference(
            path, cited, EvidenceOutcome.FAILED, "line_out_of_range"
        )
    if quoted:
        return CheckedReference(path, cited, EvidenceOutcome.FAILED, "quote_not_found")
    if cited is None:
        return CheckedReference(path, cited, EvidenceOutcome.UNCHECKED, "no_line")
    lines = (cited[0], min(cited[1], len(text.lines)))
    return CheckedReference(
        path, cited, EvidenceOutcome.PASSED, None, Strength.LINE, lines
    )


def _nearest(
    quotes: Sequence[str], text: FileText, cited: Lines | None
) -> _Occurrence | None:
    found = [
        _Occurrence(lines, number)
        for number, quote in enumerate(quotes)
        for lines in search_quote(quote, text)
    ]
    return min(
        found,
        key=lambda one: (one.distance(cited), one.lines[0], one.quote),
        default=None,
    )


def search_quote(quote: str, text: FileText) -> Iterator[Lines]:
    """Where a quote stands: as written, else without diff signs, else in pieces around an ellipsis."""
    look_up()
    unsigned = _DIFF_SIGN.sub(r"\1", quote)
    for form in dict.fromkeys((squeeze(quote), squeeze(unsigned))):
        if form and form in text.squeezed:
            for offset in text.occurrences(form):
                yield text.line_at(offset), text.line_at(offset + len(form) - 1)
            return
    if len(pieces := _ELLIPSIS.split(unsigned)) > 1:
        yield from _search_pieces(
            [form for piece in pieces if len(form := squeeze(piece)) >= LEAST_QUOTE],
            text,
        )


def _search_pieces(pieces: Sequence[str], text: FileText) -> Iterator[Lines]:
    if not pieces:
        return
    for start in text.occurrences(pieces[0]):
        end = start + len(pieces[0])
        for piece in pieces[1:]:
            place = text.squeezed.find(piece, end)
            if place < 0:
                return  # it will not be found behind a later start either
            end = place + len(piece)
        first = text.line_at(start)
        last = text.line_at(end - 1)
        if last - first <= NEAR_LINES:
            yield first, last


def _resolve(reference: str, tree: Tree) -> tuple[str, str | None]:
    """The tree's path for a reference, or the reference and why it has none."""
    if reference in tree:
        return reference, None
    if reference.startswith(("a/", "b/")) and reference[2:] in tree:
        return reference[2:], None
    candidates = tree.named_like(reference)
    if reference.startswith(("/", "~")):
        inside = [path for path in candidates if reference.endswith("/" + path)]
        longest = max(inside, key=len, default=None)
        return (reference, "file_missing") if longest is None else (longest, None)
    ending = [path for path in candidates if path.endswith("/" + reference)]
    if len(ending) == 1:
        return ending[0], None
    return reference, "file_ambiguous" if ending else "file_missing"
