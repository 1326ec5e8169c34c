"""The bus in the browser's eyes: who is there, what passes, and payloads that stay hidden until somebody asks."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bridgehead.assembly.bus.views import BusView, bus_view
from bridgehead.bus.client.participant import Satellite
from bridgehead.bus.gateway.status import (
    BusStatus,
    LinkStatus,
    MessageContent,
    MessageHead,
    OutcomeCount,
    ParticipantStatus,
    Rate,
)
from bridgehead.dashboard.pages.bus import MOST_HEADS, rate_plots, shown_heads
from dashboard.support.live_bus import LiveBus, live_bus
from dashboard.support.rig_worlds import HOSTILE, HOSTILE_LINE, MARKUP
from dashboard.support.served import OpenDashboard, open_dashboard

AT = "2026-11-15T10:15:02.000Z"


@dataclass
class BusAndPages:
    web: OpenDashboard
    bus: LiveBus
    kitchen: Satellite

    def page(self, path: str = "/bus") -> str:
        answer = self.web.client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BusAndPages]:
    """A bus with one satellite that spoke once while the page was open, and one that is away."""
    with (
        open_dashboard(tmp_path_factory.mktemp("web")) as web,
        live_bus(Path(bus_view(web.assembly).state)) as bus,
    ):
        bus.server.enrol("garage")
        kitchen = bus.do(
            bus.server.satellite("kitchen", site_determination="downstairs")
        )
        study = bus.do(bus.server.satellite("study"))
        web.client.get("/bus")
        bus.do(kitchen.ask("a secret word"))
        bus.do(study.ask("what time is it"))
        yield BusAndPages(web, bus, kitchen)
        bus.do(kitchen.close())
        bus.do(study.close())


def rows(text: str) -> list[str]:
    return re.findall(r'<tr id="message-\d+">(.*?)</tr>', text, re.S)


def test_without_a_bus_the_page_says_how_to_serve_one_and_who_is_enrolled(
    tmp_path: Path,
) -> None:
    with open_dashboard(tmp_path) as web:
        folder = Path(bus_view(web.assembly).state)
        folder.mkdir(parents=True, mode=0o700)
        (folder / "participants.toml").write_text("[kitchen]\n")

        shown = web.client.get("/bus").text

    assert (
        "bridgehead bus serve" in shown
        and "<td>kitchen</td>" in shown
        and "data-poll" in shown
    )


def test_participants_are_shown_with_state_site_and_figures(
    served: BusAndPages,
) -> None:
    shown = served.page()

    table = shown.split('id="participants"')[1].split("</table>")[0]
    row = r'>(kitchen|garage)</a>.*?>(connected|offline)</span></td>\s*<td class="wide">(.*?)</td>'
    found = re.findall(row, table, re.S)
    assert found == [("kitchen", "connected", "downstairs"), ("garage", "offline", "–")]
    assert shown.count('<figure class="plot">') == 2 and "hub connected" in shown
    assert re.search(
        r"<td>in</td>.*?delivered.*?<td class=\"figure\">2</td>", shown, re.S
    )


def test_messages_pass_without_what_they_carry_until_somebody_asks(
    served: BusAndPages,
) -> None:
    shown = served.page()
    assert "ovos.utterance.handle" in shown and "secret word" not in shown

    asked = re.search(
        r'id="message-(\d+)">(?:(?!</tr>).)*ovos\.utterance\.handle<', shown, re.S
    )
    opened = next(
        text
        for number in re.findall(r'id="message-(\d+)"', shown)
        if "secret word" in (text := served.page(f"/bus?message={number}"))
    )
    assert asked is not None and "a secret word" in opened.split('id="payload"')[1]
    assert "is no longer kept, or was too large" in served.page("/bus?message=999999")


@pytest.mark.parametrize(
    ("query", "there", "absent"),
    [
        ("participant=kitchen", "kitchen", "study"),
        ("topic=ovos.utterance.speak", "ovos.utterance.speak", "ovos.utterance.handle"),
        (
            "participant=study&topic=ovos.utterance.handled",
            "ovos.utterance.handled",
            "kitchen",
        ),
        ("participant=nobody", "", "ovos"),
        ("until=1", "", "speak"),
    ],
)
def test_the_tail_is_filtered_by_participant_and_topic(
    served: BusAndPages, query: str, there: str, absent: str
) -> None:
    found = rows(served.page(f"/bus?{query}"))

    assert all(there in row and absent not in row for row in found)
    assert bool(found) == (query != "participant=nobody")


def test_a_tail_that_stands_still_is_not_fetched_again(served: BusAndPages) -> None:
    going = served.page().split('id="messages"')[1].split(">")[0]
    still = served.page("/bus?until=2").split('id="messages"')[1].split(">")[0]

    assert "data-poll" in going and "data-poll" not in still
    assert "Resume" in served.page("/bus?until=2&topic=x")


@pytest.mark.parametrize(
    "query",
    ["message=abc", "message=-1", f"until={'9' * 40}", "message=٣", "topic=%00"],
)
def test_odd_addresses_do_no_harm(served: BusAndPages, query: str) -> None:
    assert 'id="payload"' not in served.page(f"/bus?{query}")


def test_nothing_that_passes_becomes_markup(
    served: BusAndPages, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = HOSTILE_LINE
    status = BusStatus(
        bridge=text,
        since=text,
        at=AT,
        hub=text,
        gateway=text,
        known=1,
        participants=(
            ParticipantStatus(
                id=text, role=text, mode=text, state="grace", source=text, site=text, skills=(text,), outcomes={text: 1}
            ),
        ),
        rates=(Rate(1, 2),) * 9,
        outcomes=(OutcomeCount(text, text, text, 1),),
        hub_ignored={text: 1},
        links=(LinkStatus(text, text, text, AT),),
        tail=(
            MessageHead(number=1, at=text, topic=text, source=text, destination=(text,), session_id=text, bytes=1),
        ),
    )  # fmt: skip
    view = BusView(state=text, running=True, status=status)
    module = "bridgehead.dashboard.pages.bus"
    monkeypatch.setattr(f"{module}.bus_view", lambda *_, **__: view)
    monkeypatch.setattr(
        f"{module}.message_content",
        lambda *_: MessageContent(1, {text: [text]}, {"a": text}),
    )
    pages = [
        served.page("/bus?message=1"),
        served.web.client.get("/bus", params={"topic": text}).text,
    ]
    quiet = BusView(state=text, running=False, note=text, enrolled=status.participants)
    monkeypatch.setattr(f"{module}.bus_view", lambda *_, **__: quiet)
    pages.append(served.page())

    for shown in pages:
        for attack in MARKUP:
            assert attack not in shown
        assert HOSTILE[1] in html.unescape(shown)


def test_rates_become_means_of_a_few_seconds_and_the_tail_is_bounded() -> None:
    taken, offered = rate_plots([Rate(9, 9), *[Rate(4, 0)] * 4, *[Rate(1, 2)] * 4])
    assert '<td>4 s ago</td><td class="figure">4</td>' in taken
    assert '<td>now</td><td class="figure">2</td>' in offered and "8 s ago" not in taken

    heads = tuple(
        MessageHead(
            number=n,
            at=AT,
            topic="t",
            source="?",
            destination=(),
            session_id="s",
            bytes=1,
        )
        for n in range(MOST_HEADS + 20)
    )
    status = BusStatus(
        bridge="b", since=AT, at=AT, hub="", gateway="", known=0, participants=(), rates=(), outcomes=(),
        hub_ignored={}, links=(), tail=heads,
    )  # fmt: skip
    shown = shown_heads(status, until=None)
    assert [one.head.number for one in shown[:2]] == [MOST_HEADS + 19, MOST_HEADS + 18]
    assert len(shown) == MOST_HEADS and shown[0].destination == "all"
    assert shown_heads(status, until=3)[0].head.number == 3
