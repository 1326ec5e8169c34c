"""How text gets into a prompt: text files with `{slots}` that only fenced or known-safe text can fill, one fence
per call.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Final

from bridgehead.contract.fencing import Fence, neutralise
from bridgehead.contract.words import Trust
from bridgehead.council.calls import CallKey

_SLOT: Final = re.compile(r"\{([a-z_]+)\}")


def fence_for(secret: bytes, key: CallKey) -> Fence:
    """The fence of one prompt; two calls never share a marker."""
    digest = iter(hmac.new(secret, str(key).encode(), hashlib.sha256).digest())
    return Fence(lambda alphabet: alphabet[next(digest) % len(alphabet)])


class Safe(str):
    """Text that may stand in a prompt. Joining or formatting it gives a plain string again, on purpose."""

    __slots__ = ()


def own(text: str) -> Safe:
    """Words of this program: literals, never anything read from elsewhere (a test reads the calls)."""
    return Safe(text)


def joined(*parts: Safe) -> Safe:
    """Safe texts one after the other."""
    if not all(isinstance(part, Safe) for part in parts):
        raise TypeError("only text that went through the writer can be joined")
    return Safe("".join(parts))


class PromptWriter:
    """What writes foreign and user's text into one prompt; every prompt has its own, with its own fence."""

    def __init__(self, fence: Fence) -> None:
        self._fence = fence
        self._fenced_something = False

    def line(self, text: str) -> Safe:
        """A name, path or title on one line, hidden characters made visible."""
        return Safe(" ".join(neutralise(text, self._fence.marker).split()))

    def lines(self, texts: Iterable[str]) -> Safe:
        """Several of them, separated by semicolons."""
        return Safe("; ".join(map(self.line, texts)))

    def words(self, text: str) -> Safe:
        """What the user who gave the task wrote; lines are kept."""
        return Safe(neutralise(text, self._fence.marker).strip())

    def fenced(self, text: str, *, origin: str, trust: Trust = Trust.UNTRUSTED) -> Safe:
        """Text from elsewhere, between marker lines; nothing when there is none."""
        if not text.strip():
            return Safe("")
        self._fenced_something = True
        return Safe(self._fence.wrap(text, origin=origin, trust=trust))

    def note(self) -> Safe:
        """The sentence that explains the marker; ask for it after everything has been fenced."""
        return Safe(self._fence.preamble if self._fenced_something else "")


class Template:
    """One prompt file."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self.slots = frozenset(_SLOT.findall(text))

    def fill(self, **values: Safe) -> Safe:
        """The text with every slot filled; a line that consists of empty slots disappears."""
        if self.slots != values.keys():
            unfit = sorted(self.slots ^ values.keys())
            raise TypeError(f"prompt {self.name}: slots do not fit: {', '.join(unfit)}")
        for slot, value in values.items():
            if not isinstance(value, Safe):
                raise TypeError(
                    f"prompt {self.name}: {slot} did not go through the writer"
                )
        return Safe("\n".join(self._filled_lines(values)).strip())

    def _filled_lines(self, values: dict[str, Safe]) -> Iterable[str]:
        last_blank = True
        for line in self.text.split("\n"):
            filled = _SLOT.sub(lambda slot: values[slot[1]], line)
            vanished = not filled.strip() and bool(line.strip())
            if vanished or (not filled.strip() and last_blank):
                continue
            last_blank = not filled.strip()
            yield filled


@cache
def template(name: str) -> Template:
    """The shipped prompt of that name."""
    folder = resources.files("bridgehead.council.prompts").joinpath("texts")
    return Template(name, folder.joinpath(f"{name}.txt").read_text(encoding="utf-8"))
