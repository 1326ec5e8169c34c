"""A seat on another machine: a REQUEST goes out, the council stays open, the RESPONSE is folded in (council §23)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from council.cli.conftest import EXAMPLE
from support.installed import SCRIPTS
from support.rig_bridges import Clone, Done, make_bridge

CHANGED = "scope_changed_since_start"


def council(clone: Clone, *words: str) -> Done:
    return clone.run(str(SCRIPTS / "bridgehead"), "council", *words, "--json")


def request_in(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text.split("```json", 1)[1].split("```", 1)[0])
    return found


def report_on(request: dict[str, Any]) -> str:
    finding = {
        "type": "finding",
        "severity": "CRITICAL",
        "title": "Order id is joined into the SQL text",
        "description": "The statement is made from what came in.",
        "evidence": "orders/store.py:10 `cursor = connection.execute(`",
        "domain": "security",
    }
    report = {
        "bridge": "claude",
        "model_family": "anthropic/claude",
        "models_used": ["sonnet"],
        "session_id": request["bridge_input"]["session_id"],
        "status": "COMPLETED",
        "outputs": [finding],
    }
    return f"```json\n{json.dumps({'bridge_report': report, 'commit': request['commit']})}\n```\n"


def test_a_rig_is_asked_by_envelope_and_its_late_answer_makes_the_report(
    tmp_path: Path,
) -> None:
    bridge = make_bridge(tmp_path)
    here, there = bridge.clone("here", "mac-m5"), bridge.clone("there", "win-5080")
    shutil.copytree(EXAMPLE / "orders", here.path / "orders")
    here.git("add", "-A")
    here.git("commit", "-q", "-m", "orders")
    here.git("push", "-q")
    there.git("pull", "-q")
    there.rig("new", "hello").ok()
    there.rig(
        "send", "STATE", "--thread", "hello", "--to", "mac-m5", "--tldr", "here I am"
    ).ok()

    asked = council(
        here,
        "review",
        "--runtime",
        "rig:win-5080",
        "--runtime",
        "rig:ghost",
        "--domain",
        "security",
    )
    assert asked.code == 42, asked.err
    assert asked.json["waiting_for"] == ["rig:win-5080"]
    review_id = asked.json["review_id"]
    nobody = council(here, "resume", "--retry", "rig:win-5080")
    assert nobody.code == 1 and "has not answered yet" in nobody.err

    there.rig("sync", "--auto").ok()
    thread = f"council-{review_id}"
    request = request_in((there.path / thread / "REQUEST.md").read_text())
    (tmp_path / "answer.md").write_text(report_on(request))
    there.rig(
        *("send", "RESPONSE", "--thread", thread, "--to", "mac-m5", "--ref", "auto"),
        *("--body-file", str(tmp_path / "answer.md")),
    ).ok()
    done = council(here, "resume")

    assert done.code == 0, done.err
    report = done.json
    assert (report["verdict"], report["bridges_available"]) == (
        "FAIL",
        ["rig:win-5080"],
    )
    (finding,) = report["single_source_findings"]
    assert finding["unverified"] and finding["evidence_check"]["outcome"] == "passed"
    rig, ghost = report["participants"]
    assert rig["model_family"] == "unknown", (
        "a claim that is not signed is not believed"
    )
    assert rig["remote"] == {
        "bridge": "claude",
        "model_family": "anthropic/claude",
        "models_used": ["sonnet"],
    }
    assert ghost["reason"] == "no_connection"
    assert CHANGED not in report["warnings"], (
        "envelopes are no change of what is looked at"
    )
    again = council(here, "resume", review_id, "--retry", "rig:ghost")
    assert again.json["supersedes"] and again.json["skip_reasons"] == {
        "rig:ghost": "no_connection"
    }
