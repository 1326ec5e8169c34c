"""A bus bridge without I/O (bus §5): feed it what happened, carry out what it returns, in order.

Time is passed in as seconds that never run backwards. Hub connection, participant transports and storage belong to
the shell around it (relay.py); the vectors and the property tests drive this class directly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from bridgehead.bus import actions
from bridgehead.bus.bridge.admission import ABSENT, Admission, Admitted, Denied, Ignored
from bridgehead.bus.bridge.deliveries import Deliveries
from bridgehead.bus.bridge.echoes import EchoTable, HubNames, RestartEchoes
from bridgehead.bus.bridge.registrations import Registrations
from bridgehead.bus.bridge.routing import Match, Offer, Router
from bridgehead.bus.bridge.settings import BridgeSettings
from bridgehead.bus.participants.participants import (
    ManagedSessions,
    Participant,
    Register,
    RememberedState,
    TooManyParticipants,
)
from bridgehead.bus.participants.record import ParticipantRecord
from bridgehead.bus.participants.sources import Sources
from bridgehead.bus.wire import topics
from bridgehead.bus.wire.message import Message, destinations, has_malformed_carrier
from bridgehead.bus.wire.session import DEFAULT, session_id
from bridgehead.bus.wire.topics import HANDLE, HANDLED, SPEAK, is_unmarked

READING_S: Final = 0.25


class Bridge:
    """Every decision of one bridge: who is known, what goes in, what comes out, what became of it."""

    def __init__(
        self,
        settings: BridgeSettings,
        *,
        secret: bytes,
        random_word: Callable[[], str],
        own_hub: bool = False,
        others: Callable[[], int] = lambda: 1,
        remembered: RememberedState | None = None,
        records: Mapping[str, ParticipantRecord] | None = None,
        owner_of: Callable[[str], str | None] = lambda _name: None,
        knows_all_names: bool = False,
        now: float = 0.0,
    ) -> None:
        past = remembered or RememberedState()
        reserved = (
            *settings.reserved_names,
            topics.OPERATOR,
            settings.hidden_source or settings.bridge_id,
        )
        self.settings = settings
        self.known = Register()
        self._knows_all_names = knows_all_names
        self._sources = Sources(
            settings.bridge_id, reserved, past.sources, random_word, owner_of
        )
        self._managed = ManagedSessions(secret, limit=settings.max_participants)
        self._admission = Admission(settings, self._sources, secret, self._managed)
        self._router = Router(settings, self.known)
        self._names = HubNames(settings.profile, own_hub=own_hub, others=others)
        self._echoes = EchoTable()
        self._may_omit_echoes = own_hub and self._router.keeps_to_sessions
        self._deliveries = Deliveries(settings, self.known)
        self._registrations = Registrations(settings, self.known)
        self._restart = RestartEchoes(now if past.sources else None)
        self.taken = self.offered = 0
        """Messages of and for participants so far; taken + offered = outcomes + held + queued (B-70)."""
        self._hub_is_up = True
        self._hub_marks_ends = False
        """Whether this hub sends end markers; without them nobody can say which questions are open."""
        self._left: dict[str, str] = {}
        """Hub sessions of participants that are gone, so that what is still said in them can be reported."""
        self._stopping = False
        self._restore(past, records or {}, now)

    def _restore(
        self,
        past: RememberedState,
        records: Mapping[str, ParticipantRecord],
        now: float,
    ) -> None:
        """After a restart everybody remembered counts as disconnected at this moment (bus §13)."""
        for participant_id in past.sources:
            if (record := records.get(participant_id)) is not None:
                self.recall(record, past, now)
            else:
                self._registrations.abandon(
                    participant_id, past.skills.get(participant_id, ())
                )

    def recall(
        self, record: ParticipantRecord, past: RememberedState, now: float
    ) -> None:
        """Know a participant again as one that has just left: with its source, its sessions and its skills."""
        if record.id not in past.sources:
            return
        self._sources.remember(record.id, past.sources[record.id])
        participant = self.known.add(record, self._sources.assign(record, None), now)
        for hub_id, local in past.hub_ids.get(record.id, {}).items():
            if self.settings.nat and hub_id == local:
                continue  # from a time without translation; kept, it would let this id through for good (B-25)
            self.known.own(participant, hub_id, local)
            participant.hub_ids[local] = hub_id
        for hub_id, skill in past.skills.get(record.id, ()):
            self.known.track(participant, hub_id, skill)
        self._own_managed(participant)
        self.known.leaves(participant, now, self.settings.grace_s)

    # -- participants come and go ---------------------------------------------------------------------------------

    def connected(
        self, record: ParticipantRecord, now: float, *, claim: object = None
    ) -> list[actions.Effect]:
        """A participant was authenticated and its transport takes messages."""
        effects = self.tick(now)
        participant = self.known.get(record.id)
        if participant is None:
            return effects + self._welcome(record, claim, now)
        if participant.connected:
            effects.append(actions.Close(record.id, actions.CloseCode.REPLACED))
        participant.apply(record, now)
        self._own_managed(participant)
        participant.connected = True
        participant.stalled = False
        effects.append(actions.Joined(record.id, participant.source, first=False))
        return effects + self._deliveries.catch_up(participant, now)

    def reserve(self, record: ParticipantRecord, claim: object) -> str:
        """The source the participant will have when it is connected; nobody else gets it meanwhile."""
        known = self.known.get(record.id)
        return self._sources.assign(record, claim) if known is None else known.source

    def release(self, participant_id: str, now: float) -> list[actions.Effect]:
        """What was reserved turned out to be somebody else's in the deployment."""
        effects = self.moved(participant_id, now)
        self._sources.forget(participant_id)
        return effects

    def _welcome(
        self, record: ParticipantRecord, claim: object, now: float
    ) -> list[actions.Effect]:
        if len(self.known) >= self.settings.max_participants:
            raise TooManyParticipants(self.settings.max_participants)
        participant = self.known.add(record, self._sources.assign(record, claim), now)
        self._own_managed(participant)
        joined = actions.Joined(record.id, participant.source, first=True)
        return (
            [joined]
            if record.ephemeral
            else [actions.RememberSource(record.id, participant.source), joined]
        )

    def _own_managed(self, participant: Participant) -> None:
        """A managed participant owns its session before it has said anything in it (B-14)."""
        if participant.record.mode == "manage":
            managed = self._managed.session_id(participant.record)
            self.known.own(participant, managed, managed)

    def disconnected(
        self, participant_id: str, now: float, *, goodbye: bool = False
    ) -> list[actions.Effect]:
        """The participant's connection ended; with a goodbye it does not come back."""
        effects = self.tick(now)
        participant = self.known.get(participant_id)
        if participant is None or not participant.connected:
            return effects
        self.known.leaves(participant, now, self.settings.grace_s)
        if goodbye or self.settings.grace_s == 0:
            return effects + self._gone(
                participant, now, "goodbye" if goodbye else "disconnected"
            )
        effects.append(actions.Left(participant_id, gone=False, reason="disconnected"))
        return effects + self._deliveries.set_aside(participant, now)

    def revoked(self, participant_id: str, now: float) -> list[actions.Effect]:
        """The participant's credential was withdrawn."""
        participant = self.known.get(participant_id)
        effects: list[actions.Effect] = []
        if participant is not None:
            if participant.connected:
                effects.append(actions.Close(participant_id, actions.CloseCode.REVOKED))
            effects += self._gone(participant, now, "revoked")
        self._sources.forget(participant_id)
        # The next one of this name is somebody else.
        self._managed.forget(participant_id)
        return [*effects, actions.ForgetSource(participant_id)]

    def moved(self, participant_id: str, now: float) -> list[actions.Effect]:
        """The participant came back at another bridge of the deployment; what it has registered is not cleaned up."""
        participant = self.known.get(participant_id)
        if participant is None:
            return []
        effects: list[actions.Effect] = (
            [actions.Close(participant_id, actions.CloseCode.REPLACED)]
            if participant.connected
            else []
        )
        effects.append(actions.Left(participant_id, gone=True, reason="moved"))
        effects += self._deliveries.give_up(participant, now, "expired", None)
        self.known.remove(participant)
        return effects

    def clean_up(
        self, hub_session: str, skill_id: str, now: float
    ) -> list[actions.Effect]:
        """Deregister a skill of a participant that left with another bridge."""
        return self._originate(
            [self._registrations.deregistration(hub_session, skill_id)], now
        )

    def record_changed(self, record: ParticipantRecord, now: float) -> None:
        """A changed record counts from the next message on (B-30)."""
        participant = self.known.get(record.id)
        if participant is not None:
            participant.apply(record, now)
            self._own_managed(participant)

    def tick(self, now: float) -> list[actions.Effect]:
        """Let the time be `now`: grace periods end."""
        effects: list[actions.Effect] = []
        if now < self.known.due_at:
            return effects
        for participant in self.known.expired(now, self.settings.grace_s):
            effects += self._gone(participant, now, "grace_over")
        return effects

    def next_deadline(self) -> float | None:
        """When `tick` has something to do at the latest."""
        return None if self.known.due_at == math.inf else self.known.due_at

    def _gone(
        self, participant: Participant, now: float, reason: str
    ) -> list[actions.Effect]:
        effects: list[actions.Effect] = [
            actions.Left(participant.id, gone=True, reason=reason)
        ]
        effects += self._deliveries.give_up(participant, now, "expired", None)
        owed, dropped = self._registrations.withdraw_all(participant)
        effects += dropped
        if not participant.record.ephemeral:
            self._left |= dict.fromkeys(participant.sessions, participant.id)
            while len(self._left) > self.settings.max_participants:
                del self._left[next(iter(self._left))]
        self.known.remove(participant)
        if participant.record.ephemeral:
            self._sources.forget(participant.id)
            self._managed.forget(participant.id)
        return effects + self._originate(owed, now)

    # -- the hub --------------------------------------------------------------------------------------------------

    def hub_opened(self, now: float) -> list[actions.Effect]:
        """The hub can be written to; what is owed to it goes first."""
        self._hub_is_up = True
        owed, dropped = self._registrations.take_owed()
        return dropped + self._originate(owed, now)

    def hub_lost(self) -> list[actions.Effect]:
        """The hub cannot be written to; whoever waits for an answer of it is told that none will come."""
        self._hub_is_up = False
        return [
            actions.Refused(participant.id, "turn_lost", _named(question.utterance_id))
            for participant in self.known
            for question in participant.questions.take_all()
            if self._hub_marks_ends
        ]

    def turn_lost(self, message: Message) -> list[actions.Effect]:
        """A question of ours that no hub has any more."""
        asker = self.known.by_source(str(message.context.get("source")))
        if asker is None:
            return []
        asker.questions.end(
            session_id(message.context.get("session")),
            message.context.get("utterance_id"),
        )
        return [
            actions.Refused(
                asker.id, "turn_lost", _named(message.context.get("utterance_id"))
            )
        ]

    def stop(self, now: float) -> list[actions.Effect]:
        """Going away: nothing more is taken, and what waits is dropped."""
        self._stopping = True
        return [
            effect
            for one in self.known
            for effect in self._deliveries.give_up(one, now, "dropped", "shutdown")
        ]

    def _originate(self, messages: list[Message], now: float) -> list[actions.Effect]:
        """Messages of the bridge itself; without a hub they wait, because they stay owed (B-46)."""
        if not self._hub_is_up:
            self._registrations.owe(messages)
            return []
        return [self._written(message, None, 0, now) for message in messages]

    def _written(
        self, message: Message, author: str | None, hops: int, now: float
    ) -> actions.ToBus:
        if self._names.writes_legacy:
            message = self._names.written(message, now)
        self._echoes.wrote(message, author, hops, now)
        return actions.ToBus(message)

    def hub_sent(self, message: Message, now: float) -> list[actions.Effect]:
        """The hub carried `message`: offer it to whom it concerns."""
        effects: list[actions.Effect] = (
            [] if now < self.known.due_at else self.tick(now)
        )
        if message.type in topics.GATEWAY_ONLY:
            return effects + self._forged(message)
        echo = self._echoes.answer(message, now) if self._echoes.waits else None
        context = message.context
        carried = context.get("session")
        if not isinstance(carried, dict) or not is_unmarked(context):
            malformed = has_malformed_carrier(message)
            if malformed or topics.is_twin(message):
                effects.append(actions.HubIgnored("malformed" if malformed else "twin"))
                return effects
        if self._names.translates:
            understood = self._names.read(message, echo, now)
            if understood is None:
                effects.append(actions.HubIgnored("duplicate"))
                return effects
            message = understood
        hub_session = session_id(carried)
        named = None if carried is None else hub_session
        hops = 1 if echo is None else echo.hops + 1
        offer = Offer(message, carried, hub_session, echo, named, hops)
        topic = message.type
        rendered = False
        recipients = self._router.recipients(offer)
        if topic == HANDLED:
            self._end_questions(offer, recipients)
        for participant, signal in recipients:
            self.offered += 1
            obstacle = self._router.obstacle(participant, offer)
            if obstacle is None and self._restart.lasts:
                obstacle = self._restart.obstacle(participant, message, now)
            if obstacle is None:
                addressed = self._router.addressed_to(participant, offer)
                self._deliveries.deliver(
                    participant, addressed, offer, signal, now, effects
                )
            else:
                effects.append(self._deliveries.dropped(participant, offer, obstacle))
                rendered = rendered or obstacle == "rendered"
                if (
                    obstacle != "rendered"
                    and echo is None
                    and context.get("source") == topics.OPERATOR
                ):
                    effects.append(
                        actions.Undelivered(participant.id, obstacle, message)
                    )
        if rendered:
            effects.append(
                self._written(
                    message.forward(topics.SPEAK_B64, message.data), None, 0, now
                )
            )
        if not recipients:
            if echo is None and (
                topic == SPEAK or context.get("source") == topics.OPERATOR
            ):
                effects += [
                    actions.Undelivered(name, "absent", message)
                    for name in self._absent(offer)
                ]
        elif self._names.may_wait_for_audio and topic == SPEAK and echo is None:
            effects += self._after_speech(message, recipients, now)
        return effects

    def _forged(self, message: Message) -> list[actions.Effect]:
        """Refuse what only the gateway tells participants; an operator who tried it learns why."""
        effects: list[actions.Effect] = [actions.HubIgnored(topics.RESERVED_TOPIC)]
        if message.context.get("source") == topics.OPERATOR:
            for name in destinations(message.context):
                named = self._sources.owner(name) or name
                effects.append(
                    actions.Undelivered(named, topics.RESERVED_TOPIC, message)
                )
        return effects

    def tell(
        self, participant_id: str, message: Message, now: float
    ) -> list[actions.Effect]:
        """Offer a participant a message of the gateway's own, which no hub has seen."""
        effects = self.tick(now)
        participant = self.known.get(participant_id)
        if participant is None:
            return effects
        offer = Offer(message, None, DEFAULT, None, None, 1)
        self.offered += 1
        obstacle = self._router.obstacle(participant, offer)
        if obstacle is not None:
            return [*effects, self._deliveries.dropped(participant, offer, obstacle)]
        addressed = self._router.addressed_to(participant, offer)
        self._deliveries.deliver(
            participant, addressed, offer, "destination", now, effects
        )
        return effects

    def _end_questions(self, offer: Offer, recipients: Sequence[Match]) -> None:
        self._hub_marks_ends = True
        utterance_id = offer.message.context.get("utterance_id")
        for participant, _signal in recipients:
            participant.questions.end(
                offer.hub_session, utterance_id, held=not participant.connected
            )
        if offer.hub_session == DEFAULT:
            return
        for participant, _signal in self.known.by_session(offer.hub_session):
            if participant.record.mode == "manage":
                local = participant.sessions[offer.hub_session]
                channel = "" if local == offer.hub_session else local
                self._managed.adopt(
                    participant.record, offer.message.context["session"], channel
                )

    def _after_speech(
        self, spoken: Message, recipients: Sequence[Match], now: float
    ) -> list[actions.Effect]:
        # A skill that waits until it has been heard waits for these; who only reads has no audio to report (B-34).
        reader = next(
            (p for p, _ in recipients if p.connected and p.record.mode == "manage"),
            None,
        )
        if reader is None:
            return []
        context = {k: v for k, v in spoken.context.items() if k != "destination"} | {
            "source": reader.source
        }
        started = self._written(
            Message(topics.AUDIO_STARTED, {}, context), None, 0, now
        )
        # It speaks first and begins to wait after that, so the end must not come at once.
        return [
            started,
            actions.Later(Message(topics.AUDIO_ENDED, {}, context), READING_S),
        ]

    def due(self, message: Message, now: float) -> list[actions.Effect]:
        """A message of our own whose time has come."""
        return (
            [self._written(message, None, 0, now)]
            if self._hub_is_up and not self._stopping
            else []
        )

    def _absent(self, offer: Offer) -> list[str]:
        """Participants that a message is for and that are not there; nobody would notice otherwise."""
        context = offer.message.context
        # Who may have misspelt it.
        unknown = self._knows_all_names and context.get("source") == topics.OPERATOR
        named = [
            self._sources.owner(name) or (name if unknown else None)
            for name in destinations(context)
        ]
        return [
            owner
            for owner in dict.fromkeys(named or [self._left.get(offer.hub_session)])
            if owner is not None
        ]

    def tell_undelivered(
        self, report: actions.Undelivered, now: float
    ) -> list[actions.Effect]:
        """Tell the hub, so that whoever spoke can know."""
        data = {"participant": report.participant, "reason": report.reason}
        context = (
            {}
            if report.about is None
            else report.about.reply(topics.UNDELIVERED, data).context
        )
        return self.due(
            Message(
                topics.UNDELIVERED, data, {**context, "source": self.settings.bridge_id}
            ),
            now,
        )

    # -- messages from participants -------------------------------------------------------------------------------

    def received(
        self,
        participant_id: str,
        frame: bytes,
        now: float,
        value: object = ABSENT,
        hops: object = 0,
    ) -> list[actions.Effect]:
        """A participant sent a frame; `value` is the message in it where the frame has been decoded already."""
        effects: list[actions.Effect] = (
            [] if now < self.known.due_at else self.tick(now)
        )
        # Functions kept in an attribute are called faster from a local name.
        find = self.known.get
        participant = find(participant_id)
        if participant is None or not participant.connected:
            return effects
        self.taken += 1
        verdict = self._admission.admit(participant, frame, value, hops, now)
        size = len(frame)
        if isinstance(verdict, Admitted):
            self._inject(participant, verdict, size, now, effects)
        elif isinstance(verdict, Ignored):
            effects.append(
                actions.Outcome(
                    participant_id,
                    "in",
                    verdict.topic,
                    "dropped",
                    verdict.reason,
                    None,
                    size,
                )
            )
        else:
            effects += self._refuse(participant, verdict, size, now)
        return effects

    def _inject(
        self,
        participant: Participant,
        admitted: Admitted,
        size: int,
        now: float,
        effects: list[actions.Effect],
    ) -> None:
        """Write the message to the hub if there is room for it, adding what follows to `effects`."""
        message = admitted.message
        hub_session = admitted.hub_session
        topic = message.type
        context = message.context
        if self._stopping or not self._hub_is_up:
            reason = "shutdown" if self._stopping else "hub_down"
            effects.append(
                actions.Refused(
                    participant.id, reason, _named(context.get("utterance_id"))
                )
            )
            effects.append(
                actions.Outcome(
                    participant.id, "in", topic, "dropped", reason, hub_session, size
                )
            )
            return
        is_question = topic == HANDLE
        if is_question:
            obstacle = participant.questions.begin(
                hub_session, context.get("utterance_id"), now, self._hub_marks_ends
            )
            if obstacle is not None:
                if obstacle == "twin":
                    effects.append(
                        actions.Outcome(
                            participant.id,
                            "in",
                            topic,
                            "dropped",
                            "twin",
                            hub_session,
                            size,
                        )
                    )
                else:
                    effects += self._refuse(
                        participant, Denied(obstacle, {}, topic), size, now
                    )
                return
        elif topic in topics.TRACKED and not self._registrations.has_room(
            participant, admitted
        ):
            crowded = Denied("policy_denied", {"field": "type", "value": topic}, topic)
            effects += self._refuse(participant, crowded, size, now)
            return
        if hub_session != participant.latest_session and hub_session != DEFAULT:
            changes, owed = self._registrations.own_session(participant, admitted)
            effects += changes + self._originate(owed, now)
        if admitted.hops or participant.hops:
            participant.hops[hub_session] = admitted.hops
        if not is_question and topic in topics.TRACKED:
            effects += self._registrations.note(participant, admitted)
        if participant.site is not None or "site_id" in context["session"]:
            self.known.place(participant, self._router.site_of(message))
        alone = is_question and self._may_omit_echoes and "destination" not in context
        alone = alone and len(self.known.by_session(hub_session)) == 1
        if self._names.writes_legacy:
            message = self._names.written(message, now)
        if not alone:
            self._echoes.wrote(message, participant.id, admitted.hops, now)
        effects.append(
            actions.ToBus(message, participant.id, topic, hub_session, size, alone)
        )

    def _refuse(
        self, participant: Participant, denied: Denied, size: int, now: float
    ) -> list[actions.Effect]:
        effects: list[actions.Effect] = [
            actions.Refused(participant.id, denied.code, denied.details)
        ]
        if self._hub_is_up and not self._stopping:
            if denied.announce is not None:
                effects.append(self._written(denied.announce, None, 0, now))
            elif denied.code == "policy_denied" and self._may_announce_denial(
                participant, now
            ):
                effects.append(
                    self._written(
                        denied.diagnostic(self.settings.bridge_id), None, 0, now
                    )
                )
        effects.append(
            actions.Outcome(
                participant.id, "in", denied.topic, "refused", denied.code, None, size
            )
        )
        return effects + self._strike(participant, now)

    def _strike(self, participant: Participant, now: float) -> list[actions.Effect]:
        """One more violation; too many within a minute end the connection (bus §10.5)."""
        if not participant.violations.too_many(now):
            return []
        return [
            actions.Close(participant.id, actions.CloseCode.VIOLATIONS),
            *self.disconnected(participant.id, now),
        ]

    def charged(self, participant_id: str, now: float) -> list[actions.Effect]:
        """A frame that is no message counts towards the rate too; empty unless it was too much."""
        participant = self.known.get(participant_id)
        if participant is None or participant.bucket.take(now):
            return []
        return [
            actions.Refused(participant_id, "rate_limited", {}),
            *self._strike(participant, now),
        ]

    def _may_announce_denial(self, participant: Participant, now: float) -> bool:
        last = participant.denied_event_at
        if not self.settings.policy_denied_event or (
            last is not None and now - last < 1.0
        ):
            return False
        participant.denied_event_at = now
        return True

    def hops_in(self, hub_session: str) -> int:
        """Bridges the last utterance of this session had crossed when it came in here."""
        return max(
            (p.hops.get(hub_session, 0) for p, _ in self.known.by_session(hub_session)),
            default=0,
        )

    def relayed(
        self, message: Message, author: str, hops: int, now: float
    ) -> list[actions.Effect]:
        """A message that came from an upstream bridge; its echo is offered to everybody it concerns."""
        return (
            [self._written(message, author, hops, now)]
            if self._hub_is_up and not self._stopping
            else []
        )

    # -- transports -----------------------------------------------------------------------------------------------

    def stalled(self, participant_id: str) -> None:
        """The participant's transport takes nothing more for now."""
        if (participant := self.known.get(participant_id)) is not None:
            participant.stalled = True

    def drained(self, participant_id: str, now: float) -> list[actions.Effect]:
        """The participant's transport takes everything again."""
        participant = self.known.get(participant_id)
        if participant is None or not participant.connected:
            return []
        participant.stalled = False
        return self._deliveries.catch_up(participant, now)


def _named(utterance_id: object) -> dict[str, Any]:
    return {"utterance_id": utterance_id} if isinstance(utterance_id, str) else {}
