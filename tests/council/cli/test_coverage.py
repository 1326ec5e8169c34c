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
PYTHON = "def run(x):\n    return eval(x)\n"
SCRIPT_CODE = "export function run(x) { return eval(x) }\n"
PAGE = f"<p>Hello</p>\n<script type='module'>\n{SCRIPT_CODE}</script>\n"
CELLS = [
    {"cell_type": "markdown", "source": ["# Study\n"]},
    {
        "cell_type": "code",
        "source": ["%matplotlib inline\n", "run(eval(input()))\n", "!ls"],
    },
]
NOTEBOOK = json.dumps({"cells": CELLS}, indent=1)
COMPACT_NOTEBOOK = json.dumps({"cells": CELLS}).encode()
CANARY = {
    "file": ".bridgehead/canaries/shellcheck/a.sh",
    "line": 2,
    "code": 2115,
    "message": "Use ${var:?}",
}
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


def repository(machine: Machine) -> None:
    """Make the project a repository with one commit."""
    (machine.project / "fine.py").write_text('"""Fine."""\n')
    made = machine.shell(
        "git init -q && git add . && git -c user.name=Ada -c user.email=ada@example.org"
        " commit -qm first"
    )
    assert made.code == 0, made.err


def is_running(pid: str, word: bytes) -> bool:
    """Tell whether a process lives; one that has ended and is not yet buried has no words."""
    words = Path("/proc", pid, "cmdline")
    return words.exists() and word in words.read_bytes()


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


def test_a_hanging_analyser_is_ended_with_everything_it_started(
    machine: Machine, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    stand_in(machine, f"sleep 98765 & echo $! $$ > {pids}; wait")

    done = review(machine, "run.sh", "--timeout", "2", "--json")

    assert [one["reason"] for one in done.json["not_looked_at"]] == ["timed_out"]
    child, program = pids.read_text().split()
    assert not is_running(child, b"98765")
    assert not is_running(program, b"shellcheck")


def test_what_an_analyser_found_before_it_broke_stays_found(
    machine: Machine, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    found = {"file": "run.sh", "line": 2, "code": 2115, "message": "Use ${var:?}"}
    answer = json.dumps([found, CANARY])
    stand_in(machine, f"test -e {broken} && exit 2; echo '{answer}'")
    first = review(machine, "run.sh", "--json").json
    broken.touch()
    (machine.project / "more.sh").write_text("#!/bin/sh\necho more\n")

    second = review(machine, ".", "--json").json

    (one,) = first["single_source_findings"]
    (still,) = second["single_source_findings"]
    assert one["title"] == still["title"]
    assert [one["on"] for one in second["not_looked_at"]] == ["more.sh"]


def test_only_the_file_that_an_analyser_cannot_parse_is_unread(
    machine: Machine,
) -> None:
    workflows = machine.project / ".github" / "workflows"
    workflows.mkdir(parents=True)
    (workflows / "good.yml").write_text(
        "on: push\npermissions: {}\njobs: {a: {runs-on: x, steps: [{run: ls}]}}\n"
    )
    (workflows / "broken.yml").write_text("on: push\njobs:\n  a: [\n")
    (machine.project / "Dockerfile").write_text("FROM debian:12\nRUNN ls\n")
    (machine.project / "action.yml").write_text("title: no action of GitHub\n")

    review(machine, ".")
    refused = machine.run("council", "gate", "--json", PATH=BARE)

    assert refused.code == 3
    (line,) = refused.json["not_looked_at"]
    assert line.startswith(
        "not looked at (no text that can be read): "
        ".github/workflows/broken.yml, Dockerfile; "
    )


def test_an_analyser_that_answers_has_looked(machine: Machine) -> None:
    stand_in(machine, f"echo '{json.dumps([CANARY])}'")

    done = review(machine, "run.sh", "--gate", "fail", "--json")

    assert done.code == 0, done.err
    assert (done.json["verdict"], done.json["incomplete"]) == ("PASS", False)


def test_an_analyser_that_misses_its_canary_is_not_able(machine: Machine) -> None:
    stand_in(machine, "echo '[]'")

    for _ in range(2):
        done = review(machine, "run.sh", "--gate", "fail", "--json")

        assert done.code == 3, done.out
        (look,) = done.json["not_looked_at"]
        assert (look["by"], look["reason"]) == ("shellcheck", "not_able")
        assert "bridgehead doctor" in look["advice"]
    path = f"{machine.home.parent / 'bin'}:{BARE}"
    listed = machine.run("runtimes", "--json", PATH=path).json["runtimes"]
    checked = machine.run("doctor", "--json", PATH=path).json["checks"]
    (static,) = [one for one in listed if one["bridge"] == "static"]
    assert static["reason"].endswith("not able: shellcheck (shell)")
    (unable,) = [one for one in checked if one["class"] == "analysers.unable"]
    assert "shellcheck (shell)" in unable["message"]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("deploy", b"#!/usr/bin/perl\nprint 1;\n", "nobody_able"),
        ("main.c", b"int main(void) { return 0; }\n", "nobody_able"),
        ("Main.kt", b"fun main() {}\n", "nobody_able"),
        ("tool.pl", b"print 1;\n", "nobody_able"),
        ("compact.ipynb", COMPACT_NOTEBOOK, "nobody_able"),
        ("wide.py", "x = 1\n".encode("utf-16-le"), "unreadable"),
        ("binary.py", b"x = 1\n\0\1\2", "unreadable"),
        ("start", b"#!/bin/sh\necho\n\0\1", "unreadable"),
        ("big.py", b"x = 1\n" * 500_000, "too_large"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
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


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("deploy", "#!/usr/bin/env -S python3 -u\nimport os\n" + PYTHON, 4),
        ("bin/start", "#!/usr/bin/node\n" + SCRIPT_CODE, 2),
        ("App.vue", PAGE, 3),
        ("App.svelte", PAGE, 3),
        ("index.html", PAGE, 3),
        ("study.ipynb", NOTEBOOK, 13),
        ("Rakefile", "def go(x)\n  eval(x)\nend\n", 2),
    ],
)
def test_code_is_found_in_what_holds_it_at_its_own_line(
    machine: Machine, name: str, content: str, line: int
) -> None:
    target = machine.project / name
    target.parent.mkdir(exist_ok=True)
    target.write_text(content)

    report = review(machine, ".", "--json").json

    assert report["not_looked_at"] == []
    places = [one["evidence"] for one in report["single_source_findings"]]
    assert any(f"{name}:{line} " in place for place in places), places


def test_text_in_utf_16_is_read_and_gated(machine: Machine) -> None:
    repository(machine)
    (machine.project / "wide.py").write_bytes(PYTHON.encode("utf-16"))

    report = review(machine, "--diff", "HEAD", "--json").json
    gated = machine.run("council", "gate", "--level", "concerns", "--json", PATH=BARE)

    assert report["not_looked_at"] == []
    assert "wide.py:2 " in report["single_source_findings"][0]["evidence"]
    assert gated.json["refused_because"] == ["the verdict is CONCERNS"]


@pytest.mark.parametrize(
    ("name", "first_line"),
    [("tool.py", "# @generated, do not edit\n"), ("vendor/tool.py", "")],
)
def test_a_change_is_not_excused_by_calling_itself_generated_or_vendored(
    machine: Machine, name: str, first_line: str
) -> None:
    repository(machine)
    target = machine.project / name
    target.parent.mkdir(exist_ok=True)
    target.write_text(first_line + PYTHON)
    target.with_name("main.c").write_text(f"// {first_line}int main() {{}}\n")

    change = review(machine, "--diff", "HEAD", "--gate", "concerns", "--json")

    assert change.code == 3
    assert change.json["verdict"] == "CONCERNS"
    assert [Path(one["on"]).name for one in change.json["not_looked_at"]] == ["main.c"]
    whole = review(machine, ".", "--json").json
    assert name not in [one["on"] for one in whole["not_looked_at"]]


def test_an_attributes_file_does_not_take_a_change_out_of_sight(
    machine: Machine,
) -> None:
    repository(machine)
    (machine.project / "fine.py").write_text(PYTHON)
    (machine.project / ".gitattributes").write_text("*.py -diff\n")

    done = review(machine, "--diff", "HEAD", "--gate", "concerns", "--json")

    assert done.code == 3, done.out
    assert done.json["single_source_findings"]


def test_code_that_holds_a_secret_is_read_here(machine: Machine) -> None:
    key = 'key = "AKIA' + 'Q3EGRIXLZJ7P2WMV"\n'
    (machine.project / "fine.py").write_text('"""Fine."""\n')
    (machine.project / "credentials").mkdir()
    (machine.project / "credentials" / "aws.py").write_text(key + PYTHON)

    report = review(machine, ".", "--json").json

    assert report["not_looked_at"] == []
    assert len(report["single_source_findings"]) > 1


def test_what_is_found_in_a_change_that_is_kept_back_counts(machine: Machine) -> None:
    repository(machine)
    key = 'key = "AKIA' + 'Q3EGRIXLZJ7P2WMV"\n'
    (machine.project / "aws.py").write_text(key + PYTHON)
    (machine.project / "fine.py").write_text('"""Still fine."""\n')

    done = review(machine, "--diff", "HEAD", "--gate", "concerns", "--json")

    assert done.json["verdict"] == "CONCERNS"
    assert done.code == 3


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
