"""Read the architecture and recurring patterns off the names of directories and the words in them (flows §11).
Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

from bridgehead.flows.template_create.project.analysis import UNKNOWN, Layer, Pattern
from bridgehead.flows.template_create.project.knowledge import KNOWLEDGE
from bridgehead.flows.template_create.project.languages import is_test, language_of

MOST_DIRECTORIES: Final = 8
_LAYERS: Final[list[dict[str, Any]]] = KNOWLEDGE["layers"]
_LAYER_OF: Final[dict[str, str]] = {}
for _layer in _LAYERS:
    _LAYER_OF |= dict.fromkeys(_layer["directories"], _layer["name"])


def layer_of(path: str) -> str | None:
    """The layer a file belongs to: the innermost directory with a telling name decides."""
    name = _telling_directory(path).rpartition("/")[2].lower()
    # Where sources start says something only where nothing inside says more.
    return _LAYER_OF.get(name) or (
        "Application" if "src" in path.lower().split("/")[:-1] else None
    )


def layers_in(paths: Iterable[str]) -> list[Layer]:
    """The layers of the source files, in the order from outside to inside, with the directories that showed them."""
    directories: dict[str, Counter[str]] = {}
    for path in paths:
        layer = layer_of(path) if language_of(path) and not is_test(path) else None
        if layer is not None:
            directories.setdefault(layer, Counter())[_telling_directory(path)] += 1
    return [
        Layer(layer["name"], _largest(directories[layer["name"]]), layer["description"])
        for layer in _LAYERS
        if layer["name"] in directories
    ]


def architecture_of(layers: Sequence[Layer], paths: Iterable[str]) -> str:
    """The pattern a set of layers amounts to."""
    names = {layer.name for layer in layers}
    directories = {
        part.lower() for path in paths for part in PurePosixPath(path).parts[:-1]
    }
    if "viewmodels" in directories:
        return "MVVM"
    if {"models", "views"} <= directories and directories & {"controllers", "routes"}:
        return "MVC"
    if {"Domain", "Infrastructure", "Presentation"} <= names:
        return (
            "Clean Architecture"
            if "Application" in names and directories & _CLEAN
            else "Layered"
        )
    if len(names) >= 3:
        return "Layered"
    if names:
        return "Modular"
    return "Flat" if any(map(language_of, paths)) else UNKNOWN


_CLEAN: Final = frozenset({"usecases", "use_cases", "entities", "application"})


def _telling_directory(path: str) -> str:
    parts = PurePosixPath(path).parts[:-1]
    lower = [part.lower() for part in parts]
    for length in range(len(parts), 0, -1):
        # Commands inside an application are use cases of it, others are what users type.
        if lower[length - 1] in _LAYER_OF and not (
            lower[length - 1] == "commands" and "application" in lower
        ):
            return "/".join(parts[:length])
    return "/".join(parts[:3])


def _largest(counts: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(
        sorted(counts, key=lambda name: (-counts[name], name))[:MOST_DIRECTORIES]
    )


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
    """The patterns that show in two files or more (or in any, of a handful), the most frequent first."""
    needed = 1 if len(texts) < 8 else 2
    showing = [
        (sign, sorted(path for path, text in texts.items() if sign.shows_in(text)))
        for sign in SIGNS
    ]
    found = [(sign, shown) for sign, shown in showing if len(shown) >= needed]
    found.sort(key=lambda pair: (-len(pair[1]), pair[0].name))
    return [_pattern(sign, shown, len(texts)) for sign, shown in found]


def patterns_of(text: str) -> list[str]:
    """The patterns one file shows."""
    return [sign.name for sign in SIGNS if sign.shows_in(text)]


def _pattern(sign: Sign, shown: Sequence[str], of: int) -> Pattern:
    return Pattern(
        sign.name,
        _frequency(len(shown) / of),
        sign.description,
        tuple(shown[:MOST_EXAMPLES]),
    )


def _frequency(share: float) -> str:
    if share >= 0.5:
        return "pervasive"
    if share >= 0.2:
        return "common"
    return "occasional" if share >= 0.08 else "rare"
