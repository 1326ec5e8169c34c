"""`python -m bench incomplete --repos DIR`: how often the static seat alone would be INCOMPLETE over real commits.

DIR holds a clone of each repository below, by the last part of its name; each was chosen before it was measured. The
last commits of each are reviewed as changes, as a gate would. A run is INCOMPLETE if something that is due was not
looked at to its end. Repositories in languages that no analyser here reads are printed apart.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bridgehead.contract.looks import Look
from bridgehead.council.runtimes.base import SeatSetup
from bridgehead.council.runtimes.machine import Machine
from bridgehead.council.runtimes.static.seat import available_analysers, examine
from bridgehead.council.scope.git import Git, GitFailed
from bridgehead.council.scope.resolve import Change
from bridgehead.council.scope.scope import EmptyScope
from bridgehead.council.synthesis.coverage import uncovered

READ: Final = (
    "pallets/flask",
    "encode/httpx",
    "expressjs/express",
    "vuejs/pinia",
    "gin-gonic/gin",
    "google/gson",
    "App-vNext/Polly",
    "BurntSushi/ripgrep",
    "slimphp/Slim",
    "sinatra/sinatra",
    "nvm-sh/nvm",
    "psf/requests",
    "django/django",
    "axios/axios",
    "spf13/cobra",
    "serilog/serilog",
    "tokio-rs/axum",
    "guzzle/guzzle",
    "jekyll/jekyll",
    "sveltejs/svelte",
)
NOT_READ: Final = ("redis/hiredis", "square/okhttp", "mojolicious/mojo")
GOAL: Final = 0.05
_TIMEOUT_SECONDS: Final = 120


@dataclass(frozen=True, slots=True)
class Measured:
    """The commits of one repository, and what was not looked at in each."""

    repository: str
    missed: tuple[tuple[Look, ...], ...]

    @property
    def incomplete(self) -> int:
        return sum(1 for looks in self.missed if looks)


def measure(repository: str, folder: Path, commits: int, cache: Path) -> Measured:
    """Review the last commits of a clone, each as a change."""
    environment = {"PATH": os.environ["PATH"]}
    git = Git(folder / repository.rpartition("/")[2], environment)
    machine = Machine(environment)
    analysers = available_analysers(SeatSetup("static"), machine)
    listed = git.run("log", "--no-merges", f"--max-count={commits}", "--format=%H")
    missed: list[tuple[Look, ...]] = []
    for commit in listed.decode().split():
        try:
            scope = Change(git).commits(f"{commit}^..{commit}")
        except (EmptyScope, GitFailed):
            continue
        examined = examine(
            scope, analysers, environment, timeout_seconds=_TIMEOUT_SECONDS, cache=cache
        )
        missed.append(uncovered(examined.looks))
    return Measured(repository, tuple(missed))


def table(measured: Sequence[Measured]) -> str:
    """Return a line for each repository, the share of all, and why."""
    lines = [
        f"{one.repository:24} {one.incomplete:4} of {len(one.missed):4}"
        for one in measured
    ]
    incomplete = sum(one.incomplete for one in measured)
    runs = sum(len(one.missed) for one in measured)
    lines.append(f"{'all':24} {incomplete:4} of {runs:4} ({_share(measured):.1%})")
    reasons = Counter(
        f"{look.reason}: {Path(look.on).suffix or Path(look.on).name}"
        for one in measured
        for looks in one.missed
        for look in looks
    )
    lines += [f"  {count:4} × {reason}" for reason, count in reasons.most_common(20)]
    return "\n".join(lines)


def _share(measured: Sequence[Measured]) -> float:
    runs = sum(len(one.missed) for one in measured)
    return sum(one.incomplete for one in measured) / runs if runs else 0.0


def main(arguments: Sequence[str]) -> int:
    """Print both tables; 1 if the goal is missed in languages that are read."""
    parser = argparse.ArgumentParser(prog="bench incomplete", description=__doc__)
    parser.add_argument("--repos", type=Path, required=True, metavar="DIR")
    parser.add_argument("--commits", type=int, default=50)
    options = parser.parse_args(arguments)
    found: list[list[Measured]] = []
    with TemporaryDirectory(prefix="bridgehead-bench-") as cache:
        for repositories in (READ, NOT_READ):
            here = [
                name
                for name in repositories
                if (options.repos / name.rpartition("/")[2]).is_dir()
            ]
            found.append(
                [
                    measure(name, options.repos, options.commits, Path(cache))
                    for name in here
                ]
            )
    read, not_read = found
    print(f"languages that are read\n{table(read)}\n")
    print(f"languages that no analyser reads\n{table(not_read)}")
    return 0 if _share(read) <= GOAL else 1
