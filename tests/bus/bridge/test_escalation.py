"""Escalation: the state machine by itself, and two real bridges with a core on each side."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from bridgehead.bus.assistant.agents import ScriptedAgent
from bridgehead.bus.bridge.escalation import (
    MAX_OPEN,
    Escalate,
    Escalation,
    PutOnHub,
    Release,
)
from bridgehead.bus.hub.upstream import Upstream
from bridgehead.bus.serve import BusServer
from bridgehead.bus.wire.message import Message
from bus.support.running import run, until
from bus.support.serving import Served, served_bus

CONTEXT = {
    "source": "core",
    "destination": "kitchen",
    "session": {"session_id": "h1"},
    "utterance_id": "u1",
}
UNMATCHED = Message(
    "ovos.intent.unmatched", {"utterances": ["why"], "lang": "en"}, CONTEXT
)
HANDLED = Message("ovos.utterance.handled", {}, CONTEXT)


def begun(**options: Any) -> Escalation:
    cascade = Escalation(**options)
    cascade.upstream(there=True)
    assert cascade.holds_back(UNMATCHED, 0.0)
    assert cascade.holds_back(HANDLED, 0.0)
    return cascade


def test_what_was_not_understood_goes_upstream_and_the_local_end_waits() -> None:
    cascade = begun()
    (escalated,) = cascade.take_due()
    assert isinstance(escalated, Escalate) and escalated.hops == 1
    assert escalated.message == Message(
        "ovos.utterance.handle",
        {"utterances": ["why"], "lang": "en"},
        {"session": {"session_id": "h1"}, "utterance_id": "u1"},
    )


def test_the_upstream_answer_takes_the_place_of_the_local_one() -> None:
    cascade = begun()
    cascade.take_due()
    remote = {
        "destination": "our-name-there",
        "session": {"session_id": "h1", "lang": "xx"},
    }
    cascade.answered(
        Message("ovos.utterance.speak", {"utterance": "because"}, remote), 2
    )
    cascade.answered(Message("ovos.intent.matched", {}, remote), 2)
    cascade.answered(Message("ovos.utterance.handled", {}, remote), 2)
    cascade.answered(Message("ovos.utterance.speak", {"utterance": "late"}, remote), 2)
    due = cascade.take_due()
    assert due == [
        PutOnHub(Message("ovos.utterance.speak", {"utterance": "because"}, CONTEXT), 2),
        PutOnHub(Message("ovos.utterance.handled", {}, CONTEXT), 2),
    ]
    assert not cascade.holds_back(HANDLED, 1.0), (
        "a later round of the same session is not touched"
    )


def test_without_an_answer_in_time_the_local_messages_go_out() -> None:
    cascade = begun(timeout_s=30)
    cascade.take_due()
    cascade.tick(29.9)
    assert cascade.take_due() == []
    cascade.tick(30)
    assert cascade.take_due() == [Release(UNMATCHED), Release(HANDLED)]


def test_they_also_go_out_when_upstream_is_lost_or_understands_as_little() -> None:
    lost, clueless = begun(), begun()
    lost.upstream(there=False)
    clueless.answered(
        Message("ovos.intent.unmatched", {}, {"session": {"session_id": "h1"}}), 1
    )
    for cascade in (lost, clueless):
        assert cascade.take_due()[1:] == [Release(UNMATCHED), Release(HANDLED)]


def test_nothing_is_escalated_where_it_makes_no_sense() -> None:
    away = Escalation()
    assert not away.holds_back(UNMATCHED, 0.0)
    cascade = Escalation(hop_limit=4)
    cascade.upstream(there=True)
    assert not cascade.holds_back(UNMATCHED, 0.0, hops=4), (
        "it has crossed as many bridges as it may"
    )
    assert not cascade.holds_back(
        Message("ovos.intent.unmatched", {"utterances": ["x"]}), 0.0
    ), "default session"
    assert not cascade.holds_back(Message("ovos.intent.unmatched", {}, CONTEXT), 0.0), (
        "nothing to ask"
    )
    for number in range(MAX_OPEN):
        session = {"session": {"session_id": f"s{number}"}}
        assert cascade.holds_back(
            Message("ovos.intent.unmatched", {"utterances": ["x"]}, session), 0.0
        )
    assert not cascade.holds_back(UNMATCHED, 0.0), "there is a bound"


def toy_core(server: BusServer, answers: dict[str, str]) -> None:
    """A core that knows a few phrases and says so when it does not know one."""
    assert server.hub is not None
    hub = server.hub

    def heard(message: Message) -> None:
        if message.type != "ovos.utterance.handle":
            return
        said = message.data["utterances"][0]
        if said in answers:
            hub.publish(
                message.reply("ovos.utterance.speak", {"utterance": answers[said]})
            )
        else:
            hub.publish(message.reply("ovos.intent.unmatched", {"utterances": [said]}))
        hub.publish(message.reply("ovos.utterance.handled", {}))

    hub.listen(heard)


async def linked(server: Served) -> None:
    assert server.upstream is not None
    await server.upstream.link.connected()


def test_local_first_then_remote_with_one_end_marker(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bus(
            tmp_path / "big", agent=ScriptedAgent({"why": "because"})
        ) as big:
            join = big.enrol("small", role="peer")
            async with served_bus(tmp_path / "small", upstream=join) as small:
                toy_core(small, {"lamp on": "done"})
                await linked(small)
                async with await small.satellite("kitchen") as kitchen:
                    local = await kitchen.ask("lamp on")
                    remote = await kitchen.ask("why")
                    assert (local.text, remote.text) == ("done", "because")
                    assert remote.handled
                    handled = small.relay.counters.of("kitchen")["out delivered"]
                    assert handled == 4, "two answers, two end markers, nothing else"

    run(main())


def test_a_vanished_upstream_leaves_the_local_answer(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bus(tmp_path / "big") as big:
            join = big.enrol("small", role="peer")
            async with served_bus(tmp_path / "small", upstream=join) as small:
                toy_core(small, {})
                await linked(small)
                async with await small.satellite("kitchen") as kitchen:
                    waiting = asyncio.ensure_future(kitchen.ask("why"))
                    await until(lambda: big.relay.bridge.taken == 1)
                    await big.stop()
                    spoken = await waiting
                    assert (spoken.text, spoken.handled) == ("", True)

    run(main())


def test_two_bridges_that_escalate_to_each_other_come_to_an_end(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bus(tmp_path / "a", hop_limit=3) as first:
            join_first = first.enrol(
                "b", role="peer", limits={"messages_per_second": 1000, "burst": 1000}
            )
            async with served_bus(
                tmp_path / "b", upstream=join_first, hop_limit=3
            ) as second:
                toy_core(second, {})
                await linked(second)
                back = Upstream(
                    first.relay, second.enrol("a", role="peer"), lambda _event: None
                )
                back.start()
                toy_core(first, {})
                await back.link.connected()
                async with await first.satellite("kitchen") as kitchen:
                    spoken = await kitchen.ask("why")
                    assert (spoken.text, spoken.handled) == ("", True)
                    assert (
                        first.relay.bridge.taken <= 4 and second.relay.bridge.taken <= 4
                    )
                await back.stop()

    run(main())
