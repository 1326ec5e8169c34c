"""Rules of the bridge that people noticed: lifted lists, channels, speech that nobody hears, cores that wait."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.bus.actions import Joined, Later, Undelivered
from bridgehead.bus.bridge.bridge import Bridge
from bridgehead.bus.bridge.escalation import (
    WAITING_EACH,
    Escalate,
    Escalation,
    PutOnHub,
    Release,
)
from bridgehead.bus.participants.policy import BadPolicy, SessionPolicy
from bridgehead.bus.participants.record import parse_record
from bridgehead.bus.wire.message import Message
from bridgehead.errors import ConfigError
from bus.support.bridging import (
    frame,
    handed_over,
    make_bridge,
    make_record,
    outcomes,
    written,
)

SAY = {"utterances": ["x"]}


def answer_to(message: Message, topic: str = "ovos.utterance.handled") -> Message:
    return message.reply(topic, {"utterance": "hi"} if topic.endswith("speak") else {})


def say(bridge: Bridge, participant: str, now: float = 0, **context: Any) -> Message:
    [message] = written(
        bridge.received(
            participant, frame("ovos.utterance.handle", SAY, **context), now
        )
    )
    return message


# -- policy -----------------------------------------------------------------------------------------------------


def test_a_list_that_is_lifted_is_gone_from_the_session_of_a_client_that_adopts_answers() -> (
    None
):
    bridge = make_bridge()
    bridge.connected(
        make_record("p", policy={"blacklisted_skills": ["shell", "own"]}), 0
    )
    session: dict[str, Any] = {"session_id": "s", "blacklisted_skills": ["own", "mine"]}
    asked = say(bridge, "p", session=session)
    assert asked.context["session"]["blacklisted_skills"] == ["own", "mine", "shell"]
    [(_, adopted)] = handed_over(bridge.hub_sent(answer_to(asked), 0))
    assert adopted["context"]["session"] == session, (
        "what policy added is not the client's to keep"
    )
    bridge.record_changed(make_record("p"), 1)
    again = say(bridge, "p", 1, session=adopted["context"]["session"])
    assert again.context["session"]["blacklisted_skills"] == ["own", "mine"]


def test_a_list_lifted_while_an_answer_is_on_its_way_does_not_travel_back() -> None:
    bridge = make_bridge()
    bridge.connected(make_record("p", policy={"blacklisted_skills": ["shell"]}), 0)
    asked = say(bridge, "p")
    bridge.record_changed(make_record("p"), 0)
    [(_, adopted)] = handed_over(bridge.hub_sent(answer_to(asked), 0))
    assert "blacklisted_skills" not in adopted["context"]["session"]


def test_transformers_are_a_preference_for_sessions_that_name_none() -> None:
    policy = SessionPolicy.parse({"dialog_transformers": ["polite", "short"]})
    assert policy.apply({"session_id": "s"})["dialog_transformers"] == [
        "polite",
        "short",
    ]
    assert policy.apply({"dialog_transformers": ["loud"]})["dialog_transformers"] == [
        "loud"
    ]
    assert policy.apply({"dialog_transformers": []})["dialog_transformers"] == [
        "polite",
        "short",
    ]
    assert SessionPolicy.parse(policy.to_table()) == policy
    with pytest.raises(BadPolicy):
        SessionPolicy.parse({"dialog_transformers": "polite"})
    with pytest.raises(ConfigError) as refused:
        parse_record("kitchen", {"policy": {"skills": []}})
    assert (refused.value.hint or "").startswith("fields: audio_transformers, "), (
        "those of a policy, not of a record"
    )


@pytest.mark.parametrize("mode", ["relay", "manage"])
def test_a_preference_does_not_become_the_clients_own(mode: str) -> None:
    bridge = make_bridge()
    policy = {"dialog_transformers": ["polite"]}
    bridge.connected(make_record("p", mode=mode, policy=policy), 0)
    asked = say(bridge, "p")
    assert asked.context["session"]["dialog_transformers"] == ["polite"]
    [(_, adopted)] = handed_over(bridge.hub_sent(answer_to(asked), 0))
    bridge.record_changed(make_record("p", mode=mode), 0)
    again = say(bridge, "p", session=adopted["context"]["session"])
    assert "dialog_transformers" not in again.context["session"]


# -- channels ---------------------------------------------------------------------------------------------------


def test_channels_of_one_managed_participant_have_a_session_each() -> None:
    bridge = make_bridge()
    bridge.connected(make_record("bot", mode="manage", managed_session_id="m"), 0)

    def text(**said: str) -> Message:
        [message] = written(
            bridge.received("bot", b"{}", 0, value={"text": "hi", **said})
        )
        return message

    plain, one, two = text(), text(channel="!room:one"), text(channel="two")
    ids = [m.context["session"]["session_id"] for m in (plain, one, two)]
    assert ids[0] == "m" and len(set(ids)) == 3
    with_context = Message(
        "ovos.utterance.handled",
        {},
        {
            "session": {
                **one.context["session"],
                "intent_context": {"who": {"value": "Bob"}},
            }
        },
    )
    [(_, delivered)] = handed_over(bridge.hub_sent(with_context, 0))
    assert delivered["context"]["session"]["session_id"] == "!room:one", (
        "it can tell its channels apart"
    )
    assert "intent_context" in text(channel="!room:one").context["session"]
    assert "intent_context" not in text(channel="two").context["session"]
    assert "intent_context" not in text().context["session"]


@pytest.mark.parametrize("channel", [7, "", "default", "a\nb", "x" * 129])
def test_what_is_no_channel_is_no_text(channel: object) -> None:
    bridge = make_bridge()
    bridge.connected(make_record("bot", mode="manage"), 0)
    effects = bridge.received("bot", b"{}", 0, value={"text": "hi", "channel": channel})
    expected = "delivered" if channel == "" else "refused:malformed"
    assert outcomes(effects) == [("bot", expected)]


# -- speech that nobody hears -----------------------------------------------------------------------------------


def speech(**context: Any) -> Message:
    return Message(
        "ovos.utterance.speak",
        {"utterance": "tea is ready"},
        {"source": "timer", **context},
    )


def undelivered(effects: list[Any]) -> list[tuple[str, str]]:
    return [(e.participant, e.reason) for e in effects if isinstance(e, Undelivered)]


def test_speech_for_somebody_who_is_gone_is_reported_whether_addressed_or_in_their_session() -> (
    None
):
    bridge = make_bridge(grace_s=10)
    bridge.connected(make_record("kitchen"), 0)
    asked = say(bridge, "kitchen")
    session = asked.context["session"]
    assert undelivered(bridge.hub_sent(speech(destination="kitchen"), 0)) == []
    bridge.disconnected("kitchen", 1)
    assert undelivered(bridge.hub_sent(speech(session=session), 2)) == [], (
        "it may come back"
    )
    assert undelivered(bridge.tick(11)) == [("kitchen", "expired")]
    for late in (speech(destination="kitchen"), speech(session=session)):
        effects = bridge.hub_sent(late, 12)
        assert undelivered(effects) == [("kitchen", "absent")]
    assert undelivered(bridge.hub_sent(speech(destination="nobody"), 12)) == []
    assert undelivered(bridge.hub_sent(speech(), 12)) == []
    report = next(e for e in effects if isinstance(e, Undelivered))
    [told] = written(bridge.tell_undelivered(report, 12))
    assert told.type == "bridgehead.undelivered"
    assert told.data == {"participant": "kitchen", "reason": "absent"}
    assert (
        told.context["destination"] == "timer"
        and told.context["source"] == "bridgehead"
    )
    bridge.connected(make_record("kitchen"), 13)
    assert undelivered(bridge.hub_sent(speech(destination="kitchen"), 13)) == []


def test_whatever_the_operator_sends_is_reported_if_it_does_not_arrive() -> None:
    bridge = make_bridge(
        hardened=True, hardened_extra=["lamp.on"], knows_all_names=True
    )
    bridge.connected(make_record("kitchen"), 0)
    bridge.connected(make_record("deaf", deliver=["lamp.*"]), 0)

    def send(
        topic: str, to: str, source: str = "bridgehead-cli"
    ) -> list[tuple[str, str]]:
        return undelivered(
            bridge.hub_sent(
                Message(topic, {}, {"source": source, "destination": to}), 0
            )
        )

    assert send("lamp.on", "kitchen") == send("ovos.utterance.speak", "kitchen") == []
    assert send("lamp.off", "kitchen") == [("kitchen", "hardened")]
    assert send("ovos.utterance.speak", "deaf") == [("deaf", "deliver_pattern")]
    assert send("lamp.off", "kitchen", "a-skill") == [], (
        "what programs say among themselves is no news"
    )
    bridge.disconnected("kitchen", 0, goodbye=True)
    assert send("lamp.on", "kitchen") == [("kitchen", "absent")]
    assert send("lamp.on", "nobody") == [("nobody", "absent")], (
        "the name may be misspelt"
    )
    assert (
        send("lamp.on", "kitchen", "a-skill")
        == send("lamp.on", "nobody", "a-skill")
        == []
    )


def test_a_name_that_another_bridge_at_the_hub_may_know_is_not_reported() -> None:
    sent = Message("lamp.on", {}, {"source": "bridgehead-cli", "destination": "attic"})
    assert undelivered(make_bridge().hub_sent(sent, 0)) == []


def test_nobody_is_the_operator() -> None:
    bridge = make_bridge()
    [joined] = [
        e
        for e in bridge.connected(make_record("p"), 0, claim="bridgehead-cli")
        if isinstance(e, Joined)
    ]
    assert joined.source != "bridgehead-cli"


def test_speech_that_did_not_fit_or_was_not_read_is_reported() -> None:
    bridge = make_bridge(max_held=1, max_queued=1)
    bridge.connected(make_record("p"), 0)
    bridge.stalled("p")
    said = speech(destination="p")
    assert undelivered(bridge.hub_sent(said, 0)) == []
    assert undelivered(bridge.hub_sent(said, 0)) == [("p", "slow_consumer")] * 2
    assert undelivered(bridge.hub_sent(said, 0)) == []
    assert undelivered(bridge.hub_sent(said, 0)) == [("p", "hold_overflow")]
    assert undelivered(bridge.stop(0)) == [("p", "shutdown")]


# -- cores that wait for audio, and cores of the legacy generation ----------------------------------------------


def test_the_bridge_answers_for_those_who_have_no_audio() -> None:
    bridge = make_bridge(profile="legacy")
    bridge.connected(make_record("page", mode="manage"), 0)
    bridge.connected(make_record("speaker"), 0)
    for name, answers in (("page", True), ("speaker", False)):
        [asked] = written(bridge.received(name, frame("ovos.utterance.handle", SAY), 0))
        effects = bridge.hub_sent(asked.reply("speak", {"utterance": "hi"}), 0)
        begun = [(m.type, m.context["source"]) for m in written(effects)]
        ends = [e.message for e in effects if isinstance(e, Later)]
        assert begun == (
            [("recognizer_loop:audio_output_start", "page")] if answers else []
        )
        assert len(ends) == answers
    bridge.hub_lost()
    assert bridge.due(asked, 1) == []


def test_no_audio_is_reported_on_a_hub_of_specification_names() -> None:
    bridge = make_bridge(profile="auto", own_hub=True)
    bridge.connected(make_record("page", mode="manage"), 0)
    asked = say(bridge, "page")
    effects = bridge.hub_sent(answer_to(asked, "ovos.utterance.speak"), 0)
    assert written(effects) == [] and not any(isinstance(e, Later) for e in effects)


def test_our_own_hub_is_written_legacy_names_once_a_legacy_core_is_there() -> None:
    bridge = make_bridge(profile="auto", own_hub=True)
    bridge.connected(make_record("p"), 0)
    assert say(bridge, "p").type == "ovos.utterance.handle"
    bridge.hub_sent(Message("ovos.session.update_default", {"session_data": {}}), 1)
    assert say(bridge, "p", 1).type == "recognizer_loop:utterance"


def test_elsewhere_that_message_decides_nothing() -> None:
    bridge = make_bridge(profile="auto")
    bridge.connected(make_record("p"), 0)
    bridge.hub_sent(
        Message("ovos.intent.matched", {}, {"session": {"session_id": "x"}}), 0
    )
    assert say(bridge, "p", 2).type == "ovos.utterance.handle"
    bridge.hub_sent(Message("ovos.session.update_default", {"session_data": {}}), 3)
    assert say(bridge, "p", 3).type == "ovos.utterance.handle"


# -- escalation: one question after the other -------------------------------------------------------------------


def unmatched(text: str) -> list[Message]:
    context = {
        "destination": "kitchen",
        "session": {"session_id": "h1"},
        "utterance_id": text,
    }
    return [
        Message("ovos.intent.unmatched", {"utterances": [text]}, context),
        Message("ovos.utterance.handled", {}, context),
    ]


def remote(topic: str) -> Message:
    return Message(topic, {}, {"session": {"session_id": "h1"}})


def test_a_second_question_of_a_session_waits_for_the_first() -> None:
    cascade = Escalation(timeout_s=30)
    cascade.upstream(there=True)
    first, second, third = unmatched("one"), unmatched("two"), unmatched("three")
    for message in (*first, *second, *third):
        assert cascade.holds_back(message, 0.0)
    asked = [
        e.message.data["utterances"]
        for e in cascade.take_due()
        if isinstance(e, Escalate)
    ]
    assert asked == [["one"]]
    assert cascade.holds_back(second[0], 1.0), "said again under its other name"
    cascade.answered(remote("ovos.utterance.handled"), 1)
    ended, sent = cascade.take_due()
    assert ended == PutOnHub(first[1], 1)
    assert isinstance(sent, Escalate) and sent.message.data["utterances"] == ["two"]
    cascade.answered(remote("ovos.intent.unmatched"), 1)
    released = cascade.take_due()
    assert released[:2] == [Release(message) for message in second]
    assert isinstance(released[2], Escalate), "and the third has its turn"
    cascade.upstream(there=False)
    assert cascade.take_due() == [Release(message) for message in third]
    assert cascade.next_deadline() is None


def test_a_session_does_not_wait_without_bound() -> None:
    cascade = Escalation()
    cascade.upstream(there=True)
    held = [
        cascade.holds_back(unmatched(str(number))[0], 0.0)
        for number in range(WAITING_EACH + 3)
    ]
    assert held == [True] * (WAITING_EACH + 1) + [False] * 2
