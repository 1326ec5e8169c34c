"""What is found out the quick way is what the thorough way would have found."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.bus.actions import Outcome
from bridgehead.bus.bridge.counters import BATCH, OutcomeCounters
from bridgehead.bus.participants.participants import Terms
from bridgehead.bus.wire import frames
from bridgehead.bus.wire.message import Accepted, decode_json, read_frame, read_value
from bus.support.bridging import (
    frame,
    handed_over,
    make_bridge,
    make_record,
    outcomes,
    written,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda parts: (
        st.lists(parts, max_size=3) | st.dictionaries(st.text(), parts, max_size=3)
    ),
    max_leaves=8,
)
TOPICS = st.sampled_from(["ovos.stop", "a:b", "a:b:c", "a b", "", ".a"]) | JSON
ENVELOPES = st.fixed_dictionaries(
    {}, optional={"type": TOPICS, "data": JSON, "context": JSON, "more": JSON}
)
MESSAGE_FRAMES = st.fixed_dictionaries(
    {"l2": st.sampled_from(["msg", "ping"]), "m": ENVELOPES | JSON},
    optional={"hops": JSON, "ref": JSON, "t": JSON, "more": JSON},
)


@given(ENVELOPES | JSON)
def test_a_frame_is_read_as_its_value_is(value: object) -> None:
    encoded = msgspec.json.encode(value)

    assert read_frame(encoded) == read_value(decode_json(encoded))


@pytest.mark.parametrize(
    "raw",
    [
        b'{"type":"a","type":"b"}',
        b'{"type":5,"type":"b"}',
        b'{"type":"a","data":5,"data":{}}',
        b'{"type":"a","more":"\xff"}',
        b'{"type":"a","data":{"x":"\xff"}}',
        b'{"type":"a","data":null}',
        b'{"type":"a"} ',
        b'{"type":"a"}}',
        b"",
        b'{"type":"a","data":' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
)
def test_odd_bytes_are_read_alike_too(raw: bytes) -> None:
    assert read_frame(raw) == read_value(decode_json(raw))


@given(MESSAGE_FRAMES)
def test_a_message_frame_says_the_same_however_it_is_read(value: object) -> None:
    payload = msgspec.json.encode(value)
    quick, thorough = frames.read_message(payload), frames.read(payload)

    if quick is not None:
        assert isinstance(thorough, frames.Frame)
        assert (quick.l2, quick.hops, quick.ref) == (
            thorough.l2,
            thorough.hops,
            thorough.ref,
        )
        assert Accepted(quick.m) == read_value(thorough.m)


@pytest.mark.parametrize("number", [1, BATCH - 1, BATCH, 3 * BATCH + 5])
def test_the_ledger_shows_every_outcome_whenever_it_is_read(number: int) -> None:
    counters = OutcomeCounters()
    for turn in range(number):
        counters.count(
            Outcome("kitchen", "out", "t", "delivered", waited_s=turn / 1000)
        )
        counters.count(Outcome("study", "in", "t", "refused", "malformed"))
        if len(counters.noted) >= BATCH:
            counters.add_up()

    assert counters.total == 2 * number
    assert counters.of("kitchen") == {"out delivered": number}
    assert (
        f"bridgehead_bus_to_participant_seconds_count {number}\n"
        in counters.prometheus()
    )
    counters.forget("kitchen")
    assert counters.of("kitchen") == {}
    assert counters.of("study") == {"in refused:malformed": number}
    assert counters.total == 2 * number


def test_terms_say_of_every_topic_what_the_record_says_however_many_there_are() -> None:
    record = make_record("kitchen", publish=["ovos.*", "a:b"])
    terms = Terms(record)
    topics = [f"ovos.t{number}" for number in range(200)] + [
        "a:b",
        "a:c",
        "a:b:c",
        "ovos.session.sync",
    ]

    for _ in range(2):
        assert [topic for topic in topics if terms.freely_published[topic]] == topics[
            :201
        ]


def test_a_changed_record_counts_from_the_next_message_on_for_topics_already_known() -> (
    None
):
    bridge = make_bridge()
    bridge.connected(make_record("kitchen"), 0.0)
    assert len(written(bridge.received("kitchen", frame("ovos.stop"), 0.0))) == 1

    bridge.record_changed(make_record("kitchen", publish=["other"]), 0.0)
    assert written(bridge.received("kitchen", frame("ovos.stop"), 0.0)) == []


def test_an_echo_reaches_those_who_share_the_session_and_is_counted_for_its_author() -> (
    None
):
    bridge = make_bridge(nat=False)
    session = {"session_id": "shared"}
    for name in ("kitchen", "study"):
        bridge.connected(make_record(name), 0.0)
        [message] = written(
            bridge.received(name, frame("ovos.stop", session=session), 0.0)
        )
        assert (name, "dropped:echo") in outcomes(bridge.hub_sent(message, 0.0))

    [message] = written(
        bridge.received("study", frame("ovos.utterance.handle", session=session), 0.0)
    )
    assert [
        participant
        for participant, _message in handed_over(bridge.hub_sent(message, 0.0))
    ] == ["kitchen"]
    assert bridge.offered == 5


def test_an_echo_that_names_somebody_goes_to_them_although_only_its_author_uses_the_session() -> (
    None
):
    bridge = make_bridge()
    for name in ("kitchen", "study"):
        bridge.connected(
            make_record(name, role="peer", grants={"peer_messaging": True}), 0.0
        )
        bridge.received(name, frame("ovos.stop", session={"session_id": name}), 0.0)
    study = bridge.known.get("study")
    assert study is not None

    said = frame(
        "ovos.utterance.handle",
        session={"session_id": "kitchen"},
        destination=study.source,
    )
    [message] = written(bridge.received("kitchen", said, 0.0))

    assert [
        participant
        for participant, _message in handed_over(bridge.hub_sent(message, 0.0))
    ] == ["study"]


@pytest.mark.parametrize(
    ("said", "crossed"),
    [(3, 3), (1, 1), (0, 1), (-7, 1), (True, 1), ("2", 1), (2.0, 1), (None, 1)],
)
def test_what_a_gateway_hands_on_has_crossed_one_bridge_at_least(
    said: object, crossed: int
) -> None:
    assert frames.bridges_crossed(said) == crossed
