"""kill -9 in every phase of template-create, and giving a run up halfway."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bridgehead.flows.operations.cancel import cancel
from bridgehead.flows.template_create.staging import Staging
from flows.support.flow_processes import shell_in
from flows.support.template_crash_program import PHASES, TemplateProject

FEWEST_CRASHES = 48


def test_a_kill_in_any_phase_is_resumed_to_the_same_package(tmp_path: Path) -> None:
    shell = shell_in(tmp_path)
    program = Path(__file__).parents[1] / "support/template_crash_program.py"
    command = f"import sys; sys.path.insert(0, {str(program.parents[2])!r}); sys.argv[0] = {str(program)!r}; "
    runs = "import runpy; runpy.run_path(sys.argv[0], run_name='__main__')"
    done = shell.run(
        sys.executable, "-c", command + runs, str(tmp_path / "lab"), timeout_seconds=280
    )
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert "validation-report.md" in told["files"]
    wrong = {
        phase: [v for v in found if v != "fine"]
        for phase, found in told["verdicts"].items()
    }
    assert {phase: found for phase, found in wrong.items() if found} == {}
    assert sorted(map(int, wrong)) == list(range(1, PHASES + 1))
    assert sum(map(len, told["verdicts"].values())) >= FEWEST_CRASHES


@pytest.fixture
def paused_in_phase_7(tmp_path: Path) -> TemplateProject:
    project = TemplateProject(tmp_path)
    project.set_up()
    for _ in range(2):
        project.run()
        project.answer()
    project.run()
    assert [
        path
        for path in project.output.parent.iterdir()
        if ".staging-flow-" in path.name
    ]
    return project


def test_a_cancelled_run_leaves_no_half_made_package(
    paused_in_phase_7: TemplateProject,
) -> None:
    project = paused_in_phase_7
    cancel(project.root, project.run(resume=True).flow_id)
    assert (project.leftovers(), sorted(project.package())) == ([], ["old.txt"])


def test_a_run_that_is_started_over_takes_its_half_made_package_along(
    paused_in_phase_7: TemplateProject,
) -> None:
    project = paused_in_phase_7
    assert project.run(fresh=True).pause is not None
    assert [name for name in project.leftovers() if "staging" in name] == []
    project.to_the_end()
    assert "old.txt" not in project.package()


def test_a_package_that_was_moved_aside_comes_back_when_the_run_is_given_up(
    tmp_path: Path,
) -> None:
    project = TemplateProject(tmp_path)
    project.set_up()
    project.output.rename(project.output.with_name("package.replaced-flow-1"))
    Staging(project.output, "flow-1").abandon()
    assert sorted(project.package()) == ["old.txt"]


def test_the_report_can_be_asked_for_when_the_run_is_resumed(tmp_path: Path) -> None:
    project = TemplateProject(tmp_path)
    project.set_up()
    without = {"validate": False, "no_agents": True}
    project.run(given=without)
    project.answer()
    assert (
        project.run(resume=True, given={"validate": True, "no_agents": True}).pause
        is None
    )
    assert "validation-report.md" in project.package()
