"""Which files somebody has to have looked at: code, told by its name and first lines.

Documents, pictures, data and lock files are not due, nor is what was vendored or
generated, unless a change under review brings it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from bridgehead.contract.looks import Look, Unlooked, not_looked
from bridgehead.council.runtimes.static.copies import is_script
from bridgehead.council.runtimes.static.places import (
    BORROWED,
    is_action,
    is_container_file,
    is_workflow,
    place_by_name,
)
from bridgehead.council.scope.withheld import LeftOut, Reason

_CODE: Final = re.compile(
    r"\.(?:py|pyi|pyx|ipynb|js|mjs|cjs|jsx|ts|mts|cts|tsx|vue|svelte|astro"
    r"|go|java|cs|rs|php|phtml|rb|erb|sh|bash|zsh|fish|ps1|psm1|bat|cmd"
    r"|c|cc|cpp|cxx|h|hh|hpp|hxx|cu|cuh|m|mm|kt|kts|scala|swift|dart|groovy|gradle"
    r"|pl|pm|lua|r|jl|ex|exs|erl|hs|ml|clj|fs|vb|zig|nim|sol|asm|s"
    r"|pyw|wsgi|es6|gemspec|rake|sql|tf|ejs|hbs|j2|jinja|jinja2|twig|jsp|aspx|cshtml)"
)
_SCRIPTS: Final = frozenset(
    {"jenkinsfile", "rakefile", "gemfile", "vagrantfile", "config.ru"}
)
_PAGES: Final = frozenset({".html", ".htm", ".xhtml"})
_DOCUMENTS: Final = frozenset({".md", ".mdx", ".rst", ".adoc", ".txt"})
_LIVE_PAGE: Final = re.compile(
    r"<script\b|\{\{|\{%|<%|<\?php|\son\w+\s*=|javascript:", re.IGNORECASE
)
_DOCUMENTATION: Final = frozenset({"doc", "docs", "documentation", "website"})
_HIDDEN: Final = {
    Reason.SECRET: Unlooked.KEPT_BACK,
    Reason.AGENT_CONFIGURATION: Unlooked.KEPT_BACK,
    Reason.BINARY: Unlooked.UNREADABLE,
    Reason.UNREADABLE: Unlooked.UNREADABLE,
    Reason.TOO_LARGE: Unlooked.TOO_LARGE,
    Reason.TOO_MUCH: Unlooked.TOO_LARGE,
}


def is_code(path: str, text: str | None = None) -> bool:
    """Return whether a file is something that runs; without its text, by its name."""
    place = PurePosixPath(path)
    suffix = place.suffix.casefold()
    if _CODE.fullmatch(suffix) or place.name.casefold() in _SCRIPTS:
        return True
    if is_container_file(path) or is_workflow(path):
        return True
    if text is None:
        return False
    if is_action(path):
        return re.search(r"^runs:", text, re.MULTILINE) is not None
    if suffix in _PAGES:
        return _LIVE_PAGE.search(text) is not None
    return is_script(text) and suffix not in _DOCUMENTS


def is_due(path: str, text: str) -> bool:
    """Return whether somebody has to have looked at a file that may be shown."""
    return bool(text.strip()) and is_code(path, text)


def is_documentation(path: str) -> bool:
    """Return whether a file lies among documents."""
    folders = PurePosixPath(path.casefold()).parts[:-1]
    return not _DOCUMENTATION.isdisjoint(folders)


def hidden_looks(
    left_out: Iterable[LeftOut], *, in_change: bool = False
) -> tuple[Look, ...]:
    """Return the looks that nobody could take, because the files are not shown.

    What a change brings is due wherever it brings it.
    """
    return tuple(
        not_looked("", entry.path, _HIDDEN[entry.reason])
        for entry in left_out
        if entry.reason in _HIDDEN
        and (is_code(entry.path) or entry.is_script)
        and (in_change or place_by_name(entry.path) not in BORROWED)
    )
