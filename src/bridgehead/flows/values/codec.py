"""Values to JSON and back, so that what a step returned is the same before and after a pause.

The value space is JSON plus what has one obvious JSON form: dataclasses, TypedDicts, named tuples, enums, paths and
moments, msgspec structs and pydantic models where those libraries are in use. No pickles.
"""

from __future__ import annotations

import json
import math
import sys
import types
import typing
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

from bridgehead.flows.errors import FlowMistake


class Unfit(ValueError):
    """A JSON value is not what its type asks for."""


class NotRecordable(FlowMistake):
    def __init__(self, value: object) -> None:
        super().__init__(
            f"a {type(value).__name__} cannot be recorded: steps take and return JSON, dataclasses, enums, paths "
            "and moments"
        )


def encode(value: Any) -> str:
    """`value` as JSON text; NotRecordable when it has no JSON form."""
    return json.dumps(to_plain(value), separators=(",", ":"), allow_nan=False)


def canonical(value: Any) -> bytes:
    """The one spelling of `value` that digests are taken of."""
    return json.dumps(to_plain(value), separators=(",", ":"), sort_keys=True, allow_nan=False).encode("ascii")


def storable(text: str) -> str:
    """`text` with what cannot be written as UTF-8 (half a surrogate pair, a byte of a file name) made visible."""
    return text.encode("utf-8", "backslashreplace").decode()


def to_plain(value: Any) -> Any:
    """`value` made of dict, list, str, int, float, bool and None only."""
    if value is None or (isinstance(value, str | bool | int) and not isinstance(value, Enum)):
        return value
    if isinstance(value, float) and not isinstance(value, Enum):
        if not math.isfinite(value):
            raise NotRecordable(value)
        return value
    if isinstance(value, Mapping):
        return {_key(key): to_plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    return _plain_object(value)


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise NotRecordable(key)
    return key


def _plain_object(value: Any) -> Any:
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        return {name: to_plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, Enum):
        return to_plain(value.value)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if _is_struct(type(value)):
        return sys.modules["msgspec"].to_builtins(value)
    raise NotRecordable(value)


def from_plain(plain: Any, wanted: Any = Any) -> Any:
    """`plain` as a value of the type `wanted`; Unfit when it is none."""
    if wanted is Any or wanted is object:
        return plain
    origin = typing.get_origin(wanted)
    if origin is not None:
        return _from_generic(plain, wanted, origin)
    if wanted is None or wanted is type(None):
        return _require(plain is None, plain, plain, "null")
    if wanted is float:
        fits = isinstance(plain, int | float) and not isinstance(plain, bool)
        return _require(fits, plain, plain, "a number")
    if wanted is int:
        if isinstance(plain, float) and plain.is_integer():
            return int(plain)  # JSON has one kind of number; a JSON Schema takes 5.0 for an integer, too
        return _require(isinstance(plain, int) and not isinstance(plain, bool), plain, plain, "an integer")
    if wanted in (str, bool, list, dict):
        return _require(isinstance(plain, wanted), plain, plain, f"a {wanted.__name__}")
    if isinstance(wanted, type):
        return _from_class(plain, wanted)
    raise FlowMistake(f"{wanted!r} cannot be used as the type of a recorded result")


def _from_class(plain: Any, wanted: type[Any]) -> Any:
    if hasattr(wanted, "__dataclass_fields__") or typing.is_typeddict(wanted):
        return _from_fields(plain, wanted)
    if hasattr(wanted, "model_validate"):
        return _converted(lambda: wanted.model_validate(plain))
    if _is_struct(wanted):
        return _converted(lambda: sys.modules["msgspec"].convert(plain, wanted))
    if issubclass(wanted, Enum) or wanted in (Path, tuple):
        return _converted(lambda: wanted(plain))
    if wanted is datetime:
        return _converted(lambda: datetime.fromisoformat(plain))
    if issubclass(wanted, tuple) and hasattr(wanted, "_fields"):
        return _converted(lambda: wanted(*plain))
    raise FlowMistake(f"{wanted.__name__} cannot be used as the type of a recorded result")


def _from_fields(plain: Any, wanted: type[Any]) -> Any:
    members = _require(isinstance(plain, dict), plain, plain, "an object")
    hints = typing.get_type_hints(wanted, include_extras=True)
    found = {}
    for name, hint in hints.items():
        if name in members:
            try:
                found[name] = from_plain(members[name], _without_qualifier(hint))
            except Unfit as error:
                raise Unfit(f"{name}: {error}") from None
    if typing.is_typeddict(wanted):
        missing = _required_keys(wanted, hints) - found.keys()
        return _require(not missing, found, plain, f"complete ({', '.join(sorted(missing))} missing)")
    return _converted(lambda: wanted(**found))


def _required_keys(wanted: Any, hints: Mapping[str, Any]) -> set[str]:
    """`__required_keys__` does not see `NotRequired` in modules whose annotations are strings."""
    origins = {name: typing.get_origin(hint) for name, hint in hints.items()}
    return {
        name
        for name, origin in origins.items()
        if origin is typing.Required or (wanted.__total__ and origin is not typing.NotRequired)
    }


def _from_generic(plain: Any, wanted: Any, origin: Any) -> Any:
    inner = typing.get_args(wanted)
    if origin in (typing.Union, types.UnionType):
        return _from_union(plain, inner)
    if origin is typing.Literal:
        return _require(plain in inner, plain, plain, f"one of {inner}")
    if origin is typing.Annotated:
        return from_plain(plain, inner[0])
    if origin is tuple:
        items = _require(isinstance(plain, list), plain, plain, "an array")
        kinds = [inner[0]] * len(items) if inner[-1:] == (...,) else inner
        _require(len(items) == len(kinds), items, plain, f"an array of {len(kinds)}")
        return tuple(from_plain(item, kind) for item, kind in zip(items, kinds, strict=True))
    if issubclass(origin, Mapping):
        members = _require(isinstance(plain, dict), plain, plain, "an object")
        return {key: from_plain(member, inner[1]) for key, member in members.items()}
    items = _require(isinstance(plain, list), plain, plain, "an array")
    return [from_plain(item, inner[0]) for item in items]


def _from_union(plain: Any, choices: tuple[Any, ...]) -> Any:
    complaints = []
    for choice in choices:
        try:
            return from_plain(plain, choice)
        except Unfit as error:
            complaints.append(str(error))
    raise Unfit(" and ".join(complaints))


def _without_qualifier(hint: Any) -> Any:
    return (
        typing.get_args(hint)[0] if typing.get_origin(hint) in (typing.Required, typing.NotRequired) else hint
    )


def _converted(convert: typing.Callable[[], Any]) -> Any:
    try:
        return convert()
    except (TypeError, ValueError) as error:
        raise Unfit(str(error)) from error


def _require(fits: bool, value: Any, shown: Any, expected: str) -> Any:
    if not fits:
        raise Unfit(f"{json.dumps(shown)[:60]} is not {expected}")
    return value


def _is_struct(wanted: type[Any]) -> bool:
    msgspec = sys.modules.get("msgspec")
    return msgspec is not None and issubclass(wanted, msgspec.Struct)
