"""A comment that silences an analyser does not silence a review, through the installed command."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.installed import Done, Machine

pytestmark = pytest.mark.xdist_group("council_cli")

BARE = "/usr/local/bin:/usr/bin:/bin"
PYTHON = "def run(x):\n    return eval(x)"
UNDEFINED = "def run():\n    return missing_name"
SERVER = "app.get('/c', (req, res) => { res.json(eval(req.query.formula)) })"
LOOSE = "a({b: 1, b: 2})\nif (c === NaN) { a() }\nif (typeof d === 'strnig') { a() }"
WORKFLOW = """on: issues
permissions: {}
jobs:
  greet:
    runs-on: ubuntu-24.04
    steps:
      - run: echo ${{ github.event.issue.title }}"""
BROUGHT = {
    "noqa": ("a.py", UNDEFINED + "  # noqa\n"),
    "noqa with a rule": ("a.py", UNDEFINED + "  #NOQA:F821\n"),
    "ruff: noqa": ("a.py", "# ruff: noqa\n" + UNDEFINED + "\n"),
    "flake8: noqa": ("a.py", "# flake8: noqa\n" + UNDEFINED + "\n"),
    "ruff: disable": ("a.py", "# ruff: disable[F821]\n" + UNDEFINED + "\n"),
    "nosec": ("a.py", PYTHON + "  # nosec\n"),
    "type: ignore": ("a.py", PYTHON + "  # type: ignore\n"),
    "NOSONAR": ("a.js", SERVER + " // NOSONAR\n"),
    "ast-grep-ignore": ("a.js", "// ast-grep-ignore\n" + SERVER + "\n"),
    "eslint-disable": ("a.js", "/* eslint-disable */\n" + LOOSE + "\n"),
    "oxlint-disable": ("a.js", "// oxlint-disable\n" + LOOSE + "\n"),
    "zizmor: ignore": (
        ".github/workflows/a.yml",
        WORKFLOW + " # zizmor: ignore[template-injection]\n",
    ),
}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    found = Machine(tmp_path / "home", tmp_path / "project")
    (found.project / "fine.py").write_text('"""Fine."""\n')
    commit(found, "git init -q")
    return found


def commit(machine: Machine, before: str = "true") -> None:
    done = machine.shell(
        f"{before} && git add . && git -c user.name=Ada -c user.email=ada@example.org"
        " commit -qm change"
    )
    assert done.code == 0, done.err


def write(machine: Machine, name: str, text: str) -> None:
    target = machine.project / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def review(machine: Machine, *words: str) -> Done:
    given = ("council", "review", "--runtime", "static", "--json", *words)
    return machine.run(*given, PATH=BARE)


@pytest.mark.parametrize(("name", "text"), BROUGHT.values(), ids=BROUGHT)
def test_a_comment_that_a_change_brings_silences_nothing_at_the_gate(
    machine: Machine, name: str, text: str
) -> None:
    write(machine, name, text)

    report = review(machine, "--diff", "HEAD").json
    gate = machine.run("council", "gate", "--level", "concerns", "--json", PATH=BARE)

    assert report["verdict"] in {"CONCERNS", "FAIL"}
    assert gate.code == 3
    assert gate.json["refused_because"] == [f"the verdict is {report['verdict']}"]


def test_settings_of_tools_that_a_change_brings_silence_nothing(
    machine: Machine,
) -> None:
    write(machine, "a.py", PYTHON + "\n")
    write(machine, "a.js", LOOSE + "\n")
    write(machine, "ruff.toml", "[lint]\nignore = ['ALL']\n")
    write(machine, "pyproject.toml", "[tool.ruff]\nexclude = ['*']\n")
    write(machine, ".oxlintrc.json", '{"ignorePatterns": ["**"]}\n')
    write(machine, "sgconfig.yml", "ruleDirs: []\n")
    write(machine, ".eslintignore", "*\n")

    found = review(machine, "--diff", "HEAD").json["single_source_findings"]

    places = " ".join(one["evidence"] for one in found)
    assert "a.py:2 " in places
    assert "a.js:1 " in places


def test_what_comments_silenced_before_is_counted_and_shown(machine: Machine) -> None:
    write(machine, "a.py", PYTHON + "  # noqa\n\n\ndef go(x):\n    return x\n")
    write(machine, "a.js", "if (a = 1) { b() } // eslint-disable-line\n")
    commit(machine)

    whole = review(machine, ".").json
    (machine.project / "a.py").write_text(
        PYTHON + "  # noqa\n\n\ndef go(x):\n    return x + 1\n"
    )
    change = review(machine, "--diff", "HEAD").json

    told = "suppressed_by_comment:static:2 in a.js (1), a.py (2)"
    assert told in whole["warnings"]
    assert "suppressed_by_comment:static:1 in a.py (2)" in change["warnings"]
    assert change["verdict"] == "PASS"
    shown = machine.run("council", "show", whole["review_id"], PATH=BARE)
    assert "suppressed by a comment: 2 in a.js (1), a.py (2)" in shown.out + shown.err


def test_a_comment_that_silences_older_code_counts_where_it_is_brought(
    machine: Machine,
) -> None:
    write(machine, "a.py", PYTHON + "\n")
    commit(machine)
    write(machine, "a.py", "# ruff: noqa\n" + PYTHON + "\n")

    report = review(machine, "--diff", "HEAD", "--gate", "concerns").json

    (finding,) = [
        one
        for one in report["single_source_findings"]
        if "A comment of this change would silence it." in str(one)
    ]
    assert "a.py:1 " in finding["evidence"]
    assert "comment_not_obeyed:static:1 in a.py (1)" in report["warnings"]


def test_an_older_comment_does_not_silence_what_a_change_touches(
    machine: Machine,
) -> None:
    write(machine, "a.py", "# ruff: noqa\n")
    commit(machine)
    write(machine, "a.py", "# ruff: noqa\n" + UNDEFINED + "\n")

    report = review(machine, "--diff", "HEAD").json

    assert report["verdict"] == "CONCERNS"
