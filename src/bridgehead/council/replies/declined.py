"""Whether a model declined instead of looking: read from its prose, where it lists nothing.

"I can't help with that. []" is no clean bill of health, and neither is "I could not
open the files. []". Only what stands outside the JSON is read, and only of answers
without an entry: a reviewer may quote such a sentence from the code.
"""

from __future__ import annotations

import re
from typing import Final

_NEGATIVE: Final = (
    r"(?:can(?:no|')t|cannot|can not|could(?: not|n't)|will not|won't|must decline to"
    r"|am(?: not|n't) able to|'m not able to|am unable to|'m unable to|was unable to"
    r"|was not able to|wasn't able to|were unable to|unable to|not able to)"
)
_WORK: Final = (
    r"(?:help|assist|comply|fulfil|fulfill|continue|proceed|do (?:that|this)|provide"
    r"|complete|perform|review|analy[sz]e|audit|inspect|examine|evaluate|access|open"
    r"|read|see|view|find|locate|retrieve)"
)
_DECLINES: Final = re.compile(
    rf"\b(?:i|we)\b[^.!?\n]{{0,40}}?{_NEGATIVE}\s+(?:\w+\s+){{0,2}}?{_WORK}\b"
    r"|\bi(?:'m| am) sorry,? but\b"
    r"|\b(?:i|we) (?:must |have to )?(?:decline|refuse)\b"
    r"|\bno (?:code|files?|diff|source(?: code)?|material) (?:was|were|has been|have been)"
    r" (?:provided|given|supplied|attached|included|available)\b"
    r"|\b(?:i|we) (?:do not|don't) have (?:access|permission)\b"
    r"|\b(?:do not|don't) have access to (?:the|your|any)\b"
    r"|\b(?:against|violates?) (?:my|our|the) (?:\w+ )?(?:guidelines|policy|policies)\b",
    re.IGNORECASE,
)
_READ_CHARACTERS: Final = 4_000


def declines(prose: str) -> bool:
    """Return whether the words around an empty answer say that nobody looked."""
    plain = prose[:_READ_CHARACTERS].replace("\u2019", "'")
    return _DECLINES.search(plain) is not None
