"""Turn values into JSON and back, the same before and after a pause.

The value space is JSON plus what has one obvious JSON form: dataclasses, TypedDicts,
named tuples, enums, paths, moments, sets, bytes, UUIDs, decimals, keys that are no
text, msgspec structs and pydantic models where those libraries are in use. A record
marks what JSON has no word for (`{"~": "set", "v": [1, 2]}`), so that it comes back as
it was without a type; people, agents and digests get the plain form. No pickles.
"""

from __future__ import annotations

import json
import math
import sys
import types
import typing
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Self

from bridgehead.flows.errors import FlowMistake

_MARK: Final = "~"
_LATER: Final = frozenset(
    {
        "set",
        "frozenset",
        "bytes",
        "date",
        "time",
        "timedelta",
        "uuid",
        "decimal",
        "dict",
    }
)
_ALL: Final = _LATER | {"tuple", "datetime", "path"}
"""What a record marks.

Digests mark only what older journals cannot hold: their digests stay as they are.
"""
_NO_MARKS: Final[frozenset[str]] = frozenset()
_READ: Final = json.JSONDecoder().raw_decode
_AS_IS: Final = frozenset({str, int, bool, type(None)})


def _writer(*, sort_keys: bool) -> Callable[[Any], str]:
    """Return a function that writes compact JSON with one C encoder.

    `json.dumps`, and `JSONEncoder.encode` too, make a new one for each value.
    """
    encoder = json.JSONEncoder(
        separators=(",", ":"), sort_keys=sort_keys, allow_nan=False
    )
    make: Callable[..., Any] | None = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return encoder.encode
    write = make(
        None,
        encoder.default,
        json.encoder.encode_basestring_ascii,
        None,
        ":",
        ",",
        sort_keys,
        False,
        False,
    )
    return lambda value: "".join(write(value, 0))


_WRITE: Final = _writer(sort_keys=False)
_WRITE_SORTED: Final = _writer(sort_keys=True)


class Unfit(ValueError):
    """A JSON value is not what its type asks for."""


class NotRecordable(FlowMistake):
    """A value has no JSON form; `kind` is its type."""

    def __init__(self, value: object) -> None:
        self.kind = type(value).__name__ if not isinstance(value, str) else value
        self._say(f"a {self.kind} cannot be recorded")

    def named(self, what: str) -> Self:
        """Return the same error, saying what holds the value.

        That is the arguments of a step, or the result of one that has run.
        """
        self._say(f"{what} cannot be recorded: a {self.kind} cannot be stored")
        return self

    def _say(self, what: str) -> None:
        FlowMistake.__init__(
            self,
            what,
            hint="steps take and return JSON, tuples, sets, bytes, dates, UUIDs, "
            "decimals, paths, enums, dataclasses; "
            "pass an id or a path instead of an open file or a connection",
        )


def encode(value: Any) -> str:
    """Return `value` as the JSON text of a record.

    Raise NotRecordable if it has no JSON form.
    """
    if type(value) is int:
        return str(value)
    return _WRITE(_plain(value, _ALL))


def decode(text: str) -> Any:
    """Return what `encode` was given, as far as that can be told without its type."""
    if f'"{_MARK}"' in text:
        return json.loads(text, object_hook=_revived)
    return _READ(text)[0]


def canonical(value: Any) -> bytes:
    """Return the one spelling of `value` that digests are taken of."""
    return _WRITE_SORTED(_plain(value, _LATER)).encode("ascii")


def storable(text: str) -> str:
    """Return `text` with what cannot be written as UTF-8 made visible.

    That is half a surrogate pair, or a byte of a file name.
    """
    return text.encode("utf-8", "backslashreplace").decode()


def to_plain(value: Any) -> Any:
    """Return `value` made of plain JSON types only, for people and agents to read."""
    return _plain(value, _NO_MARKS)


def _plain(value: Any, marks: frozenset[str]) -> Any:
    kind = type(value)
    if kind in _AS_IS:
        return value
    if kind is tuple and "tuple" not in marks:
        return _plain_items(value, marks)
    if isinstance(value, Enum):
        return _plain(value.value, marks)
    if isinstance(value, str | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotRecordable(f"{value} (float)")
        return value
    if isinstance(value, Mapping):
        return _plain_mapping(value, marks)
    if isinstance(value, list):
        return _plain_items(value, marks)
    return _plain_object(value, marks)


def _plain_items(
    items: list[Any] | tuple[Any, ...], marks: frozenset[str]
) -> list[Any]:
    return [item if type(item) in _AS_IS else _plain(item, marks) for item in items]


def _plain_object(value: Any, marks: frozenset[str]) -> Any:
    """Return the plain form of an object with fields, or of what a record marks."""
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        names = value.__dataclass_fields__
        return {name: _plain(getattr(value, name), marks) for name in names}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if _is_struct(type(value)):
        return sys.modules["msgspec"].to_builtins(value)
    name, plain = _named_form(value, marks)
    if name in marks:
        return {_MARK: name, "v": plain}
    return plain


def _plain_mapping(value: Mapping[Any, Any], marks: frozenset[str]) -> Any:
    pairs = [
        (_plain(key, marks), _plain(member, marks)) for key, member in value.items()
    ]
    has_text_keys = all(isinstance(key, str) for key in value)
    looks_marked = marks is _ALL and _MARK in value
    if has_text_keys and not looks_marked:
        return dict(pairs)
    if marks is _ALL:
        return {_MARK: "dict", "v": pairs}
    if marks:
        return {
            _MARK: "dict",
            "v": sorted(pairs, key=lambda pair: _sorted_json(pair[0])),
        }
    return {_text_key(key): member for key, member in pairs}


def _sorted_json(plain: Any) -> str:
    return json.dumps(plain, sort_keys=True)


def _text_key(key: Any) -> str:
    return key if isinstance(key, str) else json.dumps(key)


def _named_form(value: Any, marks: frozenset[str]) -> tuple[str, Any]:
    """Return what JSON has no word for: its name in a record, and its plain form."""
    kind = type(value)
    if isinstance(value, tuple):
        return "tuple", [_plain(item, marks) for item in value]
    if isinstance(value, set | frozenset):
        items = [_plain(item, marks) for item in value]
        name = "set" if isinstance(value, set) else "frozenset"
        return name, sorted(items, key=_sorted_json)
    if isinstance(value, bytes | bytearray):
        return "bytes", b2a_base64(value, newline=False).decode()
    if isinstance(value, datetime):
        return "datetime", value.isoformat()
    if isinstance(value, date):
        return "date", value.isoformat()
    if isinstance(value, time):
        return "time", value.isoformat()
    if isinstance(value, timedelta):
        if marks:
            return "timedelta", [value.days, value.seconds, value.microseconds]
        return "timedelta", value / timedelta(seconds=1)
    if isinstance(value, Path):
        return "path", str(value)
    if (kind.__module__, kind.__name__) in _KNOWN_BY_NAME:
        return kind.__name__.lower(), str(value)
    raise NotRecordable(value)


_KNOWN_BY_NAME: Final = frozenset({("uuid", "UUID"), ("decimal", "Decimal")})
"""Types by name: importing their modules is too slow to be done for every flow.

Where such a value exists, its module is loaded.
"""
_READERS: Final[dict[Any, Callable[[Any], Any]]] = {
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
    time: time.fromisoformat,
    timedelta: lambda seconds: timedelta(seconds=seconds),
    bytes: a2b_base64,
}


def _revived(members: dict[str, Any]) -> Any:
    if members.keys() != {_MARK, "v"}:
        return members
    make = _MAKERS.get(members[_MARK])
    return members if make is None else make(members["v"])


_MAKERS: Final[dict[Any, Callable[[Any], Any]]] = {
    **{kind.__name__: read for kind, read in _READERS.items()},
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
    "timedelta": lambda parts: timedelta(*parts),
    "path": Path,
    "uuid": lambda text: import_module("uuid").UUID(text),
    "decimal": lambda text: import_module("decimal").Decimal(text),
    "dict": dict,
}


def from_plain(plain: Any, wanted: Any = Any) -> Any:
    """Return `plain` as a value of the type `wanted`; raise Unfit if it is none."""
    if wanted is Any or wanted is object:
        return plain
    origin = typing.get_origin(wanted)
    if origin is not None:
        return _from_generic(plain, wanted, origin)
    if wanted is None or wanted is type(None):
        return _require(plain is None, plain, plain, "null")
    if wanted is int or wanted is float:
        return _number(plain, wanted)
    if wanted is str:
        text = to_plain(plain)  # a record brings paths and moments back as such
        return _require(isinstance(text, str), text, plain, "a str")
    if wanted in (list, tuple, set, frozenset):
        return wanted(_items(plain))
    if wanted in (bool, dict):
        return _require(isinstance(plain, wanted), plain, plain, f"a {wanted.__name__}")
    if isinstance(wanted, type):
        return _from_class(plain, wanted)
    raise FlowMistake(f"{wanted!r} cannot be used as the type of a recorded result")


def _number(plain: Any, wanted: type[int] | type[float]) -> Any:
    is_bool = isinstance(plain, bool)
    if wanted is float:
        fits = isinstance(plain, int | float) and not is_bool
        return _require(fits, plain, plain, "a number")
    if isinstance(plain, float) and plain.is_integer():
        # JSON has one kind of number; a JSON Schema takes 5.0 for an integer, too.
        return int(plain)
    fits = isinstance(plain, int) and not is_bool
    return _require(fits, plain, plain, "an integer")


def _from_class(plain: Any, wanted: type[Any]) -> Any:
    if hasattr(wanted, "__dataclass_fields__") or typing.is_typeddict(wanted):
        return _from_fields(plain, wanted)
    if hasattr(wanted, "model_validate"):
        return _converted(lambda: wanted.model_validate(plain))
    if _is_struct(wanted):
        return _converted(lambda: sys.modules["msgspec"].convert(plain, wanted))
    if issubclass(wanted, Enum) or wanted is Path:
        return _converted(lambda: wanted(plain))
    if wanted in _READERS or (wanted.__module__, wanted.__name__) in _KNOWN_BY_NAME:
        read = _READERS.get(wanted, wanted)
        return plain if isinstance(plain, wanted) else _converted(lambda: read(plain))
    if issubclass(wanted, tuple) and hasattr(wanted, "_fields"):
        return _converted(lambda: wanted(*plain))
    raise FlowMistake(
        f"{wanted.__name__} cannot be used as the type of a recorded result"
    )


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
        missing = set(required_keys(wanted, hints)) - found.keys()
        expected = f"complete ({', '.join(sorted(missing))} missing)"
        return _require(not missing, found, plain, expected)
    return _converted(lambda: wanted(**found))


def required_keys(wanted: Any, hints: Mapping[str, Any]) -> list[str]:
    """Return the keys a TypedDict requires, in the order it names them.

    `__required_keys__` does not see `NotRequired` in modules whose annotations are
    strings.
    """
    required = []
    for name, hint in hints.items():
        origin = typing.get_origin(hint)
        is_required = origin is typing.Required
        if is_required or (wanted.__total__ and origin is not typing.NotRequired):
            required.append(name)
    return required


def _from_generic(plain: Any, wanted: Any, origin: Any) -> Any:
    inner = typing.get_args(wanted)
    if origin in (typing.Union, types.UnionType):
        return _first_fit(plain, inner)
    if origin is typing.Literal:
        return _require(plain in inner, plain, plain, f"one of {inner}")
    if origin is typing.Annotated:
        return from_plain(plain, inner[0])
    if origin is tuple:
        return _tuple_of(plain, inner)
    if issubclass(origin, Mapping):
        members = _require(isinstance(plain, dict), plain, plain, "an object")
        return {
            _as_key(key, inner[0]): from_plain(member, inner[1])
            for key, member in members.items()
        }
    items = [from_plain(item, inner[0]) for item in _items(plain)]
    return origin(items) if origin in (set, frozenset) else items


def _first_fit(plain: Any, choices: tuple[Any, ...]) -> Any:
    """Return `plain` as a value of the first type it fits."""
    complaints = []
    for choice in choices:
        try:
            return from_plain(plain, choice)
        except Unfit as error:
            complaints.append(str(error))
    raise Unfit(" and ".join(complaints))


def _tuple_of(plain: Any, kinds: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a tuple of these types, or of any length if they end in `...`."""
    items = _items(plain)
    if kinds[-1:] == (...,):
        return tuple(from_plain(item, kinds[0]) for item in items)
    _require(len(items) == len(kinds), items, plain, f"an array of {len(kinds)}")
    return tuple(
        from_plain(item, kind) for item, kind in zip(items, kinds, strict=True)
    )


def _items(plain: Any) -> list[Any]:
    """Return the items of an array; a record may bring it back as a tuple or a set."""
    fits = isinstance(plain, list | tuple | set | frozenset)
    return list(_require(fits, plain, plain, "an array"))


def _as_key(key: Any, wanted: Any) -> Any:
    """Return a key of the type `wanted`, read from text if it is a number or a bool.

    JSON has keys of text only.
    """
    if isinstance(key, str) and wanted in (int, float, bool):
        return _converted(lambda: from_plain(json.loads(key), wanted))
    return from_plain(key, wanted)


def _without_qualifier(hint: Any) -> Any:
    if typing.get_origin(hint) in (typing.Required, typing.NotRequired):
        return typing.get_args(hint)[0]
    return hint


def _converted(convert: typing.Callable[[], Any]) -> Any:
    try:
        return convert()
    except (TypeError, ValueError, ArithmeticError) as error:
        raise Unfit(str(error) or type(error).__name__) from error


def _require(fits: bool, value: Any, shown: Any, expected: str) -> Any:
    if not fits:
        raise Unfit(f"{json.dumps(to_plain(shown))[:60]} is not {expected}")
    return value


def _is_struct(wanted: type[Any]) -> bool:
    msgspec = sys.modules.get("msgspec")
    return msgspec is not None and issubclass(wanted, msgspec.Struct)
