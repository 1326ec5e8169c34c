"""What the envelope index remembers about a file, and how that is read from the file (rigs §2, §3.3, §8).

Two halves, kept apart because they change for different reasons: `FileRow` follows the content in the work tree,
`HistoryRow` the commits.
"""

from collections.abc import Mapping
from typing import NamedTuple

from bridgehead.rigs.envelope.envelope import Envelope, parse_frontmatter
from bridgehead.rigs.envelope.frontmatter import ParseFailure
from bridgehead.rigs.envelope.yaml_core import Value
from bridgehead.rigs.threads.thread import Turn
from bridgehead.rigs.trust.attestation import is_relay_turn
from bridgehead.rigs.trust.envelope_problems import check_envelope, file_findings
from bridgehead.rigs.trust.verification_kinds import Kind


class FileRow(NamedTuple):
    """One `.md` file of a thread, as last read. Everything here can be written as JSON."""

    filename: str
    content: str  # what it was read from: a blob id, or the stamp of a file git does not have
    findings: str | None  # kinds joined by blanks; None: nobody has asked for them yet
    readable: bool  # an envelope, valid or not; others are not listed
    is_relay: bool
    type: str
    sender: str
    to: str | list[str]
    date: str
    status: str
    tldr: str
    body_hash: str
    references: list[str]
    in_reply_to: str
    nonce: str


class HistoryRow(NamedTuple):
    """How a path came into HEAD."""

    filename: str
    commit: str  # that added it; empty once it is deleted
    position: int  # of that commit, counted from the first
    committed_at: int
    author_email: str
    signed: bool
    rewritten: bool  # it once had other content
    blob: str  # its last content


class ListedEnvelope(NamedTuple):
    """An envelope of the work tree with everything the index knows about it."""

    turn: Turn
    findings: tuple[
        Kind, ...
    ]  # what the file and its history alone can show; signatures are looked at elsewhere
    is_relay: bool
    nonce: str
    content: str  # blob id, or a stamp that begins with `~`
    committed_at: int | None = None
    author_email: str = ""
    signed: bool = False

    @property
    def path(self) -> str:
        return self.turn.path


def unjudged_row(filename: str, content: str, raw: bytes) -> FileRow:
    """Read a file without its body."""
    return _row_of(filename, content, parse_frontmatter(raw), None)


def judged_row(
    thread: str, filename: str, content: str, parsed: Envelope | ParseFailure
) -> FileRow:
    """Say what a file that was read holds, and what speaks against it."""
    findings = " ".join(file_findings(parsed, check_envelope(parsed), thread))
    frontmatter = parsed.frontmatter if isinstance(parsed, Envelope) else parsed
    return _row_of(filename, content, frontmatter, findings)


def symlink_row(filename: str, content: str) -> FileRow:
    """A link is never followed, only reported."""
    return unreadable_row(filename, content, str(Kind.SYMLINK))


def unreadable_row(filename: str, content: str, findings: str | None) -> FileRow:
    return FileRow(
        filename,
        content,
        findings,
        False,
        False,
        "",
        "",
        "",
        "",
        "",
        "",
        "",
        [],
        "",
        "",
    )


def listed(thread: str, row: FileRow, added: HistoryRow | None) -> ListedEnvelope:
    """Join the two halves. Ten thousand at a time, so fields are taken by position."""
    (
        name,
        content,
        kinds,
        _,
        is_relay,
        kind,
        sender,
        to,
        *others,
        references,
        in_reply_to,
        nonce,
    ) = row
    findings = tuple(map(Kind, kinds.split())) if kinds else ()
    recipients = to if isinstance(to, str) else tuple(to)
    said = (
        thread,
        name,
        kind,
        sender,
        recipients,
        *others,
        tuple(references),
        in_reply_to,
    )
    if added is None or not added.commit:
        return ListedEnvelope(
            Turn._make((*said, None, None)), findings, is_relay, nonce, content
        )
    _, commit, position, committed_at, author_email, signed, rewritten, _ = added
    if rewritten:
        findings = (*findings, Kind.REWRITTEN)
    turn = Turn._make((*said, commit, position))
    return ListedEnvelope(
        turn, findings, is_relay, nonce, content, committed_at, author_email, signed
    )


def _row_of(
    filename: str,
    content: str,
    frontmatter: Mapping[str, Value] | ParseFailure,
    findings: str | None,
) -> FileRow:
    if isinstance(frontmatter, ParseFailure):
        return unreadable_row(filename, content, str(Kind.PARSE_FAILED))
    to = frontmatter.get("to")
    texts = {
        name: value for name, value in frontmatter.items() if isinstance(value, str)
    }.get
    return FileRow(
        filename,
        content,
        findings,
        True,
        is_relay_turn(frontmatter),
        texts("type", ""),
        texts("from", ""),
        _texts_in(to) if isinstance(to, list) else texts("to", ""),
        texts("date", ""),
        texts("status", ""),
        texts("tldr", ""),
        texts("body_hash", ""),
        _texts_in(frontmatter.get("references")),
        texts("in_reply_to", ""),
        texts("nonce", ""),
    )


def _texts_in(value: Value) -> list[str]:
    return (
        [item for item in value if isinstance(item, str)]
        if isinstance(value, list)
        else []
    )
