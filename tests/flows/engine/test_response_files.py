"""Awkward moments and awkward files: an answer before the exit, other versions, enormous answers, calls in calls."""

from __future__ import annotations

import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from bridgehead.flows import AskFailed, Context, Flow, RunInputs, RunRequest, run_flow
from bridgehead.flows.calls import Reply
from bridgehead.flows.interfaces import Announcer, OpenRequest
from bridgehead.flows.operations.respond import RespondRequest, respond
from flows.conftest import FlowProject
from flows.support.flow_processes import BRIDGEHEAD, shell_in

MIB = 1024 * 1024


def one(ctx: Context) -> Any:
    try:
        return ctx.ask("one", agent="a", prompt="How many?")
    except AskFailed as error:
        return error.failure.reason


ONE = Flow("one", "1", one)


def test_an_answer_that_comes_before_the_exit_is_found_at_the_next_resume(
    flow_project: FlowProject,
) -> None:
    class Quick(Announcer):
        def asked(self, request: OpenRequest) -> None:
            flow_project.answer("at once")

    inputs = RunInputs(clock=flow_project.clock, announcer=Quick())
    assert run_flow(ONE, RunRequest(root=flow_project.root), inputs).pause is not None
    assert flow_project.response_path.exists()
    done = flow_project.resume(ONE)
    assert (done.actions, done.result) == (("accept",), "at once")


@pytest.mark.parametrize(
    ("members", "result"),
    [
        ({"version": "1.1", "mood": "sunny"}, "yes"),
        ({"version": "1.0", "mood": "sunny"}, "VALIDATION_ERROR"),
        ({"version": "2.0"}, "VALIDATION_ERROR"),
        ({"version": "1.0", "error_message": None, "metadata": None}, "yes"),
        ({"version": "1.0", "request_id": None}, None),
    ],
    ids=["a newer minor", "an unknown key", "another major", "nulls", "no id"],
)
def test_a_response_of_another_make_is_read_or_refused_by_rule(
    flow_project: FlowProject, members: dict[str, Any], result: str | None
) -> None:
    flow_project.run(ONE)
    response = {**flow_project.answer("yes"), **members}
    flow_project.put_response(json.dumps(response).encode())
    assert flow_project.resume(ONE).result == result


def test_a_hundred_megabytes_are_put_away_unread(flow_project: FlowProject) -> None:
    flow_project.run(ONE)
    flow_project.response_path.touch()
    os.truncate(flow_project.response_path, 100 * MIB)
    os.utime(flow_project.response_path, (0, 0))
    tracemalloc.start()
    try:
        assert flow_project.resume(ONE).actions == ("rejected:malformed", "wait")
        assert tracemalloc.get_traced_memory()[1] < 2 * MIB
    finally:
        tracemalloc.stop()
    assert flow_project.rejected()[0].stat().st_size == 100 * MIB


def test_an_answer_that_no_response_file_may_hold_is_refused_by_respond(
    tmp_path: Path,
) -> None:
    shell = shell_in(tmp_path)
    run_flow(ONE, RunRequest(root=shell.root))
    refused = shell.flow("respond", "--response-file", "-", stdin="x" * (17 * MIB))
    assert (refused.code, refused.out) == (1, "")
    assert "larger than 16 MiB" in refused.err
    assert not (shell.root / ".agent-response.json").exists()


def test_settings_say_how_large_the_files_may_be(tmp_path: Path) -> None:
    shell = shell_in(tmp_path)
    run_flow(ONE, RunRequest(root=shell.root))
    settings = shell.root / "bridgehead.toml"
    settings.write_text("[flows]\nresponse_mib = 0.001\n")
    refused = shell.flow("respond", "--response", "x" * 1100)
    assert (refused.code, refused.out) == (1, "")
    assert "1048 bytes" in refused.err

    settings.write_text("[flows]\nresponse_mib = 0\n")
    unusable = shell.flow("respond", "--response", "x")
    assert (unusable.code, unusable.out) == (1, "")
    assert "flows.response_mib must be more than 0" in unusable.err
    assert not (shell.root / ".agent-response.json").exists()

    settings.write_text("[flows]\nresponse_mib = 17\n")
    assert "larger than 16 MiB" in (
        shell.flow("respond", "--response-file", "-", stdin="x" * (16 * MIB + 1)).err
    ), "an untrusted project only lowers the limit"
    assert shell.run(str(BRIDGEHEAD), "config", "trust").code == 0
    assert (
        shell.flow("respond", "--response-file", "-", stdin="x" * (16 * MIB + 1)).code
        == 0
    )


def child(ctx: Context, name: str) -> str:
    first = ctx.ask("first", agent="a", prompt=f"first of {name}")
    return (
        f"{name}: {first}, {ctx.ask('second', agent='a', prompt=f'second of {name}')}"
    )


CHILD = Flow("child", "1", child)


def test_flows_inside_branches_wait_side_by_side_and_may_be_answered_backwards(
    flow_project: FlowProject,
) -> None:
    parent = Flow(
        "parent",
        "1",
        lambda ctx: ctx.map(
            "each", lambda c, n: c.call(CHILD, name=n), ["x", "y", "z"]
        ),
    )
    asked: list[str] = []

    class Listening(Announcer):
        def asked(self, request: OpenRequest) -> None:
            asked.append(str(request.request["request_id"]))

    inputs = RunInputs(clock=flow_project.clock, announcer=Listening())

    def step(**flags: Any) -> Any:
        asked.clear()
        return run_flow(parent, RunRequest(root=flow_project.root, **flags), inputs)

    paused = step()
    assert (len(asked), paused.pause.outstanding) == (3, 3)
    for number, request_id in enumerate(reversed(asked)):
        respond(
            RespondRequest(
                flow_project.root, Reply(text=f"answer {number}"), request_id
            )
        )
    paused = step(resume=True)
    assert paused.pause.outstanding == 3
    for request_id in list(asked):
        respond(RespondRequest(flow_project.root, Reply(text="same"), request_id))
    assert step(resume=True).result == [
        "x: answer 2, same",
        "y: answer 1, same",
        "z: answer 0, same",
    ]
    assert flow_project.files() == set()
