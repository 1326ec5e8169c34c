"""Forget old councils of a project: their prompts and replies, and the files they wrote.

A council keeps every prompt and reply in a journal, so that it can be resumed and
challenged, and writes reports and logs. Both have an age (`council.keep_days`) and a
size (`council.keep_mib`). Once a day, at the end of a council, what is older or too much
is deleted. The record is not touched: `store.keep_days` is about that.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Final, NamedTuple

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.council.files import hold_council
from bridgehead.assembly.council.journal import CouncilJournal
from bridgehead.assembly.event_writer import LONGEST_KEPT_DAYS
from bridgehead.config.resolve import Settings
from bridgehead.contract.events import Event
from bridgehead.contract.record_words import Part
from bridgehead.council.running.artifacts import FOLDER
from bridgehead.errors import BridgeheadError, ConfigError, UserError
from bridgehead.flows.files.root import FlowRoot
from bridgehead.flows.journals.sqlite import SqliteJournal
from bridgehead.flows.values.ids import new_request_id
from bridgehead.host.clock import Clock, iso_ms, parse_iso
from bridgehead.host.files import read_bounded, write_atomic

KEEP_DAYS: Final = "council.keep_days"
KEEP_MIB: Final = "council.keep_mib"
PINNED: Final = "council.pinned"
MOST_MIB: Final = 1_000_000
STAMP: Final = "councils-pruned"
MOST_CONTEXT_BYTES: Final = 16 * 1024 * 1024
_DAY: Final = timedelta(days=1)
_MIB: Final = 1024 * 1024

logger = logging.getLogger(__name__)


class KeptCouncil(NamedTuple):
    """A council of the journal; one that has not ended has no `ended_at`."""

    review_id: str
    ended_at: str | None
    size: int


class Limits(NamedTuple):
    """Until when and how much is kept; None is without end."""

    before: str | None
    most_bytes: int | None
    pinned: frozenset[str] = frozenset()

    @property
    def keep_everything(self) -> bool:
        return self.before is None and self.most_bytes is None


def councils_to_forget(
    newest_first: Sequence[KeptCouncil], limits: Limits
) -> list[str]:
    """Return the councils that are too old or too much.

    One that can go on stays, and so does a pinned one and the last that ended.
    """
    forgotten: list[str] = []
    last_ended: str | None = None
    size = 0
    for council in newest_first:
        size += council.size
        if council.ended_at is None:
            continue
        if last_ended is None:
            last_ended = council.review_id
        if council.review_id == last_ended or council.review_id in limits.pinned:
            continue
        too_old = limits.before is not None and council.ended_at < limits.before
        too_much = limits.most_bytes is not None and size > limits.most_bytes
        if too_old or too_much:
            forgotten.append(council.review_id)
    return forgotten


def limits_of(settings: Settings, clock: Clock, days: float | None = None) -> Limits:
    """Return the limits that are set; `days` overrides the age."""
    kept_days = _number(settings, KEEP_DAYS, LONGEST_KEPT_DAYS)
    mebibytes = _number(settings, KEEP_MIB, MOST_MIB)
    before = None
    if days is not None:
        before = iso_ms(clock.now() - timedelta(days=days))
    elif kept_days:
        before = iso_ms(clock.now() - timedelta(days=kept_days))
    return Limits(
        before,
        int(mebibytes * _MIB) if mebibytes else None,
        frozenset(settings.texts(PINNED)),
    )


def _number(settings: Settings, name: str, most: float) -> float:
    number = settings.number(name) or 0
    if not 0 <= number <= most:
        raise ConfigError(f"{name} must be a number from 0 to {most}")
    return number


def prune_councils(
    assembly: Assembly, limits: Limits, clock: Clock, *, dry_run: bool = False
) -> list[str]:
    """Forget the councils of the project that are over the limits; return which.

    One that another process works on stays.
    """
    project = assembly.places.project
    root = FlowRoot.open(project)
    if limits.keep_everything:
        return []
    with closing(CouncilJournal(project, clock)) as journal:
        files = files_of_councils(project, journal.ids())
        chosen = councils_to_forget(_kept(journal, files), limits)
        if dry_run or not chosen:
            return chosen
        forgotten = [
            review_id
            for review_id in chosen
            if _forget(assembly, root, journal, review_id, files.get(review_id, ()))
        ]
        journal.compact()
    if forgotten:
        _record(assembly, forgotten, clock)
    return forgotten


def _kept(
    journal: CouncilJournal, files: Mapping[str, Sequence[Path]]
) -> list[KeptCouncil]:
    """Return the councils of a project, newest first, with the space that each takes."""
    sizes = journal.sizes()
    kept: list[KeptCouncil] = []
    for review_id in journal.ids():
        size = sizes.get(review_id, 0) + sum(map(_size, files.get(review_id, ())))
        kept.append(KeptCouncil(review_id, journal.ended_at(review_id), size))
    return kept


def _forget(
    assembly: Assembly,
    root: FlowRoot,
    journal: CouncilJournal,
    review_id: str,
    files: Sequence[Path],
) -> bool:
    try:
        with hold_council(assembly, review_id):
            for path in files:
                path.unlink(missing_ok=True)
            if root.journal.exists():
                with SqliteJournal(root.journal) as requests:
                    requests.forget([f"council-{review_id}"])
            journal.forget(review_id)
    except UserError:  # it is running
        return False
    return True


def _record(assembly: Assembly, forgotten: Sequence[str], clock: Clock) -> None:
    """Say in the record what was deleted."""
    event = Event(
        id=new_request_id(),
        kind="record.pruned",
        part=Part.RECORD,
        at=iso_ms(clock.now()),
        project=str(assembly.places.project),
        data={"councils": list(forgotten)},
    )
    with assembly.store() as store:
        store.append([event])


def prune_daily(assembly: Assembly, current: str, clock: Clock) -> None:
    """Do so if it was not done for a day; `current` stays. What fails is a warning."""
    try:
        limits = limits_of(assembly.settings, clock)
        root = FlowRoot.open(assembly.places.project)
        stamp = root.private / STAMP
        if limits.keep_everything or not _is_due(stamp, clock):
            return
        write_atomic(stamp, iso_ms(clock.now()), private=True, root=root.path)
        pinned = limits.pinned | {current}
        gone = prune_councils(assembly, limits._replace(pinned=pinned), clock)
    except (BridgeheadError, OSError) as error:
        logger.warning("old councils were not deleted: %s", error)
        return
    if gone:
        logger.info("old councils deleted: %s", ", ".join(gone))


def _is_due(stamp: Path, clock: Clock) -> bool:
    """Tell if the last time was not within a day; a clock may have gone back."""
    with suppress(BridgeheadError, OSError, ValueError):
        last = parse_iso(read_bounded(stamp, 100).decode())
        return not timedelta(0) <= clock.now() - last < _DAY
    return True


def files_of_councils(
    project: Path, review_ids: Collection[str]
) -> Mapping[str, list[Path]]:
    """Return the files that councils wrote into the project, by council.

    They bear its id in their name; a context file says it inside.
    """
    found: dict[str, list[Path]] = {}
    if not review_ids:
        return found
    longest_first = sorted(review_ids, key=len, reverse=True)
    names = "|".join(map(re.escape, longest_first))
    named = re.compile(rf".+-({names})(?:-[0-9]+)?")
    for path in _files_below(project / FOLDER):
        match = named.fullmatch(path.stem)
        review_id = match[1] if match else _id_in_context(path)
        if review_id in review_ids:
            found.setdefault(review_id, []).append(path)
    return found


def _files_below(folder: Path) -> Iterator[Path]:
    """Yield the regular files below a folder that is no link."""
    if folder.is_symlink():
        return
    for place, _, names in os.walk(folder):
        for name in sorted(names):
            path = Path(place, name)
            if path.is_file() and not path.is_symlink():
                yield path


def _id_in_context(path: Path) -> str:
    if path.parent.name != "context":
        return ""
    with suppress(BridgeheadError, OSError, ValueError):
        content = read_bounded(path.with_suffix(".json"), MOST_CONTEXT_BYTES)
        document = json.loads(content)
        if isinstance(document, dict):
            return str(document.get("review_id", ""))
    return ""


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.lstat().st_size
    return 0
