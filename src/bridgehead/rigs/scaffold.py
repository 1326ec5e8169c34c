"""The request that `new` puts down to be filled in, and how to tell whether somebody did (rigs §6, §8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridgehead.rigs.body_hash import clean_body
from bridgehead.rigs.drafts import Draft, present
from bridgehead.rigs.envelope import Envelope
from bridgehead.rigs.yaml_core import Value

if TYPE_CHECKING:
    from bridgehead.rigs.operations.rig import Author

RECIPIENT_PLACEHOLDER = "(set --to recipient when sending)"


def draft_scaffold(author: Author, thread_id: str, day: str) -> Draft:
    """Return what `new` writes: a request to fill in, which cannot be sent as it stands."""
    fields: dict[str, Value] = {
        "from": author.rig_id,
        "to": RECIPIENT_PLACEHOLDER,
        "date": day,
        "status": f"▶ {thread_id} opened",
        "type": "REQUEST",
        "thread": thread_id,
        "display_name": author.display_name or None,
    }
    return Draft(present(fields), clean_body(_scaffold_body(thread_id, author.rig_id)))


def is_scaffold(envelope: Envelope) -> bool:
    """Tell whether a request was scaffolded and never sent."""
    return envelope.frontmatter.get("to") == RECIPIENT_PLACEHOLDER


def edited_scaffold_body(envelope: Envelope, thread_id: str) -> str | None:
    """Return the body somebody wrote into a scaffold, None while it is still the template."""
    template = _scaffold_body(thread_id, str(envelope.frontmatter.get("from")))
    return None if envelope.body == clean_body(template) else envelope.body


def _scaffold_body(thread_id: str, rig_id: str) -> str:
    # Word for word the reference's, so that an untouched scaffold of either tool is recognised by both.
    return (
        f"# {thread_id} — REQUEST\n\n"
        f"<!-- Authored on {rig_id}. Edit before `rig-bridge send`. -->\n\n"
        "## What I'm asking\n\n"
        "(describe the asker spec — what you want the peer to do)\n\n"
        "## Context\n\n"
        "(any prior turns, paths, or assumptions)\n\n"
        "Standing by.\n"
    )
