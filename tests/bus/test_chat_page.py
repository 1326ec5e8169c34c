"""The chat page in a real Chromium: what a person sees, and what hostile text does not do."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bridgehead.bus.notices import Notice
from bridgehead.bus.scripted_agent import ScriptedAgent
from bus.running import run
from bus.serving import served_bus

CHROMIUM = os.environ.get("BRIDGEHEAD_CHROMIUM") or next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))),
    None,
)
pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine (or set BRIDGEHEAD_CHROMIUM)"),
]
HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


@asynccontextmanager
async def browser() -> AsyncIterator[Any]:
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        await opened.close()


@pytest.mark.parametrize(("width", "scheme"), [(1100, "light"), (390, "dark")])
def test_a_person_talks_and_hostile_text_stays_text(tmp_path: Path, width: int, scheme: Any) -> None:
    async def main() -> None:
        agent = ScriptedAgent({"attack": HOSTILE})
        grants = ["notices", "approve"]
        async with (
            served_bus(tmp_path / "bus", agent=agent, chat_grants=grants) as server,
            browser() as opened,
        ):
            page = await opened.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
            problems: list[str] = []
            page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
            page.on("pageerror", lambda error: problems.append(str(error)))
            await page.goto(server.chat_url)
            await page.get_by_text("connected", exact=True).wait_for()
            assert page.url.endswith("/chat"), "the token is not left in the address bar"
            for words, answer in (("hello", "You said: hello"), ("attack", HOSTILE)):
                await page.get_by_label("Message").fill(words)
                await page.keyboard.press("Enter")
                await page.get_by_text(answer, exact=True).wait_for()
            asked = Notice(kind="pending", id="q-7", title=HOSTILE, status="needs_you", choices=("yes", "no"))
            server.notify(asked)
            await page.get_by_role("button", name="yes").wait_for()
            assert await page.title() == "bridgehead chat"
            assert await page.locator("#log img, #log script").count() == 0
            overflow = await page.evaluate("document.documentElement.scrollWidth > innerWidth")
            assert not overflow, "no sideways scrolling"
            assert problems == []
            if folder := os.environ.get("BRIDGEHEAD_SCREENSHOTS"):
                await page.screenshot(path=str(Path(folder) / f"chat-{width}-{scheme}.png"))

    run(main(), uvloop=False)


def test_the_page_comes_back_by_itself_when_the_bridge_was_away(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bus(tmp_path / "bus", agent=ScriptedAgent()) as server, browser() as opened:
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
