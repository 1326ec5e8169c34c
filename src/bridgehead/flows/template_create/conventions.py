"""Read naming and layout conventions off source texts. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Final

from bridgehead.flows.template_create.analysis import Naming, Quality, Style
from bridgehead.flows.template_create.words_in_names import case_style, common_style, words_of

_CLASSES: Final = re.compile(r"\b(?:class|interface|struct|trait|enum|record)\s+([A-Za-z_]\w*)")
_METHODS: Final = re.compile(
    r"\b(?:def|fn|func|function)\s+(?:\([^)]*\)\s*)?([A-Za-z_]\w*)"
    r"|^[ \t]*(?:public|private|protected|internal) [^\n(=;]{0,80} ([A-Za-z_]\w*)\(",
    re.MULTILINE,
)
_VARIABLES: Final = re.compile(
    r"^[ \t]*(?:(?:let|const|var|val)\s+(?:mut\s+)?)?([A-Za-z_]\w*)\s*:?=[^=]", re.MULTILINE
)
_INDENT: Final = re.compile(r"^( +|\t+)\S", re.MULTILINE)
_TRAILING_COMMA: Final = re.compile(r",[ \t]*\n[ \t]*[\])}]")
_OPEN_LIST: Final = re.compile(r"[^\s,][ \t]*\n[ \t]*[\])]")
_COMMENT: Final = re.compile(r'^[ \t]*(?:#|//|/\*|\*|""")', re.MULTILINE)


def naming_in(texts: Mapping[str, str]) -> Naming:
    """The case styles most names are written in, with names that show it."""
    joined = list(texts.values())
    names = {
        "class": _found(_CLASSES, joined),
        "method": _found(_METHODS, joined),
        "variable": _found(_VARIABLES, joined),
        "file": [PurePosixPath(path).name.split(".")[0] for path in texts],
    }
    styles = {element: common_style(found) for element, found in names.items()}
    examples = {element: _telling(found, styles[element]) for element, found in names.items()}
    return Naming(
        classes=styles["class"],
        methods=styles["method"],
        variables=styles["variable"],
        files=styles["file"],
        examples={element: shown for element, shown in examples.items() if shown},
    )


def key_abstractions_in(texts: Mapping[str, str], most: int = 12) -> list[str]:
    """The types other files speak of most, leaving out those only their own file mentions."""
    declared = {name for name in _found(_CLASSES, texts.values()) if len(name) > 3 and name[0].isupper()}
    mentions = Counter(
        word for text in texts.values() for word in set(re.findall(r"\b[A-Z]\w{3,}\b", text)) & declared
    )
    ranked = sorted(mentions, key=lambda name: (-mentions[name], name))
    return [name for name in ranked if mentions[name] > 1][:most]


def style_in(texts: Mapping[str, str]) -> Style:
    """Indentation, line length and trailing commas as most files have them."""
    joined = "\n".join(texts.values())
    indents = [found[1] for found in _INDENT.finditer(joined)]
    tabs = sum(1 for indent in indents if indent[0] == "\t")
    return Style(
        indentation="tabs" if tabs * 2 > len(indents) else "spaces",
        indent_size=_indent_size([len(indent) for indent in indents if indent[0] == " "]),
        line_length=_line_length(joined.splitlines()),
        trailing_commas=len(_TRAILING_COMMA.findall(joined)) > len(_OPEN_LIST.findall(joined)) / 2,
    )


def quality_in(texts: Mapping[str, str], paths: Iterable[str], layers: int) -> Quality:
    """Indicators that can be counted: sizes of files, comments, documents. Guesses, and marked so by confidence."""
    lines = sorted(len(text.splitlines()) for text in texts.values())
    median = lines[len(lines) // 2] if lines else 0
    total = sum(lines) or 1
    comments = sum(len(_COMMENT.findall(text)) for text in texts.values()) / total
    documents = sum(1 for path in paths if path.endswith((".md", ".rst", ".adoc")))
    level = (
        "high" if comments > 0.06 and documents >= 3 else "medium" if comments > 0.03 or documents else "low"
    )
    small = 8 if median <= 200 else 6 if median <= 400 else 4
    return Quality(small, min(10, small + min(2, layers // 2)), level)


def _telling(names: Iterable[str], style: str, most: int = 3) -> tuple[str, ...]:
    """The names of two or three words that occur most: one word shows no style, a long one is no example."""
    public = [name for name in names if not name.startswith("_") and 2 <= len(words_of(name)) <= 3]
    count = Counter(name for name in public if case_style(name) == style)
    return tuple(sorted(count, key=lambda name: (-count[name], name))[:most])


def _found(pattern: re.Pattern[str], texts: Iterable[str]) -> list[str]:
    return [name for text in texts for match in pattern.finditer(text) for name in match.groups() if name]


def _indent_size(widths: list[int]) -> int:
    """The step most indents are a multiple of; 8 to 1, and 4 where nothing is indented."""
    if not widths:
        return 4
    fits = {size: sum(1 for width in widths if width % size == 0) / len(widths) for size in (8, 4, 3, 2)}
    return next((size for size, share in fits.items() if share >= 0.9), 2)


def _line_length(lines: list[str]) -> int:
    """The limit the lines keep to: the usual one at or above all but the longest hundredth."""
    if not lines:
        return 100
    lengths = sorted(len(line) for line in lines)
    nearly_longest = lengths[int(len(lengths) * 0.99)]
    return next((limit for limit in (79, 88, 100, 110, 120, 140, 160) if nearly_longest <= limit), 200)
