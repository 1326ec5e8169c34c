"""One line per message for `bus tail`: who, where to, which session; what was said only if asked for. Pure."""

from __future__ import annotations

from typing import Any

from bridgehead.bus.message import Message, destinations, encode
from bridgehead.bus.session import context_session_id


def described(message: Message, at: str, *, with_data: bool) -> dict[str, Any]:
    """The facts of a message; its payload only `with_data`."""
    source = message.context.get("source")
    facts: dict[str, Any] = {
        "at": at,
        "topic": message.type,
        "source": source if isinstance(source, str) else None,
        "destination": list(destinations(message.context)),
        "session_id": context_session_id(message.context),
        "bytes": len(encode(message)),
    }
    return {**facts, "data": message.data} if with_data else facts


def line(facts: dict[str, Any]) -> str:
    """The facts for a reader: `10:15:02  ovos.utterance.speak  core → kitchen  default  182 B`."""
    to = ", ".join(facts["destination"]) or "everybody"
    shown = (
        f"{facts['at'][11:19]}  {facts['topic']}  {facts['source'] or '?'} → {to}  "
        f"{facts['session_id']}  {facts['bytes']} B"
    )
    return f"{shown}  {facts['data']}" if "data" in facts else shown
