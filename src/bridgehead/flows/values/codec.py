"""Values to JSON and back, so that what a step returned is the same before and after a pause.

The value space is JSON plus what has one obvious JSON form: dataclasses, TypedDicts, named tuples, enums, paths,
moments, sets, bytes, UUIDs, decimals, keys that are no text, msgspec structs and pydantic models where those libraries
are in use. A record marks what JSON has no word for (`{"~": "set", "v": [1, 2]}`), so that it comes back as it was
without a type; people, agents and digests get the plain form. No pickles.
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
"""What a record marks. Digests mark only what older journals cannot hold: their digests stay as they are."""
_NO_MARKS: Final[frozenset[str]] = frozenset()
_READ: Final = json.JSONDecoder().raw_decode
_AS_IS: Final = frozenset({str, int, bool, type(None)})


def _writer(*, sort_keys: bool) -> Callable[[Any], str]:
    """Compact JSON from one C encoder; `json.dumps`, and `JSONEncoder.encode` too, make a new one for each value."""
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
    """`kind`: the type that has no JSON form."""

    def __init__(self, value: object) -> None:
        self.kind = type(value).__name__ if not isinstance(value, str) else value
        self._say(f"a {self.kind} cannot be recorded")

    def named(self, what: str) -> Self:
        """The same, saying what holds the value: the arguments of a step, the result of one that has run."""
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
    """`value` as the JSON text of a record; NotRecordable when it has no JSON form."""
    return str(value) if type(value) is int else _WRITE(_plain(value, _ALL))


def decode(text: str) -> Any:
    """What `encode` was given, as far as that can be told without its type."""
    return (
        json.loads(text, object_hook=_revived)
        if f'"{_MARK}"' in text
        else _READ(text)[0]
    )


def canonical(value: Any) -> bytes:
    """The one spelling of `value` that digests are taken of."""
    return _WRITE_SORTED(_plain(value, _LATER)).encode("ascii")


def storable(text: str) -> str:
    """`text` with what cannot be written as UTF-8 (half a surrogate pair, a byte of a file name) made visible."""
    return text.encode("utf-8", "backslashreplace").decode()


def to_plain(value: Any) -> Any:
    """`value` made of dict, list, str, int, float, bool and None only, for people and agents to read."""
    return _plain(value, _NO_MARKS)


def _plain(value: Any, marks: frozenset[str]) -> Any:
    kind = type(value)
    if kind in _AS_IS:
        return value
    if kind is tuple and "tuple" not in marks:
        return [item if type(item) in _AS_IS else _plain(item, marks) for item in value]
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
        return [item if type(item) in _AS_IS else _plain(item, marks) for item in value]
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        return {
            name: _plain(getattr(value, name), marks)
            for name in value.__dataclass_fields__
        }
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if _is_struct(type(value)):
        return sys.modules["msgspec"].to_builtins(value)
    name, plain = _named_form(value, marks)
    return {_MARK: name, "v": plain} if name in marks else plain


def _plain_mapping(value: Mapping[Any, Any], marks: frozenset[str]) -> Any:
    if all(isinstance(key, str) for key in value) and not (
        _MARK in value and marks is _ALL
    ):
        return {
            _plain(key, marks): _plain(member, marks) for key, member in value.items()
        }
    pairs = [
        [_plain(key, marks), _plain(member, marks)] for key, member in value.items()
    ]
    if marks is _ALL:
        return {_MARK: "dict", "v": pairs}
    if marks:
        return {
            _MARK: "dict",
            "v": sorted(pairs, key=lambda pair: json.dumps(pair[0], sort_keys=True)),
        }
    return {
        key if isinstance(key, str) else json.dumps(key): member
        for key, member in pairs
    }


def _named_form(value: Any, marks: frozenset[str]) -> tuple[str, Any]:
    """What JSON has no word for: its name in a record, and its plain form."""
    kind = type(value)
    if isinstance(value, tuple):
        return "tuple", [_plain(item, marks) for item in value]
    if isinstance(value, set | frozenset):
        items = [_plain(item, marks) for item in value]
        name = "set" if isinstance(value, set) else "frozenset"
        return name, sorted(items, key=lambda item: json.dumps(item, sort_keys=True))
    if isinstance(value, bytes | bytearray):
        return "bytes", b2a_base64(value, newline=False).decode()
    if isinstance(value, datetime):
        return "datetime", value.isoformat()
    if isinstance(value, date | time):
        return "date" if isinstance(value, date) else "time", value.isoformat()
    if isinstance(value, timedelta):
        return "timedelta", value / timedelta(seconds=1) if not marks else [
            value.days,
            value.seconds,
            value.microseconds,
        ]
    if isinstance(value, Path):
        return "path", str(value)
    if (kind.__module__, kind.__name__) in _DEAR:
        return kind.__name__.lower(), str(value)
    raise NotRecordable(value)


_DEAR: Final = frozenset({("uuid", "UUID"), ("decimal", "Decimal")})
"""Their modules are loaded where such a value exists, and too dear to be loaded for every flow."""
_READERS: Final[dict[Any, Callable[[Any], Any]]] = {
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
    time: time.fromisoformat,
    timedelta: lambda seconds: timedelta(seconds=seconds),
    bytes: a2b_base64,
}


def _revived(members: dict[str, Any]) -> Any:
    make = _MAKERS.get(members[_MARK]) if members.keys() == {_MARK, "v"} else None
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
            # JSON has one kind of number; a JSON Schema takes 5.0 for an integer, too.
            return int(plain)
        return _require(
            isinstance(plain, int) and not isinstance(plain, bool),
            plain,
            plain,
            "an integer",
        )
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


def _from_class(plain: Any, wanted: type[Any]) -> Any:
    if hasattr(wanted, "__dataclass_fields__") or typing.is_typeddict(wanted):
        return _from_fields(plain, wanted)
    if hasattr(wanted, "model_validate"):
        return _converted(lambda: wanted.model_validate(plain))
    if _is_struct(wanted):
        return _converted(lambda: sys.modules["msgspec"].convert(plain, wanted))
    if issubclass(wanted, Enum) or wanted is Path:
        return _converted(lambda: wanted(plain))
    if wanted in _READERS or (wanted.__module__, wanted.__name__) in _DEAR:
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
        missing = _required_keys(wanted, hints) - found.keys()
        return _require(
            not missing,
            found,
            plain,
            f"complete ({', '.join(sorted(missing))} missing)",
        )
    return _converted(lambda: wanted(**found))


def _required_keys(wanted: Any, hints: Mapping[str, Any]) -> set[str]:
    """`__required_keys__` does not see `NotRequired` in modules whose annotations are strings."""
    origins = {name: typing.get_origin(hint) for name, hint in hints.items()}
    return {
        name
        for name, origin in origins.items()
        if origin is typing.Required
        or (wanted.__total__ and origin is not typing.NotRequired)
    }


def _from_generic(plain: Any, wanted: Any, origin: Any) -> Any:
    inner = typing.get_args(wanted)
    if origin in (typing.Union, types.UnionType):
        complaints = []
        for choice in inner:
            try:
                return from_plain(plain, choice)
            except Unfit as error:
                complaints.append(str(error))
        raise Unfit(" and ".join(complaints))
    if origin is typing.Literal:
        return _require(plain in inner, plain, plain, f"one of {inner}")
    if origin is typing.Annotated:
        return from_plain(plain, inner[0])
    if origin is tuple:
        items = _items(plain)
        kinds = [inner[0]] * len(items) if inner[-1:] == (...,) else inner
        _require(len(items) == len(kinds), items, plain, f"an array of {len(kinds)}")
        return tuple(
            from_plain(item, kind) for item, kind in zip(items, kinds, strict=True)
        )
    if issubclass(origin, Mapping):
        members = _require(isinstance(plain, dict), plain, plain, "an object")
        return {
            _as_key(key, inner[0]): from_plain(member, inner[1])
            for key, member in members.items()
        }
    made = [from_plain(item, inner[0]) for item in _items(plain)]
    return origin(made) if origin in (set, frozenset) else made


def _items(plain: Any) -> list[Any]:
    """The items of an array, which a record may bring back as a tuple or a set."""
    fits = isinstance(plain, list | tuple | set | frozenset)
    return list(_require(fits, plain, plain, "an array"))


def _as_key(key: Any, wanted: Any) -> Any:
    """JSON has keys of text only: those of other types are read from it."""
    if isinstance(key, str) and wanted in (int, float, bool):
        return _converted(lambda: from_plain(json.loads(key), wanted))
    return from_plain(key, wanted)


def _without_qualifier(hint: Any) -> Any:
    return (
        typing.get_args(hint)[0]
        if typing.get_origin(hint) in (typing.Required, typing.NotRequired)
        else hint
    )


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
