"""The seats of a council on this machine: where agents work, what is known of their programs, how rigs are reached."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.council_files import SeatsFile
from bridgehead.assembly.council_kept import KeptCouncil
from bridgehead.assembly.remembered_refusals import retired_bridges
from bridgehead.contract.words import TaskType
from bridgehead.council.git import Git, repository_at
from bridgehead.council.preflight import Wishes
from bridgehead.council.runtimes.machine import Machine
from bridgehead.council.runtimes.probe_memory import ProbeFile
from bridgehead.council.runtimes.rig import RIG_MARK, SeatTransport
from bridgehead.council.scope import Scope
from bridgehead.council.scope_resolution import NoRepository
from bridgehead.council.seating import LocalSeats
from bridgehead.council.snapshot import Snapshot, take_snapshot
from bridgehead.council.worktree import BRANCH_PREFIX, Implementation, Worktree, make_worktree
from bridgehead.host.clock import Clock, parse_iso


def make_machine(assembly: Assembly) -> Machine:
    """The machine as pre-flight sees it, with what earlier commands found out about its programs."""
    return Machine(dict(assembly.environ), memory=ProbeFile(_probes(assembly)))


def forget_probes(assembly: Assembly) -> None:
    """Have every program asked again what it can do."""
    _probes(assembly).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where seats work: the private copy, and for an implementation a checkout of its own."""

    snapshot: Snapshot
    worktree: Worktree | None = None

    @classmethod
    def prepare(cls, assembly: Assembly, kept: KeptCouncil, scope: Scope) -> Workplace:
        snapshot = take_snapshot(scope, folder=_snapshots(assembly), review_id=kept.review_id)
        if kept.task.task_type is not TaskType.IMPLEMENTATION:
            return cls(snapshot)
        git = repository_at(assembly.places.project, assembly.environ)
        if git is None:
            raise NoRepository("implement", hint="git init, commit what you have, then repeat")
        return cls(snapshot, _worktree(git, assembly.places.project, kept.review_id))

    @classmethod
    def imagined(cls) -> Workplace:
        """For a dry run: nothing is copied, because nobody will look."""
        return cls(Snapshot(Path(tempfile.gettempdir()) / "bridgehead-dry-run"))

    @staticmethod
    def clear(assembly: Assembly, review_id: str) -> None:
        """Take the copy away; the council is closed."""
        Snapshot(_snapshots(assembly) / review_id).remove()

    def finish(self, kept: KeptCouncil) -> Implementation | None:
        """Commit what an implementation changed to its branch."""
        if self.worktree is None or not self.worktree.path.exists():
            return None
        return self.worktree.finish(f"{kept.task.task_description}\n\nMade in council {kept.review_id}.\n")


def local_seats(
    assembly: Assembly,
    kept: KeptCouncil,
    scope: Scope,
    machine: Machine,
    clock: Clock,
    workplace: Workplace,
) -> LocalSeats:
    """The seats of a kept council."""
    now = parse_iso(kept.started_at)
    settings = SeatsFile(kept.settings_text, kept.settings_trusted).settings(now)
    worktree = workplace.worktree
    return LocalSeats(
        task=kept.task,
        scope=scope,
        settings=settings,
        machine=machine,
        snapshot=workplace.snapshot,
        clock=clock,
        wishes=Wishes(
            reasoning_cap=settings.reasoning_level,
            max_concurrency=settings.max_concurrency,
            discovery=kept.discovery,
        ),
        worktree=worktree.path if worktree else None,
        pass_env=assembly.settings.texts("council.pass_env"),
        host_seat=kept.request.options.host_seat,
        project=assembly.places.project,
        transport=_transport(assembly, kept),
        retired=retired_bridges(assembly),
    )


def rig_threads(project: Path, kept: KeptCouncil) -> frozenset[str]:
    """Folders of the project that hold envelopes, where the council has a seat on another machine."""
    if not _has_rigs(kept):
        return frozenset()
    from bridgehead.assembly.council_rigs import RigTransport

    return RigTransport(project, kept.review_id).threads()


def _has_rigs(kept: KeptCouncil) -> bool:
    return any(bridge.startswith(RIG_MARK) for bridge in kept.bridges)


def _transport(assembly: Assembly, kept: KeptCouncil) -> SeatTransport | None:
    if not _has_rigs(kept):
        return None
    from bridgehead.assembly.council_rigs import RigTransport

    return RigTransport(assembly.places.project, kept.review_id)


def _worktree(git: Git, project: Path, review_id: str) -> Worktree:
    """The checkout of this council: the one an earlier process made, or a new one."""
    path = project / ".bridgehead" / "worktrees" / review_id
    if path.exists():
        branch = f"{BRANCH_PREFIX}{review_id}"
        return Worktree(git, path, branch, git.commit(branch))
    return make_worktree(git, project, review_id)


def _snapshots(assembly: Assembly) -> Path:
    return assembly.places.data / "snapshots"


def _probes(assembly: Assembly) -> Path:
    return assembly.places.data / "probes.json"
