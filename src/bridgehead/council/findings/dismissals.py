"""Findings the project decided to live with: `.bridgehead/dismissals.toml` and its path globs (council §25.4)."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from bridgehead.contract.words import Severity
from bridgehead.council.findings.evidence import Anchor
from bridgehead.council.findings.fingerprint import FAMILIES, STRONG, places, start_line
from bridgehead.council.findings.joining import Texts
from bridgehead.council.findings.tree import Tree, current_name, earlier_names

MOST_CODE_LINES: Final = 20
RAISED_STEPS: Final = 2
MOST_LISTED: Final = 40
"""As many places as the static seat lists; of a finding with more, the title counts them."""
SIMILAR_TITLES: Final = 0.6
"""How alike titles must be when the place is known."""
SAME_TITLES: Final = 0.8
"""How alike titles must be when nothing else is known."""

_WILD: Final = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
_FINGERPRINT: Final = re.compile(r"(v1|t1):[0-9a-f]{16}")


def matches_glob(path: str, glob: str) -> bool:
    """Whether the whole path fits the glob."""
    return _pattern(glob).fullmatch(path) is not None


def is_plain(glob: str) -> bool:
    """Whether the glob names exactly one path."""
    return not any(character in glob for character in "*?[")


@lru_cache(maxsize=512)
def _pattern(glob: str) -> re.Pattern[str]:
    pieces = re.split(r"(\*\*/|\*\*|\*|\?|\[!?\]?[^\]/]*\])", glob)
    try:
        return re.compile("".join(map(_translated, pieces)), re.DOTALL)
    except re.error:  # a range like [z-a] stands for itself
        return re.compile(re.escape(glob))


def _translated(piece: str) -> str:
    if piece in _WILD:
        return _WILD[piece]
    if len(piece) > 2 and piece.startswith("[") and piece.endswith("]"):
        inside = piece[1:-1]
        negated = inside.startswith("!")
        characters = re.escape(inside[negated:]).replace(r"\-", "-")
        return f"(?!/)[{'^' if negated else ''}{characters}]"
    return re.escape(piece)


@dataclass(frozen=True, slots=True)
class Dismissal:
    """One entry of the file."""

    fingerprint: str
    title: str
    reason: str
    author: str
    date: dt.date
    expires: dt.date | None = None
    paths: tuple[str, ...] = ()
    severity: Severity | None = None
    code: str | None = None
    accept_critical: bool = False
    places: tuple[str, ...] = ()
    """Of a baseline: the fingerprints of all places; a finding with another place is a new one."""
    covers: tuple[str, ...] = ()
    """The fingerprints of all its occurrences; one more is not dismissed."""


Names = tuple[str, ...]
"""The fingerprint of a place, and those under earlier names of its file."""


@dataclass(frozen=True, slots=True)
class Dismissable:
    """What dismissing looks at in a finding."""

    id: str
    severity: Severity | None
    title: str
    fingerprints: tuple[str, ...]
    anchor: Anchor | None = None
    places: tuple[Names, ...] = ()
    """Every place it cites."""
    occurrences: tuple[Names, ...] = ()
    """The places that are the same defect once more, its own included."""


@dataclass(frozen=True, slots=True)
class EntryStatus:
    """`applies blocked stale unused expired invalid`, and why."""

    status: str
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """`dismissed before`: which entry, and why it does not apply."""

    entry: int
    why: str


@dataclass(frozen=True, slots=True)
class Dismissed:
    """The effect of a file on the findings of a run; entries are named by their place in the file."""

    entries: tuple[EntryStatus, ...]
    dismissed: Mapping[str, int]
    notes: Mapping[str, Note]
    proposed: Mapping[str, int]


def read_entry(table: Mapping[str, Any]) -> Dismissal | None:
    """An entry as it stands in the file, or None when it is invalid."""
    table = {name: value for name, value in table.items() if value is not None}
    fingerprint = table.get("fingerprint")
    reason = table.get("reason")
    given = _date(table.get("date"))
    expires = _date(table.get("expires"))
    if not isinstance(fingerprint, str) or not _FINGERPRINT.fullmatch(fingerprint):
        return None
    if not isinstance(reason, str) or not reason.strip() or given is None:
        return None
    paths = _texts(table, "paths")
    places = _texts(table, "places")
    covers = _texts(table, "covers")
    severity = next(
        (one for one in Severity if one.value == table.get("severity")), None
    )
    # A limit that cannot be read must not silently become no limit.
    unread = (severity is None and "severity" in table) or (
        expires is None and "expires" in table
    )
    if unread or paths is None or places is None or covers is None:
        return None
    return Dismissal(
        fingerprint=fingerprint,
        title=str(table.get("title") or ""),
        reason=reason,
        author=str(table.get("author") or ""),
        date=given,
        expires=expires,
        paths=paths,
        severity=severity,
        code=str(table["code"]) if "code" in table else None,
        accept_critical=table.get("accept_critical") is True,
        places=places,
        covers=covers,
    )


def apply_dismissals(
    tables: Sequence[Mapping[str, Any]],
    findings: Sequence[Dismissable],
    tree: Tree,
    renames: Mapping[str, str],
    today: dt.date,
) -> Dismissed:
    """Which findings are dismissed, which were before and why no longer, and which resemble a dismissed one."""
    return _Application(
        [read_entry(table) for table in tables], findings, tree, renames, today
    ).result()


def code_of(anchor: Anchor, tree: Tree, count: int | None = None) -> str | None:
    """`n:hex16` over the squeezed non-blank lines cited, or over `count` lines from the same start."""
    text = tree.file(anchor.path)
    start = start_line(anchor, text) if text else None
    if text is None or start is None:
        return None
    if count is None:
        cited = sum(1 for line in text.non_blank_from(start) if line <= anchor.lines[1])
        count = min(max(cited, 1), MOST_CODE_LINES)
    lines = [text.squeezed_lines[line - 1] for line in text.non_blank_from(start)][
        :count
    ]
    digest = hashlib.sha256(
        "\n".join(lines).encode("utf-8", "surrogatepass")
    ).hexdigest()
    return f"{count}:{digest[:16]}"


@dataclass(slots=True)
class _Application:
    _entries: Sequence[Dismissal | None]
    _findings: Sequence[Dismissable]
    _tree: Tree
    _renames: Mapping[str, str]
    _today: dt.date
    _texts: Texts = field(default_factory=Texts)
    _partner: dict[int, Dismissable] = field(default_factory=dict)
    _status: dict[int, EntryStatus] = field(default_factory=dict)

    def result(self) -> Dismissed:
        self._pair()
        self._status = {
            number: self._status_of(number, entry)
            for number, entry in enumerate(self._entries)
        }
        dismissed = {
            finding.id: number
            for number, finding in self._partner.items()
            if self._status[number].status == "applies"
        }
        left = [finding for finding in self._findings if finding.id not in dismissed]
        notes = {
            finding.id: note
            for finding in left
            if (note := self._note(finding)) is not None
        }
        proposed = {
            finding.id: nearest
            for finding in left
            if finding.id not in notes
            and (nearest := self._proposal(finding)) is not None
        }
        return Dismissed(
            tuple(self._status[n] for n in range(len(self._entries))),
            dismissed,
            notes,
            proposed,
        )

    def _active(self) -> list[tuple[int, Dismissal]]:
        return [
            (number, entry)
            for number, entry in enumerate(self._entries)
            if entry is not None and not self._is_expired(entry)
        ]

    def _is_expired(self, entry: Dismissal) -> bool:
        return entry.expires is not None and entry.expires < self._today

    def _pair(self) -> None:
        """One to one, nearest title first, then entry order, then finding order."""
        candidates = [
            (self._likeness(entry, finding), number, finding)
            for number, entry in self._active()
            for finding in self._findings
            if self._is_about(entry, finding)
        ]
        taken: set[str] = set()
        for _, number, finding in sorted(
            candidates, key=lambda candidate: -candidate[0]
        ):
            if number not in self._partner and finding.id not in taken:
                self._partner[number] = finding
                taken.add(finding.id)

    def _is_about(self, entry: Dismissal, finding: Dismissable) -> bool:
        """Whether it is the same finding and no other place.

        Of a baseline, one that cites accepted places only and is worded alike.
        """
        if not entry.places:
            return self._carries(entry, finding) and self._covers(entry, finding)
        alike = self._likeness(entry, finding) > SIMILAR_TITLES
        return alike and bool(finding.places) and _lie_in(finding.places, entry.places)

    def _carries(self, entry: Dismissal, finding: Dismissable) -> bool:
        return entry.fingerprint in finding.fingerprints and self._in_paths(
            entry, finding
        )

    def _covers(self, entry: Dismissal, finding: Dismissable) -> bool:
        """Whether it occurs nowhere but where it was dismissed."""
        if len(finding.occurrences) >= MOST_LISTED and entry.title != finding.title:
            return False
        return _lie_in(finding.occurrences, (entry.fingerprint, *entry.covers))

    def _status_of(self, number: int, entry: Dismissal | None) -> EntryStatus:
        if entry is None:
            return EntryStatus("invalid")
        if self._is_expired(entry):
            return EntryStatus("expired")
        finding = self._partner.get(number)
        return (
            self._unpaired(entry) if finding is None else self._paired(entry, finding)
        )

    def _paired(self, entry: Dismissal, finding: Dismissable) -> EntryStatus:
        if entry.code is not None and self._code_now(entry.code, finding) != entry.code:
            return EntryStatus("stale", "code_changed")
        if entry.accept_critical:
            return EntryStatus("applies")
        if finding.severity is Severity.CRITICAL:
            return EntryStatus("blocked", "critical_not_accepted")
        if (
            entry.severity
            and finding.severity
            and finding.severity.rank - entry.severity.rank >= RAISED_STEPS
        ):
            return EntryStatus("blocked", "severity_raised")
        return EntryStatus("applies")

    def _unpaired(self, entry: Dismissal) -> EntryStatus:
        plain = entry.paths and all(map(is_plain, entry.paths))
        if not plain or not entry.fingerprint.startswith(STRONG):
            return EntryStatus("unused")
        present = [
            name
            for name in (current_name(path, self._renames) for path in entry.paths)
            if name in self._tree
        ]
        if not present:
            return EntryStatus("stale", "file_deleted")
        if not any(self._is_place(entry.fingerprint, path) for path in present):
            return EntryStatus("stale", "code_changed")
        return EntryStatus("unused")

    def _is_place(self, fingerprint: str, path: str) -> bool:
        text = self._tree.file(path)
        names = (path, *earlier_names(path, self._renames))
        return text is not None and any(
            fingerprint in places(text, name, family)
            for name in names
            for family in FAMILIES
        )

    def _code_now(self, code: str, finding: Dismissable) -> str | None:
        count = code.partition(":")[0]
        if finding.anchor is None or not re.fullmatch(r"[0-9]{1,2}", count):
            return None
        return code_of(finding.anchor, self._tree, int(count))

    def _note(self, finding: Dismissable) -> Note | None:
        for number, partner in sorted(self._partner.items()):
            hindrance = self._status[number].why
            if partner.id == finding.id and hindrance is not None:
                return Note(number, hindrance)
        carried = [
            n
            for n, entry in enumerate(self._entries)
            if entry and entry.fingerprint in finding.fingerprints
        ]
        for status, why in (("expired", "expired"), ("applies", "same_place")):
            first = next((n for n in carried if self._status[n].status == status), None)
            if first is not None:
                return Note(first, why)
        for number, entry in self._active():
            if self._carries(entry, finding) and not self._covers(entry, finding):
                return Note(number, "another_place")
        for number, entry in self._active():
            stale = (
                self._status[number].status == "stale" and number not in self._partner
            )
            alike = self._likeness(entry, finding) > SIMILAR_TITLES
            if stale and alike and entry.paths and self._in_paths(entry, finding):
                return Note(number, "code_changed")
        return None

    def _proposal(self, finding: Dismissable) -> int | None:
        alike = [
            (self._likeness(entry, finding), number) for number, entry in self._active()
        ]
        near = [(score, number) for score, number in alike if score > SAME_TITLES]
        return max(near, key=lambda pair: (pair[0], -pair[1]))[1] if near else None

    def _likeness(self, entry: Dismissal, finding: Dismissable) -> float:
        return self._texts.likeness(entry.title, finding.title)

    def _in_paths(self, entry: Dismissal, finding: Dismissable) -> bool:
        if not entry.paths:
            return True
        if finding.anchor is None:
            return False
        names = (
            finding.anchor.path,
            *earlier_names(finding.anchor.path, self._renames),
        )
        return any(matches_glob(name, glob) for name in names for glob in entry.paths)


def _lie_in(places: Sequence[Names], accepted: Sequence[str]) -> bool:
    """Return whether every place has one of its names among the accepted ones."""
    known = frozenset(accepted)
    return all(not known.isdisjoint(names) for names in places)


def _date(value: object) -> dt.date | None:
    if isinstance(value, dt.datetime):
        return value.date()
    if isinstance(value, dt.date):
        return value
    if not isinstance(value, str) or not re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
        return None
    try:
        return dt.date.fromisoformat(value)
    except ValueError:
        return None


def _texts(table: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    value = table.get(name)
    if value is None:
        return ()
    if isinstance(value, list) and all(isinstance(path, str) for path in value):
        return tuple(value)
    return None
