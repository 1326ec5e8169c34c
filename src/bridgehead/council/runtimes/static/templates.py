"""Templates: text that goes into a page as it is. Found in this process, by the few forms that say so."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Final

from bridgehead.contract.words import Severity
from bridgehead.council.runtimes.static.base import (
    Analyser,
    Message,
    RunCommand,
    Said,
)

_UNESCAPED: Final = "Text goes into the page without being escaped"
_ESCAPE_IT: Final = "Leave escaping on, or clean the text where it is made."
_IN_CODE: Final = "A value is put into script code of the page"
_AS_DATA: Final = "Hand it over as data (an attribute, JSON), and read it from there."
_JINJA: Final = (".html", ".htm", ".xhtml", ".j2", ".jinja", ".jinja2", ".twig")
_FORMS: Final = (
    (_JINJA, r"\|\s*(?:safe|raw)\b|\{%-?\s*autoescape\s+(?:off|false)", _UNESCAPED),
    ((".hbs",), r"\{\{\{", _UNESCAPED),
    ((".ejs",), r"<%-(?!\s*include\b)", _UNESCAPED),
    ((".erb",), r"<%==|\.html_safe\b|<%=\s*raw\b", _UNESCAPED),
    ((".vue",), r"\sv-html\s*=", _UNESCAPED),
    ((".svelte",), r"\{@html\b", _UNESCAPED),
    ((".cshtml",), r"@Html\.Raw\(", _UNESCAPED),
    (
        (*_JINJA, ".hbs", ".ejs", ".erb"),
        r"""\son\w+\s*=\s*(?:"[^"\n]*|'[^'\n]*)(?:\{\{|<%=)|javascript:[^"'\n]*(?:\{\{|<%=)""",
        _IN_CODE,
    ),
)
_TOLD: Final = {
    _UNESCAPED: ("unescaped", Severity.LOW, _ESCAPE_IT),
    _IN_CODE: ("value-in-code", Severity.MEDIUM, _AS_DATA),
}


class Templates(Analyser):
    """Pages and templates; the scripts in them are for the analysers of their language."""

    name = "templates"
    domains: ClassVar = ("security",)
    in_process = True
    PROGRAMS: ClassVar = (".sh.j2", ".bash.j2", ".py.j2", ".rb.j2", ".js.j2", ".ps1.j2")
    suffixes = tuple(
        dict.fromkeys(suffix for suffixes, _, _ in _FORMS for suffix in suffixes)
    )

    def judges(self, path: str) -> bool:
        """Return whether it can tell that a file is sound; not of a program's template."""
        return not path.endswith(self.PROGRAMS)

    def answer(
        self,
        texts: Mapping[str, str],
        folder: Path,
        environment: Mapping[str, str],
        run: RunCommand,
    ) -> Said:
        """Return what is found in these texts, without a program."""
        found: list[Message] = []
        for path, text in texts.items():
            found += _found(path, text)
        return Said(found)


def _found(path: str, text: str) -> Iterator[Message]:
    for suffixes, form, about in _FORMS:
        if not path.endswith(suffixes):
            continue
        rule, severity, action = _TOLD[about]
        for match in re.finditer(form, text, re.IGNORECASE):
            line = text.count("\n", 0, match.end()) + 1
            yield Message(path, line, rule, about, severity, "security", action, cwe=79)
