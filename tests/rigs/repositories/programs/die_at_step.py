"""Post an envelope, or rebuild one, and die by SIGKILL before or after the step with the given number.

    die_at_step.py CLONE post|rebuild STEP before|after

A step is a call of git or a file written whole. Prints `landed` and exits 0 if there is no such step.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from typing import Any

from bridgehead.rigs.repositories.git import (
    command,
    commit_journal,
    envelope_commit,
    rebase,
)
from bridgehead.rigs.repositories.git.repository import GitRepository
from bridgehead.rigs.repositories.records import Wire

clone, task, step, moment = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
numbers = count()


def dangerous(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapped(*arguments: Any, **options: Any) -> Any:
        doomed = next(numbers) == step
        if doomed and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*arguments, **options)
        if doomed:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return wrapped


def plant() -> None:
    command.Git.ask = dangerous(command.Git.ask)  # type: ignore[method-assign]
    for module in (envelope_commit, commit_journal, rebase):
        module.write_atomic = dangerous(module.write_atomic)  # type: ignore[attr-defined]


repository = GitRepository(clone)
if task == "post":
    with repository.lock():
        plant()
        with repository.begin_posting(
            "demo-01/ACK.md",
            b"ours\n",
            replaces_draft=repository.has_file("demo-01/ACK.md"),
        ) as posting:
            posting.land("ACK: demo-01/ACK.md")
else:
    with repository.lock():
        tip = repository.fetch(Wire("origin", "main", "refs/remotes/origin/main"))
        plant()
        repository.rebuild(tip)
print("landed")
