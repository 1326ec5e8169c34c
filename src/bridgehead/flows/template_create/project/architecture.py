"""Read the architecture and recurring patterns off the names of directories and the words in them (flows §11).
Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from bridgehead.flows.template_create.project.analysis import UNKNOWN, Layer, Pattern
from bridgehead.flows.template_create.project.languages import is_test, language_of

MOST_DIRECTORIES: Final = 8
# Layer, from outside to inside -> what it is, and the names of directories that show it.
_LAYERS: Final = {
    "Presentation": (
        "What users and other programs talk to.",
        "routes controllers views endpoints components pages screens web api ui cli commands cmd dashboard",
    ),
    "Domain": (
        "The words and rules of the subject, without input or output.",
        "domain core models entities contract contracts",
    ),
    "Application": (
        "What the program does, put together from the domain.",
        "services stores usecases use_cases application operations features",
    ),
    "Infrastructure": (
        "What talks to the machine, the network and the stores.",
        (
            "infrastructure persistence repositories lib upload scripts middleware adapters transports host db "
            "database migrations internal clients"
        ),
    ),
    "Shared": (
        "Small parts that every other layer uses.",
        "utils helpers shared common",
    ),
    "ViewModels": ("State and commands behind the views.", "viewmodels"),
    "Engines": ("Self-contained computations.", "engines"),
    "Handlers": ("One handler per message or request.", "handlers"),
    "Processors": ("Stages that transform what passes through.", "processors"),
}
_LAYER_OF: Final = {
    name: layer for layer, (_, names) in _LAYERS.items() for name in names.split()
}


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
    found = [name for name in _LAYERS if name in directories]
    return [
        Layer(name, _largest(directories[name]), _LAYERS[name][0]) for name in found
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


_CLASS: Final = r"\b(?:class|interface|struct|trait|type)\s+\w*"
SIGNS: Final = (
    Sign(
        "Repository",
        _CLASS + r"Repositor(?:y|ies)\b",
        "Storage behind an interface of the domain.",
    ),
    Sign("Factory", _CLASS + r"Factory\b", "Objects made in one place that knows how."),
    Sign(
        "Service layer", _CLASS + r"Service\b", "Use cases gathered in service classes."
    ),
    Sign(
        "Command handler",
        _CLASS + r"(?:Handler|UseCase)\b",
        "One class carries out one request.",
    ),
    Sign(
        "Middleware", r"\b[Mm]iddleware\b", "Requests pass through a chain of wrappers."
    ),
    Sign(
        "Application factory",
        r"\bdef (?:create|make)_app\(",
        "The application is made by a function.",
    ),
    Sign(
        "Routes in groups",
        r"\bBlueprint\(|\bAPIRouter\(|\bexpress\.Router\(|\bgin\.RouterGroup\b|\bMapGroup\(",
        "Each area registers its own routes.",
    ),
    Sign(
        "Mapped models",
        r"\(db\.Model|\(models\.Model\)|\(DeclarativeBase|\bgorm\.Model\b|\bDbSet<",
        "Classes that are rows of a table.",
    ),
    Sign(
        "Validated input",
        r"\(FlaskForm\)|\(BaseModel\)|\bAbstractValidator<|\bz\.object\(|^type \w+Validator struct",
        "What comes in is checked by a class of its own.",
    ),
    Sign(
        "Builder", _CLASS + r"Builder\b", "Complex objects put together step by step."
    ),
    Sign(
        "Observer",
        r"\b(?:subscribe|addEventListener|on_event|EventEmitter)\b",
        "Listeners are told.",
    ),
    Sign(
        "Interface and implementations",
        r"\((?:\w+, )*(?:Protocol|ABC)\)|^\s*(?:export )?(?:public )?interface \w+|\btrait \w+",
        "Interchangeable parts behind one declared interface.",
    ),
    Sign(
        "Immutable value objects",
        r"@dataclass\(.*frozen=True|\(NamedTuple\)|^[a-z ]*\brecord [A-Z]\w+|frozen=True\)|\breadonly \w+",
        "Data that is made once and never changed.",
    ),
    Sign(
        "Dependency injection",
        r"@Injectable|@Inject\b|@Autowired|AddScoped|AddSingleton|AddTransient|\bDepends\(",
        "What a part needs is handed to it.",
    ),
    Sign(
        "Error hierarchy",
        r"class \w+\((?:\w+\.)?\w*(?:Error|Exception|Refused)\)|class \w+ extends \w*(?:Error|Exception)\b",
        "Errors of the product form a tree of their own.",
    ),
    Sign(
        "Result values",
        r"\bResult<|\bErrorOr<|\bEither<|\berr != nil\b",
        "Expected failures are returned, not thrown.",
    ),
    Sign(
        "Context manager",
        r"@(?:async)?contextmanager|def __enter__|def __aenter__|\busing \(|\bdefer \w+",
        "Resources are released where their scope ends.",
    ),
    Sign(
        "Asynchronous I/O",
        r"\basync (?:def|fn|function|Task)\b|\bawait \w",
        "I/O waits without blocking.",
    ),
    Sign(
        "Enumerated states",
        r"\((?:Str|Int)?Enum\)|^\s*(?:public |export )?enum \w+",
        "Closed vocabularies.",
    ),
)


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
