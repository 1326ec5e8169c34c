"""The table of a running council: what it says about seats, and that it fits every terminal."""

from __future__ import annotations

import datetime as dt
import os

import pytest

from bridgehead.assembly.council.live import LiveCouncil, LiveSeat, picture_after
from bridgehead.cli.council.display import WatchLines, table_lines
from bridgehead.cli.output import App
from bridgehead.host.terminal import display_width

NOW = dt.datetime(2026, 11, 15, 10, 15, 41, tzinfo=dt.UTC)
AT = "2026-11-15T10:15:00.000Z"
FACTS = {
    "review_id": "k3v9qa",
    "scope": "src/\x1b[2J",
    "files": 34,
    "loc": 4120,
    "intensity": "standard",
    "domains": ["security", "testing"],
}
LINES = (
    ("claude", {"event": "bridge_start", "ts": AT}),
    (
        "claude",
        {
            "event": "asked",
            "round": 1,
            "step": "analysis",
            "agents": ["security", "testing", "challenger"],
        },
    ),
    (
        "claude",
        {
            "event": "agent_reply",
            "tokens_in": 17_000,
            "tokens_out": 1_200,
            "cost_usd": 0.25,
        },
    ),
    ("codex", {"event": "bridge_start", "ts": AT}),
    (
        "codex",
        {
            "event": "output",
            "id": "X001",
            "severity": "HIGH",
            "title": "t",
            "domain": "security",
            "round": 1,
        },
    ),
    (
        "codex",
        {
            "event": "bridge_complete",
            "status": "COMPLETED",
            "ts": "2026-11-15T10:15:22.000Z",
        },
    ),
    (
        "gemini",
        {
            "event": "bridge_complete",
            "status": "HALTED",
            "reason": "not_authenticated",
            "ts": AT,
        },
    ),
    (
        "opencode",
        {
            "event": "bridge_complete",
            "status": "SKIPPED",
            "reason": "cli_not_found",
            "ts": AT,
        },
    ),
    ("council", {"event": "seat_pending", "bridge": "rig:win-5080", "since": AT}),
)


def picture() -> LiveCouncil:
    names = ("claude", "codex", "gemini", "opencode", "rig:win-5080")
    shown = LiveCouncil(seats=tuple(LiveSeat(bridge=name) for name in names))
    for bridge, line in LINES:
        shown = picture_after(shown, bridge, line)
    return shown


def test_each_seat_says_what_it_is_doing_since_when_and_how_to_get_it_back() -> None:
    title, claude, codex, gemini, opencode, rig, hint = table_lines(
        "review", FACTS, picture(), NOW, 140
    )

    assert title.startswith(
        r"council k3v9qa  review of src/\x1b[2J (34 files, 4,120 lines)   standard   security, testing"
    )
    assert claude.split() == [
        "claude",
        "●○○",
        "round",
        "1",
        "1",
        "of",
        "3",
        "agents",
        "41",
        "s",
        "18.2k",
        "tokens",
        "$0.25",
    ]
    assert codex.split() == ["codex", "●", "done", "1", "finding", "22", "s"]
    assert "needs you  not logged in" in gemini
    assert gemini.endswith("later: bridgehead council resume k3v9qa --retry gemini")
    assert opencode.split() == ["opencode", "–", "skipped", "not", "installed"]
    assert rig.split() == [
        "rig:win-5080",
        "○",
        "asked",
        "waiting",
        "for",
        "its",
        "answer",
        "41",
        "s",
    ]
    assert hint.strip() == "Ctrl-C stops and keeps what is there"


@pytest.mark.parametrize("width", [20, 44, 80, 200])
def test_no_line_is_wider_than_the_terminal_and_no_seat_takes_two(width: int) -> None:
    lines = table_lines("review", FACTS, picture(), NOW, width)

    assert len(lines) == 7
    assert max(map(display_width, lines)) < width


def test_a_reader_of_the_events_who_goes_away_does_not_end_the_council() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stdout:
        watching = WatchLines(App(stdout=stdout))
        for event in ("council_start", "report"):
            watching.write({"event": event})
