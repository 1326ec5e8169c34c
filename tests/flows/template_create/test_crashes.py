"""kill -9 in every phase of template-create, and giving a run up halfway."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bridgehead.flows.operations.cancel import CancelRequest, cancel
from bridgehead.flows.template_create.staging import Staging
from flows.support.flow_processes import shell_in
from flows.support.template_crash_lab import PHASES, Lab

FEWEST_CRASHES = 48


def test_a_kill_in_any_phase_is_resumed_to_the_same_package(tmp_path: Path) -> None:
    shell = shell_in(tmp_path)
    lab = Path(__file__).parents[1] / "support/template_crash_lab.py"
    command = f"import sys; sys.path.insert(0, {str(lab.parents[2])!r}); sys.argv[0] = {str(lab)!r}; "
    runs = "import runpy; runpy.run_path(sys.argv[0], run_name='__main__')"
    done = shell.run(sys.executable, "-c", command + runs, str(tmp_path / "lab"), timeout_seconds=280)
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert "validation-report.md" in told["files"]
    wrong = {phase: [v for v in found if v != "fine"] for phase, found in told["verdicts"].items()}
    assert {phase: found for phase, found in wrong.items() if found} == {}
    assert sorted(map(int, wrong)) == list(range(1, PHASES + 1))
    assert sum(map(len, told["verdicts"].values())) >= FEWEST_CRASHES


@pytest.fixture
def paused_in_phase_7(tmp_path: Path) -> Lab:
    lab = Lab(tmp_path)
    lab.set_up()
    for _ in range(2):
        lab.run()
        lab.answer()
    lab.run()
    assert [path for path in lab.output.parent.iterdir() if ".staging-flow-" in path.name]
    return lab


def test_a_cancelled_run_leaves_no_half_made_package(paused_in_phase_7: Lab) -> None:
    lab = paused_in_phase_7
    cancel(CancelRequest(lab.root, lab.run(resume=True).flow_id))
    assert (lab.leftovers(), sorted(lab.package())) == ([], ["old.txt"])


def test_a_run_that_is_started_over_takes_its_half_made_package_along(paused_in_phase_7: Lab) -> None:
    lab = paused_in_phase_7
    assert lab.run(fresh=True).pause is not None
    assert [name for name in lab.leftovers() if "staging" in name] == []
    lab.to_the_end()
    assert "old.txt" not in lab.package()


def test_a_package_that_was_moved_aside_comes_back_when_the_run_is_given_up(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.set_up()
    lab.output.rename(lab.output.with_name("package.replaced-flow-1"))
    Staging(lab.output, "flow-1").abandon()
    assert sorted(lab.package()) == ["old.txt"]


def test_the_report_can_be_asked_for_when_the_run_is_resumed(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.set_up()
    without = {"validate": False, "no_agents": True}
    lab.run(given=without)
    lab.answer()
    assert lab.run(resume=True, given={"validate": True, "no_agents": True}).pause is None
    assert "validation-report.md" in lab.package()
