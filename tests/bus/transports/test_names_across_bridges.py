"""A source belongs to one participant of the whole deployment, at whichever bridge it is served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from bridgehead.bus.access.enrolment import revoke
from bridgehead.bus.client.participant import MessageRefused, NotAdmitted, Satellite
from bridgehead.bus.wire.message import Message
from bus.support.gateways import next_message
from bus.support.nats_servers import enrol_everywhere, hub_of, nats_server, needs_nats
from bus.support.running import run, until
from bus.support.serving import Served, served_bus
from bus.transports.test_nats import follows

pytestmark = [pytest.mark.peer]


@asynccontextmanager
async def two_places(
    kind: str, path: Path
) -> AsyncIterator[tuple[Served, Served, Served]]:
    """The hub, and two bridges at which participants join: one and the same in the embedded world."""
    if kind == "embedded":
        async with served_bus(path) as only:
            yield only, only, only
        return
    async with (
        nats_server(path / "nats") as nats,
        hub_of(nats.url, path / "hub") as hub,
        served_bus(path / "b1", hub=nats.url) as one,
        served_bus(path / "b2", hub=nats.url) as two,
    ):
        yield hub, one, two


both_worlds = pytest.mark.parametrize(
    "kind", ["embedded", pytest.param("nats", marks=needs_nats)]
)


@both_worlds
def test_what_is_said_to_a_participant_is_not_heard_by_one_who_claims_its_name(
    kind: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with two_places(kind, tmp_path) as (hub, one, two):
            kitchen = await one.satellite("kitchen")
            mallory = await Satellite.connect(
                two.enrol("mallory"), claimed_id="kitchen"
            )
            assert kitchen.source == "kitchen"
            assert mallory.source != "kitchen"
            assert hub.hub is not None
            if kind == "nats":
                await until(
                    lambda: follows(one, "kitchen") and follows(two, mallory.source)
                )
            for name in ("kitchen", mallory.source):
                secret = {"utterance": f"for {name}"}
                hub.hub.publish(
                    Message("ovos.utterance.speak", secret, {"destination": name})
                )
            assert (await next_message(kitchen)).data == {"utterance": "for kitchen"}
            assert (await next_message(mallory)).data == {
                "utterance": f"for {mallory.source}"
            }
            await kitchen.close()
            await mallory.close()

    run(main())


@both_worlds
def test_a_name_belongs_to_whoever_is_enrolled_under_it_before_they_have_joined(
    kind: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with two_places(kind, tmp_path) as (_hub, one, two):
            one.enrol("kitchen")
            if one._registry is not None:
                await one._registry.owners.register_enrolled()
            mallory = await Satellite.connect(
                two.enrol("mallory"), claimed_id="kitchen"
            )
            assert mallory.source != "kitchen"
            await mallory.close()

    run(main())


@both_worlds
def test_writing_to_a_participant_of_any_bridge_needs_the_grant(
    kind: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with two_places(kind, tmp_path) as (_hub, one, two):
            kitchen = await one.satellite("kitchen")
            other = await two.satellite("other")
            if two._registry is not None:
                registry = two._registry
                await until(lambda: registry.owners.owner_of("kitchen") == "kitchen")
            await other.send(Message("ovos.stop", {}, {"destination": "kitchen"}))
            refused = await other.receive()
            assert refused == MessageRefused(
                "policy_denied", {"field": "destination", "value": "kitchen"}
            )
            await kitchen.close()
            await other.close()

    run(main())


@needs_nats
def test_a_claimed_name_outlives_a_restart_of_its_bridge(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            nats_server(tmp_path / "nats") as nats,
            served_bus(tmp_path / "b2", hub=nats.url) as two,
        ):
            async with served_bus(tmp_path / "b1", hub=nats.url) as one:
                join = one.enrol("pi-4711")
                await (await Satellite.connect(join, claimed_id="kitchen")).close()
            mallory = await Satellite.connect(
                two.enrol("mallory"), claimed_id="kitchen"
            )
            assert mallory.source != "kitchen"
            async with served_bus(tmp_path / "b1", hub=nats.url) as one:
                back = await Satellite.connect(
                    msgspec.structs.replace(join, url=one.join_url)
                )
                assert back.source == "kitchen"
                await back.close()
            await mallory.close()

    run(main())


@needs_nats
def test_bridges_that_start_at_once_give_a_name_to_one_participant(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with nats_server(tmp_path / "nats") as nats, asyncio.TaskGroup() as group:
            everybody_claims = asyncio.Barrier(4)
            done = asyncio.Barrier(4)
            sources: list[str] = []

            async def one_bridge(number: int) -> None:
                async with served_bus(tmp_path / f"b{number}", hub=nats.url) as bridge:
                    join = bridge.enrol(f"p{number}")
                    await everybody_claims.wait()
                    satellite = await Satellite.connect(join, claimed_id="kitchen")
                    sources.append(satellite.source)
                    await done.wait()
                    await satellite.close()

            tasks = [group.create_task(one_bridge(number)) for number in range(4)]
            await asyncio.gather(*tasks)
            assert sources.count("kitchen") == 1
            assert len(set(sources)) == 4

    run(main())


@needs_nats
def test_two_participants_of_one_name_at_two_bridges_are_not_taken_for_one(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with (
            nats_server(tmp_path / "nats") as nats,
            served_bus(tmp_path / "b1", hub=nats.url) as one,
            served_bus(tmp_path / "b2", hub=nats.url) as two,
        ):
            first = await one.satellite("kitchen")
            namesake = two.enrol("kitchen")
            with pytest.raises(
                NotAdmitted, match="participant of bridge bridgehead-"
            ) as refused:
                await Satellite.connect(namesake)
            assert "another name" in str(refused.value.hint)
            assert (
                one.relay.bridge.known.get("kitchen") is not None
            )  # nothing was taken from it
            await first.close()
            # Revoked where it was enrolled, the name is free for somebody else.
            revoke(one.folder, "kitchen")
            one.gateway.reload()
            await one.relay.saved()
            registry = two._registry
            assert registry is not None
            await until(lambda: registry.owners.owner_of("kitchen") is None)
            second = await Satellite.connect(namesake)
            assert second.source == "kitchen"
            await second.close()

    run(main())


@needs_nats
def test_a_participant_with_a_new_credential_is_still_itself(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            nats_server(tmp_path / "nats") as nats,
            served_bus(tmp_path / "b1", hub=nats.url) as one,
            served_bus(tmp_path / "b2", hub=nats.url) as two,
        ):
            await (await one.satellite("kitchen")).close()
            one.enrol(
                "kitchen"
            )  # a new key ends what was there; the name is given up and taken again
            here, there = enrol_everywhere([one, two], "kitchen")
            for join in (here, there):
                satellite = await Satellite.connect(join)
                assert satellite.source == "kitchen"
                await satellite.close()

    run(main())


@needs_nats
def test_without_the_register_nobody_gets_a_name_that_is_not_theirs_yet(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with (
            nats_server(tmp_path / "nats") as nats,
            served_bus(tmp_path / "b1", hub=nats.url) as one,
        ):
            kitchen, stranger = one.enrol("kitchen"), one.enrol("stranger")
            await (await Satellite.connect(kitchen)).close()
            nats.stop()
            assert one._registry is not None
            registry = one._registry
            await until(lambda: not registry._is_connected.is_set())
            known = await Satellite.connect(kitchen)
            assert known.source == "kitchen"
            with pytest.raises(NotAdmitted, match="registry"):
                await Satellite.connect(stranger)
            await known.close()

    run(main())
