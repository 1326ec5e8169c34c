"""Councils as they leave their traces: a run and events in the record, a report among the project's files.

`hold_council` writes what a council of three seats writes that argued over two rounds; every text of it can be given,
so that hostile ones can be put into every field.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bridgehead.contract.events import Event
from bridgehead.contract.record_words import Part, RunState
from bridgehead.control_plane.records import Run
from bridgehead.control_plane.stores.base import Store

CODE = (
    "import sqlite3\n\n\ndef find(connection: sqlite3.Connection, order_id: str):\n"
    '    """The order with this id."""\n'
    "    cursor = connection.cursor()\n"
    '    cursor.execute("SELECT * FROM orders WHERE id = " + order_id)\n'
    "    return cursor.fetchone()\n"
)
SEATS = ("claude", "codex", "static")
STARTED = "2026-11-15T10:15:02.000Z"
ENDED = "2026-11-15T10:16:13.000Z"


def finding(
    finding_id: str, title: str, severity: str, **fields: Any
) -> dict[str, Any]:
    """An entry of a report; `fields` replace what it says."""
    print_ = f"f1:{finding_id.lower()}"
    return {
        "id": finding_id,
        "class": "single",
        "type": "finding",
        "severity": severity,
        "title": title,
        "description": f"{title}, in more words.",
        "evidence": 'src/orders.py:7 `cursor.execute("SELECT * FROM orders WHERE id = " + order_id)`',
        "remediation": 'bind the value: cursor.execute("… WHERE id = ?", (order_id,))',
        "domains": ["security"],
        "confirmed_by": [],
        "source_bridge": "claude",
        "source_findings": [{"bridge": "claude", "finding_id": "C001"}],
        "severity_votes": {"claude": severity},
        "confirmation": {"model": False, "runtime": False, "evidence": True},
        "confidence": "high",
        "shared_cli_path": False,
        "da_challenged": False,
        "challenges": 0,
        "fingerprint": print_,
        "fingerprints": [print_],
        "evidence_check": {"outcome": "passed", "references": []},
        "anchor": {"path": "src/orders.py", "lines": [7, 7]},
        "state": "new",
        **fields,
    }


def step(kind: str, by: str, text: str) -> dict[str, Any]:
    return {"step": kind, "by": by, "text": text, "round": 2}


def findings() -> list[dict[str, Any]]:
    both = [
        {"bridge": "claude", "finding_id": "C001"},
        {"bridge": "codex", "finding_id": "X001"},
    ]
    return [
        finding(
            "MMC001",
            "Order id reaches the SQL text unescaped",
            "CRITICAL",
            **{"class": "multi"},
            confirmed_by=["claude", "codex"],
            source_bridge=None,
            source_findings=[*both, {"bridge": "static", "finding_id": "S001"}],
            confirmation={"model": True, "runtime": True, "evidence": True},
            challenges=2,
            state="persistent",
            record=[
                {"step": "claim", "by": "claude, Security Auditor", "text": "CRITICAL: Order id reaches the SQL text"},
                step("challenge", "claude, challenger", "Is order_id ever <b>foreign</b>?"),
                step("defence", "claude, security", "it comes from the request"),
            ],
        ),
        finding(
            "SS001",
            "The connection is never closed",
            "HIGH",
            domains=["resources"],
            source_findings=[{"bridge": "claude", "finding_id": "C002"}],
            anchor={"path": "src/orders.py", "lines": [6, 6]},
        ),
        finding(
            "D001",
            "fetchone() may return None and callers do not check",
            "MEDIUM",
            **{"class": "disputed"},
            domains=["api"],
            source_bridge="codex",
            source_findings=[{"bridge": "codex", "finding_id": "X002"}],
            positions=[
                {"bridge": "codex", "severity": "MEDIUM", "position": "every caller indexes the row"},
                {"bridge": "claude", "severity": "LOW", "position": "callers are expected to check"},
            ],
            challenges=1,
            unanswered=1,
            anchor={"path": "src/orders.py", "lines": [8, 8]},
        ),
        finding("SS002", "No type for the result", "LOW", domains=["api"], source_bridge="static",
                source_findings=[{"bridge": "static", "finding_id": "S002"}],
                anchor={"path": "src/orders.py", "lines": [4, 4]}),
    ]  # fmt: skip


def report(
    review_id: str, entries: list[dict[str, Any]], **fields: Any
) -> dict[str, Any]:
    by_class = {
        name: [one for one in entries if one["class"] == name]
        for name in ("multi", "single", "disputed")
    }
    usage = {
        "calls": 9,
        "prompt_chars": 1,
        "reply_chars": 1,
        "tokens_in": 18_200,
        "tokens_out": 3_100,
        "cost_usd": 0.42,
    }
    return {
        "type": "deep-council",
        "review_id": review_id,
        "verdict": "FAIL",
        "timestamp": ENDED,
        "mode": "review",
        "task_type": "review",
        "bridges_invoked": list(SEATS),
        "bridges_available": list(SEATS),
        "bridges_skipped": ["gemini"],
        "bridges_pending": [],
        "auto_skipped_halted_bridges": [],
        "partial_coverage": False,
        "skip_reasons": {"gemini": "not logged in"},
        "domains_covered": ["security", "api", "resources"],
        "intensity": "standard",
        "fallback": False,
        "debate_rounds": 2,
        "multi_source_confirmed": by_class["multi"],
        "single_source_findings": by_class["single"],
        "disputed_findings": by_class["disputed"],
        "integration_findings": [],
        "downgraded_findings": [],
        "withdrawn_findings": [],
        "dismissed_findings": [],
        "comparison": {"previous_review_id": None},
        "challenge_notes": [],
        "synthesis_notes": [],
        "stage_b": "completed",
        "warnings": [],
        "council_type": "runtime-council",
        "diversity_sources": ["runtime"],
        "participants": [],
        "models_used": [],
        "runtimes_used": list(SEATS),
        "toolchains_used": [],
        "exchange_modes_used": [],
        "debate_layers": [],
        "context_policy": "full-context",
        "context_overflow": [],
        "supersedes": None,
        "usage": usage,
        "scope": "src/",
        "gate_verdict": "FAIL",
        **fields,
    }  # fmt: skip


def debate() -> list[dict[str, Any]]:
    """The lines of the seats' logs, in order."""

    def line(bridge: str, event: str, second: int, **facts: Any) -> dict[str, Any]:
        return {
            "bridge": bridge,
            "event": event,
            "ts": f"2026-11-15T10:15:{second:02d}.000Z",
            **facts,
        }

    def raised(
        bridge: str,
        second: int,
        output: str,
        severity: str,
        title: str,
        agent: str,
        number: int = 1,
    ) -> dict[str, Any]:
        facts = {
            "id": output,
            "severity": severity,
            "title": title,
            "domain": agent,
            "agent": agent,
            "round": number,
        }
        return line(bridge, "output", second, type="finding", **facts)

    def doubt(
        bridge: str, second: int, name: str, output: str, to: str, text: str
    ) -> dict[str, Any]:
        facts = {
            "challenge_id": name,
            "target_finding_id": output,
            "round": 2,
            "text": text,
            "by": "challenger",
            "to": to,
        }
        return line(bridge, "challenge", second, mechanism="evidence", **facts)

    def about(
        bridge: str, event: str, second: int, name: str, output: str, **facts: Any
    ) -> dict[str, Any]:
        return line(
            bridge,
            event,
            second,
            challenge_id=name,
            target_finding_id=output,
            round=2,
            **facts,
        )

    def reply(bridge: str, second: int, cost: float | None) -> dict[str, Any]:
        return line(
            bridge,
            "agent_reply",
            second,
            agent="security",
            tokens_in=6000,
            tokens_out=900,
            cost_usd=cost,
        )

    return [
        *(line(bridge, "bridge_start", 3, session_id="s") for bridge in SEATS),
        line("claude", "dispatch", 4, connection="cli"),
        line("claude", "asked", 4, round=1, step="analysis", agents=["security", "resources", "challenger"]),
        line("codex", "dispatch", 4, connection="cli"),
        line("codex", "asked", 4, round=1, step="analysis", agents=["security", "api", "challenger"]),
        raised("static", 5, "S001", "HIGH", "Possible SQL injection (S608)", "ruff"),
        raised("static", 5, "S002", "LOW", "No type for the result", "ruff"),
        line("static", "bridge_complete", 5, status="COMPLETED", verdict="CONCERNS"),
        raised("claude", 20, "C001", "CRITICAL", "Order id reaches the SQL text unescaped", "security"),
        raised("claude", 21, "C002", "HIGH", "The connection is never closed", "resources"),
        raised("claude", 21, "C003", "MEDIUM", "Table name is hard-coded", "resources"),
        reply("claude", 22, 0.12),
        raised("codex", 24, "X001", "HIGH", "SQL injection through order_id", "security"),
        raised("codex", 24, "X002", "MEDIUM", "fetchone() may return None", "api"),
        reply("codex", 25, None),
        line("claude", "asked", 26, round=2, step="challenge", agents=["challenger"]),
        doubt("claude", 30, "CH001", "C001", "security", "Is order_id ever foreign?"),
        doubt("claude", 31, "CH002", "C003", "resources", "A constant is no defect."),
        about("claude", "response", 36, "CH001", "C001", stance="defend"),
        about("claude", "ruling", 37, "CH001", "C001", ruling="withdraw"),
        line("claude", "state", 37, id="C001", **{"from": None, "to": "confirmed"}, round=2),
        about("claude", "response", 38, "CH002", "C003", stance="withdraw"),
        line("claude", "state", 38, id="C003", **{"from": None, "to": "withdrawn"}, round=2),
        reply("claude", 40, 0.30),
        line("claude", "bridge_complete", 41, status="COMPLETED", verdict="FAIL"),
        doubt("codex", 43, "CH001", "X002", "api", "Callers are expected to check."),
        about("codex", "response", 46, "CH001", "X002", stance="defend"),
        about("codex", "ruling", 47, "CH001", "X002", ruling="maintain"),
        line("codex", "state", 47, id="X002", **{"from": None, "to": "disputed"}, round=2),
        line("codex", "bridge_complete", 48, status="COMPLETED", verdict="CONCERNS"),
        line("council", "stage_a", 50, findings=4),
        *(
            line("council", "joined", 50, id=one["id"], severity=one["severity"], title=one["title"],
                 sources=one["source_findings"], **{"class": one["class"]})
            for one in findings()
        ),
        line("council", "stage_b_start", 51, coordinator="claude"),
        line("council", "challenge_note", 55, finding_id="MMC001", challenge="Only from inside?", outcome="confirmed"),
        line("council", "stage_b", 58, outcome="completed", notes=1),
    ]  # fmt: skip


def record_lines(
    store: Store, review_id: str, project: Path, lines: list[dict[str, Any]]
) -> None:
    store.append(
        [
            Event(
                id=f"{review_id}-{number}-{line['event']}",
                kind="council.event",
                part=Part.COUNCIL,
                at=line["ts"],
                project=str(project),
                run_id=review_id,
                data=line,
            )
            for number, line in enumerate(lines)
        ]
    )


def save_run(
    store: Store,
    review_id: str,
    project: Path,
    state: RunState,
    *,
    updated_at: str = ENDED,
    **data: Any,
) -> None:
    over = state is RunState.COMPLETED
    facts = {
        "scope": "src/",
        "bridges": list(SEATS),
        "intensity": "standard",
        "domains": ["security", "api"],
    }
    title = data.pop("title", "review of src/")
    started_at = data.pop("started_at", STARTED)
    ended_at = data.pop("ended_at", updated_at)
    store.save_run(
        Run(
            id=review_id,
            part=Part.COUNCIL,
            kind="review",
            title=title,
            state=state,
            started_at=started_at,
            updated_at=updated_at,
            project=str(project),
            ended_at=ended_at if over else None,
            data={**facts, "files": 34, "loc": 4120, **data},
        ),
        events=[
            Event(
                id=f"{review_id}-{state}",
                kind="council.reported" if over else "council.started",
                part=Part.COUNCIL,
                at=updated_at,
                project=str(project),
                run_id=review_id,
            )
        ],
    )


def hold_council(
    store: Store,
    project: Path,
    review_id: str = "paafrm",
    *,
    entries: list[dict[str, Any]] | None = None,
    lines: list[dict[str, Any]] | None = None,
    run: Mapping[str, Any] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """A council that came to its end; returns its report."""
    entries = findings() if entries is None else entries
    written = report(review_id, entries, **fields)
    folder = project / ".outputs" / "council"
    folder.mkdir(parents=True, exist_ok=True)
    name = f".outputs/council/20261115-101613-council-{review_id}"
    (project / f"{name}.json").write_text(json.dumps(written))
    source = project / "src" / "orders.py"
    if not source.exists():
        source.parent.mkdir(exist_ok=True)
        source.write_text(CODE)
    record_lines(store, review_id, project, debate() if lines is None else lines)
    counts: dict[str, int] = {}
    for one in entries:
        counts[one["severity"]] = counts.get(one["severity"], 0) + 1
    facts = {
        "verdict": written["verdict"],
        "findings": counts,
        "usage": written["usage"],
        "report": {form: f"{name}.{end}" for form, end in (("markdown", "md"), ("json", "json"), ("html", "html"))},
        **(run or {}),
    }  # fmt: skip
    save_run(store, review_id, project, RunState.COMPLETED, **facts)
    return written
