"""What a posting intends, written down first, so that the next command can finish or undo it after a kill -9.

The journal says what was meant; what really happened is read from the repository itself. An envelope that reached HEAD
is finished, any other is taken back.
"""

import json
from pathlib import Path
from typing import NamedTuple

from bridgehead.host.directories import make_dir
from bridgehead.host.file_errors import FileMissing, translated
from bridgehead.host.files import read_bounded, write_atomic
from bridgehead.rigs.repositories.errors import GitFailed
from bridgehead.rigs.repositories.git.clone import Clone
from bridgehead.rigs.repositories.git.command import require_success
from bridgehead.rigs.repositories.records import MAX_FILE_BYTES, REGULAR, Recovered

_MAX_JOURNAL_BYTES = 64 * 1024


class JournalEntry(NamedTuple):
    """One envelope that is to become one commit."""

    path: str
    blob: str
    had_draft: bool  # the scaffold it replaces is kept beside the journal
    pid: int


def draft_file(clone: Clone) -> Path:
    return clone.location.private_dir / "draft"


def scratch_index(clone: Clone) -> Path:
    """The index a commit is composed in; the user's own is not touched for that."""
    return clone.location.private_dir / "posting.index"


def write_journal(clone: Clone, entry: JournalEntry) -> None:
    make_dir(clone.location.private_dir)
    write_atomic(clone.location.posting_journal, json.dumps(entry._asdict()))


def read_journal(clone: Clone) -> JournalEntry | None:
    """Return what an earlier command meant to do; a journal that cannot be read means nothing was begun."""
    try:
        stored = json.loads(
            read_bounded(clone.location.posting_journal, _MAX_JOURNAL_BYTES)
        )
        entry = JournalEntry(**stored)
    except (FileMissing, ValueError, TypeError):
        return None
    well_formed = isinstance(entry.path, str) and isinstance(entry.blob, str)
    return entry if well_formed and not entry.path.startswith(("/", "../")) else None


def settle(clone: Clone, entry: JournalEntry) -> Recovered:
    """Bring file, index and HEAD into agreement, whichever step was the last that was taken."""
    if _blob_in_head(clone, entry.path) == entry.blob:
        _finish(clone, entry)
        commit: str | None = clone.git.read(
            "rev-list", "-1", "HEAD", "--", entry.path
        ).text.strip()
        if not commit:
            raise GitFailed(f"no commit of HEAD holds {entry.path}")
    else:
        _take_back(clone, entry)
        commit = None
    _sweep_temporaries(clone, entry)
    forget(clone)
    return Recovered(entry.path, commit)


def forget(clone: Clone) -> None:
    """Remove the journal and what lies beside it; the journal last, as it is what makes us look."""
    index = scratch_index(clone)
    for path in (
        index,
        index.with_name(f"{index.name}.lock"),
        draft_file(clone),
        clone.location.posting_journal,
    ):
        path.unlink(missing_ok=True)


def stage(clone: Clone, path: str, blob: str) -> None:
    """Put one path into the user's index and leave everything else in it alone."""
    require_success(
        "update-index",
        clone.write_index(
            "update-index", "--add", "--cacheinfo", f"{REGULAR},{blob},{path}"
        ),
    )


def refresh(clone: Clone, path: str) -> None:
    """Let the index know the file's times, so that the next `git status` need not read it. Failing is harmless."""
    clone.write_index("add", "--refresh", "--", path)


def _finish(clone: Clone, entry: JournalEntry) -> None:
    if (
        _blob_in_index(clone, entry.path) is None
        and clone.blob_on_disk(entry.path) == entry.blob
    ):
        stage(clone, entry.path, entry.blob)
    refresh(clone, entry.path)


def _take_back(clone: Clone, entry: JournalEntry) -> None:
    if _blob_in_index(clone, entry.path) == entry.blob:
        require_success(
            "update-index",
            clone.write_index("update-index", "--force-remove", "--", entry.path),
        )
    if clone.blob_on_disk(entry.path) != entry.blob:
        return  # never written, or somebody has edited it since: theirs
    target = clone.location.top_level / entry.path
    if entry.had_draft:
        write_atomic(
            target,
            read_bounded(draft_file(clone), MAX_FILE_BYTES),
            root=clone.location.top_level,
        )
    else:
        with translated(target, "removed"):
            target.unlink(missing_ok=True)


def _sweep_temporaries(clone: Clone, entry: JournalEntry) -> None:
    """Remove what a writer killed in the middle of `write_atomic` left beside the envelope."""
    directory, _, name = entry.path.rpartition("/")
    for leftover in (clone.location.top_level / directory).glob("*.tmp"):
        if leftover.name.startswith(f".{name[:50]}.{entry.pid}."):
            leftover.unlink(missing_ok=True)


def _blob_in_head(clone: Clone, path: str) -> str | None:
    answer = clone.git.ask("ls-tree", "-z", "--full-tree", "HEAD", "--", path)
    if answer.code != 0:  # before the first commit there is no HEAD
        return None
    return answer.text.split("\t")[0].split(" ")[2] if answer.stdout else None


def _blob_in_index(clone: Clone, path: str) -> str | None:
    entries = clone.git.read("ls-files", "--stage", "-z", "--", path).fields
    return entries[0].split(" ")[1] if len(entries) == 1 else None
