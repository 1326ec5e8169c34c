"""What must hold whatever happens: nobody reads another's conversation, and every message has one end."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bridgehead.bus.actions import Close, Delivery, Effect, Left, ToBus
from bridgehead.bus.bridge.bridge import Bridge
from bridgehead.bus.wire.message import Message
from bus.support.bridging import (
    UNLIMITED,
    all_outcomes,
    frame,
    handed_over,
    make_bridge,
    make_record,
    written,
)

TURNS = 1_000


class Conversation:
    """Two participants that both call their session "default", and a core that answers in every style there is."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.bridge: Bridge = make_bridge(grace_s=30, max_held=10_000)
        self.records = {
            name: make_record(name, limits=UNLIMITED) for name in ("kitchen", "study")
        }
        self.now = 0.0
        self.heard: dict[str, list[dict[str, Any]]] = {
            name: [] for name in self.records
        }
        self.expected: dict[str, list[str]] = {name: [] for name in self.records}
        for record in self.records.values():
            self.take(self.bridge.connected(record, self.now))

    def take(self, effects: list[Effect]) -> list[Message]:
        for participant, message in handed_over(effects):
            self.heard[participant].append(message)
        return written(effects)

    def turn(self, number: int) -> None:
        name = self.random.choice(list(self.records))
        if self.random.random() < 0.1:
            self.reconnect(name)
        text = f"{name} said {number}"
        session = self.random.choice(
            [None, {}, {"session_id": "default"}, {"session_id": ""}]
        )
        sent = self.bridge.received(
            name,
            frame("ovos.utterance.handle", {"text": text}, session=session),
            self.now,
        )
        for message in self.take(sent):
            self.take(self.bridge.hub_sent(message, self.now))
            if self.random.random() < 0.1:
                self.take(self.bridge.disconnected(name, self.now))
            self.answer(message, text)
            self.expected[name].append(text)
        if self.random.random() < 0.2:
            self.now += self.random.uniform(0, 5)
        participant = self.bridge.known.get(name)
        if participant is None or not participant.connected:
            self.take(self.bridge.connected(self.records[name], self.now))

    def reconnect(self, name: str) -> None:
        if self.random.random() < 0.5:
            self.take(self.bridge.disconnected(name, self.now))
        self.take(self.bridge.connected(self.records[name], self.now))

    def answer(self, entry: Message, text: str) -> None:
        style = self.random.choice(["reply", "broadcast", "array"])
        answer = entry.reply("ovos.utterance.speak", {"utterance": text})
        context = dict(answer.context)
        if style == "broadcast":
            del context["destination"]
        elif style == "array":
            context["destination"] = [context["destination"], "audio"]
        self.take(
            self.bridge.hub_sent(Message(answer.type, answer.data, context), self.now)
        )


@pytest.mark.parametrize("seed", range(5))
def test_a_thousand_interleaved_turns_of_two_default_sessions_leak_nothing(
    seed: int,
) -> None:
    conversation = Conversation(seed)
    for number in range(TURNS):
        conversation.turn(number)

    for name, messages in conversation.heard.items():
        spoken = [message["data"]["utterance"] for message in messages]
        assert spoken == conversation.expected[name]
        assert all(
            message["context"]["session"] == {"session_id": "default"}
            or not message["context"]["session"]
            .get("session_id", "default")
            .startswith("b")
            for message in messages
        )
    assert sum(map(len, conversation.expected.values())) == TURNS


NAMES = ("a", "b", "c")
TOPICS = (
    "ovos.utterance.speak",
    "ovos.utterance.handled",
    "ovos.converse.ping",
    "ovos.session.sync",
    "ovos.intent.handler.start",
    "ovos.audio.speech",
    "ovos.stop",
)


class Accounting(RuleBasedStateMachine):
    """Whatever arrives in whatever order: taken + offered = outcomes + held + queued, and queues stay bounded."""

    @initialize(
        nat=st.booleans(),
        grace=st.sampled_from([0, 5]),
        profile=st.sampled_from(["spec", "auto", "legacy"]),
    )
    def begin(self, nat: bool, grace: int, profile: str) -> None:
        self.now = 0.0
        self.outcomes = 0
        self.echoes: list[Message] = []
        self.bridge = make_bridge(
            nat=nat,
            grace_s=grace,
            profile=profile,
            max_held=3,
            max_queued=2,
            max_queued_bytes=600,
            max_held_bytes=800,
            routing=["destination", "session_id", "site_id"],
        )
        self.records = {
            "a": make_record("a", limits=UNLIMITED),
            "b": make_record("b", tts=False, role="skill_host", limits=UNLIMITED),
            "c": make_record("c", mode="manage", role="opaque", limits=UNLIMITED),
        }

    def account(self, effects: list[Effect]) -> None:
        self.outcomes += len(all_outcomes(effects))
        self.echoes += [
            effect.message for effect in effects if isinstance(effect, ToBus)
        ]
        for effect in effects:
            if isinstance(effect, Delivery):
                participant = self.bridge.known.get(effect.participant)
                assert (
                    participant is None
                    or participant.connected
                    or any(isinstance(e, Close) for e in effects)
                )

    @rule(
        name=st.sampled_from(NAMES),
        claim=st.sampled_from([None, "audio", "a", "den", 7]),
    )
    def connect(self, name: str, claim: object) -> None:
        self.account(self.bridge.connected(self.records[name], self.now, claim=claim))

    @rule(name=st.sampled_from(NAMES), goodbye=st.booleans())
    def disconnect(self, name: str, goodbye: bool) -> None:
        self.account(self.bridge.disconnected(name, self.now, goodbye=goodbye))

    @rule(name=st.sampled_from(NAMES))
    def revoke(self, name: str) -> None:
        self.account(self.bridge.revoked(name, self.now))

    @rule(
        name=st.sampled_from(NAMES),
        topic=st.sampled_from(
            [
                "ovos.utterance.handle",
                "ovos.utterance.speak",
                "ovos.skill.loaded",
                "x.y",
                "a:b:c",
            ]
        ),
        session=st.sampled_from(
            [
                None,
                {},
                {"session_id": "s"},
                {"session_id": 4},
                "bad",
                {"site_id": "home"},
            ]
        ),
        destination=st.sampled_from([None, "a", "b", "core", ["b", "audio"], 9]),
    )
    def inbound(
        self, name: str, topic: str, session: object, destination: object
    ) -> None:
        context = {"session": session, "destination": destination}
        data = {"skill_id": "lamp"} if "skill" in topic else {}
        self.account(
            self.bridge.received(name, frame(topic, data, **context), self.now)
        )

    @rule(name=st.sampled_from(NAMES), garbage=st.binary(max_size=20))
    def garbage(self, name: str, garbage: bytes) -> None:
        self.account(self.bridge.received(name, garbage, self.now))

    @rule(name=st.sampled_from(NAMES))
    def text(self, name: str) -> None:
        self.account(self.bridge.received(name, b'{"text":"hello"}', self.now))

    @rule()
    def echo(self) -> None:
        for message in self.echoes[:3]:
            self.account(self.bridge.hub_sent(message, self.now))
        del self.echoes[:3]

    @rule(
        topic=st.sampled_from(TOPICS),
        name=st.sampled_from(NAMES),
        style=st.sampled_from(["destination", "session", "site", "nobody"]),
        size=st.integers(0, 900),
    )
    def bus(self, topic: str, name: str, style: str, size: int) -> None:
        participant = self.bridge.known.get(name)
        context: dict[str, Any] = {}
        if style == "destination":
            context["destination"] = participant.source if participant else name
        elif style == "session" and participant and participant.sessions:
            context["session"] = {"session_id": next(iter(participant.sessions))}
        elif style == "site":
            context["session"] = {"session_id": "zz", "site_id": "home"}
        self.account(
            self.bridge.hub_sent(
                Message(topic, {"utterance": "x" * size}, context), self.now
            )
        )

    @rule(name=st.sampled_from(NAMES))
    def stall(self, name: str) -> None:
        self.bridge.stalled(name)

    @rule(name=st.sampled_from(NAMES))
    def drain(self, name: str) -> None:
        self.account(self.bridge.drained(name, self.now))

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 4.9, 5.0]))
    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.account(self.bridge.tick(self.now))

    @rule(up=st.booleans())
    def hub(self, up: bool) -> None:
        if up:
            self.account(self.bridge.hub_opened(self.now))
        else:
            self.bridge.hub_lost()

    @invariant()
    def every_message_is_accounted_for(self) -> None:
        if not hasattr(self, "bridge"):
            return
        waiting = sum(len(p.held) + len(p.queued) for p in self.bridge.known)
        assert self.bridge.taken + self.bridge.offered == self.outcomes + waiting

    @invariant()
    def nothing_waits_beyond_its_bounds(self) -> None:
        for participant in self.bridge.known if hasattr(self, "bridge") else ():
            assert len(participant.held) <= 3 and participant.held.bytes <= 800
            assert len(participant.queued) <= 2 and participant.queued.bytes <= 600

    @invariant()
    def sources_are_distinct_and_not_reserved(self) -> None:
        sources = (
            [p.source for p in self.bridge.known] if hasattr(self, "bridge") else []
        )
        assert len(set(sources)) == len(sources)
        assert not {"audio", "bridgehead", ""} & set(sources)


Accounting.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
test_every_message_has_exactly_one_outcome = Accounting.TestCase


def test_somebody_who_left_twice_is_gone_once_even_if_the_clock_comes_late() -> None:
    bridge = make_bridge(grace_s=30)
    record = make_record("kitchen")
    for second in (0, 2):
        bridge.connected(record, float(second))
        bridge.disconnected("kitchen", second + 1.0)

    effects = bridge.tick(100.0)

    assert [effect for effect in effects if isinstance(effect, Left)] == [
        Left("kitchen", gone=True, reason="grace_over")
    ]
    assert bridge.known.get("kitchen") is None
