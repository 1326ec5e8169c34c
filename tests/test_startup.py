"""Quick commands stay quick because they import little (design §8); figures come from bench/."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {
    "asyncio",
    "msgspec",
    "rich",
    "yaml",
    "click",
    "httpx",
    "anyio",
    "json",
    "typing",
    "dataclasses",
}


def imported_by(arguments: list[str], home: Path) -> set[str]:
    """The modules a command has imported when it ends."""
    probe = (
        "import sys, atexit\n"
        "atexit.register(lambda: sys.stderr.write('\\n'.join(m for m in sys.modules)))\n"
        f"sys.argv = ['bridgehead', *{arguments!r}]\n"
        "from bridgehead.cli import main\n"
        "main()\n"
    )
    environ = {**os.environ, "BRIDGEHEAD_HOME": str(home), "HOME": str(home)}
    done = subprocess.run([sys.executable, "-S", "-c", "import site; site.main()\n" + probe], env=environ, cwd=home,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {name.split(".")[0] for name in done.stderr.split()}


def test_version_imports_no_library_at_all(tmp_path: Path) -> None:
    bare = imported_by(["--version"], tmp_path)

    # `site` of a development install may import typing for other packages; ours must not add any of these.
    assert bare & (HEAVY - {"typing"}) == set()


@pytest.mark.parametrize(
    "arguments", [["pending"], ["events"], ["config", "show"], ["--help"]]
)
def test_quick_commands_never_import_what_only_servers_and_councils_need(
    arguments: list[str], tmp_path: Path
) -> None:
    assert (
        imported_by(arguments, tmp_path)
        & {"asyncio", "rich", "yaml", "httpx", "anyio", "psycopg", "jinja2"}
        == set()
    )


def test_doctor_starts_no_library_that_only_other_commands_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no AI program is installed; one that is there is run with all that keeps it within limits."""
    git = shutil.which("git")
    assert git is not None
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "git").symlink_to(git)
    monkeypatch.setenv("PATH", str(tmp_path / "tools"))
    assert (
        imported_by(["doctor", "--json"], tmp_path)
        & {"asyncio", "rich", "httpx", "anyio", "psycopg", "jinja2"}
        == set()
    )
