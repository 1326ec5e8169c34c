"""How likely it is that a finding is real: one number, and the reasons that made it.

The shipped prior was fitted on what real reviewers wrote and people confirmed; docs/guides/council.md has its table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Final

import msgspec

from bridgehead.contract.words import Severity
from bridgehead.council.findings.acted_on import ActedOn

_DIGITS: Final = 2


class Checked(StrEnum):
    """What code found of the cited evidence."""

    QUOTED = "quoted"
    FOUND = "found"
    NOT_FOUND = "not_found"
    UNCHECKED = "unchecked"


class ChallengeOutcome(StrEnum):
    """How the challenge of a finding ended."""

    NONE = "none"
    SURVIVED = "survived"
    LOWERED = "lowered"
    DISPUTED = "disputed"


@dataclass(frozen=True, slots=True)
class Signs:
    """What speaks for a finding and against it."""

    seats: tuple[str, ...]
    """Who reports it."""
    families: int
    """How many independent model families report it."""
    looked: int
    """How many families looked."""
    domains: tuple[str, ...] = ()
    severity: Severity | None = None
    evidence: Checked = Checked.UNCHECKED
    static: bool = False
    challenge: ChallengeOutcome = ChallengeOutcome.NONE


class Prior(msgspec.Struct, frozen=True):
    """The table `prior.yaml`; all but the rates are log-odds."""

    start: float
    families: float
    looked: float
    own_rate: float
    usual_rate: float
    rates: Mapping[str, float]
    severity: Mapping[str, float]
    evidence: Mapping[str, float]
    static: float
    challenge: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Estimate:
    value: float
    reasons: tuple[str, ...]


@cache
def shipped_prior() -> Prior:
    """Return the prior that comes with the program."""
    table = resources.files(__package__).joinpath("prior.yaml").read_bytes()
    return msgspec.yaml.decode(table, type=Prior)


def probability(signs: Signs, record: ActedOn, prior: Prior) -> Estimate:
    """Return how likely a finding is real, between 0 and 1, with the reasons."""
    reasons: list[str] = []
    families = max(1, signs.families)
    looked = max(families, signs.looked)
    odds = prior.start
    odds += prior.families * math.log(families)
    odds += prior.looked * math.log(looked)
    if signs.families:
        reasons.append(f"reported by {families} of {looked} model families")
    odds += prior.own_rate * _own_rate(signs, record, prior, reasons)
    if signs.severity is not None:
        odds += prior.severity[signs.severity.value]
    odds += prior.evidence[signs.evidence.value]
    if signs.evidence is not Checked.UNCHECKED:
        reasons.append(f"evidence {signs.evidence.value.replace('_', ' ')}")
    if signs.static:
        odds += prior.static
        reasons.append("found by static analysis")
    odds += prior.challenge[signs.challenge.value]
    if signs.challenge is not ChallengeOutcome.NONE:
        reasons.append(f"challenged: {signs.challenge.value}")
    return Estimate(round(1 / (1 + math.exp(-odds)), _DIGITS), tuple(reasons))


def _own_rate(signs: Signs, record: ActedOn, prior: Prior, reasons: list[str]) -> float:
    """Return how far the reporters' rates are from the usual one, in log-odds; what is known of them here counts."""
    distances: list[float] = []
    for seat in signs.seats:
        rate = prior.rates.get(seat, prior.usual_rate)
        for domain in signs.domains:
            count = record.of(seat, domain)
            if count.known:
                rate = count.rate(rate)
                reasons.append(
                    f"{seat}/{domain} here: {count.acted_on} of {count.known} acted on"
                )
        distances.append(_log_odds(rate) - _log_odds(prior.usual_rate))
    return sum(distances) / len(distances) if distances else 0.0


def _log_odds(share: float) -> float:
    return math.log(share / (1 - share))
