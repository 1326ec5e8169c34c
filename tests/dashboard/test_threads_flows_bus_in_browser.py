"""Threads, flows and the bus in a real Chromium: replying, answering, watching, and what hostile text does not do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bridgehead.assembly.bus.views import BusView, bus_view
from bridgehead.assembly.flows.recording import RecordingAnnouncer
from bridgehead.assembly.pending import pending_list
from bridgehead.bus.client.participant import Satellite
from bridgehead.bus.wire.message import Message
from bridgehead.contract.doors import Door
from bridgehead.contract.pending import Answer
from bridgehead.control_plane.records import OPEN_ITEMS
from bridgehead.flows import Context, Flow, RunInputs, RunRequest, asking, run_flow
from dashboard.support.browsing import (
    BOTH_WIDTHS_AND_THEMES,
    INJECTED,
    NEEDS_AXE,
    NEEDS_CHROMIUM,
    OPEN_ALL,
    assert_fits,
    assert_keeps_nobody_out,
    browsing,
    connected,
)
from dashboard.support.hostile import EVERYTHING
from dashboard.support.live_bus import LiveBus, live_bus
from dashboard.support.rig_worlds import RigWorld, at_home, hostile_envelope, make_world
from dashboard.support.served import Served, note, served

pytestmark = [
    *NEEDS_CHROMIUM,
    pytest.mark.xdist_group("browser of threads"),
]  # one server and one browser
SCHEMA = {
    "type": "object",
    "required": ["score"],
    "properties": {"score": {"type": "integer"}},
}


@dataclass
class BrowserAndRigs:
    """A served dashboard over two rigs, two flows that wait, and a bus with a satellite."""

    server: Served
    world: RigWorld
    bus: LiveBus
    kitchen: Satellite
    flows: list[str]

    @property
    def paths(self) -> list[str]:
        mac = self.world.mac.address
        flows = [f"/flows/{flow_id}" for flow_id in self.flows]
        return [
            "/threads",
            mac,
            f"{mac}/cuda-build-03",
            f"{mac}/hostile",
            "/flows",
            *flows,
            "/bus",
        ]


def review(ctx: Context, note: str = "") -> Any:
    return ctx.gather(
        asking("careful", agent="reviewer", prompt=EVERYTHING, schema=SCHEMA),
        asking("quick", agent="linter", prompt="Quickly?"),
    )


def start_flow(root: Path) -> str:
    root.mkdir()
    with RecordingAnnouncer(root, pytest.fail) as announcer:
        request = RunRequest(root=root, given={"note": EVERYTHING})
        return run_flow(
            Flow("review", "3", review), request, RunInputs(announcer=announcer)
        ).flow_id


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserAndRigs]:
    base = tmp_path_factory.mktemp("parts")
    with (
        at_home(base / "bridge" / "home", base / "web" / "home"),
        served(base / "web") as server,
    ):
        world = make_world(base / "bridge")
        world.mac.open("cuda-build-03")
        world.mac.send("REQUEST", "cuda-build-03", "win-5080", "Build it.\n")
        world.mac.commit_file("hostile/REQUEST.md", hostile_envelope("hostile"))
        flows = [start_flow(base / "one"), start_flow(base / "two")]
        with live_bus(Path(bus_view(server.assembly).state)) as bus:
            may = {
                "mode": "manage",
                "site_determination": "downstairs",
                "publish": ["*"],
            }
            kitchen = bus.do(bus.server.satellite("kitchen", **may))
            yield BrowserAndRigs(server, world, bus, kitchen, flows)
            bus.do(kitchen.close())


@pytest.fixture(scope="module")
def browser_page(place: BrowserAndRigs) -> Iterator[tuple[Any, list[str]]]:
    with browsing(place.server.link) as opened:
        yield opened


@pytest.fixture
def page(browser_page: tuple[Any, list[str]]) -> Iterator[Any]:
    """Whatever the console complains of fails the test; an answer that was refused is no complaint."""
    opened, problems = browser_page
    problems.clear()
    yield opened
    assert [one for one in problems if "422" not in one] == []


def go(page: Any, place: BrowserAndRigs, path: str) -> None:
    page.goto(f"{place.server.base}{path}")
    connected(page)


def test_others_words_appear_while_one_types_and_the_reply_is_sent(
    page: Any, place: BrowserAndRigs
) -> None:
    mac, win = place.world.mac, place.world.win
    go(page, place, f"{mac.address}/cuda-build-03")
    page.get_by_label("Text", exact=True).fill("Use 12.6")

    win.send("REQUEST", "cuda-build-03", "mac-m5max", "Which toolkit?\n")
    mac.pull()
    note(place.server.store, 1, kind="rig.pulled")
    page.locator("#envelope-2", has_text="Which toolkit?").wait_for()
    assert page.get_by_label("Text", exact=True).input_value() == "Use 12.6"
    assert page.evaluate("document.activeElement.id") == "reply-text"

    page.get_by_label("To", exact=True).fill("nobody here")
    page.get_by_role("button", name="Send reply").press("Enter")
    page.get_by_role("alert").get_by_text("canonical").wait_for()
    assert page.get_by_label("Text", exact=True).input_value() == "Use 12.6"
    page.get_by_label("To", exact=True).fill("win-5080")
    page.get_by_role("button", name="Send reply").dblclick()
    page.get_by_text("RESPONSE sent to win-5080").wait_for()
    page.locator("#envelope-3", has_text="Use 12.6").wait_for()
    assert [name for name in mac.clone.envelopes() if "RESPONSE" in name] == [
        "cuda-build-03/RESPONSE.md"
    ]


def test_an_unfit_answer_stays_in_place_and_an_answer_from_elsewhere_is_shown(
    page: Any, place: BrowserAndRigs
) -> None:
    go(page, place, f"/flows/{place.flows[0]}")
    page.get_by_label("score").fill("nine")
    page.get_by_role("button", name="Send answer").first.click()
    page.get_by_role("alert").wait_for()
    assert page.get_by_label("score").input_value() == "nine"
    page.get_by_label("score").fill("9")
    page.get_by_role("button", name="Send answer").first.click()
    page.get_by_text("Answered by ann (web)").wait_for()

    waiting = pending_list(place.server.assembly, place.server.store, pytest.fail)
    linter = next(
        item
        for item in waiting.items(OPEN_ITEMS, limit=9)
        if item.question.run_id == place.flows[0]
    )
    waiting.answer(
        linter.id,
        Answer(text="yes", by="ada", at="2026-11-15T10:16:32.000Z"),
        Door.PAGE,
    )
    page.get_by_text("Answered by ada").wait_for()


def test_the_tail_goes_on_without_moving_the_page_and_shows_payloads_when_asked(
    page: Any, place: BrowserAndRigs
) -> None:
    go(page, place, "/bus")
    page.get_by_text("No messages yet. Messages are shown").wait_for()
    below = page.locator("#outcomes-title")
    before = below.bounding_box()

    for number in range(12):
        place.bus.do(place.kitchen.ask(f"lamp {number}"))
    page.locator("#message-rows tr").nth(11).wait_for()
    assert below.bounding_box() == before, "nothing jumped"
    assert page.get_by_text("lamp 3").count() == 0
    page.evaluate("window.kept = document.querySelector('#message-rows tr')")
    place.bus.do(place.kitchen.ask("one more"))
    page.locator("#message-rows tr").nth(38).wait_for()
    assert page.evaluate("window.kept.isConnected"), (
        "rows that were there stay, and with them the place one reads"
    )

    page.get_by_role("link", name="Pause").click()
    page.get_by_role("link", name="Show what message 1 carries").click()
    page.locator("#payload", has_text="lamp 0").wait_for()
    page.get_by_label("Topic begins with").fill("ovos.utterance.speak")
    page.get_by_role("button", name="Filter").click()
    page.locator("#message-rows tr").first.wait_for()
    assert set(page.locator("#message-rows .topic").all_text_contents()) == {
        "ovos.utterance.speak"
    }


def test_the_page_changes_its_shape_when_the_bus_ends(
    page: Any, place: BrowserAndRigs, monkeypatch: pytest.MonkeyPatch
) -> None:
    go(page, place, "/bus")
    page.locator("#participants").wait_for()

    with monkeypatch.context() as patch:
        quiet = BusView(
            state="", running=False, note="no bus is running on this machine"
        )
        patch.setattr("bridgehead.dashboard.pages.bus.bus_view", lambda *_, **__: quiet)
        page.get_by_text("bridgehead bus serve").wait_for()
    page.locator("#participants").wait_for()


def test_hostile_text_stays_text_on_these_pages(
    page: Any, place: BrowserAndRigs
) -> None:
    go(page, place, "/bus")
    place.bus.do(place.kitchen.send(Message("hostile.words", {EVERYTHING: EVERYTHING})))
    page.locator("#message-rows", has_text="hostile.words").wait_for()
    shown = page.get_by_role("link", name="Show what message").first.get_attribute(
        "href"
    )
    for path in (*place.paths, str(shown).partition("#")[0]):
        go(page, place, path)
        page.evaluate(OPEN_ALL)
        page.mouse.move(300, 300)
        assert page.evaluate("window.owned") is None, path
        assert page.evaluate(INJECTED) == [], path
    assert "owned" in str(page.locator("#payload").text_content())


@BOTH_WIDTHS_AND_THEMES
def test_these_pages_fit_their_window(
    page: Any, place: BrowserAndRigs, width: int, scheme: Any, tmp_path: Path
) -> None:
    assert_fits(page, place.server.base, place.paths, width, scheme, tmp_path)


@NEEDS_AXE
@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])
def test_none_of_these_pages_keeps_anybody_out(
    page: Any, place: BrowserAndRigs, width: int, scheme: Any
) -> None:
    assert_keeps_nobody_out(page, place.server.base, place.paths, width, scheme)
