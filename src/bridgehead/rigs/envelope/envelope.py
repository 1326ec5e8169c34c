"""Read an envelope file: two fences, frontmatter between them, the body after.

See rigs §3.1. `parse_envelope` reads everything; `parse_frontmatter` is for listings
and does not even decode the body. Neither ever raises, whatever the bytes are.
frontmatter.py writes files.
"""

from collections.abc import Mapping
from typing import NamedTuple

from bridgehead.rigs.envelope.body_hash import BOM, normalise_body, unify_line_ends
from bridgehead.rigs.envelope.frontmatter import ParseFailure, read_mapping
from bridgehead.rigs.envelope.yaml_core import Value

MAX_ENVELOPE_BYTES = 50 * 1024 * 1024

_OPENING = "---\n"
_CLOSING = "\n---\n"
_CLOSING_AT_END = "\n---"
_TOO_LARGE = ParseFailure(f"file exceeds the 50 MiB cap ({MAX_ENVELOPE_BYTES} bytes)")
_NO_OPENING = ParseFailure("envelope must begin with a '---' frontmatter fence")
_NO_CLOSING = ParseFailure("envelope frontmatter has no closing '---' fence")


class Envelope(NamedTuple):
    """A file that parses; trust/envelope_problems.py decides whether it is valid."""

    frontmatter: Mapping[str, Value]
    body: str  # normalised once


class FileParts(NamedTuple):
    """What stands between and after the fences, the frontmatter with LF line ends."""

    frontmatter: str
    body: str


def parse_envelope(raw: bytes) -> Envelope | ParseFailure:
    """Read a whole file."""
    parts = split_file(raw)
    if isinstance(parts, ParseFailure):
        return parts
    frontmatter = read_mapping(parts.frontmatter)
    if isinstance(frontmatter, ParseFailure):
        return frontmatter
    return Envelope(frontmatter, normalise_body(parts.body))


def parse_frontmatter(raw: bytes) -> dict[str, Value] | ParseFailure:
    """Read the frontmatter alone."""
    end = _plain_closing(raw)
    if end is not None:
        return read_mapping(_decode(raw[len(_OPENING) : end]))
    parts = split_file(raw)
    return parts if isinstance(parts, ParseFailure) else read_mapping(parts.frontmatter)


def split_file(raw: bytes) -> FileParts | ParseFailure:
    """Find the fences."""
    if len(raw) > MAX_ENVELOPE_BYTES:
        return _TOO_LARGE
    end = _plain_closing(raw)
    if end is not None:
        return FileParts(
            _decode(raw[len(_OPENING) : end]), _decode(raw[end + len(_CLOSING) :])
        )
    text = unify_line_ends(_decode(raw).removeprefix(BOM))
    if not text.startswith(_OPENING):
        return _NO_CLOSING if text == "---" else _NO_OPENING
    start = len(_OPENING)
    end = text.find(_CLOSING, start - 1)
    if end < 0:
        if not text.endswith(_CLOSING_AT_END):
            return _NO_CLOSING
        end = len(text) - len(_CLOSING_AT_END)
    return FileParts(text[start:end], text[end + len(_CLOSING) :])


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _plain_closing(raw: bytes) -> int | None:
    """Return where the closing fence of an ordinary file begins.

    Such a file has no byte order mark, and only LF up to there. Cutting the bytes
    there is safe: LF is part of no longer UTF-8 sequence.
    """
    if len(raw) > MAX_ENVELOPE_BYTES or not raw.startswith(b"---\n"):
        return None
    end = raw.find(b"\n---\n", len(_OPENING) - 1)
    return end if end >= len(_OPENING) and raw.find(b"\r", 0, end) < 0 else None
