"""Read the three documents and validate them against schemas/, by profile (flows §3).

`check` implements the part of draft-07 that these schemas use. A library for all of it
would add 38 ms to every pause.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any, Final, NamedTuple

from bridgehead.flows.errors import log_warning
from bridgehead.flows.files.json_bytes import read_object
from bridgehead.flows.values.times import parse_time
from bridgehead.flows.words import DocumentKind, Profile

Schema = Mapping[str, Any]

SUPPORTED_MAJOR: Final = "1"

_OPEN_REQUEST: Final[Mapping[str, Mapping[str, Any]]] = {
    "phase": {"type": "integer", "minimum": 1},
    "phase_name": {"type": "string", "pattern": "^[a-z0-9_]{1,64}$"},
    "agent_name": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,63}$"},
    "prompt": {"type": "string", "minLength": 1},
    "timeout_seconds": {"type": "integer", "minimum": 1, "maximum": 86400},
}
_SCHEMA_FILE: Final = {
    DocumentKind.REQUEST: "agent-request",
    DocumentKind.RESPONSE: "agent-response",
    DocumentKind.STATE: "template-create-state",
}
_NULLABLE_METADATA: Final = ("model", "tokens_used", "confidence")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


class Problem(NamedTuple):
    """A keyword of the schema that the document fails, and where."""

    path: str
    keyword: str
    message: str

    def __str__(self) -> str:
        return f"{self.path or 'the document'}: {self.message}"


class Contract(Enum):
    """The limits a document must keep.

    They are those of the published schema, or the wider ones of all other flows.
    """

    SEED = "1.0"
    OPEN = "1.1"

    @property
    def longest_timeout_seconds(self) -> int:
        properties = schema_of(DocumentKind.REQUEST, self)["properties"]
        return int(properties["timeout_seconds"]["maximum"])


class InvalidDocument(ValueError):
    """A JSON object that is not the document it should be."""

    def __init__(self, kind: DocumentKind, problems: list[Problem]) -> None:
        super().__init__(f"not a valid {kind}: " + "; ".join(map(str, problems)))
        self.problems = problems


@lru_cache
def schema_of(
    kind: DocumentKind, contract: Contract = Contract.SEED
) -> Mapping[str, Any]:
    """Return the schema of a kind of document under a contract."""
    path = Path(__file__).parent / "schemas" / f"{_SCHEMA_FILE[kind]}.schema.json"
    schema: dict[str, Any] = json.loads(path.read_bytes())
    if kind is DocumentKind.REQUEST and contract is Contract.OPEN:
        schema["properties"] |= _OPEN_REQUEST
    return schema


def validate(
    document: Any,
    kind: DocumentKind,
    profile: Profile = Profile.STRICT,
    contract: Contract = Contract.SEED,
) -> list[Problem]:
    """Return every reason why `document` is not valid as that kind of file."""
    schema = schema_of(kind, contract)
    forgiven, _ = _forgive(document, schema, profile)
    return list(check(forgiven, schema))


def load_document(
    data: bytes,
    kind: DocumentKind,
    profile: Profile = Profile.STRICT,
    contract: Contract = Contract.SEED,
) -> dict[str, Any]:
    """Return the normalised document in `data`.

    Raise Unreadable or InvalidDocument if there is none.
    """
    return normalise(read_object(data), kind, profile, contract)


def normalise(
    document: Mapping[str, Any],
    kind: DocumentKind,
    profile: Profile,
    contract: Contract = Contract.SEED,
) -> dict[str, Any]:
    """Return `document` as the profile allows it, and with `5.0` written as `5`.

    Raise InvalidDocument if it is not valid.
    """
    schema = schema_of(kind, contract)
    forgiven, tolerances = _forgive(document, schema, profile)
    problems = list(check(forgiven, schema))
    if problems:
        raise InvalidDocument(kind, problems)
    for tolerance in tolerances:
        log_warning(f"{kind}: {tolerance}")
    plain: dict[str, Any] = _with_plain_integers(forgiven, schema)
    return plain


def is_supported(document: Mapping[str, Any]) -> bool:
    """Return whether the document has a major version we support.

    A malformed version counts as supported; validation rejects it later.
    """
    version = _version_of(document)
    return version is None or version[0] == SUPPORTED_MAJOR


def _version_of(document: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return major and minor version as text without leading zeros; 0 is empty.

    They stay text because `int` refuses very long numbers.
    """
    version = document.get("version")
    if not isinstance(version, str) or not version.isascii():
        return None
    major, _, minor = version.partition(".")
    if not major.isdigit() or not minor.isdigit():
        return None
    return major.lstrip("0"), minor.lstrip("0")


def _forgive(
    document: Any, schema: Mapping[str, Any], profile: Profile
) -> tuple[Any, list[str]]:
    """Return a copy without tolerable faults, and a line for each to be warned about.

    What is tolerable depends on the profile and on the minor version.
    """
    profile = Profile(profile)  # tools may pass a plain string
    if not isinstance(document, dict):
        return document, []
    forgiven = dict(document)
    unknown_keys = [key for key in forgiven if key not in schema["properties"]]
    is_newer = _has_newer_minor_version(document)
    if is_newer or profile is Profile.TOLERANT:
        for key in unknown_keys:
            del forgiven[key]
    if profile is not Profile.STRICT:
        _drop_nulls(forgiven, schema)
    if profile is not Profile.TOLERANT:
        return forgiven, []
    tolerances: list[str] = []
    if not is_newer:
        tolerances += [f"the unknown key {key} was ignored" for key in unknown_keys]
    if _serialise_response(forgiven, schema):
        tolerances.append("response was not a string and has been re-serialised")
    return forgiven, tolerances


def _serialise_response(document: dict[str, Any], schema: Mapping[str, Any]) -> bool:
    """Turn a response given as JSON values into text; return whether it was needed."""
    response = document.get("response")
    if "response" not in schema["properties"] or not isinstance(response, dict | list):
        return False
    text = json.dumps(response, ensure_ascii=False, separators=(",", ":"))
    document["response"] = text
    return True


def _has_newer_minor_version(document: Mapping[str, Any]) -> bool:
    version = _version_of(document)
    if version is None:
        return False
    major, minor = version
    return major == SUPPORTED_MAJOR and bool(minor)


def _drop_nulls(document: dict[str, Any], schema: Mapping[str, Any]) -> None:
    optional = schema["properties"].keys() - set(schema["required"])
    for key in optional:
        if key in document and document[key] is None:
            del document[key]
    metadata = document.get("metadata")
    if isinstance(metadata, dict) and "metadata" in optional:
        document["metadata"] = {
            key: value
            for key, value in metadata.items()
            if value is not None or key not in _NULLABLE_METADATA
        }


def _with_plain_integers(value: Any, schema: Mapping[str, Any]) -> Any:
    if schema.get("type") == "integer" and is_integer(value):
        return int(value)
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        return {
            key: _with_plain_integers(member, properties.get(key, {}))
            for key, member in value.items()
        }
    if isinstance(value, list) and "items" in schema:
        return [_with_plain_integers(item, schema["items"]) for item in value]
    return value


def check(value: Any, schema: Schema, path: str = "") -> Iterator[Problem]:
    """Yield every problem of `value` under `schema`."""
    expected = schema.get("type")
    if expected is not None and not _IS_TYPE[expected](value):
        article = "an" if expected[0] in "aio" else "a"
        yield Problem(path, "type", f"is not {article} {expected}")
    if "enum" in schema and value not in schema["enum"]:
        choices = ", ".join(map(str, schema["enum"]))
        yield Problem(path, "enum", f"is not one of {choices}")
    if isinstance(value, str):
        yield from _check_text(value, schema, path)
    elif _is_number(value):
        yield from _check_number(value, schema, path)
    elif isinstance(value, dict):
        yield from _check_object(value, schema, path)
    elif isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from check(item, schema["items"], f"{path}/{index}")


def is_integer(value: Any) -> bool:
    """Return whether draft-07 calls `value` an integer: 5 and 5.0 are, True is not."""
    return _is_number(value) and (isinstance(value, int) or value.is_integer())


def is_uuid(value: Any) -> bool:
    """Return whether `value` is a UUID of any version in its usual form."""
    return isinstance(value, str) and _UUID.fullmatch(value) is not None


def _check_text(value: str, schema: Schema, path: str) -> Iterator[Problem]:
    shortest = schema.get("minLength", 0)
    if len(value) < shortest:
        yield Problem(path, "minLength", f"is shorter than {shortest} characters")
    if "pattern" in schema and not _ecma(schema["pattern"]).search(value):
        yield Problem(path, "pattern", f"does not match {schema['pattern']}")
    if "format" in schema and not _HAS_FORMAT[schema["format"]](value):
        yield Problem(path, "format", f"is not a {schema['format']}")


def _check_number(value: float, schema: Schema, path: str) -> Iterator[Problem]:
    if "minimum" in schema and value < schema["minimum"]:
        yield Problem(path, "minimum", f"is less than {schema['minimum']}")
    if "maximum" in schema and value > schema["maximum"]:
        yield Problem(path, "maximum", f"is more than {schema['maximum']}")


def _check_object(
    value: dict[str, Any], schema: Schema, path: str
) -> Iterator[Problem]:
    properties = schema.get("properties", {})
    for key in schema.get("required", ()):
        if key not in value:
            yield Problem(path, "required", f"{key} is missing")
    for key, member in value.items():
        if key in properties:
            token = key.replace("~", "~0").replace("/", "~1")
            yield from check(member, properties[key], f"{path}/{token}")
        elif schema.get("additionalProperties") is False:
            yield Problem(path, "additionalProperties", f"{key} is not a known key")


def _is_number(value: Any) -> bool:
    """Return whether `value` is a JSON number: finite, and not a bool."""
    if isinstance(value, float):
        return isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


@lru_cache
def _ecma(pattern: str) -> re.Pattern[str]:
    """Compile `pattern` with the meaning it has in ECMA-262.

    There `\\d` matches only ASCII, and `$` only the very end.
    """
    return re.compile(pattern.replace("$", r"\Z"), re.ASCII)


_HAS_FORMAT: Final[Mapping[str, Callable[[str], bool]]] = {
    "uuid": is_uuid,
    "date-time": lambda text: parse_time(text) is not None,
}
_IS_TYPE: Final[Mapping[str, Callable[[Any], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "integer": is_integer,
    "number": _is_number,
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
}
