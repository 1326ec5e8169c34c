"""Templates and static files of the pages, and how they spell times and ages."""

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
    """The one environment; templates are compiled when first used."""
    made = Environment(
        loader=PackageLoader("bridgehead.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(ago=ago, clock=clock, span=span, number=number, short=short_id)
    made.filters.update(why=reason_in_words, sentences=sentences, page=page_of)
    made.filters.update(not_looked_at=not_looked_at)
    made.globals.update(static=address_of)
    return made


def shown(value: Any) -> Any:
    """Foreign text must not hide: control and direction characters are spelled out as `[U+202E]`."""
    if type(value) is str and not _PLAIN.fullmatch(value):
        return visible(value)
    return value


def sentences(warnings: Iterable[str]) -> list[str]:
    """A report's warnings as people read them; what has no words of its own stays a code."""
    return list(notes(warnings, codes=True))


def not_looked_at(looks: object) -> list[str]:
    """Return the looks of a stored report that did not come to their end, in words."""
    return not_looked_at_lines(msgspec.convert(looks, list[Look]))


def spelled(value: object) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def number(value: float | None, digits: int = 0) -> str:
    """`12,345`; a dash for what nobody knows."""
    return "–" if value is None else f"{value:,.{digits}f}"


def short_id(run_id: str) -> str:
    """The part of an id that people say: `20261115-101502` is `101502`; of a long one the end."""
    if _DATED.fullmatch(run_id):
        return run_id.rsplit("-", 1)[-1]
    return run_id if len(run_id) <= MOST_ID else f"…{run_id[-MOST_ID:]}"


def span(seconds: float) -> str:
    """`41 s`, `2 min 5 s`, `3 h 10 min`: two units at most."""
    whole = max(0, round(seconds))
    for position, (unit, length) in enumerate(UNITS):
        if whole >= length:
            smaller, size = (*UNITS[position + 1 :], ("s", 1))[0]
            rest = whole % length // size
            return f"{whole // length} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


@pass_context
def ago(context: Context, moment: str | None) -> Markup:
    """`2 min ago` with the exact moment on hover; what is no moment is shown as it is."""

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
    """`10:15:02`, with the day in front on another day; everything on hover."""
    today = context["now"].date()
    return _time(
        moment,
        lambda then: (
            f"{then:%H:%M:%S}" if then.date() == today else f"{then:%m-%d %H:%M}"
        ),
    )


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
    """Where a page finds the file; another version has another address."""
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
