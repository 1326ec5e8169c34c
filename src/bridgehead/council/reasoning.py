"""How hard codex is asked to think (council §4.1, K4): chosen from the request, capped by the settings. Pure."""

from __future__ import annotations

import re
from typing import Final

from bridgehead.contract.task import BridgeInput
from bridgehead.council.settings import REASONING_LEVELS

MEDIUM, HIGH, XHIGH = REASONING_LEVELS
MANY_FILES: Final = 20
MANY_DOMAINS: Final = 3
_GRAVE_WORDS: Final = re.compile(r"\b(critical|security|cryptographic|financial|compliance)\b", re.IGNORECASE)
_GRAVE_DOMAINS: Final = frozenset({"security", "cryptographic", "compliance", "finance", "data-integrity"})


def choose_reasoning_level(task: BridgeInput, *, cap: str, may_use_most: bool = False) -> str:
    """The level to ask for; the highest needs the user's explicit yes, `may_use_most`."""
    wanted = _wanted(task)
    if REASONING_LEVELS.index(wanted) > REASONING_LEVELS.index(cap):
        wanted = cap
    return HIGH if wanted == XHIGH and not may_use_most else wanted


def _wanted(task: BridgeInput) -> str:
    if _GRAVE_WORDS.search(task.task_description):
        return XHIGH
    grave = len(task.domains) >= MANY_DOMAINS and bool(_GRAVE_DOMAINS & set(task.domains))
    return HIGH if (task.files or 0) >= MANY_FILES or grave else MEDIUM
