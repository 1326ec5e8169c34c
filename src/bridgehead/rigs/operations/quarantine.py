"""Show what is in quarantine, why, and what would let it in (rigs §9.4)."""

from collections.abc import Sequence
from typing import NamedTuple

from bridgehead.errors import NotFound, UserError
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.threads.quarantine import Quarantine, QuarantineEntry, verdict_line
from bridgehead.rigs.views.result_format import LINE_PREFIX, short, stamped


class QuarantineList(NamedTuple):
    """Everything on record, including what was accepted."""

    entries: Sequence[QuarantineEntry]

    def lines(self) -> list[str]:
        not_accepted = [entry for entry in self.entries if not entry.accepted]
        head = f"{LINE_PREFIX}quarantine held={len(not_accepted)}"
        return [head, *map(_row, self.entries)]

    def json_object(self) -> dict[str, object]:
        return stamped(
            "quarantine", envelopes=[_entry_object(entry) for entry in self.entries]
        )


class QuarantineDetails(NamedTuple):
    """What is known about one envelope, but not its content."""

    entry: QuarantineEntry

    def lines(self) -> list[str]:
        entry = self.entry
        lines = [
            f"{LINE_PREFIX}quarantine {_row(entry)}",
            f"content: git cat-file -p {entry.blob}",
        ]
        if not entry.accepted:
            lines.append(
                "to accept it, a trusted human relays as DECISIONS (any thread): "
                f"{verdict_line(entry, lifts=True)}"
            )
        is_confirmed = bool(entry.verdict) and not entry.accepted
        if not is_confirmed:
            confirm = verdict_line(entry, lifts=False)
            lines.append(f"to exclude it permanently: {confirm}")
        return lines

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
