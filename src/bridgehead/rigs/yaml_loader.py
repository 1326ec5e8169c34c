"""The full YAML reader behind frontmatter.py: PyYAML's parser, made to read YAML 1.2 (rigs §16)."""

from __future__ import annotations

import re

import yaml

from bridgehead.rigs.body_hash import BOM
from bridgehead.rigs.ecmascript import without_lone_surrogates
from bridgehead.rigs.yaml_core import Value
from bridgehead.rigs.yaml_document import Document, YamlRefused

_Loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
# PyYAML refuses these characters or takes them for line breaks; YAML 1.2 and the reference do neither.
_AWKWARD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
# It also refuses to unescape halves of UTF-16 pairs, as JSON writers spell emoji.
_HALF_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)(\\u[dD][89a-fA-F][0-9a-fA-F]{2})")
_PRIVATE_USE = range(0xF0000, 0xFFFFE)


def load(text: str) -> Value:
    """Return the one document that `text` holds, None if it holds nothing; raise YamlRefused."""
    text = text.removeprefix(BOM)
    stand_ins = _StandIns(text)
    text = stand_ins.hide(text)
    indentation = _Indentation(text)
    document = Document(stand_ins.reveal)
    try:
        # Without the LF a final literal block would lose its newline.
        for event in yaml.parse(text + "\n", Loader=_Loader):
            indentation.check(event)
            document.take(event)
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise YamlRefused(f"{line}{error.problem}") from error
    except yaml.YAMLError as error:
        raise YamlRefused(str(error)) from error
    return document.root


class _StandIns:
    """Private-use characters that are not in a text, in place of what PyYAML would misread."""

    def __init__(self, text: str) -> None:
        spare = (chr(code) for code in _PRIVATE_USE if chr(code) not in text)
        self._characters = {ord(found): next(spare) for found in sorted(set(_AWKWARD.findall(text)))}
        self._halves = {
            found: next(spare) for found in sorted({half for _, half in _HALF_PAIR.findall(text)})
        }

    def hide(self, text: str) -> str:
        text = _HALF_PAIR.sub(lambda found: found[1] + self._halves[found[2]], text)
        return text.translate(self._characters)

    def reveal(self, text: str, *, unescape: bool) -> str:
        """Put the originals back; what looked like an escape is one only between double quotes."""
        for half, stand_in in self._halves.items():
            text = text.replace(stand_in, chr(int(half[2:], 16)) if unescape else half)
        text = text.translate({ord(stand_in): code for code, stand_in in self._characters.items()})
        return without_lone_surrogates(text) if self._halves else text


class _Indentation:
    """Refuses quoted scalars and flow collections that run on at the margin.

    PyYAML lets their further lines begin anywhere; YAML 1.2 wants them deeper than the block they stand in.
    """

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._margins = [-1]  # columns of the open block collections
        self._flows: list[int] = []  # first lines of the open flow collections

    def check(self, event: yaml.Event) -> None:
        start, end = event.start_mark, event.end_mark
        if start is None or end is None:
            return
        if isinstance(event, yaml.CollectionStartEvent):
            if event.flow_style:
                self._flows.append(start.line)
            else:
                # Behind an anchor or a tag the mark is theirs, not the collection's.
                self._margins.append(self._margins[-1] if event.anchor or event.tag else start.column)
        elif isinstance(event, yaml.CollectionEndEvent):
            if not self._flows:
                self._margins.pop()
            else:
                self._check_lines(self._flows.pop(), end.line)
        elif isinstance(event, yaml.ScalarEvent) and event.style in ("'", '"'):
            self._check_lines(start.line, end.line)

    def _check_lines(self, first: int, last: int) -> None:
        if self._flows:
            return  # the outermost flow collection is checked as a whole
        margin = self._margins[-1]
        for number, line in enumerate(self._lines[first + 1 : last + 1], first + 1):
            content = line.lstrip(" ")
            depth = len(line) - len(content)
            needed = margin if number == last and content[:1] in ("]", "}") else margin + 1
            if content and depth < needed and not content.startswith("#"):
                raise YamlRefused(f"line {number + 1}: not indented deeper than the key it belongs to")
