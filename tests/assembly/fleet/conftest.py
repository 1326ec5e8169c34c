"""A fleet for a test: a database of its own, a folder with flows, workers in processes of their own.

Steps meet the test at named pipes, and what happens is read from the record as it is written: no test waits by time.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bridgehead.assembly.flows.fleet import Fleet, FleetAddress
from bridgehead.contract.pending import PendingItem
from bridgehead.control_plane.records import EventFilter, PendingFilter
from bridgehead.control_plane.stores import open_store
from bridgehead.flows.words import RunStatus
from support import forked
from support.postgres import PostgresServer, postgres_server

__all__ = ["postgres_server"]

if importlib.util.find_spec("dbos") is None:
    pytest.skip("no DBOS to test with", allow_module_level=True)

BRIDGEHEAD = str(Path(sys.executable).with_name("bridgehead"))
NOT_OURS = ("XDG_", "PG", "BRIDGEHEAD", "PYTHON")
FLOWS = '''
import os
from itertools import count
from pathlib import Path

from bridgehead.flows import Context, flow

HERE = Path(__file__).parent


def note(line: str) -> str:
    """An effect that can be counted."""
    with open(HERE / "effects", "a") as effects:
        effects.write(line + "\\n")
    return line


def meet(name: str) -> str:
    """Tell the test that we are here, and go on when it says so."""
    (HERE / f"{name}.here").write_text(str(os.getpid()))
    return (HERE / f"{name}.go").read_text()


@flow("release", version="1")
def release(ctx: Context, tag: str) -> str:
    built = ctx.step("build", note, f"built {tag}")
    notes = ctx.ask("notes", agent="writer", prompt=f"Write release notes for {tag}.")
    return f"{built}: {notes}"


@flow("note", version="1")
def noting(ctx: Context, line: str) -> str:
    return ctx.step("note", note, line)


@flow("sleeper", version="1")
def sleeper(ctx: Context) -> str:
    """Sleeps until somebody else had a turn."""
    ctx.step("before", note, "before")
    for nap in count():
        ctx.sleep(0.5)
        if "meanwhile" in ctx.step(f"look {nap}", (HERE / "effects").read_text):
            break
    return ctx.step("after", note, "after")


@flow("breaks", version="1")
def breaks(ctx: Context) -> str:
    ctx.step("first", note, "first")
    return ctx.step("read", lambda: (HERE / "wanted").read_text())


@flow("poison", version="1")
def poison(ctx: Context) -> None:
    ctx.step("die", lambda: os.kill(os.getpid(), 9))


@flow("meeting", version="1")
def meeting(ctx: Context) -> str:
    key = ctx.uuid()
    ctx.step("first", note, "first")
    said = ctx.step("meet", lambda: (note(f"meet {key}"), meet("a"))[1])
    return f"{key} {said}"
'''


class TestFleet:
    """The fleet as a test drives it."""

    __test__ = False

    def __init__(self, folder: Path, home: Path, url: str, ends: ExitStack) -> None:
        self.folder = folder
        self.url = url
        self._ends = ends
        self.environ = {
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith(NOT_OURS)
            },
            "HOME": str(home),
            "BRIDGEHEAD_STORE_URL": url,
        }
        self.fleet = Fleet(FleetAddress(url))
        ends.callback(self.fleet.close)
        self.store = ends.enter_context(open_store(url))
        for pipe in ("a.here", "a.go"):
            os.mkfifo(folder / pipe)

    def worker(
        self, *options: str, folder: Path | None = None
    ) -> subprocess.Popen[str]:
        """Start a worker; it takes runs when this returns."""
        command = [BRIDGEHEAD, "worker", *options]
        process = subprocess.Popen(
            command,
            cwd=folder or self.folder,
            env=self.environ,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        self._ends.callback(process.stderr.close)
        said = []
        for line in process.stderr:
            said.append(line)
            if " serves " in line:
                break
        else:
            raise AssertionError("".join(said))
        reader = threading.Thread(target=process.stderr.read, daemon=True)
        reader.start()
        for end in (reader.join, process.wait, process.kill):
            self._ends.callback(end)
        return process

    def run(self, *words: str, code: int = 0) -> str:
        done = forked.run(
            "bridgehead",
            words,
            cwd=self.folder,
            env=self.environ,
            timeout=240,
            kind="fleet",
        )
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    def json(self, *words: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.run(*words, "--json"))
        return document

    def until(
        self, run_id: str, *kinds: str, times: int = 1, failed: bool = False
    ) -> dict[str, Any]:
        """The facts of the last of so many events of a run, however long it takes to happen."""
        for event in self.store.follow(
            0, stop=threading.Event(), where=EventFilter(run_id=run_id)
        ):
            times -= event.event.kind in kinds
            if not times:
                return event.event.data
            if event.event.kind == "flow.failed" and not failed:
                raise AssertionError(event.event.data)
        raise AssertionError("unreachable")

    def until_state(self, run_id: str, state: RunStatus) -> None:
        """What a list shows: DBOS knows a moment after the event where a run stands, and gives a job up without one."""
        while self.fleet.status(run_id).run.status is not state:
            threading.Event().wait(0.2)

    def first_of(self, kind: str, name: str, count: int) -> list[str]:
        """The first runs of a flow to which that happened."""
        found: list[str] = []
        for event in self.store.follow(
            0, stop=threading.Event(), where=EventFilter(kinds=(kind,))
        ):
            if event.event.data["name"] == name:
                found.append(str(event.event.run_id))
            if len(found) == count:
                return found
        raise AssertionError("unreachable")

    def asked(self, run_id: str) -> PendingItem:
        """The open question of a run, as soon as there is one."""
        self.until(run_id, "pending.opened")
        return self.store.pending(PendingFilter(run_id=run_id))[0]

    def store_connection(self) -> Any:
        import psycopg

        return psycopg.connect(**self.fleet.address.postgres.parameters)

    def arrived(self, name: str = "a") -> int:
        """The process that has come to a meeting."""
        return int((self.folder / f"{name}.here").read_text())

    def go_on(self, said: str, name: str = "a") -> None:
        (self.folder / f"{name}.go").write_text(said)

    def kill(self, process: subprocess.Popen[str]) -> None:
        process.send_signal(signal.SIGKILL)
        process.wait()

    def result(self, run_id: str, *, retried: bool = False) -> Any:
        self.until(run_id, "flow.completed", failed=retried)
        return self.fleet.client.retrieve_workflow(
            self.fleet._find(run_id)[0].workflow_id
        ).get_result()["result"]

    @property
    def effects(self) -> list[str]:
        return (self.folder / "effects").read_text().splitlines()


@pytest.fixture
def fleet(postgres_server: PostgresServer, tmp_path: Path) -> Iterator[TestFleet]:
    folder, home = tmp_path / "project", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    (folder / "work.py").write_text(FLOWS)
    with ExitStack() as ends:
        yield TestFleet(folder, home, postgres_server.fresh_url(), ends)


Submit = Callable[..., str]


@pytest.fixture
def submit(fleet: TestFleet) -> Submit:
    """Hand in a run; its id."""

    def handed_in(name: str, **more: Any) -> str:
        settings = more.pop("settings", {})
        return fleet.fleet.submit(name, settings, **more).id

    return handed_in
