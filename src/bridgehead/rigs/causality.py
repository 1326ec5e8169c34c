"""Who knew what when they wrote, and where a thread split (rigs §9.6).

`known(f)` is what f names, by commit or body hash, plus its own rig's earlier turns, plus what all those knew. A turn
that names nothing of its thread is taken to know everything its commit descends from, so threads of tools that write
no references stay linear. Turns only ever know turns before them in history: knowledge is never circular.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from bridgehead.rigs.knowledge_graph import KnowledgeGraph
from bridgehead.rigs.thread import Turn, in_order, latest


class Divergence(NamedTuple):
    """A thread with more than one head, named after the newest turn that all heads know."""

    name: str
    heads: tuple[Turn, ...]  # by file name

    def json_object(self) -> dict[str, object]:
        heads = [
            {"file": turn.filename, "from": turn.sender, "commit_sha": turn.commit_sha} for turn in self.heads
        ]
        return {"name": self.name, "heads": heads}


class Causality:
    """Questions about the committed turns of one thread; uncommitted ones take no part.

    `parents` maps every commit of the repository to its parents. None says that history is one line, in which each
    commit descends from all of lower position: that is the usual case, and much the faster one.
    """

    def __init__(self, turns: Iterable[Turn], parents: Mapping[str, Sequence[str]] | None = None) -> None:
        self._turns = {turn.filename: turn for turn in turns if turn.commit_sha is not None}
        self._parents = parents

    @cached_property
    def _graph(self) -> KnowledgeGraph:
        return KnowledgeGraph(self._turns.values(), self._parents)

    @property
    def _is_a_chain(self) -> bool:
        """Tell whether each turn knows all before it, because history is one line and nobody names anything."""
        return self._parents is None and not any(
            turn.references or turn.in_reply_to for turn in self._turns.values()
        )

    def heads(self) -> list[Turn]:
        """Return the turns that no other turn knows, oldest first."""
        return in_order(self._turns[filename] for filename in self._graph.heads())

    def divergence(self) -> Divergence | None:
        """Name the split, if the thread has one."""
        if self._is_a_chain:
            return None
        heads = self._graph.heads()
        if len(heads) < 2:
            return None
        common = [self._turns[filename] for filename in self._graph.known_to_all(heads)]
        origin = (latest(common).commit_sha or "")[:7] if common else "root"
        shown = tuple(self._turns[filename] for filename in sorted(heads))
        return Divergence(f"{shown[0].thread_id}@{origin}", shown)

    def known(self, filename: str) -> frozenset[str]:
        """Return the names of the turns that this one knows."""
        return self._graph.known([filename] if filename in self._turns else [])

    def known_to_rig(self, rig_id: str) -> frozenset[str]:
        """Return the names of the turns that at least one turn of this rig knows."""
        return self._graph.known([turn.filename for turn in self._turns.values() if turn.sender == rig_id])

    def concurrent_with(self, filename: str) -> list[Turn]:
        """Return the turns of other rigs that neither know this one nor are known by it, oldest first."""
        if filename not in self._turns:
            return []
        related = self.known(filename) | self._graph.knowing(filename)
        sender = self._turns[filename].sender
        return in_order(
            turn for turn in self._turns.values() if turn.sender != sender and turn.filename not in related
        )
