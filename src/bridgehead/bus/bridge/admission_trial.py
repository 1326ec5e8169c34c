"""`bus policy test`: what the gate would do with a message, without a bus. Pure but for the bridge's secret."""

from __future__ import annotations

from typing import Any

import msgspec

from bridgehead.bus.actions import Refused, ToBus
from bridgehead.bus.bridge.bridge import Bridge
from bridgehead.bus.bridge.settings import BridgeSettings
from bridgehead.bus.participants.record import ParticipantRecord


class TrialResult(msgspec.Struct, frozen=True):
    """What would happen."""

    admitted: bool
    bus: list[dict[str, Any]]
    """The messages that would be put on the hub."""
    refused: dict[str, Any] | None = None
    """The error frame the participant would get."""

    def sentence(self) -> str:
        if self.refused is not None:
            facts = ", ".join(f"{key} {value}" for key, value in self.refused.items() if key != "code")
            return f"refused: {self.refused['code']}" + (f" ({facts})" if facts else "")
        if not self.bus:
            return "dropped without an error"
        return "admitted as\n" + msgspec.json.format(msgspec.json.encode(self.bus[0]), indent=2).decode()


def try_admission(
    settings: BridgeSettings, record: ParticipantRecord, message: bytes, secret: bytes
) -> TrialResult:
    """Take the message through a bridge of its own that nobody else is connected to."""
    own = msgspec.structs.replace(settings, profile="spec")
    bridge = Bridge(own, secret=secret, random_word=lambda: "x")
    bridge.connected(record, 0.0)
    effects = bridge.received(record.id, message, 0.0)
    written = [msgspec.to_builtins(effect.message) for effect in effects if isinstance(effect, ToBus)]
    for effect in effects:
        if isinstance(effect, Refused):
            return TrialResult(False, written, {"code": effect.code, **effect.details})
    return TrialResult(bool(written), written)
