"""`bridgehead events`: what happened, in order; with --follow as it happens."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import click
import msgspec

from bridgehead.assembly.application import Assembly
from bridgehead.cli.click_classes import Command
from bridgehead.cli.output import App, columns, one_line
from bridgehead.contract.events import RecordedEvent
from bridgehead.contract.record_words import Part
from bridgehead.control_plane.records import EventFilter
from bridgehead.host.clock import parse_iso
from bridgehead.host.terminal import escape_controls


@click.command(
    cls=Command,
    examples=(
        "bridgehead events",
        "bridgehead events --part rigs --here --limit 50",
        "bridgehead events --follow --json | jq .kind",
    ),
)
@click.option("--follow", "-f", is_flag=True, help="Go on printing events as they are recorded.")
@click.option(
    "--limit", "-n", type=click.IntRange(1, 10_000), default=20, show_default=True, help="The newest N."
)
@click.option(
    "--after", type=click.IntRange(min=0), metavar="SEQ", help="Those after this number, the oldest first."
)
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Only this kind; repeatable.")
@click.option(
    "--part", "parts", multiple=True, type=click.Choice([str(part) for part in Part]), help="Only this part."
)
@click.option("--run", "run_id", metavar="ID", help="Only of this run.")
@click.option("--here", is_flag=True, help="Only of the project in this directory.")
@click.pass_obj
def events(
    app: App,
    follow: bool,
    limit: int,
    after: int | None,
    kinds: tuple[str, ...],
    parts: tuple[str, ...],
    run_id: str | None,
    here: bool,
) -> None:
    """Print what happened in all parts of the product, the newest last.

    The record is append-only; SEQ numbers never repeat, so `--after` continues where a reader stopped.
    """
    assembly = Assembly(app.cwd, app.environ, warn=app.warn)
    where = EventFilter(
        kinds=kinds,
        parts=tuple(Part(part) for part in parts),
        run_id=run_id,
        project=assembly.project if here else None,
    )
    with assembly.store(read_only=not follow) as store:
        if after is None:
            shown = list(reversed(store.events(where, limit=limit, newest_first=True)))
        else:
            shown = store.events(where, after=after, limit=limit)
        if not follow:
            document = {"events": [as_document(recorded) for recorded in shown], "last_seq": store.last_seq()}
            app.emit(document, lambda: _table(shown, app.width))
            return
        for recorded in shown:
            _print_one(app, recorded)
        newest = shown[-1].seq if shown else (after if after is not None else store.last_seq())
        for recorded in store.follow(newest, stop=threading.Event(), where=where):
            _print_one(app, recorded)


def as_document(recorded: RecordedEvent) -> dict[str, Any]:
    """An event with its number, as --json prints it."""
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
    facts = " ".join(f"{key}={_short(value)}" for key, value in event.data.items())
    return str(recorded.seq), f"{local:%m-%d %H:%M:%S}", event.kind, escape_controls(one_line(facts))


def _short(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
