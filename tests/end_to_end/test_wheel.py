"""What people install: the wheel holds every file of the package, and its commands run from it alone."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = (
        "import os, hatchling.build as b; print(b.build_wheel(os.environ['TARGET']))"
    )
    subprocess.run(
        [sys.executable, "-c", build],
        cwd=REPOSITORY,
        env={**os.environ, "TARGET": str(folder)},
        check=True,
        capture_output=True,
    )
    [built] = folder.glob("*.whl")
    return built


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    listed = subprocess.run(
        [
            "git",
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
            "--",
            "src/bridgehead",
        ],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    tracked = {
        name.removeprefix("src/")
        for name in listed
        if name and (REPOSITORY / name).exists()
    }

    inside = {
        name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name
    }

    assert inside == tracked


def test_a_review_runs_from_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)
    project = tmp_path / "project"
    project.mkdir()
    (project / "calculator.py").write_text("def run(text):\n    return eval(text)\n")
    run = "import sys, bridgehead; print(bridgehead.__file__, file=sys.stderr); from bridgehead.cli import main; main()"
    environ = {
        **os.environ,
        "PYTHONPATH": str(installed),
        "HOME": str(tmp_path),
        "BRIDGEHEAD_HOME": str(tmp_path / "h"),
    }

    done = subprocess.run(
        [
            sys.executable,
            "-c",
            run,
            "council",
            "review",
            "--runtime",
            "static",
            "calculator.py",
        ],
        cwd=project,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert str(installed) in done.stderr
    assert "calculator.py:2" in done.stdout
