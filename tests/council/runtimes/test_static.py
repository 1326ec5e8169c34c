"""The static seat: real analysers over real mistakes, with evidence that holds."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from bridgehead.contract.looks import Looked, Unlooked
from bridgehead.contract.words import Severity
from bridgehead.council.findings.evidence import check_evidence
from bridgehead.council.findings.tree import Tree
from bridgehead.council.request.settings import RuntimeSettings
from bridgehead.council.runtimes.base import SeatSetup
from bridgehead.council.runtimes.machine import Machine
from bridgehead.council.runtimes.static import ANALYSERS
from bridgehead.council.runtimes.static.answer_cache import FILE, AnswerCache, key_of
from bridgehead.council.runtimes.static.base import (
    RULES,
    Analyser,
    Message,
    Said,
    UnreadableAnswer,
    weights,
)
from bridgehead.council.runtimes.static.canaries import canaries_for
from bridgehead.council.runtimes.static.copies import Copy, notebook_code
from bridgehead.council.runtimes.static.places import place_of
from bridgehead.council.runtimes.static.programs import (
    AstGrep,
    Hadolint,
    Lizard,
    Oxlint,
    Secrets,
    Shellcheck,
    Zizmor,
)
from bridgehead.council.runtimes.static.ruff import Ruff
from bridgehead.council.runtimes.static.seat import (
    AnalyserAnswer,
    Examined,
    absent_analysers,
    available_analysers,
    examine,
    is_quotable,
    looks_at,
    quoted,
    titled,
    unable_analysers,
)
from bridgehead.council.runtimes.static.suppression import (
    directive_lines,
    without_directives,
)
from bridgehead.council.runtimes.static.templates import Templates
from bridgehead.council.runtimes.static.weighing import MARKED, weigh
from bridgehead.council.scope.scope import Scope
from bridgehead.host import process
from bridgehead.host.command import Command, CommandResult, Ended

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


@cache
def installed() -> tuple[Analyser, ...]:
    return available_analysers(SeatSetup("static"), Machine(ENVIRONMENT))


def look(
    texts: dict[str, str],
    withheld: dict[str, str] | None = None,
    tools: tuple[Analyser, ...] | None = None,
    cache: Path | None = None,
) -> Examined:
    scope = Scope(("src",), texts, withheld_texts=withheld or {})
    return examine(
        scope, tools or installed(), ENVIRONMENT, timeout_seconds=300, cache=cache
    )


@pytest.fixture(scope="module")
def examined() -> Examined:
    return look(
        {"src/orders.py": SOURCE, "notes.md": "# Notes\n"}, {"src/config.py": KEY}
    )


def test_real_analysers_find_real_mistakes(examined: Examined) -> None:
    found = {
        (output.agent, output.severity, (output.evidence or "").split()[0])
        for output in examined.outputs
    }

    assert ("ast-grep", Severity.HIGH, "src/orders.py:6") in found
    assert ("ruff", Severity.HIGH, "src/orders.py:10") in found
    assert ("ruff", Severity.HIGH, "src/orders.py:11") in found
    assert ("ruff", Severity.MEDIUM, "src/orders.py:5") in found
    assert ("secrets", Severity.HIGH, "src/config.py:1") in found
    assert {
        "ruff",
        "ast-grep",
        "oxlint",
        "lizard",
        "hadolint",
        "zizmor",
        "secrets",
    } <= set(examined.analysers)
    assert examined.failure is None


def test_every_finding_has_evidence_that_holds(examined: Examined) -> None:
    tree = Tree.of(
        {"src/orders.py": SOURCE, "notes.md": "# Notes\n", "src/config.py": KEY}
    )
    checked = [
        check_evidence(output.evidence, tree).outcome for output in examined.outputs
    ]

    assert checked
    assert set(map(str, checked)) == {"passed"}


def test_an_analyser_that_cannot_be_imported_is_run_from_the_path(
    machine: Callable[..., Any],
) -> None:
    here = machine({"ruff": lambda command: (0, "")})
    found, *_in_process = available_analysers(SeatSetup("static"), here)
    command = found.command(["a.py"], Path("/tree"), {})

    assert (found.name, command.argv[1]) == ("ruff", "check")
    assert command.argv[0] == here.which("ruff")


def test_findings_are_ordered_numbered_and_never_exposed_to_a_debate(
    examined: Examined,
) -> None:
    ranks = [output.severity.rank for output in examined.outputs if output.severity]

    assert ranks == sorted(ranks, reverse=True)
    assert [output.id for output in examined.outputs[:2]] == ["S001", "S002"]
    assert {output.status for output in examined.outputs} == {None}


def test_a_secret_is_named_by_its_place_and_not_repeated(examined: Examined) -> None:
    assert "AKIA" not in str(examined)


def test_a_clean_tree_has_no_findings() -> None:
    examined = look(
        {
            "src/fine.py": '"""Fine."""\n\n\ndef add(one: int, other: int) -> int:\n    return one + other\n'
        }
    )

    assert (examined.outputs, examined.failure) == ((), None)


def test_a_tree_cannot_pose_as_a_module_of_the_analysers_or_configure_them(
    tmp_path: Path,
) -> None:
    trap = f"open({str(tmp_path / 'ran')!r}, 'w').write('x')\n"
    examined = look(
        {
            "json.py": trap,
            "ruff.py": trap,
            "lizard.py": trap,
            "csv.py": trap,
            "src/orders.py": SOURCE,
            "ruff.toml": 'exclude = ["*"]\n',
            "src/page.js": "function show(el, text) {\n  el.innerHTML = text\n}\nif (x = NaN === x) { y() }\n",
            ".gitignore": "*\n",
            ".oxlintrc.json": '{"ignorePatterns": ["**"]}',
            "sgconfig.yml": "ruleDirs: []\n",
            "pyproject.toml": '[tool.ruff]\nexclude = ["*"]\n',
        }
    )

    assert not (tmp_path / "ran").exists()
    assert {output.agent for output in examined.outputs} >= {
        "ruff",
        "ast-grep",
        "oxlint",
    }


def test_a_function_with_many_paths_is_remarked_upon() -> None:
    branches = "".join(
        f"    if x == {number} {{ return {number} }}\n" for number in range(45)
    )
    (output,) = look(
        {
            "src/maze.go": f"package p\nfunc maze(x int) int {{\n{branches}    return 0\n}}\n"
        }
    ).outputs

    assert (output.agent, output.severity, output.domain) == (
        "lizard",
        Severity.INFO,
        "code-quality",
    )
    assert "46 independent paths" in output.title


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


def test_an_analyser_that_fails_is_a_warning_and_all_of_them_are_a_reason_to_skip() -> (
    None
):
    partly = look({"src/orders.py": SOURCE}, tools=(Ruff(), Broken()))
    wholly = look({"src/orders.py": SOURCE}, tools=(Broken(),))

    assert partly.warnings == ("analyser_failed:broken",)
    assert partly.outputs
    assert wholly.failure == "cli_error: broken ended with code 1"


@pytest.mark.parametrize("analyser", ANALYSERS, ids=lambda analyser: analyser.name)
@pytest.mark.parametrize(
    "printed", ["nonsense", '{"diagnostics": 7}', '[{"code": 1}]', "1,2\n3", "[[]]"]
)
def test_an_answer_of_another_shape_is_refused(
    analyser: Analyser, printed: str
) -> None:
    with pytest.raises(UnreadableAnswer):
        analyser.read(printed)


def ended(code: int, out: str, said: str) -> CommandResult:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return CommandResult(
        (), Ended.EXITED, code, at, stdout=out.encode(), stderr=said.encode()
    )


def counted(rules: int, files: int) -> str:
    return json.dumps(
        {"diagnostics": [], "number_of_files": files, "number_of_rules": rules}
    )


@pytest.mark.parametrize(
    ("analyser", "result", "reason"),
    [
        (Ruff(), ended(2, "", "Cause: Unknown rule selector `S1`"), Unlooked.NOT_ABLE),
        (
            Ruff(),
            ended(2, "", "The following rules have been removed and"),
            Unlooked.NOT_ABLE,
        ),
        (
            Ruff(),
            ended(0, "[]", "warning: Selection `S1` has no effect because preview is"),
            Unlooked.NOT_ABLE,
        ),
        (Ruff(), ended(0, "[]", "warning: Failed to lint a.py: gone"), Unlooked.DIED),
        (AstGrep(), ended(8, "", "Error: Cannot parse rule a.yml"), Unlooked.NOT_ABLE),
        (AstGrep(), ended(0, "[]", "ERROR: ./a.py: No such file"), Unlooked.DIED),
        (Oxlint(), ended(0, counted(36, 1), ""), Unlooked.NOT_ABLE),
        (Oxlint(), ended(0, counted(37, 0), ""), Unlooked.DIED),
        (Oxlint(), ended(0, counted(37, 1)[:-9], ""), Unlooked.DIED),
        (
            Zizmor(),
            ended(1, "", "failed to load a.yml as workflow"),
            Unlooked.UNREADABLE,
        ),
        (Ruff(), ended(-9, "[]", ""), Unlooked.DIED),
    ],
)
def test_an_answer_without_all_rules_and_files_is_none(
    analyser: Analyser, result: CommandResult, reason: Unlooked
) -> None:
    with pytest.raises(UnreadableAnswer) as refused:
        analyser.read_result(result, ["a.py"])

    assert refused.value.reason is reason


NOT_THERE = "/nowhere/at/all"


def no_program(command: Command) -> CommandResult:
    raise AssertionError(f"{command.argv} was run")


class Picky(Ruff):
    """Breaks over files of one name."""

    runs = 0

    def command(self, names: Any, folder: Any, environment: Any) -> Command:
        type(self).runs += 1
        found = super().command(names, folder, environment)
        bad = any("bad" in name for name in names)
        return replace(found, argv=("false",)) if bad else found


def test_a_file_that_breaks_an_analyser_is_found_among_many() -> None:
    texts = {f"a{number}.py": SOURCE for number in range(30)}

    examined = look({**texts, "bad.py": "x = 1\n"}, tools=(Picky(),))

    assert {look.on: look.reason for look in examined.looks if look.reason} == {
        "bad.py": Unlooked.DIED
    }
    assert examined.outputs
    assert Picky.runs < 15


def test_what_a_failing_analyser_said_before_is_still_true(tmp_path: Path) -> None:
    look({"a.py": SOURCE}, tools=(Picky(),), cache=tmp_path)

    later = look({"a.py": SOURCE, "bad.py": SOURCE}, tools=(Picky(),), cache=tmp_path)

    assert {look.on: look.reason for look in later.looks} == {
        "a.py": None,
        "bad.py": Unlooked.DIED,
    }
    assert all("bad.py" not in str(one.evidence) for one in later.outputs)
    assert later.outputs


def test_a_page_is_looked_at_if_its_script_is() -> None:
    page = {"bad.html": "<p>{{ name }}</p>\n<script>run()</script>\n"}

    whole = look(page, tools=(Templates(), AstGrep(NOT_THERE)))
    without_script = look({"a.html": "<p>{{ name }}</p>\n"}, tools=(Templates(),))

    assert {one.outcome for one in whole.looks} == {Looked.NOT}
    assert {one.outcome for one in without_script.looks} == {Looked.TO_THE_END}


@pytest.mark.parametrize(
    ("name", "text", "severity"),
    [
        ("a.html", "<p>{{ bio|safe }}</p>\n", Severity.LOW),
        ("a.html", "<p onclick=\"go('{{ bio }}')\">x</p>\n", Severity.MEDIUM),
        ("a.vue", '<p v-html="bio"></p>\n', Severity.LOW),
        ("a.svelte", "<p>{@html bio}</p>\n", Severity.LOW),
        ("a.erb", "<p><%= bio.html_safe %></p>\n", Severity.LOW),
        ("a.ejs", "<p><%- bio %></p>\n", Severity.LOW),
        ("a.hbs", "<p>{{{ bio }}}</p>\n", Severity.LOW),
        ("a.html", "<p>{{ bio }}</p>\n", None),
        ("a.ejs", "<%- include('head') %>\n", None),
    ],
)
def test_text_that_a_template_does_not_escape_is_found(
    name: str, text: str, severity: Severity | None
) -> None:
    (answer,) = [Templates().answer({name: text}, Path("/"), {}, no_program)]

    assert [one.severity for one in answer.messages] == ([severity] if severity else [])


def test_every_analyser_that_can_judge_finds_its_canaries() -> None:
    judges = [one for one in ANALYSERS if one.finds_defects and not one.in_process]

    assert all(canaries_for(one.name) for one in judges)
    assert unable_analysers(installed(), ENVIRONMENT, timeout_seconds=60) == {}
    for analyser in judges:
        languages = canaries_for(analyser.name)
        for suffix in analyser.suffixes:
            name = f"a{suffix}"
            speaking = [one for one in languages if one.speaks_for(name)]
            assert speaking or suffix == ".pyi", name


class Blind(AstGrep):
    """Sees nothing in Go."""

    def messages(self, printed: Any) -> Any:
        found = super().messages(printed)
        return [one for one in found if not one.path.endswith(".go")]


def test_an_analyser_is_believed_only_in_languages_whose_canary_it_finds(
    tmp_path: Path,
) -> None:
    (found,) = (one for one in installed() if isinstance(one, AstGrep))
    texts = {"a.go": "package p\n", "a.rb": "puts 1\n"}

    for _ in range(2):
        looks = look(texts, tools=(Blind(found._program),), cache=tmp_path).looks

        assert {one.on: one.reason for one in looks} == {
            "a.go": Unlooked.NOT_ABLE,
            "a.rb": None,
        }


def test_a_notebook_is_read_whole_or_not_at_all() -> None:
    cells = [{"cell_type": "code", "source": ["x = 1\n", "    !ls\n", "x"]}]
    pretty = json.dumps({"cells": cells}, indent=1)
    first_cell_only = pretty.replace(
        "\n ]\n}", ',{"cell_type": "code", "source": ["y", "z"]}\n ]\n}'
    )
    other = json.dumps({"cells": cells, "metadata": {"kernelspec": {"language": "R"}}})

    found = notebook_code(pretty)

    assert found is not None
    assert found.split() == ["x", "=", "1", "pass", "x"]
    assert found.count("\n") == pretty.count("\n")
    assert notebook_code(first_cell_only) is None
    assert notebook_code(other) is None
    assert notebook_code("{}") is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x  # noqa: S307\n", "x  # xxxx: S307\n"),
        ("# RUFF:NOQA\n", "# xxxx:xxxx\n"),
        ("noqa = 1\n", "noqa = 1\n"),
        ("/* eslint-disable */ x\n", "/* xxxxxx-xxxxxxx */ x\n"),
        ("# shellcheck disable=SC1\n", "# xxxxxxxxxx xxxxxxx=SC1\n"),
        ("# hadolint global ignore=DL1\n", "# xxxxxxxx xxxxxx xxxxxx=DL1\n"),
    ],
)
def test_a_comment_is_made_unreadable_where_it_stands(text: str, shown: str) -> None:
    assert without_directives(text, range(9)) == shown
    assert bool(directive_lines(text)) == (text != shown)


def test_an_answer_is_kept_for_one_state_of_the_program(tmp_path: Path) -> None:
    program = tmp_path / "shellcheck"
    program.write_text("one")
    before = Shellcheck(str(program)).digest()
    os.utime(program, ns=(1, 1))
    after = Shellcheck(str(program)).digest()
    program.unlink()

    assert before != after
    assert Shellcheck(str(program)).digest() is None
    assert Ruff().digest() is not None


def test_the_settings_choose_among_what_can_run_here(
    machine: Callable[..., Any],
) -> None:
    here = machine(modules=("ruff", "lizard"))

    def names(**options: Any) -> list[str]:
        setup = SeatSetup("static", RuntimeSettings(options=options))
        return [analyser.name for analyser in available_analysers(setup, here)]

    assert names() == ["ruff", "lizard", "secrets", "templates"]
    assert names(tools=["lizard", "zizmor"]) == ["lizard"]


def test_looking_for_secrets_alone_is_no_review(machine: Callable[..., Any]) -> None:
    assert available_analysers(SeatSetup("static"), machine()) == ()


def test_an_analyser_that_is_not_installed_is_named_where_it_would_have_looked(
    machine: Callable[..., Any],
) -> None:
    absent = absent_analysers(SeatSetup("static"), machine(modules=("ruff",)))
    scope = Scope(("src",), {"a.py": "x = 1\n", "deploy.sh": "ls\n"})
    examined = examine(
        scope, (Ruff(),), ENVIRONMENT, timeout_seconds=300, absent=absent
    )

    assert examined.warnings == (
        "analyser_absent:ast-grep",
        "analyser_absent:shellcheck",
    )


def test_a_script_that_only_oxlint_has_looked_at_is_not_looked_at() -> None:
    text = "run(text)\n"
    refused = UnreadableAnswer("rules refused")
    answers = [
        AnalyserAnswer(Oxlint(), {"a.js": []}),
        AnalyserAnswer(AstGrep(), {}, missed={"a.js": refused}),
    ]

    looks = looks_at([Copy("a.js", "a.js", text)], {"a.js": text}, answers, ())

    assert [(look.by, look.outcome) for look in looks] == [("ast-grep", Looked.NOT)]


# -- reading and joining


def test_severities_come_from_a_fixed_table() -> None:
    entry = {
        "code": "F401",
        "message": "unused",
        "filename": "a.py",
        "location": {"row": 1},
        "fix": None,
    }
    rated = {
        code: Ruff().read(json.dumps([entry | {"code": code}]))[0].severity
        for code in (
            "F821",
            "F811",
            "B006",
            "PLE0101",
            "ASYNC210",
            "E722",
            "S506",
            "S608",
        )
    }

    assert rated == {
        "F821": Severity.HIGH,
        "F811": Severity.LOW,
        "B006": Severity.MEDIUM,
        "PLE0101": Severity.HIGH,
        "ASYNC210": Severity.MEDIUM,
        "E722": Severity.LOW,
        "S506": Severity.HIGH,
        "S608": Severity.LOW,
    }


def message(
    line: int,
    severity: Severity,
    rule: str = "R1",
    path: str = "a.py",
    cwe: int | None = None,
) -> Message:
    return Message(
        path, line, rule, f"text of {rule}", severity, "code-quality", cwe=cwe
    )


def weighed(
    *messages: Message, tool: str = "ruff"
) -> list[tuple[str, Severity, list[int]]]:
    texts = dict.fromkeys((one.path for one in messages), "x\n")
    found = weigh([(tool, one) for one in messages], texts, most_places=2)
    return [
        (titled(one), one.first.severity, [place.line for place in one.messages])
        for one in found
    ]


def test_one_rule_in_one_file_is_one_finding_with_a_count() -> None:
    large = [
        message(line, Severity.HIGH, path=path)
        for path, line in (("a.py", 8), ("b.py", 1), ("a.py", 2))
    ]

    assert weighed(*large) == [
        ("text of R1 (2 places)", Severity.HIGH, [2, 8]),
        ("text of R1", Severity.HIGH, [1]),
    ]


def test_small_remarks_of_one_kind_are_one_finding_of_the_tree() -> None:
    small = [message(3, Severity.LOW, path=path) for path in ("a.py", "b.py", "c.py")]

    assert weighed(*small) == [
        ("text of R1 (3 places of 3 files)", Severity.LOW, [3, 3])
    ]


def test_what_is_not_run_counts_for_less_and_is_told_once() -> None:
    where = (
        "tests/test_a.py",
        "tests/test_b.py",
        "examples/a.py",
        "src/a.py",
        "vendor/x.py",
    )
    found = weighed(*(message(1, Severity.HIGH, path=path) for path in where))

    assert found == [
        ("text of R1", Severity.HIGH, [1]),
        ("text of R1 (examples)", Severity.LOW, [1]),
        ("text of R1 (vendored code)", Severity.LOW, [1]),
        ("text of R1 (2 places in tests)", Severity.INFO, [1, 1]),
    ]
    assert weighed(message(1, Severity.LOW, path="tests/test_a.py")) == []


def test_a_key_in_a_test_is_no_secret() -> None:
    assert (
        weighed(message(1, Severity.HIGH, path="tests/server.key"), tool="secrets")
        == []
    )


def test_two_rules_about_one_weakness_of_a_line_are_one_finding() -> None:
    found = weighed(
        message(1, Severity.LOW, "S324", cwe=327),
        message(1, Severity.HIGH, "py-password-hash", cwe=916),
    )

    assert [title for title, _, _ in found] == ["text of py-password-hash"]


@pytest.mark.parametrize(
    ("path", "text", "kind"),
    [
        ("src/app.py", "import os\n", None),
        ("src/latest.py", "", None),
        ("pkg/app_test.go", "", "tests"),
        ("src/UserServiceTest.java", "", "tests"),
        ("src/spec/thing.rb", "", "tests"),
        (".github/workflows/test.yml", "", None),
        ("docs/conf.py", "", "documentation"),
        ("README.md", "", "documentation"),
        ("static/jquery-3.6.js", "", "vendored code"),
        (
            "api/types.go",
            "// Code generated by protoc. DO NOT EDIT.\n",
            "generated code",
        ),
        ("static/app.js", "x" * 900 + "\n", "generated code"),
    ],
)
def test_the_kind_of_a_place_is_told_by_name_and_first_lines(
    path: str, text: str, kind: str | None
) -> None:
    assert place_of(path, text) == kind


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("eval(x)  # noqa: S307\n", True),
        ("eval(x)  # noqa: E501, S307 because\n", True),
        ("eval(x)  # nosec B307\n", True),
        ("# nosemgrep: eval\neval(x)\n", True),
        ("// eslint-disable-next-line no-eval\neval(x)\n", True),
        ("eval(x) // eslint-disable-line no-eval\n", True),
        ("exec.Command(x) //nolint:errcheck,gosec\n", True),
        ("eval(x)  # noqa: E501\n", False),
        ("eval(x)  # noqa\n", False),
        ("eval(x) // eslint-disable-line no-console\n", False),
        ("y = 1  # nosec\neval(x)\n", False),
        ("eval(x)\n# nosec\n", False),
    ],
)
def test_a_line_marked_as_reviewed_counts_for_less_except_in_a_change(
    text: str, marked: bool
) -> None:
    line = next(
        number for number, one in enumerate(text.split("\n"), 1) if one.startswith("e")
    )
    said = [("ast-grep", message(line, Severity.HIGH))]
    [found] = weigh(said, {"a.py": text}, most_places=2, trusts_marks=True)
    assert (found.first.severity, found.place) == (
        (Severity.LOW, MARKED) if marked else (Severity.HIGH, None)
    )
    [in_a_change] = weigh(said, {"a.py": text}, most_places=2)
    assert in_a_change.first.severity is Severity.HIGH
    [of_others] = weigh(
        [("ruff", said[0][1])], {"a.py": text}, most_places=2, trusts_marks=True
    )
    assert of_others.first.severity is Severity.HIGH


def test_a_mark_that_a_change_brings_does_not_silence_a_finding_in_it() -> None:
    scope = Scope(("a.py",), {"a.py": "def f(x):\n    return eval(x)  # noqa: S307\n"})
    whole, change = (
        examine(
            one,
            [tool for tool in installed() if isinstance(tool, AstGrep)],
            ENVIRONMENT,
            timeout_seconds=300,
        )
        for one in (scope, replace(scope, diff="+    return eval(x)  # noqa: S307\n"))
    )
    assert [one.severity for one in whole.outputs] == [Severity.LOW]
    assert [one.severity for one in change.outputs] == [Severity.HIGH]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x = 1", "a.py:1 `x = 1`"),
        ("x = `1`", "a.py:1 `` x = `1` ``"),
        ("   ", "a.py:1"),
    ],
)
def test_the_line_is_quoted_in_backticks_it_cannot_close(
    line: str, expected: str
) -> None:
    assert (
        quoted(message(1, Severity.HIGH), {"a.py": f"{line}\n"}, quote=True) == expected
    )


def test_a_line_that_is_not_there_is_not_quoted() -> None:
    assert quoted(message(7, Severity.HIGH), {"a.py": "x\n"}, quote=True) == "a.py:7"


@pytest.mark.parametrize(
    ("analyser", "wanted", "unwanted"),
    [
        (Ruff(), "a.py", "a.js"),
        (AstGrep(), "a.php", "a.sql"),
        (Oxlint(), "a.tsx", "a.py"),
        (Lizard(), "a.go", "a_test.go"),
        (Hadolint(), "build/Dockerfile.dev", "docker.py"),
        (Zizmor(), ".github/workflows/ci.yml", "ci.yml"),
        (Shellcheck(), "a.sh", "a.md"),
        (Secrets(), "a.md", None),
    ],
)
def test_analysers_are_given_files_they_have_something_to_say_about(
    analyser: Analyser, wanted: str, unwanted: str | None
) -> None:
    assert analyser.wants(wanted)
    assert unwanted is None or not analyser.wants(unwanted)


# -- what was said before


class Counting(Ruff):
    """Remembers which files it was asked about."""

    asked: list[list[str]]

    def answer(self, texts: Any, folder: Any, environment: Any, run: Any) -> Said:
        self.asked.append(sorted(texts))
        return super().answer(texts, folder, environment, run)


def test_only_what_changed_is_analysed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    analyser = Counting()
    analyser.asked = []
    first = look({"a.py": SOURCE, "b.py": "x = 1\n"}, tools=(analyser,), cache=tmp_path)
    again = look({"a.py": SOURCE, "b.py": "x = 1\n"}, tools=(analyser,), cache=tmp_path)
    changed = look(
        {"a.py": SOURCE, "b.py": "x = y\n"}, tools=(analyser,), cache=tmp_path
    )
    monkeypatch.setattr(analyser, "digest", lambda: "other rules")
    look({"a.py": SOURCE}, tools=(analyser,), cache=tmp_path)

    assert first == again
    canary = ".bridgehead/canaries/ruff/a.py"
    assert analyser.asked == [[canary, "a.py", "b.py"], ["b.py"], [canary, "a.py"]]
    assert [
        output.evidence for output in changed.outputs if "b.py" in str(output.evidence)
    ] == ["b.py:1 `x = y`"]


def test_what_an_analyser_failed_to_say_is_asked_again(tmp_path: Path) -> None:
    look({"a.py": SOURCE}, tools=(Ruff(), Broken()), cache=tmp_path)

    assert look({"a.py": SOURCE}, tools=(Broken(),), cache=tmp_path).failure is not None


def test_a_damaged_cache_is_made_anew_and_a_place_that_cannot_be_written_does_no_harm(
    tmp_path: Path,
) -> None:
    (tmp_path / FILE).write_bytes(b"no database" * 100)
    (tmp_path / "file").write_text("")

    damaged = [
        look({"a.py": SOURCE}, tools=(Ruff(),), cache=tmp_path).outputs
        for _ in range(3)
    ]
    unwritable = look(
        {"a.py": SOURCE}, tools=(Ruff(),), cache=tmp_path / "file" / "below"
    ).outputs

    assert damaged == [unwritable] * 3
    assert unwritable


def test_the_cache_keeps_no_more_than_it_may_and_the_latest_longest(
    tmp_path: Path,
) -> None:
    kept = AnswerCache(tmp_path, most_rows=2)
    keys = {name: key_of("rules", name, "text") for name in ("a", "b", "c")}
    for name, key in keys.items():
        kept.write({key: [message(1, Severity.LOW, path=name)]}, used=[keys["a"]])

    found = kept.read({key: name for name, key in keys.items()})

    assert {name for name, key in keys.items() if key in found} == {"a", "c"}
    assert found[keys["c"]] == [message(1, Severity.LOW, path="c")]


def test_no_line_of_a_file_is_kept(tmp_path: Path) -> None:
    look({"src/config.py": KEY, "src/orders.py": SOURCE}, cache=tmp_path)
    kept = (tmp_path / FILE).read_bytes()

    assert b"AKIA" not in kept
    assert b"SELECT" not in kept


# -- our own rules

SUFFIXES = {
    "javascript": "ts",
    "go": "go",
    "java": "java",
    "csharp": "cs",
    "rust": "rs",
    "php": "php",
    "ruby": "rb",
    "shell": "sh",
    "python": "py",
}


def rules() -> list[Path]:
    return sorted(path for path in RULES.glob("*/*.yml") if path.parent.name != "utils")


@pytest.fixture(scope="module")
def said_of_examples() -> dict[str, set[str]]:
    """The rules that speak about each example."""
    texts = {}
    for path in rules():
        written = yaml.safe_load(path.read_text(encoding="utf-8"))
        for kind, examples in written["metadata"]["examples"].items():
            for number, example in enumerate(examples):
                opening = "<?php\n" if path.parent.name == "php" else ""
                texts[f"{path.stem}.{kind}{number}.{SUFFIXES[path.parent.name]}"] = (
                    f"{opening}{example}\n"
                )
    (analyser,) = (one for one in installed() if isinstance(one, AstGrep))
    said: dict[str, set[str]] = {name: set() for name in texts}
    with TemporaryDirectory() as folder:
        for name, text in texts.items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        answer = analyser.answer(
            texts, Path(folder), ENVIRONMENT, lambda command: run(command, 300)
        )
        for one in answer.messages:
            said[Path(one.path).name].add(one.rule)
    return said


def run(command: Command, seconds: float) -> CommandResult:
    return process.run(command, timeout_seconds=seconds, idle_seconds=None)


@pytest.mark.parametrize("path", rules(), ids=lambda path: path.stem)
def test_a_rule_finds_its_failing_examples_and_not_its_passing_ones(
    path: Path, said_of_examples: dict[str, set[str]]
) -> None:
    examples = {
        name: said
        for name, said in said_of_examples.items()
        if name.startswith(f"{path.stem}.")
    }
    wrong = [
        name
        for name, said in examples.items()
        if (path.stem in said) != (".bad" in name)
    ]

    assert wrong == []
    assert {name.split(".")[1][:3] for name in examples} == {"bad", "goo"}


@pytest.mark.parametrize("path", rules(), ids=lambda path: path.stem)
def test_a_rule_says_what_is_wrong_and_what_to_do(path: Path) -> None:
    rule = yaml.safe_load(path.read_text(encoding="utf-8"))

    assert rule["id"] == path.stem
    assert rule["severity"] in {"error", "warning", "info"}
    assert rule["message"][0].isupper()
    assert not rule["message"].endswith(".")
    assert len(rule["note"]) > 20
    assert rule["metadata"]["domain"] in {
        "security",
        "cryptographic",
        "error-handling",
        "concurrency",
        "code-quality",
    }


@pytest.mark.parametrize("path", sorted(RULES.glob("*/*.yml")), ids=lambda p: p.stem)
def test_a_rule_has_only_fields_that_every_ast_grep_knows(path: Path) -> None:
    # ast-grep 0.51.1 refuses every rule of the folder for one field it does not know.
    known = {"id", "language", "severity", "message", "note", "metadata", "rule"}

    assert set(yaml.safe_load(path.read_text(encoding="utf-8"))) <= known


def test_there_are_rules_for_nine_families_of_languages() -> None:
    counts = {
        folder: sum(path.parent.name == folder for path in rules())
        for folder in SUFFIXES
    }

    assert min(counts.values()) >= 9
    assert sum(counts.values()) >= 60


def known_rules(analyser: Analyser, *words: str) -> list[dict[str, Any]]:
    (found,) = (one for one in installed() if one.name == analyser.name)
    launch = found.command(["a.py", "a.js"], Path("/"), ENVIRONMENT).argv
    program = launch[: list(launch).index(found.arguments()[0])]
    done = run(Command([*program, *words], env=ENVIRONMENT), 60)
    rules: list[dict[str, Any]] = json.loads(done.text())
    return rules


def test_oxlint_has_every_rule_that_we_ask_it_for() -> None:
    # It says nothing of a rule that it does not know.
    known = {one["value"] for one in known_rules(Oxlint(), "--rules", "--format=json")}

    assert set(weights("oxlint")) - known == set()


def test_ruff_has_every_rule_that_we_ask_it_for() -> None:
    entries = known_rules(Ruff(), "rule", "--all", "--output-format", "json")
    codes = [str(one["code"]) for one in entries if "Removed" not in str(one["status"])]
    asked = [rule for rule in weights("ruff") if rule.isupper()]

    assert [
        rule for rule in asked if not any(code.startswith(rule) for code in codes)
    ] == []


# -- reading the smaller analysers


def test_shellcheck_is_read_where_it_is_installed() -> None:
    entry = {
        "file": "./a.sh",
        "line": 3,
        "code": 2164,
        "level": "warning",
        "message": "Use 'cd ... || exit'",
    }
    (found,) = Shellcheck("/bin/shellcheck").read(
        json.dumps([entry, entry | {"code": 2034}])
    )

    assert (found.rule, found.line, found.severity, found.cwe) == (
        "SC2164",
        3,
        Severity.LOW,
        252,
    )


def test_dockerfiles_and_workflows_are_looked_at() -> None:
    steps = "    steps:\n      - run: echo ${{ github.event.issue.title }}\n"
    workflow = f"on: [issues]\njobs:\n  a:\n    runs-on: x\n{steps}"
    examined = look(
        {
            "Dockerfile": "FROM debian:12\nUSER root\n",
            ".github/workflows/a.yml": workflow,
        }
    )
    found = {(output.agent, output.severity) for output in examined.outputs}

    assert {("hadolint", Severity.MEDIUM), ("zizmor", Severity.HIGH)} <= found


@pytest.mark.parametrize(
    ("line", "is_secret"),
    [
        ("url = 'https://user:pass@example.org'", False),
        ("url = 'https://jo%40email.com:a%20secret@host.example.org'", False),
        ("url = 'https://deploy:Xk93jfQ2mVb7@db.acme.net'", True),
        ('fields = ["old_password", "new_password1"]', False),
        ('password = "Xk93!jfQ2-mVb7"', True),
    ],
)
def test_an_example_is_no_secret(line: str, is_secret: bool) -> None:
    found = Secrets().answer(
        {"src/a.py": f"{line}\n"}, Path("/"), {}, lambda command: run(command, 1)
    )

    assert bool(found.messages) == is_secret


def test_the_word_for_password_in_another_language_is_no_password() -> None:
    text = dict.fromkeys(
        ("conf/locale/es.ini", "conf/app.ini"),
        'password = "Contrase\u00f1a-Nueva!42"\n',
    )
    found = Secrets().answer(text, Path("/"), {}, lambda command: run(command, 1))

    assert [one.path for one in found.messages] == ["conf/app.ini"]


def test_lines_of_a_file_that_is_kept_back_are_named_and_not_repeated() -> None:
    message = Message("a.py", 1, "x", "x", Severity.HIGH, "security")
    assert is_quotable(message, {"b.py": "kept back"})
    assert not is_quotable(message, {"a.py": "kept back"})
    assert not is_quotable(replace(message, quotable=False), {})
