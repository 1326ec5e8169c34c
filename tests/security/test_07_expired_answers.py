"""Attack 7: an answer that was refused as expired is carried out by the next resume."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.installed import Machine, machine
from support.mcp_hosts import with_client

FLOW = """\
from bridgehead.flows import flow


@flow("pay", version="1")
def pay(ctx):
    outcome = ctx.ask_outcome("pay", agent="clerk", prompt="Pay?", expires=0.001)
    return f"paid: {outcome.value}" if outcome.ok else "not paid"
"""


@pytest.fixture
def paused(tmp_path: Path) -> Machine:
    """A flow whose question has expired before anybody can answer it."""
    here = machine(tmp_path)
    (here.project / "pay.py").write_text(FLOW)
    done = here.run("flow", "run", "pay.py")
    assert done.code == 42, done.err
    return here


def pending_item(here: Machine) -> dict[str, Any]:
    [item] = here.run("pending", "--all", "--json").json["items"]
    item_document: dict[str, Any] = item
    return item_document


def files_of(folder: Path) -> dict[str, bytes]:
    """The content of every file a flow keeps, and the rows of its journal."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "journal" not in path.name:
            found[str(path.relative_to(folder))] = path.read_bytes()
    for path in folder.rglob("journal*.db"):
        with sqlite3.connect(path) as journal:
            found[path.name] = "\n".join(journal.iterdump()).encode()
    return found


def by_answer(here: Machine) -> int:
    return here.run("answer", pending_item(here)["id"], "yes").code


def by_respond(here: Machine) -> int:
    return here.run("flow", "respond", "--response", "yes").code


def by_tool(here: Machine) -> int:
    item = pending_item(here)["id"]
    given = {"id": item, "text": "yes"}
    return int(with_client(here, lambda host: host.call_tool("answer", given)).is_error)


def by_tool_with_request_id(here: Machine) -> int:
    given = {"id": pending_item(here)["question"]["key"], "text": "yes"}
    return int(with_client(here, lambda host: host.call_tool("answer", given)).is_error)


@pytest.mark.parametrize(
    "way", [by_answer, by_respond, by_tool, by_tool_with_request_id]
)
def test_an_answer_refused_as_expired_changes_nothing(
    paused: Machine, way: Callable[[Machine], int]
) -> None:
    before = files_of(paused.project)

    assert way(paused) == 1

    assert files_of(paused.project) == before
    assert pending_item(paused)["answer"] is None
    resumed = paused.run("flow", "resume")
    assert (resumed.code, resumed.out.strip()) == (0, "not paid")
    assert pending_item(paused)["answer"] is None
    events = paused.run("events", "--json").out
    assert "pending.answered" not in events
    assert "flow.responded" not in events


def test_a_response_file_written_after_the_end_is_put_away_unused(
    paused: Machine,
) -> None:
    request = json.loads((paused.project / ".agent-request.json").read_text())
    response = {
        "request_id": request["request_id"],
        "version": "1.0",
        "status": "success",
        "created_at": request["created_at"],
        "response": "yes",
    }
    (paused.project / ".agent-response.json").write_text(json.dumps(response))

    resumed = paused.run("flow", "resume")

    assert (resumed.code, resumed.out.strip()) == (0, "not paid")
    assert "expired" in resumed.err
    assert pending_item(paused)["answer"] is None


def test_a_response_file_written_in_time_counts_however_late_the_run_goes_on(
    paused: Machine,
) -> None:
    request = json.loads((paused.project / ".agent-request.json").read_text())
    response = {
        "request_id": request["request_id"],
        "version": "1.0",
        "status": "success",
        "created_at": request["created_at"],
        "response": "yes",
    }
    file = paused.project / ".agent-response.json"
    file.write_text(json.dumps(response))
    os.utime(file, (0, 0))

    resumed = paused.run("flow", "resume")

    assert resumed.out.strip() == "paid: yes"
