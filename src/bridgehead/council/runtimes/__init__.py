"""The AI runtimes a council can seat, one file each. `find_runtime` is the door; plug-ins come by entry point."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import Final

from bridgehead.council.request.settings import is_acp, is_rig
from bridgehead.council.runtimes.base import ENTRY_POINT_GROUP, Runtime, registered
from bridgehead.errors import NotFound

# Wire name and module; the order is that of dispatch and of `bridgehead runtimes`.
BUILT_IN: Final = {
    "claude": "claude",
    "gemini": "gemini",
    "codex": "codex",
    "opencode": "opencode",
    "openai": "openai_compatible",
    "static": "static.seat",
}
_BY_MARK: Final = frozenset({"rig", "acp"})
"""Seats are called `rig:ID` and `acp:NAME`."""


def find_runtime(runtime: str) -> type[Runtime]:
    """The runtime of a name, imported when first asked for."""
    if is_rig(runtime):
        return _import("rig", "rig")
    if is_acp(runtime):
        return _import("acp", "acp")
    if runtime in BUILT_IN:
        return _import(runtime, BUILT_IN[runtime])
    if runtime not in registered():
        load_plug_ins()
    found = None if runtime in _BY_MARK else registered().get(runtime)
    if found is None:
        known = ", ".join(runtime_names())
        raise NotFound(
            f"there is no runtime named {runtime!r}",
            hint=(
                f"known: {known}, rig:<id>; `bridgehead runtimes` lists those available"
            ),
        )
    return found


def runtime_names() -> list[str]:
    """The names of all runtimes except rigs, built-in ones first."""
    load_plug_ins()
    others = [
        name for name in registered() if name not in BUILT_IN and name not in _BY_MARK
    ]
    return [*BUILT_IN, *sorted(others)]


def load_plug_ins() -> None:
    """Import what other packages offer; importing registers."""
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        entry.load()


def _import(name: str, module: str) -> type[Runtime]:
    import_module(f"{__name__}.{module}")
    return registered()[name]
