"""The envelopes of a long thread in one file, so that showing it again opens one file instead of ten thousand.

    {"format": 1, "contents": [blob ids], "sizes": [characters of each body], "checksum": ...}
    [frontmatter, frontmatter, ...]
    all bodies, one after the other

Like the index a cache under the git directory: kept by blob id, checked, rebuilt when in doubt. Short threads, loose
files and very large ones are read where they lie.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from bridgehead.errors import FileError
from bridgehead.host.directories import make_dir
from bridgehead.host.files import read_bounded, write_atomic
from bridgehead.rigs.envelope import Envelope, parse_envelope
from bridgehead.rigs.index_reading import LARGEST_KEPT, is_content_of, is_lasting
from bridgehead.rigs.index_rows import ListedEnvelope
from bridgehead.rigs.repositories.base import Repository

FORMAT = 1
WORTH_STORING = 200
_MAX_BYTES = 1024 * 1024 * 1024


def read_envelopes(
    repository: Repository, envelopes: Sequence[ListedEnvelope], at_hand: Mapping[str, Envelope]
) -> Iterator[Envelope | None]:
    """Yield what listed envelopes of one thread hold, in the order given; None for one that went away meanwhile.

    Those `at_hand`, by blob, are not read again.
    """
    if len(envelopes) < WORTH_STORING:
        return _read_short(repository, envelopes, at_hand)
    path = repository.private_dir / "contents" / envelopes[0].turn.thread_id
    stored = _load(path)
    known = {**stored, **at_hand}
    missing = [listed for listed in envelopes if listed.content not in known]
    read = {found.path: found for found in _read_files(repository, missing)}
    known |= {
        found.content: found.envelope for found in read.values() if found.envelope and found.is_storable
    }
    if len(known) > len(stored):
        wanted = {listed.content for listed in envelopes}
        _save(path, {content: envelope for content, envelope in known.items() if content in wanted})
    return (
        read[listed.path].envelope if listed.path in read else known[listed.content] for listed in envelopes
    )


def _read_short(
    repository: Repository, envelopes: Sequence[ListedEnvelope], at_hand: Mapping[str, Envelope]
) -> Iterator[Envelope | None]:
    read = _read_files(repository, [listed for listed in envelopes if listed.content not in at_hand])
    for listed in envelopes:
        yield at_hand[listed.content] if listed.content in at_hand else next(read).envelope


class _Found(NamedTuple):
    path: str
    content: str
    envelope: Envelope | None
    is_storable: bool


def _read_files(repository: Repository, envelopes: Sequence[ListedEnvelope]) -> Iterator[_Found]:
    if not envelopes:
        return
    names = [listed.turn.filename for listed in envelopes]
    contents = repository.read_files(envelopes[0].turn.thread_id, names)
    for listed, raw in zip(envelopes, contents, strict=True):
        parsed = parse_envelope(raw) if raw is not None else None
        envelope = parsed if isinstance(parsed, Envelope) else None
        yield _Found(listed.path, listed.content, envelope, _is_storable(repository, listed, raw))


def _is_storable(repository: Repository, listed: ListedEnvelope, raw: bytes | None) -> bool:
    """Only what really is the blob it is listed under, and not too much of it."""
    if raw is None or len(raw) > LARGEST_KEPT or not is_lasting(listed.content):
        return False
    return is_content_of(repository, raw, listed.content)


def _load(path: Path) -> dict[str, Envelope]:
    try:
        first, _, rest = read_bounded(path, _MAX_BYTES).partition(b"\n")
        header = json.loads(first)
        if header["format"] != FORMAT or header["checksum"] != crc32(rest):
            return {}
        frontmatters, _, bodies = rest.partition(b"\n")
        cut = _cut(bodies.decode("utf-8", "surrogatepass"), header["sizes"])
        rows = zip(header["contents"], json.loads(frontmatters), cut, strict=True)
        return {content: Envelope(frontmatter, body) for content, frontmatter, body in rows}
    except (FileError, ValueError, TypeError, KeyError):
        return {}


def _cut(bodies: str, sizes: Sequence[int]) -> Iterator[str]:
    start = 0
    for size in sizes:
        yield bodies[start : start + size]
        start += size


def _save(path: Path, stored: dict[str, Envelope]) -> None:
    frontmatters = json.dumps([envelope.frontmatter for envelope in stored.values()], ensure_ascii=False)
    bodies = "".join(envelope.body for envelope in stored.values())
    rest = f"{frontmatters}\n{bodies}".encode("utf-8", "surrogatepass")
    header = {
        "format": FORMAT,
        "contents": list(stored),
        "sizes": [len(envelope.body) for envelope in stored.values()],
        "checksum": crc32(rest),
    }
    with suppress(FileError):
        make_dir(path.parent)
        write_atomic(path, json.dumps(header).encode() + b"\n" + rest)
