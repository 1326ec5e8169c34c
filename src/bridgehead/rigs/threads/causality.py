"""Who knew what when they wrote, and where a thread split (rigs §9.6)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from bridgehead.rigs.threads.thread import OrderKey, Turn, in_order, latest

_SHORTEST_REFERENCE = 7


class Causality:
    """Who knew what among the committed turns of one thread.

    `parents` maps every commit of the repository to its parents. It is None if
    history is linear, so that each commit descends from all of lower position: that
    is the usual case, and much the faster one.
    """

    def __init__(
        self, turns: Iterable[Turn], parents: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        self._turns = {
            turn.filename: turn for turn in turns if turn.commit_sha is not None
        }
        self._parents = parents

    @cached_property
    def _graph(self) -> "KnowledgeGraph":
        return KnowledgeGraph(self._turns.values(), self._parents)

    @property
    def _is_a_chain(self) -> bool:
        """Whether each turn knows all before it.

        That is so if history is linear and no turn names another.
        """
        if self._parents is not None:
            return False
        turns = self._turns.values()
        return not any(turn.references or turn.in_reply_to for turn in turns)

    def heads(self) -> list[Turn]:
        """Return the turns that no other turn knows, oldest first."""
        return in_order(self._turns[filename] for filename in self._graph.heads())

    def divergence(self) -> "Divergence | None":
        """Name the split, if the thread has one."""
        if self._is_a_chain:
            return None
        heads = self._graph.heads()
        if len(heads) < 2:
            return None
        origin = "root"
        common = [self._turns[filename] for filename in self._graph.known_to_all(heads)]
        if common:
            origin = (latest(common).commit_sha or "")[:_SHORTEST_REFERENCE]
        shown = tuple(self._turns[filename] for filename in sorted(heads))
        return Divergence(f"{shown[0].thread_id}@{origin}", shown)

    def known(self, filename: str) -> frozenset[str]:
        """Return the names of the turns that this one knows."""
        return self._graph.known([filename] if filename in self._turns else [])

    def concurrent_with(self, filename: str) -> list[Turn]:
        """Return the turns of other rigs that are independent of this one.

        They neither know it nor are known by it. Oldest first.
        """
        if filename not in self._turns:
            return []
        related = self.known(filename) | self._graph.knowing(filename)
        sender = self._turns[filename].sender
        return in_order(
            turn
            for turn in self._turns.values()
            if turn.sender != sender and turn.filename not in related
        )


class Divergence(NamedTuple):
    """A thread with several heads, named after the newest turn all of them know."""

    name: str
    heads: tuple[Turn, ...]  # by file name

    def json_object(self) -> dict[str, object]:
        heads = [
            {"file": turn.filename, "from": turn.sender, "commit_sha": turn.commit_sha}
            for turn in self.heads
        ]
        return {"name": self.name, "heads": heads}


class KnowledgeGraph:
    """Points and edges over committed turns, which are named by their files."""

    def __init__(
        self, turns: Iterable[Turn], parents: Mapping[str, Sequence[str]] | None
    ) -> None:
        self._edges: list[list[int]] = []
        self._file_at: list[str | None] = []  # None for gathering points
        self._point_of: dict[str, int] = {}
        self._of_hash: dict[str, int] = {}
        # The last turn of a commit knows the others.
        self._of_commit: dict[str, int] = {}
        self._by_prefix: dict[str, list[str]] = {}
        self._of_rig: dict[str, int] = {}
        commits = _by_commit(turns)
        pasts: dict[str, int] = {}
        for commit, nearest in _nearest_before(list(commits), parents):
            targets: list[int] = []
            for before in nearest:
                if before in pasts:
                    targets += [self._of_commit[before], pasts[before]]
            pasts[commit] = self._point(targets)
            self._add_commit(commit, commits[commit], pasts[commit])

    def heads(self) -> list[str]:
        """Return the files of turns that no other turn leads to."""
        reached = bytearray(len(self._edges))
        for point in range(len(self._edges) - 1, -1, -1):
            if self._file_at[point] is not None or reached[point]:
                for target in self._edges[point]:
                    reached[target] = 1
        return [file for file, point in self._point_of.items() if not reached[point]]

    def known(self, files: Iterable[str]) -> frozenset[str]:
        """Return the files of all turns that at least one of these leads to."""
        starts = [self._point_of[file] for file in files]
        reached = bytearray(len(self._edges))
        for start in starts:
            for target in self._edges[start]:
                reached[target] = 1
        for point in range(max(starts, default=0) - 1, -1, -1):
            if reached[point]:
                for target in self._edges[point]:
                    reached[target] = 1
        return frozenset(
            file for file, point in self._point_of.items() if reached[point]
        )

    def knowing(self, file: str) -> frozenset[str]:
        """Return the files of all turns that lead to this one."""
        start = self._point_of[file]
        leads = bytearray(len(self._edges))
        leads[start] = 1
        for point in range(start + 1, len(self._edges)):
            leads[point] = any(leads[target] for target in self._edges[point])
        return frozenset(
            file
            for file, point in self._point_of.items()
            if leads[point] and point != start
        )

    def known_to_all(self, files: Sequence[str]) -> list[str]:
        """Return the files of turns that every one of these leads to."""
        # One bit per asking turn, handed down in a single pass, however many there are.
        asking = [0] * len(self._edges)
        for bit, file in enumerate(files):
            asking[self._point_of[file]] |= 1 << bit
        reached_by = [0] * len(self._edges)
        for point in range(len(self._edges) - 1, -1, -1):
            for target in self._edges[point]:
                reached_by[target] |= reached_by[point] | asking[point]
        everyone = (1 << len(files)) - 1
        return [
            file
            for file, point in self._point_of.items()
            if reached_by[point] == everyone
        ]

    def _point(self, targets: list[int], file: str | None = None) -> int:
        self._edges.append(targets)
        self._file_at.append(file)
        return len(self._edges) - 1

    def _add_commit(self, commit: str, turns: list[Turn], past: int) -> None:
        for turn in turns:
            targets = list(self._named_by(turn)) or [past]
            if turn.sender in self._of_rig:
                targets.append(self._of_rig[turn.sender])
            if commit in self._of_commit:  # the earlier turn of the same commit
                targets.append(self._of_commit[commit])
            point = self._point(targets, turn.filename)
            self._point_of[turn.filename] = point
            self._of_commit[commit] = point
            if turn.sender:
                self._of_rig[turn.sender] = point
            self._register_hash(turn.body_hash, point)
        self._by_prefix.setdefault(commit[:_SHORTEST_REFERENCE], []).append(commit)

    def _named_by(self, turn: Turn) -> Iterator[int]:
        """Yield what a turn names in this thread (rigs §9.6)."""
        if turn.in_reply_to in self._of_hash:
            yield self._of_hash[turn.in_reply_to]
        for reference in turn.references:
            for commit in self._commits_called(reference):
                yield self._of_commit[commit]

    def _commits_called(self, reference: str) -> list[str]:
        if reference in self._of_commit:
            return [reference]
        similar = self._by_prefix.get(reference[:_SHORTEST_REFERENCE], ())
        return [commit for commit in similar if commit.startswith(reference)]

    def _register_hash(self, body_hash: str, point: int) -> None:
        if not body_hash:
            return
        before = self._of_hash.get(body_hash)
        if before is not None:
            point = self._point([point, before])
        self._of_hash[body_hash] = point


def _by_commit(turns: Iterable[Turn]) -> dict[str, list[Turn]]:
    """Return the turns that each commit added, oldest commit first."""
    ordered = sorted(turns, key=_place_in_history)
    groups = groupby(ordered, key=lambda turn: turn.commit_sha or "")
    return {commit: list(added) for commit, added in groups}


def _place_in_history(turn: Turn) -> tuple[int, str, OrderKey]:
    return turn.position or 0, turn.commit_sha or "", turn.order_key()


def _nearest_before(
    commits: list[str], parents: Mapping[str, Sequence[str]] | None
) -> Iterator[tuple[str, Iterable[str]]]:
    """Yield each commit of the thread with its closest ancestors among them."""
    if parents is None:
        for index, commit in enumerate(commits):
            yield commit, commits[max(index - 1, 0) : index]
        return
    nearest = _nearest_in_graph(frozenset(commits), parents)
    for commit in commits:
        yield commit, nearest[commit]


def _nearest_in_graph(
    commits: frozenset[str], parents: Mapping[str, Sequence[str]]
) -> dict[str, frozenset[str]]:
    nearest: dict[str, frozenset[str]] = {}
    pending = list(commits)
    while pending:
        commit = pending[-1]
        if commit in nearest:
            pending.pop()
            continue
        above = parents.get(commit, ())
        others = [parent for parent in above if parent not in commits]
        unknown = [parent for parent in others if parent not in nearest]
        if unknown:
            pending.extend(unknown)
            continue
        pending.pop()
        # A line of commits shares one set; only merges make new ones.
        if len(above) == 1 and others:
            nearest[commit] = nearest[others[0]]
        else:
            own = commits.intersection(above)
            nearest[commit] = own.union(*(nearest[parent] for parent in others))
    return nearest
