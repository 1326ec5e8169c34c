"""The templates: everything escaped, invisible characters spelled out, the time and the numbers as people read them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from bridgehead.council.render.notes import notes
from bridgehead.council.render.reasons import reason_in_words
from bridgehead.council.render.telling import visible
from bridgehead.dashboard import moments
from bridgehead.dashboard.happenings import page_of
from bridgehead.dashboard.static_files import address_of

MOST_ID: Final = 16
_PLAIN: Final = re.compile(r"[\t\n -~]*")
_DATED: Final = re.compile(r"\d{8}-\w+")


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
    made.filters.update(ago=_ago, clock=_clock, span=moments.span, number=number, short=short_id)
    made.filters.update(why=reason_in_words, sentences=sentences, page=page_of)
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


def number(value: float | None, digits: int = 0) -> str:
    """`12,345`; a dash for what nobody knows."""
    return "–" if value is None else f"{value:,.{digits}f}"


def short_id(run_id: str) -> str:
    """The part of an id that people say: `20261115-101502` is `101502`; of a long one the end."""
    if _DATED.fullmatch(run_id):
        return run_id.rsplit("-", 1)[-1]
    return run_id if len(run_id) <= MOST_ID else f"…{run_id[-MOST_ID:]}"


@pass_context
def _clock(context: Context, moment: str) -> Markup:
    return moments.clock(moment, context["now"])


@pass_context
def _ago(context: Context, moment: str | None) -> Markup:
    return moments.ago(moment, context["now"])
