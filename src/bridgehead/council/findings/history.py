"""What became of earlier findings: new, persistent, fixed, regressed, unknown (council §25.3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from bridgehead.contract.words import OutputType
from bridgehead.council.findings.fingerprint import family_of, is_weak, places
from bridgehead.council.findings.joining import Texts
from bridgehead.council.findings.references import lines_apart
from bridgehead.council.findings.tree import Tree, current_name, earlier_names

NOT_REPORTED: Final = "not_reported"
OPEN: Final = "open"
FIXED: Final = "fixed"


class FoundAgain(msgspec.Struct, frozen=True, kw_only=True):
    """What comparing looks at in a finding; `fingerprints` include its aliases."""

    type: OutputType
    title: str
    description: str
    fingerprints: tuple[str, ...]
    requirement_id: str | None = None
    path: str | None = None
    lines: tuple[int, int] | None = None
    seats: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()


class FindingRecord(FoundAgain, frozen=True, kw_only=True):
    """The last known state of an earlier finding of this project."""

    key: str
    """The first fingerprint it ever had."""
    state: str
    """`open` or `fixed`."""
    how: str | None = None
    scope: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """What the present run found, and what it looked at."""

    findings: Mapping[str, FoundAgain]
    seats_completed: frozenset[str]
    files: frozenset[str]
    domains_covered: frozenset[str]
    scope: tuple[str, ...]
    unlooked_files: frozenset[str] = frozenset()
    """Files that nobody able has looked at to the end."""
    unlooked_domains: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CurrentState:
    """Of a finding of this run: `new`, `persistent` or `regressed`, and the record it is paired with."""

    state: str
    record: str | None = None
    changed: bool = False


@dataclass(frozen=True, slots=True)
class PreviousState:
    """Of a record: `how` it was fixed, or `why` nothing is known."""

    state: str
    how: str | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    current: Mapping[str, CurrentState]
    previous: Mapping[str, PreviousState]
    """Fixed records that stay fixed are left out."""


def compare(
    records: Sequence[FindingRecord], run: Run, tree: Tree, renames: Mapping[str, str]
) -> Comparison:
    """Pair records with findings, then say of each what became of it."""
    pairing = _Pairing(
        [_renamed(record, renames) for record in records], run, tree, renames
    )
    pairing.pair_exact()
    pairing.pair_second_chance()
    return Comparison(pairing.current(), pairing.previous())


def carry_forward(
    records: Sequence[FindingRecord], run: Run, comparison: Comparison
) -> tuple[FindingRecord, ...]:
    """The records after the run: paired ones take over the finding, new findings get a record."""
    paired = {
        state.record: name for name, state in comparison.current.items() if state.record
    }
    kept = [
        _carried(record, run, comparison, paired.get(record.key)) for record in records
    ]
    taken = {record.key for record in kept}
    for name, state in comparison.current.items():
        if state.state == "new":
            found = run.findings[name]
            key = found.fingerprints[0]
            number = 1
            while key in taken:
                number += 1
                key = f"{found.fingerprints[0]}-{number}"
            taken.add(key)
            kept.append(_record(found, run, key))
    return tuple(kept)


class _Pairing:
    def __init__(
        self,
        records: Sequence[FindingRecord],
        run: Run,
        tree: Tree,
        renames: Mapping[str, str],
    ) -> None:
        self._records = {record.key: record for record in records}
        self._run = run
        self._tree = tree
        self._renames = renames
        self._finding_of: dict[str, str] = {}
        self._record_of: dict[str, str] = {}
        self._changed: set[str] = set()
        self._texts = Texts()

    def pair_exact(self) -> None:
        self._take(
            (key, name)
            for key, record in self._records.items()
            for name, found in self._run.findings.items()
            if set(record.fingerprints) & set(found.fingerprints)
        )

    def pair_second_chance(self) -> None:
        """The code changed, but the words and the place say that it is still the same finding."""
        left = [
            record
            for key, record in self._records.items()
            if record.state == OPEN and key not in self._finding_of
        ]
        gone = [record.key for record in left if self._code_is_gone(record)]
        before = set(self._finding_of.values())
        self._take(
            (key, name)
            for key in gone
            for name, found in self._run.findings.items()
            if name not in self._record_of and self._may_be_same(key, name, found)
        )
        self._changed = set(self._finding_of.values()) - before

    def current(self) -> dict[str, CurrentState]:
        return {name: self._current_state(name) for name in self._run.findings}

    def previous(self) -> dict[str, PreviousState]:
        states: dict[str, PreviousState] = {}
        for key, record in self._records.items():
            if key in self._finding_of:
                states[key] = PreviousState(
                    self._current_state(self._finding_of[key]).state
                )
            elif record.state == OPEN:
                states[key] = self._fate(record)
        return states

    def _current_state(self, name: str) -> CurrentState:
        key = self._record_of.get(name)
        if key is None:
            return CurrentState("new")
        record = self._records[key]
        # Models forget: what was merely not reported had never gone.
        came_back = record.state == FIXED and record.how != NOT_REPORTED
        return CurrentState(
            "regressed" if came_back else "persistent", key, name in self._changed
        )

    def _fate(self, record: FindingRecord) -> PreviousState:
        if record.path is not None and record.path not in self._tree:
            return PreviousState(FIXED, how="file_deleted")
        if why := self._why_unknown(record):
            return PreviousState("unknown", why=why)
        changed = _strong_ones(record) and self._code_is_gone(record)
        return PreviousState(FIXED, how="code_changed" if changed else NOT_REPORTED)

    def _why_unknown(self, record: FindingRecord) -> str | None:
        outside = (
            record.path not in self._run.files
            if record.path
            else record.scope != self._run.scope
        )
        if outside:
            return "not_in_scope"
        if not set(record.seats) <= self._run.seats_completed:
            return "seat_missing"
        if record.path in self._run.unlooked_files:
            return "not_looked_at"
        by_static_alone = record.seats == ("static",)
        if not by_static_alone and set(record.domains) & self._run.unlooked_domains:
            return "not_looked_at"
        if not by_static_alone and not set(record.domains) & self._run.domains_covered:
            return "domain_not_covered"
        return None

    def _take(self, pairs: Iterable[tuple[str, str]]) -> None:
        """One to one, nearest wording first, then record order, then finding order."""
        scored = [(self._likeness(key, name), key, name) for key, name in pairs]
        for _, key, name in sorted(scored, key=lambda entry: -entry[0]):
            if key not in self._finding_of and name not in self._record_of:
                self._finding_of[key] = name
                self._record_of[name] = key

    def _likeness(self, key: str, name: str) -> float:
        return self._texts.likeness(
            _text(self._records[key]), _text(self._run.findings[name])
        )

    def _may_be_same(self, key: str, name: str, found: FoundAgain) -> bool:
        record = self._records[key]
        if (
            found.path is None
            or found.path != record.path
            or family_of(found.type) != family_of(record.type)
        ):
            return False
        if (
            found.requirement_id
            and record.requirement_id
            and found.requirement_id != record.requirement_id
        ):
            return False
        return self._texts.are_one(
            _text(record),
            _text(found),
            lines_apart(record.lines, found.lines),
        )

    def _code_is_gone(self, record: FindingRecord) -> bool:
        """Whether none of the record's places is left in its file, under any name the file had."""
        text = self._tree.file(record.path) if record.path else None
        if text is None or record.path is None:
            return record.path is not None
        names = (record.path, *earlier_names(record.path, self._renames))
        family = family_of(record.type)
        wanted = _strong_ones(record)
        return not any(wanted & places(text, name, family) for name in names)


def _text(found: FoundAgain) -> str:
    return f"{found.title}\n{found.description}"


def _renamed(record: FindingRecord, renames: Mapping[str, str]) -> FindingRecord:
    if record.path is None:
        return record
    return msgspec.structs.replace(record, path=current_name(record.path, renames))


def _strong_ones(record: FindingRecord) -> set[str]:
    return {name for name in record.fingerprints if not is_weak(name)}


def _carried(
    record: FindingRecord, run: Run, comparison: Comparison, name: str | None
) -> FindingRecord:
    if name is not None:
        return _record(run.findings[name], run, record.key)
    fate = comparison.previous.get(record.key)
    if fate is not None and fate.state == FIXED:
        return msgspec.structs.replace(record, state=FIXED, how=fate.how)
    return record


def _record(found: FoundAgain, run: Run, key: str) -> FindingRecord:
    known = {field: getattr(found, field) for field in FoundAgain.__struct_fields__}
    return FindingRecord(**known, key=key, state=OPEN, scope=run.scope)
