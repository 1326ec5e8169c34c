"""Rules of the five-phase debate: who carries how much weight, what is confirmed, what the verdict is (council §17)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from fractions import Fraction
from typing import Final

from bridgehead.contract.report import Output
from bridgehead.contract.words import Intensity, OutputState, Severity, Verdict
from bridgehead.council.request.plan import SECURITY_DOMAIN, SECURITY_ELEVATED, Preset

ROUNDS: Final = {Intensity.QUICK: 0, Intensity.STANDARD: 3, Intensity.THOROUGH: 5}
HIGH_FAIL_AT: Final = 3
MEDIUM_CONCERNS_AT: Final = 2


class Stance(StrEnum):
    SUPPORT = "support"
    OPPOSE = "oppose"
    ABSTAIN = "abstain"


def task_budget(intensity: Intensity, reviewers: int) -> int:
    """How many calls a debate may make altogether."""
    if intensity is Intensity.QUICK:
        return reviewers + 5
    return (3 if intensity is Intensity.STANDARD else 5) * reviewers + 10


def support_share(
    stances: Mapping[str, Stance], advocate: str, reviewers: Collection[str], preset: Preset
) -> Fraction | None:
    """Weight of the supporters among those who took a position (K34); None when nobody did."""
    others = len(reviewers) - (advocate in reviewers)
    each = (1 - preset.da_weight) / others if others else Fraction(0)

    def weight(wanted: Stance) -> Fraction:
        named = [name for name, stance in stances.items() if stance is wanted]
        return sum((preset.da_weight if name == advocate else each for name in named), Fraction(0))

    supporting, opposing = weight(Stance.SUPPORT), weight(Stance.OPPOSE)
    return supporting / (supporting + opposing) if supporting + opposing else None


def final_state(share: Fraction | None, threshold: Fraction, *, origin_round: int) -> OutputState:
    """Confirmed or discovered with enough support, else disputed."""
    if share is None or share < threshold:
        return OutputState.DISPUTED
    return OutputState.DISCOVERED if origin_round >= 2 else OutputState.CONFIRMED


def debate_verdict(outputs: Iterable[Output], preset: Preset) -> Verdict:
    """The verdict of a standalone debate; inside a seat table 11.1 applies (K35)."""
    listed = list(outputs)
    held = [output for output in listed if output.status is not OutputState.DISPUTED]
    disputed = [output for output in listed if output.status is OutputState.DISPUTED]
    count = Counter(output.severity for output in held)
    by_security = preset is SECURITY_ELEVATED and any(
        output.domain == SECURITY_DOMAIN and output.severity is not None for output in held
    )
    if count[Severity.CRITICAL] or count[Severity.HIGH] >= HIGH_FAIL_AT or by_security:
        return Verdict.FAIL
    serious = any(output.severity in (Severity.CRITICAL, Severity.HIGH) for output in disputed)
    if count[Severity.HIGH] or count[Severity.MEDIUM] >= MEDIUM_CONCERNS_AT or serious:
        return Verdict.CONCERNS
    return Verdict.PASS
