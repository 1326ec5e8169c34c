"""Pending items for the calling agent: what is asked, by whom, and how it is answered."""

from __future__ import annotations

from bridgehead.contract.pending import PendingItem
from bridgehead.contract.words import PendingKind, PendingState, Trust
from bridgehead.mcp_server.foreign import ForeignText
from bridgehead.mcp_server.results import PendingEntry


def entry_of(item: PendingItem, foreign: ForeignText, *, with_prompt: bool = False) -> PendingEntry:
    """One item as data; its prompt is foreign text, whoever wrote it."""
    question = item.question
    prompt = foreign.block(question.prompt, origin=f"{question.origin}, {item.id}", trust=Trust.UNVERIFIED)
    return PendingEntry(
        id=item.id,
        kind=question.kind.value,
        state=item.state.value,
        origin=foreign.line(question.origin),
        title=foreign.line(question.title),
        since=item.opened_at,
        project=question.project,
        choices=list(question.choices),
        advice=foreign.line(question.advice) if question.advice else None,
        expires_at=question.expires_at,
        prompt=prompt if with_prompt and question.prompt else "",
    )


def line_of(entry: PendingEntry) -> str:
    choices = f"  [{' | '.join(entry.choices)}]" if entry.choices else ""
    advice = f"  first: {entry.advice}" if entry.advice else ""
    return f"{entry.id}  {entry.origin}: {entry.title}  (since {entry.since}){choices}{advice}"


def how_to_answer(item: PendingItem) -> str:
    """What the agent can do about an item."""
    if item.state is not PendingState.OPEN:
        return f"{item.id} is {item.state.value} already."
    if item.question.kind is PendingKind.BUS_APPROVAL:
        return f"This is for a person: bridgehead answer {item.id} yes|no"
    choices = item.question.choices
    text = " or ".join(repr(choice) for choice in choices) if choices else "your whole answer"
    return f'Answer with the tool `answer`: {{"id": "{item.id}", "text": …}}; the text is {text}.'


def how_to_go_on(item: PendingItem) -> str:
    """What has to be done after the answer, since nothing resumes by itself."""
    question, run_id = item.question, item.question.run_id or ""
    if question.kind is PendingKind.FLOW_REQUEST and run_id.startswith("council-"):
        review_id = run_id.removeprefix("council-")
        return f'Go on with the council: tool `council` with {{"resume": "{review_id}"}}.'
    if question.kind is PendingKind.HALTED_RUNTIME and run_id:
        return f'The seat is tried again by the tool `council` with {{"resume": "{run_id}"}}.'
    if question.kind is PendingKind.FLOW_REQUEST:
        return f"Resume the flow: bridgehead flow resume --dir {question.project}"
    return ""
