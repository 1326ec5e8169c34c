"""May a finding be withdrawn, or its severity lowered? One rule for both, inside a seat and
between seats (council §9.4, §14.3).
"""

from __future__ import annotations

from typing import Final

ENOUGH_FAMILIES: Final = 2
NOT_CITED: Final = "no evidence that was found is cited"
ONE_FAMILY: Final = (
    "static analysis reports it too, so two model families have to agree, or a person "
    "dismisses it"
)


def objection_to_taking_back(
    *, cites_evidence: bool, is_deterministic: bool = False, families: int = 1
) -> str | None:
    """Return why a finding must stay as it is, or None.

    `cites_evidence`: a citation was found where it says. `is_deterministic`: an analyser
    reports the same. `families`: the model families that want to take it back.
    """
    if not cites_evidence:
        return NOT_CITED
    if is_deterministic and families < ENOUGH_FAMILIES:
        return ONE_FAMILY
    return None
