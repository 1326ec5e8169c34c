"""What a change is, through the installed command: renames, shallow clones, citations outside."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bridgehead.council.reporting.report import CouncilReport
from council.cli.conftest import BARE, Hall, StandIn
from support.installed import Done, Machine

pytestmark = pytest.mark.xdist_group("council_cli")

REVIEW = ("council", "review", "--json", "--runtime", "static", "-i", "quick")


def git(machine: Machine, *words: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    subprocess.run(
        ["git", *identity, *words],
        cwd=machine.project,
        env=machine.environ(),
        check=True,
    )


def review(machine: Machine, *words: str) -> Done:
    return machine.run(*REVIEW, *words, PATH=BARE)


def test_a_pure_rename_touches_no_line(orders: Machine) -> None:
    git(orders, "mv", "orders/store.py", "orders/shop.py")
    git(orders, "commit", "-q", "-m", "rename")

    renamed = review(orders, "--diff", "HEAD~1").json
    whole = review(orders, "--diff", "HEAD~1", "--whole-files").json
    (orders.project / "orders" / "shop.py").chmod(0o755)
    path = orders.project / "orders" / "shop.py"
    path.write_text(path.read_text() + "\n\ndef run(text):\n    return eval(text)\n")
    changed = review(orders, "--diff", "HEAD~1").json

    assert (renamed["verdict"], len(renamed["untouched_findings"]) > 0) == (
        "PASS",
        True,
    )
    assert renamed["single_source_findings"] == []
    assert whole["verdict"] != "PASS"
    assert changed["single_source_findings"] != []


@pytest.mark.parametrize("words", [("--diff", "HEAD~1"), ("--range", "HEAD~1..HEAD")])
def test_a_shallow_clone_says_how_to_get_the_rest(
    orders: Machine, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (orders.project / "new.py").write_text("x = 1\n")
    git(orders, "add", "-A")
    git(orders, "commit", "-q", "-m", "second")
    shallow = Machine(orders.home, tmp_path / "shallow")
    source = orders.project.as_uri()
    git(orders, "clone", "-q", "--depth", "1", source, str(shallow.project))

    done = review(shallow, *words)
    unknown = review(orders, "--diff", "no-such-branch")

    assert done.code == 1
    assert "--unshallow" in done.err and "fetch-depth" in done.err
    assert "--unshallow" not in unknown.err


def test_a_base_without_a_common_commit_in_a_shallow_clone_is_said(
    orders: Machine, tmp_path: Path
) -> None:
    git(orders, "branch", "base")
    (orders.project / "new.py").write_text("x = 1\n")
    git(orders, "add", "-A")
    git(orders, "commit", "-q", "-m", "second")
    shallow = Machine(orders.home, tmp_path / "shallow")
    source = orders.project.as_uri()
    git(orders, "clone", "-q", "--depth", "1", source, str(shallow.project))
    git(shallow, "fetch", "-q", "--depth=1", "origin", "base")

    cut_off = review(shallow, "--diff", "FETCH_HEAD")
    whole = review(orders, "--diff", "base")

    assert "shallow_clone" in cut_off.json["warnings"]
    assert "shallow_clone" not in whole.json["warnings"]


def test_evidence_in_a_file_outside_the_scope_is_not_missing(
    hall: Hall, codex: StandIn
) -> None:
    other = "orders/__init__.py:1"
    assert (hall.assembly.places.project / "orders" / "__init__.py").exists()
    codex.log_in()
    finding = {
        "type": "finding",
        "severity": "HIGH",
        "title": "The package exports what it should not",
        "description": "Anybody can import it.",
        "evidence": other,
    }
    codex.answers({"outputs": [finding]})

    report = hall.call(runtimes=("codex",)).report

    assert isinstance(report, CouncilReport)
    (entry,) = report.single_source_findings
    assert entry.evidence_check["outcome"] == "unchecked"
    assert entry.evidence_check["reason"] == "outside_scope"
