"""The envelopes of a repository, parsed once per content and placed once per commit (rigs §8, §9.4)."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from bridgehead.rigs.envelope.envelope import Envelope
from bridgehead.rigs.envelope.names import envelope_at, is_envelope_name
from bridgehead.rigs.repositories.records import (
    CommitRecord,
    History,
    PathChange,
    TrackedFile,
)
from bridgehead.rigs.threads.index_rows import (
    FileRow,
    HistoryRow,
    ListedEnvelope,
    listed,
)
from bridgehead.rigs.threads.index_store import (
    UNCACHEABLE,
    Header,
    IndexFile,
    IndexSpoilt,
    Wanted,
    read_rows,
)
from bridgehead.rigs.threads.output_cache import is_settled
from bridgehead.rigs.threads.quarantine import Quarantine
from bridgehead.rigs.trust.verification_kinds import Kind, PathFindings

if TYPE_CHECKING:
    from bridgehead.rigs.repositories.git.repository import GitRepository
    from bridgehead.rigs.repositories.git.survey import GitSurvey


class EnvelopeIndex:
    """One look at a repository: every answer describes the moment it was made.

    With `thread` only that thread is looked at; a `survey` that is handed in must have the same extent. Findings
    (rigs §3.3) cost a cold index the reading of every body, so they are there only if asked for; with `for_reading` the
    envelopes read for them stay at hand. A cold index that need not know history leaves it aside (`is_placed`). Threads
    that still have the mark by which `idle` knows them are not looked into: where that mark is without files, and one
    was changed in place, the answers are those from before.
    """

    def __init__(
        self,
        repository: "GitRepository",
        thread: str | None = None,
        *,
        survey: "GitSurvey | None" = None,
        with_findings: bool = False,
        with_history: bool = True,
        for_reading: bool = False,
        idle: Mapping[str, str] | None = None,
    ) -> None:
        self._repository = repository
        self._with_findings = with_findings
        self._with_history = with_history
        self._for_reading = for_reading
        self._loaded: dict[str, Envelope] = {}  # by blob
        self._in_order: dict[
            str, HistoryRow
        ] = {}  # of the one thread looked at, while the index is not placed
        self._is_whole = thread is None
        self._file = IndexFile(repository.private_dir)
        self.quarantine = Quarantine(repository.private_dir)

        def passes_over(seen: "GitSurvey", name: str) -> bool:
            tree, stamp = seen.trees.get(name, ""), seen.stamp_of(name)
            if not self._file.is_unchanged(
                name, tree, stamp, with_findings=with_findings
            ):
                return False
            mark, known = self._mark(name, tree), (idle or {}).get(name, "")
            if known == mark:
                return True
            if (
                same := known.startswith(mark)
                and known == f"{mark} {seen.stamp_of_files(name)}"
            ):
                self._with_files[name] = known
            return same

        self._began_ns, self._with_files = time.time_ns(), dict[str, str]()
        known_idle = passes_over if idle else None
        self.survey: GitSurvey = survey or repository.survey(
            thread, untracked=False, passes_over=known_idle
        )
        try:
            self._bring_up_to_date()
        except IndexSpoilt:
            self._bring_up_to_date()

    @property
    def is_placed(self) -> bool:
        """Tell whether it is known which commit added what; if not, every envelope looks uncommitted."""
        return self._file.header.head == self.survey.head

    def place(self) -> None:
        """Take in history after all."""
        self._with_history = True
        self._in_order = {}
        self._bring_up_to_date()

    def put_in_order(self, thread: str) -> bool:
        """Find out which commits added one thread, if that is quick; their positions compare with one another only."""
        head, files = self.survey.head, len(self.survey.names_in(thread))
        commits = self._repository.thread_commits(head, thread, files) if head else None
        fold_commits(lambda _: self._in_order, commits or (), 0)
        return commits is not None

    @property
    def is_linear(self) -> bool:
        """Tell whether history is one line, so that positions alone say what descends from what."""
        return self._file.header.linear

    @property
    def commits(self) -> int:
        """How many commits HEAD has."""
        return self._file.header.commits

    def threads(self) -> "list[ThreadListing]":
        """Return every directory that holds at least one envelope, by name (rigs §2)."""
        return [self.thread(name) for name in self.names if self.holds_envelopes(name)]

    def holds_envelopes(self, name: str) -> bool:
        """Tell whether a directory is a thread, if possible without reading its rows."""
        listed_there = bool(self._file.outline(name).rigs)
        return (
            bool(self.thread(name).envelopes)
            if self.quarantine.names_in(name)
            else listed_there
        )

    def is_committed(self, name: str) -> bool:
        """Tell whether everything in a thread was found as HEAD has it."""
        known = self._file.outline(name)
        return bool(known.tree and known.extent)

    def marks(self) -> dict[str, tuple[int, int]] | None:
        """Return what changes when the rows of a thread do, by thread; None while a file is too fresh to be known."""
        loose = [
            self._stored(name)[0].values()
            for name in self.names
            if not self._file.outline(name).extent
        ]
        fresh = any(row.content == UNCACHEABLE for rows in loose for row in rows)
        return None if fresh else {name: self._file.mark(name) for name in self.names}

    def mark(self, name: str) -> str:
        """Return what changes with what HEAD has in a thread and how that came there."""
        return self._mark(name, self.survey.trees.get(name, ""))

    def mark_with_files(self, name: str) -> str:
        """Return what changes also when a file is changed in place; empty while one is too fresh to tell."""
        if name in self._with_files:
            return self._with_files[name]
        stamp = self.survey.stamp_of_files(name)
        return f"{self.mark(name)} {stamp}" if is_settled(stamp, self._began_ns) else ""

    def _mark(self, name: str, tree: str) -> str:
        return f"{tree} {self._file.mark(name)[1]}"

    def names_naming(self, rigs: Iterable[str]) -> list[str]:
        """Return the directories in which something may name one of these rigs; the others are not even read."""
        return [name for name in self.names if self._file.names_any(name, rigs)]

    def thread(self, name: str) -> "ThreadListing":
        """Return one thread, empty if there is nothing in it. What is in quarantine is not."""
        files, history = self._stored(name)
        rows = [row for _, row in sorted(files.items())] if name in self.names else []
        names: Iterable[str] = self.survey.names_in(name) if name in self.names else ()
        if apart := self._kept_apart(name, rows):
            rows = [row for row in rows if row.filename not in apart]
            names = [filename for filename in names if filename not in apart]
        history = self._in_order or history
        return ThreadListing(
            name,
            tuple(
                listed(name, row, history.get(row.filename))
                for row in rows
                if row.readable
            ),
            tuple(_reported(name, row) for row in rows if not row.readable),
            tuple(sorted(names)),
        )

    def committed(self, thread: str) -> dict[str, HistoryRow]:
        """Return how the files of a thread came into HEAD, by name, whatever the work tree holds."""
        return self._stored(thread)[1]

    def let_go(self, thread: str) -> None:
        """Keep nothing of a thread at hand that can be read again."""
        self._file.put_away(thread)

    def _stored(self, thread: str) -> tuple[dict[str, FileRow], dict[str, HistoryRow]]:
        try:
            return self._file.files(thread), self._file.history(thread)
        except IndexSpoilt:
            self._bring_up_to_date()
            return self._file.files(thread), self._file.history(thread)

    def _kept_apart(self, thread: str, rows: Sequence[FileRow]) -> frozenset[str]:
        listed_there = self.quarantine.names_in(thread)
        if not listed_there:
            return listed_there
        return frozenset(
            row.filename
            for row in rows
            if row.filename in listed_there
            and self.quarantine.holds(f"{thread}/{row.filename}", row.content)
        )

    def read(self, envelopes: Sequence[ListedEnvelope]) -> Iterator[Envelope | None]:
        """Yield what envelopes of one thread hold, in the order given; None for one that went away meanwhile."""
        from bridgehead.rigs.threads.index_store import read_envelopes

        return read_envelopes(self._repository, envelopes, self._loaded)

    def _bring_up_to_date(self) -> None:
        known = self._file.header
        self.names = self._take_in_files()
        is_new = self.survey.head != known.head and (
            known.head is not None or self._with_history
        )
        header = (
            self._take_in(self._repository.history(self.survey.head, known.head), known)
            if is_new
            else known
        )
        self._file.save(header)

    def _take_in(self, history: History, known: Header) -> Header:
        """Bring positions up to HEAD."""
        if history.from_start:
            self._file.clear_history()
            known = Header()
        counted, linear = known.commits, known.linear

        def passing() -> Iterator[CommitRecord]:
            nonlocal counted, linear
            for commit in history.commits:
                counted, linear = counted + 1, linear and len(commit.parents) < 2
                yield commit

        self._file.history_rows.changed |= fold_commits(
            self._file.history, passing(), counted
        )
        return Header(self.survey.head, counted, linear)

    def _take_in_files(self) -> list[str]:
        """Bring the rows of every thread looked at up to what lies in the work tree, and return the threads."""
        differing = {file.path for file in self.survey.dirty if file.differs_from_index}
        unsettled = {
            path.partition("/")[0]
            for file in self.survey.dirty
            for path in (file.path, file.origin or "")
        }
        now, found, seen, changed = time.time_ns(), [], [], dict[str, list[str]]()
        for thread in self.survey.directories:
            if (
                thread in self.survey.passed_over and self._file.outline(thread).tree
            ):  # and was not forgotten since
                found.append(thread)
                continue
            asked = thread not in unsettled and (
                self._is_whole or self._file.outline(thread).tree
            )  # else nothing to gain
            tree = self.survey.trees.get(thread, "") if asked else ""
            stamp = self.survey.stamp_of(thread)  # before its names are read
            if tree and self._file.is_unchanged(
                thread, tree, stamp, with_findings=self._with_findings
            ):
                found.append(thread)
            elif self.survey.names_in(thread):
                found.append(thread)
                names = [
                    name
                    for name in self.survey.names_in(thread)
                    if is_envelope_name(name)
                ]
                holds = self._file.still_holds(
                    thread, tree, names, with_findings=self._with_findings
                )
                if not (tree and holds):
                    changed[thread] = names
                seen.append(
                    (thread, tree, stamp if stamp and is_settled(stamp, now) else None)
                )
        tracked = self.survey.tracked(list(changed)) if changed else {}
        for thread, names in changed.items():
            self._read_anew(thread, self._compare(thread, names, differing, tracked))
        still_stands = bool(seen) and self.survey.still_stands()
        for thread, tree, stamp in seen:
            self._file.note(thread, tree if still_stands else "", stamp)
        return sorted(found)

    def _read_anew(self, thread: str, wanted: Sequence[Wanted]) -> None:
        for row, envelope in read_rows(
            self._repository, thread, wanted, with_findings=self._with_findings
        ):
            self._file.files(thread)[row.filename] = row
            self._file.file_rows.changed.add(thread)
            if self._for_reading and envelope is not None:
                self._loaded[row.content] = envelope
        if self._is_whole:
            self._file.put_away(thread)

    def _compare(
        self,
        thread: str,
        names: Sequence[str],
        differing: set[str],
        tracked: Mapping[str, TrackedFile],
    ) -> list[Wanted]:
        """Drop the rows of files that are gone and return the files that must be read."""
        rows = self._file.files(thread)
        for gone in rows.keys() - set(names):
            del rows[gone]
            self._file.file_rows.changed.add(thread)
        wanted = []
        for name in names:
            path = f"{thread}/{name}"
            file = self._identify(
                name, path, None if path in differing else tracked.get(path)
            )
            row = rows.get(name)
            if file is None:
                if rows.pop(name, None):
                    self._file.file_rows.changed.add(thread)
            elif row is None or not self._is_current(row, file):
                wanted.append(file)
        return wanted

    def _is_current(self, row: FileRow, file: Wanted) -> bool:
        known = row.content == file.content and row.content != UNCACHEABLE
        return known and not (self._with_findings and row.findings is None)

    def _identify(
        self, name: str, path: str, tracked: TrackedFile | None
    ) -> Wanted | None:
        """Say by what a file's content is known; None for directories and devices."""
        if tracked is not None and tracked.blob is not None:
            return Wanted(
                name, tracked.blob, tracked.is_symlink, is_blob=not tracked.is_symlink
            )
        stamp = self._repository.stamp(path)
        if stamp is None:
            return None
        content = f"{UNCACHEABLE}{stamp.inode}.{stamp.size}.{stamp.modified_ns}.{stamp.changed_ns}"
        known = content if is_settled(stamp, time.time_ns()) else UNCACHEABLE
        return Wanted(name, known, stamp.is_symlink)


class ThreadListing(NamedTuple):
    """One thread as it lies in the work tree."""

    thread_id: str
    envelopes: tuple[ListedEnvelope, ...]  # by file name
    unreadable: tuple[
        PathFindings, ...
    ]  # links and `.md` files that are not envelopes: reported, not counted
    filenames: tuple[str, ...]


def _reported(thread: str, row: FileRow) -> PathFindings:
    kinds = tuple(Kind(kind) for kind in (row.findings or "").split())
    return PathFindings(f"{thread}/{row.filename}", kinds)


def fold_commits(
    rows_of: Callable[[str], dict[str, HistoryRow]],
    commits: Iterable[CommitRecord],
    first_position: int,
) -> set[str]:
    """Take commits, parents first, into the rows of their threads, by file name; return the threads they touched."""
    touched = set()
    for position, commit in enumerate(commits, first_position):
        for change in commit.changes:
            place = envelope_at(change.path)
            if place is not None:
                thread, filename = place
                known = rows_of(thread)
                known[filename] = _after(
                    change, filename, known.get(filename), commit, position
                )
                touched.add(thread)
    return touched


def _after(
    change: PathChange,
    filename: str,
    before: HistoryRow | None,
    commit: CommitRecord,
    position: int,
) -> HistoryRow:
    if before is None:
        return _added(change, filename, commit, position, rewritten=False)
    if change.status == "D":
        return before._replace(commit="")
    if (
        before.commit == ""
    ):  # deleted earlier: what comes back counts as new, but must be the same
        rewritten = before.rewritten or before.blob != change.blob
        return _added(change, filename, commit, position, rewritten=rewritten)
    return before._replace(
        blob=change.blob, rewritten=before.rewritten or before.blob != change.blob
    )


def _added(
    change: PathChange,
    filename: str,
    commit: CommitRecord,
    position: int,
    *,
    rewritten: bool,
) -> HistoryRow:
    added_by = "" if change.status == "D" else commit.commit
    return HistoryRow(
        filename,
        added_by,
        position,
        commit.committed_at,
        commit.author.email,
        commit.signed,
        rewritten,
        change.blob,
    )
