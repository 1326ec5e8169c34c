"""Provide the templates and static files of the pages, and filters for templates."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from bridgehead.contract.looks import Look
from bridgehead.council.reporting.not_looked_at import not_looked_at_lines
from bridgehead.council.reporting.render.sentences import (
    notes,
    reason_in_words,
    visible,
)
from bridgehead.dashboard.recent import page_of
from bridgehead.host.clock import UNITS, parse_iso, rough

MOST_ID: Final = 16
_PLAIN: Final = re.compile(r"[\t\n -~]*")
_DATED: Final = re.compile(r"\d{8}-\w+|flow-\d{8}-\d{6}-\w+")

KINDS: Final = {
    "style.css": "text/css",
    "theme.js": "text/javascript",
    "live.js": "text/javascript",
}
_FOREVER: Final = "public, max-age=31536000, immutable"


@cache
def environment() -> Environment:
    """Return the environment; templates are compiled when first used."""
    templates = Environment(
        loader=PackageLoader("bridgehead.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(
        ago=ago, clock=clock, span=span, number=number, short=short_id
    )
    templates.filters.update(why=reason_in_words, sentences=sentences, page=page_of)
    templates.filters.update(not_looked_at=not_looked_at)
    templates.globals.update(static=address_of)
    return templates


def shown(value: Any) -> Any:
    """Return text with control and direction characters as `[U+202E]`.

    Foreign text must not be able to hide anything.
    """
    if type(value) is str and not _PLAIN.fullmatch(value):
        return visible(value)
    return value


def sentences(warnings: Iterable[str]) -> list[str]:
    """Return a report's warnings as sentences; an unknown one stays a code."""
    return list(notes(warnings, codes=True))


def not_looked_at(looks: object) -> list[str]:
    """Return sentences about the parts of a stored report that were not looked at."""
    return not_looked_at_lines(msgspec.convert(looks, list[Look]))


def spelled(value: object) -> str:
    """Return a text unchanged, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def number(value: float | None, digits: int = 0) -> str:
    """Return a number as `12,345`; a dash for None."""
    return "–" if value is None else f"{value:,.{digits}f}"


def short_id(run_id: str) -> str:
    """Return the last part of a dated id, or the end of a long one.

    For `20261115-101502` that is `101502`.
    """
    if _DATED.fullmatch(run_id):
        return run_id.rsplit("-", 1)[-1]
    return run_id if len(run_id) <= MOST_ID else f"…{run_id[-MOST_ID:]}"


def span(seconds: float) -> str:
    """Return a duration in at most two units: `41 s`, `2 min 5 s`, `3 h 10 min`."""
    total = max(0, round(seconds))
    for position, (unit, length) in enumerate(UNITS):
        if total < length:
            continue
        text = f"{total // length} {unit}"
        smaller_unit, size = (*UNITS[position + 1 :], ("s", 1))[0]
        remainder = total % length // size
        return f"{text} {remainder} {smaller_unit}" if remainder else text
    return f"{total} s"


@pass_context
def ago(context: Context, moment: str | None) -> Markup:
    """Return `2 min ago`, with the exact time on hover; other text unchanged."""

    def words(then: datetime) -> str:
        passed = (context["now"] - then).total_seconds()
        if abs(passed) < 1:
            return "now"
        if passed < 0:
            return f"in {rough(-passed)}"
        return f"{rough(passed)} ago"

    return _time(moment, words) if moment else Markup("")


@pass_context
def clock(context: Context, moment: str) -> Markup:
    """Return `10:15:02`, or day and time for another day; the exact time on hover."""
    today = context["now"].date()

    def words(then: datetime) -> str:
        return f"{then:%H:%M:%S}" if then.date() == today else f"{then:%m-%d %H:%M}"

    return _time(moment, words)


def _time(moment: str, words: Callable[[datetime], str]) -> Markup:
    try:
        then = parse_iso(moment)
    except ValueError:
        return Markup("{}").format(visible(moment))
    exact = f"{then:%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        moment, exact, words(then)
    )


@dataclass(frozen=True, slots=True)
class StaticFile:
    content: bytes
    kind: str
    version: str


@cache
def static_file(name: str) -> StaticFile:
    content = (
        resources.files("bridgehead.dashboard").joinpath("static", name).read_bytes()
    )
    return StaticFile(content, KINDS[name], hashlib.sha256(content).hexdigest()[:12])


def address_of(name: str) -> str:
    """Return the address of a static file; each version has its own."""
    return f"/static/{name}?v={static_file(name).version}"


async def serve_static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in KINDS:
        raise HTTPException(404)
    found = static_file(name)
    current = request.query_params.get("v") == found.version
    return Response(
        found.content,
        media_type=found.kind,
        headers={"Cache-Control": _FOREVER if current else "no-cache"},
    )
