"""Find where the names stand in a source text, by its grammar (flows §11, phase 4). Pure.

The grammars are the extra `templates`; without them, and for other languages, a text is one run of words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

import yaml

from bridgehead.contract.fencing import read_toml
from bridgehead.flows.template_create.project.languages import suffix_of

EXTRA: Final = "templates"
_GRAMMARS: Final = {
    ".py": ("tree_sitter_python", "language"),
    ".js": ("tree_sitter_javascript", "language"),
    ".jsx": ("tree_sitter_javascript", "language"),
    ".mjs": ("tree_sitter_javascript", "language"),
    ".ts": ("tree_sitter_typescript", "language_typescript"),
    ".tsx": ("tree_sitter_typescript", "language_tsx"),
    ".go": ("tree_sitter_go", "language"),
    ".rs": ("tree_sitter_rust", "language"),
    ".cs": ("tree_sitter_c_sharp", "language"),
    ".java": ("tree_sitter_java", "language"),
}


def _read_yaml(text: str) -> None:
    """Raise unless it is YAML, nested no deeper than a person writes.

    The loader in Python looks at every open bracket for every word, and building documents
    with the one in C ends the process when they are too deep.
    """
    depth = 0
    anchors = set()
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in anchors:
                raise ValueError(f"there is no anchor {event.anchor}")
        elif isinstance(event, yaml.NodeEvent):
            anchors.add(event.anchor)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST_YAML:
            raise ValueError("it is nested too deep")


DEEPEST_YAML: Final = 100


_DATA: Final[dict[str, Callable[[str], Any]]] = {
    ".json": json.loads,
    ".toml": read_toml,
    ".yaml": _read_yaml,
    ".yml": _read_yaml,
}
_MARKUP: Final = frozenset((".md", ".rst", ".txt", ".adoc"))
_PAGES: Final = re.compile(r"\.(?:html?|jinja2?|j2|hbs|ejs|vue|svelte|cshtml|tmpl)")
_TAG: Final = re.compile(rb"\{\{.*?\}\}|\{%.*?%\}|<[^<>]*>", re.S)

_STRING: Final = re.compile(r"string|char|template_|raw_text")
_IMPORT: Final = re.compile(
    r"import|package_(?:clause|declaration)|using_directive|use_declaration|mod_item"
)
# Nodes in which the child of one of these fields is a name given here, not one used here.
_GIVING_FIELD: Final = frozenset(("name", "pattern", "left", "alias", "declarator"))
_USING_NODE: Final = re.compile(
    r"keyword_argument|jsx|generic|scoped|qualified|import|call|invocation|access"
    r"|member_expression|annotation|attribute_item|decorator|new_expression|struct_expression|initializer"
)
_GIVING_NODE: Final = re.compile(
    r"parameters|lambda_parameters|typed_parameter|list_splat_pattern"
    r"|dictionary_splat_pattern|pattern_list|tuple_pattern|as_pattern_target"
    r"|object_pattern|array_pattern|closure_parameters|package_clause|mod_item"
)
_TYPE_NODE: Final = re.compile(
    r"class|interface|struct|record|enum_(?:decl|item)|trait|type_spec|type_alias"
)
_NEAREST: Final = 6  # how many of the nodes around a name are looked at


class Kind(Enum):
    """What a stretch of text is; it decides how a plain lower-case word in it is spelled."""

    NAME = "name"
    MODULE = "module"
    PATH = "path"
    STRING = "string"
    PROSE = "prose"


class Token(NamedTuple):
    """A stretch of the text's bytes that may hold names."""

    start: int
    end: int
    kind: Kind
    import_line: str = ""
    """The statement it is part of, when that is an import."""


class Names(NamedTuple):
    """What a file gives names to."""

    declared: frozenset[str]
    types: frozenset[str]


def has_grammar(path: str) -> bool:
    """Tell whether the language of this file has a grammar that is installed."""
    return _parser(suffix_of(path)) is not None


def tokens_in(text: str, path: str) -> list[Token]:
    """Return the names, strings and comments of a source file; the whole text where there is no grammar."""
    data = text.encode()
    parser = _parser(suffix_of(path))
    if parser is None:
        return list(_stretches(data, suffix_of(path)))
    return list(_tokens(parser.parse(data).root_node, data))


def _stretches(data: bytes, suffix: str) -> Iterator[Token]:
    """Yield a text without a grammar; what stands between the tags of a page is for people."""
    if not _PAGES.fullmatch(suffix):
        kind = Kind.PROSE if suffix in _MARKUP else Kind.STRING
        yield Token(0, len(data), kind)
        return
    done = 0
    for tag in _TAG.finditer(data):
        yield Token(done, tag.start(), Kind.PROSE)
        yield Token(tag.start(), tag.end(), Kind.STRING)
        done = tag.end()
    yield Token(done, len(data), Kind.PROSE)


def names_in(text: str, path: str) -> Names:
    """Return the names that a source file declares, and those of them that are types."""
    declared = set()
    types = set()
    parser = _parser(suffix_of(path))
    leaves = _leaves(parser.parse(text.encode()).root_node) if parser else ()
    for leaf, parents in leaves:
        if "identifier" not in leaf.type or not _is_given(leaf, parents):
            continue
        name = leaf.text.decode()
        declared.add(name)
        is_type = _TYPE_NODE.match(parents[-1].type)
        if is_type and _field(leaf, parents[-1]) == "name":
            types.add(name)
    return Names(frozenset(declared), frozenset(types))


def parses(text: str, path: str) -> bool | None:
    """Tell whether a file is well formed; None if nothing here can tell."""
    suffix = suffix_of(path)
    parser = _parser(suffix)
    if parser is not None:
        return not parser.parse(text.encode()).root_node.has_error
    if suffix not in _DATA:
        return None
    try:
        _DATA[suffix](text)
    except (ValueError, RecursionError, yaml.YAMLError):
        return False
    return True


@cache
def _parser(suffix: str) -> Any:
    module, function = _GRAMMARS.get(suffix, ("", ""))
    if not module or find_spec("tree_sitter") is None or find_spec(module) is None:
        return None
    tree_sitter = import_module("tree_sitter")
    return tree_sitter.Parser(
        tree_sitter.Language(getattr(import_module(module), function)())
    )


def _leaves(root: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Yield every named leaf with the nodes around it, outermost first. No recursion: the nesting is foreign."""
    stack: list[tuple[Any, list[Any]]] = [(root, [])]
    while stack:
        node, parents = stack.pop()
        if node.child_count == 0:
            if node.is_named and node.end_byte > node.start_byte:
                yield node, parents
            continue
        inner = [*parents[1 - _NEAREST :], node]
        stack += [(child, inner) for child in reversed(node.children)]


def _tokens(root: Any, data: bytes) -> Iterator[Token]:
    for leaf, parents in _leaves(root):
        importing = next((node for node in parents if _IMPORT.match(node.type)), None)
        if "comment" in leaf.type or leaf.type == "jsx_text":
            kind = Kind.PROSE
        elif _STRING.search(leaf.type):
            kind = Kind.PATH if importing else _kind_of_string(parents, data)
        elif "identifier" in leaf.type:
            kind = _kind_of_name(leaf, parents, importing)
        else:
            continue
        line = importing.text.decode(errors="replace") if importing else ""
        yield Token(leaf.start_byte, leaf.end_byte, kind, line)


def _kind_of_name(leaf: Any, parents: list[Any], importing: Any) -> Kind:
    is_declared = importing is not None and importing.type.endswith("_declaration")
    # A package in the middle of code, `org.shop.Order`, is spelled as where it is declared.
    is_scope = parents[-1].type == "scoped_type_identifier" and leaf.text.islower()
    return Kind.MODULE if is_declared or is_scope else Kind.NAME


def _kind_of_string(parents: list[Any], data: bytes) -> Kind:
    calls = [node for node in parents if node.type == "call_expression"]
    if calls:
        start = calls[-1].start_byte
        if re.match(rb"(?:require|import)\b", data[start : start + 8]):
            return Kind.PATH
    # Python's docstrings; other strings may be compared, so that all of them are spelled alike.
    is_statement = len(parents) > 1 and parents[-2].type == "expression_statement"
    return Kind.PROSE if is_statement else Kind.STRING


def _is_given(leaf: Any, parents: list[Any]) -> bool:
    """Tell whether a name is given here, not used."""
    parent = parents[-1]
    if _GIVING_NODE.fullmatch(parent.type):
        return True
    field = _field(leaf, parent)
    if field in _GIVING_FIELD and not _USING_NODE.search(parent.type):
        return True
    if parent.type == "field_definition" and field == "property":
        return True
    if len(parents) == 1:
        return False
    # In `self.order = …` and `order, err := …` one node lies between the name and the assignment.
    is_target = parent.type == "expression_list"
    if parent.type in ("attribute", "member_expression"):
        is_target = parent.children[-1].id == leaf.id
    return is_target and _field(parent, parents[-2]) == "left"


def _field(node: Any, parent: Any) -> str | None:
    """Return the name of the field of `parent` that `node` is in."""
    for place, child in enumerate(parent.children):
        if child.id == node.id:
            field: str | None = parent.field_name_for_child(place)
            return field
    return None
