"""The static seat: real analysers over real mistakes, with evidence that holds."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridgehead.contract.words import Severity
from bridgehead.council.findings.evidence import check_evidence
from bridgehead.council.findings.tree import Tree
from bridgehead.council.request.settings import RuntimeSettings
from bridgehead.council.runtimes.base import SeatSetup
from bridgehead.council.runtimes.static import ANALYSERS
from bridgehead.council.runtimes.static.bandit import Bandit
from bridgehead.council.runtimes.static.base import Analyser, Message, UnreadableAnswer
from bridgehead.council.runtimes.static.detect_secrets import Secrets
from bridgehead.council.runtimes.static.lizard import Lizard
from bridgehead.council.runtimes.static.ruff import Ruff
from bridgehead.council.runtimes.static.seat import Examined, available_analysers, examine, grouped, quoted
from bridgehead.council.scope.scope import Scope

SOURCE = """import os
import subprocess


def find(connection, order_id, seen=[]):
    return connection.execute("SELECT * FROM orders WHERE id = " + order_id)


def run(name):
    subprocess.call("ls " + name, shell=True)
    return undefined_name
"""
KEY = 'key = "AKIA' + 'Q3EGRIXLZJ7P2WMV"\n'
ENVIRONMENT = {"PATH": os.environ["PATH"]}


def look(
    texts: dict[str, str], withheld: dict[str, str] | None = None, tools: tuple[Analyser, ...] = ANALYSERS
) -> Examined:
    scope = Scope(("src",), texts, withheld_texts=withheld or {})
    return examine(scope, tools, ENVIRONMENT, timeout_seconds=120)


@pytest.fixture(scope="module")
def examined() -> Examined:
    return look({"src/orders.py": SOURCE, "notes.md": "# Notes\n"}, {"src/config.py": KEY})


def test_real_analysers_find_real_mistakes(examined: Examined) -> None:
    found = {
        (output.agent, output.severity, (output.evidence or "").split()[0]) for output in examined.outputs
    }

    assert ("bandit", Severity.HIGH, "src/orders.py:6") in found
    assert ("bandit", Severity.HIGH, "src/orders.py:10") in found
    assert ("ruff", Severity.HIGH, "src/orders.py:11") in found
    assert ("ruff", Severity.MEDIUM, "src/orders.py:5") in found
    assert ("detect-secrets", Severity.HIGH, "src/config.py:1") in found
    assert examined.analysers == ("ruff", "bandit", "lizard", "detect-secrets")
    assert examined.failure is None


def test_every_finding_has_evidence_that_holds(examined: Examined) -> None:
    tree = Tree.of({"src/orders.py": SOURCE, "notes.md": "# Notes\n", "src/config.py": KEY})
    checked = [check_evidence(output.evidence, tree).outcome for output in examined.outputs]

    assert checked
    assert set(map(str, checked)) == {"passed"}


def test_an_analyser_that_cannot_be_imported_is_run_from_the_path(machine: Callable[..., Any]) -> None:
    here = machine({"ruff": lambda command: (0, "")})
    (found,) = available_analysers(SeatSetup("static"), here)
    (command,) = found.commands(["a.py"], Path("/tree"), {})

    assert (found.name, command.argv[1]) == ("ruff", "check")
    assert command.argv[0] == here.which("ruff")


def test_findings_are_ordered_numbered_and_never_exposed_to_a_debate(examined: Examined) -> None:
    ranks = [output.severity.rank for output in examined.outputs if output.severity]

    assert ranks == sorted(ranks, reverse=True)
    assert [output.id for output in examined.outputs[:2]] == ["S001", "S002"]
    assert {output.status for output in examined.outputs} == {None}


def test_a_secret_is_named_by_its_place_and_not_repeated(examined: Examined) -> None:
    assert "AKIA" not in str(examined)


def test_a_clean_tree_has_no_findings() -> None:
    examined = look(
        {"src/fine.py": '"""Fine."""\n\n\ndef add(one: int, other: int) -> int:\n    return one + other\n'}
    )

    assert (examined.outputs, examined.failure) == ((), None)


def test_a_tree_cannot_pose_as_a_module_of_the_analysers_or_configure_them(tmp_path: Path) -> None:
    trap = f"open({str(tmp_path / 'ran')!r}, 'w').write('x')\n"
    examined = look(
        {
            "json.py": trap,
            "ruff.py": trap,
            "bandit.py": trap,
            "csv.py": trap,
            "src/orders.py": SOURCE,
            "ruff.toml": 'exclude = ["*"]\n',
            ".bandit": "[bandit]\nexclude: /\n",
            "pyproject.toml": '[tool.ruff]\nexclude = ["*"]\n',
        }
    )

    assert not (tmp_path / "ran").exists()
    assert {output.agent for output in examined.outputs} >= {"ruff", "bandit"}


def test_a_function_with_many_paths_is_remarked_upon() -> None:
    branches = "".join(f"    if x == {number}:\n        return {number}\n" for number in range(35))
    (output,) = look({"src/maze.py": f"def maze(x):\n{branches}    return None\n"}).outputs

    assert (output.agent, output.severity, output.domain) == ("lizard", Severity.MEDIUM, "code-quality")
    assert "36 independent paths" in output.title


def test_a_file_that_does_not_parse_is_a_finding_and_not_a_failure() -> None:
    examined = look({"src/broken.py": "def (:\n"})

    assert examined.failure is None
    assert "ruff" in {output.agent for output in examined.outputs}


class Broken(Analyser):
    name = "broken"
    module = "this_module_does_not_exist"
    domains = ("security",)

    def wants(self, path: str) -> bool:
        return True

    def arguments(self) -> list[str]:
        return []

    def read(self, printed: str) -> list[Message]:
        return []


def test_an_analyser_that_fails_is_a_warning_and_all_of_them_are_a_reason_to_skip() -> None:
    partly = look({"src/orders.py": SOURCE}, tools=(Bandit(), Broken()))
    wholly = look({"src/orders.py": SOURCE}, tools=(Broken(),))

    assert partly.warnings == ("analyser_failed:broken",)
    assert partly.outputs
    assert wholly.failure == "cli_error: broken ended with code 1"


@pytest.mark.parametrize("analyser", ANALYSERS, ids=lambda analyser: analyser.name)
@pytest.mark.parametrize("printed", ["nonsense", '{"results": 7}', '[{"code": 1}]', "1,2\n3", "[[]]"])
def test_an_answer_of_another_shape_is_refused(analyser: Analyser, printed: str) -> None:
    with pytest.raises(UnreadableAnswer):
        analyser.read(printed)


def test_the_settings_choose_among_what_can_run_here(machine: Callable[..., Any]) -> None:
    here = machine(modules=("ruff", "bandit", "lizard"))

    def names(**options: Any) -> list[str]:
        setup = SeatSetup("static", RuntimeSettings(options=options))
        return [analyser.name for analyser in available_analysers(setup, here)]

    assert names() == ["ruff", "bandit", "lizard"]
    assert names(tools=["bandit", "detect-secrets"]) == ["bandit"]


# -- reading and joining


def test_severities_come_from_a_fixed_table() -> None:
    entry = {"code": "F401", "message": "unused", "filename": "a.py", "location": {"row": 1}, "fix": None}
    rated = {
        code: Ruff().read(json.dumps([entry | {"code": code}]))[0].severity
        for code in ("F401", "F821", "F811", "B006", "PLE0101", "ASYNC210", "E722")
    }

    assert rated == {
        "F401": Severity.INFO,
        "F821": Severity.HIGH,
        "F811": Severity.LOW,
        "B006": Severity.MEDIUM,
        "PLE0101": Severity.HIGH,
        "ASYNC210": Severity.MEDIUM,
        "E722": Severity.LOW,
    }


def message(line: int, severity: Severity, rule: str = "R1") -> Message:
    return Message("a.py", line, rule, f"text of {rule}", severity, "code-quality")


def test_small_remarks_of_one_kind_in_one_file_are_one_finding() -> None:
    small = [("ruff", message(line, Severity.INFO)) for line in (9, 3, 5)]
    large = [("ruff", message(line, Severity.HIGH, "R2")) for line in (8, 2)]

    groups = grouped([*small, *large])

    assert [[one.line for one in group] for _, group in groups] == [[2], [8], [3, 5, 9]]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x = 1", "a.py:1 `x = 1`"),
        ("x = `1`", "a.py:1 `` x = `1` ``"),
        ("   ", "a.py:1"),
    ],
)
def test_the_line_is_quoted_in_backticks_it_cannot_close(line: str, expected: str) -> None:
    assert quoted(message(1, Severity.HIGH), {"a.py": f"{line}\n"}, quote=True) == expected


def test_a_line_that_is_not_there_is_not_quoted() -> None:
    assert quoted(message(7, Severity.HIGH), {"a.py": "x\n"}, quote=True) == "a.py:7"


@pytest.mark.parametrize(
    ("analyser", "wanted", "unwanted"),
    [
        (Ruff(), "a.py", "a.js"),
        (Bandit(), "a.pyi", "a.md"),
        (Lizard(), "a.go", "a.md"),
        (Secrets(), "a.md", None),
    ],
)
def test_analysers_are_given_files_they_have_something_to_say_about(
    analyser: Analyser, wanted: str, unwanted: str | None
) -> None:
    assert analyser.wants(wanted)
    assert unwanted is None or not analyser.wants(unwanted)
