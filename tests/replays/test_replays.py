"""What an earlier version left is read, gone on with and answered by this one; `tools/replays.py` keeps it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.replays import PLACE, environment, the_place

KEPT = sorted(path.parent for path in Path(__file__).parent.glob("*/state.tar.gz"))
PROGRAM = Path(sys.executable).parent / "bridgehead"

pytestmark = [
    pytest.mark.xdist_group("replays"),
    pytest.mark.skipif(
        os.path.lexists(PLACE) and PLACE.stat().st_uid != os.geteuid(),
        reason=f"{PLACE} belongs to another user",
    ),
]


@pytest.fixture(params=KEPT, ids=lambda folder: folder.name)
def left(request: pytest.FixtureRequest) -> Iterator[Path]:
    """The state that a version left, where it left it."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    with the_place() as place, tarfile.open(request.param / "state.tar.gz") as tar:
        tar.extractall(place, filter="tar")
        yield place


def run(folder: str, *arguments: str, code: int = 0) -> str:
    done = subprocess.run(
        [str(PROGRAM), *arguments],
        cwd=PLACE / folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == code, (
        f"{arguments}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    )
    return done.stdout


def test_something_is_kept() -> None:
    assert KEPT


def test_the_record_is_read_whole(left: Path) -> None:
    waiting = json.loads(run("home", "pending", "--json"))["items"]
    assert {item["question"]["kind"] for item in waiting} >= {"flow_request"}
    kinds = {
        event["kind"]
        for event in json.loads(run("home", "events", "--limit", "1000", "--json"))[
            "events"
        ]
    }
    assert {"record.created", "run.waiting"} <= kinds
    assert json.loads(run("home", "record", "check", "--json"))["whole"]


def test_a_paused_flow_is_answered_and_ends(left: Path) -> None:
    (waiting,) = [
        item
        for item in json.loads(run("home", "pending", "--json"))["items"]
        if item["question"]["project"] == str(PLACE / "paused")
    ]
    run("paused", "answer", waiting["id"], "Smaller.")
    assert "v1 (2 characters): Smaller." in run("paused", "flow", "resume")


def test_an_answered_flow_goes_on_with_its_answer(left: Path) -> None:
    assert "v1 (2 characters): Faster." in run("answered", "flow", "resume")
    assert "completed" in run("answered", "flow", "list", "--json")


def test_a_waiting_council_is_listed_and_ends_without_the_seat_that_waits(
    left: Path,
) -> None:
    (council,) = json.loads(run("council", "council", "list", "--json"))["councils"]
    run("council", "council", "resume", council["review_id"], "--close")
    shown = run("council", "council", "show", council["review_id"])
    assert "pickle" in shown


def test_rigs_receive_verify_and_answer(left: Path) -> None:
    run("two", "rig", "sync", "--auto")
    assert "STATE" in run("two", "rig", "thread", "t1")
    run("two", "rig", "verify")
    run("two", "rig", "send", "ACK", "--thread", "t1", "--to", "one", "--ref", "auto")
    run("one", "rig", "sync", "--auto")
    assert "ACK" in run("one", "rig", "thread", "t1")
    assert "t1" in run("one", "rig", "status")
