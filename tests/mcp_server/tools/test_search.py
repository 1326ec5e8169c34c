"""An agent that searches its tools by keyword finds ours under the words it would use."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from support.mcp_hosts import orders_project, with_client

# Hosts with many tools show a model only those that a search finds. Written before the descriptions.
PHRASES = {
    "code review": "council",
    "review my changes": "council",
    "security audit": "council",
    "audit this code": "council",
    "second opinion": "council",
    "consensus of several models": "council",
    "debate a plan": "council",
    "find bugs": "council",
    "find vulnerabilities": "council",
    "research a question": "council",
    "review report findings": "council_status",
    "list reviews": "council_status",
    "audit progress": "council_status",
    "pending approval": "pending",
    "open questions": "pending",
    "what is waiting": "pending",
    "answer a question": "answer",
    "inbox": "rig_inbox",
    "read messages": "rig_inbox",
    "messages from other agents": "rig_inbox",
    "send a message": "rig_send",
    "hand off work": "rig_send",
    "send to another machine": "rig_send",
    "start a conversation": "rig_open",
    "new thread": "rig_open",
    "pull new messages": "rig_sync",
    "fetch messages": "rig_sync",
    "wait for a reply": "rig_wait",
    "resume a workflow": "flow_run",
    "run a flow": "flow_run",
    "challenge a finding": "command",
    "diagnose installation": "doctor",
}


def words(text: str) -> set[str]:
    return {word.removesuffix("s") for word in re.findall(r"[a-z]+", text.lower())}


def found(phrase: str, tools: dict[str, str]) -> list[str]:
    """The tools with most words of the phrase: rare words count for more, and so do words of a name."""
    seen = {name: words(text) for name, text in tools.items()}
    asked = words(phrase) - words("a my this of to for what is the")
    weights = {
        word: 1 / max(1, sum(word in one for one in seen.values())) for word in asked
    }
    scores = {
        name: sum(
            weights[word] * (1.5 if word in words(name) else 1) for word in asked & one
        )
        for name, one in seen.items()
    }
    best = max(scores.values())
    return [name for name, score in scores.items() if score == best > 0]


@pytest.mark.peer
def test_thirty_phrases_find_their_tool(tmp_path: Path) -> None:
    async def listed(client: Client) -> Any:
        return (await client.list_tools()).tools

    shown = with_client(orders_project(tmp_path), listed)
    tools = {
        tool.name: f"{tool.name} {tool.title} {tool.description}" for tool in shown
    }
    missed = {
        phrase: found(phrase, tools)
        for phrase, tool in PHRASES.items()
        if found(phrase, tools) != [tool]
    }
    assert len(PHRASES) >= 30
    assert missed == {}
