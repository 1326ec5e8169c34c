"""What a person sees of a run: one line in place on a terminal, nothing anywhere else."""

from __future__ import annotations

import io

import pytest

from bridgehead.flows.errors import log_warning
from bridgehead.flows.template_create.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_one_line_in_place_and_is_left_clean(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(
        "bridgehead.flows.template_create.progress.width", lambda _stream: 80
    )
    screen = Terminal()
    with Progress(screen) as progress:
        progress.entered(4, "template_generation")
        progress.finished(
            4, "template_generation", "20 templates\x1b[2J\nof " + "x" * 200
        )
    shown = screen.getvalue()
    assert "\n" not in shown and "\x1b[2J" not in shown
    entered, finished, gone = shown.removeprefix("\r\x1b[K").split("\r\x1b[K")
    assert "●●●○○○○○○" in entered and entered.endswith("4/9 template generation")
    assert "●●●●○○○○○" in finished and len(finished) < 80
    assert gone == ""


def test_a_warning_takes_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    screen = Terminal()
    with Progress(screen) as progress:
        progress.entered(1, "codebase_analysis")
        log_warning("an example file was dropped")
    assert "\r\x1b[Kan example file was dropped\n" in screen.getvalue()


@pytest.mark.parametrize(
    "stream", [io.StringIO(), Terminal()], ids=["a pipe", "a dumb terminal"]
)
def test_nothing_is_written_where_nobody_watches(
    stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with Progress(stream) as progress:
        progress.entered(1, "codebase_analysis")
    assert stream.getvalue() == ""
