"""Add, change, show, revoke and try out participants, for `bus participant` and `bus
policy`.
"""

from __future__ import annotations

import logging
import re
import secrets
import tomllib
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from bridgehead.bus.access.credentials import (
    KEY_BYTES,
    Credential,
    is_expired,
    make_token,
    token_hash,
)
from bridgehead.bus.access.join_file import JoinFile, Pin, write_join_file
from bridgehead.bus.access.state_folder import StateFolder
from bridgehead.bus.actions import Refused, ToBus
from bridgehead.bus.bridge.bridge import Bridge
from bridgehead.bus.bridge.settings import BridgeSettings
from bridgehead.bus.participants.record import (
    RECORD_KEYS,
    ParticipantRecord,
    Role,
    check_participant_id,
    parse_record,
)
from bridgehead.bus.wire.frames import to_base64
from bridgehead.errors import ConfigError, NotFound, UserError
from bridgehead.host.clock import Clock, iso_ms

_log: Final = logging.getLogger("bridgehead.bus")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_NUMBER: Final = re.compile(r"[0-9]{1,10}")
_LONGEST_S: Final = 100 * 365 * _UNITS["d"]
_RIGHTS: Final = frozenset(
    {"grants", "publish", "managed_session_id", "assistant", "person"}
)


class Enrolment(msgspec.Struct, frozen=True):
    """A request to enrol a participant, as from `bus participant add`."""

    participant: str
    table: dict[str, Any]
    url: str
    pin: Pin = Pin()
    token: bool = False
    expires_in_s: float | None = None
    alternatives: tuple[str, ...] = ()
    paired: bool = False
    """Whether `table` is the whole record, as a person approved it for a free name."""


class ListedParticipant(msgspec.Struct, frozen=True):
    """One row of `bus participant list`."""

    id: str
    role: str
    mode: str
    credential: str
    """`key`, `token`, `expired`, `revoked` or `none`."""
    expires: str | None


def enrol(
    folder: StateFolder, request: Enrolment, clock: Clock, path: Path | None = None
) -> JoinFile:
    """Write the record, the credential and the join file of a participant.

    Only the join file ever shows the secret.
    """
    check_participant_id(request.participant)
    with folder.editing():
        known = folder.credentials().get(request.participant)
        if request.paired and not is_free(known):
            raise UserError(
                f"{request.participant!r} is already enrolled; no device can be "
                "paired under this name",
                hint=(
                    "choose another name, or run: bridgehead bus participant revoke "
                    f"{request.participant}"
                ),
            )
        # An existing record keeps what is not given again. Check before writing.
        table = {
            **({} if request.paired else kept_table(folder, request.participant)),
            **request.table,
        }
        parse_record(request.participant, table)
        join, credential = _issue(request, clock)
        if path is not None:
            # First: if the secret cannot be written, nobody is enrolled or locked out.
            folder.prepare_join_file(path)
            write_join_file(path, join)
        folder.put_table(request.participant, table)
        folder.put_credential(request.participant, credential)
    return join


def _issue(request: Enrolment, clock: Clock) -> tuple[JoinFile, Credential]:
    expires = None
    more = {**msgspec.structs.asdict(request.pin), "alternatives": request.alternatives}
    if request.expires_in_s is not None:
        expires = iso_ms(clock.now() + timedelta(seconds=request.expires_in_s))
    if request.token:
        token = make_token(request.participant, secrets.token_bytes(KEY_BYTES))
        join = JoinFile(1, request.url, request.participant, token=token, **more)
        return join, Credential(token_sha256=token_hash(token), expires=expires)
    if expires is not None:
        raise UserError(
            "--expires works with tokens only; a device key is valid until it is "
            "revoked",
            hint="add --token",
        )
    key = to_base64(secrets.token_bytes(KEY_BYTES))
    join = JoinFile(1, request.url, request.participant, key=key, **more)
    return join, Credential(key=key)


def is_free(credential: Credential | None) -> bool:
    """Return whether a new device may ask for a name with this credential."""
    return credential is None or credential.revoked


def kept_table(folder: StateFolder, participant_id: str) -> dict[str, Any]:
    """Return a participant's record, without the rights that a revocation ended."""
    table = folder.tables().get(participant_id, {})
    known = folder.credentials().get(participant_id)
    return without_rights(table) if known is not None and known.revoked else table


def without_rights(table: dict[str, Any]) -> dict[str, Any]:
    """Return a record with no more rights than a plain satellite.

    Restrictions stay: revoking a participant must not allow it anything.
    """
    plain = {key: value for key, value in table.items() if key not in _RIGHTS}
    if plain.get("role") in (Role.SKILL_HOST, Role.PEER):
        del plain["role"]
    return plain


def revoke(folder: StateFolder, participant_id: str) -> None:
    """Remove the credential and all rights; a running bridge closes the connection.

    The rest of the record stays.
    """
    with folder.editing():
        known = folder.credentials().get(participant_id)
        if known is None and participant_id not in folder.tables():
            raise UnknownParticipant(participant_id, "is not a participant here")
        was_revoked = known is not None and known.revoked
        if not was_revoked:
            folder.put_credential(participant_id, Credential(revoked=True))
        try:
            table = folder.tables().get(participant_id, {})
            # An earlier revocation may have failed to remove the rights.
            if without_rights(table) != table:
                folder.put_table(participant_id, without_rights(table))
            elif was_revoked:
                raise UnknownParticipant(participant_id, "is already revoked")
        except ConfigError as error:
            # Somebody is editing the file. The participant is revoked all the same,
            # and `kept_table` will not return its rights.
            _log.warning(
                "%s is revoked, but its rights are still in the records file: %s",
                participant_id,
                error,
            )


def listing(folder: StateFolder, now: datetime) -> list[ListedParticipant]:
    """Return everybody who has a record, in the order of the file."""
    credentials = folder.credentials()
    listed = []
    for record in folder.records().values():
        credential = credentials.get(record.id, Credential())
        kind = _kind(credential, now)
        listed.append(
            ListedParticipant(
                record.id, record.role, record.mode, kind, credential.expires
            )
        )
    return listed


def _kind(credential: Credential, now: datetime) -> str:
    if credential.revoked:
        return "revoked"
    if is_expired(credential, now):
        return "expired"
    if credential.key is not None:
        return "key"
    return "none" if credential.token_sha256 is None else "token"


def find_record(folder: StateFolder, participant_id: str) -> ParticipantRecord:
    record = folder.records().get(participant_id)
    if record is None:
        raise UnknownParticipant(participant_id, "is not a participant here")
    return record


def set_key(
    folder: StateFolder, participant_id: str, key: str, value: str
) -> ParticipantRecord:
    """Change one key of a record, such as `tts` or `grants.notices`."""
    with folder.editing():
        table = folder.tables().get(participant_id)
        if table is None:
            raise UnknownParticipant(participant_id, "is not a participant here")
        name, _, inner = key.partition(".")
        outer = table.get(name, {}) if inner else {}
        if name not in RECORD_KEYS or not isinstance(outer, dict):
            raise UserError(
                f"a participant record has no key {key!r}",
                hint=f"keys: {', '.join(sorted(RECORD_KEYS))}",
            )
        table[name] = {**outer, inner: _value(value)} if inner else _value(value)
        return folder.put_table(participant_id, table)


def _value(text: str) -> Any:
    """Return the TOML value of a text, or the text itself if it is not TOML."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def parse_duration(text: str) -> float:
    """Return the seconds of `90d`, `12h` or `30m`; a century at most."""
    number = text[:-1]
    unit = text[-1:]
    seconds = int(number) * _UNITS.get(unit, 0) if _NUMBER.fullmatch(number) else 0
    if not 0 < seconds <= _LONGEST_S:
        raise UserError(
            f"{text!r} is not a duration",
            hint="write a number and s, m, h, d or w, such as 90d",
        )
    return float(seconds)


class UnknownParticipant(NotFound):
    """No such participant."""

    def __init__(self, participant_id: str, what: str) -> None:
        super().__init__(
            f"{participant_id!r} {what}",
            hint="`bridgehead bus participant list` lists them",
        )


class TrialResult(msgspec.Struct, frozen=True):
    """What would happen to a message."""

    admitted: bool
    bus: list[dict[str, Any]]
    """The messages that would be put on the hub."""
    refused: dict[str, Any] | None = None
    """The error frame the participant would get."""

    def sentence(self) -> str:
        if self.refused is not None:
            facts = ", ".join(
                f"{key} {value}" for key, value in self.refused.items() if key != "code"
            )
            sentence = f"refused: {self.refused['code']}"
            return f"{sentence} ({facts})" if facts else sentence
        if not self.bus:
            return "dropped without an error"
        encoded = msgspec.json.encode(self.bus[0])
        return "admitted as\n" + msgspec.json.format(encoded, indent=2).decode()


def try_admission(
    settings: BridgeSettings, record: ParticipantRecord, message: bytes, secret: bytes
) -> TrialResult:
    """Send the message through a bridge to which nobody else is connected."""
    trial_settings = msgspec.structs.replace(settings, profile="spec")
    bridge = Bridge(trial_settings, secret=secret, random_word=lambda: "x")
    bridge.connected(record, 0.0)
    effects = bridge.received(record.id, message, 0.0)
    written = [
        msgspec.to_builtins(effect.message)
        for effect in effects
        if isinstance(effect, ToBus)
    ]
    for effect in effects:
        if isinstance(effect, Refused):
            return TrialResult(False, written, {"code": effect.code, **effect.details})
    return TrialResult(bool(written), written)
