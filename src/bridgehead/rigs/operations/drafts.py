"""Draft new envelopes: fields in writing order, default words (rigs §3.4, §8)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from bridgehead.errors import SecretRefused, UserError
from bridgehead.rigs.envelope.body_hash import body_hash, clean_body
from bridgehead.rigs.envelope.envelope import Envelope
from bridgehead.rigs.envelope.fields import TLDR_SOFT_CAP, StatusClass
from bridgehead.rigs.envelope.frontmatter import write_envelope
from bridgehead.rigs.envelope.schema import REQUIRED, SchemaFault, schema_faults
from bridgehead.rigs.envelope.text import headline, utf8
from bridgehead.rigs.envelope.yaml_core import Value
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.trust.attestation import Attestation

if TYPE_CHECKING:
    from bridgehead.rigs.rig import Author
    from bridgehead.rigs.trust.council_mark import CouncilMark

_CLOSING_WORDS = {
    StatusClass.CANCELLED: "❌ Cancelled",
    StatusClass.COMPLETED: "✅ Completed",
}
RECIPIENT_PLACEHOLDER = "(set --to recipient when sending)"


class Draft(NamedTuple):
    """An envelope that is not a file yet."""

    frontmatter: Mapping[str, Value]
    body: str  # clean: it hashes the same now and after being read back

    @property
    def text(self) -> str:
        return write_envelope(self.frontmatter, self.body)

    @property
    def body_hash(self) -> str:
        return body_hash(self.body)


def draft_scaffold(author: "Author", thread_id: str, day: str) -> Draft:
    """Return what `new` writes: a request to fill in before it is sent."""
    head = _head(
        author,
        RECIPIENT_PLACEHOLDER,
        day,
        f"▶ {thread_id} opened",
        "REQUEST",
        thread_id,
    )
    fields = {**head, "display_name": author.display_name or None}
    return Draft(present(fields), clean_body(_scaffold_body(thread_id, author.rig_id)))


def draft_send(
    author: "Author",
    message_type: str,
    thread_id: str,
    recipients: Sequence[str],
    day: str,
    *,
    status: str | None = None,
    tldr: str | None = None,
    references: Sequence[str] = (),
    body: str | None = None,
    mark: "CouncilMark | None" = None,
) -> Draft:
    """Return what `send` writes.

    `status` comes from parse_status, `mark` from the council that reviewed a result.
    """
    status = f"▶ {message_type} sent" if status is None else status
    fields: dict[str, Value] = {
        **_head(author, _one_or_list(recipients), day, status, message_type, thread_id),
        "display_name": author.display_name or None,
        "tldr": tldr,
        "references": list(references) or None,
    }
    default = (
        f"# {thread_id} — {message_type}\n\n(body authored on "
        f"{author.rig_id})\n\nStanding by.\n"
    )
    text = default if body is None else body
    if mark is not None:
        from bridgehead.rigs.trust.council_mark import with_mark

        text = with_mark(text, mark)
    return _sealed(fields, text)


def draft_close(
    author: "Author",
    thread_id: str,
    outcome: StatusClass,
    recipient: str,
    day: str,
    *,
    note: str | None = None,
) -> Draft:
    """Return what `close` writes.

    The note's first line goes into the status, all of it into the body.
    """
    summary = headline(note or "")
    status = _CLOSING_WORDS[outcome]
    body = f"# {thread_id} — RESOLUTION ({outcome})\n\n"
    if summary:
        status += f" — {summary}"
        body += f"{note}\n\n"
    head = _head(author, recipient, day, status, "RESOLUTION", thread_id)
    fields = {**head, "display_name": author.display_name or None}
    return _sealed(fields, f"{body}Standing by.\n")


def draft_relay(
    author: "Author",
    operator: str,
    message_type: str,
    thread_id: str,
    recipients: Sequence[str],
    in_reply_to: str,
    attestation: Attestation,
    *,
    status: str | None = None,
    tldr: str | None = None,
    references: Sequence[str] = (),
    body: str | None = None,
) -> Draft:
    """Return what `relay` writes.

    `operator` is the git user name; `status` comes from tidy_status.
    """
    status = f"▶ Relayed {message_type}" if status is None else status
    day = attestation.attested_at[:10]
    fields: dict[str, Value] = {
        **_head(author, _one_or_list(recipients), day, status, message_type, thread_id),
        "in_reply_to": in_reply_to,
        **attestation._asdict(),
        "display_name": operator,
        "tldr": tldr,
        "references": list(references) or None,
    }
    default = (
        f"# {thread_id} — {message_type} (relayed by {operator})\n\n"
        f"Relayed via {author.rig_id} on {attestation.attested_at}.\n\nStanding by.\n"
    )
    return _sealed(fields, default if body is None else body)


def send_subject(message_type: str, path: str, tldr: str | None) -> str:
    """Return the commit subject of a sent envelope: its summary, or where it lies."""
    return f"{message_type}: {headline(tldr or '') or path}"


def close_subject(thread_id: str, outcome: StatusClass) -> str:
    """Return the commit subject of a closing envelope."""
    return f"RESOLUTION: {thread_id} {outcome}"


def relay_subject(message_type: str, thread_id: str, nonce: str) -> str:
    """Return the commit subject of a relay turn."""
    return f"{message_type} (relay): {thread_id} nonce={nonce}"


def parse_outcome(typed: str) -> StatusClass:
    """Return how a thread is to be closed."""
    outcome = next((known for known in _CLOSING_WORDS if known == typed), None)
    if outcome is None:
        raise UserError(f'--status must be "cancelled" or "completed" (got "{typed}")')
    return outcome


def warn_of_long_tldr(rig: Rig, tldr: str | None) -> None:
    """Warn if a summary is too long to be one; it is sent all the same."""
    if tldr is not None and len(tldr) > TLDR_SOFT_CAP:
        rig.tell(f"warning: tldr is {len(tldr)} chars (>{TLDR_SOFT_CAP} soft cap)")


def refuse_secrets(draft: Draft) -> None:
    """Raise SecretRefused, which never shows the value, if a draft has a secret."""
    from bridgehead.host.secrets_scan import scan

    for where, text in (
        ("body", draft.body),
        ("tldr", draft.frontmatter.get("tldr")),
        ("status", draft.frontmatter["status"]),
    ):
        for hit in scan(text) if isinstance(text, str) else ():
            raise SecretRefused(where, hit.kind, hit.line)


def is_scaffold(envelope: Envelope) -> bool:
    """Return whether a request was scaffolded and never sent."""
    return envelope.frontmatter.get("to") == RECIPIENT_PLACEHOLDER


def edited_scaffold_body(envelope: Envelope, thread_id: str) -> str | None:
    """Return the body of a scaffold; None if it is still the template."""
    template = _scaffold_body(thread_id, str(envelope.frontmatter.get("from")))
    return None if envelope.body == clean_body(template) else envelope.body


def present(fields: Mapping[str, Value]) -> dict[str, Value]:
    """Return the fields that have a value."""
    return {name: value for name, value in fields.items() if value is not None}


def _scaffold_body(thread_id: str, rig_id: str) -> str:
    # Word for word the reference's, so that either tool recognises an untouched
    # scaffold of the other.
    return (
        f"# {thread_id} — REQUEST\n\n"
        f"<!-- Authored on {rig_id}. Edit before `rig-bridge send`. -->\n\n"
        "## What I'm asking\n\n"
        "(describe the asker spec — what you want the peer to do)\n\n"
        "## Context\n\n"
        "(any prior turns, paths, or assumptions)\n\n"
        "Standing by.\n"
    )


def _head(
    author: "Author",
    to: Value,
    day: str,
    status: str,
    message_type: str,
    thread_id: str,
) -> dict[str, Value]:
    """Return the fields every envelope has, in writing order."""
    values = (author.rig_id, to, day, status, message_type, thread_id)
    return dict(zip(REQUIRED, values, strict=True))


def _one_or_list(recipients: Sequence[str]) -> Value:
    return recipients[0] if len(recipients) == 1 else list(recipients)


def _sealed(fields: Mapping[str, Value], body: str) -> Draft:
    clean = clean_body(body)
    frontmatter = {**present(fields), "body_hash": body_hash(clean)}
    faults = [*schema_faults(frontmatter), *_unwritable(frontmatter)]
    if faults:
        listed = ", ".join(f"{fault.path} {fault.message}" for fault in faults)
        raise UserError(f"envelope frontmatter failed schema validation: {listed}")
    return Draft(frontmatter, clean)


def _unwritable(frontmatter: Mapping[str, Value]) -> list[SchemaFault]:
    """Return the fields with bytes that were not UTF-8 on the command line."""
    return [
        SchemaFault(f"/{name}", "must be text that UTF-8 can carry")
        for name, value in frontmatter.items()
        if isinstance(value, str)
        and utf8(value) != value.encode("utf-8", "surrogatepass")
    ]
