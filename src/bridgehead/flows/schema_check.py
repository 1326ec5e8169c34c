"""The part of JSON Schema draft-07 that the flow schemas use, with formats asserted (flows §1).

Hand-written because a schema library costs more to import than a whole pause. `path` in a problem is a JSON Pointer;
for a missing or an extra key it points at the object that lacks or has it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from math import isfinite
from typing import Any, Final, NamedTuple

from bridgehead.flows.moments import parse_moment

Schema = Mapping[str, Any]

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


class Problem(NamedTuple):
    """One failed keyword at one place."""

    path: str
    keyword: str
    message: str

    def __str__(self) -> str:
        return f"{self.path or 'the document'}: {self.message}"


def check(value: Any, schema: Schema, path: str = "") -> Iterator[Problem]:
    """Every way in which `value` does not fit `schema`."""
    expected = schema.get("type")
    if expected is not None and not _IS_TYPE[expected](value):
        yield Problem(path, "type", f"is not {_ARTICLE[expected]}")
    if "enum" in schema and value not in schema["enum"]:
        yield Problem(path, "enum", f"is not one of {', '.join(map(str, schema['enum']))}")
    if isinstance(value, str):
        yield from _check_string(value, schema, path)
    elif _is_number(value):
        yield from _check_number(value, schema, path)
    elif isinstance(value, dict):
        yield from _check_object(value, schema, path)
    elif isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from check(item, schema["items"], f"{path}/{index}")


def is_integer(value: Any) -> bool:
    """Whether draft-07 calls `value` an integer: 5 and 5.0 are, True is not."""
    return _is_number(value) and (isinstance(value, int) or value.is_integer())


def is_uuid(value: Any) -> bool:
    """Whether `value` is a UUID of any version, spelled plainly."""
    return isinstance(value, str) and _UUID.fullmatch(value) is not None


def _check_string(value: str, schema: Schema, path: str) -> Iterator[Problem]:
    if len(value) < schema.get("minLength", 0):
        yield Problem(path, "minLength", f"is shorter than {schema['minLength']} characters")
    if "pattern" in schema and not _ecma(schema["pattern"]).search(value):
        yield Problem(path, "pattern", f"does not match {schema['pattern']}")
    if "format" in schema and not _HAS_FORMAT[schema["format"]](value):
        yield Problem(path, "format", f"is not a {schema['format']}")


def _check_number(value: float, schema: Schema, path: str) -> Iterator[Problem]:
    if "minimum" in schema and value < schema["minimum"]:
        yield Problem(path, "minimum", f"is less than {schema['minimum']}")
    if "maximum" in schema and value > schema["maximum"]:
        yield Problem(path, "maximum", f"is more than {schema['maximum']}")


def _check_object(value: dict[str, Any], schema: Schema, path: str) -> Iterator[Problem]:
    properties = schema.get("properties", {})
    for key in schema.get("required", ()):
        if key not in value:
            yield Problem(path, "required", f"{key} is missing")
    for key, member in value.items():
        if key in properties:
            yield from check(member, properties[key], f"{path}/{_pointer_token(key)}")
        elif schema.get("additionalProperties") is False:
            yield Problem(path, "additionalProperties", f"{key} is not a known key")


def _is_number(value: Any) -> bool:
    """Whether JSON can write it as a number: neither True nor what is not finite."""
    if isinstance(value, float):
        return isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _pointer_token(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


@lru_cache
def _ecma(pattern: str) -> re.Pattern[str]:
    """`pattern` as ECMA-262 reads it: `\\d` is ASCII and `$` is only the very end."""
    return re.compile(pattern.replace("$", r"\Z"), re.ASCII)


_HAS_FORMAT: Final[Mapping[str, Callable[[str], bool]]] = {
    "uuid": is_uuid,
    "date-time": lambda text: parse_moment(text) is not None,
}
_IS_TYPE: Final[Mapping[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "integer": is_integer,
    "number": _is_number,
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
}
_ARTICLE: Final = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "object": "an object",
    "array": "an array",
}
