"""The analysers behind the static seat, one file each: what to run, and which of its messages matter how much."""

from __future__ import annotations

from typing import Final

from bridgehead.council.runtimes.static.bandit import Bandit
from bridgehead.council.runtimes.static.base import Analyser
from bridgehead.council.runtimes.static.detect_secrets import Secrets
from bridgehead.council.runtimes.static.lizard import Lizard
from bridgehead.council.runtimes.static.ruff import Ruff

ANALYSERS: Final[tuple[Analyser, ...]] = (Ruff(), Bandit(), Lizard(), Secrets())
