"""What comments in the code silenced: which of it counts all the same, and which is only said (council §23)."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from bridgehead.council.runtimes.static.base import Message
from bridgehead.council.runtimes.static.copies import Copy, Obeyed
from bridgehead.council.runtimes.static.suppression import directive_lines
from bridgehead.errors import plural

BROUGHT: Final = "A comment of this change would silence it."
MOST_FILES: Final = 5


@dataclass(frozen=True, slots=True)
class Heard:
    """What one analyser said about the files of the tree."""

    messages: tuple[Message, ...] = ()
    suppressed: tuple[Message, ...] = ()
    """What it says only if it does not obey the comments that were there before."""


def hear(
    said: Mapping[str, Sequence[Message]],
    copies: Sequence[Copy],
    touched: Mapping[str, Container[int]],
) -> Heard:
    """Return what counts of what was said about copies, and what comments silenced.

    A comment that a change brings silences nothing, and no comment silences a line that
    the change touches.
    """
    originals = {copy.name: copy for copy in copies if not copy.part}
    known: dict[str, set[tuple[int, str]]] = {}
    messages: list[Message] = []
    suppressed: list[Message] = []
    for copy in sorted(copies, key=_order):
        lines = touched.get(copy.of, ())
        before = known.setdefault(copy.part or copy.name, set())
        found = said.get(copy.name, ())
        new = [one for one in found if (one.line, one.rule) not in before]
        before.update((one.line, one.rule) for one in new)
        for message in (replace(one, path=copy.of) for one in new):
            if copy.obeyed is Obeyed.OLD:
                original = originals[copy.part].text
                messages.append(_at_the_change(message, original, lines))
            elif copy.obeyed is Obeyed.ALL or message.line in lines:
                messages.append(message)
            else:
                suppressed.append(message)
    return Heard(tuple(messages), tuple(suppressed))


def told(places: Iterable[tuple[str, int]]) -> str:
    """Return how many places there are, and which in the first few files."""
    lines: dict[str, list[int]] = {}
    found = sorted(places)
    for path, line in found:
        lines.setdefault(path, []).append(line)
    shown = [
        f"{path} ({', '.join(map(str, dict.fromkeys(numbers)))})"
        for path, numbers in list(lines.items())[:MOST_FILES]
    ]
    more = len(lines) - len(shown)
    rest = f" and {plural(more, 'more file')}" if more > 0 else ""
    return f"{len(found)} in {', '.join(shown)}{rest}"


def _order(copy: Copy) -> int:
    """Return the place of a copy among its like: what obeys most comes first."""
    return list(Obeyed).index(copy.obeyed)


def _at_the_change(message: Message, original: str, lines: Container[int]) -> Message:
    """Return a message on a line that a change touches: its own, or that of the comment."""
    # Not in its text, by which findings are told apart.
    action = " ".join(filter(None, (message.action, BROUGHT)))
    if message.line in lines:
        return replace(message, action=action)
    brought = [line for line in directive_lines(original) if line in lines]
    before = [line for line in brought if line <= message.line]
    return replace(message, action=action, line=max(before, default=brought[0]))
