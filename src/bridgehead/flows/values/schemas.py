"""Turn a result type into the JSON Schema that is shown to an agent.

The schema is held against its answer, too. It says no more than
`values.codec.from_plain` asks for: what a schema lets through may still be unfit, never
the reverse.
"""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from enum import Enum
from pathlib import Path
from typing import Any, Final

from bridgehead.flows.values.codec import required_keys, to_plain

Schema = dict[str, Any]

_PLAIN: Final[dict[Any, Schema]] = {
    None: {"type": "null"},
    type(None): {"type": "null"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    Path: {"type": "string"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    time: {"type": "string", "format": "time"},
    timedelta: {"type": "number"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    **{kind: {"type": "array"} for kind in (list, tuple, set, frozenset)},
    dict: {"type": "object"},
}


_KNOWN_BY_NAME: Final[dict[tuple[str, str], Schema]] = {
    ("uuid", "UUID"): {"type": "string", "format": "uuid"},
    ("decimal", "Decimal"): {"type": ["number", "string"]},
}
"""By name: importing their modules is too slow to be done for every flow."""


def schema_of(wanted: Any) -> Schema | None:
    """Return the schema of an answer of the type `wanted`; None if any JSON will do."""
    return _schema(wanted, ()) or None


def _schema(wanted: Any, inside: tuple[Any, ...]) -> Schema:
    if wanted is Any or wanted is object or wanted in inside:
        return {}  # a type inside itself is described once
    origin = typing.get_origin(wanted)
    if origin is not None:
        return _generic(wanted, origin, inside)
    if wanted in _PLAIN:
        return _PLAIN[wanted]
    return _class(wanted, (*inside, wanted)) if isinstance(wanted, type) else {}


def _generic(wanted: Any, origin: Any, inside: tuple[Any, ...]) -> Schema:
    inner = typing.get_args(wanted)
    if origin in (typing.Union, types.UnionType):
        choices = [_schema(choice, inside) for choice in inner]
        return {"anyOf": choices} if all(choices) else {}
    if origin is typing.Literal:
        return {"enum": [to_plain(value) for value in inner]}
    if origin in (typing.Annotated, typing.Required, typing.NotRequired):
        return _schema(inner[0], inside)
    if origin is tuple and inner[-1:] != (...,):
        return {"type": "array", "minItems": len(inner), "maxItems": len(inner)}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        members = _schema(inner[1], inside) if len(inner) == 2 else {}
        if not members:
            return {"type": "object"}
        return {"type": "object", "additionalProperties": members}
    items = _schema(inner[0], inside) if inner else {}
    if not items:
        return {"type": "array"}
    return {"type": "array", "items": items}


def _class(wanted: type[Any], inside: tuple[Any, ...]) -> Schema:
    if typing.is_typeddict(wanted):
        hints = typing.get_type_hints(wanted, include_extras=True)
        return _object(wanted, hints, required_keys(wanted, hints), inside)
    if hasattr(wanted, "__dataclass_fields__"):
        return _dataclass(wanted, inside)
    if hasattr(wanted, "model_json_schema"):
        return dict(wanted.model_json_schema())
    if issubclass(wanted, Enum):
        return {"enum": [to_plain(member.value) for member in wanted]}
    if (wanted.__module__, wanted.__name__) in _KNOWN_BY_NAME:
        return _KNOWN_BY_NAME[wanted.__module__, wanted.__name__]
    msgspec = sys.modules.get("msgspec")
    if msgspec is not None and issubclass(wanted, msgspec.Struct):
        return dict(msgspec.json.schema(wanted))
    return {"type": "array"} if issubclass(wanted, tuple) else {}


def _dataclass(wanted: Any, inside: tuple[Any, ...]) -> Schema:
    # Its definition has imported the module; we do not.
    missing = sys.modules["dataclasses"].MISSING
    fields = {
        name: field for name, field in wanted.__dataclass_fields__.items() if field.init
    }
    required = [
        name
        for name, field in fields.items()
        if field.default is missing and field.default_factory is missing
    ]
    hints = typing.get_type_hints(wanted, include_extras=True)
    hints = {name: hints[name] for name in fields if name in hints}
    return _object(wanted, hints, required, inside)


def _object(
    wanted: type[Any],
    hints: Mapping[str, Any],
    required: list[str],
    inside: tuple[Any, ...],
) -> Schema:
    properties = {name: _schema(hint, inside) for name, hint in hints.items()}
    return {
        "title": wanted.__name__,
        "type": "object",
        "properties": properties,
        "required": required,
    }
