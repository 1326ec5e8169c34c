"""`flow drive --handler rig:ID` between two clones of a bridge, killed and taken up again."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from support.rig_bridges import OURS, Bridge, Clone

FLOW = """
from bridgehead.flows import flow, main

@flow("handover", version="1")
def handover(ctx):
    return ctx.ask("review", agent="reviewer", prompt="Is the release fine?", timeout={timeout})

if __name__ == "__main__":
    raise SystemExit(main(handover))
"""
DRIVE = (
    str(OURS.with_name("bridgehead")),
    "flow",
    "drive",
    "--handler",
    "rig:windows-5080",
    "--",
)
PROGRAM = (sys.executable, "handover.py")


@pytest.fixture
def mac(bridge: Bridge) -> Clone:
    return bridge.clone("a", "mac-m5max")


def ask_and_be_killed(mac: Clone, *, timeout: int) -> None:
    """Drive until the question has been sent, then kill the driver without a warning."""
    (mac.path / "handover.py").write_text(FLOW.format(timeout=timeout))
    with subprocess.Popen(
        [*DRIVE, *PROGRAM],
        cwd=mac.path,
        env=mac.environ(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as driver:
        assert driver.stderr is not None
        said = ""
        for line in driver.stderr:
            said += line
            if "waiting for its RESPONSE" in line:
                break
        else:
            raise AssertionError(said)
        driver.send_signal(signal.SIGKILL)


def respond(bridge: Bridge, text: str) -> None:
    windows = bridge.clone("b", "windows-5080")
    windows.rig("sync", "--auto").ok()
    [path] = [path for path in windows.envelopes() if path.startswith("flow-")]
    thread = path.partition("/")[0]
    asked = windows.git("log", "-1", "--format=%H", "--", path)
    words = (
        "--thread",
        thread,
        "--to",
        "mac-m5max",
        "--ref",
        asked,
        "--body-file",
        "-",
    )
    windows.rig("send", "RESPONSE", *words, stdin=text).ok()


def test_a_killed_driver_collects_the_answer_that_came_meanwhile_and_asks_nothing_twice(
    bridge: Bridge, mac: Clone
) -> None:
    ask_and_be_killed(mac, timeout=600)
    respond(bridge, "All is well.\n")
    done = mac.run(*DRIVE, *PROGRAM)
    assert (done.code, done.out.strip()) == (0, "All is well."), done.err
    assert [
        path.partition("/")[2] for path in mac.envelopes() if path.startswith("flow-")
    ] == [
        "REQUEST.md",
        "RESPONSE.md",
    ]


def test_an_answer_after_the_handlers_time_is_collected_by_the_next_attempt(
    bridge: Bridge, mac: Clone
) -> None:
    (mac.path / "handover.py").write_text(FLOW.format(timeout=1))
    gave_up = mac.run(*DRIVE[:-1], "--max-iterations", "2", "--", *PROGRAM)
    assert gave_up.code == 1, gave_up.out
    respond(bridge, "Late, but well.\n")
    done = mac.run(*DRIVE, *PROGRAM)
    assert (done.code, done.out.strip()) == (0, "Late, but well."), done.err
    assert sum(path.endswith("REQUEST.md") for path in mac.envelopes()) == 1
