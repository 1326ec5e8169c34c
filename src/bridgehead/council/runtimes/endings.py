"""How a model's answer ended, in the words of each service, and what that says about it.

Chat Completions says `finish_reason`, Anthropic `stop_reason`, Gemini `finishReason`,
opencode `finish`, an ACP agent `stopReason`. An ending that is not in the table is an
ordinary one.
"""

from __future__ import annotations

from typing import Final

from bridgehead.contract.looks import Unlooked

_BY_WORD: Final = {
    "length": Unlooked.CUT,
    "max_tokens": Unlooked.CUT,
    "max_output_tokens": Unlooked.CUT,
    "max_turn_requests": Unlooked.CUT,
    "model_context_window_exceeded": Unlooked.CUT,
    "content_filter": Unlooked.FILTERED,
    "safety": Unlooked.FILTERED,
    "recitation": Unlooked.FILTERED,
    "blocklist": Unlooked.FILTERED,
    "prohibited_content": Unlooked.FILTERED,
    "spii": Unlooked.FILTERED,
    "refusal": Unlooked.REFUSED,
}


def shortfall_of(ending: object) -> Unlooked | None:
    """Return why an answer is not the whole one, or None if it is."""
    if not isinstance(ending, str):
        return None
    return _BY_WORD.get(ending.strip().casefold().replace("-", "_"))
