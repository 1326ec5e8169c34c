"""Check the shapes of frontmatter values, and classify statuses (rigs §1, §3.2, §5)."""

from __future__ import annotations

import re
from enum import StrEnum

from bridgehead.errors import UserError
from bridgehead.rigs.envelope.text import LINE_TERMINATORS, WHITESPACE, trim

_EMOJI_PRESENTATION = "\ufe0f"
MESSAGE_TYPES = (
    "REQUEST",
    "HANDOFF",
    "RESPONSE",
    "ACK",
    "RESOLUTION",
    "STATE",
    "RESULT",
    "RECOVERY",
    "VERIFY",
    "DECISIONS",
)
RELAY_TYPES = ("DECISIONS", "RESPONSE", "ACK")
TLDR_SOFT_CAP = 280
REVIEWED_TYPE = (
    "RESULT"  # what a council may have looked at before it is handed on (design §1)
)
DISPLAY_NAME_CAP = 80
# Holds who takes part (rigs §10); nobody opens it or writes to it by hand.
MEMBERS_THREAD = "bridge-members"
# Rigs §2: build folders, never threads.
UNLISTED_DIRECTORIES = frozenset({"node_modules", "dist"})
_THREAD_ID = re.compile("[a-z0-9][a-z0-9-]*[a-z0-9]")
_COMMIT_REF = re.compile("[0-9a-f]{7,40}")
_BODY_HASH = re.compile("[0-9a-f]{64}")
_TIME = r"T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
_DATE = re.compile(f"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}(?:{_TIME})?")


class StatusClass(StrEnum):
    """What a marker says about the work; never stored in an envelope."""

    ACTIVE = "active"
    PENDING = "pending"
    TARGETED = "targeted"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


CLASS_OF_MARKER = {
    "▶": StatusClass.ACTIVE,
    "⏸": StatusClass.PENDING,
    "🎯": StatusClass.TARGETED,
    "✅": StatusClass.COMPLETED,
    "❌": StatusClass.CANCELLED,
}


MARKERS = tuple(CLASS_OF_MARKER)


def status_class(status: object) -> StatusClass | None:
    """Return the class of the first visible character; None if it is no marker."""
    if not isinstance(status, str):
        return None
    return CLASS_OF_MARKER.get(status.lstrip(WHITESPACE)[:1])


def listed_status_class(status: object) -> StatusClass:
    """Return the class a listing shows: old files without a marker count as active."""
    return status_class(status) or StatusClass.ACTIVE


def tidy_status(typed: str) -> str:
    """Return a status typed by a user, trimmed.

    The U+FE0F that keyboards put after a marker is dropped: no file may carry it.
    """
    status = trim(typed)
    if status[:1] in CLASS_OF_MARKER and status[1:2] == _EMOJI_PRESENTATION:
        return status[0] + status[2:]
    return status


def parse_status(typed: str) -> str:
    """Tidy a status given by a user; one without a marker is refused."""
    status = tidy_status(typed)
    if status_class(status) is None:
        raise UserError(
            f'unrecognized status marker "{status[:1]}" at the start of "{status}"; '
            f"expected one of {' '.join(MARKERS)}"
        )
    return status


def is_thread_id(text: str) -> bool:
    """Return whether `text` can name a thread; one character is too short."""
    return _THREAD_ID.fullmatch(text) is not None


def is_commit_ref(text: str) -> bool:
    """Return whether `text` looks like a commit id or an abbreviation of one."""
    return _COMMIT_REF.fullmatch(text) is not None


def is_body_hash(text: str) -> bool:
    """Return whether `text` looks like a SHA-256 in lowercase hex."""
    return _BODY_HASH.fullmatch(text) is not None


def is_date(text: str) -> bool:
    """Return whether `text` is a day, alone or with a time."""
    return _DATE.fullmatch(text) is not None


def is_timestamp(text: str) -> bool:
    """Return whether `text` is a day with a time."""
    return "T" in text and is_date(text)


def is_status(text: str) -> bool:
    """Return whether `text` is a marker, one blank and some words on one line."""
    return (
        len(text) > 2
        and text[0] in MARKERS
        and text[1] in WHITESPACE
        and not any(terminator in text[2:] for terminator in LINE_TERMINATORS)
    )


def parse_thread_id(typed: str) -> str:
    """Return the id of a thread that may exist; any other name is refused."""
    if not is_thread_id(typed):
        raise UserError(
            f'thread-id "{typed}" is not a valid kebab-case slug '
            "(two or more lowercase letters, digits and hyphens, no hyphen at either "
            "end)"
        )
    return typed


def parse_new_thread_id(typed: str) -> str:
    """Return the id of a thread that may be opened; listings must not skip it."""
    if parse_thread_id(typed) in UNLISTED_DIRECTORIES:
        raise UserError(
            f'thread-id "{typed}" is reserved: a directory of that name is never '
            "listed as a thread"
        )
    refuse_members_thread(typed)
    return typed


def refuse_members_thread(thread_id: str) -> None:
    """Keep turns of people and agents out of the thread that says who takes part."""
    if thread_id == MEMBERS_THREAD:
        raise UserError(
            f'thread-id "{MEMBERS_THREAD}" is reserved for the members of the bridge',
            hint="rig-bridge member list; rig-bridge member --help",
        )


def parse_message_type(typed: str) -> str:
    """Return the message type to send, one of the ten."""
    if typed not in MESSAGE_TYPES:
        raise UserError(
            f'unknown message type "{typed}" — must be one of: '
            f"{', '.join(MESSAGE_TYPES)}"
        )
    return typed


def parse_relay_type(typed: str) -> str:
    """Return the message type to relay, one that a human speaks in."""
    if typed not in RELAY_TYPES:
        raise UserError(
            f'relay: unknown type "{typed}" — must be one of: {", ".join(RELAY_TYPES)}'
        )
    return typed
