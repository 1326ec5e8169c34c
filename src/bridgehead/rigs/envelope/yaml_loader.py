"""Read all of YAML 1.2 for frontmatter.py (rigs §16).

PyYAML parses; values are built within bounds that any envelope keeps.
"""

from __future__ import annotations

import re

import yaml

from bridgehead.rigs.envelope.body_hash import BOM
from bridgehead.rigs.envelope.text import without_lone_surrogates
from bridgehead.rigs.envelope.yaml_core import (
    Scalar,
    Value,
    resolve_plain,
    resolve_tagged,
)

MAX_ALIASES = 100  # of one anchor, nested ones multiplied: the reference's bound
MAX_DEPTH = 100
MAX_KEY = 1024
MAX_VALUES = 100_000


class YamlRefused(ValueError):
    """The text is not YAML, or more of it than an envelope can need."""


class _Anchor:
    """A named value, how often it was used, and how much each use adds."""

    __slots__ = (
        "aliases_inside",
        "finished",
        "holds_scalars",
        "uses",
        "value",
        "weight",
    )

    def __init__(self, value: Value, *, finished: bool) -> None:
        self.value = value
        self.finished = finished
        self.holds_scalars = finished
        self.aliases_inside: list[_Anchor] = []
        self.uses = 0
        self.weight = 0

    def use(self) -> Value:
        if not self.finished:
            raise YamlRefused("an alias names the collection it stands in")
        self.uses += 1
        if not self.weight:
            nested = [anchor.uses * anchor.weight for anchor in self.aliases_inside]
            self.weight = max(nested, default=0) or int(self.holds_scalars)
        if self.uses * self.weight > MAX_ALIASES:
            raise YamlRefused(f"an anchor is used more than {MAX_ALIASES} times")
        return self.value


class _Open:
    """A collection whose end has not been seen yet."""

    __slots__ = ("anchor", "awaiting_value", "collection", "key", "keys")

    def __init__(
        self, collection: list[Value] | dict[str, Value], anchor: _Anchor | None
    ) -> None:
        self.collection = collection
        self.anchor = anchor
        self.keys: set[tuple[type, str]] = set()
        self.key = ""
        self.awaiting_value = False

    def add(self, value: Value) -> None:
        if isinstance(self.collection, list):
            self.collection.append(value)
        elif self.awaiting_value:
            self.collection[self.key] = value
            self.awaiting_value = False
        else:
            self.key = _key_text(value)
            if (identity := (type(value), self.key)) in self.keys:
                raise YamlRefused(f"map keys must be unique, {self.key!r} is repeated")
            self.keys.add(identity)
            self.awaiting_value = True


class Document:
    """Builds the value of a document from parser events."""

    def __init__(self, stand_ins: _StandIns) -> None:
        self.root: Value = None
        self._stand_ins = stand_ins
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchor] = {}
        self._documents = 0
        self._values = 0

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event.anchor)
        elif isinstance(event, yaml.MappingStartEvent):
            self._begin({}, event.anchor)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._begin([], event.anchor)
        elif isinstance(event, yaml.CollectionEndEvent):
            ended = self._open.pop()
            if ended.anchor:
                ended.anchor.finished = True
            self._add(ended.collection)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise YamlRefused("it contains more than one document")

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        value = self._typed(event)
        if event.anchor:
            self._anchors[event.anchor] = _Anchor(value, finished=True)
        for anchor in self._open_anchors():
            anchor.holds_scalars = True
        self._add(value)

    def _typed(self, event: yaml.ScalarEvent) -> Scalar:
        text = self._stand_ins.reveal(event.value, unescape=event.style == '"')
        if event.tag:
            return resolve_tagged(event.tag, text)
        return text if event.style else resolve_plain(text)

    def _alias(self, name: str | None) -> None:
        if name is None or name not in self._anchors:
            raise YamlRefused(f"alias {name!r} has no anchor before it")
        used = self._anchors[name]
        value = used.use()
        for anchor in self._open_anchors():
            anchor.aliases_inside.append(used)
        self._add(value)

    def _open_anchors(self) -> list[_Anchor]:
        return [collection.anchor for collection in self._open if collection.anchor]

    def _begin(
        self, collection: list[Value] | dict[str, Value], name: str | None
    ) -> None:
        anchor = _Anchor(collection, finished=False) if name else None
        if name and anchor:
            self._anchors[name] = anchor
        self._open.append(_Open(collection, anchor))
        if len(self._open) > MAX_DEPTH:
            raise YamlRefused(f"collections are nested deeper than {MAX_DEPTH}")

    def _add(self, value: Value) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise YamlRefused(f"it contains more than {MAX_VALUES} values")
        if self._open:
            self._open[-1].add(value)
        else:
            self.root = value


def _key_text(key: Value) -> str:
    """Spell a key as an ECMAScript object would hold it."""
    if isinstance(key, str):
        return key
    if key is None:
        return ""
    if isinstance(key, bool):
        return "true" if key else "false"
    text = str(key)
    # a collection; each one around it would double its quotes and backslashes.
    if len(text) > MAX_KEY:
        raise YamlRefused(
            f"a collection that is a key is longer than {MAX_KEY} characters"
        )
    return text


_Loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
# PyYAML refuses these characters or takes them for line breaks; YAML 1.2 and the
# reference do neither.
_AWKWARD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
# It also refuses to unescape halves of UTF-16 pairs, as JSON writers spell emoji.
_HALF_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)(\\u[dD][89a-fA-F][0-9a-fA-F]{2})")
_PRIVATE_USE = range(0xF0000, 0xFFFFE)


def load(text: str) -> Value:
    """Return the document in `text`, None if there is none; raise YamlRefused."""
    text = text.removeprefix(BOM)
    stand_ins = _StandIns(text)
    text = stand_ins.hide(text)
    indentation = _Indentation(text)
    document = Document(stand_ins)
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
    """Private-use characters that are not in a text, for what PyYAML would misread."""

    def __init__(self, text: str) -> None:
        spare = (chr(code) for code in _PRIVATE_USE if chr(code) not in text)
        self._characters = {
            ord(found): next(spare) for found in sorted(set(_AWKWARD.findall(text)))
        }
        self._halves = {
            found: next(spare)
            for found in sorted({half for _, half in _HALF_PAIR.findall(text)})
        }

    def hide(self, text: str) -> str:
        text = _HALF_PAIR.sub(lambda found: found[1] + self._halves[found[2]], text)
        return text.translate(self._characters)

    def reveal(self, text: str, *, unescape: bool) -> str:
        """Return text with the originals; escapes count only between double quotes."""
        for half, stand_in in self._halves.items():
            text = text.replace(stand_in, chr(int(half[2:], 16)) if unescape else half)
        text = text.translate(
            {ord(stand_in): code for code, stand_in in self._characters.items()}
        )
        return without_lone_surrogates(text) if self._halves else text


class _Indentation:
    """Refuses quoted scalars and flow collections that run on at the margin.

    PyYAML lets their further lines begin anywhere; YAML 1.2 wants them deeper than
    the block they stand in.
    """

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._margins = [-1]  # columns of the open block collections
        self._flows: list[int] = []  # first lines of the open flow collections

    def check(self, event: yaml.Event) -> None:
        start = event.start_mark
        end = event.end_mark
        if start is None or end is None:
            return
        if isinstance(event, yaml.CollectionStartEvent):
            if event.flow_style:
                self._flows.append(start.line)
            else:
                # Behind an anchor or a tag the mark is theirs, not the collection's.
                self._margins.append(
                    self._margins[-1] if event.anchor or event.tag else start.column
                )
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
            needed = (
                margin if number == last and content[:1] in ("]", "}") else margin + 1
            )
            if content and depth < needed and not content.startswith("#"):
                raise YamlRefused(
                    f"line {number + 1}: not indented deeper than the key it belongs to"
                )
