"""Write down what a posting intends, so that the next command can finish or undo it.

The journal says what was meant; what really happened is read from the repository
itself. After a kill -9, an envelope that reached HEAD is finished, and any other is
taken back.
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
    """Return the index a commit is composed in, which is not the user's."""
    return clone.location.private_dir / "posting.index"


def write_journal(clone: Clone, entry: JournalEntry) -> None:
    make_dir(clone.location.private_dir)
    write_atomic(clone.location.posting_journal, json.dumps(entry._asdict()))


def read_journal(clone: Clone) -> JournalEntry | None:
    """Return what an earlier command meant to do.

    A journal that cannot be read means that nothing was begun.
    """
    try:
        journal = read_bounded(clone.location.posting_journal, _MAX_JOURNAL_BYTES)
        entry = JournalEntry(**json.loads(journal))
    except (FileMissing, ValueError, TypeError):
        return None
    if not all(isinstance(text, str) for text in (entry.path, entry.blob)):
        return None
    if entry.path.startswith(("/", "../")):
        return None
    return entry


def settle(clone: Clone, entry: JournalEntry) -> Recovered:
    """Bring file, index and HEAD into agreement, whichever step came last."""
    commit: str | None = None
    if _blob_in_head(clone, entry.path) == entry.blob:
        _finish(clone, entry)
        commit = _commit_that_holds(clone, entry.path)
    else:
        _take_back(clone, entry)
    _sweep_temporaries(clone, entry)
    forget(clone)
    return Recovered(entry.path, commit)


def _commit_that_holds(clone: Clone, path: str) -> str:
    found = clone.git.read("rev-list", "-1", "HEAD", "--", path).text.strip()
    if not found:
        raise GitFailed(f"no commit of HEAD holds {path}")
    return found


def forget(clone: Clone) -> None:
    """Remove the journal and what lies beside it.

    The journal goes last, because it is what makes us look.
    """
    index = scratch_index(clone)
    index.unlink(missing_ok=True)
    index.with_name(f"{index.name}.lock").unlink(missing_ok=True)
    draft_file(clone).unlink(missing_ok=True)
    clone.location.posting_journal.unlink(missing_ok=True)


def stage(clone: Clone, path: str, blob: str) -> None:
    """Put one path into the user's index and leave everything else in it alone."""
    described = f"{REGULAR},{blob},{path}"
    answer = clone.write_index("update-index", "--add", "--cacheinfo", described)
    require_success("update-index", answer)


def refresh(clone: Clone, path: str) -> None:
    """Update the file's times in the index, so that `git status` need not read it.

    Failing is harmless.
    """
    clone.write_index("add", "--refresh", "--", path)


def _finish(clone: Clone, entry: JournalEntry) -> None:
    is_staged = _blob_in_index(clone, entry.path) is not None
    if not is_staged and clone.blob_on_disk(entry.path) == entry.blob:
        stage(clone, entry.path, entry.blob)
    refresh(clone, entry.path)


def _take_back(clone: Clone, entry: JournalEntry) -> None:
    if _blob_in_index(clone, entry.path) == entry.blob:
        answer = clone.write_index("update-index", "--force-remove", "--", entry.path)
        require_success("update-index", answer)
    if clone.blob_on_disk(entry.path) != entry.blob:
        return  # never written, or somebody has edited it since: theirs
    top_level = clone.location.top_level
    target = top_level / entry.path
    if entry.had_draft:
        draft = read_bounded(draft_file(clone), MAX_FILE_BYTES)
        write_atomic(target, draft, root=top_level)
    else:
        with translated(target, "removed"):
            target.unlink(missing_ok=True)


def _sweep_temporaries(clone: Clone, entry: JournalEntry) -> None:
    """Remove what a `write_atomic` that was killed left beside the envelope."""
    directory, _, name = entry.path.rpartition("/")
    beginning = f".{name[:50]}.{entry.pid}."
    for leftover in (clone.location.top_level / directory).glob("*.tmp"):
        if leftover.name.startswith(beginning):
            leftover.unlink(missing_ok=True)


def _blob_in_head(clone: Clone, path: str) -> str | None:
    answer = clone.git.ask("ls-tree", "-z", "--full-tree", "HEAD", "--", path)
    # Before the first commit there is no HEAD.
    if answer.code != 0 or not answer.stdout:
        return None
    described = answer.text.partition("\t")[0]
    _mode, _type, blob = described.split(" ")
    return blob


def _blob_in_index(clone: Clone, path: str) -> str | None:
    entries = clone.git.read("ls-files", "--stage", "-z", "--", path).fields
    if len(entries) != 1:
        return None
    return entries[0].split(" ")[1]
