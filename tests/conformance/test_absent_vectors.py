"""With other vectors, or fewer, whatever is absent is a visible skip that names it: never an error, never a pass."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.vector_files import REPOSITORY

VECTORS = REPOSITORY / "tests" / "vectors"
SUITE = [
    f"tests/conformance/test_{name}.py"
    for name in ("bus", "council", "flows", "rigs", "rigs_cli", "runtimes")
]


def outcome(vectors: Path, *chosen: str) -> tuple[int, str]:
    """Exit code and report of the conformance tests over these vectors."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            *(chosen or SUITE),
        ],
        cwd=REPOSITORY,
        env={**os.environ, "BRIDGEHEAD_VECTORS": str(vectors), "PYTEST_ADDOPTS": ""},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def skips(report: str) -> set[str]:
    """What the report calls absent."""
    return set(re.findall(r"no vector ((?:file|folder) \S+)", report))


@pytest.mark.slow
def test_an_empty_folder_is_nothing_but_skips(tmp_path: Path) -> None:
    code, report = outcome(tmp_path)
    assert code == 0, report
    assert re.fullmatch(r"\d+ skipped in .*", report.splitlines()[-1])
    assert skips(report) >= {
        "folder bus",
        "folder council",
        "folder flows",
        "file runtimes/index.json",
    }
    assert skips(report) >= {
        f"file {path.relative_to(VECTORS)}" for path in VECTORS.glob("[bcf]*/*.json")
    }
    assert skips(report) >= {
        f"file rigs/{name}.json"
        for name in ("body_hash", "cli", "render", "envelopes/cases")
    }


@pytest.mark.slow
def test_a_part_without_some_of_its_files_skips_exactly_those(tmp_path: Path) -> None:
    shutil.copytree(VECTORS, tmp_path / "vectors")
    recording = json.loads((VECTORS / "runtimes" / "index.json").read_bytes())["files"][
        0
    ]["file"]
    envelope = json.loads((VECTORS / "rigs" / "envelopes" / "cases.json").read_bytes())[
        "cases"
    ][0]["file"]
    gone = {
        "bus/health.json",
        "council/dedupe.json",
        "flows/mock.json",
        "flows/agent-request.schema.json",
        "rigs/render.json",
        f"rigs/envelopes/{envelope}",
        f"runtimes/{recording}",
    }
    for name in gone:
        (tmp_path / "vectors" / name).unlink()
    code, report = outcome(
        tmp_path / "vectors", *(file for file in SUITE if "rigs_cli" not in file)
    )
    assert code == 0, report
    assert skips(report) == {f"file {name}" for name in gone}
