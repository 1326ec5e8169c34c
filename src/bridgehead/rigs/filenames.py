"""Names of the files in a bridge and what may be read off a path (rigs §2, §6).

Names are chosen here and never interpreted, with one exception: a RESOLUTION.md, readable or not, closes its thread.
"""

from __future__ import annotations

from collections.abc import Collection, Container
from itertools import count
from typing import NamedTuple

from bridgehead.rigs.fields import UNLISTED_DIRECTORIES, is_thread_id
from bridgehead.rigs.timestamps import NONCE_TIME_CHARACTERS

CONFIG_PATH = ".bridge/config.yaml"
REQUEST_FILE = "REQUEST.md"
RESOLUTION_FILE = "RESOLUTION.md"
_SUFFIX = ".md"


class EnvelopePath(NamedTuple):
    """Where an envelope lies in the repository; also the key by which it is known everywhere."""

    thread_id: str
    filename: str

    def __str__(self) -> str:
        return f"{self.thread_id}/{self.filename}"


def next_filename(message_type: str, taken: Container[str]) -> str:
    """Return the first free name for a type; gaps are filled, and there is no highest number."""
    candidates = (
        f"{message_type}-{number}{_SUFFIX}" if number > 1 else message_type + _SUFFIX for number in count(1)
    )
    return next(name for name in candidates if name not in taken)


def relay_filename(nonce: str) -> str:
    """Return the name of a relay turn: the time part of its nonce, whatever the relayed type."""
    return f"RELAY-{nonce[:NONCE_TIME_CHARACTERS]}{_SUFFIX}"


def is_closed(filenames: Collection[str]) -> bool:
    """Tell whether a thread is closed, from the names in its directory."""
    return RESOLUTION_FILE in filenames


def is_envelope_name(filename: str) -> bool:
    """Tell whether a file of a thread directory is looked at as an envelope."""
    return filename.endswith(_SUFFIX)


def is_thread_directory(name: str) -> bool:
    """Tell whether a top-level directory may be listed as a thread."""
    return is_thread_id(name) and name not in UNLISTED_DIRECTORIES


def thread_of(path: str) -> str | None:
    """Return the thread a repository path lies in, as a sync sees it: any depth, any kind of file."""
    top, slash, _ = path.partition("/")
    return top if slash and is_thread_id(top) else None


def arrives_as_envelope(path: str) -> bool:
    """Tell whether a sync counts a new file as an envelope; build folders and deeper files included (rigs §9.1)."""
    return thread_of(path) is not None and is_envelope_name(path)


def envelope_at(path: str) -> EnvelopePath | None:
    """Return the envelope a repository path names: an .md file directly in a listed thread."""
    top, _, filename = path.partition("/")
    if not is_thread_directory(top) or "/" in filename or not is_envelope_name(filename):
        return None
    return EnvelopePath(top, filename)
