"""What a participant may not do, and what bounds it: sizes, rates, names, sessions, echoes (bus §3, §5, §8)."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.bus.actions import Close, CloseCode, Delivery, Left
from bridgehead.bus.bridge.echoes import EchoTable
from bridgehead.bus.participants.limits import Backlog, TokenBucket, is_deeper_than
from bridgehead.bus.participants.participants import MAX_SESSION_BYTES, ManagedSessions
from bridgehead.bus.participants.record import parse_record
from bridgehead.bus.participants.sources import Sources
from bridgehead.bus.wire.message import Message
from bridgehead.bus.wire.session import hub_session_id
from bridgehead.errors import ConfigError
from bus.support.bridging import (
    frame,
    handed_over,
    make_bridge,
    make_record,
    outcomes,
    written,
)

HANDLE, SPEAK, NOTICE = (
    "ovos.utterance.handle",
    "ovos.utterance.speak",
    "bridgehead.notice",
)
REGISTER = "ovos.intent.register.template"
SAID = {"utterances": ["hi"]}


def refusals(effects: list[Any]) -> list[str]:
    return [word for _, word in outcomes(effects) if word.startswith("refused")]


def test_a_frame_beyond_the_limit_of_its_sender_is_refused() -> None:
    bridge = make_bridge()
    bridge.connected(make_record("p1", limits={"max_frame_bytes": 200}), 0)
    assert written(bridge.received("p1", frame(HANDLE, SAID), 0))
    too_large = bridge.received("p1", frame(HANDLE, {"utterances": ["x" * 200]}), 0)
    assert refusals(too_large) == ["refused:too_large"] and written(too_large) == []


def test_a_participant_that_says_too_much_is_refused_until_time_has_passed() -> None:
    bridge = make_bridge()
    bridge.connected(
        make_record("p1", limits={"messages_per_second": 1, "burst": 2}), 0
    )
    answers = [
        refusals(bridge.received("p1", frame(HANDLE, SAID), second))
        for second in (0, 0, 0, 1, 1)
    ]
    assert answers == [[], [], ["refused:rate_limited"], [], ["refused:rate_limited"]]


def test_quiet_hours_are_not_saved_up() -> None:
    bucket = TokenBucket(1, 3, 0)
    assert [bucket.take(3600) for _ in range(5)] == [True, True, True, False, False]


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


@pytest.mark.parametrize("depth", [3, 4, 5])
def test_depth_is_counted_to_the_limit(depth: int) -> None:
    assert is_deeper_than(nested(depth), 4) is (depth > 4)


def test_a_message_beyond_the_depth_of_its_sender_is_refused() -> None:
    bridge = make_bridge()
    bridge.connected(make_record("p1", limits={"max_depth": 8}), 0)
    assert (
        refusals(bridge.received("p1", frame(HANDLE, SAID, extra=nested(5)), 0)) == []
    )
    assert refusals(
        bridge.received("p1", frame(HANDLE, SAID, extra=nested(30)), 0)
    ) == ["refused:too_large"]


def test_violations_end_a_connection() -> None:
    bridge = make_bridge()
    bridge.connected(make_record("p1"), 0)
    for _ in range(9):
        assert not [
            e for e in bridge.received("p1", b"nonsense", 0) if isinstance(e, Close)
        ]
    assert Close("p1", CloseCode.VIOLATIONS) in bridge.received("p1", b"nonsense", 0)


def test_denials_are_told_to_the_hub_once_a_second() -> None:
    bridge = make_bridge(policy_denied_event=True)
    bridge.connected(make_record("p1"), 0)
    told = [
        len(written(bridge.received("p1", frame("ovos.secret.topic"), now)))
        for now in (0, 0.5, 0.9, 1.0)
    ]
    assert told == [1, 0, 0, 1]


def delivery(body: bytes) -> Delivery:
    return Delivery("p", "t", body, 1, None, 0)


def test_what_waits_is_bounded_by_number_and_by_size() -> None:
    waiting = Backlog()
    for _ in range(3):
        assert waiting.hold(delivery(b"xx"), count=3, size=100) == []
    assert len(waiting.hold(delivery(b"xx"), count=3, size=100)) == 1
    assert len(waiting.hold(delivery(b"x" * 98), count=3, size=100)) == 2
    assert (len(waiting), waiting.bytes) == (2, 100)
    assert waiting.hold(delivery(b"x" * 101), count=3, size=100) == [
        delivery(b"x" * 101)
    ]


@pytest.mark.parametrize(
    "limits", [{"burst": 0}, {"messages_per_second": -1}, {"max_depth": 0}]
)
def test_a_limit_is_a_number_above_zero(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="greater than zero"):
        parse_record("p1", {"limits": limits})


def test_an_endless_limit_is_none() -> None:
    with pytest.raises(ConfigError, match="greater than zero"):
        parse_record("p1", {"limits": {"messages_per_second": float("inf")}})


def test_sessions_and_skills_of_a_participant_have_an_end() -> None:
    bridge = make_bridge(max_sessions=2, max_skills=2)
    bridge.connected(make_record("p1", role="skill_host"), 0)
    for number in range(4):
        bridge.received(
            "p1", frame(HANDLE, SAID, session={"session_id": f"s{number}"}), 0
        )
    participant = bridge.known.get("p1")
    assert participant is not None and len(participant.sessions) == 2
    answers = [
        refusals(
            bridge.received(
                "p1",
                frame(REGISTER, {"skill_id": skill}, session={"session_id": "s3"}),
                0,
            )
        )
        for skill in ("a", "b", "c", "b")
    ]
    assert answers == [[], [], ["refused:policy_denied"], []]
    assert len(participant.skills) == 2


def test_a_new_connection_replaces_the_old_one_and_revocation_ends_both() -> None:
    bridge = make_bridge()
    bridge.connected(make_record("p1"), 0)
    assert Close("p1", CloseCode.REPLACED) in bridge.connected(make_record("p1"), 1)
    gone = bridge.revoked("p1", 2)
    assert (
        Close("p1", CloseCode.REVOKED) in gone
        and Left("p1", gone=True, reason="revoked") in gone
    )
    assert bridge.known.get("p1") is None


def test_nobody_says_what_only_the_bridge_says() -> None:
    everything = make_record("p1", publish=["*"])
    assert everything.may_publish("ovos.anything") and not everything.may_publish(
        NOTICE
    )


# -- names --------------------------------------------------------------------------------------------------------


def sources(*enrolled: str) -> Sources:
    return Sources(
        "bridge",
        ("skills",),
        {"p2": "den"},
        lambda: "x",
        lambda name: name if name in enrolled else None,
    )


@pytest.mark.parametrize(
    ("claim", "source"),
    [
        ("sofa", "sofa"),
        ("skills", "p1"),
        ("bridge", "p1"),
        ("den", "p1"),
        ("away", "p1"),
        ("a\x1b[31m", "p1"),
        (" sofa", "p1"),
        ("", "p1"),
        ("x" * 129, "p1"),
        (7, "p1"),
    ],
)
def test_a_name_is_claimed_only_where_it_is_nobody_s(
    claim: object, source: str
) -> None:
    assert sources("away").assign(make_record("p1"), claim) == source


def test_a_claim_counts_as_the_record_says() -> None:
    assert sources().assign(make_record("p1", claimed_id="ignored"), "sofa") == "p1"
    assert (
        sources().assign(make_record("p1", claimed_id="prefixed"), "sofa")
        == "bridge.sofa"
    )


# -- who hears what -----------------------------------------------------------------------------------------------


def hearers(bridge: Any, message: Message) -> list[str]:
    return [participant for participant, _ in handed_over(bridge.hub_sent(message, 0))]


def two_in_one_session(**options: Any) -> Any:
    bridge = make_bridge(nat=False, **options)
    for name in ("p1", "p2"):
        bridge.connected(make_record(name), 0)
        bridge.received(name, frame(HANDLE, SAID, session={"session_id": "s"}), 0)
    return bridge


def test_a_message_that_names_its_recipients_reaches_no_others_of_the_session() -> None:
    session = {"session_id": "s"}
    assert hearers(two_in_one_session(), Message(SPEAK, {}, {"session": session})) == [
        "p1",
        "p2",
    ]
    for named in ("p1", ["p1"], ["p1", "elsewhere"]):
        assert hearers(
            two_in_one_session(),
            Message(SPEAK, {}, {"session": session, "destination": named}),
        ) == ["p1"]


def test_the_default_session_is_nobody_s() -> None:
    bridge = make_bridge()
    bridge.connected(make_record("p1", grants={"default_session": True}), 0)
    bridge.received("p1", frame(HANDLE, SAID), 0)
    assert (
        hearers(bridge, Message(SPEAK, {}, {"session": {"session_id": "default"}}))
        == []
    )
    bridge.known.own(bridge.known.get("p1"), "default", "default")  # type: ignore[arg-type]
    assert hearers(bridge, Message(SPEAK, {}, {})) == []


@pytest.mark.parametrize(
    ("record", "topic", "hears"),
    [
        ({}, "ovos.inner.working", False),
        ({"role": "peer"}, "ovos.inner.working", True),
        ({}, NOTICE, False),
        ({"grants": {"notices": True}}, NOTICE, False),
        ({}, SPEAK, True),
        ({"deliver": ["ovos.stop"]}, SPEAK, False),
    ],
)
def test_a_satellite_hears_the_conversation_and_not_the_machinery(
    record: dict[str, Any], topic: str, hears: bool
) -> None:
    bridge = make_bridge()
    bridge.connected(make_record("p1", **record), 0)
    assert bool(hearers(bridge, Message(topic, {}, {"destination": "p1"}))) is hears


# -- what is remembered -------------------------------------------------------------------------------------------


def test_an_echo_answers_one_message_and_old_ones_are_forgotten() -> None:
    echoes = EchoTable(limit=4)
    message, other = Message(SPEAK, {"n": 1}), Message(SPEAK, {"n": 1})
    echoes.wrote(message, "p1", 0, 0)
    assert echoes.answer(other, 0) is not None and echoes.answer(other, 0) is None
    for number in range(50):
        echoes.wrote(Message(SPEAK, {"n": number}), "p1", 0, 0)
    assert len(echoes) <= 5
    assert echoes.answer(Message(SPEAK, {"n": 49}), 61) is None


def test_a_managed_session_keeps_what_fits_and_nothing_that_a_policy_imposed() -> None:
    sessions = ManagedSessions(b"secret")
    record = make_record(
        "sms", mode="manage", policy={"pipeline": ["a"], "blacklisted_skills": ["x"]}
    )
    sessions.adopt(
        record, {"lang": "pt", "pipeline": ["a"], "blacklisted_skills": ["x"]}
    )
    kept = sessions.current(make_record("sms", mode="manage"))
    assert kept == {"lang": "pt", "session_id": sessions.session_id(record)}
    sessions.adopt(record, {"note": "x" * MAX_SESSION_BYTES})
    assert sessions.current(record)["lang"] == "pt"


def test_a_session_id_depends_on_the_secret_the_participant_and_its_own_id() -> None:
    made = {
        hub_session_id(secret, name, local)
        for secret in (b"one", b"two")
        for name in ("p1", "p2")
        for local in ("a", "b")
    }
    assert len(made) == 8
