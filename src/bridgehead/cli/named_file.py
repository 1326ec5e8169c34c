"""A file that an option or argument names."""

from __future__ import annotations

from pathlib import Path

from bridgehead.errors import FileError, UserError
from bridgehead.host.files import read_bounded


def read_named(path: Path, most_bytes: int, *, hint: str | None = None) -> bytes:
    """Its content; one that cannot be read makes the request mistaken (council §20)."""
    try:
        return read_bounded(path, most_bytes)
    except FileError as error:
        raise UserError(error.message, hint=error.hint or hint) from error
