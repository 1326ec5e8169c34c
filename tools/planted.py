"""Review one file of each language with a defect planted in it, as somebody would who has just installed bridgehead.

The files and their defects are those of `bench/static_labels`. A review has to find one of a file's defects, or say
that it did not look: a PASS over a planted defect is what must never happen.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from bench.council_static import language_of, read_labels

FILES: Final = (
    "billing.py",
    "orders_api.js",
    "ticket_widget.ts",
    "accounts.go",
    "ReportController.java",
    "MembersController.cs",
    "profile.php",
    "posts_controller.rb",
    "gateway.rs",
    "deploy.sh",
)
SECONDS: Final = 60
_PLACE: Final = re.compile(r"[^\s,]+:(\d+)")


class Outcome(Enum):
    FOUND = "found"
    INCOMPLETE = "INCOMPLETE, and says so"
    MISSED = "MISSED"
    BROKEN = "did not run"


@dataclass(frozen=True, slots=True)
class Reviewed:
    """How the review of one language went."""

    language: str
    outcome: Outcome
    detail: str = ""

    @property
    def is_sound(self) -> bool:
        """Whether nobody was told that a planted defect is no defect."""
        return self.outcome in (Outcome.FOUND, Outcome.INCOMPLETE)


def review_each(bridgehead: Path) -> Iterator[Reviewed]:
    """Review the file of each language with an installed command."""
    texts, labels = read_labels()
    for name in FILES:
        bad_lines = {
            label.line for label in labels if label.path == name and label.is_bad
        }
        yield _review(bridgehead, name, texts[name], bad_lines)


def _review(bridgehead: Path, name: str, text: str, bad_lines: set[int]) -> Reviewed:
    language = language_of(name)
    with TemporaryDirectory(prefix="bridgehead-planted-") as folder:
        project = Path(folder) / "project"
        project.mkdir()
        (project / name).write_text(text, encoding="utf-8")
        words = ["council", "review", "--runtime", "static", "--non-interactive"]
        try:
            done = subprocess.run(
                [str(bridgehead), *words, "--json", name],
                cwd=project,
                env=_environment(bridgehead, Path(folder)),
                capture_output=True,
                text=True,
                check=False,
                timeout=SECONDS,
            )
        except subprocess.TimeoutExpired:
            return Reviewed(language, Outcome.BROKEN, f"more than {SECONDS} seconds")
    try:
        report = json.loads(done.stdout)
    except ValueError:
        return Reviewed(language, Outcome.BROKEN, _last_line(done.stderr))
    return judge(language, report, bad_lines)


def _environment(bridgehead: Path, home: Path) -> dict[str, str]:
    """Return the environment of somebody with nothing but this installation and the system."""
    path = os.pathsep.join([str(bridgehead.parent), "/usr/local/bin:/usr/bin:/bin"])
    return {
        "PATH": path,
        "HOME": str(home),
        "BRIDGEHEAD_HOME": str(home / "bridgehead"),
        "LANG": "C.UTF-8",
    }


def judge(language: str, report: dict[str, Any], bad_lines: set[int]) -> Reviewed:
    """Return what a report says about a file whose lines `bad_lines` have a defect."""
    findings = [
        *report.get("multi_source_confirmed", ()),
        *report.get("single_source_findings", ()),
    ]
    cited: set[int] = set()
    for finding in findings:
        cited.update(map(int, _PLACE.findall(str(finding.get("evidence")))))
    found = cited & bad_lines
    if found:
        return Reviewed(language, Outcome.FOUND, f"{len(found)} of {len(bad_lines)}")
    incomplete = report.get("incomplete")
    if incomplete:
        return Reviewed(language, Outcome.INCOMPLETE, str(incomplete)[:200])
    return Reviewed(language, Outcome.MISSED, f"verdict {report.get('verdict')}")


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it printed nothing"
