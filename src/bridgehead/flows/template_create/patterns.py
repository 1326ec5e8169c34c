"""Recognise recurring ways of building things by the words that go with them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from bridgehead.flows.template_create.analysis import Pattern

MOST_EXAMPLES: Final = 5


class Sign(NamedTuple):
    """What shows a pattern in the text of a file."""

    name: str
    category: str
    text: re.Pattern[str]
    description: str


def _sign(name: str, category: str, text: str, description: str) -> Sign:
    return Sign(name, category, re.compile(text, re.MULTILINE), description)


_CLASS: Final = r"\b(?:class|interface|struct|trait|type)\s+\w*"
SIGNS: Final = (
    _sign(
        "Repository", "design", _CLASS + r"Repositor(?:y|ies)\b", "Storage behind an interface of the domain."
    ),
    _sign("Factory", "design", _CLASS + r"Factory\b", "Objects made in one place that knows how."),
    _sign("Service layer", "design", _CLASS + r"Service\b", "Use cases gathered in service classes."),
    _sign(
        "Command handler", "design", _CLASS + r"(?:Handler|UseCase)\b", "One class carries out one request."
    ),
    _sign("Middleware", "design", r"\b[Mm]iddleware\b", "Requests pass through a chain of wrappers."),
    _sign("Builder", "design", _CLASS + r"Builder\b", "Complex objects put together step by step."),
    _sign(
        "Observer",
        "design",
        r"\b(?:subscribe|addEventListener|on_event|EventEmitter)\b",
        "Listeners are told.",
    ),
    _sign(
        "Interface and implementations",
        "design",
        r"\((?:\w+, )*(?:Protocol|ABC)\)|^\s*(?:export )?(?:public )?interface \w+|\btrait \w+",
        "Interchangeable parts behind one declared interface.",
    ),
    _sign(
        "Immutable value objects",
        "design",
        r"@dataclass\(.*frozen=True|\(NamedTuple\)|\brecord \w+|frozen=True\)|\breadonly \w+",
        "Data that is made once and never changed.",
    ),
    _sign(
        "Dependency injection",
        "di",
        r"@Injectable|@Inject\b|@Autowired|AddScoped|AddSingleton|AddTransient|\bDepends\(",
        "What a part needs is handed to it.",
    ),
    _sign(
        "Error hierarchy",
        "error_handling",
        r"class \w+\((?:\w+\.)?\w*(?:Error|Exception|Refused)\)|class \w+ extends \w*(?:Error|Exception)\b",
        "Errors of the product form a tree of their own.",
    ),
    _sign(
        "Result values",
        "error_handling",
        r"\bResult<|\bErrorOr<|\bEither<|\berr != nil\b",
        "Expected failures are returned, not thrown.",
    ),
    _sign(
        "Context manager",
        "design",
        r"@(?:async)?contextmanager|def __enter__|def __aenter__|\busing \(|\bdefer \w+",
        "Resources are released where their scope ends.",
    ),
    _sign(
        "Asynchronous I/O",
        "state",
        r"\basync (?:def|fn|function|Task)\b|\bawait \w",
        "I/O waits without blocking.",
    ),
    _sign(
        "Enumerated states",
        "state",
        r"\((?:Str|Int)?Enum\)|^\s*(?:public |export )?enum \w+",
        "Closed vocabularies.",
    ),
)


def patterns_in(texts: Mapping[str, str]) -> list[Pattern]:
    """The patterns that show in two files or more (or in any, of a handful), the most frequent first."""
    needed = 1 if len(texts) < 8 else 2
    found = [(sign, shown) for sign in SIGNS if len(shown := _showing(sign, texts)) >= needed]
    found.sort(key=lambda pair: (-len(pair[1]), pair[0].name))
    return [_pattern(sign, shown, len(texts)) for sign, shown in found]


def patterns_of(text: str) -> list[str]:
    """The patterns one file shows."""
    return [sign.name for sign in SIGNS if sign.text.search(text)]


def _showing(sign: Sign, texts: Mapping[str, str]) -> list[str]:
    return sorted(path for path, text in texts.items() if sign.text.search(text))


def _pattern(sign: Sign, shown: Sequence[str], of: int) -> Pattern:
    share = len(shown) / of
    # A word in a text is evidence, but only that: even a pervasive one stays below "explicit".
    confidence = round(min(0.85, 0.55 + share), 2)
    return Pattern(
        sign.name,
        confidence,
        sign.category,
        _frequency(share),
        sign.description,
        tuple(shown[:MOST_EXAMPLES]),
    )


def _frequency(share: float) -> str:
    if share >= 0.5:
        return "pervasive"
    if share >= 0.2:
        return "common"
    return "occasional" if share >= 0.08 else "rare"
