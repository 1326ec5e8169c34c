"""Programming languages by file extension, how each one's sources look, and identifiers taken apart into words.
Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Final

from bridgehead.flows.template_create.project.knowledge import KNOWLEDGE

LANGUAGE_OF: Final[dict[str, str]] = KNOWLEDGE["languages"]

# Names that must stay legal in file names (flows §11).
SLUG_OF: Final = {"C#": "csharp", "C++": "cpp"}
LONGEST_SLUG: Final = 60


def suffix_of(path: str) -> str:
    return PurePosixPath(path).suffix.lower()


def fence_word(path: str) -> str:
    """What a block of Markdown with the text of a file is marked with, for whoever colours it."""
    suffix = suffix_of(path)
    language = LANGUAGE_OF.get(suffix, "")
    return (
        suffix[1:]
        if suffix in (".tsx", ".jsx")
        else SLUG_OF.get(language, language.lower())
    )


def language_of(path: str) -> str | None:
    """The language of a source file; None for everything else."""
    return LANGUAGE_OF.get(suffix_of(path))


def endings_of(language: str) -> list[str]:
    """Return the endings of the files of a language."""
    return [ending for ending, name in LANGUAGE_OF.items() if name == language]


def languages_by_files(paths: Iterable[str]) -> list[str]:
    """Languages by number of source files, most first; equals in alphabetical order."""
    count = Counter(language for path in paths if (language := language_of(path)))
    return sorted(count, key=lambda language: (-count[language], language))


def slug(text: str) -> str:
    """`text` as lower-case words joined by hyphens, safe in names of files and templates."""
    named = SLUG_OF.get(text, text)
    words = "".join(
        char if char.isascii() and char.isalnum() else " " for char in named.lower()
    ).split()
    return "-".join(words)[:LONGEST_SLUG].strip("-")


_TEST: Final = re.compile(
    r"(?i:(?:.*/)?(?:tests?|specs?|__tests__)/.*|(?:.*/)?(?:test_[^/]*|tests?\.py"
    r"|[^/]*(?:_test|\.test|\.spec|_spec)(?:\.\w+)?))|.*Tests?(?:\.\w+)?"
)


def is_test(path: str) -> bool:
    """Tell whether a file holds tests, by the usual names of files and directories."""
    return _TEST.fullmatch(path) is not None


WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

CASE_STYLES: Final = {
    "SCREAMING_SNAKE_CASE": re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+"),
    "snake_case": re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*"),
    "kebab-case": re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)+"),
    "PascalCase": re.compile(r"([A-Z][a-z0-9]+)+[A-Z]?|[A-Z]+[a-z0-9]+[A-Za-z0-9]*"),
    "camelCase": re.compile(r"[a-z][a-z0-9]*([A-Z][A-Za-z0-9]*)+"),
}
# One plain word fits several styles, so it speaks for none of them.
_UNDECIDED: Final = re.compile(r"[a-z][a-z0-9]*")


def words_of(name: str) -> list[str]:
    """`OrderLineItem`, `order_line_item` and `order-line-item` are all order, line, item."""
    return [word.lower() for word in WORD.findall(name)]


def spell(words: Sequence[str], style: str) -> str:
    """The words of a name in one of its spellings."""
    capitals = [word.capitalize() for word in words]
    return {
        "pascal": "".join(capitals),
        "camel": "".join((*words[:1], *capitals[1:])),
        "snake": "_".join(words),
        "kebab": "-".join(words),
        "upper": "_".join(words).upper(),
        "flat": "".join(words),
        "title": " ".join(capitals),
        "words": " ".join(words),
    }[style]


def case_style(name: str) -> str | None:
    """The style a name is written in; None when it could be several or is none."""
    bare = name.strip("_")
    if _UNDECIDED.fullmatch(bare):
        return None
    return next(
        (style for style, pattern in CASE_STYLES.items() if pattern.fullmatch(bare)),
        None,
    )


def common_style(names: Iterable[str], default: str = "") -> str:
    """The style most of the names are written in."""
    count = Counter(style for name in names if (style := case_style(name)))
    return min(count, key=lambda style: (-count[style], style), default=default)
