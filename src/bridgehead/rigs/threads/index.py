"""Join what git and the work tree hold with the index of envelopes (rigs §8, §9.4)."""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from bridgehead.errors import plural
from bridgehead.rigs.envelope.envelope import Envelope, parse_envelope
from bridgehead.rigs.envelope.names import envelope_at
from bridgehead.rigs.repositories.index import (
    Addition,
    FileRow,
    HistoryState,
    Index,
    StoredFile,
    is_damaged,
    open_index,
    remove_index,
)
from bridgehead.rigs.repositories.records import CommitRecord, History, PathChange
from bridgehead.rigs.threads.envelope_files import EnvelopeFiles, find_files
from bridgehead.rigs.threads.listed_envelope import (
    ListedEnvelope,
    listed,
    row_of,
    unlisted_row,
)
from bridgehead.rigs.threads.quarantine import Quarantine
from bridgehead.rigs.trust.verification_kinds import Kind, PathFindings

if TYPE_CHECKING:
    from bridgehead.rigs.repositories.git.repository import GitRepository
    from bridgehead.rigs.repositories.git.survey import GitSurvey

LONG = 1000  # files or commits; reading more is announced
_AT_ONCE = 500  # files that are held in memory together
_MOST_TRIES = 5
_Answer = TypeVar("_Answer")


class EnvelopeIndex:
    """One look at a clone: every answer describes the moment it was made.

    With `thread` only that thread is looked at; a `survey` that is handed in must
    have the same extent. `tell` is called before something that takes a while.
    """

    def __init__(
        self,
        repository: "GitRepository",
        thread: str | None = None,
        *,
        survey: "GitSurvey | None" = None,
        tell: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._repository = repository
        self._thread = thread
        self._tell = tell
        self.survey: GitSurvey = survey or repository.survey(thread, untracked=False)
        self.quarantine = Quarantine(repository.private_dir)
        self._files: EnvelopeFiles = find_files(repository, self.survey)
        self._history = HistoryState()
        self._index = open_index(repository.private_dir)
        self._bring_up_to_date()

    @property
    def names(self) -> list[str]:
        """The directories that hold anything and may be threads, sorted."""
        return self._files.threads

    @property
    def is_linear(self) -> bool:
        """Whether history is linear, so that positions show what descends from what."""
        return self._history.is_linear

    @property
    def commits(self) -> int:
        """How many commits HEAD has."""
        return self._history.commits

    def threads(self) -> "list[ThreadListing]":
        """Return every directory that holds at least one envelope (rigs §2)."""
        return [self.thread(name) for name in self.thread_names()]

    def thread_names(self) -> list[str]:
        """Return the names of those directories."""
        threads = self._ask(Index.threads_with_envelopes)
        return [name for name in self.names if self._is_thread(name, threads)]

    def _is_thread(self, name: str, threads: set[str]) -> bool:
        if self.quarantine.names_in(name):
            return bool(self.thread(name).envelopes)
        return name in threads

    def names_naming(self, rigs: Iterable[str]) -> list[str]:
        """Return the threads in which one of these rigs wrote or was written to."""
        wanted = list(rigs)
        naming = self._ask(lambda index: index.threads_naming(wanted))
        return [name for name in self.thread_names() if name in naming]

    def marks(self) -> dict[str, object]:
        """Return a mark for each thread that changes when its listing does."""
        contents = self._files.contents_by_thread()
        changes = self._ask(Index.last_changes)
        read_from = self._history.read_from
        return {
            name: (hash(contents[name]), changes.get(name), read_from)
            for name in self.names
        }

    def thread(self, name: str) -> "ThreadListing":
        """Return one thread without what is in quarantine; it may be empty."""
        if name not in self.names:
            return ThreadListing(name, (), (), ())
        rows = self._rows(name)
        hidden = self._quarantined(name)
        envelopes: list[ListedEnvelope] = []
        unreadable: list[PathFindings] = []
        for filename in sorted(rows.keys() - hidden):
            row = rows[filename]
            path = f"{name}/{filename}"
            if row.is_envelope:
                envelopes.append(listed(name, row, self._files.content(path)))
            else:
                unreadable.append(PathFindings(path, (Kind(row.findings),)))
        filenames = sorted(set(self.survey.names_in(name)) - hidden)
        return ThreadListing(
            name, tuple(envelopes), tuple(unreadable), tuple(filenames)
        )

    def committed(self, thread: str) -> dict[str, Addition]:
        """Return how the files of a thread came into HEAD, by name.

        What the work tree holds makes no difference.
        """
        return self._ask(lambda index: index.additions(thread))

    def read(self, envelopes: Sequence[ListedEnvelope]) -> Iterator[Envelope | None]:
        """Yield the contents of listed envelopes of one thread, in the order given."""
        for start in range(0, len(envelopes), _AT_ONCE):
            batch = envelopes[start : start + _AT_ONCE]
            yield from self._read_batch(batch)

    def _read_batch(self, envelopes: Sequence[ListedEnvelope]) -> list[Envelope | None]:
        thread = envelopes[0].turn.thread_id
        filenames = [envelope.turn.filename for envelope in envelopes]
        found = self._ask(lambda index: index.envelopes(thread, filenames))
        return [found.get(filename) for filename in filenames]

    def _rows(self, thread: str) -> dict[str, FileRow]:
        """Return everything that was found in a thread, by file name."""
        stored = self._ask(lambda index: index.files(thread))
        rows = {row.filename: row for row in stored}
        for filename in self._files.unreadable.get(thread, ()):
            rows[filename] = unlisted_row(filename, Kind.PARSE_FAILED)
        return rows

    def _quarantined(self, thread: str) -> set[str]:
        """Return the file names in a thread that are in quarantine."""
        names = self.quarantine.names_in(thread)
        return {name for name in names if self._is_quarantined(f"{thread}/{name}")}

    def _is_quarantined(self, path: str) -> bool:
        return self.quarantine.holds(path, self._files.content(path))

    def _ask(self, question: Callable[[Index], _Answer]) -> _Answer:
        """Ask the index; one that turns out to be damaged is built again first."""
        try:
            return question(self._index)
        except (sqlite3.Error, ValueError, TypeError):
            self._start_again()
            self._bring_up_to_date()
            return question(self._index)

    # bringing the index up to date

    def _bring_up_to_date(self) -> None:
        """Take in what the index lacks, and hold on to the state that has everything.

        Another process may look at the same clone before or after a commit, and change
        the index meanwhile. The last resort is an index of our own.
        """
        for _ in range(_MOST_TRIES):
            try:
                if self._has_everything():
                    return
                with self._index.writing():
                    self._take_in()
            except sqlite3.Error as error:
                if is_damaged(error):
                    self._start_again()
                else:
                    self._use_memory()
        self._use_memory()
        with self._index.writing():
            self._take_in()
        self._has_everything()

    def _has_everything(self) -> bool:
        """Return whether the index describes this look; if so, hold its state."""
        self._index.begin_reading()
        self._history = self._index.history()
        is_current = (
            self._history.head == self.survey.head
            and self._history.boundary == self._repository.history_boundary()
            and self._index.content_ids(self._thread) == self._files.content_ids
        )
        if not is_current:
            self._index.end_reading()
        return is_current

    def _start_again(self) -> None:
        self._index.close()
        remove_index(self._repository.private_dir)
        self._index = open_index(self._repository.private_dir)

    def _use_memory(self) -> None:
        self._index.close()
        self._index = Index(None)

    def _take_in(self) -> None:
        stored = self._index.content_ids(self._thread)
        wanted = self._files.content_ids
        missing = sorted(wanted.items() - stored.items())
        if len(missing) >= LONG:
            self._tell(f"reading {plural(len(missing), 'envelope')}…")
        self._take_in_history()
        self._index.forget_files(path for path, _ in stored.items() - wanted.items())
        for start in range(0, len(missing), _AT_ONCE):
            self._index.add_files(self._read_files(missing[start : start + _AT_ONCE]))

    def _take_in_history(self) -> None:
        """Bring the additions up to HEAD."""
        head = self.survey.head
        known = self._index.history()
        boundary = self._repository.history_boundary()
        if (known.head, known.boundary) == (head, boundary):
            return
        after = known.head if known.boundary == boundary else None
        history = self._repository.history(head, after)
        if history.from_start:
            self._index.clear_additions()
            known = HistoryState(boundary=boundary, read_from=head or "")
        counted = _Counted(history, self._tell)
        additions = fold_commits(self._index.addition, counted, known.commits)
        self._index.put_additions(additions)
        self._index.set_history(
            known._replace(
                head=head,
                commits=known.commits + counted.commits,
                is_linear=known.is_linear and counted.is_linear,
            )
        )

    def _read_files(self, wanted: Sequence[tuple[str, str]]) -> Iterator[StoredFile]:
        """Yield files, given as path and content id, as they are to be stored."""
        blobs = [
            content_id
            for path, content_id in wanted
            if self._files.is_committed_content(path)
        ]
        contents = self._repository.read_blobs(blobs)
        for path, content_id in wanted:
            thread, _, filename = path.partition("/")
            if self._files.is_link(path):
                row = unlisted_row(filename, Kind.SYMLINK)
                yield StoredFile(thread, content_id, row, None)
                continue
            content = contents.get(content_id)
            if path in self._files.loose:
                content = self._files.loose[path]
            yield _stored_file(thread, filename, content_id, content)


class ThreadListing(NamedTuple):
    """One thread as it lies in the work tree."""

    thread_id: str
    envelopes: tuple[ListedEnvelope, ...]  # by file name
    unreadable: tuple[PathFindings, ...]  # links and `.md` files that are no envelopes
    filenames: tuple[str, ...]


class _Counted:
    """Commits that are counted as they pass; very many are announced."""

    def __init__(self, history: History, tell: Callable[[str], None]) -> None:
        self._history = history
        self._tell = tell
        self.commits = 0
        self.is_linear = True

    def __iter__(self) -> Iterator[CommitRecord]:
        for commit in self._history.commits:
            self.commits += 1
            if len(commit.parents) > 1:
                self.is_linear = False
            if self.commits == LONG:
                self._tell("reading the history of this clone…")
            yield commit


def _stored_file(
    thread: str, filename: str, content_id: str, content: bytes | None
) -> StoredFile:
    """Return a file as it is to be stored; one without content is too large."""
    if content is None:
        row = unlisted_row(filename, Kind.PARSE_FAILED)
        return StoredFile(thread, content_id, row, None)
    parsed = parse_envelope(content)
    row = row_of(thread, filename, parsed)
    if isinstance(parsed, Envelope):
        return StoredFile(thread, content_id, row, parsed)
    return StoredFile(thread, content_id, row, None)


Place = tuple[str, str]  # thread and file name


def fold_commits(
    known: Callable[[str, str], Addition | None],
    commits: Iterable[CommitRecord],
    first_position: int,
) -> Mapping[Place, Addition]:
    """Follow envelopes through commits, parents first; return those that were touched.

    `known` returns how a path came into the commits before.
    """
    changed: dict[Place, Addition] = {}
    for position, commit in enumerate(commits, first_position):
        for change in commit.changes:
            place = envelope_at(change.path)
            if place is None:
                continue
            before = changed.get(place) or known(*place)
            after = _after(change, place[1], before, commit, position)
            changed[place] = after._replace(
                changed_at=position, changed_by=commit.commit
            )
    return changed


def _after(
    change: PathChange,
    filename: str,
    before: Addition | None,
    commit: CommitRecord,
    position: int,
) -> Addition:
    if before is None:
        return _added(change, filename, commit, position, rewritten=False)
    if change.status == "D":
        return before._replace(commit="")
    rewritten = before.rewritten or before.blob != change.blob
    if before.commit == "":
        # It was deleted earlier: what comes back counts as new, but must be the same.
        return _added(change, filename, commit, position, rewritten=rewritten)
    return before._replace(blob=change.blob, rewritten=rewritten)


def _added(
    change: PathChange,
    filename: str,
    commit: CommitRecord,
    position: int,
    *,
    rewritten: bool,
) -> Addition:
    return Addition(
        filename=filename,
        commit="" if change.status == "D" else commit.commit,
        position=position,
        committed_at=commit.committed_at,
        author_email=commit.author.email,
        signed=commit.signed,
        rewritten=rewritten,
        blob=change.blob,
        changed_at=position,
        changed_by=commit.commit,
    )
