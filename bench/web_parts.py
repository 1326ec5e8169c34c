"""The dashboard over large parts: 10,000 envelopes in 1,000 threads of one clone, 1,000 flows in twenty projects.

Every answer looks at the clone again; what is remembered of it holds while it is the same. What git takes counts too.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final
from unittest.mock import patch

from starlette.testclient import TestClient

from bench.rig_bridges import environ, make_bridge
from bridgehead.assembly.application import Assembly
from bridgehead.assembly.flows.recording import RecordingAnnouncer
from bridgehead.assembly.rigs.clones import clone_id
from bridgehead.dashboard.app import Dashboard
from bridgehead.flows import Context, Flow, RunInputs, RunRequest, run_flow

THREADS: Final = 1_000
ENVELOPES: Final = 10_000
PROJECTS: Final = 20
FLOWS_PER_PROJECT: Final = 50
OVER: Final = f"{ENVELOPES:,} envelopes, {PROJECTS * FLOWS_PER_PROJECT:,} flows"
TOKEN: Final = "bench-token-bench-token-bench-token"


def pages(rounds: int) -> dict[str, float]:
    """Milliseconds of processor time for each page, the least of some rounds: others load the machine too."""
    with tempfile.TemporaryDirectory(prefix="bridgehead-bench-") as folder:
        home = Path(folder)
        with patch.dict(os.environ, environ(home)):
            clone = make_bridge(home, "bridge", threads=THREADS, envelopes=ENVELOPES)
            flow_id = [
                _run_flows(home / f"project-{number}") for number in range(PROJECTS)
            ][-1]
            return _pages(clone, flow_id, rounds)


def _pages(clone: Path, flow_id: str, rounds: int) -> dict[str, float]:
    own = f"/threads/{clone_id(str(clone))}"
    paths = {
        "/": "/",
        "/threads": "/threads",
        "/threads/CLONE": own,
        "/threads/CLONE?state=open": f"{own}?state=open",
        "/threads/CLONE/THREAD": f"{own}/thread-000",
        "/flows": "/flows",
        "/flows?state=completed": "/flows?state=completed",
        "/flows/FLOW": f"/flows/{flow_id}",
        "/bus": "/bus",
    }
    assembly = Assembly(clone)
    with assembly.store() as store:
        dashboard = Dashboard(assembly, store, token=TOKEN, port=80)
        with TestClient(dashboard.app, base_url="http://127.0.0.1") as client:
            _cpu_ms(
                client, "/threads"
            )  # the first look at a clone makes its index, as the first rig command does
            return {
                name: min(
                    _looking_again(client, dashboard, path) for _ in range(rounds)
                )
                for name, path in paths.items()
            }


def _looking_again(client: TestClient, dashboard: Dashboard, path: str) -> float:
    dashboard.context.forget_waiting()
    return _cpu_ms(client, path)


def _cpu_ms(client: TestClient, path: str) -> float:
    before = _used()
    answer = client.get(path, headers={"Authorization": f"Bearer {TOKEN}"})
    used = (_used() - before) * 1000
    if not answer.is_success:
        raise SystemExit(f"bench: {path} answered {answer.status_code}")
    return used


def _used() -> float:
    """Seconds of processor time, ours and that of children that have ended."""
    return sum(os.times()[:4])


def _run_flows(project: Path) -> str:
    """Many short flows, told to the record; the last one's id."""
    project.mkdir()
    with RecordingAnnouncer(project, lambda warning: None) as announcer:
        around = RunInputs(announcer=announcer)
        runs = [
            run_flow(Flow("bench", "1", _two_steps), RunRequest(root=project), around)
            for _ in range(FLOWS_PER_PROJECT)
        ]
    return runs[-1].flow_id


def _two_steps(ctx: Context) -> None:
    ctx.step("one", lambda: 1)
    ctx.step("two", lambda: 2)
