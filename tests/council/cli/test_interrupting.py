"""A stop in the middle of a council whose model never answers, with a real agent program as its child."""

from __future__ import annotations

import json
import signal

import psutil
import pytest

from bridgehead.testing.model_server import ModelServer
from support import peer_clis
from support.installed import Machine

pytestmark = pytest.mark.peer

PATIENCE_SECONDS = 120


@pytest.mark.parametrize("way", ["Ctrl-C", "council stop"])
def test_a_stop_leaves_a_report_that_can_be_read_and_no_process_behind(
    orders: Machine, way: str
) -> None:
    with ModelServer() as server:
        peer = peer_clis.furnish(
            orders.home.parent / "peer", lambda _: server.base_url("hang"), ("codex",)
        )
        running = orders.start(
            *(
                "council",
                "review",
                "orders/store.py",
                "--runtime",
                "codex",
                "--domain",
                "security",
                "--watch",
            ),
            **peer.environment,
        )
        asked = server.log.wait_until(
            lambda seen: bool(seen), timeout_seconds=PATIENCE_SECONDS
        )
        children = psutil.Process(running.pid).children(recursive=True)
        if way == "Ctrl-C":
            running.send_signal(signal.SIGINT)
        else:
            assert "is stopping" in orders.run("council", "stop").out
        out, err = running.communicate(timeout=PATIENCE_SECONDS)

    assert asked and children, err
    assert running.returncode == 130, err
    gone, left = psutil.wait_procs(children, timeout=PATIENCE_SECONDS)
    assert not left and len(gone) == len(children)
    lines = [json.loads(line) for line in out.splitlines()]
    assert {"council_start", "asked", "bridge_complete"} <= {
        line["event"] for line in lines
    }
    assert lines[-1]["event"] == "report"
    assert lines[-1]["skip_reasons"] == {"codex": "interrupted"}
    again = orders.run("council", "stop", lines[-1]["review_id"])
    assert again.code == 1 and "is not running on this machine" in again.err
    saved = json.loads((orders.project / lines[-1]["report_files"]["json"]).read_text())
    assert saved["review_id"] == lines[-1]["review_id"]
