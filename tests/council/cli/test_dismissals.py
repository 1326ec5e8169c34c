"""What a dismissal covers, through the installed command: one occurrence, under any name of its file."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from council.cli.conftest import BARE
from support.installed import Machine

pytestmark = pytest.mark.xdist_group("council_cli")

SAFE = "def run(text_of_the_user):\n    return eval(text_of_the_user)\n"
OTHER = "\n\ndef other(text_of_the_user):\n    return eval(text_of_the_user)\n"
TITLE = "Code injection: an argument is executed as code"


@pytest.fixture
def dismissed(tmp_path: Path) -> Machine:
    """A project with one finding, which Ada has dismissed."""
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    machine = Machine(tmp_path / "home", tmp_path / "project")
    git(machine, "init", "-q")
    git(machine, "config", "user.name", "Ada")
    git(machine, "config", "user.email", "ada@example.org")
    (machine.project / "app.py").write_text(SAFE)
    commit(machine)
    (finding,) = injections(review(machine, "app.py"))
    dismiss(machine, finding["id"])
    commit(machine)
    return machine


def git(machine: Machine, *words: str) -> None:
    subprocess.run(
        ["git", *words], cwd=machine.project, env=machine.environ(), check=True
    )


def commit(machine: Machine) -> None:
    git(machine, "add", "-A")
    git(machine, "commit", "-q", "-m", "change")


def review(machine: Machine, *words: str) -> dict[str, Any]:
    command = ("council", "review", "--json", "--runtime", "static", "-i", "quick")
    done = machine.run(*command, *words, PATH=BARE)
    assert done.code == 0, done.err
    found: dict[str, Any] = done.json
    return found


def dismiss(machine: Machine, finding_id: str) -> None:
    words = ("council", "dismiss", finding_id, "--reason", "fine")
    assert machine.run(*words, PATH=BARE).code == 0


def injections(report: dict[str, Any]) -> list[dict[str, Any]]:
    found = report["single_source_findings"]
    return [one for one in found if one["title"].startswith(TITLE)]


def dismissals_of(report: dict[str, Any]) -> list[str]:
    return [one["title"] for one in report["dismissed_findings"]]


def test_a_dismissal_carries_the_name_that_git_knows(dismissed: Machine) -> None:
    file = dismissed.project / ".bridgehead" / "dismissals.toml"
    (entry,) = tomllib.loads(file.read_text())["dismissed"]

    report = review(dismissed, "app.py")

    assert entry["author"] == "Ada <ada@example.org>"
    assert report["dismissed_findings"][0]["author"] == entry["author"]
    page = (dismissed.project / report["report_files"]["markdown"]).read_text()
    assert "Ada" in page and "ada@example.org" in page


@pytest.mark.parametrize(
    "added", [OTHER, OTHER.replace("text_of_the_user", "what_somebody_sent")]
)
def test_a_dismissal_does_not_cover_the_same_defect_once_more(
    dismissed: Machine, added: str
) -> None:
    (dismissed.project / "app.py").write_text(SAFE + added)

    report = review(dismissed, "app.py")

    assert dismissals_of(report) == []
    (finding,) = injections(report)
    assert finding["severity"] == "HIGH" and "2 places" in finding["title"]
    assert finding["dismissal_note"].endswith("another_place")
    assert report["verdict"] == "CONCERNS"


def test_both_occurrences_can_be_dismissed_and_no_third(dismissed: Machine) -> None:
    app = dismissed.project / "app.py"
    app.write_text(SAFE + OTHER)
    (both,) = injections(review(dismissed, "app.py"))
    dismiss(dismissed, both["id"])

    report = review(dismissed, "app.py")
    app.write_text(SAFE + OTHER + OTHER.replace("other", "third"))
    third = review(dismissed, "app.py")

    assert (injections(report), dismissals_of(report)) == ([], [both["title"]])
    assert len(injections(third)) == 1 and dismissals_of(third) == []


def test_a_dismissal_survives_that_its_file_is_renamed(dismissed: Machine) -> None:
    git(dismissed, "mv", "app.py", "one.py")
    in_the_index = review(dismissed, "one.py")
    commit(dismissed)
    (dismissed.project / "folder").mkdir()
    git(dismissed, "mv", "one.py", "folder/two.py")
    commit(dismissed)
    in_the_past = review(dismissed, ".")
    in_the_change = review(dismissed, "--diff", "HEAD~1")
    path = dismissed.project / "folder" / "two.py"
    path.write_text(SAFE + OTHER)
    once_more = review(dismissed, "folder")

    for report in (in_the_index, in_the_past):
        assert dismissals_of(report) == [TITLE]
        assert injections(report) == []
    assert injections(in_the_change) == []
    assert len(injections(once_more)) == 1


def test_a_copy_is_no_rename(dismissed: Machine) -> None:
    (dismissed.project / "copy.py").write_text(SAFE)
    commit(dismissed)

    assert len(injections(review(dismissed, "copy.py"))) == 1
