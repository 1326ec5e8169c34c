"""A bus bridge without I/O (bus §5).

Tell it what happened and carry out what it returns, in order. Time is passed in as
seconds that never run backwards. The hub connection, participant transports and
storage belong to the shell around it (relay.py); the vectors and the property tests
drive this class directly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from bridgehead.bus import actions
from bridgehead.bus.bridge.admission import ABSENT, Admission, Admitted, Denied, Ignored
from bridgehead.bus.bridge.deliveries import Deliveries
from bridgehead.bus.bridge.echoes import Echo, EchoTable, HubNames, RestartEchoes
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
"""How long somebody who reads an answer counts as listening to it."""


class Bridge:
    """Every decision of one bridge: who is known, what goes in, what comes out."""

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
        self.taken = 0
        """Messages from participants so far."""
        self.offered = 0
        """Messages for participants so far.

        taken + offered = outcomes + held + queued (B-70).
        """
        self._hub_is_up = True
        self._hub_marks_ends = False
        """Whether this hub says when a question is over."""
        self._left: dict[str, str] = {}
        """Who left, by hub session, so that later speech for them can be reported."""
        self._stopping = False
        self._restore(past, records or {}, now)

    def _restore(
        self,
        past: RememberedState,
        records: Mapping[str, ParticipantRecord],
        now: float,
    ) -> None:
        """Count everybody known before a restart as disconnected now (bus §13)."""
        for participant_id in past.sources:
            record = records.get(participant_id)
            if record is not None:
                self.recall(record, past, now)
            else:
                self._registrations.abandon(
                    participant_id, past.skills.get(participant_id, ())
                )

    def recall(
        self, record: ParticipantRecord, past: RememberedState, now: float
    ) -> None:
        """Restore a participant, with all it had, as one that has just left."""
        if record.id not in past.sources:
            return
        self._sources.remember(record.id, past.sources[record.id])
        participant = self.known.add(record, self._sources.assign(record, None), now)
        for hub_id, local in past.hub_ids.get(record.id, {}).items():
            if self.settings.nat and hub_id == local:
                # From a time without translation; it would pass for good (B-25).
                continue
            self.known.own(participant, hub_id, local)
            participant.hub_ids[local] = hub_id
        for hub_id, skill in past.skills.get(record.id, ()):
            self.known.track(participant, hub_id, skill)
        self._own_managed(participant)
        self.known.leaves(participant, now, self.settings.grace_s)

    # -- participants come and go ---------------------------------------------

    def connected(
        self, record: ParticipantRecord, now: float, *, claim: object = None
    ) -> list[actions.Effect]:
        """Welcome an authenticated participant whose transport takes messages."""
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
        """Return the source of a participant that will connect; nobody else gets it."""
        known = self.known.get(record.id)
        if known is not None:
            return known.source
        return self._sources.assign(record, claim)

    def release(self, participant_id: str, now: float) -> list[actions.Effect]:
        """Give up a reserved source that belongs to somebody else in the deployment."""
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
        if record.ephemeral:
            return [joined]
        return [actions.RememberSource(record.id, participant.source), joined]

    def _own_managed(self, participant: Participant) -> None:
        """Let a managed participant own its session from the beginning (B-14)."""
        if participant.record.mode == "manage":
            managed = self._managed.session_id(participant.record)
            self.known.own(participant, managed, managed)

    def disconnected(
        self, participant_id: str, now: float, *, goodbye: bool = False
    ) -> list[actions.Effect]:
        """Note that a connection ended, for good if the participant said goodbye."""
        effects = self.tick(now)
        participant = self.known.get(participant_id)
        if participant is None or not participant.connected:
            return effects
        self.known.leaves(participant, now, self.settings.grace_s)
        if goodbye:
            return effects + self._gone(participant, now, "goodbye")
        if self.settings.grace_s == 0:
            return effects + self._gone(participant, now, "disconnected")
        effects.append(actions.Left(participant_id, gone=False, reason="disconnected"))
        return effects + self._deliveries.set_aside(participant, now)

    def revoked(self, participant_id: str, now: float) -> list[actions.Effect]:
        """Forget a participant whose credential was withdrawn."""
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
        """Let go of a participant that came back at another bridge of the deployment.

        What it has registered is not cleaned up.
        """
        participant = self.known.get(participant_id)
        if participant is None:
            return []
        effects: list[actions.Effect] = []
        if participant.connected:
            effects.append(actions.Close(participant_id, actions.CloseCode.REPLACED))
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
        """Apply a changed record from the next message on (B-30)."""
        participant = self.known.get(record.id)
        if participant is not None:
            participant.apply(record, now)
            self._own_managed(participant)

    def tick(self, now: float) -> list[actions.Effect]:
        """End the grace periods that are over at `now`."""
        effects: list[actions.Effect] = []
        if now < self.known.due_at:
            return effects
        for participant in self.known.expired(now, self.settings.grace_s):
            effects += self._gone(participant, now, "grace_over")
        return effects

    def next_deadline(self) -> float | None:
        """Return when the next grace period ends, None if nobody is in one."""
        due_at = self.known.due_at
        return None if due_at == math.inf else due_at

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

    # -- the hub --------------------------------------------------------------

    def hub_opened(self, now: float) -> list[actions.Effect]:
        """Note that the hub can be written to, and write what is owed to it."""
        self._hub_is_up = True
        owed, dropped = self._registrations.take_owed()
        return dropped + self._originate(owed, now)

    def hub_lost(self) -> list[actions.Effect]:
        """Note that the hub is gone, and tell everybody who waits for an answer."""
        self._hub_is_up = False
        refusals: list[actions.Effect] = []
        for participant in self.known:
            questions = participant.questions.take_all()
            if self._hub_marks_ends:
                refusals += [
                    _turn_lost(participant, question.utterance_id)
                    for question in questions
                ]
        return refusals

    def turn_lost(self, message: Message) -> list[actions.Effect]:
        """Tell the participant that asked `message` that its question is lost."""
        asker = self.known.by_source(str(message.context.get("source")))
        if asker is None:
            return []
        utterance_id = message.context.get("utterance_id")
        asker.questions.end(session_id(message.context.get("session")), utterance_id)
        return [_turn_lost(asker, utterance_id)]

    def stop(self, now: float) -> list[actions.Effect]:
        """Take nothing more and drop what waits."""
        self._stopping = True
        effects: list[actions.Effect] = []
        for participant in self.known:
            effects += self._deliveries.give_up(participant, now, "dropped", "shutdown")
        return effects

    def _originate(self, messages: list[Message], now: float) -> list[actions.Effect]:
        """Write messages of the bridge itself; without a hub they stay owed (B-46)."""
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
        """Offer a message that the hub carried to everybody it concerns."""
        effects: list[actions.Effect] = []
        if now >= self.known.due_at:
            effects = self.tick(now)
        if message.type in topics.GATEWAY_ONLY:
            return effects + self._forged(message)
        echo = self._echoes.answer(message, now) if self._echoes.waits else None
        reason = _ignored_because(message)
        if reason is not None:
            effects.append(actions.HubIgnored(reason))
            return effects
        if self._names.translates:
            translated = self._names.read(message, echo, now)
            if translated is None:
                effects.append(actions.HubIgnored("duplicate"))
                return effects
            message = translated
        offer = _offer_of(message, echo)
        recipients = self._router.recipients(offer)
        if message.type == HANDLED:
            self._end_questions(offer, recipients)
        if not recipients:
            return effects + self._report_absent(offer)
        self._offer_to(recipients, offer, now, effects)
        if message.type == SPEAK and echo is None and self._names.may_wait_for_audio:
            effects += self._after_speech(message, recipients, now)
        return effects

    def _offer_to(
        self,
        recipients: Sequence[Match],
        offer: Offer,
        now: float,
        effects: list[actions.Effect],
    ) -> None:
        """Deliver the message to each recipient or note what keeps it from them."""
        needs_audio = False
        for participant, signal in recipients:
            self.offered += 1
            obstacle = self._router.obstacle(participant, offer)
            if obstacle is None and self._restart.lasts:
                obstacle = self._restart.obstacle(participant, offer.message, now)
            if obstacle is None:
                addressed = self._router.addressed_to(participant, offer)
                self._deliveries.deliver(
                    participant, addressed, offer, signal, now, effects
                )
                continue
            effects.append(self._deliveries.dropped(participant, offer, obstacle))
            if obstacle == "rendered":
                needs_audio = True
            elif _is_new_from_operator(offer):
                effects.append(
                    actions.Undelivered(participant.id, obstacle, offer.message)
                )
        if needs_audio:
            request = offer.message.forward(topics.SPEAK_B64, offer.message.data)
            effects.append(self._written(request, None, 0, now))

    def _report_absent(self, offer: Offer) -> list[actions.Effect]:
        """Report speech, and anything of the operator, that is for somebody absent."""
        is_new_speech = offer.message.type == SPEAK and offer.echo is None
        if not is_new_speech and not _is_new_from_operator(offer):
            return []
        return [
            actions.Undelivered(name, "absent", offer.message)
            for name in self._absent(offer)
        ]

    def _forged(self, message: Message) -> list[actions.Effect]:
        """Refuse what only the gateway may say, and tell an operator who tried it."""
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
        """Close the question that is over, and keep the session it ended with."""
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
        """Report the playing of speech on behalf of a participant that reads it (B-34).

        A skill that waits until it has been heard waits for these messages; who only
        reads has no audio to report.
        """
        readers = (
            participant
            for participant, _signal in recipients
            if participant.connected and participant.record.mode == "manage"
        )
        reader = next(readers, None)
        if reader is None:
            return []
        context = {**spoken.context, "source": reader.source}
        context.pop("destination", None)
        started = Message(topics.AUDIO_STARTED, {}, context)
        ended = Message(topics.AUDIO_ENDED, {}, context)
        # A skill speaks first and waits after that: the end must not come at once.
        return [
            self._written(started, None, 0, now),
            actions.Later(ended, READING_S),
        ]

    def due(self, message: Message, now: float) -> list[actions.Effect]:
        """Write a message of our own whose time has come."""
        if not self._takes_messages:
            return []
        return [self._written(message, None, 0, now)]

    @property
    def _takes_messages(self) -> bool:
        return self._hub_is_up and not self._stopping

    def _absent(self, offer: Offer) -> list[str]:
        """Return the absent participants that a message is for."""
        context = offer.message.context
        is_from_operator = context.get("source") == topics.OPERATOR
        # The operator may have misspelt a name.
        reports_unknown = self._knows_all_names and is_from_operator
        names = destinations(context)
        if not names:
            left = self._left.get(offer.hub_session)
            return [] if left is None else [left]
        absent: dict[str, None] = {}
        for name in names:
            owner = self._sources.owner(name)
            if owner:
                absent[owner] = None
            elif reports_unknown:
                absent[name] = None
        return list(absent)

    def tell_undelivered(
        self, report: actions.Undelivered, now: float
    ) -> list[actions.Effect]:
        """Report to the hub what was not delivered, so that the sender can know."""
        data = {"participant": report.participant, "reason": report.reason}
        context: dict[str, Any] = {}
        if report.about is not None:
            context = report.about.reply(topics.UNDELIVERED, data).context
        context = {**context, "source": self.settings.bridge_id}
        return self.due(Message(topics.UNDELIVERED, data, context), now)

    # -- messages from participants -------------------------------------------

    def received(
        self,
        participant_id: str,
        frame: bytes,
        now: float,
        value: object = ABSENT,
        hops: object = 0,
    ) -> list[actions.Effect]:
        """Take a frame of a participant; `value` is its message if already decoded."""
        effects: list[actions.Effect] = []
        if now >= self.known.due_at:
            effects = self.tick(now)
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
                _not_taken(participant, verdict.topic, verdict.reason, None, size)
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
        """Write the message to the hub if there is room for it."""
        if self._stopping or not self._hub_is_up:
            self._turn_away(participant, admitted, size, effects)
            return
        message = admitted.message
        hub_session = admitted.hub_session
        topic = message.type
        is_question = topic == HANDLE
        is_tracked = not is_question and topic in topics.TRACKED
        if is_question:
            refusal = self._open_question(participant, admitted, size, now)
            if refusal:
                effects += refusal
                return
        elif is_tracked and not self._registrations.has_room(participant, admitted):
            denied = Denied("policy_denied", {"field": "type", "value": topic}, topic)
            effects += self._refuse(participant, denied, size, now)
            return
        if hub_session != participant.latest_session and hub_session != DEFAULT:
            changes, owed = self._registrations.own_session(participant, admitted)
            effects += changes + self._originate(owed, now)
        if admitted.hops or participant.hops:
            participant.hops[hub_session] = admitted.hops
        if is_tracked:
            effects += self._registrations.note(participant, admitted)
        if participant.site is not None or "site_id" in message.context["session"]:
            self.known.place(participant, self._router.site_of(message))
        omits_echo = is_question and self._concerns_only_its_author(admitted)
        if self._names.writes_legacy:
            message = self._names.written(message, now)
        if not omits_echo:
            self._echoes.wrote(message, participant.id, admitted.hops, now)
        effects.append(
            actions.ToBus(message, participant.id, topic, hub_session, size, omits_echo)
        )

    def _turn_away(
        self,
        participant: Participant,
        admitted: Admitted,
        size: int,
        effects: list[actions.Effect],
    ) -> None:
        """Refuse a message that no hub can take now."""
        message = admitted.message
        reason = "shutdown" if self._stopping else "hub_down"
        named = _named(message.context.get("utterance_id"))
        effects.append(actions.Refused(participant.id, reason, named))
        effects.append(
            _not_taken(participant, message.type, reason, admitted.hub_session, size)
        )

    def _open_question(
        self, participant: Participant, admitted: Admitted, size: int, now: float
    ) -> list[actions.Effect]:
        """Open a question, or return the effects of refusing it."""
        message = admitted.message
        hub_session = admitted.hub_session
        obstacle = participant.questions.begin(
            hub_session,
            message.context.get("utterance_id"),
            now,
            self._hub_marks_ends,
        )
        if obstacle is None:
            return []
        if obstacle == "twin":
            return [_not_taken(participant, message.type, "twin", hub_session, size)]
        denied = Denied(obstacle, {}, message.type)
        return self._refuse(participant, denied, size, now)

    def _concerns_only_its_author(self, admitted: Admitted) -> bool:
        """Return whether nobody else here would get the echo of this question."""
        if not self._may_omit_echoes or "destination" in admitted.message.context:
            return False
        return len(self.known.by_session(admitted.hub_session)) == 1

    def _refuse(
        self, participant: Participant, denied: Denied, size: int, now: float
    ) -> list[actions.Effect]:
        effects: list[actions.Effect] = [
            actions.Refused(participant.id, denied.code, denied.details)
        ]
        if self._takes_messages:
            announcement = denied.announce
            if (
                announcement is None
                and denied.code == "policy_denied"
                and self._may_announce_denial(participant, now)
            ):
                announcement = denied.diagnostic(self.settings.bridge_id)
            if announcement is not None:
                effects.append(self._written(announcement, None, 0, now))
        effects.append(
            actions.Outcome(
                participant.id, "in", denied.topic, "refused", denied.code, None, size
            )
        )
        return effects + self._strike(participant, now)

    def _strike(self, participant: Participant, now: float) -> list[actions.Effect]:
        """Count a violation; too many in a minute end the connection (bus §10.5)."""
        if not participant.violations.too_many(now):
            return []
        return [
            actions.Close(participant.id, actions.CloseCode.VIOLATIONS),
            *self.disconnected(participant.id, now),
        ]

    def charged(self, participant_id: str, now: float) -> list[actions.Effect]:
        """Count a frame that is no message towards the rate of its sender."""
        participant = self.known.get(participant_id)
        if participant is None or participant.bucket.take(now):
            return []
        return [
            actions.Refused(participant_id, "rate_limited", {}),
            *self._strike(participant, now),
        ]

    def _may_announce_denial(self, participant: Participant, now: float) -> bool:
        if not self.settings.policy_denied_event:
            return False
        last = participant.denied_event_at
        if last is not None and now - last < 1.0:
            return False
        participant.denied_event_at = now
        return True

    def hops_in(self, hub_session: str) -> int:
        """Return how many bridges the last utterance of this session had crossed."""
        users = self.known.by_session(hub_session)
        return max(
            (participant.hops.get(hub_session, 0) for participant, _signal in users),
            default=0,
        )

    def relayed(
        self, message: Message, author: str, hops: int, now: float
    ) -> list[actions.Effect]:
        """Write a message of an upstream bridge; its echo goes to all it concerns."""
        if not self._takes_messages:
            return []
        return [self._written(message, author, hops, now)]

    # -- transports -----------------------------------------------------------

    def stalled(self, participant_id: str) -> None:
        """Note that the participant's transport takes nothing more for now."""
        participant = self.known.get(participant_id)
        if participant is not None:
            participant.stalled = True

    def drained(self, participant_id: str, now: float) -> list[actions.Effect]:
        """Hand over what waited: the participant's transport takes messages again."""
        participant = self.known.get(participant_id)
        if participant is None or not participant.connected:
            return []
        participant.stalled = False
        return self._deliveries.catch_up(participant, now)


def _ignored_because(message: Message) -> str | None:
    """Return why a hub message takes no part, None if it does."""
    context = message.context
    if isinstance(context.get("session"), dict) and is_unmarked(context):
        return None
    if has_malformed_carrier(message):
        return "malformed"
    return "twin" if topics.is_twin(message) else None


def _offer_of(message: Message, echo: Echo | None) -> Offer:
    session = message.context.get("session")
    hub_session = session_id(session)
    named_session = None if session is None else hub_session
    hops = 1 if echo is None else echo.hops + 1
    return Offer(message, session, hub_session, echo, named_session, hops)


def _is_new_from_operator(offer: Offer) -> bool:
    """Return whether the operator sent this and it is not an echo of ours."""
    return offer.echo is None and offer.message.context.get("source") == topics.OPERATOR


def _not_taken(
    participant: Participant,
    topic: str,
    reason: str,
    hub_session: str | None,
    size: int,
) -> actions.Outcome:
    """Return the outcome of a participant's message that was dropped."""
    return actions.Outcome(
        participant.id, "in", topic, "dropped", reason, hub_session, size
    )


def _turn_lost(participant: Participant, utterance_id: object) -> actions.Refused:
    return actions.Refused(participant.id, "turn_lost", _named(utterance_id))


def _named(utterance_id: object) -> dict[str, Any]:
    return {"utterance_id": utterance_id} if isinstance(utterance_id, str) else {}
