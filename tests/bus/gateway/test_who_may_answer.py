"""Who may answer what waits, by voice, chat or frame: the right alone decides, and it decides once (hazard 32)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridgehead.bus.client.participant import Satellite
from bridgehead.bus.interfaces import ItemAnswered
from bridgehead.bus.participants.record import Grant, Role
from bridgehead.contract.record_words import PendingState
from bus.support.pages import enter, page, told
from bus.support.records import asked, assembled, kept, served_with_record
from bus.support.running import run

RIGHTS = [
    (),
    (Grant.NOTICES,),
    (Grant.APPROVE,),
    (Grant.NOTICES, Grant.APPROVE),
    (Grant.PEER_MESSAGING, Grant.NOTICES),
]


async def answer_what_is_asked(satellite: Satellite, item_id: str) -> ItemAnswered:
    """Say yes; whoever was not shown the question is shown it then and says it again."""
    await satellite.answer(item_id, "yes")
    became = await read_back(satellite)
    if became.notice is None:
        return became
    assert not became.ok and became.notice.id == item_id
    await satellite.answer(item_id, "yes")
    return await read_back(satellite)


async def read_back(satellite: Satellite) -> ItemAnswered:
    while not isinstance(event := await satellite.receive(), ItemAnswered):
        pass
    return event


@pytest.mark.parametrize("role", Role)
def test_of_all_roles_and_rights_only_approve_answers(
    tmp_path: Path, role: Role
) -> None:
    assembly = assembled(tmp_path)

    async def main() -> dict[tuple[Grant, ...], bool]:
        took: dict[tuple[Grant, ...], bool] = {}
        async with served_with_record(tmp_path, assembly) as server:
            for number, rights in enumerate(RIGHTS):
                name = f"p{number}"
                someone = await server.satellite(
                    name, role=role.value, grants={str(one): True for one in rights}
                )
                item = asked(assembly, f"question {number}")

                await someone.say(f"answer {item.id} yes")
                await someone.settled()
                assert kept(assembly, item).state is PendingState.OPEN, (
                    "what is said aloud is no answer"
                )
                told_back = await answer_what_is_asked(someone, item.id)

                assert told_back.id == item.id
                state = kept(assembly, item)
                assert told_back.ok is (state.state is PendingState.ANSWERED)
                if told_back.ok:
                    assert (
                        item.id in told_back.sentence and "yes" in told_back.sentence
                    ), "what was understood"
                    assert state.answer is not None and state.answer.by == f"bus {name}"
                    await someone.answer(item.id, "no")
                    again = await read_back(someone)
                    assert not again.ok and again.id == item.id
                    changed = kept(assembly, item).answer
                    assert changed is not None and changed.text == "yes", (
                        "an answer is given once"
                    )
                took[rights] = told_back.ok
                await someone.close()
        return took

    assert run(main()) == {rights: Grant.APPROVE in rights for rights in RIGHTS}


@pytest.mark.parametrize(
    "grants", [(), ("notices",), ("approve",), ("notices", "approve")]
)
def test_a_chat_page_answers_only_where_it_was_given_the_right(
    tmp_path: Path, grants: tuple[str, ...]
) -> None:
    assembly = assembled(tmp_path)

    async def main() -> None:
        async with served_with_record(
            tmp_path, assembly, chat_grants=list(grants)
        ) as server:
            one = await page(server, await enter(server))
            await told(one, "welcome")
            item = asked(assembly, "deploy")
            line = json.dumps({"text": f"answer {item.id} yes"}).encode()
            await one.send(line)
            back = await told(one, "answered")
            if "notice" in back:  # it was not shown before
                await one.send(line)
                back = await told(one, "answered")
            assert (back["id"], back["ok"]) == (item.id, "approve" in grants)
            state = PendingState.ANSWERED if "approve" in grants else PendingState.OPEN
            assert kept(assembly, item).state is state
            await one.close()

    run(main())


def test_nobody_raises_their_own_rights_with_an_answer(tmp_path: Path) -> None:
    """A participant that may answer says yes to a question about itself and has the rights it had."""
    assembly = assembled(tmp_path)

    async def main() -> None:
        async with served_with_record(tmp_path, assembly) as server:
            someone = await server.satellite("kitchen", grants={"approve": True})
            before = server.relay.bridge.known.get("kitchen")
            item = asked(assembly, "pair kitchen")
            assert (await answer_what_is_asked(someone, item.id)).ok
            server.gateway.reload()
            after = server.relay.bridge.known.get("kitchen")
            assert (
                before is not None
                and after is not None
                and after.record == before.record
            )
            await someone.close()

    run(main())
