"""Build the value of a YAML document from parser events, within bounds that any envelope keeps (rigs §16).

Events, not composed nodes: composing is recursive in C, and a hostile file with enough brackets would end the process.
"""

from __future__ import annotations

from typing import Protocol

import yaml

from bridgehead.rigs.yaml_core import Scalar, Value, resolve_plain, resolve_tagged

MAX_ALIASES = 100  # of one anchor, nested ones multiplied: the reference's bound
MAX_DEPTH = 100
MAX_VALUES = 100_000


class Reveal(Protocol):
    """Gives the text back that stood where the parser saw stand-ins."""

    def __call__(self, text: str, *, unescape: bool) -> str: ...


class YamlRefused(ValueError):
    """The text is not YAML, or more of it than an envelope can need."""


class _Anchor:
    """A named value, how often it was used, and by how much each use multiplies what is shown."""

    __slots__ = ("aliases_inside", "finished", "holds_scalars", "uses", "value", "weight")

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

    def __init__(self, collection: list[Value] | dict[str, Value], anchor: _Anchor | None) -> None:
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
            self._begin_pair(value)

    def _begin_pair(self, key: Value) -> None:
        self.key = _key_text(key)
        if (identity := (type(key), self.key)) in self.keys:
            raise YamlRefused(f"map keys must be unique, {self.key!r} is repeated")
        self.keys.add(identity)
        self.awaiting_value = True


class Document:
    """Builds the value of a document from parser events."""

    def __init__(self, reveal: Reveal) -> None:
        self.root: Value = None
        self._reveal = reveal
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
            self._end()
        elif isinstance(event, yaml.DocumentStartEvent):
            self._begin_document()

    def _begin_document(self) -> None:
        self._documents += 1
        if self._documents > 1:
            raise YamlRefused("it holds more than one document")

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        value = self._typed(event)
        if event.anchor:
            self._anchors[event.anchor] = _Anchor(value, finished=True)
        for anchor in self._open_anchors():
            anchor.holds_scalars = True
        self._add(value)

    def _typed(self, event: yaml.ScalarEvent) -> Scalar:
        text = self._reveal(event.value, unescape=event.style == '"')
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

    def _begin(self, collection: list[Value] | dict[str, Value], name: str | None) -> None:
        anchor = _Anchor(collection, finished=False) if name else None
        if name and anchor:
            self._anchors[name] = anchor
        self._open.append(_Open(collection, anchor))
        if len(self._open) > MAX_DEPTH:
            raise YamlRefused(f"collections are nested deeper than {MAX_DEPTH}")

    def _end(self) -> None:
        ended = self._open.pop()
        if ended.anchor:
            ended.anchor.finished = True
        self._add(ended.collection)

    def _add(self, value: Value) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise YamlRefused(f"it holds more than {MAX_VALUES} values")
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
    return str(key)
