"""The tools `pending` and `answer`: what waits for someone, and the one answer it takes."""

from __future__ import annotations

from bridgehead.assembly.waiting import waiting_list
from bridgehead.contract.pending import Answer
from bridgehead.contract.words import AnswerStatus, PendingKind
from bridgehead.control_plane.records import PendingFilter
from bridgehead.errors import UserError
from bridgehead.host.clock import SystemClock, iso_ms
from bridgehead.mcp_server.arguments import AnswerArguments, PendingArguments
from bridgehead.mcp_server.caller import Caller, Spoken
from bridgehead.mcp_server.foreign import ForeignText
from bridgehead.mcp_server.pending_telling import entry_of, how_to_answer, how_to_go_on, line_of
from bridgehead.mcp_server.results import AnswerResult, PendingResult


class ForAPerson(UserError):
    """An approval that an agent tried to give."""

    def __init__(self, item_id: str) -> None:
        super().__init__(
            f"{item_id} asks a person for an approval; agents may not give it",
            hint=f"a person runs: bridgehead answer {item_id} yes|no",
        )


def pending(caller: Caller, wanted: PendingArguments) -> Spoken:
    """What is open, or one item with its prompt."""
    foreign = ForeignText()
    with caller.assembly.store(read_only=True) as store:
        waiting = waiting_list(caller.assembly, store, caller.tell)
        if wanted.id is not None:
            item = waiting.find(wanted.id)
            entry, advice = entry_of(item, foreign, with_prompt=True), how_to_answer(item)
            text = "\n\n".join(filter(None, [line_of(entry), advice, foreign.note, entry.prompt]))
            return Spoken(PendingResult(note=foreign.note, items=[entry], next=advice), text)
        project = None if wanted.everywhere else caller.assembly.project
        items = waiting.items(PendingFilter(project=project), limit=wanted.limit)
    entries = [entry_of(item, foreign) for item in items]
    advice = "The tool `pending` with an id shows an item's whole prompt." if entries else ""
    text = "\n".join([*map(line_of, entries), advice]) if entries else "Nothing is waiting."
    return Spoken(PendingResult(items=entries, next=advice), text)


def answer(caller: Caller, wanted: AnswerArguments) -> Spoken:
    """Answer once; whoever comes second is told who was first."""
    given = Answer(
        status=AnswerStatus(wanted.status),
        text=wanted.text,
        message=wanted.message,
        by=f"{caller.client.name} (MCP)",
        at=iso_ms(SystemClock().now()),
    )
    with caller.assembly.store() as store:
        waiting = waiting_list(caller.assembly, store, caller.tell)
        if waiting.find(wanted.id).question.kind is PendingKind.BUS_APPROVAL:
            raise ForAPerson(wanted.id)
        item = waiting.answer(wanted.id, given)
    result = AnswerResult(
        id=item.id,
        state=item.state.value,
        title=ForeignText().line(item.question.title),
        next=how_to_go_on(item),
    )
    return Spoken(result, f"{result.id} answered: {result.title}\n{result.next}".rstrip())
