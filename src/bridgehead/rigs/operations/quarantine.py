"""Look at what is kept apart: which envelopes, why, and what would let them in (rigs §9.4)."""

from collections.abc import Sequence
from typing import NamedTuple

from bridgehead.errors import NotFound, UserError
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.threads.quarantine import Quarantine, QuarantineEntry, verdict_line
from bridgehead.rigs.views.result_format import LINE_PREFIX, short, stamped


class QuarantineList(NamedTuple):
    """Everything on record, those taken in all the same included."""

    entries: Sequence[QuarantineEntry]

    def lines(self) -> list[str]:
        apart = sum(not entry.accepted for entry in self.entries)
        return [
            f"{LINE_PREFIX}quarantine held={apart}",
            *(_row(entry) for entry in self.entries),
        ]

    def json_object(self) -> dict[str, object]:
        return stamped(
            "quarantine", envelopes=[_entry_object(entry) for entry in self.entries]
        )


class QuarantineDetails(NamedTuple):
    """One envelope. Its content is not shown: it is in the file, for whoever wants to look at it."""

    entry: QuarantineEntry

    def lines(self) -> list[str]:
        accept = (
            "to accept it, a trusted human relays as DECISIONS (any thread): "
            f"{verdict_line(self.entry, lifts=True)}"
        )
        exclude = f"to exclude it permanently: {verdict_line(self.entry, lifts=False)}"
        return [
            f"{LINE_PREFIX}quarantine {_row(self.entry)}",
            f"content: git cat-file -p {self.entry.blob}",
            *([accept] if not self.entry.accepted else []),
            *([exclude] if not self.entry.verdict or self.entry.accepted else []),
        ]

    def json_object(self) -> dict[str, object]:
        lines = {
            "lift": verdict_line(self.entry, lifts=True),
            "confirm": verdict_line(self.entry, lifts=False),
        }
        return stamped("quarantine", **_entry_object(self.entry), verdict_lines=lines)


def list_quarantine(rig: Rig) -> QuarantineList:
    """Return what is on record in this clone."""
    return QuarantineList(Quarantine(rig.repository.private_dir).entries)


def show_quarantine(rig: Rig, path: str | None) -> QuarantineDetails:
    """Return what is known about one envelope, never its content."""
    if not path:
        raise UserError(
            "quarantine show: <path> is required", hint="rig-bridge quarantine list"
        )
    for entry in Quarantine(rig.repository.private_dir).entries:
        if entry.path == path:
            return QuarantineDetails(entry)
    raise NotFound(
        f'no envelope "{path}" is in quarantine',
        hint="rig-bridge verify, then rig-bridge quarantine list",
    )


def _row(entry: QuarantineEntry) -> str:
    verdict = f" verdict={entry.verdict}" if entry.verdict else ""
    kinds = ",".join(entry.kinds)
    return (
        f"path={entry.path} state={_state(entry)} kinds={kinds} "
        f"commit={short(entry.commit)}{verdict}"
    )


def _state(entry: QuarantineEntry) -> str:
    if entry.accepted:
        return "lifted" if entry.verdict else "accepted"
    return "confirmed" if entry.verdict else "held"


def _entry_object(entry: QuarantineEntry) -> dict[str, object]:
    return {
        "path": entry.path,
        "thread_id": entry.thread_id,
        "state": _state(entry),
        "kinds": list(entry.kinds),
        "commit_sha": entry.commit,
        "blob": entry.blob,
        "verdict": entry.verdict or None,
    }
