"""Read at one stroke the frontmatter that `send` and `close` of either tool write when nothing in it needs quotes.

A cold index of ten thousand envelopes is read through here. Whatever looks otherwise is left to frontmatter_lines.py,
which gives the same answer on everything that is read here.
"""

from __future__ import annotations

import re
from functools import cache

from bridgehead.rigs.markers import MARKERS
from bridgehead.rigs.yaml_core import NAMED_VALUES, Value

# Which markers there are and which words are no text is looked up afterwards: the pattern would take twice as long to
# compile, and short commands compile it too.
_MARKER = r"[^\x00-\x7f]"
_WORD = "[a-z][a-z0-9-]*"
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9:.]+Z)?"
_REST_OF_LINE = r"(?:[^\n\t:#]*[^\n\t:# ])?"  # no comment, no nested key, no blank at the end
_TEXT = f"[A-Za-z]{_REST_OF_LINE}"
_HEX = "(?=[0-9e]*[a-df])[0-9a-f]+"  # what cannot be taken for a number
_USUAL = (
    f"from: ({_WORD})\n"
    f"to:(?: ({_WORD})|((?:\n  - {_WORD}$)+))\n"
    f"date: ({_DATE})\n"
    f"status: ({_MARKER}{_REST_OF_LINE})\n"
    f"type: ({_TEXT})\n"
    f"thread: ({_WORD})\n"
    f"(?:display_name: ({_TEXT})\n)?"
    f"(?:tldr: ({_TEXT})\n)?"
    f"(?:references:((?:\n  - {_HEX}$)+)\n)?"
    f"body_hash: ({_HEX})"
)
_NO_TEXT = frozenset(NAMED_VALUES)


@cache
def _usual() -> re.Pattern[str]:
    return re.compile(_USUAL, re.MULTILINE)  # when met: many commands read no file at all


def read_usual(text: str) -> dict[str, Value] | None:
    """Return the mapping, or None if this is not the usual form."""
    found = _usual().fullmatch(text)
    if found is None:
        return None
    sender, to, many, date, status, kind, thread, display_name, tldr, references, body_hash = found.groups()
    recipients = _items(many) if many else ()
    words = (sender, to, *recipients, kind, thread, display_name, tldr)
    if status[0] not in MARKERS or not _NO_TEXT.isdisjoint(words):
        return None
    fields: dict[str, Value] = {
        "from": sender,
        "to": to or [*recipients],
        "date": date,
        "status": status,
        "type": kind,
        "thread": thread,
    }
    if display_name:
        fields["display_name"] = display_name
    if tldr:
        fields["tldr"] = tldr
    if references:
        fields["references"] = [*_items(references)]
    fields["body_hash"] = body_hash
    return fields


def _items(lines: str) -> list[str]:
    return lines.split("\n  - ")[1:]
