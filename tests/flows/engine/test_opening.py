"""Which run a command is about: the paused one, none or another, with the state file as anybody may have left it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridgehead.flows import Context, Flow, RunInputs, RunOptions, RunRequest, run_flow
from bridgehead.flows.engine.context import PhasedContext
from bridgehead.flows.errors import (
    NoCheckpoint,
    OtherRun,
    StateInvalid,
    UnsafePath,
    UnsupportedVersion,
)
from bridgehead.flows.files.root import FlowRoot
from bridgehead.flows.journals.sqlite import SqliteJournal
from bridgehead.flows.words import STATE_FILE, RunStatus

PROMPT = "Describe the project. " * 10


def create(ctx: PhasedContext, output_path: str, project_path: str = "") -> Any:
    return ctx.phase(
        1,
        "codebase_analysis",
        lambda inner: inner.ask(
            "codebase_analysis", agent="architectural-reviewer", prompt=PROMPT
        ),
    )


def one_question(ctx: Context) -> Any:
    return ctx.ask("q", agent="a", prompt="?")


CREATE = Flow("template-create", "1", create, keeps_state_file=True)
ONE = Flow("demo", "1", one_question)


def start(flow_project: Any) -> Any:
    return flow_project.run(
        CREATE, given={"output_path": str(flow_project.root / "out")}
    )


def change_state(flow_project: Any, **members: Any) -> None:
    path = flow_project.root / STATE_FILE
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **members}))


def test_the_end_of_another_flow_is_not_taken_for_ones_own(flow_project: Any) -> None:
    flow_project.run(Flow("other", "1", lambda ctx: "done"))
    with pytest.raises(NoCheckpoint):
        flow_project.resume(ONE)


@pytest.mark.parametrize(
    "options",
    [RunOptions(heuristics_only=True), RunOptions(max_retries=0)],
    ids=["an opt-out", "a limit"],
)
def test_what_a_run_began_without_cannot_be_slipped_in_on_resume(
    flow_project: Any, options: RunOptions
) -> None:
    flow_project.run(ONE)
    with pytest.raises(OtherRun):
        flow_project.resume(ONE, options=options)
    assert flow_project.resume(ONE, options=RunOptions(max_retries=2)).actions == (
        "wait",
    )


def test_two_spellings_of_one_path_do_not_make_another_run(flow_project: Any) -> None:
    start(flow_project)
    change_state(
        flow_project,
        project_path=f"{flow_project.root}/",
        output_path=f"{flow_project.root}//out",
    )
    given = {
        "output_path": str(flow_project.root / "out"),
        "project_path": str(flow_project.root),
    }
    assert flow_project.run(CREATE, given=given).actions == ("wait",)


@pytest.mark.parametrize("named", [".", "\ud800", "/\ud800", "/a\0b"])
def test_a_state_of_no_nameable_project_is_refused(
    flow_project: Any, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    start(flow_project)
    change_state(flow_project, project_path=named)
    monkeypatch.chdir(flow_project.root)
    with pytest.raises(UnsafePath):
        flow_project.resume(CREATE)


def test_a_folder_with_an_invisible_character_in_its_name_can_be_resumed(
    tmp_path: Path,
) -> None:
    root = tmp_path / "a\u00a0b\u200d"
    root.mkdir()
    request = RunRequest(root, given={"output_path": str(root / "out")})
    run_flow(CREATE, request, RunInputs())
    assert run_flow(CREATE, request._replace(resume=True), RunInputs()).actions == (
        "wait",
    )


@pytest.mark.parametrize(
    "noted",
    [
        {"id": "\ud800"},
        {"input": {"_options": "none"}},
        {"input": {"_options": {"max_retries": "x", "heuristics_only": "yes"}}},
    ],
)
def test_notes_in_a_state_that_make_no_sense_are_passed_over(
    flow_project: Any, noted: dict[str, Any]
) -> None:
    start(flow_project)
    data = json.loads((flow_project.root / STATE_FILE).read_bytes())["phase_data"]
    change_state(flow_project, phase_data={**data, "_flow": noted})
    assert flow_project.resume(CREATE).actions == ("wait",)


@pytest.mark.parametrize(
    "odd",
    [
        {"resumes": 10**30},
        {"error_type": {"kind": "TIMEOUT"}},
        {"error_type": "\ud800"},
        {"request_id": "\ud800"},
    ],
)
def test_odd_members_of_open_items_in_a_state_do_no_harm(
    flow_project: Any, odd: dict[str, Any]
) -> None:
    start(flow_project)
    shutil.rmtree(flow_project.private)
    (item,) = json.loads((flow_project.root / STATE_FILE).read_bytes())[
        "agent_requests"
    ]
    old = {
        **item,
        "status": "superseded",
        "request_id": "0f8b2c1e-6a57-4d0e-9b1c-2f6d7a8e9c01",
        **odd,
    }
    change_state(flow_project, agent_requests=[old, item])
    assert flow_project.resume(CREATE).actions == ("wait",)
    assert flow_project.resume(CREATE).actions == ("wait",)


def test_a_process_that_died_while_failing_leaves_files_to_bury_not_to_delete(
    flow_project: Any,
) -> None:
    paused = start(flow_project)
    with SqliteJournal(flow_project.private / "journal.db") as journal:
        journal.end(paused.flow_id, RunStatus.FAILED, at="2026-11-15T10:15:02Z")
    with pytest.raises(NoCheckpoint):
        flow_project.resume(CREATE)
    (folder,) = flow_project.post_mortems()
    assert {path.name for path in folder.iterdir()} == {
        STATE_FILE,
        ".agent-request.json",
    }
    assert flow_project.files() == set()


def test_a_request_of_another_major_version_is_left_alone(flow_project: Any) -> None:
    flow_project.run(ONE)
    newer = json.dumps({**flow_project.request(), "version": "2.0"}).encode()
    flow_project.request_path.write_bytes(newer)
    with pytest.raises(UnsupportedVersion):
        flow_project.resume(ONE)
    assert flow_project.request_path.read_bytes() == newer
    flow_project.answer("yes")
    assert flow_project.resume(ONE).result == "yes"


def two_phases(
    ctx: PhasedContext, output_path: str, project_path: str = ""
) -> list[Any]:
    def ask(name: str) -> Callable[[PhasedContext], Any]:
        return lambda inner: inner.ask(
            name, agent="architectural-reviewer", prompt=PROMPT
        )

    return [
        ctx.phase(
            1,
            "codebase_analysis",
            ask("codebase_analysis"),
            key="codebase_analysis",
            result=str,
        ),
        ctx.phase(5, "agent_recommendation", ask("agent_creation"), key="agents"),
    ]


TWO = Flow("template-create", "1", two_phases, keeps_state_file=True)


@pytest.fixture
def in_the_second_phase(flow_project: Any) -> None:
    """Paused there, and the journal is lost."""
    flow_project.run(TWO, given={"output_path": str(flow_project.root / "out")})
    flow_project.answer("first")
    flow_project.resume(TWO)
    shutil.rmtree(flow_project.private)


@pytest.mark.usefixtures("in_the_second_phase")
def test_a_restore_that_was_refused_half_way_is_a_restore_the_next_time_too(
    flow_project: Any,
) -> None:
    ours = flow_project.request_path.read_bytes()
    flow_project.request_path.write_text(
        json.dumps({**flow_project.request(), "version": "2.0"})
    )
    with pytest.raises(UnsupportedVersion):
        flow_project.resume(TWO)
    flow_project.request_path.write_bytes(ours)
    flow_project.answer("second")
    assert flow_project.resume(TWO).result == ["first", "second"]


@pytest.mark.usefixtures("in_the_second_phase")
def test_a_result_in_a_state_that_is_not_what_the_phase_makes_is_refused(
    flow_project: Any,
) -> None:
    data = json.loads((flow_project.root / STATE_FILE).read_bytes())["phase_data"]
    change_state(flow_project, phase_data={**data, "codebase_analysis": 5})
    before = (flow_project.root / STATE_FILE).read_bytes()
    for _ in range(2):
        with pytest.raises(
            StateInvalid, match="phase_data/codebase_analysis: 5 is not a str"
        ):
            flow_project.resume(TWO)
    assert (flow_project.root / STATE_FILE).read_bytes() == before


def test_a_request_of_a_stranger_is_written_again_and_that_is_said(
    flow_project: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    flow_project.run(ONE)
    monkeypatch.setattr(FlowRoot, "allowed_owners", frozenset({os.geteuid() + 1}))
    assert flow_project.resume(ONE).actions == ("reissue",)
    assert "foreign_owner" in caplog.text


@pytest.mark.parametrize(
    "key", ["release-{tag}", lambda tag, dry=False: f"release-{tag}"]
)
def test_a_flow_that_names_its_own_key_is_one_run_for_the_same_settings(
    flow_project: Any, key: Any
) -> None:
    def work(ctx: Context, tag: str, dry: bool = False) -> str:
        return tag + str(ctx.ask("q", agent="a", prompt=tag))

    release = Flow("release", "1", work, id=key)
    first = flow_project.run(release, given={"tag": "v1"}, defaults={"dry": False})
    with pytest.raises(OtherRun, match="the run with the id 'release-v2'"):
        flow_project.run(release, given={"tag": "v2"})
    flow_project.answer("!")
    done = flow_project.resume(release, given={"tag": "v1"})
    again = flow_project.run(release, given={"tag": "v1"})
    assert (again.flow_id, again.result, again.actions) == (
        first.flow_id,
        "v1!",
        ("already_complete",),
    )
    assert done.flow_id == first.flow_id
    assert flow_project.run(release, given={"tag": "v2"}).flow_id != first.flow_id


def test_a_run_paused_before_its_flow_had_a_key_goes_on(flow_project: Any) -> None:
    def work(ctx: Context, tag: str) -> str:
        return tag + str(ctx.ask("q", agent="a", prompt=tag))

    flow_project.run(Flow("release", "1", work), given={"tag": "v1"})
    flow_project.answer("!")
    assert (
        flow_project.run(
            Flow("release", "1", work, id="{tag}"), given={"tag": "v1"}
        ).result
        == "v1!"
    )
