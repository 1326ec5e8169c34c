"""Nothing but an implementation may write: every program is told, and one that writes all the same (hazard 21)."""

from __future__ import annotations

import hashlib
import json
import stat
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bridgehead.assembly.council.request import VERBS
from bridgehead.contract.task import Requirement
from bridgehead.contract.words import CapabilityProfile, RequirementLevel, TaskType
from bridgehead.council.calls import Call
from bridgehead.council.runtimes.base import SeatSetup
from bridgehead.council.runtimes.claude import ClaudeCli
from bridgehead.council.runtimes.cli import CliConnection
from bridgehead.council.runtimes.codex import PROFILE, CodexCli
from bridgehead.council.runtimes.exchange import RuntimeRequest
from bridgehead.council.runtimes.gemini import GeminiCli
from bridgehead.council.runtimes.machine import Probe
from bridgehead.council.runtimes.opencode import OpencodeCli
from bridgehead.host.command import Command
from council.cli.conftest import Hall, StandIn
from council.test_council import TWO, Council, finds

BYPASSES = (
    *(
        "--dangerously",
        "bypass",
        "danger-full-access",
        "--full-auto",
        "--yolo",
        "yolo",
        "--allow-all",
    ),
    *("acceptEdits", "auto_edit", "workspace-write", "--add-dir", "Write", "Bash"),
)
WRITES = """
for path in [os.getcwd(), *sys.argv]:
    try:
        with open(os.path.join(path, "owned.txt"), "w") as made:
            made.write("owned")
    except OSError:
        pass
for folder, _, names in os.walk(os.getcwd()):
    for name in names:
        try:
            with open(os.path.join(folder, name), "a") as changed:
                changed.write("owned")
        except OSError:
            pass
"""


def told_by_claude(run: Command) -> bool:
    return run.argv[run.argv.index("--tools") + 1] == "Read,Grep,Glob"


def told_by_codex(run: Command) -> bool:
    # A profile under which nothing is written; before there were profiles, the sandbox of that name.
    filesystem = next(
        (
            word
            for word in run.argv
            if word.startswith(f"permissions.{PROFILE}.filesystem=")
        ),
        None,
    )
    if filesystem is None:
        return run.argv[run.argv.index("-s") + 1] == "read-only"
    return f'default_permissions="{PROFILE}"' in run.argv and "write" not in filesystem


def told_by_gemini(run: Command) -> bool:
    return run.argv[run.argv.index("--approval-mode") + 1] == "plan"


def told_by_opencode(run: Command) -> bool:
    told = json.loads((run.env or {})["OPENCODE_CONFIG_CONTENT"])["permission"]
    return run.argv[run.argv.index("--agent") + 1] == "plan" and (
        told["edit"],
        told["bash"],
    ) == ("deny", "deny")


READ_ONLY: dict[type[CliConnection], Callable[[Command], bool]] = {
    ClaudeCli: told_by_claude,
    CodexCli: told_by_codex,
    GeminiCli: told_by_gemini,
    OpencodeCli: told_by_opencode,
}
ASK = RuntimeRequest("look", Path("/snapshot"), 60)


def calls_of(task_type: TaskType) -> list[Call]:
    """Every call of a whole council of that kind, both stages."""
    return (
        Council(TWO, finds("SQL injection"), task_fields={"task_type": task_type.value})
        .drive()
        .calls
    )


@pytest.mark.parametrize("kind", READ_ONLY, ids=lambda kind: kind.program)
@pytest.mark.parametrize(
    "task_type", [one for one in TaskType if one is not TaskType.IMPLEMENTATION]
)
def test_every_call_of_every_task_but_implement_is_read_only(
    kind: type[CliConnection], task_type: TaskType
) -> None:
    connection = kind(
        SeatSetup("x", environment={}), f"/bin/{kind.program}", Probe("9.9.9")
    )
    profiles = {call.profile for call in calls_of(task_type)}

    runs = [connection.ask(replace(ASK, profile=profile)) for profile in profiles]

    assert profiles == {CapabilityProfile.INSPECT}
    for run in runs:
        assert isinstance(run, Command)
        assert READ_ONLY[kind](run)
        assert [
            word for word in run.argv for bypass in BYPASSES if bypass in word
        ] == []


def fingerprint(project: Path) -> str:
    """Names, modes and contents of the user's tree and of git's own folder; our folders are ours."""
    digest = hashlib.sha256()
    for path in sorted(project.rglob("*")):
        if (
            path.relative_to(project).parts[0] not in (".bridgehead", ".outputs")
            and path.is_file()
        ):
            mode = stat.S_IMODE(path.stat().st_mode)
            digest.update(
                f"{path.relative_to(project)} {mode:o} ".encode() + path.read_bytes()
            )
    return digest.hexdigest()


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "implement"])
def test_a_program_that_writes_wherever_it_is_leaves_the_tree_as_it_was(
    hall: Hall, codex: StandIn, verb: str
) -> None:
    codex.log_in()
    program = codex.folder / "codex"
    program.write_text(
        program.read_text().replace(
            "prompt = sys.stdin.read()\n", f"prompt = sys.stdin.read(){WRITES}"
        )
    )
    project = hall.assembly.places.project
    before = fingerprint(project)
    asked = (
        {"requirements": (Requirement("R-1", "SQL is bound", RequirementLevel.MUST),)}
        if verb == "audit"
        else {}
    )

    finished = hall.call(
        verb=verb, task="look at orders/store.py", runtimes=("codex",), **asked
    )

    assert finished.report is not None and codex.prompts, "it was asked, and it wrote"
    assert fingerprint(project) == before
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=project, capture_output=True, check=True
    )
    assert status.stdout == b""
