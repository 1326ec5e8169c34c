"""Read and validate the three documents under a profile (flows §3), by the schemas that ship in schemas/.

Two contracts: template-create speaks 1.0, every other flow 1.1, which has the same keys and wider limits. Which one
applies is decided by the flow that reads, never by the version in the file (flows §14).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from bridgehead.flows.json_bytes import read_object
from bridgehead.flows.log import log_warning
from bridgehead.flows.schema_check import Problem, check, is_integer
from bridgehead.flows.words import DocumentKind, Profile

_VERSION: Final = re.compile(r"([0-9]+)\.([0-9]+)")
SUPPORTED_MAJOR: Final = "1"

AGENT_NAME_PATTERN: Final = "^[a-z0-9][a-z0-9-]{0,63}$"
PHASE_NAME_PATTERN: Final = "^[a-z0-9_]{1,64}$"
_OPEN_REQUEST: Final[Mapping[str, Mapping[str, Any]]] = {
    "phase": {"type": "integer", "minimum": 1},
    "phase_name": {"type": "string", "pattern": PHASE_NAME_PATTERN},
    "agent_name": {"type": "string", "pattern": AGENT_NAME_PATTERN},
    "prompt": {"type": "string", "minLength": 1},
    "timeout_seconds": {"type": "integer", "minimum": 1, "maximum": 86400},
}
_SCHEMA_FILE: Final = {
    DocumentKind.REQUEST: "agent-request",
    DocumentKind.RESPONSE: "agent-response",
    DocumentKind.STATE: "template-create-state",
}
_NULLABLE_METADATA: Final = ("model", "tokens_used", "confidence")


class Contract(Enum):
    """Whose limits a document is held to: those of the published schema, or the wider ones of other flows."""

    SEED = "1.0"
    OPEN = "1.1"

    @property
    def longest_timeout_seconds(self) -> int:
        limits: Mapping[str, Any] = schema_of(DocumentKind.REQUEST, self)["properties"]["timeout_seconds"]
        return int(limits["maximum"])


class InvalidDocument(ValueError):
    """A JSON object that is not the document it should be."""

    def __init__(self, kind: DocumentKind, problems: list[Problem]) -> None:
        super().__init__(f"not a valid {kind}: " + "; ".join(map(str, problems)))
        self.problems = problems


@lru_cache
def schema_of(kind: DocumentKind, contract: Contract = Contract.SEED) -> Mapping[str, Any]:
    """The schema a document is held to."""
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
    """Every problem of `document` as that kind of file; empty when it is valid."""
    schema = schema_of(kind, contract)
    forgiven, _ = _forgive(document, schema, profile)
    return list(check(forgiven, schema))


def load_document(
    data: bytes,
    kind: DocumentKind,
    profile: Profile = Profile.STRICT,
    contract: Contract = Contract.SEED,
) -> dict[str, Any]:
    """The normalised document in `data`; Unreadable or InvalidDocument when there is none."""
    return normalise(read_object(data), kind, profile, contract)


def normalise(
    document: Mapping[str, Any],
    kind: DocumentKind,
    profile: Profile,
    contract: Contract = Contract.SEED,
) -> dict[str, Any]:
    """`document` without what the profile forgave and with `5.0` as `5`; InvalidDocument when it is not valid."""
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
    """Whether the document's version has our major number; a malformed version is left to validation."""
    version = _version_of(document)
    return version is None or version[0] == SUPPORTED_MAJOR


def _is_newer_minor(document: Mapping[str, Any]) -> bool:
    version = _version_of(document)
    return version is not None and version[0] == SUPPORTED_MAJOR and bool(version[1])


def _version_of(document: Mapping[str, Any]) -> tuple[str, str] | None:
    """Major and minor without leading zeros, zero being empty; text, as `int` does not read any number of digits."""
    version = document.get("version")
    match = _VERSION.fullmatch(version) if isinstance(version, str) else None
    return (match[1].lstrip("0"), match[2].lstrip("0")) if match else None


def _forgive(document: Any, schema: Mapping[str, Any], profile: Profile) -> tuple[Any, list[str]]:
    """A copy without what the profile and a newer minor version let pass, and a line for each tolerance."""
    profile = Profile(profile)  # tools may give it as a plain word
    if not isinstance(document, dict):
        return document, []
    forgiven = dict(document)
    tolerances: list[str] = []
    unknown = [key for key in forgiven if key not in schema["properties"]]
    newer_minor = _is_newer_minor(document)
    if newer_minor or profile is Profile.TOLERANT:
        for key in unknown:
            del forgiven[key]
    if profile is Profile.STRICT:
        return forgiven, tolerances
    _drop_nulls(forgiven, schema)
    if profile is Profile.TOLERANT:
        if not newer_minor:
            tolerances += [f"the unknown key {key} was ignored" for key in unknown]
        response = forgiven.get("response")
        if isinstance(response, dict | list) and "response" in schema["properties"]:
            forgiven["response"] = json.dumps(response, ensure_ascii=False, separators=(",", ":"))
            tolerances.append("response was not a string and has been re-serialised")
    return forgiven, tolerances


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
        return {key: _with_plain_integers(member, properties.get(key, {})) for key, member in value.items()}
    if isinstance(value, list) and "items" in schema:
        return [_with_plain_integers(item, schema["items"]) for item in value]
    return value
