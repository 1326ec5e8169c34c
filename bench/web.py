"""The dashboard over a large record: server time of each page, and live updates to many readers without loss.

100,000 events and 1,000 councils; a page may take 200 ms of processor time, and 200 readers hear every event.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from starlette.testclient import TestClient

from bench import web_parts
from bench.harness import Report, aligned
from bridgehead.assembly.application import Assembly
from bridgehead.contract.events import Event
from bridgehead.contract.record_words import Part, RunState
from bridgehead.control_plane.records import Run
from bridgehead.control_plane.stores.base import Store
from bridgehead.dashboard.app import Dashboard
from bridgehead.dashboard.serving import Server, WebRequest, bind

EVENTS: Final = 100_000
COUNCILS: Final = 1_000
LINES_PER_COUNCIL: Final = 60
READERS: Final = 200
LIVE_EVENTS: Final = 1_000
PAGE_MS: Final = 200.0
ROUNDS: Final = 5
DEADLINE_SECONDS: Final = 60.0
TOKEN: Final = "bench-token-bench-token-bench-token"
_BATCH: Final = 5_000
_SEATS: Final = ("claude", "codex", "gemini", "static")
_SEVERITIES: Final = ("CRITICAL", "HIGH", "MEDIUM", "LOW", "INFO")


@dataclass(frozen=True, slots=True)
class Received:
    """What the readers received."""

    readers: int
    events: int
    lost: int
    latency_ms: tuple[float, float]
    """The middle one and that of the slowest hundredth."""


def report(rounds: int | None) -> Report:
    """Fill a record, ask for every page, and let many readers listen."""
    with tempfile.TemporaryDirectory(prefix="bridgehead-bench-") as folder:
        project = Path(folder, "project")
        project.mkdir()
        assembly = Assembly(project, {"BRIDGEHEAD_HOME": folder, "PATH": ""})
        with assembly.store() as store:
            last = _fill(store, project)
            pages = _pages(assembly, store, last, rounds or ROUNDS)
            received = asyncio.run(_listen(assembly, store))
    parts = web_parts.pages(rounds or ROUNDS)
    pages |= {f"{path}, {web_parts.OVER}": took for path, took in parts.items()}
    met = max(pages.values()) <= PAGE_MS and received.lost == 0
    document = {"pages_ms": pages, "live": msgspec.to_builtins(received)}
    return Report(text=_report_text(pages, received), met=met, document=document)


def _report_text(pages: dict[str, float], received: Received) -> str:
    rows = [("page, 100,000 events, 1,000 councils", "ms CPU", "budget", "")]
    rows += [
        (path, f"{took:.1f}", f"≤ {PAGE_MS:g}", "met" if took <= PAGE_MS else "MISSED")
        for path, took in pages.items()
    ]
    middle, slowest = received.latency_ms
    live = (
        f"live: {received.readers} readers, {received.events:,} events, {received.lost} lost; "
        f"median {middle:.0f} ms, p99 {slowest:.0f} ms"
    )
    return f"{aligned(rows)}\n{live}"


def _fill(store: Store, project: Path) -> str:
    """Write the record; returns the last council, which has a report."""
    others = EVENTS - COUNCILS * LINES_PER_COUNCIL
    kinds = (
        "rig.sent",
        "rig.pulled",
        "flow.started",
        "flow.completed",
        "bus.outcome",
        "bus.joined",
    )
    events = [
        _event(
            number, kinds[number % len(kinds)], project, {"thread": f"t-{number % 50}"}
        )
        for number in range(others)
    ]
    for number in range(COUNCILS):
        events += _council_events(number, project)
    for start in range(0, len(events), _BATCH):
        store.append(events[start : start + _BATCH])
    for number in range(COUNCILS):
        store.save_run(_run(number, project))
    return _review_id(COUNCILS - 1)


def _event(
    number: int,
    kind: str,
    project: Path,
    data: dict[str, Any],
    run_id: str | None = None,
) -> Event:
    part = Part(
        {"rig": "rigs", "flow": "flows"}.get(
            kind.partition(".")[0], kind.partition(".")[0]
        )
    )
    name = f"{run_id}-{number}" if run_id else f"e-{number}"
    return Event(
        id=name,
        kind=kind,
        part=part,
        at=_at(number % 86_000),
        project=str(project),
        run_id=run_id,
        data=data,
    )


def _council_events(number: int, project: Path) -> Iterator[Event]:
    """A debate of four seats: begun, eleven findings each, every third challenged, ended."""
    review_id, place = _review_id(number), 0
    for seat in _SEATS:
        lines: list[dict[str, Any]] = [{"event": "bridge_start"}]
        for finding in range(11):
            facts = {
                "id": f"C{finding:03d}",
                "severity": _SEVERITIES[finding % 5],
                "title": f"finding {finding}",
            }
            lines.append(
                {
                    "event": "output",
                    "domain": "api",
                    "agent": f"agent-{finding % 4}",
                    "round": 1,
                    **facts,
                }
            )
        lines.append(
            {
                "event": "challenge",
                "challenge_id": "CH001",
                "target_finding_id": "C001",
                "round": 2,
            }
        )
        lines.append(
            {
                "event": "agent_reply",
                "tokens_in": 100,
                "tokens_out": 10,
                "cost_usd": 0.01,
            }
        )
        lines.append({"event": "bridge_complete", "status": "COMPLETED"})
        for line in lines:
            place += 1
            yield _event(
                place,
                "council.event",
                project,
                {"bridge": seat, "ts": _at(place), **line},
                review_id,
            )


def _run(number: int, project: Path) -> Run:
    review_id, started, ended = (
        _review_id(number),
        _at(number * 60),
        _at(number * 60 + 50),
    )
    data: dict[str, Any] = {
        "bridges": list(_SEATS),
        "scope": "src/",
        "verdict": "FAIL",
        "findings": {"CRITICAL": number % 2, "HIGH": number % 3, "LOW": number % 5},
        "usage": {"cost_usd": 0.04},
    }
    if number >= COUNCILS - 2:
        data["report"] = _report_files(review_id, project)
    return Run(
        id=review_id, part=Part.COUNCIL, kind="review", title="review of src/", state=RunState.COMPLETED,
        started_at=started, updated_at=ended, ended_at=ended, project=str(project), data=data,
    )  # fmt: skip


def _report_files(review_id: str, project: Path) -> dict[str, str]:
    """A report of two hundred findings, compared with the council before."""
    name = f".outputs/council/20261115-council-{review_id}"
    previous = (
        _review_id(COUNCILS - 2) if review_id == _review_id(COUNCILS - 1) else None
    )
    source = project / "src" / "orders.py"
    source.parent.mkdir(exist_ok=True)
    source.write_text("".join(f"line {number}\n" for number in range(400)))
    (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / f"{name}.json").write_text(json.dumps(_report(review_id, previous)))
    return {"markdown": f"{name}.md", "json": f"{name}.json", "html": f"{name}.html"}


def _report(review_id: str, previous: str | None) -> dict[str, Any]:
    empty = [
        "multi_source_confirmed",
        "disputed_findings",
        "integration_findings",
        "downgraded_findings",
        "withdrawn_findings",
        "dismissed_findings",
        "challenge_notes",
        "synthesis_notes",
        "warnings",
        "diversity_sources",
        "participants",
        "models_used",
        "runtimes_used",
        "toolchains_used",
        "exchange_modes_used",
        "debate_layers",
        "context_overflow",
        "bridges_skipped",
        "bridges_pending",
        "auto_skipped_halted_bridges",
        "domains_covered",
    ]
    return {
        **{name: [] for name in empty},
        "type": "deep-council", "review_id": review_id, "verdict": "FAIL", "timestamp": _at(0), "mode": "review",
        "task_type": "review", "bridges_invoked": list(_SEATS), "bridges_available": list(_SEATS),
        "partial_coverage": False, "skip_reasons": {}, "intensity": "standard", "fallback": False,
        "debate_rounds": 2, "single_source_findings": [_finding(number) for number in range(200)],
        "comparison": {"previous_review_id": previous}, "stage_b": "completed", "council_type": "x",
        "context_policy": "full-context", "supersedes": None, "scope": "src/", "gate_verdict": "FAIL",
        "usage": {"calls": 1, "prompt_chars": 1, "reply_chars": 1},
    }  # fmt: skip


def _finding(number: int) -> dict[str, Any]:
    print_, line = f"f1:{number:04d}", number + 1
    return {
        "id": f"SS{number:03d}", "class": "single", "type": "finding", "severity": _SEVERITIES[number % 5],
        "title": f"finding {number}", "description": "what is wrong " * 10, "evidence": f"src/orders.py:{line}",
        "remediation": "mend it", "domains": ["api"], "confirmed_by": [], "source_bridge": "claude",
        "source_findings": [{"bridge": "claude", "finding_id": f"C{number % 11:03d}"}], "severity_votes": {},
        "confirmation": {"model": False, "runtime": False, "evidence": True}, "confidence": "high",
        "shared_cli_path": False, "da_challenged": False, "challenges": 1, "fingerprint": print_,
        "fingerprints": [print_], "evidence_check": {"outcome": "passed", "references": []},
        "anchor": {"path": "src/orders.py", "lines": [line, line]}, "state": "new",
    }  # fmt: skip


def _review_id(number: int) -> str:
    return f"20261115-{number:06d}"


def _at(seconds: int) -> str:
    return f"2026-11-15T{seconds // 3600 % 24:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.000Z"


def _pages(
    assembly: Assembly, store: Store, last: str, rounds: int
) -> dict[str, float]:
    """Processor time of the whole process for one answer, the longest of some rounds; the first finds no caches."""
    council = f"/councils/{last}"
    paths = [
        "/",
        "/councils",
        council,
        f"{council}?severity=HIGH",
        "/events",
        f"/events?run={last}",
        "/health",
    ]
    paths += [
        "/events?part=bus&kind=bus.joined",
        "/events?part=rigs",
        "/events?part=record",
    ]
    dashboard = Dashboard(assembly, store, token=TOKEN, port=80)
    with TestClient(dashboard.app, base_url="http://127.0.0.1") as client:
        _cpu_ms(client, "/static/live.js")
        took = {
            path: max(_cpu_ms(client, path) for _ in range(rounds)) for path in paths
        }
        dashboard.context.doctor_cache.wait()
    return took


def _cpu_ms(client: TestClient, path: str) -> float:
    before = time.process_time()
    answer = client.get(path, headers={"Authorization": f"Bearer {TOKEN}"})
    used = (time.process_time() - before) * 1000
    if not answer.is_success:
        raise SystemExit(f"bench: {path} answered {answer.status_code}")
    return used


async def _listen(assembly: Assembly, store: Store) -> Received:
    """Every reader on a connection of its own, while another thread writes."""
    written: dict[int, float] = {}
    with _serving(assembly, store) as port:
        readers = [await _connect(port) for _ in range(READERS)]
        first = store.last_seq() + 1
        writing = threading.Thread(target=_write, args=(store, written))
        writing.start()
        async with asyncio.timeout(DEADLINE_SECONDS):
            received = await asyncio.gather(
                *(_receive(reader, first + LIVE_EVENTS - 1) for reader, _ in readers)
            )
        writing.join()
        for _, writer in readers:
            writer.close()
    expected = set(range(first, first + LIVE_EVENTS))
    lost = sum(len(expected - seen.keys()) for seen in received)
    latencies = sorted(
        (seen[seq] - written[seq]) * 1000
        for seen in received
        for seq in expected & seen.keys()
    )
    return Received(
        READERS,
        LIVE_EVENTS,
        lost,
        (statistics.median(latencies), latencies[int(len(latencies) * 0.99)]),
    )


@contextmanager
def _serving(assembly: Assembly, store: Store) -> Iterator[int]:
    with bind(WebRequest("127.0.0.1", 0)) as listening:
        port = int(listening.getsockname()[1])
        dashboard = Dashboard(assembly, store, token=TOKEN, port=port)
        server = Server(dashboard)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield port
        finally:
            server.stop()
            thread.join()


async def _connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    writer.write(
        f"GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode()
    )
    await reader.readuntil(b"event: hello\n")
    return reader, writer


async def _receive(reader: asyncio.StreamReader, last: int) -> dict[int, float]:
    seen: dict[int, float] = {}
    while last not in seen:
        line = await reader.readline()
        if not line or line.startswith(b"event: reload"):
            break
        if line.startswith(b"id: "):
            seen[int(line[4:])] = time.perf_counter()
    return seen


def _write(store: Store, written: dict[int, float]) -> None:
    """In small batches with a breath between them, as a running council does."""
    for start in range(0, LIVE_EVENTS, 10):
        batch = [
            Event(id=f"live-{number}", kind="bus.joined", part=Part.BUS, at=_at(0))
            for number in range(start, start + 10)
        ]
        for recorded in store.append(batch):
            written[recorded.seq] = time.perf_counter()
        time.sleep(0.01)
