"""A root to run flows in, a clock that stands still, and a handler that answers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bridgehead.flows import Flow, RunInputs, RunRequest, RunResult, run_flow
from bridgehead.flows.interfaces import Announcer, FlowEvent, OpenRequest
from bridgehead.host.clock import ManualClock


@dataclass
class Recorder(Announcer):
    """An announcer that remembers."""

    kinds: list[str] = field(default_factory=list)
    asked_ids: list[str] = field(default_factory=list)
    settled_ids: list[tuple[str, str]] = field(default_factory=list)

    def happened(self, event: FlowEvent) -> None:
        self.kinds.append(event.kind)

    def asked(self, request: OpenRequest) -> None:
        self.asked_ids.append(str(request.request["request_id"]))

    def settled(self, request_id: str, root: str, status: str) -> None:
        self.settled_ids.append((request_id, status))


@dataclass
class FlowProject:
    """One root, one clock, and the moves a user and a handler make in it."""

    root: Path
    clock: ManualClock
    announcer: Recorder

    def run(self, flow: Flow, *, invoker: Any = None, **request: Any) -> RunResult:
        inputs = RunInputs(clock=self.clock, announcer=self.announcer, invoker=invoker)
        return run_flow(flow, RunRequest(root=self.root, **request), inputs)

    def resume(self, flow: Flow, **request: Any) -> RunResult:
        return self.run(flow, resume=True, **request)

    @property
    def request_path(self) -> Path:
        return self.root / ".agent-request.json"

    @property
    def response_path(self) -> Path:
        return self.root / ".agent-response.json"

    @property
    def private(self) -> Path:
        return self.root / ".bridgehead" / "flows"

    def request(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.request_path.read_bytes())
        return document

    def answer(self, text: str | None = "yes", **members: Any) -> dict[str, Any]:
        """Answer the request in the file, as a handler would."""
        response = {
            "request_id": self.request()["request_id"],
            "version": "1.0",
            "status": "success",
            "created_at": "2026-11-15T10:15:03Z",
            "response": text,
            **members,
        }
        document = {key: value for key, value in response.items() if value is not None}
        self.put_response(json.dumps(document).encode())
        return document

    def put_response(self, data: bytes) -> None:
        """Bytes in the response file, old enough not to be taken for half-written."""
        self.response_path.write_bytes(data)
        os.utime(self.response_path, (0, 0))

    def files(self) -> set[str]:
        return {path.name for path in self.root.iterdir() if path.name != ".bridgehead"}

    def rejected(self) -> list[Path]:
        return sorted((self.private / "rejected").glob("*"))

    def post_mortems(self) -> list[Path]:
        return sorted((self.private / "post-mortem").glob("*"))


@pytest.fixture
def flow_project(tmp_path: Path) -> FlowProject:
    root = tmp_path / "app"
    root.mkdir()
    return FlowProject(
        root.resolve(),
        ManualClock(datetime(2026, 11, 15, 10, 15, 2, tzinfo=UTC)),
        Recorder(),
    )


@pytest.fixture(autouse=True)
def private_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in (
        "XDG_DATA_HOME",
        "XDG_CONFIG_HOME",
        "XDG_CACHE_HOME",
        "XDG_STATE_HOME",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def counter() -> Iterator[Callable[[str], int]]:
    """How often each thing was done, over all passes."""
    counts: dict[str, int] = {}

    def count(name: str) -> int:
        counts[name] = counts.get(name, 0) + 1
        return counts[name]

    count.counts = counts  # type: ignore[attr-defined]
    yield count
