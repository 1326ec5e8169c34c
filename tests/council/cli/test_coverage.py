"""Nobody passes what nobody able has looked at, through the installed command."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.installed import Done, Machine

pytestmark = pytest.mark.xdist_group("council_cli")

BARE = "/usr/local/bin:/usr/bin:/bin"
SCRIPT = "#!/bin/sh\necho ready\n"
BROKEN = {
    "exit 2": "exit 2",
    "exit 1 with nothing": "exit 1",
    "exit 0 with nothing": "exit 0",
    "garbage": "echo oops",
    "garbage after a good beginning": "echo '[{'",
    "killed": "kill -9 $$",
    "hanging": "exec sleep 100",
}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    for name in ("home", "project", "bin"):
        (tmp_path / name).mkdir()
    return Machine(tmp_path / "home", tmp_path / "project")


def review(machine: Machine, *words: str) -> Done:
    path = f"{machine.home.parent / 'bin'}:{BARE}"
    return machine.run("council", "review", "--runtime", "static", *words, PATH=path)


def stand_in(machine: Machine, body: str) -> None:
    """Make shellcheck a script of ours, and the only analyser that can judge a file."""
    program = machine.home.parent / "bin" / "shellcheck"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    settings = {"bridges": {"static": {"tools": ["shellcheck", "secrets"]}}}
    (machine.project / ".bridge-settings.json").write_text(json.dumps(settings))
    assert machine.run("config", "trust", ".bridge-settings.json").code == 0
    (machine.project / "run.sh").write_text(SCRIPT)


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
def test_an_analyser_that_breaks_has_not_looked_today_nor_from_the_cache(
    machine: Machine, body: str
) -> None:
    stand_in(machine, body)

    for _ in range(2):
        done = review(machine, "run.sh", "--gate", "fail", "--timeout", "2", "--json")

        assert done.code == 3, done.out
        report = done.json
        assert (report["verdict"], report["incomplete"]) == (None, True)
        assert report["unread"] == ["run.sh"]
        (look,) = report["not_looked_at"]
        assert look["by"] == "shellcheck"
        slow = body == BROKEN["hanging"]
        assert look["reason"] == ("timed_out" if slow else "died")


def test_an_analyser_that_answers_has_looked(machine: Machine) -> None:
    stand_in(machine, "echo '[]'")

    done = review(machine, "run.sh", "--gate", "fail", "--json")

    assert done.code == 0, done.err
    assert (done.json["verdict"], done.json["incomplete"]) == ("PASS", False)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("deploy", b"#!/usr/bin/perl\nprint 1;\n", "nobody_able"),
        ("main.c", b"int main(void) { return 0; }\n", "nobody_able"),
        ("Main.kt", b"fun main() {}\n", "nobody_able"),
        ("App.vue", b"<script>run()</script>\n", "nobody_able"),
        ("wide.py", "x = 1\n".encode("utf-16"), "unreadable"),
        ("big.py", b"x = 1\n" * 500_000, "too_large"),
    ],
    ids=["perl", "c", "kotlin", "vue", "utf-16", "3 MB"],
)
def test_code_that_nobody_here_reads_is_no_pass(
    machine: Machine, tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    (machine.project / "fine.py").write_text('"""Fine."""\n')
    (machine.project / "README.md").write_text("# Read me\n")
    (machine.project / name).write_bytes(content)
    sarif = tmp_path / "found.sarif"

    done = review(machine, ".", "--gate", "fail", "--json", "--sarif", str(sarif))

    assert done.code == 3, done.out
    assert done.json["verdict"] is None
    assert [(one["on"], one["reason"]) for one in done.json["not_looked_at"]] == [
        (name, reason)
    ]
    (invocation,) = json.loads(sarif.read_text())["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False
    told = invocation["toolExecutionNotifications"][0]["message"]["text"]
    assert name in told


def test_a_gate_refuses_what_was_not_looked_at_until_somebody_answers_for_it(
    machine: Machine,
) -> None:
    (machine.project / "main.c").write_text("int main(void) { return 0; }\n")
    (machine.project / "fine.py").write_text('"""Fine."""\n')
    assert review(machine, ".").code == 0

    refused = machine.run("council", "gate", "--json", PATH=BARE)
    allowed = machine.run(
        "council", "gate", "--allow-incomplete", "read by Ada", "--json", PATH=BARE
    )
    blank = machine.run("council", "gate", "--allow-incomplete", " ", PATH=BARE)

    assert (refused.code, allowed.code, blank.code) == (3, 0, 3)
    (reason,) = refused.json["refused_because"]
    assert reason.startswith(
        "not looked at (no seat or analyser here reads it): main.c"
    )
    assert allowed.json["allowed_incomplete"] == "read by Ada"
    assert allowed.json["not_looked_at"] == [reason]
    recorded = machine.run("record", "export", PATH=BARE)
    assert "read by Ada" in recorded.out


def test_a_tree_of_python_documents_and_data_passes(machine: Machine) -> None:
    (machine.project / "fine.py").write_text('"""Fine."""\n')
    (machine.project / "README.md").write_text("# Read me\n")
    (machine.project / "data.json").write_text("{}\n")
    (machine.project / "empty.c").write_text("")
    (machine.project / "logo.png").write_bytes(b"\x89PNG\0" + os.urandom(8))

    done = review(machine, ".", "--gate", "concerns", "--json")

    assert done.code == 0, done.out
    assert done.json["verdict"] == "PASS"
