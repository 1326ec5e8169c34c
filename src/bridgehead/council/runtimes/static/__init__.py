"""The analysers behind the static seat: what to run, and which of its messages matter how much."""

from __future__ import annotations

from typing import Final

from bridgehead.council.runtimes.static.base import Analyser
from bridgehead.council.runtimes.static.programs import (
    AstGrep,
    Hadolint,
    Lizard,
    Oxlint,
    Secrets,
    Shellcheck,
    Zizmor,
)
from bridgehead.council.runtimes.static.ruff import Ruff

ANALYSERS: Final[tuple[Analyser, ...]] = (
    Ruff(),
    AstGrep(),
    Oxlint(),
    Lizard(),
    Hadolint(),
    Zizmor(),
    Shellcheck(),
    Secrets(),
)
