"""The chat page in a real Chromium: what a person sees, and what hostile text does not do."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bridgehead.bus.assistant.agents import ScriptedAgent
from bridgehead.bus.interfaces import AgentAnswer, AgentQuestion, Notice
from bridgehead.contract.record_words import PendingState
from bus.support.records import asked, assembled, kept, served_with_record
from bus.support.running import free_port, run
from bus.support.serving import served_bus

CHROMIUM = os.environ.get("BRIDGEHEAD_CHROMIUM") or next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (found := shutil.which(name))
    ),
    None,
)
pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(
        CHROMIUM is None,
        reason="no Chromium on this machine (or set BRIDGEHEAD_CHROMIUM)",
    ),
]
HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


@asynccontextmanager
async def browser() -> AsyncIterator[Any]:
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox"]
        )
        yield opened
        await opened.close()


class Pondering(ScriptedAgent):
    """Answers everything but `slow`, of which it never gets beyond the beginning."""

    async def ask(self, question: AgentQuestion) -> AgentAnswer:
        if question.text == "slow" and question.heard is not None:
            question.heard("By ")
            question.heard("and <b>by")
        return await (
            asyncio.Future() if question.text == "slow" else super().ask(question)
        )


async def shoot(page: Any, name: str) -> None:
    if folder := os.environ.get("BRIDGEHEAD_SCREENSHOTS"):
        await page.screenshot(path=str(Path(folder) / f"chat-{name}.png"))


@pytest.mark.parametrize(("width", "scheme"), [(1100, "light"), (390, "dark")])
def test_a_person_talks_and_hostile_text_stays_text(
    tmp_path: Path, width: int, scheme: Any
) -> None:
    async def main() -> None:
        agent = Pondering({"attack": HOSTILE})
        grants = ["notices", "approve"]
        async with (
            served_bus(tmp_path / "bus", agent=agent, chat_grants=grants) as server,
            browser() as opened,
        ):
            page = await opened.new_page(
                viewport={"width": width, "height": 800}, color_scheme=scheme
            )
            problems: list[str] = []
            page.on(
                "console",
                lambda said: (
                    problems.append(said.text) if said.type == "error" else None
                ),
            )
            page.on("pageerror", lambda error: problems.append(str(error)))
            await page.goto(server.chat_url)
            await page.get_by_text("connected", exact=True).wait_for()
            assert page.url.endswith("/chat"), (
                "the token is not left in the address bar"
            )
            for words, answer in (("hello", "You said: hello"), ("attack", HOSTILE)):
                await page.get_by_label("Message").fill(words)
                await page.keyboard.press("Enter")
                await page.get_by_text(answer, exact=True).wait_for()
            told = {
                "prompt": f"{HOSTILE}\n{HOSTILE}\nwhole",
                "details": {HOSTILE: HOSTILE},
            }
            asked = Notice(
                kind="pending",
                id="q-7",
                title=HOSTILE,
                status="needs_you",
                choices=("yes", "no"),
                **told,
            )
            server.notify(asked)
            await page.get_by_role("button", name="yes").wait_for()
            assert await page.title() == "bridgehead chat"
            assert await page.locator("#log img, #log script").count() == 0
            await page.get_by_label("Message").fill("slow")
            await page.keyboard.press("Enter")
            await page.get_by_role("button", name="Stop").wait_for()
            await page.get_by_text("By and <b>by", exact=True).wait_for()
            overflow = await page.evaluate(
                "document.documentElement.scrollWidth > innerWidth"
            )
            assert not overflow, "no sideways scrolling"
            assert problems == []
            await shoot(page, f"{width}-{scheme}")

    run(main(), uvloop=False)


def test_a_person_sees_what_waits_and_answers_it_on_the_page(tmp_path: Path) -> None:
    assembly = assembled(tmp_path)
    deploy = asked(assembly, "deploy", prompt="Deploy?\nBuild 812 passed.")
    toolkit = asked(assembly, "toolkit", choices=())

    async def main() -> None:
        async with (
            served_with_record(tmp_path, assembly) as server,
            browser() as opened,
        ):
            page = await opened.new_page(viewport={"width": 390, "height": 800})
            await page.goto(server.chat_url)
            cards = page.locator(".notice")
            await cards.nth(1).wait_for()  # both lay there before the page was opened
            await page.get_by_text("Build 812 passed.", exact=True).wait_for()
            assert await page.get_by_text("Deploy?").count() == 2, "once on each card"
            await shoot(page, "notices-open")
            await page.get_by_role("button", name="yes").click()
            await page.get_by_text("answered by bus chat-").wait_for()
            await page.get_by_label(f"Answer to {toolkit.id}").fill("CUDA 12")
            await page.keyboard.press("Enter")
            await page.get_by_text(
                f"{toolkit.id} was answered: CUDA 12", exact=True
            ).wait_for()
            await page.locator(".notice[data-status=answered]").nth(1).wait_for()
            assert await page.locator(".notice button").count() == 0, (
                "an answer is given once"
            )
            assert await cards.count() == 2, (
                "what became of an item takes the place of its question"
            )
            server.notify(
                Notice(
                    kind="council", id="101502", title="review of src/", status="failed"
                )
            )
            await page.get_by_text("failed · council 101502").wait_for()
            await shoot(page, "notices")

    run(main(), uvloop=False)
    assert [kept(assembly, item).state for item in (deploy, toolkit)] == [
        PendingState.ANSWERED
    ] * 2


def test_the_page_comes_back_by_itself_when_the_bridge_was_away(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            served_bus(tmp_path / "bus", agent=ScriptedAgent()) as server,
            browser() as opened,
        ):
            page = await opened.new_page()
            await page.goto(server.chat_url)
            await page.get_by_text("connected", exact=True).wait_for()
            for participant in list(server.relay.connected):
                server.relay._connections[participant]._peer.abort()  # type: ignore[attr-defined]
            await page.get_by_text("connected", exact=True).wait_for()
            await page.get_by_label("Message").fill("again")
            await page.get_by_role("button", name="Send").click()
            await page.get_by_text("You said: again", exact=True).wait_for()

    run(main(), uvloop=False)


def test_a_page_stays_logged_in_and_keeps_its_conversation_over_a_restart_of_the_bus(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        places = {
            "listen": f"127.0.0.1:{free_port()}",
            "hub_listen": f"127.0.0.1:{free_port()}",
        }
        async with browser() as opened:
            page = await opened.new_page()
            async with served_bus(
                tmp_path / "bus", agent=Pondering(), **places
            ) as server:
                await page.goto(server.chat_url)
                await page.get_by_text("connected", exact=True).wait_for()
                await page.get_by_role("textbox").fill("first")
                await page.keyboard.press("Enter")
                await page.get_by_text("You said: first").wait_for()
                await page.get_by_role("textbox").fill("slow")
                await page.keyboard.press("Enter")
                await page.get_by_text("thinking").wait_for()
            await page.get_by_text("connection lost").wait_for()
            async with served_bus(
                tmp_path / "bus", agent=ScriptedAgent(), **places
            ) as server:
                # The question that was open when the bus went away is answered by the one that came.
                await page.get_by_text("You said: slow").wait_for()
                assert await page.get_by_text("thinking").count() == 0
                await page.reload()
                await page.get_by_text("connected", exact=True).wait_for()
                assert await page.get_by_text("You said: first").count() == 1
                assert await page.get_by_text("You said: slow").count() == 1

    run(main(), deadline_s=120)
