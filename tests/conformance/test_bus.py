"""The bus vectors: every file of the folder is run here; the format is bus §14."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from bridgehead.bus.actions import Close, Delivery, Effect, Joined, Refused, ToBus
from bridgehead.bus.assistant.assistant import (
    Ask,
    Assistant,
    AssistantConfig,
    AssistantEffect,
    Cancel,
    Emit,
)
from bridgehead.bus.bridge.bridge import Bridge
from bridgehead.bus.bridge.settings import BridgeSettings
from bridgehead.bus.gateway.status import LinkStates
from bridgehead.bus.hub.health import LinkHealth
from bridgehead.bus.participants.participants import Participant
from bridgehead.bus.participants.policy import SessionPolicy, place_session
from bridgehead.bus.participants.record import (
    RECORD_KEYS,
    ParticipantRecord,
    parse_record,
)
from bridgehead.bus.wire.message import (
    Malformed,
    Message,
    encode,
    has_malformed_carrier,
    read_frame,
    session_rejected,
)
from bridgehead.bus.wire.session import (
    merge_into_default,
    read_session,
    replace_snapshot,
)
from bridgehead.bus.wire.topics import to_legacy, to_spec
from bridgehead.errors import UserError
from bridgehead.host.clock import ManualClock
from bus.support.bridging import all_outcomes
from support.vector_files import cases, unread_files

READ = {
    "assistant",
    "derivations",
    "health",
    "inbound",
    "legacy",
    "messages",
    "routing",
    "sequences",
    "sessions",
}
BRIDGE_ID = "the-bridge"
SECRET = b"vector secret, thirty-two bytes."


def plain(value: object) -> Any:
    return msgspec.to_builtins(value)


def message(value: dict[str, Any]) -> Message:
    return msgspec.convert(value, Message)


class Variables:
    """`$name` in an expectation binds at first sight; two names are never bound to one value."""

    MAY_EQUAL = frozenset({"$a2"})

    def __init__(self) -> None:
        self.bound: dict[str, Any] = {"$bridge": BRIDGE_ID}

    def fill(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self.fill(member) for key, member in value.items()}
        if isinstance(value, list):
            return [self.fill(member) for member in value]
        if isinstance(value, str) and value.startswith("$"):
            return self.bound[value]
        return value

    def match(self, expected: Any, actual: Any) -> None:
        if isinstance(expected, str) and expected.startswith("$"):
            self._bind(expected, actual)
        elif isinstance(expected, dict) and isinstance(actual, dict):
            assert expected.keys() == actual.keys(), (expected, actual)
            for key in expected:
                self.match(expected[key], actual[key])
        elif isinstance(expected, list) and isinstance(actual, list):
            assert len(expected) == len(actual), (expected, actual)
            for one, other in zip(expected, actual, strict=True):
                self.match(one, other)
        else:
            assert expected == actual and isinstance(expected, bool) == isinstance(
                actual, bool
            )

    def _bind(self, name: str, actual: Any) -> None:
        if name in self.bound:
            assert self.bound[name] == actual, name
            return
        taken = [known for known, value in self.bound.items() if value == actual]
        assert name in self.MAY_EQUAL or not taken, f"{name} has the value of {taken}"
        self.bound[name] = actual


# -- messages, derivations, sessions, legacy --------------------------------------------------------------------


@pytest.mark.parametrize("case", cases("bus", "messages"))
def test_messages(case: dict[str, Any]) -> None:
    frame = (
        bytes.fromhex(case["raw_hex"]) if "raw_hex" in case else case["raw"].encode()
    )
    read = read_frame(frame)
    actual: dict[str, Any]
    if isinstance(read, Malformed):
        actual = {"result": "malformed", "reason": read.reason}
    elif has_malformed_carrier(read.message):
        actual = {
            "result": "malformed_carrier",
            "emit": [plain(session_rejected(read.message))],
        }
    else:
        actual = {
            "result": "accept",
            "message": plain(read.message),
            "warnings": list(read.warnings),
        }
    assert {**actual, "connection": "kept"} == case["expect"]


@pytest.mark.parametrize("case", cases("bus", "derivations"))
def test_derivations(case: dict[str, Any]) -> None:
    origin, arguments = message(case["message"]), case["args"]
    before = encode(origin)
    try:
        if case["op"] == "response":
            derived = origin.response(arguments["data"])
        else:
            derived = getattr(origin, case["op"])(arguments["type"], arguments["data"])
    except UserError:
        assert case["expect"] == {"error": "response_shorthand_undefined"}
    else:
        assert {"message": plain(derived)} == case["expect"]
    assert encode(origin) == before


def resolve(case: dict[str, Any]) -> dict[str, Any]:
    read = read_session(case["context"])
    return {"carried": read.session, "malformed_fields": list(read.malformed_fields)}


SESSION_KINDS = {
    "resolve": resolve,
    "merge_default_store": lambda case: {
        "store": merge_into_default(case["store"], case["inbound_session"])
    },
    "replace_snapshot": lambda case: {
        "session": replace_snapshot(case["working_session"], case["updated_session"])
    },
    "policy_gate": lambda case: {
        "bus_session": SessionPolicy.parse(case["policy"]).apply(
            case["inbound_session"]
        )
    },
    "site_id": lambda case: {
        "bus_session": place_session(
            case["inbound_session"], case["bridge_determination"]
        )
    },
}


@pytest.mark.parametrize("case", cases("bus", "sessions"))
def test_sessions(case: dict[str, Any]) -> None:
    assert SESSION_KINDS[case["kind"]](case) == case["expect"]


@pytest.mark.parametrize("case", cases("bus", "legacy"))
def test_legacy(case: dict[str, Any]) -> None:
    translate = to_legacy if case["direction"] == "spec_to_legacy" else to_spec
    translated = translate(message(case["message"]))
    assert {"message": None if translated is None else plain(translated)} == case[
        "expect"
    ]


# -- the bridge -------------------------------------------------------------------------------------------------


def bridge_for(case: dict[str, Any]) -> Bridge:
    table = {
        "hardened": False,
        "profile": "spec",
        "bridge_id": BRIDGE_ID,
        **case.get("bridge", {}),
    }
    words = (f"{number:04x}" for number in itertools.count())
    return Bridge(
        BridgeSettings.parse(table), secret=SECRET, random_word=lambda: next(words)
    )


NOT_DESCRIBED = {"claimed_id"}
"""In a vector this is the claim itself, not the rule about claims."""


def record_of(described: dict[str, Any], **more: Any) -> ParticipantRecord:
    table = {
        key: described[key] for key in RECORD_KEYS - NOT_DESCRIBED if key in described
    }
    if described.get("mode") == "manage":
        table.setdefault("publish", ["*"])
    return parse_record(described["id"], {**more, **table})


def add_participant(bridge: Bridge, described: dict[str, Any]) -> Participant:
    """A participant in the state a routing or inbound vector describes."""
    bridge.connected(record_of(described), 0.0, claim=described.get("source"))
    participant = bridge.known.get(described["id"])
    assert participant is not None
    assert "source" not in described or participant.source == described["source"]
    owned = described.get("hub_sessions", {})
    if described.get("session_id", "default") != "default":
        owned = {described["session_id"]: described["session_id"]}
    for hub_id, local in owned.items():
        bridge.known.own(participant, hub_id, local)
    for hub_id, skills in described.get("skills", {}).items():
        for skill in skills:
            bridge.known.track(participant, hub_id, skill)
    bridge.known.place(participant, described.get("site"))
    return participant


def bus_messages(effects: list[Effect]) -> list[Any]:
    return [plain(effect.message) for effect in effects if isinstance(effect, ToBus)]


@pytest.mark.parametrize("case", cases("bus", "inbound"))
def test_inbound(case: dict[str, Any]) -> None:
    bridge = bridge_for(case)
    add_participant(bridge, case["participant"])
    for other in case.get("others", []):
        add_participant(bridge, other)
    sent = case["external_message"]
    frame = sent.encode() if isinstance(sent, str) else msgspec.json.encode(sent)
    effects = bridge.received(
        case["participant"]["id"], frame, 0.0, hops=case.get("hops", 0)
    )

    expected = case["expect"]
    Variables().match(expected["bus"], bus_messages(effects))
    refusals = [
        {"code": effect.code, **effect.details}
        for effect in effects
        if isinstance(effect, Refused)
    ]
    assert refusals == (
        [expected["to_participant"]] if "to_participant" in expected else []
    )
    assert not [effect for effect in effects if isinstance(effect, Close)], (
        "the connection is kept"
    )
    assert len(all_outcomes(effects)) == 1


def routed(
    participants: list[str], bridge: Bridge, effects: list[Effect]
) -> list[dict[str, Any]]:
    """What was handed over now and what is held, in order of the participants."""
    now = {
        effect.participant: effect for effect in effects if isinstance(effect, Delivery)
    }
    deliver = []
    for participant_id in participants:
        participant = bridge.known.get(participant_id)
        held = participant.held.take_all() if participant else []
        for delivery, when in [(d, "on_reconnect") for d in held] + (
            [(now[participant_id], "now")] if participant_id in now else []
        ):
            deliver.append(
                {
                    "to": participant_id,
                    "signal": delivery.signal,
                    "when": when,
                    "message": msgspec.json.decode(delivery.body),
                }
            )
    return deliver


@pytest.mark.parametrize("case", cases("bus", "routing"))
def test_routing(case: dict[str, Any]) -> None:
    bridge = bridge_for(case)
    for described in case["participants"]:
        add_participant(bridge, described)
    for described in case["participants"]:
        state = described.get("state", "connected")
        if state == "grace":
            bridge.disconnected(described["id"], 0.0)
        elif state == "expired":
            bridge.disconnected(described["id"], 0.0, goodbye=True)
    effects = bridge.hub_sent(message(case["bus_message"]), 0.0)
    actual = {
        "deliver": routed(
            [described["id"] for described in case["participants"]], bridge, effects
        ),
        "emit_on_bus": bus_messages(effects),
    }
    Variables().match(case["expect"], actual)


class Sequence:
    """Drives one bridge through the steps of a sequence vector."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.bridge = bridge_for(case)
        self.now = 0.0
        self.records: dict[str, ParticipantRecord] = {}
        self.variables = Variables()

    def run(self, step: dict[str, Any]) -> None:
        effects = getattr(self, f"do_{step['do']}")(
            self.variables.fill({**step, "expect": None})
        )
        for key, expected in step.get("expect", {}).items():
            self.variables.match(
                expected, getattr(self, f"saw_{key}")(effects, expected)
            )

    def do_connect(self, step: dict[str, Any]) -> list[Effect]:
        described = {**step, "id": step["participant"]}
        if described["id"] not in self.records:
            self.records[described["id"]] = record_of(described, publish=["*"])
        return self.bridge.connected(
            self.records[described["id"]], self.now, claim=step.get("claimed_id")
        )

    def do_disconnect(self, step: dict[str, Any]) -> list[Effect]:
        return self.bridge.disconnected(
            step["participant"], self.now, goodbye=step.get("goodbye", False)
        )

    def do_advance(self, step: dict[str, Any]) -> list[Effect]:
        self.now += step["seconds"]
        return self.bridge.tick(self.now)

    def do_set_policy(self, step: dict[str, Any]) -> list[Effect]:
        changed = msgspec.structs.replace(
            self.records[step["participant"]],
            policy=SessionPolicy.parse(step["policy"]),
        )
        self.records[step["participant"]] = changed
        self.bridge.record_changed(changed, self.now)
        return []

    def do_inbound(self, step: dict[str, Any]) -> list[Effect]:
        sent = step["message"]
        frame = sent.encode() if isinstance(sent, str) else msgspec.json.encode(sent)
        return self.bridge.received(
            step["participant"], frame, self.now, hops=step.get("hops", 0)
        )

    def do_bus(self, step: dict[str, Any]) -> list[Effect]:
        return self.bridge.hub_sent(message(step["message"]), self.now)

    def do_stall(self, step: dict[str, Any]) -> list[Effect]:
        self.bridge.stalled(step["participant"])
        return []

    def do_drain(self, step: dict[str, Any]) -> list[Effect]:
        return self.bridge.drained(step["participant"], self.now)

    def saw_source(self, effects: list[Effect], _expected: Any) -> Any:
        return next(effect.source for effect in effects if isinstance(effect, Joined))

    def saw_bus(self, effects: list[Effect], _expected: Any) -> Any:
        return bus_messages(effects)

    saw_emit_on_bus = saw_bus

    def saw_deliver(self, effects: list[Effect], expected: list[Any]) -> Any:
        handed = [effect for effect in effects if isinstance(effect, Delivery)]
        checks_hops = any("hops" in entry for entry in expected)
        return [
            {"to": effect.participant, "message": msgspec.json.decode(effect.body)}
            | ({"hops": effect.hops} if checks_hops else {})
            for effect in handed
        ]

    def saw_closed(self, effects: list[Effect], _expected: Any) -> Any:
        return [
            {"participant": effect.participant, "code": effect.code.reason}
            for effect in effects
            if isinstance(effect, Close)
        ]

    def saw_outcomes(self, effects: list[Effect], _expected: Any) -> Any:
        return [
            {
                "participant": one.participant,
                "direction": one.direction,
                "topic": one.topic,
                "outcome": one.outcome
                if one.reason is None
                else f"{one.outcome}:{one.reason}",
            }
            for one in all_outcomes(effects)
        ]


@pytest.mark.parametrize("case", cases("bus", "sequences"))
def test_sequences(case: dict[str, Any]) -> None:
    sequence = Sequence(case)
    for step in case["steps"]:
        sequence.run(step)


# -- assistant and health ---------------------------------------------------------------------------------------


def said(effects: list[AssistantEffect]) -> dict[str, Any]:
    # What else an `Ask` says (who spoke, whether pieces are wanted) is ours and in no vector.
    asked = [
        {
            name: getattr(effect, name)
            for name in ("request", "session_id", "text", "lang")
        }
        for effect in effects
        if isinstance(effect, Ask)
    ]
    return {
        "emit": [
            plain(effect.message) for effect in effects if isinstance(effect, Emit)
        ],
        "ask": [
            {key: value for key, value in ask.items() if value is not None}
            for ask in asked
        ],
        "cancel": [effect.request for effect in effects if isinstance(effect, Cancel)],
    }


@pytest.mark.parametrize("case", cases("bus", "assistant"))
def test_assistant(case: dict[str, Any]) -> None:
    assistant = Assistant(
        msgspec.convert(case["config"], AssistantConfig), case.get("store")
    )
    now = 0.0
    for step in case["steps"]:
        if step["do"] == "bus":
            effects = assistant.received(message(step["message"]), now)
        elif step["do"] == "advance":
            now += step["seconds"]
            effects = assistant.tick(now)
        elif "error" in step:
            effects = assistant.failed(step["request"])
        else:
            effects = assistant.answered(
                step["request"], step["text"], step.get("session")
            )
        expected = dict(step.get("expect", {}))
        if "store" in expected:
            assert assistant.store == expected.pop("store")
        assert {"emit": [], "ask": [], "cancel": [], **expected} == said(effects)


class Announced:
    """Keeps what was announced until it is looked at."""

    def __init__(self) -> None:
        self._events: list[dict[str, Any]] = []

    def announce(self, kind: str, data: dict[str, Any]) -> None:
        assert kind == "bus.bridge.health"
        self._events.append(
            {key: data[key] for key in ("state", "previous", "ttl_s", "refresh")}
        )

    def taken(self) -> list[dict[str, Any]]:
        events, self._events = self._events, []
        return events


@pytest.mark.parametrize("case", cases("bus", "health"))
def test_health(case: dict[str, Any]) -> None:
    health, clock, announced, alive = LinkHealth(), ManualClock(), Announced(), True
    board = LinkStates(BRIDGE_ID, announced, clock, None)
    announce = board.announcing("hub")
    for step in case["steps"]:
        event = None
        if step["do"] == "advance":
            clock.advance(step["seconds"])
            event = health.tick(clock.monotonic()) if alive else None
        elif step["do"] == "kill":
            alive = False
        else:
            method = {"dial": "dialled", "open": "opened", "reload": "reloaded"}.get(
                step["do"], step["do"]
            )
            event = getattr(health, method)(clock.monotonic())
        if event is not None:
            announce(event)
        expected = step.get("expect", {})
        assert announced.taken() == expected.get("events", [])
        assert "read" not in expected or board.links[0].state == expected["read"]


@pytest.mark.parametrize(
    "name", unread_files("bus", READ) or [pytest.param(None, id="bus-all-files-read")]
)
def test_every_vector_file_is_run_here(name: str | None) -> None:
    assert name is None
