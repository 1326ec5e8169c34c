"""The dashboard in a real Chromium: what a person sees and does, live parts, and what hostile text does not do."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridgehead.contract.pending import Answer
from bridgehead.contract.record_words import Part, PendingKind, PendingState, RunState
from dashboard.support.browsing import (
    BOTH_WIDTHS_AND_THEMES,
    INJECTED,
    NEEDS_AXE,
    NEEDS_CHROMIUM,
    OPEN_ALL,
    OVERLAPPING,
    assert_fits,
    assert_keeps_nobody_out,
    browsing,
    connected,
)
from dashboard.support.held_councils import (
    debate,
    findings,
    hold_council,
    record_lines,
    save_run,
)
from dashboard.support.hostile import CORPUS, EVERYTHING
from dashboard.support.served import Served, ask, note, served

pytestmark = [
    *NEEDS_CHROMIUM,
    pytest.mark.xdist_group("browser"),
]  # one server and one browser
PAGES = ("/", "/councils", "/councils/paafrm", "/councils/hostile", "/councils/paafrm/calls", "/events",
         "/health", "/nowhere", "/councils/none",
         "/do/council-review", "/do/council-resume?id=paafrm", "/do/council-challenge?id=paafrm&finding=MMC001",
         "/do/bus-participant-add")  # fmt: skip
FOREIGN = frozenset(
    {
        "title",
        "text",
        "reason",
        "agent",
        "by",
        "to",
        "connection",
        "challenge",
        "domain",
    }
)
FOREIGN_IN_FINDINGS = (
    "title", "description", "evidence", "remediation", "state", "confidence", "dismissal_note", "resembles_dismissed",
)  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("browser"), PATH=os.environ["PATH"]) as made:
        hold_council(
            made.store,
            made.project,
            "earlier",
            run={"started_at": "2026-11-14T10:00:00.000Z"},
        )
        hold_council(
            made.store,
            made.project,
            "paafrm",
            comparison={"previous_review_id": "earlier"},
        )
        yield made


@pytest.fixture(scope="module")
def browser_page(server: Served) -> Iterator[tuple[Any, list[str]]]:
    """One page for all tests, let in by the link, and what its console complained of."""
    with browsing(server.link) as opened:
        yield opened


@pytest.fixture
def page(browser_page: tuple[Any, list[str]], server: Served) -> Iterator[Any]:
    """The page at Now. Whatever the console complains of fails the test; a missing page is no complaint."""
    opened, problems = browser_page
    problems.clear()
    opened.goto(server.base)
    connected(opened)
    yield opened
    assert [one for one in problems if "404" not in one] == []


def test_a_question_appears_by_itself_and_is_answered_by_keyboard(
    page: Any, server: Served
) -> None:
    item = ask(server.store, "live", title="may the den join?", choices=("yes", "no"))
    asked = page.locator(f"#asked-{item.id}")
    asked.wait_for()
    page.locator("#pending-count", has_text="1 pending").wait_for()

    asked.locator("summary").first.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")  # the question's text, which may need scrolling
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "yes"
    page.keyboard.press("Enter")

    page.get_by_text(f"{item.id} answered: may the den join?").wait_for()
    kept = server.store.pending_item(item.id)
    assert kept.state is PendingState.ANSWERED
    page.get_by_text("Nothing is pending").wait_for()


def test_the_tab_tells_how_many_wait(page: Any, server: Served) -> None:
    from playwright.sync_api import expect

    before = int(page.locator("#pending-count").inner_text().split()[0])
    item = ask(server.store, "counted", title="count me")
    expect(page).to_have_title(re.compile(rf"^\({before + 1}\) Now"))
    server.store.answer_pending(
        item.id, Answer(text="done", by="bob", at="2026-11-15T10:00:00.000Z")
    )
    expect(page).to_have_title(re.compile(rf"^\({before}\) Now" if before else "^Now"))


def test_single_keys_filter_and_go_from_entry_to_entry_until_switched_off(
    page: Any, server: Served
) -> None:
    active = "document.activeElement.closest('tr, .row, details')?.textContent ?? document.activeElement.tagName"
    page.goto(f"{server.base}/events")
    page.keyboard.press("/")
    assert (
        page.evaluate("document.activeElement.closest('form').ariaLabel")
        == "Filter events"
    )
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.closest('form')") is not None, (
        "a key in a field is a letter"
    )
    page.goto(f"{server.base}/councils")
    page.keyboard.press("j")
    first = page.evaluate(active)
    page.keyboard.press("j")
    assert page.evaluate(active) != first
    page.keyboard.press("k")
    assert page.evaluate(active) == first
    page.keyboard.press("?")
    page.get_by_label("Single-key shortcuts").uncheck()
    page.get_by_role("button", name="Close").click()
    page.reload()
    page.keyboard.press("j")
    assert page.evaluate(active) == "BODY"
    page.get_by_role("button", name="Keyboard").click()
    page.get_by_label("Single-key shortcuts").check()


def test_what_happens_before_the_page_listens_is_not_missed(
    page: Any, server: Served
) -> None:
    asked: list[str] = []

    def happens_first(route: Any) -> None:
        asked.append(
            ask(
                server.store, "early", title="asked in between", choices=("yes", "no")
            ).id
        )
        route.continue_()

    page.route("**/live*", happens_first)
    page.goto(server.base)
    page.get_by_text("asked in between").wait_for()
    page.unroute("**/live*")

    server.store.withdraw_pending(asked[0], reason="seen")


def test_what_somebody_is_typing_survives_the_news(page: Any, server: Served) -> None:
    mine = ask(server.store, "typing", title="which toolkit?")
    page.locator(f"#asked-{mine.id} > summary").click()
    box = page.get_by_label(f"Answer to {mine.id}")
    box.fill("CUDA 12")

    other = ask(server.store, "meanwhile", title="another question")
    page.locator(f"#asked-{other.id}").wait_for()

    assert box.input_value() == "CUDA 12"
    assert page.evaluate("document.activeElement.name") == "text"
    assert page.locator(f"#asked-{mine.id}").get_attribute("open") is not None

    server.store.answer_pending(
        other.id, Answer(text="done", by="bob", at="2026-11-15T10:00:00.000Z")
    )
    page.locator(f"#asked-{other.id}").wait_for(state="detached")
    page.get_by_role("button", name="Send answer").click()
    page.get_by_text(f"{mine.id} answered").wait_for()
    kept = server.store.pending_item(mine.id).answer
    assert kept is not None
    assert kept.text == "CUDA 12"


def test_a_council_grows_while_one_watches(page: Any, server: Served) -> None:
    lines = debate()
    record_lines(server.store, "growing", server.project, lines[:3])
    save_run(
        server.store,
        "growing",
        server.project,
        RunState.RUNNING,
        updated_at="2026-11-15T10:15:03.000Z",
    )
    page.goto(f"{server.base}/councils/growing")
    connected(page)
    assert page.locator(".lanes circle").count() == 0

    record_lines(server.store, "growing", server.project, lines)
    page.locator(".lanes path.challenge.disputed").wait_for(state="attached")
    assert page.locator(".lanes rect.doubt").count() == 4

    hold_council(server.store, server.project, "growing", lines=[])
    page.locator("#verdict .FAIL").wait_for()
    page.locator("#MMC001").wait_for()


def test_findings_are_filtered_opened_and_dismissed(page: Any, server: Served) -> None:
    page.goto(f"{server.base}/councils/paafrm")
    connected(page)
    page.get_by_label("Severity").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.get_by_role("button", name="Filter").press("Enter")
    page.get_by_text("1 of 4").wait_for()
    assert page.locator("details.finding").count() == 1

    # A link to a finding opens it.
    page.goto(f"{server.base}/councils/paafrm?severity=HIGH#SS001")
    finding = page.locator("#SS001[open]")
    finding.locator(".marked-line").wait_for()
    finding.get_by_text("Dismiss …").click()
    finding.get_by_label("Why is this acceptable?").fill("pooled elsewhere")
    finding.get_by_role("button", name="Dismiss SS001").click()

    page.get_by_text("SS001 dismissed").wait_for()
    page.locator("#SS001 .tag", has_text="dismissed").wait_for()
    assert page.url.endswith("#SS001")


def test_events_follow_and_the_filter_holds(page: Any, server: Served) -> None:
    page.goto(f"{server.base}/events?part=bus")
    connected(page)
    note(server.store, 9001, kind="rig.sent")
    note(
        server.store,
        9002,
        kind="bus.joined",
        part=Part.BUS,
        data={"participant": "den"},
    )
    page.get_by_text("bus.joined", exact=True).last.wait_for()

    assert page.locator("#event-rows", has_text="rig.sent").count() == 0


def test_hostile_text_stays_text_on_every_page(page: Any, server: Served) -> None:
    _plant(server)
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    for path in PAGES:
        page.goto(f"{server.base}{path}")
        connected(page)
        page.evaluate(OPEN_ALL)
        note(
            server.store,
            7000 + PAGES.index(path),
            kind="council.reported",
            data={"title": EVERYTHING},
        )
        page.mouse.move(300, 300)
        assert page.evaluate("window.owned") is None, path
        assert page.evaluate(INJECTED) == [], path
    page.goto(f"{server.base}/councils/hostile")
    assert page.get_by_text(CORPUS[0]).count() > 0, "the text itself is shown"
    assert page.get_by_text("[U+202E]").count() > 0, "what would hide is spelled out"
    assert "49" not in (page.locator("h1").text_content() or "")


def _plant(server: Served) -> None:
    """Put the corpus into every field that comes from outside."""
    entries = findings()
    for number, entry in enumerate(entries):
        words = " ".join(CORPUS[number::4]) if number else EVERYTHING
        entry |= dict.fromkeys(FOREIGN_IN_FINDINGS, words)
        entry["id"], entry["domains"] = CORPUS[number + 3], [words]
        entry["anchor"] = {"path": f"src/{words}", "lines": [1, 1]}
        for position in entry.get("positions") or ():
            position["position"] = words
    lines = [
        {**line, **dict.fromkeys(FOREIGN & line.keys(), EVERYTHING)}
        for line in debate()
    ]
    hold_council(
        server.store,
        server.project,
        "hostile",
        entries=entries,
        lines=lines,
        run={"title": EVERYTHING, "intensity": EVERYTHING, "domains": [EVERYTHING]},
        skip_reasons={EVERYTHING: EVERYTHING},
        warnings=[EVERYTHING],
        synthesis_notes=[EVERYTHING],
        comparison={
            "fixed": [
                {"id": None, "fingerprint": "x", "title": EVERYTHING, "how": EVERYTHING}
            ]
        },
    )
    words = {
        "title": EVERYTHING,
        "prompt": EVERYTHING,
        "origin": EVERYTHING,
        "advice": EVERYTHING,
    }
    ask(server.store, "hostile", choices=("yes", EVERYTHING), **words)
    ask(server.store, "hostile text", **words)
    for number, text in enumerate(CORPUS):
        facts = {text: text, "thread": text}
        note(
            server.store,
            6000 + number,
            run_of=lambda number: CORPUS[number - 6000],
            data=facts,
        )
    note(server.store, 6999, kind=EVERYTHING)


@BOTH_WIDTHS_AND_THEMES
def test_every_page_fits_its_window(
    page: Any, server: Served, width: int, scheme: Any, tmp_path: Path
) -> None:
    assert_fits(page, server.base, PAGES, width, scheme, tmp_path)


@pytest.mark.parametrize("width", [320, 390, 700, 1280])
def test_a_question_with_a_page_of_its_own_is_drawn_beside_nothing_else(
    page: Any, server: Served, width: int
) -> None:
    asked = {
        "kind": PendingKind.HALTED_RUNTIME,
        "part": Part.COUNCIL,
        "run_id": "paafrm",
        "origin": "council",
    }
    title = "halted: the account of the runtime was refused, log in and say retry"
    item = ask(server.store, f"beside-{width}", title=title, **asked)
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(server.base)
    page.locator(f"#item-{item.id} > a.button").wait_for()
    page.evaluate(
        "document.querySelectorAll('.when').forEach(one => { one.textContent = '59 min ago'; })"
    )

    for unlike_here in (
        "-0.5px",
        "0",
        "0.5px",
        "1px",
    ):  # fonts of other machines are narrower or wider
        page.evaluate(
            "space => { document.body.style.letterSpacing = space; }", unlike_here
        )
        assert page.evaluate(OVERLAPPING) == [], unlike_here
    page.evaluate(OPEN_ALL)
    assert page.evaluate(OVERLAPPING) == []
    server.store.answer_pending(
        item.id, Answer(text="retry", by="bob", at="2026-11-15T10:00:00.000Z")
    )


def test_every_page_shows_where_the_focus_is(page: Any, server: Served) -> None:
    for path in PAGES:
        page.goto(f"{server.base}{path}")
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        assert (
            page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            != "none"
        ), path


def test_a_council_is_started_from_the_page_once_its_calls_were_shown(
    page: Any, server: Served
) -> None:
    (server.project / "store.py").write_text(
        "import pickle\n\n\ndef load(blob):\n    return pickle.loads(blob)\n"
    )
    page.get_by_role("link", name="Councils").first.click()
    page.get_by_role("link", name="Start a council").click()
    page.get_by_label("Intensity").select_option("quick")
    page.get_by_label("Seats").fill("static")
    page.locator("[name=scope]").fill("store.py")
    page.get_by_role("button", name="Estimate").click()
    page.get_by_text("0 calls").first.wait_for()
    assert page.locator("[name=scope]").input_value() == "store.py"
    page.get_by_role("button", name="Start a council").click()
    page.wait_for_url(f"{server.base}/councils")
    page.get_by_text(
        "bridgehead council review --non-interactive --intensity=quick --runtime=static -- store.py"
    ).wait_for()
    page.get_by_role("link", name="review of store.py").wait_for(timeout=120_000)


@NEEDS_AXE
@pytest.mark.parametrize(("width", "scheme"), [(1280, "dark"), (390, "light")])
def test_no_page_keeps_anybody_out(
    page: Any, server: Served, width: int, scheme: Any
) -> None:
    assert_keeps_nobody_out(page, server.base, PAGES, width, scheme)


def test_the_theme_switch_is_remembered(page: Any, server: Served) -> None:
    page.emulate_media(color_scheme="light")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Switch between light and dark").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != ground
    page.goto(f"{server.base}/events")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
