"""Turn files into rows of the index, and rows into envelopes (rigs §2, §3.3, §8)."""

from typing import NamedTuple

from bridgehead.rigs.envelope.envelope import Envelope
from bridgehead.rigs.envelope.frontmatter import ParseFailure
from bridgehead.rigs.envelope.yaml_core import Value
from bridgehead.rigs.repositories.index import FileRow, restored
from bridgehead.rigs.threads.thread import Turn
from bridgehead.rigs.trust.attestation import is_relay_turn
from bridgehead.rigs.trust.envelope_problems import check_envelope, file_findings
from bridgehead.rigs.trust.verification_kinds import Kind


class ListedEnvelope(NamedTuple):
    """An envelope of the work tree with everything the index knows about it."""

    turn: Turn
    findings: tuple[Kind, ...]  # without those that only signatures can show
    is_relay: bool
    nonce: str
    content: str  # its blob id; begins with `~` if git does not vouch for the file
    committed_at: int | None = None
    author_email: str = ""
    signed: bool = False

    @property
    def path(self) -> str:
        return self.turn.path


def listed(thread: str, row: FileRow, content: str) -> ListedEnvelope:
    """Return a row of the index as an envelope whose content is known by `content`."""
    findings: tuple[Kind, ...] = ()
    if row.findings:
        findings = tuple(map(Kind, row.findings.split()))
    if not row.added_by:
        turn = _turn(thread, row, None, None)
        return ListedEnvelope(turn, findings, row.is_relay, row.nonce, content)
    if row.is_rewritten:
        findings = (*findings, Kind.REWRITTEN)
    return ListedEnvelope(
        _turn(thread, row, row.added_by, row.position),
        findings,
        row.is_relay,
        row.nonce,
        content,
        row.committed_at,
        restored(row.author_email or ""),
        bool(row.is_signed),
    )


def _turn(
    thread: str, row: FileRow, commit_sha: str | None, position: int | None
) -> Turn:
    return Turn(
        thread,
        row.filename,
        row.type,
        row.sender,
        row.to if isinstance(row.to, str) else tuple(row.to),
        row.date,
        row.status,
        row.tldr,
        row.body_hash,
        tuple(row.references),
        row.in_reply_to,
        commit_sha,
        position,
    )


def row_of(thread: str, filename: str, parsed: Envelope | ParseFailure) -> FileRow:
    """Return what a file that was read says, and what speaks against it."""
    if isinstance(parsed, ParseFailure):
        return unlisted_row(filename, Kind.PARSE_FAILED)
    frontmatter = parsed.frontmatter

    def text(name: str) -> str:
        value = frontmatter.get(name)
        return value if isinstance(value, str) else ""

    to = frontmatter.get("to")
    return FileRow(
        filename=filename,
        findings=" ".join(file_findings(parsed, check_envelope(parsed), thread)),
        is_envelope=True,
        is_relay=is_relay_turn(frontmatter),
        type=text("type"),
        sender=text("from"),
        to=_texts_in(to) if isinstance(to, list) else text("to"),
        date=text("date"),
        status=text("status"),
        tldr=text("tldr"),
        body_hash=text("body_hash"),
        references=_texts_in(frontmatter.get("references")),
        in_reply_to=text("in_reply_to"),
        nonce=text("nonce"),
    )


def unlisted_row(filename: str, kind: Kind) -> FileRow:
    """Return the row of a link or a file that is no envelope."""
    return FileRow(
        filename=filename,
        findings=str(kind),
        is_envelope=False,
        is_relay=False,
        type="",
        sender="",
        to="",
        date="",
        status="",
        tldr="",
        body_hash="",
        references=[],
        in_reply_to="",
        nonce="",
    )


def _texts_in(value: Value) -> list[str]:
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, str)]
