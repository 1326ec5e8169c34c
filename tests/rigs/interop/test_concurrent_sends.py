"""Many senders, killed at random: nothing lost, nothing doubled, no repair step, and the reference reads the result."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.rig_bridges import OURS, REFERENCE, Bridge, Clone

CLONES, PROCESSES = 2, 8
# Each process sends seven times and is killed now and then; more with the variable.
SENDS = int(os.environ.get("BRIDGEHEAD_RACE_SENDS", 50))
DEADLINE_SECONDS = 240 + 2 * SENDS

# Sends its share; says which were acknowledged. It is killed and started again by the test.
SENDER = """
import subprocess, sys, pathlib
name, first, last, acks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), pathlib.Path(sys.argv[4])
done = set(acks.read_text().split()) if acks.exists() else set()
for number in range(first, last):
    mark = f"{name}-{number}"
    if mark in done:
        continue
    sent = subprocess.run([sys.argv[5], "send", "STATE", "--thread", "race-01", "--to", "other", "--tldr", mark],
                          capture_output=True, text=True)
    if sent.returncode == 0:
        with acks.open("a") as file:
            file.write(mark + "\\n")
            file.flush()
    else:
        sys.stderr.write(sent.stderr)
        if "push" not in sent.stderr:
            sys.exit(1)
"""


@pytest.mark.slow
@pytest.mark.timeout(DEADLINE_SECONDS + 120)
def test_no_acknowledged_envelope_is_lost_or_doubled(bridge: Bridge) -> None:
    clones = [bridge.clone(f"c{n}", f"rig-{n}") for n in range(CLONES)]
    if shutil.which("setsid"):
        for clone in (
            clones
        ):  # whoever kills a sender does not kill the server's half of its push
            clone.git(
                "config", "remote.origin.receivepack", "setsid --wait git-receive-pack"
            )
    (clones[0].path / "race-01").mkdir()
    clones[0].rig("send", "REQUEST", "--thread", "race-01", "--to", "rig-1").ok()
    clones[1].rig("sync", "--auto").ok()
    share = SENDS // PROCESSES + 1
    senders = {f"p{number}": clones[number % CLONES] for number in range(PROCESSES)}

    _race(bridge.base, senders, share)

    # No repair step: the next ordinary command of each clone sends what a killed one left behind.
    for number, clone in enumerate(clones):
        clone.rig(
            "send",
            "ACK",
            "--thread",
            "race-01",
            "--to",
            f"rig-{number}",
            "--tldr",
            "last",
        ).ok()
    clones[0].rig("sync", "--auto").ok()
    subjects = [
        line.removeprefix("STATE: ")
        for line in clones[0].git("log", "--format=%s").splitlines()
    ]
    acknowledged = [
        mark
        for name in senders
        for mark in (bridge.base / f"{name}.acks").read_text().split()
    ]
    assert len(acknowledged) == PROCESSES * share
    assert [mark for mark in acknowledged if mark not in subjects] == []
    assert clones[0].rig("verify").ok().out.endswith("failed=0\n")
    _each_envelope_has_one_commit(clones[0])
    for clone in clones:
        assert clone.git("status", "--porcelain") == ""
    if REFERENCE.exists():
        assert (
            f"envelopes={len(clones[0].envelopes())}"
            in clones[0].reference("status", "--wide").ok().out
        )


def _race(base: Path, senders: dict[str, Clone], share: int) -> None:
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        _run_and_kill(base, senders, share, running)
    finally:
        for process in running.values():
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def _run_and_kill(
    base: Path,
    senders: dict[str, Clone],
    share: int,
    running: dict[str, subprocess.Popen[bytes]],
) -> None:
    chance = random.Random(20261115)
    waiting = set(senders)
    said = ""
    deadline = time.monotonic() + DEADLINE_SECONDS
    kills = 0
    while waiting or running:
        assert time.monotonic() < deadline, f"the race did not end; last heard: {said}"
        for name in sorted(waiting):
            running[name] = _start(base, name, senders[name], share)
        waiting.clear()
        time.sleep(0.05)
        if kills < 2 * len(senders) and chance.random() < 0.2 and running:
            victim = chance.choice(sorted(running))
            os.killpg(running[victim].pid, signal.SIGKILL)
            running.pop(victim).communicate()
            waiting.add(victim)
            kills += 1
        for name, process in list(running.items()):
            if process.poll() is not None:
                del running[name]
                said = process.communicate()[1].decode()
                assert process.returncode == 0, said
                if len((base / f"{name}.acks").read_text().split()) < share:
                    waiting.add(name)
    assert kills > 0


def _start(base: Path, name: str, clone: Clone, share: int) -> subprocess.Popen[bytes]:
    acks = base / f"{name}.acks"
    acks.touch()
    return subprocess.Popen(
        [sys.executable, "-c", SENDER, name, "0", str(share), str(acks), str(OURS)],
        cwd=clone.path,
        env=clone.environ(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _each_envelope_has_one_commit(clone: Clone) -> None:
    added = clone.git("log", "--diff-filter=A", "--name-only", "--format=").split()
    assert sorted(added) == sorted(set(added))
    changed = clone.git("log", "--diff-filter=MDR", "--name-only", "--format=").split()
    assert changed == []
