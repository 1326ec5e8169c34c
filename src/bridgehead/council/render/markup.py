"""HTML and SVG elements that escape whatever is put into them; only elements themselves are taken as markup."""

from __future__ import annotations

from html import escape
from typing import Final

from bridgehead.council.render.telling import visible

_VOID: Final = frozenset({"meta", "br", "hr", "circle", "path", "line", "rect"})


class Markup(str):
    """Markup made by `element`; every other string is text."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: str | int | float | None) -> Markup:
    """One element. `class_` and `stroke_width` spell `class` and `stroke-width`; None leaves an attribute out."""
    spelled = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(visible(str(value)), quote=True)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{spelled}/>" if name not in ("meta", "br", "hr") else f"<{name}{spelled}>")
    return Markup(f"<{name}{spelled}>{''.join(map(_child, children))}</{name}>")


def joined(*children: str) -> Markup:
    """Children one after the other, without an element around them."""
    return Markup("".join(map(_child, children)))


def _child(child: str) -> str:
    return child if isinstance(child, Markup) else escape(visible(child), quote=False)
