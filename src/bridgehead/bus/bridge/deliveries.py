"""Hand messages over, or keep them within bounds until that is possible. Pure.

Rules B-41 to B-43 and B-70.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from bridgehead.bus.actions import (
    Close,
    CloseCode,
    Delivery,
    Effect,
    Left,
    Outcome,
    Undelivered,
)
from bridgehead.bus.bridge.routing import Offer
from bridgehead.bus.bridge.settings import BridgeSettings
from bridgehead.bus.participants.participants import Participant, Register
from bridgehead.bus.wire.message import Message, encode
from bridgehead.bus.wire.topics import SPEAK


class Deliveries:
    """The way out of a bridge; every offered message ends in exactly one outcome."""

    def __init__(self, settings: BridgeSettings, known: Register) -> None:
        self._settings = settings
        self._known = known

    def deliver(
        self,
        participant: Participant,
        message: Message,
        offer: Offer,
        signal: str,
        now: float,
        effects: list[Effect],
    ) -> None:
        """Hand the message over, queue it, or hold it for a reconnect."""
        body = encode(message)
        topic = offer.message.type
        delivery = Delivery(
            participant.id, topic, body, offer.hops, offer.named_session, now, signal
        )
        if not participant.connected:
            effects += self._hold(participant, delivery, now)
        elif not participant.stalled:
            effects.append(delivery)
        elif self._fits_queue(participant, delivery):
            participant.queued.append(delivery)
        else:
            effects += self._cut_off(participant, delivery, now)

    def _fits_queue(self, participant: Participant, delivery: Delivery) -> bool:
        return participant.queued.fits(
            delivery,
            count=self._settings.max_queued,
            size=self._settings.max_queued_bytes,
        )

    def dropped(self, participant: Participant, offer: Offer, reason: str) -> Outcome:
        """Return the outcome of a message that was offered but does not go."""
        return Outcome(
            participant.id,
            "out",
            offer.message.type,
            "dropped",
            reason,
            offer.named_session,
        )

    def catch_up(self, participant: Participant, now: float) -> list[Effect]:
        """Hand over everything that waited, oldest first."""
        waiting = (*participant.held.take_all(), *participant.queued.take_all())
        return [
            msgspec.structs.replace(
                delivery, waited_s=max(0.0, now - delivery.offered_at)
            )
            for delivery in waiting
        ]

    def set_aside(self, participant: Participant, now: float) -> list[Effect]:
        """Keep the unsent messages for a reconnect after an ordinary disconnect."""
        effects: list[Effect] = []
        for delivery in participant.queued.take_all():
            effects += self._hold(participant, delivery, now)
        return effects

    def give_up(
        self,
        participant: Participant,
        now: float,
        outcome: Literal["expired", "dropped"],
        reason: str | None,
    ) -> list[Effect]:
        """Return the outcome of everything that waits and will not be sent."""
        waiting = (*participant.held.take_all(), *participant.queued.take_all())
        return _lost(participant, waiting, outcome, reason, now)

    def _hold(
        self, participant: Participant, delivery: Delivery, now: float
    ) -> list[Effect]:
        bounds = self._settings
        dropped = participant.held.hold(
            delivery, count=bounds.max_held, size=bounds.max_held_bytes
        )
        return _lost(participant, dropped, "dropped", "hold_overflow", now)

    def _cut_off(
        self, participant: Participant, delivery: Delivery, now: float
    ) -> list[Effect]:
        """End the connection of a participant that does not read (B-43)."""
        unsent = (*participant.queued.take_all(), delivery)
        self._known.leaves(participant, now, self._settings.grace_s)
        return [
            Close(participant.id, CloseCode.SLOW_CONSUMER),
            Left(participant.id, gone=False, reason="slow_consumer"),
            *_lost(participant, unsent, "dropped", "slow_consumer", now),
        ]


def _lost(
    participant: Participant,
    deliveries: Iterable[Delivery],
    outcome: Literal["dropped", "expired"],
    reason: str | None,
    now: float,
) -> list[Effect]:
    """Return the outcome of each, and for speech a report.

    Whoever spoke must not believe that it was heard.
    """
    effects: list[Effect] = []
    for lost in deliveries:
        waited = max(0.0, now - lost.offered_at)
        size = len(lost.body)
        effects.append(
            Outcome(
                participant.id,
                "out",
                lost.topic,
                outcome,
                reason,
                lost.hub_session,
                size,
                waited,
            )
        )
        if lost.topic == SPEAK:
            effects.append(Undelivered(participant.id, reason or outcome))
    return effects
