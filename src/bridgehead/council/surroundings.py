"""What a council's pure parts are given besides the task: the experts, the files, the secret behind the fences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bridgehead.council.domains import Registry
from bridgehead.council.findings.tree import Tree
from bridgehead.council.material import ScopeMaterial


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Everything here is fixed for the life of a run and recorded or derived again on resume."""

    registry: Registry
    secret: bytes
    """Random bytes of this run; whoever knows them can forge a fence."""
    tree: Tree | None = None
    renames: Mapping[str, str] = field(default_factory=dict)
    material: ScopeMaterial = field(default_factory=ScopeMaterial)
    scope_files: tuple[str, ...] = ()
    """Files the user named one by one; a council that says nothing about one of them has a gap."""
    withdrawal_guard: bool = True
