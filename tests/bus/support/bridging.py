"""Helpers of the bus tests: a bridge with repeatable randomness, records and frames in one line."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec

from bridgehead.bus.actions import Delivery, Effect, Outcome, ToBus
from bridgehead.bus.bridge.bridge import Bridge
from bridgehead.bus.bridge.settings import BridgeSettings
from bridgehead.bus.participants.record import ParticipantRecord, parse_record
from bridgehead.bus.wire.message import Message

SECRET = b"thirty-two bytes of test secret."
UNLIMITED = {"messages_per_second": 1_000_000, "burst": 1_000_000}


def make_bridge(**options: Any) -> Bridge:
    """A bridge with the defaults of the specification, specification names and predictable random words."""
    outside = ("remembered", "records", "now", "own_hub", "others", "knows_all_names")
    extra = {key: options.pop(key) for key in outside if key in options}
    settings = BridgeSettings.parse({"profile": "spec", **options})
    words = (f"{number:04x}" for number in itertools.count())
    return Bridge(settings, secret=SECRET, random_word=lambda: next(words), **extra)


def make_record(participant_id: str, **table: Any) -> ParticipantRecord:
    return parse_record(participant_id, table)


def frame(topic: str, data: dict[str, Any] | None = None, **context: Any) -> bytes:
    """One message as a participant sends it."""
    return msgspec.json.encode({"type": topic, "data": data or {}, "context": context})


def written(effects: list[Effect]) -> list[Message]:
    return [effect.message for effect in effects if isinstance(effect, ToBus)]


def handed_over(effects: list[Effect]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (effect.participant, msgspec.json.decode(effect.body))
        for effect in effects
        if isinstance(effect, Delivery)
    ]


def all_outcomes(effects: list[Effect]) -> list[Outcome]:
    """What became of messages once these are carried out, by a hub and transports that take everything."""
    found: list[Outcome] = []
    for effect in effects:
        if isinstance(effect, Outcome):
            found.append(effect)
        elif isinstance(effect, Delivery) or (
            isinstance(effect, ToBus) and effect.author is not None
        ):
            found.append(effect.outcome())
    return found


def outcomes(effects: list[Effect]) -> list[tuple[str, str]]:
    """Each as `delivered`, `dropped:echo`, `refused:malformed`, …"""
    return [
        (
            one.participant,
            one.outcome if one.reason is None else f"{one.outcome}:{one.reason}",
        )
        for one in all_outcomes(effects)
    ]
