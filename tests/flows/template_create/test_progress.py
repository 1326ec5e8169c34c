"""What a person sees of a run: a line for each phase on a terminal, nothing anywhere else."""

from __future__ import annotations

import io

import pytest

from bridgehead.flows.template_create.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_one_line_for_each_phase(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(
        "bridgehead.flows.template_create.progress.width", lambda _stream: 80
    )
    screen = Terminal()
    progress = Progress(screen)
    progress.finished(3, "settings_generation", "2 layers mapped")
    progress.finished(4, "template_generation", "20 templates\x1b[2J\nof " + "x" * 200)

    settings, templates = screen.getvalue().splitlines()

    assert settings == "template-create 3/9 settings generation: 2 layers mapped"
    assert templates.startswith("template-create 4/9 template generation: 20 templates")
    assert len(templates) < 80 and "\x1b[2J" not in templates


@pytest.mark.parametrize(
    "stream", [io.StringIO(), Terminal()], ids=["a pipe", "a dumb terminal"]
)
def test_nothing_is_written_where_nobody_watches(
    stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    Progress(stream).finished(1, "codebase_analysis", "Python")
    assert stream.getvalue() == ""
