"""`bridgehead events`: what happened, in order, or as it happens.

`bridgehead record`: the file all of it is in.

`pending` and `answer` are declared here and done in commands/pending.py.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from bridgehead.cli.click_classes import Command, Group
from bridgehead.cli.commands.pending import (
    LIMIT,
    answer_of,
    give_answer,
    show_item,
    show_list,
)
from bridgehead.cli.output import App, columns, json_line, one_line, read_text
from bridgehead.contract.events import RecordedEvent
from bridgehead.contract.record_words import (
    AnswerStatus,
    Part,
    PendingKind,
    PendingState,
)
from bridgehead.control_plane.records import EventFilter, PendingFilter
from bridgehead.control_plane.stores.failures import RecordDamaged
from bridgehead.errors import UserError
from bridgehead.exit_codes import ExitCode
from bridgehead.host.clock import iso_ms, parse_iso
from bridgehead.host.terminal import escape_controls

if TYPE_CHECKING:
    from bridgehead.control_plane.stores.inspection import Inspection

MAX_ANSWER_BYTES = 50 * 1024 * 1024


def _moment(
    _context: click.Context, option: click.Parameter, given: str | None
) -> str | None:
    """Return a day or a time, as people write it, here where they are.

    In UTC as the record has it.
    """
    try:
        return iso_ms(datetime.fromisoformat(given).astimezone()) if given else None
    except ValueError as error:
        raise UserError(
            f"--{option.name} {given}: not a day or time",
            hint="write 2026-11-15 or 2026-11-15T10:15",
        ) from error


@click.command(
    cls=Command,
    examples=(
        "bridgehead events",
        "bridgehead events --since 2026-11-15 --text refused --json > events.json",
        "bridgehead events --part rigs --here --limit 50",
        "bridgehead events --follow --json | jq .kind",
    ),
)
@click.option("--follow", "-f", is_flag=True, help="Keep printing new events.")
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    help="At most N.",
)
@click.option(
    "--after",
    type=click.IntRange(min=0),
    metavar="SEQ",
    help="Show events after this number, oldest first.",
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="KIND",
    help="Show only this kind; repeatable.",
)
@click.option(
    "--part",
    "parts",
    multiple=True,
    type=click.Choice([str(part) for part in Part]),
    help="Only this part.",
)
@click.option("--run", "run_id", metavar="ID", help="Show only this run.")
@click.option("--here", is_flag=True, help="Only items of the current project.")
@click.option(
    "--since",
    metavar="TIME",
    callback=_moment,
    help="Not before this day or time, such as 2026-11-15.",
)
@click.option(
    "--until", metavar="TIME", callback=_moment, help="Before this day or time."
)
@click.option(
    "--text",
    default="",
    metavar="TEXT",
    help="Only events that contain TEXT, ignoring case.",
)
@click.pass_obj
def events(
    app: App,
    /,
    follow: bool,
    limit: int,
    after: int | None,
    kinds: tuple[str, ...],
    parts: tuple[str, ...],
    run_id: str | None,
    here: bool,
    **limits: Any,
) -> None:
    """Show the event log of all parts, newest last.

    The log is append-only and its numbers are never reused, so `--after` continues
    where a reader stopped.
    """
    assembly = app.assembly()
    where = EventFilter(
        kinds=kinds,
        parts=tuple(Part(part) for part in parts),
        run_id=run_id,
        project=assembly.project if here else None,
        **limits,
    )
    with assembly.store(read_only=not follow) as store:
        if after is None:
            shown = list(reversed(store.events(where, limit=limit, newest_first=True)))
        else:
            shown = store.events(where, after=after, limit=limit)
        if not follow:
            document = {
                "events": [as_document(recorded) for recorded in shown],
                "last_seq": store.last_seq(),
            }
            app.emit(document, lambda: _table(shown, app.width))
            return
        for recorded in shown:
            _print_one(app, recorded)
        if shown:
            newest = shown[-1].seq
        elif after is not None:
            newest = after
        else:
            newest = store.last_seq()
        for recorded in store.follow(newest, stop=threading.Event(), where=where):
            _print_one(app, recorded)


def as_document(recorded: RecordedEvent) -> dict[str, Any]:
    """Return an event with its number, as --json prints it."""
    document: dict[str, Any] = msgspec.to_builtins(recorded.event)
    return {"seq": recorded.seq, **document}


def _print_one(app: App, recorded: RecordedEvent) -> None:
    app.emit(as_document(recorded), lambda: "  ".join(_row(recorded)).rstrip())


def _table(shown: Sequence[RecordedEvent], width: int) -> str:
    if not shown:
        return "no events yet\n"
    return columns([_row(recorded) for recorded in shown], width=width, flexible=3)


def _row(recorded: RecordedEvent) -> tuple[str, str, str, str]:
    event = recorded.event
    local = parse_iso(event.at).astimezone()
    texts = {
        key: v if isinstance(v, str) else msgspec.json.encode(v).decode()
        for key, v in event.data.items()
    }
    facts = " ".join(f"{key}={text}" for key, text in texts.items())
    return (
        str(recorded.seq),
        f"{local:%m-%d %H:%M:%S}",
        event.kind,
        escape_controls(one_line(facts)),
    )


@click.group(cls=Group)
def record() -> None:
    """Check, back up, export and prune the record that all parts write to."""


@record.command(examples=("bridgehead record check", "bridgehead record check --json"))
@click.pass_obj
def check(app: App) -> int:
    """Verify the whole record. Exits 2 if it is damaged.

    A damaged record accepts no more events: commands that would write to it fail and
    say so until a check passes.
    """
    from bridgehead.control_plane.stores.inspection import check as check_record

    found = check_record(app.assembly().record_url)
    document = {
        "record": found.where,
        "whole": not found.damage,
        "damage": list(found.damage),
    }
    app.emit(
        {**document, "counts": dict(found.counts), "note": found.note},
        lambda: _checked(found),
    )
    return ExitCode.FAILURE if found.damage else ExitCode.DONE


@record.command(examples=("bridgehead record backup ~/backups/record-2026-11-15.db",))
@click.argument("file", type=click.Path(path_type=Path))
@click.pass_obj
def backup(app: App, file: Path) -> None:
    """Copy the record to FILE, even while it is in use. The copy is verified; an
    existing FILE is never overwritten.

    To restore: stop everything that uses the record, move it and the files beside it
    away (record.db-wal, record.db-shm, record.db.damaged), copy FILE to its place and
    run `bridgehead record check`.
    """
    from bridgehead.control_plane.stores.inspection import back_up

    copied = back_up(app.assembly().record_url, app.cwd / file)
    document = {"backup": copied.where, "counts": dict(copied.counts)}
    app.emit(
        document,
        lambda: f"copied to {escape_controls(copied.where)}: {_amounts(copied.counts)}",
    )


@record.command(
    examples=(
        "bridgehead record prune --days 90 --dry-run",
        "bridgehead record prune",
        "bridgehead record prune --days 30",
    )
)
@click.option(
    "--days",
    type=float,
    help="Delete what ended more than this many days ago; default: store.keep_days.",
)
@click.option("--dry-run", is_flag=True, help="Show how much would be deleted.")
@click.pass_obj
def prune(app: App, days: float | None, dry_run: bool) -> None:
    """Delete events, ended runs and answered items that are older than a number of
    days, and the prompts, replies, logs and reports of this project's old councils.

    Never deleted: open items, runs that wait or have not ended, their events, the
    latest run of each project, and councils in council.pinned. The files of flows stay;
    `council gate` and `rig verify --require-council` cannot confirm a report whose
    council was deleted. To keep what you delete, make a copy first: bridgehead record
    backup FILE.
    """
    from bridgehead.assembly.council.retention import limits_of, prune_councils
    from bridgehead.assembly.event_writer import KEEP_DAYS, kept_since
    from bridgehead.control_plane.stores.inspection import inspect
    from bridgehead.host.clock import SystemClock

    assembly = app.assembly()
    clock = SystemClock()
    before = kept_since(assembly.settings, days)
    limits = limits_of(assembly.settings, clock, days)
    if before is None and limits.keep_everything:
        raise UserError(
            "prune needs --days",
            hint=f"bridgehead record prune --days 90, or set {KEEP_DAYS}",
        )
    found = inspect(assembly.record_url, quick=True)
    if found.damage:
        raise RecordDamaged(found.where, found.damage[0])
    councils = prune_councils(assembly, limits, clock, dry_run=dry_run)
    deleted = dict.fromkeys(found.counts, 0)
    if found.counts and before is not None:
        with assembly.store(read_only=dry_run) as store:
            deleted |= store.prune(before, dry_run=dry_run)
            if any(deleted.values()) and not dry_run:
                store.compact()
    amounts = "nothing"
    if deleted or councils:
        amounts = _amounts({**deleted, "councils": len(councils)})
    verb = "would delete" if dry_run else "deleted"
    document = {
        "before": before,
        "deleted": deleted,
        "councils": councils,
        "dry_run": dry_run,
    }
    since = f" from before {before[:10]}" if before is not None else ""
    app.emit(document, lambda: f"{verb} {amounts}{since}")


@record.command(
    examples=(
        "bridgehead record export --output record.jsonl",
        "bridgehead record export | jq -c 'select(.table == \"events\") | .row'",
    )
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    help="Write to this new file instead of stdout.",
)
@click.pass_obj
def export(app: App, output: Path | None) -> int:
    """Export every event, run and pending item as JSON lines, even from a damaged
    record. Exits 2 if it is damaged.

    A line has `table`, `row` and, for a damaged row, `damage`. Damage to the record
    itself comes first, in lines without a row.
    """
    from bridgehead.control_plane.stores.inspection import TABLES
    from bridgehead.control_plane.stores.inspection import export as export_rows
    from bridgehead.host.file_errors import translated

    counts = dict.fromkeys(TABLES, 0)
    damaged = 0
    with ExitStack() as stack:
        stream = app.stdout
        if output is not None:
            with translated(output, "written"):
                private = partial(os.open, mode=0o600)
                file = open(app.cwd / output, "x", encoding="utf-8", opener=private)  # noqa: SIM115
            stream = stack.enter_context(file)
        for row in export_rows(app.assembly().record_url):
            if row.table is not None:
                counts[row.table] += row.document is not None
            damaged += row.damage is not None
            document = {"table": row.table, "row": row.document}
            stream.write(
                json_line(
                    document
                    if row.damage is None
                    else {**document, "damage": row.damage}
                )
            )
        stream.flush()
    app.say(
        f"exported {_amounts(counts)}"
        + (f"; damaged places: {damaged}" if damaged else "")
    )
    return ExitCode.FAILURE if damaged else ExitCode.DONE


def _checked(found: Inspection) -> str:
    if found.note and not found.counts and not found.damage:
        return escape_controls(f"{found.where}: {found.note}")
    state = "damaged" if found.damage else "intact"
    amounts = f": {_amounts(found.counts)}" if found.counts else ""
    lines = [
        f"{found.where} is {state}{amounts}",
        *found.damage,
        *([found.note] if found.note else []),
    ]
    hint = [f"  hint: {RecordDamaged(found.where, '').hint}"] if found.damage else []
    return "\n".join([*map(escape_controls, lines), *hint])


def _amounts(counts: Mapping[str, int]) -> str:
    names = {
        "events": "event",
        "runs": "run",
        "pending": "pending item",
        "councils": "council",
    }
    return ", ".join(
        f"{count} {names[table]}{'' if count == 1 else 's'}"
        for table, count in counts.items()
    )


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
@click.option(
    "--all", "everything", is_flag=True, help="Include answered and withdrawn items."
)
@click.option("--here", is_flag=True, help="Only items of the current project.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice([str(kind) for kind in PendingKind]),
    help="Only this kind.",
)
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(1, 10_000),
    default=LIMIT,
    show_default=True,
    help="At most N.",
)
@click.pass_obj
def pending(
    app: App,
    item_id: tuple[str, ...],
    everything: bool,
    here: bool,
    kinds: tuple[str, ...],
    limit: int,
) -> None:
    """List what is waiting for an answer: flow requests, halted runtimes, envelopes,
    bus approvals.

    With `show ID` (or only the ID), show the whole question with its choices and the
    schema for the answer, or the answer that was given.
    """
    if item_id:
        if item_id == ("show",) or item_id[:-1] not in ((), ("show",)):
            raise UserError(
                "`pending show` takes one ID",
                hint="`bridgehead pending` lists the open items",
            )
        return show_item(app, item_id[-1])
    where = PendingFilter(
        states=() if everything else (PendingState.OPEN,),
        kinds=tuple(PendingKind(kind) for kind in kinds),
        project=app.assembly(warns=False).project if here else None,
    )
    return show_list(app, where, limit)


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
@click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path),
    help="Read the answer from this file.",
)
@click.option(
    "--status",
    type=click.Choice([str(status) for status in AnswerStatus]),
    help="Default: success.",
)
@click.option(
    "--message", help="Why there is no answer (with --status error or cancelled)."
)
@click.option("--by", help="Name to record; default: your user name.")
@click.pass_obj
def answer(
    app: App,
    item_id: str,
    text: str | None,
    path: Path | None,
    status: str | None,
    message: str | None,
    by: str | None,
) -> None:
    """Answer a pending item. TEXT `-` reads standard input; without TEXT, the question
    is shown.

    A request takes the response text, a halted runtime `retry` or `skip`, an approval
    `yes` or `no`. A waiting flow continues with `flow resume`; `flow watch` and
    `bridgehead web` resume it for you.
    """
    chosen = AnswerStatus(status) if status else AnswerStatus.SUCCESS
    has_text = text is not None or path is not None
    if message is not None if chosen is AnswerStatus.SUCCESS else has_text:
        raise UserError(
            "an answer is either a text, or --status error|cancelled with a --message "
            "that says why"
        )
    given = answer_of(_answer_text(text, path), chosen, message, by)
    give_answer(app, item_id, given if has_text or status is not None else None)


def _answer_text(text: str | None, path: Path | None) -> str | None:
    if text is not None and path is not None:
        raise UserError("give the answer as TEXT or with --file, not both")
    if path is None and text != "-":
        return text
    return read_text(
        path or "-", MAX_ANSWER_BYTES, hint="give a file, or `-` for standard input"
    )
