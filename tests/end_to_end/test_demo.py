"""`make demo` tells its whole story on a machine without agents, and leaves nothing running."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil


def test_the_demo_reviews_hands_over_pauses_and_is_heard(tmp_path: Path) -> None:
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "LANG": "C.UTF-8",
        "COLUMNS": "120",
    }

    done = subprocess.run(
        [sys.executable, "-m", "bridgehead.demo"],
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=240,
    )

    assert done.returncode == 0, done.stdout
    for line in (
        'REQUEST orders-review "safe to ship?"',
        "orders/store.py:10",
        "verify checked=2 ok=2 warned=0 failed=0",
        "No. Bind the SQL values first.",
        "kitchen < needs you  pending  r-",
        "CONCERNS: review of",
        "kitchen < answered  pending  q-1",
        "bridgehead web --open",
    ):
        assert line in done.stdout, f"{line}\n{done.stdout}"
    [folder] = tmp_path.glob("bridgehead-demo-*")
    left = [
        process
        for process in psutil.process_iter(["cwd"])
        if str(folder) in str(process.info["cwd"])
    ]
    assert left == []
