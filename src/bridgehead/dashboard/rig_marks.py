"""How rigs are told apart in a thread: letters, and a line whose colour and pattern no state uses. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

HUES = 4
LINES = 4


@dataclass(frozen=True, slots=True)
class RigMark:
    """Letters for those who do not see the colours; `look` names classes of the stylesheet."""

    letters: str
    look: str


def marks_of(rigs: Iterable[str]) -> dict[str, RigMark]:
    """A mark for each rig, in the order given; sixteen differ in both colour and pattern."""
    return {
        rig: RigMark(letters_of(rig), f"rig-hue-{(place + place // LINES) % HUES} rig-line-{place % LINES}")
        for place, rig in enumerate(dict.fromkeys(rigs))
    }


def letters_of(rig: str) -> str:
    """`win-5080` is W5: the beginnings of the first two words, or of the only one."""
    words = [word for word in rig.split("-") if word] or ["?"]
    return (words[0][0] + words[1][0] if len(words) > 1 else words[0][:2]).upper()
