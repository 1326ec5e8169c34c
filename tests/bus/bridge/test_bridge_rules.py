"""Corners of the bus specification where two rules meet or a list ends."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.bus.actions import ForgetSkill, Refused, ToBus
from bridgehead.bus.assistant.assistant import Assistant
from bridgehead.bus.hub.health import LinkHealth
from bridgehead.bus.participants.limits import KEPT_WITHOUT_ENDS, OPEN_S, OpenQuestions
from bridgehead.bus.participants.participants import RememberedState
from bridgehead.bus.participants.policy import SessionPolicy
from bridgehead.bus.wire.message import Message
from bridgehead.bus.wire.topics import HANDLE, SPEAK, to_legacy
from bus.support.bridging import (
    frame,
    handed_over,
    make_bridge,
    make_record,
    outcomes,
    written,
)
from parsers.work import Tracer

REGISTER = "ovos.intent.register.template"


def handled_in(session: dict[str, Any]) -> Message:
    return Message("ovos.utterance.handled", {}, {"session": session})


@pytest.mark.parametrize("skill", ["lamp skill", "lamp.", "", "lamp:on", "lämp"])
def test_a_skill_id_that_no_topic_can_hold_is_never_written_into_one(
    skill: str,
) -> None:
    ping = Message("ovos.converse.ping", {"skill_id": skill})
    assert to_legacy(ping) == ping


def test_a_stopped_link_never_says_anything_again() -> None:
    health = LinkHealth()
    health.start(0)
    health.stop(1)
    assert [
        health.start(2),
        health.dialled(2),
        health.opened(2),
        health.refused(2),
        health.stop(2),
    ] == [None] * 5


@pytest.mark.parametrize("topic", ["ovos.utterance.handle", "ovos.stop"])
def test_the_assistant_runs_nothing_for_a_malformed_carrier(topic: str) -> None:
    assistant = Assistant()
    assistant.received(Message("ovos.utterance.handle", {"utterances": ["hi"]}), 0)
    assert (
        assistant.received(Message(topic, {"utterances": ["hi"]}, {"session": "s1"}), 0)
        == []
    )


def test_skills_are_deregistered_in_the_order_they_were_registered() -> None:
    bridge = make_bridge(nat=False)
    bridge.connected(make_record("p1", role="skill_host"), 0)
    for session, skill in (("s1", "a"), ("s2", "b"), ("s1", "c")):
        bridge.received(
            "p1",
            frame(REGISTER, {"skill_id": skill}, session={"session_id": session}),
            0,
        )
    gone = bridge.disconnected("p1", 1, goodbye=True)
    assert [message.data["skill_id"] for message in written(gone)] == ["a", "b", "c"]


def test_a_name_denied_twice_by_policy_is_denied_once() -> None:
    policy = SessionPolicy.parse({"blacklisted_skills": ["z", "z"]})
    assert policy.apply({})["blacklisted_skills"] == ["z"]


def test_a_null_language_in_the_stored_session_is_no_language() -> None:
    bridge = make_bridge()
    bridge.connected(
        make_record("sms", mode="manage", managed_session_id="m", lang="pt-PT"), 0
    )
    bridge.hub_sent(handled_in({"session_id": "m", "lang": None}), 0)
    [utterance] = written(bridge.received("sms", b'{"text":"bom dia"}', 0))
    assert utterance.context["session"] == {"session_id": "m", "lang": "pt-PT"}


@pytest.mark.parametrize(
    "topic",
    ["ovos.intent.list", "ovos.intent.list.response", "ovos.skills.list.response"],
)
def test_a_skill_host_may_ask_and_answer_manifest_queries(topic: str) -> None:
    assert make_record("p1", role="skill_host").may_publish(topic)
    assert not make_record("p1").may_publish(topic)


def test_pings_of_two_skills_are_no_copies_of_each_other() -> None:
    bridge = make_bridge(profile="legacy", nat=False)
    bridge.connected(make_record("p1", role="skill_host"), 0)
    bridge.received(
        "p1", frame(REGISTER, {"skill_id": "a.skill"}, session={"session_id": "s"}), 0
    )
    session = {"session": {"session_id": "s"}}
    pings = [
        Message(f"{skill}.converse.ping", {}, session)
        for skill in ("a.skill", "b.skill", "ovos")
    ]
    assert [len(handed_over(bridge.hub_sent(ping, 0))) for ping in pings] == [1, 1, 0]


def test_words_repeated_within_a_second_are_all_heard_and_each_copy_is_dropped_once() -> (
    None
):
    bridge = make_bridge(profile="legacy", nat=False)
    bridge.connected(make_record("p1"), 0)
    said = {
        name: Message(name, {"utterance": "ok"}, {"destination": "p1"})
        for name in (SPEAK, "speak")
    }
    arriving = [SPEAK, SPEAK, "speak", SPEAK, "speak", "speak", "speak"]
    heard = [len(handed_over(bridge.hub_sent(said[name], 0))) for name in arriving]
    assert heard == [1, 1, 0, 1, 0, 0, 1]


def test_nothing_is_taken_for_a_copy_while_nobody_else_is_on_the_hub() -> None:
    members: list[str] = []
    bridge = make_bridge(
        profile="auto", nat=False, own_hub=True, others=lambda: len(members)
    )
    bridge.connected(make_record("p1"), 0)
    said = [
        Message(name, {"utterance": "ok"}, {"destination": "p1"})
        for name in (SPEAK, "speak")
    ]
    assert [len(handed_over(bridge.hub_sent(message, 0))) for message in said] == [1, 1]
    members.append("a core")
    assert [len(handed_over(bridge.hub_sent(message, 0))) for message in said] == [1, 0]


@pytest.mark.parametrize("profile", ["spec", "auto"])
def test_an_utterance_comes_back_from_our_own_hub_only_if_it_concerns_another(
    profile: str,
) -> None:
    bridge = make_bridge(profile=profile, nat=False, own_hub=True)
    for participant in ("p1", "p2"):
        bridge.connected(make_record(participant), 0)
    asked = frame(HANDLE, {"utterances": ["hi"]}, session={"session_id": "s"})
    alone = bridge.received("p1", asked, 0)
    assert outcomes(
        [
            effect.echo_outcome()
            for effect in alone
            if isinstance(effect, ToBus) and effect.concerns_author
        ]
    ) == [("p1", "dropped:echo")]
    assert outcomes(alone) == [("p1", "delivered")]
    bridge.received("p2", asked, 0)  # from now on two use the session
    together = bridge.received("p1", asked, 0)
    assert [
        effect.concerns_author for effect in together if isinstance(effect, ToBus)
    ] == [False]
    assert outcomes(together) == [("p1", "delivered")]
    addressed = bridge.received(
        "p1", frame(HANDLE, session={"session_id": "other"}, destination="core"), 0
    )
    assert [
        effect.concerns_author for effect in addressed if isinstance(effect, ToBus)
    ] == [False]


def test_a_hub_of_somebody_else_sends_every_echo() -> None:
    bridge = make_bridge()
    bridge.connected(make_record("p1"), 0)
    effects = bridge.received("p1", frame(HANDLE, session={"session_id": "s"}), 0)
    assert [
        effect.concerns_author for effect in effects if isinstance(effect, ToBus)
    ] == [False]


def test_questions_on_a_hub_that_marks_no_ends_are_neither_refused_nor_kept_for_ever() -> (
    None
):
    questions = OpenQuestions(2)
    assert [
        questions.begin("s", f"u{number}", 0.0, False) for number in range(1000)
    ] == [None] * 1000
    assert questions.begin("s", "u999", 0.0, False) == "twin"
    assert len(questions.take_all()) == KEPT_WITHOUT_ENDS


def test_a_question_that_nobody_ended_may_be_asked_again_when_it_is_forgotten() -> None:
    questions = OpenQuestions(1)
    assert questions.begin("s", "u1", 0.0, True) is None
    assert questions.begin("s", "u1", OPEN_S - 1, True) == "twin"
    assert questions.begin("s", "u2", OPEN_S - 1, True) == "too_many_questions"
    assert questions.begin("s", "u1", OPEN_S, True) is None
    questions.allow(2)
    assert questions.begin("s", "u2", OPEN_S, True) is None
    assert questions.begin("s", "u3", OPEN_S, True) == "too_many_questions"


@pytest.mark.parametrize("profile", ["spec", "auto"])
def test_a_message_said_often_costs_no_more_than_the_first(profile: str) -> None:
    bridge = make_bridge(profile=profile, nat=False)
    bridge.connected(make_record("p1"), 0)
    said = Message(SPEAK, {"utterance": "ok"}, {"destination": "p1"})
    lines = []
    for _ in range(1000):
        tracer = Tracer()
        with tracer.tracing():
            bridge.hub_sent(said, 0)
        lines.append(tracer.lines)
    assert lines[-1] <= lines[10]


def test_readiness_that_names_a_hardened_skill_host_still_reaches_it() -> None:
    bridge = make_bridge(hardened=True)
    bridge.connected(make_record("p1", role="skill_host"), 0)
    ready = Message("mycroft.ready", {}, {"destination": "p1"})
    assert handed_over(bridge.hub_sent(ready, 0)) == []
    bridge.received("p1", frame(REGISTER, {"skill_id": "a.skill"}), 0)
    assert len(handed_over(bridge.hub_sent(ready, 0))) == 1


def test_sessions_remembered_from_a_time_without_translation_are_translated_after_it() -> (
    None
):
    record = make_record("p1")
    past = RememberedState({"p1": "p1"}, {"p1": {"s": "s"}})
    bridge = make_bridge(nat=True, remembered=past, records={"p1": record})
    bridge.connected(record, 0)
    [utterance] = written(
        bridge.received(
            "p1", frame("ovos.utterance.handle", session={"session_id": "s"}), 0
        )
    )
    assert utterance.context["session"]["session_id"] != "s"


@pytest.mark.parametrize(
    ("sent", "left"),
    [
        ("front", None),
        (["front", ""], None),
        (["front", "core"], ["core"]),
        ("core", "core"),
        ("", ""),
    ],
)
def test_the_hidden_name_is_taken_out_and_nothing_else(
    sent: object, left: object
) -> None:
    bridge = make_bridge(topology_hiding="front")
    bridge.connected(make_record("p1"), 0)
    [stop] = written(bridge.received("p1", frame("ovos.stop", destination=sent), 0))
    assert stop.context.get("destination") == left


@pytest.mark.parametrize(
    ("context", "answered"),
    [
        (
            {"destination": ["", "audio", "skills"]},
            {"source": "audio", "destination": ["", "audio", "skills"]},
        ),
        (
            {"source": 5, "destination": "core"},
            {"source": "core", "destination": "core"},
        ),
        ({"source": "", "destination": [7, ""]}, {}),
        (
            {"source": "sat", "destination": {"a": 1}},
            {"source": "sat", "destination": "sat"},
        ),
    ],
)
def test_a_reply_exchanges_what_counts_and_leaves_a_side_without_counterpart(
    context: dict[str, Any], answered: dict[str, Any]
) -> None:
    assert Message("a.b", {}, context).reply("a.c", {}).context == answered


def test_a_managed_participant_hears_its_session_after_a_restart_before_it_speaks() -> (
    None
):
    record = make_record("sms", mode="manage", managed_session_id="m")
    bridge = make_bridge(
        remembered=RememberedState({"sms": "sms"}), records={"sms": record}
    )
    speak = Message(
        "ovos.utterance.speak",
        {"utterance": "the tea is ready"},
        {"session": {"session_id": "m"}},
    )
    assert handed_over(bridge.hub_sent(speak, 1)) == []
    assert len(handed_over(bridge.connected(record, 2))) == 1, "it was held meanwhile"
    assert len(handed_over(bridge.hub_sent(speak, 3))) == 1


def test_skills_of_a_participant_removed_while_no_bridge_ran_are_deregistered_once() -> (
    None
):
    past = RememberedState({"gone": "gone"}, {}, {"gone": (("h", "lamp"),)})
    bridge = make_bridge(remembered=past, records={})
    opened = bridge.hub_opened(0)
    assert ForgetSkill("gone", "h", "lamp") in opened
    [deregistration] = written(opened)
    assert deregistration.type == "ovos.skill.deregister"
    assert deregistration.context["session"] == {"session_id": "h"}
    assert bridge.hub_opened(1) == []


def test_whoever_is_enrolled_under_a_revoked_name_does_not_inherit_the_conversation() -> (
    None
):
    bridge, record = (
        make_bridge(),
        make_record("sms", mode="manage", managed_session_id="m"),
    )
    bridge.connected(record, 0)
    bridge.hub_sent(
        handled_in({"session_id": "m", "intent_context": {"person": {"value": "Bob"}}}),
        0,
    )
    bridge.revoked("sms", 1)
    bridge.connected(record, 2)
    [utterance] = written(bridge.received("sms", b'{"text":"hi"}', 3))
    assert utterance.context["session"] == {"session_id": "m"}


@pytest.mark.parametrize("mode", ["relay", "manage"])
@pytest.mark.parametrize(
    "topic", ["system.reboot", "configuration.patch", "mycroft.skills.shutdown"]
)
def test_a_participant_says_what_it_is_for_whatever_its_mode(
    mode: str, topic: str
) -> None:
    bridge = make_bridge()
    bridge.connected(make_record("doorbell", mode=mode, role="opaque"), 0)
    refused = bridge.received("doorbell", frame(topic), 0)
    assert written(refused) == [] and outcomes(refused) == [
        ("doorbell", "refused:policy_denied")
    ]
    assert (
        len(written(bridge.received("doorbell", frame("ovos.utterance.handle"), 0)))
        == 1
    )


def test_more_is_published_by_name() -> None:
    bridge = make_bridge()
    bridge.connected(make_record("panel", mode="manage", publish=["system.reboot"]), 0)
    assert len(written(bridge.received("panel", frame("system.reboot"), 0))) == 1
    assert written(bridge.received("panel", frame("configuration.patch"), 0)) == []


def in_site(site: str) -> dict[str, Any]:
    return {"session_id": "s1", "site_id": site}


@pytest.mark.parametrize("claimed", ["bedroom", ["bedroom"], {"site": "bedroom"}])
def test_a_site_belongs_to_those_the_operator_put_there(claimed: Any) -> None:
    bridge = make_bridge(routing=["destination", "session_id", "site_id"])
    bridge.connected(make_record("lamp", site_determination="bedroom"), 0)
    bridge.connected(make_record("stranger"), 0)
    bridge.received(
        "lamp", frame("ovos.utterance.handle", session={"session_id": "s1"}), 0
    )
    stop = written(
        bridge.received("stranger", frame("ovos.stop", session=in_site(claimed)), 0)
    )
    assert "site_id" not in stop[0].context["session"]
    assert handed_over(bridge.hub_sent(stop[0], 0)) == []
    # What the hub says to the site does not reach it either.
    said = Message("ovos.stop", {}, {"session": in_site("bedroom")})
    assert [to for to, _ in handed_over(bridge.hub_sent(said, 0))] == ["lamp"]


def test_an_utterance_takes_no_foreign_site_to_the_hub() -> None:
    bridge = make_bridge()
    bridge.connected(make_record("stranger", grants={"default_session": True}), 0)
    for session in (
        in_site("bedroom"),
        {"session_id": "default", "site_id": "bedroom"},
    ):
        told = written(
            bridge.received(
                "stranger", frame("ovos.utterance.handle", session=session), 0
            )
        )
        assert "site_id" not in told[0].context["session"]
    stock = written(
        bridge.received(
            "stranger", frame("ovos.utterance.handle", session=in_site("unknown")), 0
        )
    )
    assert stock[0].context["session"]["site_id"] == "unknown"


def test_own_words_of_before_a_restart_are_not_heard_again() -> None:
    remembered = RememberedState(
        sources={"kitchen": "kitchen"}, hub_ids={"kitchen": {"h1": "s1"}}
    )
    record = make_record("kitchen")
    bridge = make_bridge(remembered=remembered, records={"kitchen": record}, now=100.0)
    bridge.connected(record, 100.0)

    def said(source: str) -> Message:
        return Message(
            "ovos.utterance.handle",
            {},
            {"source": source, "session": {"session_id": "h1"}},
        )

    own = bridge.hub_sent(said("kitchen"), 101.0)
    assert handed_over(own) == [] and outcomes(own) == [("kitchen", "dropped:echo")]
    assert len(handed_over(bridge.hub_sent(said("core"), 101.0))) == 1
    assert len(handed_over(bridge.hub_sent(said("kitchen"), 105.0))) == 1, (
        "later it is somebody else's"
    )


@pytest.mark.parametrize("hops", [-1, -(10**9), True, 1.0, "1", None])
def test_a_message_whose_hops_are_no_count_is_refused(hops: object) -> None:
    bridge = make_bridge()
    bridge.connected(make_record("lamp"), 0)

    effects = bridge.received("lamp", frame("ovos.stop"), 0, None, hops)

    assert written(effects) == []
    [refusal] = [effect for effect in effects if isinstance(effect, Refused)]
    assert refusal.details == {"reason": "hops_invalid"}


@pytest.mark.parametrize(("ignored", "reached"), [([], ["lamp"]), (["attic"], [])])
def test_a_site_that_stands_for_no_place_groups_nobody(
    ignored: list[str], reached: list[str]
) -> None:
    bridge = make_bridge(
        routing=["destination", "session_id", "site_id"], ignored_sites=ignored
    )
    bridge.connected(make_record("lamp", site_determination="attic"), 0)
    bridge.received(
        "lamp", frame("ovos.utterance.handle", session={"session_id": "s1"}), 0
    )
    said = Message(
        "ovos.stop", {}, {"session": {"session_id": "s9", "site_id": "attic"}}
    )

    assert [to for to, _ in handed_over(bridge.hub_sent(said, 0))] == reached
