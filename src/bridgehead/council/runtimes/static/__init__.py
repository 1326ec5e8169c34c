"""The analysers behind the static seat: what to run, and which of its messages matter how much."""

from __future__ import annotations

from typing import Final

from bridgehead.council.runtimes.static import programs
from bridgehead.council.runtimes.static.base import Analyser
from bridgehead.council.runtimes.static.ruff import Ruff
from bridgehead.council.runtimes.static.templates import Templates

ANALYSERS: Final[tuple[Analyser, ...]] = (
    *(Ruff(), programs.AstGrep(), programs.Oxlint(), programs.Lizard()),
    *(
        programs.Hadolint(),
        programs.Zizmor(),
        programs.Shellcheck(),
        programs.Secrets(),
        Templates(),
    ),
)
