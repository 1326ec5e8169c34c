"""A file as analysers are shown it: under a name that tells its language, every line where it was.

A script without an ending gets one, a page is shown again as its scripts alone, and a notebook as its code cells.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any, Final

from bridgehead.council.runtimes.static.suppression import (
    directive_lines,
    without_directives,
)

# A folder that is never part of a scope, so that no file of the tree bears the name of a copy.
_EXTRACTED: Final = ".bridgehead/extracted"
_SHEBANG: Final = re.compile(r"\ufeff?#!(?P<words>[^\n]*)")
_INTERPRETERS: Final = {
    ".py": re.compile(r"python[\d.]*|pypy[\d.]*|uv"),
    ".sh": re.compile(r"sh|bash|dash|ash|ksh"),
    ".js": re.compile(r"node|nodejs|bun|deno"),
    ".ts": re.compile(r"tsx|ts-node"),
    ".rb": re.compile(r"ruby"),
    ".php": re.compile(r"php"),
}
_ALIASES: Final = {
    ".pyw": ".py",
    ".wsgi": ".py",
    ".es6": ".js",
    ".gemspec": ".rb",
    ".rake": ".rb",
    ".ru": ".rb",
    ".phtml": ".php",
}
_NAMES: Final = {"rakefile": ".rb", "gemfile": ".rb", "vagrantfile": ".rb"}
_PAGES: Final = (".html", ".htm", ".xhtml", ".vue", ".svelte")
_SCRIPT: Final = re.compile(
    r"<script\b(?P<attributes>[^>]*)>(?P<code>.*?)</script\s*>",
    re.IGNORECASE | re.DOTALL,
)
_TYPE: Final = re.compile(r"""\btype\s*=\s*["']?(?P<type>[^"'\s>]*)""", re.IGNORECASE)
_CODE_TYPE: Final = re.compile(r"(?:module|.*(?:script|babel|jsx))?", re.IGNORECASE)
_TYPED: Final = re.compile(r"""\blang\s*=\s*["']?tsx?\b""", re.IGNORECASE)
_MAGIC: Final = re.compile(r"(?P<indent>\s*)[%!?]|[^#\n]*\?\s*$")
_OTHER_CELL: Final = re.compile(
    r"\s*%%(?!time\b|timeit\b|capture\b|prun\b)(?P<what>\w+)"
)


class Obeyed(StrEnum):
    """Which comments that silence analysers a copy still has."""

    ALL = "all"
    OLD = "old"
    """Those that the change under review does not bring."""
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Copy:
    """The text of a file, or the part of it that is in one language, on the same lines."""

    of: str
    """The file in the tree."""
    name: str
    """The file in the folder of copies; analysers tell its language by it."""
    text: str
    obeyed: Obeyed = Obeyed.ALL
    part: str = ""
    """The copy that this one is like, but for comments; empty: it is that one itself."""


def copies_of(path: str, text: str) -> list[Copy]:
    """Return what analysers are shown of a file: itself, and what it holds."""
    itself = Copy(path, path, text)
    suffix = PurePosixPath(path).suffix.casefold()
    if suffix == ".ipynb":
        code = notebook_code(text)
        return [itself, *_extracted(path, ".py", code)]
    if suffix in _PAGES:
        ending = ".ts" if _TYPED.search(text) else ".js"
        return [itself, *_extracted(path, ending, page_scripts(text))]
    language = _language(path, suffix, text)
    return [itself, *_extracted(path, language, text)] if language else [itself]


def with_variants(copy: Copy, touched: Container[int]) -> list[Copy]:
    """Return a copy, and the same without comments that silence analysers.

    `touched` are the lines that a change under review brings.
    """
    lines = directive_lines(copy.text)
    brought = [line for line in lines if line in touched]
    variants = [copy]
    if brought:
        variants.append(_variant(copy, Obeyed.OLD, brought))
    if len(brought) < len(lines):
        variants.append(_variant(copy, Obeyed.NONE, lines))
    return variants


def _variant(copy: Copy, obeyed: Obeyed, disobeyed: Sequence[int]) -> Copy:
    return Copy(
        copy.of,
        f".bridgehead/{obeyed}/{copy.name}",
        without_directives(copy.text, disobeyed),
        obeyed,
        part=copy.name,
    )


def shebang_language(text: str) -> str | None:
    """Return the ending that a script has whose first line names its interpreter."""
    first = _SHEBANG.match(text)
    if first is None:
        return None
    for word in first["words"].split():
        name = PurePosixPath(word).name
        for ending, names in _INTERPRETERS.items():
            if names.fullmatch(name):
                return ending
    return None


def is_script(text: str) -> bool:
    """Return whether a first line names an interpreter, whichever."""
    return _SHEBANG.match(text) is not None


def page_scripts(text: str) -> str:
    """Return the scripts of a page on the lines where they stand, and nothing else."""
    shown = []
    end = 0
    for script in _SCRIPT.finditer(text):
        declared = _TYPE.search(script["attributes"])
        if declared and not _CODE_TYPE.fullmatch(declared["type"]):
            continue
        start, stop = script.span("code")
        shown += [_blank(text[end:start]), text[start:stop]]
        end = stop
    return "".join([*shown, _blank(text[end:])])


def notebook_code(text: str) -> str | None:
    """Return the Python of a notebook on the lines where it stands.

    None if it is in another language, or not written one line of code to a line.
    """
    try:
        document = json.loads(text)
        language = _notebook_language(document)
        code = list(_cell_lines(document)) if language == "python" else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if code is None:
        return None
    shown = []
    waiting = iter(code)
    wanted = next(waiting, None)
    for line in text.split("\n"):
        if wanted is not None and _quoted_text(line) == wanted[0]:
            shown.append(wanted[1].rstrip("\n"))
            wanted = next(waiting, None)
        else:
            shown.append("")
    return None if wanted is not None else "\n".join(shown)


def _notebook_language(document: Any) -> str:
    about = document.get("metadata") or {}
    kernel = about.get("kernelspec") or {}
    named = (about.get("language_info") or {}).get("name") or kernel.get("language")
    return str(named or "python").casefold()


def _cell_lines(document: Any) -> Iterator[tuple[str, str]]:
    """Yield each line of the code cells as it is written, and as Python."""
    for cell in document["cells"]:
        if cell["cell_type"] != "code" or not cell["source"]:
            continue
        source = cell["source"]
        lines = [source] if isinstance(source, str) else [str(one) for one in source]
        foreign = _OTHER_CELL.match(lines[0])
        for line in lines:
            magic = _MAGIC.match(line)
            if foreign:
                yield line, ""
            elif magic:
                yield line, f"{magic['indent'] or ''}pass"
            else:
                yield line, line


def _quoted_text(line: str) -> str | None:
    bare = line.strip().removesuffix(",").removeprefix('"source": ')
    if not bare.startswith('"'):
        return None
    try:
        found = json.loads(bare)
    except ValueError:
        return None
    return found if isinstance(found, str) else None


def _language(path: str, suffix: str, text: str) -> str | None:
    name = PurePosixPath(path).name.casefold()
    if suffix in _ALIASES:
        return _ALIASES[suffix]
    if name in _NAMES:
        return _NAMES[name]
    ending = shebang_language(text)
    known = suffix in _INTERPRETERS or suffix in {".bash", ".mjs", ".cjs", ".mts"}
    return None if known else ending


def _extracted(path: str, ending: str, text: str | None) -> list[Copy]:
    if text is None or not text.strip():
        return []
    return [Copy(path, f"{_EXTRACTED}/{path}{ending}", text)]


def _blank(text: str) -> str:
    return "\n" * text.count("\n")
