"""Which envelopes of this clone are kept apart, and which of them the operator took in all the same (rigs §9.4).

Small and beside the envelope index, so that a listing needs no second look at the files. Unlike the index it is no
cache: what the gate found is written here before the branch moves.
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
    """One envelope with something against it, by path and content."""

    path: str
    blob: str
    kinds: tuple[str, ...]
    commit: str  # that added it
    accepted: bool = (
        False  # it takes part: the operator insisted, or a verdict lifted it
    )
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
    """What a human decided about one envelope, and the turn that says so."""

    lifts: bool
    path: str
    blob: str
    said_in: str

    def __str__(self) -> str:
        return (
            f"{self.said_in} {'lifts' if self.lifts else 'confirms'} the quarantine "
            f"of {self.path}"
        )


def verdict_line(entry: QuarantineEntry, *, lifts: bool) -> str:
    """Return the line that, in a signed DECISIONS turn of a trusted human, lifts or confirms a quarantine."""
    return f"quarantine: {'lift' if lifts else 'confirm'} {entry.path} {entry.blob}"


def read_verdicts(body: str, said_in: str) -> list[HumanVerdict]:
    """Return the verdicts in the body of a turn; whether the turn is to be believed is the caller's to know."""
    return [
        HumanVerdict(word == "lift", path, blob, said_in)
        for word, path, blob in _VERDICT.findall(body)
    ]


class Quarantine:
    """What is kept apart in one clone, as it stood when this was made."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / _FILE_NAME
        self.state = quarantine_state(directory)  # equal texts: the same is kept apart
        self._entries = _read(self._path, self.state)

    @property
    def entries(self) -> list[QuarantineEntry]:
        """Everything on record, accepted or not, by path."""
        return [self._entries[path] for path in sorted(self._entries)]

    @property
    def kept_apart(self) -> list[QuarantineEntry]:
        return [entry for entry in self.entries if not entry.accepted]

    def holds(self, path: str, content: str | None = None) -> bool:
        """Tell whether a file takes no part; other content, where `content` is a blob id, is another envelope."""
        entry = self._entries.get(path)
        if entry is None or entry.accepted:
            return False
        return content is None or content.startswith("~") or content == entry.blob

    def names_in(self, thread_id: str) -> frozenset[str]:
        """Return the file names of a thread that take no part, for listings; empty at no cost where there are none."""
        if not self._entries:
            return frozenset()
        return frozenset(
            entry.filename for entry in self.kept_apart if entry.thread_id == thread_id
        )

    def has_accepted(self, path: str, blob: str) -> bool:
        """Tell whether this very content was taken in although something speaks against it."""
        entry = self._entries.get(path)
        return entry is not None and entry.accepted and entry.blob == blob

    def decided(self, verdicts: Iterable[HumanVerdict]) -> list[QuarantineEntry]:
        """Return the entries as verdicts leave them; one about other content changes nothing."""
        return [
            entry._replace(accepted=verdict.lifts, verdict=verdict.said_in)
            for verdict in verdicts
            if (entry := self._entries.get(verdict.path)) is not None
            and entry.blob == verdict.blob
        ]

    def change(
        self, entries: Iterable[QuarantineEntry], cleared: Iterable[str] = ()
    ) -> None:
        """Write entries in place of those with the same path; `cleared` paths hold nothing bad any more."""
        changed = {
            path: entry
            for path, entry in self._entries.items()
            if path not in set(cleared)
        }
        changed.update((entry.path, entry) for entry in entries)
        if changed == self._entries:
            return
        rows = [changed[path]._asdict() for path in sorted(changed)]
        text = json.dumps({"format": _FORMAT, "entries": rows}, separators=(",", ":"))
        make_dir(self._path.parent)
        write_atomic(self._path, text)
        self._entries = changed
        self.state = text


class DamagedQuarantine(FileError):
    """The list of what is kept apart cannot be read; without it every envelope would take part."""

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
    """Return the stored text; empty where nothing was ever kept apart."""
    path = directory / _FILE_NAME
    try:
        return read_bounded(path, _MAX_BYTES).decode()
    except (FileMissing, NotDirectory):
        return ""
    except UnicodeDecodeError as error:
        raise DamagedQuarantine(path, "it is not UTF-8") from error


def _read(path: Path, text: str) -> Mapping[str, QuarantineEntry]:
    """Return the entries by path; whatever is not as `change` writes it is damage, never an empty list."""
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
    """Return one entry; raise ValueError, TypeError or KeyError for anything else."""
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
