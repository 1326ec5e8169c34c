"""Driving programs that pause, and the handlers that answer for them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from bridgehead.errors import UserError
from bridgehead.flows import RunInputs
from bridgehead.flows.calls import Reply
from bridgehead.flows.files.agent_files import AgentRequest
from bridgehead.flows.files.checkpoint_files import CheckpointFiles
from bridgehead.flows.files.root import FlowRoot
from bridgehead.flows.handlers import (
    CommandHandler,
    Handler,
    HandlerUnusable,
    PendingHandler,
    make_handler,
)
from bridgehead.flows.operations.drive import DriveRequest, DriveResult, drive
from bridgehead.flows.operations.respond import RespondRequest, respond
from bridgehead.flows.words import RequestStatus
from flows.support.flow_processes import shell_in

ID = "0f8b2c1e-6a57-4d0e-9b1c-2f6d7a8e9c01"

# Any executable will do: this one knows nothing of bridgehead but the two files and the number 42.
PROGRAM = r"""#!/bin/sh
set -eu
echo "run $*" >&2
if [ "${1-}" = --resume ]; then
    sed -n 's/.*"response": "\(.*\)".*/got \1/p' .agent-response.json
    rm -f .agent-request.json .agent-response.json
    exit 0
fi
cat > .agent-request.json <<EOF
{"request_id": "ID", "version": "1.0", "phase": 1, "phase_name": "naming", "agent_name": "namer",
 "prompt": "A name for a boat?", "created_at": "2026-11-15T10:15:02Z", "timeout_seconds": 5}
EOF
exit 42
""".replace("ID", ID)


@pytest.fixture
def program(flow_project: Any) -> Path:
    path: Path = flow_project.root / "program.sh"
    path.write_text(PROGRAM)
    path.chmod(0o755)
    return path


def driven(
    flow_project: Any, handler: Handler, *command: str, **details: Any
) -> DriveResult:
    inputs = RunInputs(clock=flow_project.clock, announcer=flow_project.announcer)
    return drive(DriveRequest(command, flow_project.root, **details), handler, inputs)


def request(**members: Any) -> AgentRequest:
    details: dict[str, Any] = {
        "phase": 1,
        "phase_name": "p",
        "agent_name": "namer",
        "prompt": "ä?",
        "timeout_seconds": 60,
    }
    return AgentRequest(**{**details, **members})


@pytest.fixture
def files(flow_project: Any) -> CheckpointFiles:
    return CheckpointFiles(FlowRoot.open(flow_project.root), flow_project.clock)


def test_a_shell_script_is_driven_to_its_end(flow_project: Any, program: Path) -> None:
    done = driven(
        flow_project,
        CommandHandler(
            ["sh", "-c", 'read p; printf "%s: Nautilus" "$BRIDGEHEAD_AGENT"']
        ),
        str(program),
    )
    assert (done.exit_code, done.stdout, done.runs) == (0, b"got namer: Nautilus\n", 2)
    assert flow_project.announcer.asked_ids == [ID]


def test_what_the_program_says_on_the_way_is_passed_on(
    flow_project: Any, program: Path
) -> None:
    heard: list[bytes] = []
    drive(
        DriveRequest((str(program),), flow_project.root),
        CommandHandler(["echo", "x"]),
        on_stderr=heard.append,
    )
    assert b"".join(heard) == b"run \nrun --resume\n"


def test_the_resume_flag_is_appended_once(flow_project: Any) -> None:
    script = flow_project.root / "args.py"
    script.write_text("import sys; print(sys.argv[1:])")
    done = driven(
        flow_project, CommandHandler(["true"]), sys.executable, str(script), "--resume"
    )
    assert done.stdout == b"['--resume']\n"


def test_other_exit_codes_end_the_drive_and_are_passed_on(flow_project: Any) -> None:
    assert (
        driven(
            flow_project, CommandHandler(["true"]), "sh", "-c", "echo out; exit 7"
        ).exit_code
        == 7
    )


def test_a_drive_is_bounded_and_leaves_the_last_request_to_be_resumed(
    flow_project: Any, program: Path
) -> None:
    endless = flow_project.root / "endless.sh"
    endless.write_text(
        PROGRAM.replace("--resume ]", "--never ]").replace(
            "exit 42", "rm -f .agent-response.json; exit 42"
        )
    )
    endless.chmod(0o755)
    done = driven(
        flow_project, CommandHandler(["echo", "x"]), str(endless), max_iterations=3
    )
    assert (done.exit_code, done.runs, done.gave_up) == (1, 3, True)
    assert ".agent-request.json" in flow_project.files()
    with pytest.raises(UserError, match="at least 1"):
        driven(flow_project, CommandHandler(["true"]), "true", max_iterations=0)


@pytest.mark.parametrize(
    ("leave", "complaint"),
    [
        ("exit 42", "there is none"),
        ("echo '{' > .agent-request.json; exit 42", "not JSON"),
        ("echo '{}' > .agent-request.json; exit 42", "missing"),
        ("ln -s /etc/passwd .agent-request.json; exit 42", "symbolic link"),
        ("echo 'BRIDGEHEAD-PAUSE {nonsense'; exit 42", "cannot be read"),
        (
            'echo \'BRIDGEHEAD-PAUSE {"request_file": "/etc/passwd", "response_file": "/tmp/x"}\'; exit 42',
            "files that are not a flow's",
        ),
    ],
)
def test_a_program_that_pauses_without_a_request_is_refused(
    flow_project: Any, leave: str, complaint: str
) -> None:
    with pytest.raises(UserError, match=complaint):
        driven(flow_project, CommandHandler(["true"]), "sh", "-c", leave)


def test_a_program_that_cannot_be_started_is_said_so(flow_project: Any) -> None:
    with pytest.raises(UserError, match="could not be started"):
        driven(flow_project, CommandHandler(["true"]), "./no-such-program")


def test_the_pause_line_says_where_the_request_lies(
    flow_project: Any, tmp_path: Path, program: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    facts = json.dumps(
        {
            "request_file": f"{elsewhere}/.agent-request.json",
            "response_file": f"{elsewhere}/.agent-response.json",
        }
    )
    moved = (
        program.read_text()
        .replace("set -eu", f"set -eu; cd {elsewhere}")
        .replace("exit 42", f"echo 'BRIDGEHEAD-PAUSE {facts}'; exit 42")
    )
    program.write_text(moved)
    assert (
        driven(flow_project, CommandHandler(["echo", "there"]), str(program)).stdout
        == b"got there\\n\n"
    )


@pytest.mark.parametrize(
    ("script", "reply"),
    [
        ("cat", Reply(text="ä?")),
        ("cat; echo; exit 3", ("error", "INVOCATION_FAILED", "ended with 3")),
        ("echo why >&2; exit 1", ("error", "INVOCATION_FAILED", "why")),
        ("true", ("error", "INVOCATION_FAILED", "and no output")),
        ("printf ' \\n'", ("error", "INVOCATION_FAILED", "and no output")),
        ("kill -9 $$", ("error", "INVOCATION_FAILED", "ended with 137")),
    ],
)
def test_a_command_answers_with_its_output_or_fails(
    files: CheckpointFiles, script: str, reply: Any
) -> None:
    got = CommandHandler(["sh", "-c", script]).answer(request(), files)
    if isinstance(reply, Reply):
        assert (got.status, got.text) == (RequestStatus.SUCCESS, reply.text)
    else:
        status, error_type, message = reply
        assert (got.status.value, got.error_type) == (status, error_type)
        assert message in (got.message or "")


def test_a_command_is_stopped_when_the_time_of_the_request_is_over(
    files: CheckpointFiles,
) -> None:
    got = CommandHandler(["sleep", "600"]).answer(request(timeout_seconds=1), files)
    assert (got.status, got.error_type) == (RequestStatus.TIMEOUT, "TIMEOUT")


def test_a_command_that_is_not_there_answers_nothing(files: CheckpointFiles) -> None:
    with pytest.raises(
        HandlerUnusable, match=r"no-such-agent could not be started.*stays paused"
    ):
        CommandHandler(["no-such-agent"]).answer(request(), files)


def test_a_long_prompt_arrives_whole(files: CheckpointFiles) -> None:
    prompt = "zeile ä\n" * 200_000
    assert CommandHandler(["cat"]).answer(request(prompt=prompt), files).text == prompt


def test_waiting_for_a_person_ends_with_the_answer_or_with_the_time(
    flow_project: Any, files: CheckpointFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = PendingHandler().answer(request(), files)
    assert late is not None and late.status is RequestStatus.TIMEOUT
    assert flow_project.clock.monotonic() == pytest.approx(60)

    def answer_meanwhile(_: float) -> None:
        files.response_path.touch()

    monkeypatch.setattr(flow_project.clock, "sleep", answer_meanwhile)
    assert PendingHandler().answer(request(), files) is None


def test_a_person_answers_a_driven_program(
    flow_project: Any, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer_meanwhile(_: float) -> None:
        if not flow_project.response_path.exists():
            respond(RespondRequest(flow_project.root, Reply(text="Nautilus")))

    monkeypatch.setattr(flow_project.clock, "sleep", answer_meanwhile)
    assert (
        driven(flow_project, PendingHandler(), str(program)).stdout == b"got Nautilus\n"
    )


def test_the_first_answer_stands_also_against_the_handler(
    flow_project: Any, program: Path
) -> None:
    class Slow(Handler):
        def answer(self, request: AgentRequest, files: CheckpointFiles) -> Reply:
            respond(RespondRequest(flow_project.root, Reply(text="quick")))
            return Reply(text="slow")

    assert driven(flow_project, Slow(), str(program)).stdout == b"got quick\n"


def test_handlers_are_found_by_name() -> None:
    assert isinstance(make_handler("pending"), PendingHandler)
    assert make_handler("cmd:claude -p 'a b'")._words == ("claude", "-p", "a b")  # type: ignore[attr-defined]
    mine = PendingHandler()
    assert make_handler("rig:win-5080", {"rig": lambda name: mine}) is mine
    for name in ("cmd:", "cmd:'", "rig:x", "nonsense", ""):
        with pytest.raises(UserError):
            make_handler(name)


def test_no_shell_is_started_for_a_handler(files: CheckpointFiles) -> None:
    handler = make_handler("cmd:echo $HOME; touch /tmp/never && x")
    got = handler.answer(request(), files)
    assert got is not None and got.text == "$HOME; touch /tmp/never && x\n"
    assert os.environ["HOME"] not in (got.text or "")


MEETING = """
from bridgehead.flows import asking, flow, main

@flow("meeting")
def meeting(ctx):
    return ctx.gather(*[asking("q", agent=name, prompt=name, timeout=120, max_retries=0) for name in "ab"])

if __name__ == "__main__":
    raise SystemExit(main(meeting))
"""
MEET = """#!/bin/sh
# Opening a pipe waits for the other end: each of the two handlers waits until the other one runs.
if [ "$BRIDGEHEAD_AGENT" = a ]; then echo hello > pipe; echo said; else cat pipe; fi
"""


def test_the_questions_of_a_gather_are_asked_side_by_side(tmp_path: Path) -> None:
    shell = shell_in(tmp_path)
    shell.write("meeting.py", MEETING)
    shell.write("meet.sh", MEET)
    os.mkfifo(shell.root / "pipe")
    done = shell.flow(
        "drive", "--handler", "cmd:./meet.sh", "--", sys.executable, "meeting.py"
    )
    assert (done.code, json.loads(done.out)) == (0, ["said\n", "hello\n"]), done.err


def test_one_handler_that_cannot_be_asked_leaves_the_run_paused_with_all_its_questions(
    tmp_path: Path,
) -> None:
    shell = shell_in(tmp_path)
    shell.write("meeting.py", MEETING)
    refused = shell.flow(
        "drive", "--handler", "cmd:./nobody", "--", sys.executable, "meeting.py"
    )
    assert (refused.code, "the run stays paused" in refused.err) == (1, True)
    handler = ("--handler", "cmd:cat", "--concurrency", "1")
    done = shell.flow("drive", *handler, "--", sys.executable, "meeting.py")
    assert json.loads(done.out) == ["a", "b"]
