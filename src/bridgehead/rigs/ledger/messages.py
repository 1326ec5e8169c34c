"""Describe messages as the control plane knows them (rigs §14.1, §14.2)."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from bridgehead.rigs.envelope.body_hash import body_hash
from bridgehead.rigs.envelope.envelope import Envelope
from bridgehead.rigs.envelope.fields import is_commit_ref, listed_status_class
from bridgehead.rigs.envelope.names import RESOLUTION_FILE
from bridgehead.rigs.threads.thread import Turn, turn_of


class Lifecycle(StrEnum):
    """States only move forward; superseded can follow any of them."""

    DRAFTED = "drafted"
    SENT = "sent"
    RECEIVED = "received"
    ACKED = "acked"
    RESOLVED = "resolved"
    SUPERSEDED = "superseded"

    @property
    def rank(self) -> int:
        """How far a message has come; being received is as far as being sent."""
        state = Lifecycle.SENT if self is Lifecycle.RECEIVED else self
        return list(Lifecycle).index(state)


REPLAYED = "replayed"  # an event that is no state


class Message(NamedTuple):
    """One row of bridge_messages, before it has an id."""

    thread: str
    filename: str
    message_type: str
    from_rig: str
    to: tuple[str, ...]
    status_class: str
    status_text: str
    tldr: str | None
    envelope_date: str
    commit_sha: str
    references: tuple[str, ...]
    in_reply_to: str
    body_hash: str
    hash_agrees: bool = True

    @property
    def path(self) -> str:
        return f"{self.thread}/{self.filename}"

    @property
    def commits_named(self) -> list[str]:
        """The references that can name a commit; a digit or two would name many."""
        return [name for name in self.references if is_commit_ref(name)]

    @property
    def closes(self) -> bool:
        return self.filename == RESOLUTION_FILE

    def first_state(self, own: str) -> Lifecycle:
        return Lifecycle.SENT if self.from_rig == own else Lifecycle.RECEIVED


def message_of(path: str, commit_sha: str, envelope: Envelope) -> Message:
    """Return what the table keeps of an envelope, with the actual body hash."""
    thread, _, filename = path.partition("/")
    turn: Turn = turn_of(thread, filename, envelope.frontmatter)
    actual = body_hash(envelope.body)
    return Message(
        thread=thread,
        filename=filename,
        message_type=turn.type,
        from_rig=turn.sender,
        to=turn.recipients,
        status_class=str(listed_status_class(turn.status)),
        status_text=turn.status,
        tldr=turn.tldr or None,
        envelope_date=turn.date,
        commit_sha=commit_sha,
        references=turn.references,
        in_reply_to=turn.in_reply_to,
        body_hash=actual,
        hash_agrees=turn.body_hash in ("", actual),
    )


def acknowledged_by(message: Message, known: Iterable[Message]) -> list[Message]:
    """Return the messages that this one names, and thereby acknowledges."""
    return [
        other
        for other in known
        if other.path != message.path and _names(message, other)
    ]


def _names(message: Message, other: Message) -> bool:
    """Return whether a message names another by its commit or its body hash."""
    if other.commit_sha.startswith(tuple(message.commits_named)):
        return True
    is_same_thread = other.thread == message.thread
    return is_same_thread and other.body_hash == message.in_reply_to
