"""The templates: everything escaped, invisible characters spelled out, the time and the numbers as people read them."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from bridgehead.council.render.telling import visible
from bridgehead.dashboard import moments
from bridgehead.dashboard.static_files import address_of

_PLAIN: Final = re.compile(r"[\t\n -~]*")


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
    made.filters.update(ago=_ago, clock=moments.clock, span=moments.span, number=number, short=short_id)
    made.globals.update(static=address_of)
    return made


def shown(value: Any) -> Any:
    """Foreign text must not hide: control and direction characters are spelled out as `[U+202E]`."""
    if type(value) is str and not _PLAIN.fullmatch(value):
        return visible(value)
    return value


def number(value: float | None, digits: int = 0) -> str:
    """`12,345`; a dash for what nobody knows."""
    return "–" if value is None else f"{value:,.{digits}f}"


def short_id(run_id: str) -> str:
    """The part of a council's id that people say: `20261115-101502` is `101502`."""
    return run_id.rsplit("-", 1)[-1] if "-" in run_id else run_id


@pass_context
def _ago(context: Context, moment: str | None) -> Markup:
    return moments.ago(moment, context["now"])
