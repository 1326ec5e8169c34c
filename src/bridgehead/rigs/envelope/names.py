"""Names of rigs (rigs §1) and of the files in a bridge, and what may be read off a path (§2, §6)."""

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
    """A canonical rig id. Made by `parse`; a value of this type needs no further checking."""

    __slots__ = ()

    @classmethod
    def parse(cls, typed: str, *, where: str | None = None) -> RigId:
        """Normalise what was typed and refuse what is no rig id; `where` names the flag or file it came from."""
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
    """Trim and lowercase, without asking whether the result is a rig id."""
    return trim(typed).lower()


def suggestion(text: str) -> str | None:
    """Return the canonical spelling of an id that is merely written untidily."""
    normal = normalise(text)
    return normal if normal != text and is_rig_id(normal) else None


def parse_recipients(typed: Iterable[str]) -> tuple[RigId, ...]:
    """Split every `--to` at commas; order and repetitions are kept, at least one id must remain."""
    pieces = [trim(piece) for value in typed for piece in value.split(",")]
    recipients = tuple(RigId.parse(piece, where="--to") for piece in pieces if piece)
    if not recipients:
        raise UserError("`--to <rig-id>` is required (one or more)")
    return recipients


def next_filename(message_type: str, taken: Container[str]) -> str:
    """Return the first free name for a type; gaps are filled, and there is no highest number."""
    candidates = (
        f"{message_type}-{number}{_SUFFIX}" if number > 1 else message_type + _SUFFIX
        for number in count(1)
    )
    return next(name for name in candidates if name not in taken)


def relay_filename(nonce: str) -> str:
    """Return the name of a relay turn: the time part of its nonce, whatever the relayed type."""
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
    """Return the thread a repository path lies in, as a sync sees it: any depth, any kind of file."""
    top, slash, _ = path.partition("/")
    return top if slash and is_thread_id(top) else None


def arrives_as_envelope(path: str) -> bool:
    """Return whether a sync counts a new file as an envelope; build folders and deeper files included (rigs §9.1)."""
    return thread_of(path) is not None and is_envelope_name(path)


def envelope_at(path: str) -> tuple[str, str] | None:
    """Return the thread and the file of the envelope a path names: an .md file directly in a listed thread."""
    top, _, filename = path.partition("/")
    if (
        not is_thread_directory(top)
        or "/" in filename
        or not is_envelope_name(filename)
    ):
        return None
    return top, filename
