"""The analysers behind the static seat, one file each: what to run, and which of its messages matter how much."""

from __future__ import annotations

from typing import Final

from bridgehead.council.runtimes.analysers.bandit import Bandit
from bridgehead.council.runtimes.analysers.base import Analyser
from bridgehead.council.runtimes.analysers.lizard import Lizard
from bridgehead.council.runtimes.analysers.ruff import Ruff
from bridgehead.council.runtimes.analysers.secrets import Secrets

ANALYSERS: Final[tuple[Analyser, ...]] = (Ruff(), Bandit(), Lizard(), Secrets())
