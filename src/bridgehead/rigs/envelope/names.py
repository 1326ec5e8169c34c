"""Name rigs and files of a bridge, and take paths apart (rigs §1, §2, §6)."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable
from functools import lru_cache
from itertools import count

from bridgehead.errors import UserError
from bridgehead.rigs.envelope.fields import UNLISTED_DIRECTORIES, is_thread_id
from bridgehead.rigs.envelope.text import NONCE_TIME_CHARACTERS, trim

CONFIG_PATH = ".bridge/config.yaml"
SIGNERS_PATH = ".bridge/allowed_signers"  # where the configuration names no other
REQUEST_FILE = "REQUEST.md"
RESOLUTION_FILE = "RESOLUTION.md"
_SUFFIX = ".md"
RELAY_SUFFIX = "-relay"
_SHAPE = re.compile("[a-z][a-z0-9-]*")


class RigId(str):
    """A canonical rig id, made by `parse`."""

    __slots__ = ()

    @classmethod
    def parse(cls, typed: str, *, where: str | None = None) -> RigId:
        """Return what was typed as a canonical id; raise UserError if it is none.

        `where` names the flag or file it came from.
        """
        normal = normalise(typed)
        if not is_rig_id(normal):
            prefix = f"{where}: " if where else ""
            raise UserError(
                f'{prefix}rig id "{normal}" is not a canonical kebab-case slug '
                "(start with a letter, then lowercase letters, digits and hyphens only)"
            )
        return cls(normal)

    @property
    def is_relay(self) -> bool:
        """Whether this rig speaks for a human operator."""
        return self.endswith(RELAY_SUFFIX)


def is_rig_id(text: str) -> bool:
    """Return whether `text` is spelled canonically; files are never normalised."""
    return _SHAPE.fullmatch(text) is not None


def normalise(typed: str) -> str:
    """Return a text trimmed and in lower case, whether or not it is a rig id."""
    return trim(typed).lower()


def suggestion(text: str) -> str | None:
    """Return the canonical spelling of an id that is merely written untidily."""
    normal = normalise(text)
    return normal if normal != text and is_rig_id(normal) else None


def parse_recipients(typed: Iterable[str]) -> tuple[RigId, ...]:
    """Return the rigs of every `--to`, which may name several between commas.

    Order and repetitions are kept; there must be at least one.
    """
    pieces = [trim(piece) for piece in ",".join(typed).split(",")]
    recipients = tuple(RigId.parse(piece, where="--to") for piece in pieces if piece)
    if not recipients:
        raise UserError("`--to <rig-id>` is required (one or more)")
    return recipients


def next_filename(message_type: str, taken: Container[str]) -> str:
    """Return the first free name for a type; gaps are filled."""
    name = f"{message_type}{_SUFFIX}"
    numbers = count(2)
    while name in taken:
        name = f"{message_type}-{next(numbers)}{_SUFFIX}"
    return name


def relay_filename(nonce: str) -> str:
    """Return the name of a relay turn: the time part of its nonce."""
    return f"RELAY-{nonce[:NONCE_TIME_CHARACTERS]}{_SUFFIX}"


def is_closed(filenames: Collection[str]) -> bool:
    """Return whether a thread is closed, from the names in its directory."""
    return RESOLUTION_FILE in filenames


def is_envelope_name(filename: str) -> bool:
    """Return whether a file of a thread directory is looked at as an envelope."""
    return filename.endswith(_SUFFIX)


@lru_cache(maxsize=1000)  # paths of one thread come together
def is_thread_directory(name: str) -> bool:
    """Return whether a top-level directory may be listed as a thread."""
    return is_thread_id(name) and name not in UNLISTED_DIRECTORIES


def thread_of(path: str) -> str | None:
    """Return the thread a path lies in, at any depth, as a sync sees it."""
    top, slash, _ = path.partition("/")
    return top if slash and is_thread_id(top) else None


def arrives_as_envelope(path: str) -> bool:
    """Return whether a sync counts a new file as an envelope (rigs §9.1).

    That includes files in build folders, and deeper ones.
    """
    return thread_of(path) is not None and is_envelope_name(path)


def envelope_at(path: str) -> tuple[str, str] | None:
    """Return the thread and the file name of the envelope at a path.

    That is an .md file directly in a listed thread.
    """
    top, _, filename = path.partition("/")
    if (
        not is_thread_directory(top)
        or "/" in filename
        or not is_envelope_name(filename)
    ):
        return None
    return top, filename
