"""Record which envelopes of this clone are in quarantine, or were accepted (rigs §9.4).

The record is a small file beside the envelope index, so that a listing need not look at
the envelopes once more. Unlike the index it is no cache: what the gate finds is written
here before the branch moves.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bridgehead.errors import FileError
from bridgehead.host.directories import make_dir
from bridgehead.host.file_errors import FileMissing, NotDirectory
from bridgehead.host.files import read_bounded, write_atomic
from bridgehead.rigs.trust.verification_kinds import Kind, PathFindings

_FORMAT = 1
_FILE_NAME = "quarantine.json"
_MAX_BYTES = 64 * 1024 * 1024
_VERDICT = re.compile(
    r"^quarantine: (lift|confirm) (\S+) ([0-9a-f]{40,64})[ \t]*$", re.MULTILINE
)


class QuarantineEntry(NamedTuple):
    """An envelope with something against it, by path and content."""

    path: str
    blob: str
    kinds: tuple[str, ...]
    commit: str  # that added it
    accepted: bool = False  # it takes part: by the operator's wish, or by a verdict
    verdict: str = ""  # path of the envelope that lifted or confirmed it

    @property
    def thread_id(self) -> str:
        return self.path.partition("/")[0]

    @property
    def filename(self) -> str:
        return self.path.partition("/")[2]

    @property
    def findings(self) -> PathFindings:
        return PathFindings(self.path, tuple(Kind(kind) for kind in self.kinds))


class HumanVerdict(NamedTuple):
    """What a human decided about one envelope, and in which turn."""

    lifts: bool
    path: str
    blob: str
    decided_in: str  # path of the turn

    def __str__(self) -> str:
        verb = "lifts" if self.lifts else "confirms"
        return f"{self.decided_in} {verb} the quarantine of {self.path}"


def verdict_line(entry: QuarantineEntry, *, lifts: bool) -> str:
    """Return the line by which a DECISIONS turn lifts or confirms a quarantine.

    It counts only if a trusted human signed the turn.
    """
    verb = "lift" if lifts else "confirm"
    return f"quarantine: {verb} {entry.path} {entry.blob}"


def read_verdicts(body: str, turn_path: str) -> list[HumanVerdict]:
    """Return the verdicts in the body of a turn, whether or not it can be believed."""
    return [
        HumanVerdict(word == "lift", path, blob, turn_path)
        for word, path, blob in _VERDICT.findall(body)
    ]


class Quarantine:
    """The quarantine of one clone, as it was when this was created."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / _FILE_NAME
        self.state = quarantine_state(directory)  # equal texts mean equal entries
        self._entries = _read(self._path, self.state)

    @property
    def entries(self) -> list[QuarantineEntry]:
        """Everything on record, accepted or not, by path."""
        return [self._entries[path] for path in sorted(self._entries)]

    @property
    def kept_apart(self) -> list[QuarantineEntry]:
        return [entry for entry in self.entries if not entry.accepted]

    def holds(self, path: str, content: str | None = None) -> bool:
        """Return whether a file is in quarantine.

        If `content` is a blob id, a file with other content is another envelope.
        """
        entry = self._entries.get(path)
        if entry is None or entry.accepted:
            return False
        return content is None or content.startswith("~") or content == entry.blob

    def names_in(self, thread_id: str) -> frozenset[str]:
        """Return the names of the files of a thread that are in quarantine."""
        if not self._entries:
            return frozenset()
        return frozenset(
            entry.filename for entry in self.kept_apart if entry.thread_id == thread_id
        )

    def has_accepted(self, path: str, blob: str) -> bool:
        """Return whether a file was accepted with this very content."""
        entry = self._entries.get(path)
        return entry is not None and entry.accepted and entry.blob == blob

    def decided(self, verdicts: Iterable[HumanVerdict]) -> list[QuarantineEntry]:
        """Return the entries that verdicts change; those about other content do not."""
        changed: list[QuarantineEntry] = []
        for verdict in verdicts:
            entry = self._entries.get(verdict.path)
            if entry is not None and entry.blob == verdict.blob:
                changed.append(
                    entry._replace(accepted=verdict.lifts, verdict=verdict.decided_in)
                )
        return changed

    def change(
        self, entries: Iterable[QuarantineEntry], cleared: Iterable[str] = ()
    ) -> None:
        """Replace entries with the same path, and drop those that are `cleared`."""
        changed = dict(self._entries)
        for path in cleared:
            changed.pop(path, None)
        for entry in entries:
            changed[entry.path] = entry
        if changed == self._entries:
            return
        rows = [changed[path]._asdict() for path in sorted(changed)]
        text = json.dumps({"format": _FORMAT, "entries": rows}, separators=(",", ":"))
        make_dir(self._path.parent)
        write_atomic(self._path, text)
        self._entries = changed
        self.state = text


class DamagedQuarantine(FileError):
    """The quarantine cannot be read; without it everything would take part."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"{path} is damaged ({problem}), so it is not known which envelopes are "
            "in quarantine",
            hint=(
                "move the file away and run `bridgehead rig verify`, which checks "
                "every envelope and writes it anew"
            ),
        )


def quarantine_state(directory: Path) -> str:
    """Return the stored text; empty if nothing was ever in quarantine."""
    path = directory / _FILE_NAME
    try:
        return read_bounded(path, _MAX_BYTES).decode()
    except (FileMissing, NotDirectory):
        return ""
    except UnicodeDecodeError as error:
        raise DamagedQuarantine(path, "it is not UTF-8") from error


def _read(path: Path, text: str) -> Mapping[str, QuarantineEntry]:
    """Return the entries by path; raise DamagedQuarantine for any other text."""
    if not text:
        if path.exists():
            raise DamagedQuarantine(path, "it is empty")
        return {}
    try:
        document = json.loads(text)
        if document["format"] != _FORMAT:
            raise DamagedQuarantine(path, f"format {document['format']!r} is not known")
        entries = [_entry(row) for row in document["entries"]]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DamagedQuarantine(path, str(error) or type(error).__name__) from error
    return {entry.path: entry for entry in entries}


def _entry(row: dict[str, Any]) -> QuarantineEntry:
    """Return the entry in a row; raise ValueError, TypeError or KeyError."""
    entry = QuarantineEntry(**{**row, "kinds": tuple(row["kinds"])})
    texts = (entry.path, entry.blob, entry.commit, entry.verdict, *entry.kinds)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("an entry has a field that is not a text")
    if not isinstance(entry.accepted, bool):
        raise TypeError("an entry does not say whether it is accepted")
    if unknown := set(entry.kinds) - _KINDS:
        raise ValueError(f"{sorted(unknown)[0]!r} is not a kind of finding")
    return entry


_KINDS = frozenset(map(str, Kind))
