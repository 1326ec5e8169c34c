"""Moments and durations as people read them: how long ago, with the exact time at hand. Pure: the time comes in."""

from __future__ import annotations

from datetime import datetime

from markupsafe import Markup

from bridgehead.council.render.telling import visible
from bridgehead.host.clock import parse_iso

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))


def span(seconds: float) -> str:
    """`41 s`, `2 min 5 s`, `3 h 10 min`: two units at most."""
    whole = max(0, round(seconds))
    for position, (unit, length) in enumerate(_UNITS):
        if whole >= length:
            smaller, size = (*_UNITS[position + 1 :], ("s", 1))[0]
            rest = whole % length // size
            return f"{whole // length} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def rough(seconds: float) -> str:
    """`2 min`: the largest unit that says it."""
    for unit, length in _UNITS:
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{int(max(0, seconds))} s"


def ago(moment: str | None, now: datetime) -> Markup:
    """`2 min ago` with the exact moment on hover; what is no moment is shown as it is."""
    if not moment:
        return Markup("")
    try:
        then = parse_iso(moment)
    except ValueError:
        return Markup("{}").format(visible(moment))
    passed = (now - then).total_seconds()
    words = "now" if abs(passed) < 1 else f"in {rough(-passed)}" if passed < 0 else f"{rough(passed)} ago"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(moment, exact(then), words)


def clock(moment: str, now: datetime) -> Markup:
    """`10:15:02`, with the day in front on another day; everything on hover."""
    try:
        then = parse_iso(moment)
    except ValueError:
        return Markup("{}").format(visible(moment))
    words = f"{then:%H:%M:%S}" if then.date() == now.date() else f"{then:%m-%d %H:%M}"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(moment, exact(then), words)


def exact(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
