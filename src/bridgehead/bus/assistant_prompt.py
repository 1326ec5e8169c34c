"""The prompt of the assistant: everything that came over the bus goes through the fencing door. Pure."""

from __future__ import annotations

from bridgehead.contract.fencing import Fence
from bridgehead.contract.words import Trust

_TASK = (
    "You are the assistant on a message bus of voice satellites and chat rooms. Answer what the person said last, "
    "in one or two short sentences of plain text that can be spoken aloud: no markup, no lists, no links."
)


def assistant_prompt(
    text: str, *, lang: str | None, earlier: tuple[tuple[str, str], ...], session_id: str, fence: Fence
) -> str:
    """Ask for an answer to `text`; `earlier` are (said, answered) pairs of the same conversation."""
    origin = f"participant of session {session_id}"
    parts = [_TASK]
    if lang:
        parts.append(f"Answer in the language with the BCP-47 tag {_tag(lang)}.")
    parts.append(fence.preamble)
    for said, answered in earlier:
        parts.append("Said earlier:\n" + fence.wrap(said, origin=origin, trust=Trust.UNTRUSTED))
        parts.append(
            "Answered then:\n" + fence.wrap(answered, origin="this assistant", trust=Trust.UNVERIFIED)
        )
    parts.append("Said now:\n" + fence.wrap(text, origin=origin, trust=Trust.UNTRUSTED))
    return "\n\n".join(parts)


def _tag(lang: str) -> str:
    """A language tag has no room for instructions: what is none is cut down to one."""
    return "".join(
        character for character in lang if character.isascii() and (character.isalnum() or character == "-")
    )[:35]
