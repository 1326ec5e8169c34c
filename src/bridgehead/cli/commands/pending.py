"""`bridgehead pending` and `bridgehead answer`: what waits for someone, and the one answer it takes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click
import msgspec

from bridgehead.assembly.pending import grouped, pending_list
from bridgehead.cli.click_classes import Command
from bridgehead.cli.output import App, ago, columns, one_line, read_text, user_name
from bridgehead.contract.pending import Answer, PendingItem
from bridgehead.contract.record_words import AnswerStatus, PendingKind, PendingState
from bridgehead.control_plane.records import PendingFilter
from bridgehead.errors import UserError
from bridgehead.host.clock import SystemClock, iso_ms, parse_iso
from bridgehead.host.terminal import escape_controls

MAX_ANSWER_BYTES = 50 * 1024 * 1024
SAYS_SCHEMA = "It must obey this JSON Schema:"  # as the prompts of flows do


@click.command(
    cls=Command,
    examples=(
        "bridgehead pending",
        "bridgehead pending show q-12",
        "bridgehead pending --here --json",
        "bridgehead pending --all --limit 100",
    ),
)
@click.argument("item_id", metavar="[show ID]", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Include answered and withdrawn items.")
@click.option("--here", is_flag=True, help="Only items of the current project.")
@click.option(
    "--kind", "kinds", multiple=True, type=click.Choice([str(kind) for kind in PendingKind]), help="Only this kind."
)
@click.option("--limit", "-n", type=click.IntRange(1, 10_000), default=50, show_default=True, help="At most N.")
@click.pass_obj
def pending(
    app: App, item_id: tuple[str, ...], everything: bool, here: bool, kinds: tuple[str, ...], limit: int
) -> None:
    """List what is waiting for an answer: flow requests, halted runtimes, envelopes, bus approvals.

    With `show ID` (or only the ID), show the whole question with its choices and the schema for the answer, or the
    answer that was given.
    """
    assembly = app.assembly()
    if item_id:
        if item_id[:-1] not in ((), ("show",)):
            raise UserError("`pending show` takes one ID", hint=f"bridgehead pending show {item_id[-1]}")
        with assembly.store(read_only=True) as store:
            item = pending_list(assembly, store, app.warn).find(item_id[-1])
        app.emit({"item": msgspec.to_builtins(item)}, lambda: question_text(item, SystemClock().now()))
        return
    where = PendingFilter(
        states=() if everything else (PendingState.OPEN,),
        kinds=tuple(PendingKind(kind) for kind in kinds),
        project=assembly.project if here else None,
    )
    with assembly.store(read_only=True) as store:
        items = pending_list(assembly, store, app.warn).items(where, limit=limit)
    app.emit(
        {"items": [msgspec.to_builtins(item) for item in items]}, lambda: _table(items, SystemClock().now(), app.width)
    )


@click.command(
    cls=Command,
    examples=(
        "bridgehead answer q-12 --file reply.txt",
        "bridgehead answer q-9 retry",
        "agent < prompt.txt | bridgehead answer q-12 -",
        'bridgehead answer q-12 --status cancelled --message "no longer needed"',
    ),
)
@click.argument("item_id", metavar="ID")
@click.argument("text", required=False)
@click.option("--file", "path", type=click.Path(path_type=Path), help="Read the answer from this file.")
@click.option("--status", type=click.Choice([str(status) for status in AnswerStatus]), help="Default: success.")
@click.option("--message", help="Why there is no answer (with --status error or cancelled).")
@click.option("--by", help="Name to record; default: your user name.")
@click.pass_obj
def answer(
    app: App, item_id: str, text: str | None, path: Path | None, status: str | None, message: str | None, by: str | None
) -> None:
    """Answer a pending item. TEXT `-` reads standard input; without TEXT, the question is shown.

    A request takes the response text, a halted runtime `retry` or `skip`, an approval `yes` or `no`. A waiting flow
    continues with `flow resume`; `flow watch` and `bridgehead web` resume it for you.
    """
    chosen = AnswerStatus(status) if status else AnswerStatus.SUCCESS
    _refuse_contradiction(chosen, has_text=text is not None or path is not None, has_message=message is not None)
    given = Answer(
        status=chosen,
        text=_answer_text(text, path),
        message=message,
        by=by or user_name(),
        at=iso_ms(SystemClock().now()),
    )
    assembly = app.assembly()
    with assembly.store() as store:
        waiting = pending_list(assembly, store, app.warn)
        if text is None and path is None and status is None:
            item = waiting.find(item_id)
            app.say(question_text(item, SystemClock().now()).rstrip("\n"))
            raise UserError(f"{item.id} was not answered: the answer is empty", hint=_how(item))
        item = waiting.answer(item_id, given)
    app.emit({"item": msgspec.to_builtins(item)}, lambda: f"{item.id} answered: {one_line(item.question.title)}")


def _refuse_contradiction(status: AnswerStatus, *, has_text: bool, has_message: bool) -> None:
    succeeded = status is AnswerStatus.SUCCESS
    if (succeeded and has_message) or (not succeeded and has_text):
        raise UserError("an answer is either a text, or --status error|cancelled with a --message that says why")


def _answer_text(text: str | None, path: Path | None) -> str | None:
    if text is not None and path is not None:
        raise UserError("give the answer as TEXT or with --file, not both")
    if path is None and text != "-":
        return text
    return read_text(path or "-", MAX_ANSWER_BYTES, hint="give a file, or `-` for standard input")


def _table(items: Sequence[PendingItem], now: datetime, width: int) -> str:
    if not items:
        return "nothing is waiting\n"
    rows = [("id", "since", "from", "what", "answer with")]
    for council, parts in grouped(items):
        if council is not None:
            after = f"each part, then bridgehead council resume {council}"
            rows.append(("", _since(parts[0], now), "council", f"council {council}: {len(parts)} parts", after))
        rows += [_row(item, now, "  " if council else "") for item in parts]
    return columns(rows, width=width, flexible=3)


def question_text(item: PendingItem, now: datetime) -> str:
    """The question as a person reads it; what others wrote is shown escaped, line by line."""
    question = item.question
    asker = escape_controls(one_line(question.origin))
    place = f" in {escape_controls(question.project)}" if question.project else ""
    facts = [f"{item.id}  {escape_controls(one_line(question.title))}"]
    facts.append(f"  from {asker}{place}, {ago(parse_iso(item.opened_at), now)} ago, {item.state}")
    if question.expires_at:
        facts.append(f"  expires {escape_controls(question.expires_at)}")
    parts = ["\n".join(facts)]
    if question.prompt.strip():
        parts.append("\n".join(f"  {escape_controls(line)}" for line in question.prompt.strip().splitlines()))
    if question.offers:
        parts.append("choices: " + " | ".join(escape_controls(one_line(choice)) for choice in question.offers))
    elif question.schema is not None and SAYS_SCHEMA not in question.prompt:
        shown = msgspec.json.format(msgspec.json.encode(question.schema), indent=2).decode()
        lines = "\n".join(f"  {escape_controls(line)}" for line in shown.splitlines())
        parts.append(f"the answer is JSON that obeys this schema:\n{lines}")
    if item.state is PendingState.OPEN:
        parts.append(f"answer with: {escape_controls(_how(item))}")
    else:
        given = (item.answer and (item.answer.text or item.answer.message)) or ""
        told = [escape_controls(_how(item)) + (":" if given else "")]
        parts.append("\n".join(told + [f"  {escape_controls(line)}" for line in given.splitlines()]))
    return "\n\n".join(parts) + "\n"


def _row(item: PendingItem, now: datetime, indent: str) -> tuple[str, str, str, str, str]:
    question = item.question
    origin, title, how = (escape_controls(one_line(cell)) for cell in (question.origin, question.title, _how(item)))
    return indent + item.id, _since(item, now), origin, title, how


def _since(item: PendingItem, now: datetime) -> str:
    return ago(parse_iso(item.opened_at), now)


def _how(item: PendingItem) -> str:
    if item.state is not PendingState.OPEN:
        by = f" by {item.answer.by}" if item.answer and item.answer.by else ""
        return f"{item.state}{by}"
    question = item.question
    reply = "|".join(question.offers) or "--file FILE"
    command = f"bridgehead answer {item.id} {reply}"
    return f"{question.advice}, then {command}" if question.advice else command
