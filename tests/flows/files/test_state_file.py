"""Flows of phases that keep the published state file: with a journal, and with the files alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bridgehead.flows import Flow, RunOptions, TemplateCreateState
from bridgehead.flows.engine.context import PhasedContext
from bridgehead.flows.errors import (
    FlowFailed,
    FlowMistake,
    IncompatibleFlow,
    NoCheckpoint,
    OtherRun,
    StateCorrupt,
    StateInvalid,
    UnsafePath,
)
from bridgehead.flows.operations.cancel import cancel
from bridgehead.flows.words import STATE_FILE

PROMPT = "Describe the project. " * 10
DONE: list[str] = []


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    DONE.clear()


def analyse(ctx: PhasedContext) -> dict[str, Any]:
    DONE.append("analyse")
    answer = ctx.ask("codebase_analysis", agent="architectural-reviewer", prompt=PROMPT)
    ctx.remember("existing_agents", {"global": ["a"]})
    return {"said": answer}


def enhance(ctx: PhasedContext) -> list[str]:
    DONE.append("enhance")
    asks = [f"{PROMPT}{number}" for number in range(2)]
    return [
        ctx.ask(
            "agent_enhancement",
            agent="agent-content-enhancer",
            prompt=prompt,
            timeout=300,
        )
        for prompt in asks
    ]


def create(
    ctx: PhasedContext,
    output_path: str,
    project_path: str = "",
    template_name: str = "",
) -> list[Any]:
    analysis = ctx.phase(
        1,
        "codebase_analysis",
        analyse,
        key="codebase_analysis",
        summary=lambda a: a["said"],
    )
    manifest = ctx.phase(
        2,
        "manifest_generation",
        lambda _: DONE.append("manifest") or analysis,
        key="manifest",
    )
    texts = ctx.phase(7, "agent_enhancement", enhance)
    ctx.phase(9, "package_assembly", lambda _: DONE.append("package"))
    return [analysis, manifest, texts]


CREATE = Flow("template-create", "1", create, keeps_state_file=True)


@pytest.fixture
def settings(flow_project: Any) -> dict[str, Any]:
    return {
        "given": {
            "output_path": str(flow_project.root / "out"),
            "template_name": "demo-api",
        }
    }


def state(flow_project: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((flow_project.root / STATE_FILE).read_bytes())
    return document


def forget_journal(flow_project: Any) -> None:
    shutil.rmtree(flow_project.private)


def statuses(flow_project: Any) -> list[str]:
    return [item["status"] for item in state(flow_project)["agent_requests"]]


def test_the_state_names_its_pending_request_and_validates(
    flow_project: Any, settings: dict[str, Any]
) -> None:
    flow_project.run(CREATE, **settings)
    found = state(flow_project)
    assert TemplateCreateState.validate(found) == []
    assert found["phase_data"]["_pending_request"] == flow_project.request()
    assert flow_project.request()["version"] == "1.0"
    assert flow_project.request()["context"]["template_name"] == "demo-api"
    (item,) = found["agent_requests"]
    assert item["status"] == "pending" and item["deadline"] == "2026-11-15T10:17:02Z"
    assert list(found)[:6] == [
        "version",
        "phase",
        "phase_name",
        "checkpoint_name",
        "created_at",
        "output_path",
    ]


@pytest.mark.parametrize(
    "lose", [False, True], ids=["with the journal", "with the files alone"]
)
def test_the_whole_run_pauses_at_each_ask_and_ends_clean(
    flow_project: Any, settings: dict[str, Any], lose: bool
) -> None:
    flow_project.run(CREATE, **settings)
    for answer in ("one", "two", "three"):
        if lose:
            forget_journal(flow_project)
        flow_project.answer(answer)
        last = flow_project.resume(CREATE)
    said = {"said": "one"}
    assert (last.result, last.exit_code) == ([said, said, ["two", "three"]], 0)
    assert flow_project.files() == set()
    # A finished phase is never run again, an unfinished one only up to its next ask.
    assert DONE == [
        "analyse",
        "analyse",
        "manifest",
        "enhance",
        "enhance",
        "enhance",
        "package",
    ]


def test_the_files_alone_keep_the_questions_of_one_phase_apart(
    flow_project: Any, settings: dict[str, Any]
) -> None:
    flow_project.run(CREATE, **settings)
    prompts = []
    for answer in ("one", "two", "three"):
        forget_journal(flow_project)
        prompts.append(flow_project.request()["prompt"])
        flow_project.answer(answer)
        flow_project.resume(CREATE)
    assert prompts == [PROMPT, f"{PROMPT}0", f"{PROMPT}1"]


def test_finished_phases_are_in_the_state_for_readers_of_the_file(
    flow_project: Any, settings: dict[str, Any]
) -> None:
    flow_project.run(CREATE, **settings)
    flow_project.answer("one")
    flow_project.resume(CREATE)
    found = state(flow_project)
    assert (found["phase"], found["phase_name"]) == (7, "agent_enhancement")
    assert [
        (done["phase"], done["result_summary"]) for done in found["completed_phases"]
    ] == [(1, "one"), (2, "")]
    assert {key for key in found["phase_data"] if not key.startswith("_")} == {
        *("codebase_analysis", "manifest", "existing_agents")
    }
    assert statuses(flow_project) == ["completed", "pending"]


def test_an_answer_of_an_unfinished_phase_is_not_asked_for_again(
    flow_project: Any, settings: dict[str, Any]
) -> None:
    flow_project.run(CREATE, **settings)
    for answer in ("one", "two"):
        flow_project.answer(answer)
        flow_project.resume(CREATE)
    forget_journal(flow_project)
    flow_project.answer("three")
    assert flow_project.resume(CREATE).result[2] == ["two", "three"]


def test_history_is_kept_through_retries_and_late_answers(
    flow_project: Any, settings: dict[str, Any]
) -> None:
    flow_project.run(CREATE, **settings)
    first = flow_project.request()["request_id"]
    flow_project.answer(None, status="timeout")
    flow_project.resume(CREATE)
    assert statuses(flow_project) == ["superseded", "pending"]
    assert state(flow_project)["agent_requests"][0]["error_type"] == "TIMEOUT"
    forget_journal(flow_project)
    flow_project.answer("late", request_id=first)
    flow_project.resume(CREATE)
    assert statuses(flow_project) == [
        "completed",
        "superseded_by_late_answer",
        "pending",
    ]
    assert "error_type" not in state(flow_project)["agent_requests"][0]


def test_a_crash_between_journal_and_state_file_is_repaired_on_resume(
    flow_project: Any, settings: dict[str, Any]
) -> None:
    flow_project.run(CREATE, **settings)
    behind = (flow_project.root / STATE_FILE).read_bytes()
    flow_project.answer("one")
    flow_project.resume(CREATE)
    pending = flow_project.request()
    (flow_project.root / STATE_FILE).write_bytes(behind)

    assert flow_project.resume(CREATE).actions == ("wait",)
    assert flow_project.request() == pending
    assert [done["phase"] for done in state(flow_project)["completed_phases"]] == [1, 2]
    assert statuses(flow_project) == ["completed", "pending"]


def test_files_left_by_a_crash_after_the_end_are_cleared_away(
    flow_project: Any, settings: dict[str, Any]
) -> None:
    flow_project.run(CREATE, **settings)
    for answer in ("one", "two"):
        flow_project.answer(answer)
        flow_project.resume(CREATE)
    last_state = (flow_project.root / STATE_FILE).read_bytes()
    flow_project.answer("three")
    flow_project.resume(CREATE)
    (flow_project.root / STATE_FILE).write_bytes(last_state)
    assert flow_project.resume(CREATE).actions == ("already_complete",)
    assert flow_project.files() == set()


def test_a_state_of_the_old_days_without_our_notes_can_be_resumed(
    flow_project: Any,
) -> None:
    """The published example: nothing pending, phase 7 not yet asked, the journal unknown."""
    example = {
        "version": "1.0",
        "phase": 7,
        "phase_name": "agent_enhancement",
        "checkpoint_name": "before_agent_invocation",
        "created_at": "2025-11-18T10:30:00Z",
        "output_path": str(flow_project.root / "out"),
        "project_path": None,
        "phase_data": {"codebase_analysis": {"said": "before"}},
        "completed_phases": [{"phase": 1}],
        "agent_requests": [{"request_id": "anything", "status": "completed"}],
    }
    (flow_project.root / STATE_FILE).write_text(json.dumps(example))
    paused = flow_project.resume(CREATE)
    # The manifest is missing, so the run goes on there.
    assert (paused.actions, DONE) == (("continue",), ["manifest", "enhance"])
    assert state(flow_project)["agent_requests"][0]["request_id"] == "anything"


def test_stopping_keeps_the_state_with_the_reason(
    flow_project: Any, settings: dict[str, Any]
) -> None:
    flow_project.run(CREATE, **settings)
    flow_project.answer(None, status="cancelled")
    with pytest.raises(FlowFailed) as failed:
        flow_project.resume(CREATE)
    kept = json.loads((failed.value.post_mortem / STATE_FILE).read_bytes())
    assert kept["agent_requests"][0]["status"] == "cancelled"
    assert "_pending_request" not in kept["phase_data"]


def test_cancelling_from_outside_is_noted_in_the_state(
    flow_project: Any, settings: dict[str, Any]
) -> None:
    run = flow_project.run(CREATE, **settings)
    done = cancel(flow_project.root, run.flow_id)
    kept = json.loads((done.post_mortem / STATE_FILE).read_bytes())
    assert kept["agent_requests"][0]["status"] == "cancelled"
    with pytest.raises(NoCheckpoint):
        flow_project.resume(CREATE)


def test_another_run_is_refused_and_nothing_is_touched(
    flow_project: Any, settings: dict[str, Any]
) -> None:
    flow_project.run(CREATE, **settings)
    before = state(flow_project)
    other = {"given": {**settings["given"], "template_name": "other"}}
    for request in ({}, {"resume": True}):
        with pytest.raises(OtherRun, match="other"):
            flow_project.run(CREATE, **request, **other)
    with pytest.raises(OtherRun, match="template-create"):
        flow_project.run(Flow("other", "1", lambda ctx: None))
    assert state(flow_project) == before


def test_a_plain_flow_does_not_start_beside_a_state_file(
    flow_project: Any, settings: dict[str, Any]
) -> None:
    flow_project.run(CREATE, **settings)
    forget_journal(flow_project)
    with pytest.raises(OtherRun, match="template-create"):
        flow_project.run(Flow("other", "1", lambda ctx: None))


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"phase": 12}, StateInvalid),
        ({"output_path": "relative"}, UnsafePath),
        ({"output_path": "/etc/cron.d"}, UnsafePath),
        ({"output_path": "ROOT"}, UnsafePath),
        ({"output_path": "ROOT/../elsewhere"}, UnsafePath),
        ({"output_path": "ROOT/link/out"}, UnsafePath),
        ({"output_path": "ROOT/.git/hooks"}, UnsafePath),
        ({"output_path": "ROOT/a\u0000b"}, UnsafePath),
        ({"output_path": "ROOT/a\nb"}, UnsafePath),
        ({"project_path": "/somewhere/else"}, UnsafePath),
        ({"agent_requests": [{"status": "pending", "request_id": "x"}]}, StateInvalid),
    ],
)
def test_a_state_that_was_tampered_with_is_refused_untouched(
    flow_project: Any,
    settings: dict[str, Any],
    change: dict[str, Any],
    refusal: type[Exception],
) -> None:
    flow_project.run(CREATE, **settings)
    forget_journal(flow_project)
    (flow_project.root / "link").symlink_to("/etc")
    real = {
        k: v.replace("ROOT", str(flow_project.root)) if isinstance(v, str) else v
        for k, v in change.items()
    }
    (flow_project.root / STATE_FILE).write_text(
        json.dumps({**state(flow_project), **real})
    )
    before = (flow_project.root / STATE_FILE).read_bytes()
    with pytest.raises(refusal):
        flow_project.resume(CREATE)
    assert (flow_project.root / STATE_FILE).read_bytes() == before


def test_an_output_outside_is_fine_where_the_user_named_it(
    flow_project: Any, tmp_path: Path
) -> None:
    outside = {"given": {"output_path": str(tmp_path / "elsewhere")}}
    flow_project.run(CREATE, **outside)
    assert flow_project.resume(CREATE).actions == ("wait",)
    forget_journal(flow_project)
    with pytest.raises(UnsafePath):
        flow_project.resume(CREATE)
    assert flow_project.resume(CREATE, **outside).actions == ("wait",)
    forget_journal(flow_project)
    assert flow_project.resume(CREATE, output_directories=(tmp_path,)).actions == (
        "wait",
    )


def test_a_state_that_cannot_be_read_is_refused_untouched(
    flow_project: Any, tmp_path: Path
) -> None:
    path = flow_project.root / STATE_FILE
    (tmp_path / "real").write_text("{}")
    for make in (
        lambda: path.write_bytes(b'{"version"'),
        lambda: path.symlink_to(tmp_path / "real"),
        lambda: path.mkdir(),
        lambda: path.hardlink_to(tmp_path / "real"),
    ):
        make()
        with pytest.raises(StateCorrupt):
            flow_project.resume(CREATE)
        assert path.is_symlink() or path.exists()
        path.rmdir() if path.is_dir() else path.unlink()


def test_the_version_is_checked_by_the_file_alone_too(
    flow_project: Any, settings: dict[str, Any]
) -> None:
    flow_project.run(CREATE, **settings)
    forget_journal(flow_project)
    newer = Flow("template-create", "2", create, keeps_state_file=True)
    with pytest.raises(IncompatibleFlow):
        flow_project.resume(newer)
    assert flow_project.resume(newer, force_version=True).actions == ("wait",)


def test_options_stay_with_a_run_restored_from_its_file(
    flow_project: Any, settings: dict[str, Any]
) -> None:
    flow_project.run(CREATE, options=RunOptions(max_retries=0), **settings)
    forget_journal(flow_project)
    flow_project.answer(None, status="timeout")
    with pytest.raises(FlowFailed, match="TIMEOUT"):
        flow_project.resume(CREATE)


def test_a_flow_with_a_state_file_needs_an_output_path(flow_project: Any) -> None:
    with pytest.raises(FlowMistake, match=r"--output-path|output_path"):
        flow_project.run(CREATE)
