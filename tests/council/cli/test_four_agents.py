"""A whole council through the installed command: the four real agent programs and the static seat, one model server."""

from __future__ import annotations

import json

import psutil
import pytest

from bridgehead.testing.model_server import ModelServer
from council.support.reviewers import review
from support import peer_clis
from support.installed import Machine

pytestmark = [pytest.mark.peer, pytest.mark.slow, pytest.mark.timeout(900)]

PATIENCE_SECONDS = 600


def processes_at_home(home: str) -> list[str]:
    """What still runs with this home: only the agents of this test have it."""
    left = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("HOME") == home:
                left.append(" ".join(process.cmdline()))
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return left


def test_four_agents_and_the_analysers_agree_on_the_seeded_defect(
    orders: Machine,
) -> None:
    (orders.project / "CLAUDE.md").write_text("CANARY\n")
    (orders.project / ".env").write_text("A_KEY=CANARY\n")
    # Real agents need their time on a busy machine, and the time they are given grows with the scope (council §5).
    (orders.project / "orders" / "prices.csv").write_text("1,2\n" * 2_000)
    with ModelServer(script=review) as server:
        peers = peer_clis.furnish(
            orders.home.parent / "peers", lambda _: server.base_url()
        )
        running = orders.start(
            *(
                "council",
                "review",
                "orders/store.py",
                "orders/prices.csv",
                "--domain",
                "security",
            ),
            *("--intensity", "quick", "--protocol", "full", "--json"),
            **peers.environment,
        )
        out, err = running.communicate(timeout=PATIENCE_SECONDS)
        asked = json.dumps([entry.body for entry in server.log.questions()])

    assert running.returncode == 0, err
    report = json.loads(out)
    assert report["bridges_available"] == [
        "claude",
        "gemini",
        "codex",
        "opencode",
        "static",
    ]
    assert {one["bridge"]: one["connection"] for one in report["participants"]} == {
        **dict.fromkeys(peer_clis.CLIS, "cli"),
        "static": "embedded",
    }
    injection, pickle = report["multi_source_confirmed"]
    assert (injection["severity"], injection["confirmed_by"]) == (
        "CRITICAL",
        ["claude", "codex", "opencode"],
    )
    assert injection["confirmation"] == {
        "model": True,
        "runtime": True,
        "evidence": True,
    }
    assert injection["da_challenged"] and injection["shared_cli_path"]
    assert pickle["confirmed_by"] == ["claude", "gemini"]
    assert (report["verdict"], report["stage_b"]) == ("FAIL", "completed")
    assert "CANARY" not in asked, "agent configuration and secrets stay at home"
    page = (orders.project / report["report_files"]["html"]).read_text()
    assert page.count('class="lane"') == 5
    assert processes_at_home(peers.environment["HOME"]) == []


@pytest.mark.parametrize(("intensity", "most"), [("quick", 4), ("standard", 9)])
def test_four_agents_that_share_calls_find_the_same_with_few(
    orders: Machine, intensity: str, most: int
) -> None:
    (orders.project / "orders" / "prices.csv").write_text("1,2\n" * 2_000)
    with ModelServer(script=review) as server:
        peers = peer_clis.furnish(
            orders.home.parent / "peers", lambda _: server.base_url()
        )
        running = orders.start(
            *("council", "review", "orders/store.py", "orders/prices.csv"),
            *("--domain", "security", "--domain", "testing"),
            *("--intensity", intensity, "--json"),
            **peers.environment,
        )
        out, err = running.communicate(timeout=PATIENCE_SECONDS)

    assert running.returncode == 0, err
    report = json.loads(out)
    assert report["usage"]["calls"] <= most
    modes = {one["bridge"]: one["status"] for one in report["participants"]}
    assert modes == dict.fromkeys([*peer_clis.CLIS, "static"], "COMPLETED")
    assert "shared" in report["exchange_modes_used"]
    injection, pickle = report["multi_source_confirmed"]
    assert injection["confirmed_by"] == ["claude", "codex", "opencode"]
    assert pickle["confirmed_by"] == ["claude", "gemini"]
    assert report["verdict"] == "FAIL"
    assert report["not_looked_at"] == []
