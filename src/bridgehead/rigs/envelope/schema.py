"""Check frontmatter field by field; unknown keys are errors (rigs §3.2)."""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from bridgehead.rigs.envelope.fields import (
    DISPLAY_NAME_CAP,
    MARKERS,
    MESSAGE_TYPES,
    is_body_hash,
    is_commit_ref,
    is_date,
    is_status,
    is_thread_id,
    is_timestamp,
)
from bridgehead.rigs.envelope.names import is_rig_id
from bridgehead.rigs.envelope.yaml_core import Value

REQUIRED = ("from", "to", "date", "status", "type", "thread")
# What envelopes of one thread have in common.
_REPEATED = frozenset({*REQUIRED, "display_name"})
_WORTH_REMEMBERING = 200  # characters: what longer texts say is said once


class SchemaFault(NamedTuple):
    """A rule of the schema that is broken, and where: `/` is the whole frontmatter."""

    path: str
    message: str


def schema_faults(frontmatter: Mapping[str, Value]) -> tuple[SchemaFault, ...]:
    """Return every rule of the schema that the frontmatter breaks."""
    faults = [
        SchemaFault("/", f"must have the property {name!r}")
        for name in REQUIRED
        if name not in frontmatter
    ]
    for name, value in frontmatter.items():
        if (
            name in _REPEATED
            and isinstance(value, str)
            and len(value) < _WORTH_REMEMBERING
        ):
            faults += _short_text_faults(name, value)
        else:
            faults += _faults(name, value)
    return tuple(faults)


@lru_cache(maxsize=1000)
def _short_text_faults(name: str, text: str) -> tuple[SchemaFault, ...]:
    return tuple(_faults(name, text))


def _faults(name: str, value: Value) -> Iterator[SchemaFault]:
    if name in ("to", "references"):
        yield from _LISTS[name](value)
    elif name not in _TEXTS:
        yield SchemaFault("/", f"must not have the property {name!r}")
    else:
        fits, wish = _TEXTS[name]
        if not isinstance(value, str) or not fits(value):
            yield SchemaFault(f"/{name}", f"must be {wish}")


def _text_of(shortest: int, longest: int) -> tuple[Callable[[str], bool], str]:
    return (
        lambda text: shortest <= len(text) <= longest,
        f"text of {shortest} to {longest} characters",
    )


_RIG_ID_WISH = (
    "a rig id (a lowercase letter, then lowercase letters, digits and hyphens)"
)
_COMMIT_WISH = (
    "a commit id of 7 to 40 lowercase hex digits, quoted if it could be a number"
)
_HASH_WISH = "a SHA-256 in 64 lowercase hex digits"
_TEXTS: dict[str, tuple[Callable[[str], bool], str]] = {
    "from": (is_rig_id, _RIG_ID_WISH),
    "date": (is_date, "a date like 2026-05-15, alone or with a time"),
    "status": (
        is_status,
        f"a marker ({' '.join(MARKERS)}), a space and some words on one line",
    ),
    "type": (MESSAGE_TYPES.__contains__, f"one of {', '.join(MESSAGE_TYPES)}"),
    "thread": (
        is_thread_id,
        "a thread id (two or more lowercase letters, digits and hyphens)",
    ),
    "display_name": _text_of(1, DISPLAY_NAME_CAP),
    "tldr": (bool, "text that is not empty"),
    "body_hash": (is_body_hash, _HASH_WISH),
    "in_reply_to": (is_body_hash, _HASH_WISH),
    "attested_by": _text_of(1, 256),
    "attested_at": (is_timestamp, "a date with a time, like 2026-05-15T10:30:00Z"),
    "nonce": _text_of(1, 64),
}


def _to_faults(value: Value) -> Iterator[SchemaFault]:
    if isinstance(value, list):
        if not value:
            yield SchemaFault("/to", "must name at least one rig")
        for index, item in enumerate(value):
            if not isinstance(item, str) or not is_rig_id(item):
                yield SchemaFault(f"/to/{index}", f"must be {_RIG_ID_WISH}")
    elif not isinstance(value, str) or not is_rig_id(value):
        yield SchemaFault("/to", f"must be {_RIG_ID_WISH} or a list of them")


def _references_faults(value: Value) -> Iterator[SchemaFault]:
    if not isinstance(value, list):
        yield SchemaFault("/references", "must be a list of commit ids")
        return
    bad = [
        index
        for index, item in enumerate(value)
        if not isinstance(item, str) or not is_commit_ref(item)
    ]
    for index in bad:
        yield SchemaFault(f"/references/{index}", f"must be {_COMMIT_WISH}")
    if not bad and len(set(map(str, value))) < len(value):
        yield SchemaFault("/references", "must not name a commit twice")


_LISTS = {"to": _to_faults, "references": _references_faults}
