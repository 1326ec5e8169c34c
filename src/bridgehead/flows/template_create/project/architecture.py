"""Read the architecture off the names of directories, and patterns off the texts (flows §11). Pure."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from bridgehead.flows.template_create.project.analysis import UNKNOWN, Layer, Pattern
from bridgehead.flows.template_create.project.knowledge import KNOWLEDGE
from bridgehead.flows.template_create.project.languages import is_test, language_of

MOST_DIRECTORIES: Final = 8
_LAYERS: Final[list[dict[str, Any]]] = KNOWLEDGE["layers"]


def _layer_by_directory() -> dict[str, str]:
    """Return the layer that each telling name of a directory shows."""
    found: dict[str, str] = {}
    for layer in _LAYERS:
        found |= dict.fromkeys(layer["directories"], layer["name"])
    return found


_LAYER_OF: Final = _layer_by_directory()


def layer_of(path: str) -> str | None:
    """Return the layer a file belongs to: the innermost directory with a telling name decides."""
    telling = posixpath.basename(_telling_directory(path))
    layer = _LAYER_OF.get(telling.lower())
    if layer is None and "src" in path.lower().split("/")[:-1]:
        return "Application"  # where nothing inside says more
    return layer


def layers_in(paths: Iterable[str]) -> list[Layer]:
    """Return the layers of the source files from outside to inside, with the directories that show them."""
    directories: dict[str, Counter[str]] = {}
    for path in paths:
        layer = layer_of(path)
        if layer and language_of(path) and not is_test(path):
            counts = directories.setdefault(layer, Counter())
            counts[_telling_directory(path)] += 1
    layers = []
    for known in _LAYERS:
        name = known["name"]
        if name in directories:
            counts = directories[name]
            largest = sorted(counts, key=lambda place: (-counts[place], place))
            places = tuple(largest[:MOST_DIRECTORIES])
            layers.append(Layer(name, places, known["description"]))
    return layers


def architecture_of(layers: Sequence[Layer], paths: Iterable[str]) -> str:
    """Return the pattern that a set of layers amounts to."""
    names = {layer.name for layer in layers}
    directories: set[str] = set()
    for path in paths:
        directories.update(path.lower().split("/")[:-1])
    if "viewmodels" in directories:
        return "MVVM"
    if {"models", "views"} <= directories and directories & {"controllers", "routes"}:
        return "MVC"
    is_layered = {"Domain", "Infrastructure", "Presentation"} <= names
    if is_layered and "Application" in names and directories & _CLEAN:
        return "Clean Architecture"
    if is_layered or len(names) >= 3:
        return "Layered"
    if names:
        return "Modular"
    return "Flat" if any(map(language_of, paths)) else UNKNOWN


_CLEAN: Final = frozenset({"usecases", "use_cases", "entities", "application"})


def _telling_directory(path: str) -> str:
    parts = path.split("/")[:-1]
    lower = [part.lower() for part in parts]
    for length in range(len(parts), 0, -1):
        name = lower[length - 1]
        # Commands inside an application are use cases of it, others are what users type.
        is_use_case = name == "commands" and "application" in lower
        if name in _LAYER_OF and not is_use_case:
            return "/".join(parts[:length])
    return "/".join(parts[:3])


MOST_EXAMPLES: Final = 5


class Sign(NamedTuple):
    """What shows a pattern in the text of a file."""

    name: str
    text: str
    description: str

    def shows_in(self, text: str) -> bool:
        return re.search(self.text, text, re.MULTILINE) is not None


SIGNS: Final = [Sign(**pattern) for pattern in KNOWLEDGE["patterns"]]
SIGN_OF: Final = {sign.name.lower(): sign for sign in SIGNS}


def patterns_in(texts: Mapping[str, str]) -> list[Pattern]:
    """Return the patterns that show in two files or more (or in any, of a handful), the most frequent first."""
    needed = 1 if len(texts) < 8 else 2
    showing: dict[str, list[str]] = {}
    for sign in SIGNS:
        files = sorted(path for path, text in texts.items() if sign.shows_in(text))
        if len(files) >= needed:
            showing[sign.name] = files
    ranked = sorted(showing, key=lambda name: (-len(showing[name]), name))
    return [
        Pattern(
            name,
            _frequency(len(showing[name]) / len(texts)),
            SIGN_OF[name.lower()].description,
            tuple(showing[name][:MOST_EXAMPLES]),
        )
        for name in ranked
    ]


def patterns_of(text: str) -> list[str]:
    """Return the patterns that one file shows."""
    return [sign.name for sign in SIGNS if sign.shows_in(text)]


def _frequency(share: float) -> str:
    if share >= 0.5:
        return "pervasive"
    if share >= 0.2:
        return "common"
    return "occasional" if share >= 0.08 else "rare"
