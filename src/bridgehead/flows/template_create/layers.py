"""Read the architecture off the names of directories (flows §11). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final

from bridgehead.flows.template_create.analysis import UNKNOWN, Layer
from bridgehead.flows.template_create.languages import is_test, language_of

MOST_DIRECTORIES: Final = 8

_DIRECTORIES: Final[Mapping[str, tuple[str, ...]]] = {
    "Presentation": (
        *(
            "routes",
            "controllers",
            "views",
            "endpoints",
            "components",
            "pages",
            "screens",
            "web",
            "api",
            "ui",
            "cli",
        ),
        *("commands", "cmd", "dashboard"),
    ),
    "Domain": ("domain", "core", "models", "entities", "contract", "contracts"),
    "Application": ("services", "stores", "usecases", "use_cases", "application", "operations", "features"),
    "Infrastructure": (
        *(
            "infrastructure",
            "persistence",
            "repositories",
            "lib",
            "upload",
            "scripts",
            "middleware",
            "adapters",
        ),
        *("transports", "host", "db", "database", "migrations", "internal", "clients"),
    ),
    "Shared": ("utils", "helpers", "shared", "common"),
    "ViewModels": ("viewmodels",),
    "Engines": ("engines",),
    "Handlers": ("handlers",),
    "Processors": ("processors",),
}
_LAYER_OF: Final = {name: layer for layer, names in _DIRECTORIES.items() for name in names}
# Where sources start; says something only where nothing inside says more.
_SOURCE_ROOT: Final = "src"

_DESCRIPTIONS: Final = {
    "Presentation": "What users and other programs talk to.",
    "Domain": "The words and rules of the subject, without input or output.",
    "Application": "What the program does, put together from the domain.",
    "Infrastructure": "What talks to the machine, the network and the stores.",
    "Shared": "Small parts that every other layer uses.",
    "ViewModels": "State and commands behind the views.",
    "Engines": "Self-contained computations.",
    "Handlers": "One handler per message or request.",
    "Processors": "Stages that transform what passes through.",
}


def layer_of(path: str) -> str | None:
    """The layer a file belongs to: the innermost directory with a telling name decides."""
    directories = [part.lower() for part in PurePosixPath(path).parts[:-1]]
    for name in reversed(directories):
        if name in _LAYER_OF:
            return _LAYER_OF[name]
    return "Application" if _SOURCE_ROOT in directories else None


def layers_in(paths: Iterable[str]) -> list[Layer]:
    """The layers of the source files, in the order from outside to inside, with the directories that showed them."""
    directories: dict[str, dict[str, int]] = {}
    for path in paths:
        layer = layer_of(path) if language_of(path) and not is_test(path) else None
        if layer is not None:
            seen = directories.setdefault(layer, {})
            directory = _telling_directory(path)
            seen[directory] = seen.get(directory, 0) + 1
    found = sorted(directories, key=list(_DIRECTORIES).index)
    return [Layer(name, _largest(directories[name]), _DESCRIPTIONS[name]) for name in found]


def architecture_of(layers: Sequence[Layer], paths: Iterable[str]) -> str:
    """The pattern a set of layers amounts to."""
    names = {layer.name for layer in layers}
    directories = {part.lower() for path in paths for part in PurePosixPath(path).parts[:-1]}
    if "viewmodels" in directories:
        return "MVVM"
    if {"models", "views"} <= directories and directories & {"controllers", "routes"}:
        return "MVC"
    if {"Domain", "Infrastructure", "Presentation"} <= names:
        return "Clean Architecture" if "Application" in names and directories & _CLEAN else "Layered"
    if len(names) >= 3:
        return "Layered"
    if names:
        return "Modular"
    return "Flat" if any(True for path in paths if language_of(path)) else UNKNOWN


_CLEAN: Final = frozenset({"usecases", "use_cases", "entities", "application"})


def module_structure_of(paths: Iterable[str]) -> str:
    """Where the sources are, in a sentence."""
    tops: dict[str, int] = {}
    for path in paths:
        if language_of(path):
            parts = PurePosixPath(path).parts
            top = "/".join(parts[:2]) if parts[0] == _SOURCE_ROOT and len(parts) > 2 else parts[0]
            tops[top] = tops.get(top, 0) + 1
    largest = sorted(tops, key=lambda top: (-tops[top], top))[:6]
    return ", ".join(f"{top} ({tops[top]} files)" for top in largest)


def _telling_directory(path: str) -> str:
    parts = PurePosixPath(path).parts[:-1]
    for length in range(len(parts), 0, -1):
        if parts[length - 1].lower() in _LAYER_OF:
            return "/".join(parts[:length])
    return "/".join(parts[:3])


def _largest(counts: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(sorted(counts, key=lambda name: (-counts[name], name))[:MOST_DIRECTORIES])
