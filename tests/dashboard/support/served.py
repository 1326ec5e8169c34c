"""A dashboard over a scratch record: asked directly, or served on a free port for a browser."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from bridgehead.assembly.application import Assembly
from bridgehead.contract.events import Event
from bridgehead.contract.pending import PendingItem, Question
from bridgehead.contract.record_words import Part, PendingKind
from bridgehead.control_plane.stores.base import Store
from bridgehead.dashboard.app import Dashboard
from bridgehead.dashboard.serving import Server, WebRequest, bind
from bridgehead.host.clock import ManualClock

TOKEN = "a-token-that-only-tests-use-0123456789"
ORIGIN = "http://127.0.0.1:8183"


@dataclass
class OpenDashboard:
    """A dashboard with its record; `client` is a browser that has been let in."""

    assembly: Assembly
    store: Store
    dashboard: Dashboard
    client: TestClient

    @property
    def project(self) -> Path:
        return self.assembly.places.project

    def csrf(self, path: str = "/health") -> str:
        """The token of this session's forms, as a page shows it."""
        found = re.search(r'name="csrf" value="([^"]+)"', self.client.get(path).text)
        assert found is not None
        return found[1]

    def post(self, path: str, /, **fields: str) -> Any:
        return self.client.post(
            path,
            data={"csrf": self.csrf(), **fields},
            headers={"Origin": ORIGIN},
            follow_redirects=False,
        )


def scratch_assembly(folder: Path, **environ: str) -> Assembly:
    project = folder / "project"
    project.mkdir(parents=True)
    (project / "bridgehead.toml").touch()
    return Assembly(
        project,
        {"BRIDGEHEAD_HOME": str(folder / "home"), "PATH": "", "USER": "ann", **environ},
    )


@contextmanager
def open_dashboard(folder: Path, **environ: str) -> Iterator[OpenDashboard]:
    assembly = scratch_assembly(folder, **environ)
    with assembly.store() as store:
        dashboard = Dashboard(
            assembly,
            store,
            token=TOKEN,
            port=8183,
            user="ann (web)",
            clock=ManualClock(),
        )
        with TestClient(dashboard.app, base_url=ORIGIN) as client:
            client.get("/", params={"token": TOKEN})
            yield OpenDashboard(assembly, store, dashboard, client)


@dataclass
class Served:
    """A dashboard behind a real socket."""

    assembly: Assembly
    store: Store
    dashboard: Dashboard
    base: str

    @property
    def link(self) -> str:
        return f"{self.base}/?token={TOKEN}"

    @property
    def project(self) -> Path:
        return self.assembly.places.project


@contextmanager
def served(folder: Path, **environ: str) -> Iterator[Served]:
    assembly = scratch_assembly(folder, **environ)
    with assembly.store() as store, bind(WebRequest("127.0.0.1", 0)) as listening:
        port = int(listening.getsockname()[1])
        dashboard = Dashboard(assembly, store, token=TOKEN, port=port, user="ann (web)")
        server = Server(dashboard)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield Served(assembly, store, dashboard, f"http://127.0.0.1:{port}")
        finally:
            server.stop()
            thread.join()


def ask(store: Store, key: str = "a", **fields: object) -> PendingItem:
    """Open a question; without `choices` any text answers it."""
    said = {
        "kind": PendingKind.BUS_APPROVAL,
        "part": Part.BUS,
        "origin": "bus",
        "title": "den asks to join",
        "prompt": "Fingerprint 9f:31",
        **fields,
    }
    return store.open_pending(Question(key=key, **said))  # type: ignore[arg-type]


def note(
    store: Store,
    *numbers: int,
    kind: str = "rig.sent",
    part: Part = Part.RIGS,
    run_of: Callable[[int], str | None] = lambda number: None,
    data: dict[str, object] | None = None,
) -> None:
    """Record an event for each number, all at once."""
    store.append(
        [
            Event(
                id=f"event-{number}",
                kind=kind,
                part=part,
                at="2026-11-15T10:15:02.000Z",
                run_id=run_of(number),
                data={"thread": "build-03"} if data is None else data,
            )
            for number in numbers
        ]
    )
