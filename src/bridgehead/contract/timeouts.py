"""How long one runtime call may take, and one bridge altogether (council §5).

Pure arithmetic over two tables.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from bridgehead.contract.words import Intensity

Basis = Literal["files", "loc", "files+loc", "default"]

# Lower bounds of tiers 1, 2 and 3; inclusive, so 20 files is tier 2 (K5).
FILE_TIERS: Final = (5, 20, 50)
LOC_TIERS: Final = (500, 2_000, 10_000)
BASE_SECONDS: Final = (60, 180, 300, 600)
DEFAULT_TIER: Final = 1

INTENSITY_FACTOR: Final = {
    Intensity.QUICK: 0.5,
    Intensity.STANDARD: 1.0,
    Intensity.THOROUGH: 1.5,
}
MAX_ROUNDS: Final = {Intensity.QUICK: 0, Intensity.STANDARD: 1, Intensity.THOROUGH: 3}
DEFAULT_CONCURRENCY: Final = 8
# Besides one expert per domain there are a challenger and an integration checker.
STANDING_AGENTS: Final = 2


@dataclass(frozen=True, slots=True)
class Timeout:
    """The limit of one call and the figures it was made from."""

    base_s: int
    intensity_multiplier: float
    bridge_multiplier: float
    timeout_s: int
    basis: Basis


def timeout_skip_reason(timeout_s: int) -> str:
    """Return the skip reason when a call hits this limit."""
    return f"timeout_after_{timeout_s}s"


def estimate_timeout(
    *,
    files: int | None,
    loc: int | None,
    intensity: Intensity,
    bridge: str,
    multi_agent_enabled: bool = False,
) -> Timeout:
    """Return the limit of one runtime call.

    `files` and `loc` are None when they cannot be counted.
    """
    tier, basis = _tier(files, loc)
    base = BASE_SECONDS[tier]
    by_intensity = INTENSITY_FACTOR[intensity]
    # opencode is slow to start always, codex when it starts agents of its own.
    by_bridge = (
        1.5
        if bridge == "opencode" or (bridge == "codex" and multi_agent_enabled)
        else 1.0
    )
    return Timeout(
        base, by_intensity, by_bridge, math.ceil(base * by_intensity * by_bridge), basis
    )


def waves(
    domains: int, max_concurrency: int = DEFAULT_CONCURRENCY, models: int = 1
) -> int:
    """Return how many times the concurrency limit must be filled to let every agent
    speak once.
    """
    return math.ceil(models * (domains + STANDING_AGENTS) / max_concurrency)


def bridge_deadline(
    timeout_s: int,
    intensity: Intensity,
    domains: int,
    max_concurrency: int = DEFAULT_CONCURRENCY,
    *,
    steps: int | None = None,
    models: int = 1,
) -> int:
    """Seconds for a whole bridge: Round 1, two steps per debate round, and a ruling or
    consolidation call.

    A seat whose run has other `steps`, or asks several models, says so.
    """
    usual = 2 + 2 * MAX_ROUNDS[intensity]
    return timeout_s * (steps or usual) * waves(domains, max_concurrency, models)


def _tier(files: int | None, loc: int | None) -> tuple[int, Basis]:
    # The larger of the known tiers: too small a limit loses a working bridge, too large
    # a one only waits (K5).
    if files is not None and loc is not None:
        return max(_tier_of(files, FILE_TIERS), _tier_of(loc, LOC_TIERS)), "files+loc"
    if files is not None:
        return _tier_of(files, FILE_TIERS), "files"
    if loc is not None:
        return _tier_of(loc, LOC_TIERS), "loc"
    return DEFAULT_TIER, "default"


def _tier_of(amount: int, bounds: tuple[int, ...]) -> int:
    return sum(amount >= bound for bound in bounds)
