"""The session object (bus §2, §3): how a consumer reads it, how two are merged, and its
id on the hub (B-24).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from typing import Any, Final

import msgspec

from bridgehead.bus.wire.message import json_copy

DEFAULT: Final = "default"
TRANSFORMER_TYPES: Final = ("audio", "utterance", "metadata", "intent", "dialog", "tts")
TRANSFORMERS: Final = tuple(f"{kind}_transformers" for kind in TRANSFORMER_TYPES)
DENYLISTS: Final = (
    "blacklisted_pipelines",
    "blacklisted_skills",
    "blacklisted_intents",
    *(f"blacklisted_{field}" for field in TRANSFORMERS),
)
DEPLOYMENT_OWNED: Final = ("pipeline", *TRANSFORMERS, *DENYLISTS)
_LENGTH: Final = 26
Session = dict[str, Any]


class ReadSession(msgspec.Struct, frozen=True):
    """A session as a consumer reads it, and the names of the fields that had to be left
    out.
    """

    session: Session
    malformed_fields: tuple[str, ...]


def session_id(session: object) -> str:
    """Return the id of a session in whatever form it came.

    Every form of absence is the default session.
    """
    try:
        name = session["session_id"]  # type: ignore[index]
    except (KeyError, TypeError):
        return DEFAULT
    return name if isinstance(name, str) and name else DEFAULT


def context_session_id(context: dict[str, Any]) -> str:
    """Return the id of the session a message belongs to."""
    return session_id(context.get("session"))


def read_session(context: dict[str, Any]) -> ReadSession:
    """Resolve the session of a message field by field.

    A bad field is left out, never a reason to refuse.
    """
    carried = context.get("session")
    if not isinstance(carried, dict):
        return ReadSession({"session_id": DEFAULT}, ())
    session: Session = {}
    malformed: list[str] = []
    for field, value in carried.items():
        if field == "location" and isinstance(value, dict):
            location = _read_location(value)
            malformed += [f"location.{key}" for key in value if key not in location]
            if location:
                session[field] = location
        elif not _FIELDS.get(field, _anything)(value):
            malformed.append(field)
        elif value != [] or field not in _FIELDS:
            session[field] = value
    session.setdefault("session_id", DEFAULT)
    return ReadSession(session, tuple(sorted(malformed)))


def _read_location(location: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a location that can be read."""
    readable = {}
    for key, part in location.items():
        is_valid = _LOCATION_KEYS.get(key, _anything)
        if is_valid(part):
            readable[key] = part
    return readable


def merge_into_default(store: Session, inbound: Session | None) -> Session:
    """Return the default session after a message brought `inbound`: what is present
    replaces, omission deletes nothing.
    """
    readable = read_session({"session": inbound}).session
    merged: Session = json_copy(store)
    for field, value in readable.items():
        if value is None or value == [] or field in ("session_id", "intent_context"):
            continue
        merged[field] = json_copy(value)
    _merge_intent_context(merged, readable.get("intent_context", {}))
    merged["session_id"] = DEFAULT
    _keep_languages_apart(merged)
    return merged


def _merge_intent_context(merged: Session, entries: dict[str, Any]) -> None:
    stored = merged.get("intent_context", {})
    for key, entry in entries.items():
        if entry is None:
            stored.pop(key, None)
        elif isinstance(entry, dict):
            stored[key] = json_copy(entry)
    if stored:
        merged["intent_context"] = stored
    else:
        merged.pop("intent_context", None)


def _keep_languages_apart(session: Session) -> None:
    secondary = session.get("secondary_langs")
    if not isinstance(secondary, list) or session.get("lang") not in secondary:
        return
    remaining = [lang for lang in secondary if lang != session["lang"]]
    if remaining:
        session["secondary_langs"] = remaining
    else:
        del session["secondary_langs"]


def replace_snapshot(working: Session, updated: Session) -> Session:
    """Return `updated` in place of the working session as a whole.

    One that names another session is ignored.
    """
    own = session_id(working)
    claimed = updated.get("session_id")
    if isinstance(claimed, str) and claimed and claimed != own:
        return working
    return {**json_copy(updated), "session_id": own}


def reimpose_deployment_fields(before: Session, after: Session) -> Session:
    """Return `after` with pipeline, transformer lists and denylists as they were
    before, absent if they were absent.
    """
    kept = {
        field: value for field, value in after.items() if field not in DEPLOYMENT_OWNED
    }
    return kept | {
        field: before[field] for field in DEPLOYMENT_OWNED if field in before
    }


def hub_session_id(secret: bytes, participant_id: str, local_id: str) -> str:
    """Return one hub id per participant and local id, the same after every restart with
    the same secret.
    """
    name = participant_id.encode() + b"\x00" + local_id.encode("utf-8", "surrogatepass")
    digest = hmac.new(secret, name, hashlib.sha256).digest()
    text = base64.b32encode(digest).decode("ascii").lower()
    return "b" + text[:_LENGTH]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_list_of_text(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(member, str) for member in value)


def _is_handler_list(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(member, dict)
        and isinstance(member.get("skill_id"), str)
        and _is_number(member.get("activated_at"))
        for member in value
    )


def _is_response_mode(value: object) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("skill_id"), str)
        and _is_number(value.get("expires_at"))
    )


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _anything(_value: object) -> bool:
    return True


_FIELDS: Final[dict[str, Callable[[object], bool]]] = {
    "session_id": lambda value: isinstance(value, str) and value != "",
    **dict.fromkeys(
        (
            "lang",
            "output_lang",
            "stt_lang",
            "request_lang",
            "detected_lang",
            "persona_id",
            "site_id",
        ),
        lambda value: isinstance(value, str),
    ),
    **dict.fromkeys(
        ("secondary_langs", "fallback_handlers", *DEPLOYMENT_OWNED), _is_list_of_text
    ),
    **dict.fromkeys(("active_handlers", "converse_handlers"), _is_handler_list),
    "response_mode": _is_response_mode,
    "intent_context": _is_object,
    "location": _is_object,
}
_LOCATION_KEYS: Final[dict[str, Callable[[object], bool]]] = {
    "lat": lambda value: (
        isinstance(value, int | float) and _is_number(value) and -90 <= value <= 90
    ),
    "lon": lambda value: (
        isinstance(value, int | float) and _is_number(value) and -180 <= value <= 180
    ),
    "tz": lambda value: isinstance(value, str) and value != "",
}
