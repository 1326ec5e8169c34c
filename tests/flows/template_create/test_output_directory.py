"""Where template-create runs, and where its package goes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from bridgehead.assembly.flows.recording import template_directories
from bridgehead.flows import RunInputs, RunResult
from bridgehead.flows.discovery import find_flow
from bridgehead.flows.errors import FlowMistake, UnsafePath
from bridgehead.flows.operations.run import resume_paused, run_with_options, split_words
from bridgehead.flows.words import STATE_FILE

CONFIGURED = RunInputs(output_directories=template_directories)


def create(*words: str, inputs: RunInputs | None = None) -> RunResult:
    flow, source = find_flow("template-create", Path.cwd())
    return run_with_options(flow, source, split_words(words), inputs)


def output_path(project: Path) -> str:
    return str(json.loads((project / STATE_FILE).read_bytes())["output_path"])


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "elsewhere"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


def test_the_project_is_the_root_wherever_the_command_is_given(
    project: Path, elsewhere: Path
) -> None:
    paused = create("--project", "../orderbook")
    assert paused.pause is not None
    assert paused.pause.request_file == project / ".agent-request.json"
    assert create("--project=../orderbook", "--resume").actions == ("wait",)
    with pytest.raises(FlowMistake, match="--project"):
        create("--project", "../orderbook", "--dir", ".")
    assert not list(elsewhere.iterdir())


def test_a_package_that_nobody_places_goes_to_the_configured_directory(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRIDGEHEAD_FLOWS_TEMPLATES", str(tmp_path / "shelf"))
    create("--project", str(project), "--name", "my-orders", inputs=CONFIGURED)
    assert output_path(project) == str(tmp_path / "shelf/my-orders")
    shutil.rmtree(project / ".bridgehead")
    assert resume_paused(
        split_words(["--dir", str(project)]), project, CONFIGURED
    ).actions == ("wait",)


def test_a_state_may_not_name_a_directory_that_is_not_configured(
    project: Path, tmp_path: Path
) -> None:
    create("--project", str(project), "--output", str(tmp_path / "shelf/x"))
    shutil.rmtree(project / ".bridgehead")
    with pytest.raises(UnsafePath):
        create("--project", str(project), "--resume", inputs=CONFIGURED)
