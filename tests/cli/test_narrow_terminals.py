"""Lists on a terminal of 80 columns: they do not run over its edge, and no command one should type is cut."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from bridgehead.cli.output import App
from bridgehead.cli.tree import bridgehead, run_click

COLUMNS = 80


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(project: Path, *arguments: str) -> list[str]:
    """What a command prints on the terminal."""
    project.mkdir(exist_ok=True)
    home = str(project.parent / "home")
    environ = {
        "HOME": home,
        "BRIDGEHEAD_HOME": home,
        "PATH": "",
        "COLUMNS": str(COLUMNS),
        "NO_COLOR": "1",
    }
    app = App(cwd=project, environ=environ, stdout=Terminal(), stderr=io.StringIO())
    bridgehead.main(list(arguments), obj=app, standalone_mode=False)
    assert isinstance(app.stdout, Terminal)
    return app.stdout.getvalue().splitlines()


def test_what_would_seat_a_runtime_is_shown_whole(tmp_path: Path) -> None:
    lines = shown(tmp_path / "project", "runtimes")

    assert any(
        line.endswith("npm install -g @anthropic-ai/claude-code") for line in lines
    )


def test_a_list_of_councils_fits(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.py").write_text("import pickle\npickle.loads(b'')\n")
    shown(project, "council", "review", "a.py", "--runtime", "static")

    head, line = shown(project, "council", "list")

    assert head.split() == ["id", "since", "verdict", "state", "what"]
    assert "review of a.py" in line and len(line) <= COLUMNS


def test_without_a_command_a_terminal_is_greeted_and_a_pipe_gets_the_help(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "codex").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    for stdout, expected in (
        (Terminal(), "Agents found: codex\n"),
        (io.StringIO(), "Usage: bridgehead"),
    ):
        monkeypatch.setattr("sys.stdout", stdout)
        assert run_click([]) == 0
        assert expected in stdout.getvalue()
        assert (
            all(len(line) <= COLUMNS for line in stdout.getvalue().splitlines())
            or stdout.isatty() is False
        )
