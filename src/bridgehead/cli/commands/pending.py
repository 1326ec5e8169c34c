"""`bridgehead pending` and `answer`: what waits for someone, and the one answer it
takes. Declared in `record`.

Without click, which takes longer to import than most lists take to read.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from bridgehead.assembly.pending import (
    NO_EVIDENCE,
    council_of,
    grouped,
    pending_list,
)
from bridgehead.cli.output import App, ago, columns, one_line, user_name
from bridgehead.contract.doors import Door, Evidence, asks_for_person, decide_door
from bridgehead.contract.pending import SAYS_SCHEMA, Answer, PendingItem
from bridgehead.contract.record_words import AnswerStatus, Part, PendingState
from bridgehead.control_plane.records import PendingFilter
from bridgehead.errors import UserError
from bridgehead.host.clock import SystemClock, iso_ms, parse_iso
from bridgehead.host.terminal import escape_controls

LIMIT = 50
PLAIN = {"integer": "NUMBER", "number": "NUMBER", "boolean": "true|false"}


def show_list(app: App, where: PendingFilter, limit: int) -> None:
    assembly = app.assembly()
    with assembly.store(read_only=True) as store:
        items = pending_list(assembly, store, app.warn).items(where, limit=limit)
    app.emit(
        {"items": [msgspec.to_builtins(item) for item in items]},
        lambda: _table(items, SystemClock().now(), app.width),
    )


def show_item(app: App, item_id: str) -> None:
    assembly = app.assembly()
    with assembly.store(read_only=True) as store:
        item = pending_list(assembly, store, app.warn).find(item_id)
    app.emit(
        {"item": msgspec.to_builtins(item)},
        lambda: question_text(item, SystemClock().now()),
    )


def answer_of(
    text: str | None,
    status: AnswerStatus = AnswerStatus.SUCCESS,
    message: str | None = None,
    by: str | None = None,
) -> Answer:
    """Return an answer given now, by this user unless another name is given."""
    return Answer(
        status=status,
        text=text,
        message=message,
        by=by or user_name(),
        at=iso_ms(SystemClock().now()),
    )


def give_answer(app: App, item_id: str, given: Answer | None) -> None:
    """Answer an item; without an answer the question is shown."""
    assembly = app.assembly()
    with assembly.store() as store:
        waiting = pending_list(assembly, store, app.warn)
        if given is None:
            item = waiting.find(item_id)
            app.insist(question_text(item, SystemClock().now()).rstrip("\n"))
            raise UserError(
                f"{item.id} was not answered: the answer is empty", hint=_how(item)
            )
        asked = waiting.find(item_id)
        evidence = NO_EVIDENCE
        if asks_for_person(asked.question) and asked.state is PendingState.OPEN:
            shown = question_text(asked, SystemClock().now())
            evidence = evidence_of(app, asked.id, shown, given.text or given.message)
        item = waiting.answer(item_id, given, Door.COMMAND, evidence)
    app.emit(
        {"item": msgspec.to_builtins(item)},
        lambda: f"{item.id} answered: {one_line(item.question.title)}",
    )
    if not app.as_json and (told := _next(item)):
        app.say(told)


def evidence_of(app: App, item_id: str, question: str, answer: str | None) -> Evidence:
    """Return what is known of whoever runs this command, and what a person says about
    the answer at the terminal.
    """
    from bridgehead.host.person import confirm_at_terminal, has_terminal, known_agent

    evidence = Evidence(known_agent(app.environ), has_terminal())
    if decide_door(Door.COMMAND, True, evidence, item_id).must_confirm:
        lines = (answer or "").splitlines()
        given = "\n".join(f"  {escape_controls(line)}" for line in lines)
        text = f"{question}\nyour answer:\n{given}\n\ngive this answer? [y/N] "
        evidence = msgspec.structs.replace(
            evidence, confirmed=confirm_at_terminal(text)
        )
    return evidence


def _table(items: Sequence[PendingItem], now: datetime, width: int) -> str:
    if not items:
        return "nothing is waiting\n"
    rows = [("id", "since", "from", "what", "answer with")]
    for council, parts in grouped(items):
        if council is not None:
            since = ago(parse_iso(parts[0].opened_at), now)
            what = f"council {council}: {len(parts)} parts"
            rows.append(
                (
                    "",
                    since,
                    "council",
                    what,
                    f"each part, then bridgehead council resume {council}",
                )
            )
        rows += [_row(item, now, "  " if council else "") for item in parts]
    return columns(rows, width=width, flexible=3)


def question_text(item: PendingItem, now: datetime) -> str:
    """Return the question as a person reads it.

    What others wrote is shown escaped, line by line.
    """
    question = item.question
    parts = ["\n".join(_facts(item, now))]
    if question.prompt.strip():
        parts.append(_indented(question.text.strip()))
    if question.offers:
        choices = [escape_controls(one_line(choice)) for choice in question.offers]
        parts.append(f"choices: {' | '.join(choices)}")
    elif question.schema is not None and SAYS_SCHEMA not in question.prompt:
        schema = msgspec.json.encode(question.schema)
        lines = _indented(msgspec.json.format(schema, indent=2).decode())
        parts.append(f"the answer is JSON that obeys this schema:\n{lines}")
    how = escape_controls(_how(item))
    if item.state is PendingState.OPEN:
        parts.append(f"answer with: {how}")
    else:
        answer = item.answer
        text = (answer.text or answer.message) if answer else None
        parts.append(f"{how}:\n{_indented(text)}" if text else how)
    return "\n\n".join(parts) + "\n"


def _facts(item: PendingItem, now: datetime) -> list[str]:
    """Return who asks what, where and since when, as lines."""
    question = item.question
    asker = escape_controls(one_line(question.origin))
    place = f" in {escape_controls(question.project)}" if question.project else ""
    since = ago(parse_iso(item.opened_at), now)
    lines = [
        f"{item.id}  {escape_controls(one_line(question.title))}",
        f"  from {asker}{place}, {since} ago, {item.state}",
    ]
    if question.expires_at:
        lines.append(f"  expires {escape_controls(question.expires_at)}")
    for name, value in question.details.items():
        lines.append(f"  {escape_controls(one_line(f'{name}: {value}'))}")
    return lines


def _indented(text: str) -> str:
    return "\n".join(f"  {escape_controls(line)}" for line in text.splitlines())


def _row(
    item: PendingItem, now: datetime, indent: str
) -> tuple[str, str, str, str, str]:
    question = item.question
    origin, title, how = (
        escape_controls(one_line(cell))
        for cell in (question.origin, question.title, _how(item))
    )
    return indent + item.id, ago(parse_iso(item.opened_at), now), origin, title, how


def _next(item: PendingItem) -> str | None:
    """Return how what waited goes on, where somebody has to see to it."""
    from shlex import quote

    if council := council_of(item):
        return f"to continue with it: bridgehead council resume {council}"
    root = str(item.question.context.get("root", ""))
    # In a fleet, a worker sees to it.
    if not item.question.run_id or not root.startswith("/"):
        return None
    return (
        "`flow watch` or `web` resumes the run; to do it now: bridgehead flow resume "
        f"--dir {quote(root)}"
    )


def _how(item: PendingItem) -> str:
    if item.state is not PendingState.OPEN:
        by = f" by {item.answer.by}" if item.answer and item.answer.by else ""
        return f"{item.state}{by}"
    question = item.question
    # What people are asked by voice is short.
    text = "TEXT" if question.part is Part.BUS else "--file FILE"
    reply = "|".join(question.offers) or PLAIN.get(
        str((question.schema or {}).get("type")), text
    )
    return (
        f"{question.advice}, then " if question.advice else ""
    ) + f"bridgehead answer {item.id} {reply}"
