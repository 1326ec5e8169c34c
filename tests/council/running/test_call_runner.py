"""Agents as programs on this machine: stand-ins that behave as badly as real ones have been seen to."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import anyio
import psutil
import pytest

from bridgehead.contract.words import ErrorClass
from bridgehead.council.calls import Answer, Call, CallKey, Role, Step
from bridgehead.council.running.call_runner import CallRunner
from bridgehead.council.runtimes.base import SeatSetup
from bridgehead.council.runtimes.cli import CliConnection, succeeded
from bridgehead.council.runtimes.exchange import (
    CallOutcome,
    RuntimeAnswer,
    RuntimeRefusal,
    RuntimeRequest,
)
from bridgehead.council.runtimes.machine import Probe
from bridgehead.council.runtimes.opencode import OpencodeCli
from bridgehead.host import process
from bridgehead.host.command import Command, CommandResult, Ended

KEY = CallKey(
    seat="x", round=1, step=Step.ANALYSIS, role=Role.EXPERT, domain="security"
)


class PlainCli(CliConnection):
    """An agent that prints its answer and nothing else."""

    program = "agent"
    runtime_name = "agent"

    def arguments(self, ask: RuntimeRequest) -> Sequence[str]:
        return []

    def read_result(self, ask: RuntimeRequest, result: CommandResult) -> CallOutcome:
        return succeeded("agent", result, RuntimeAnswer(result.text()))


@pytest.fixture
def agent(tmp_path: Path) -> Callable[..., CallOutcome]:
    """Run a stand-in, written in Python, through the carrier."""

    def run(
        body: str,
        *,
        prompt: str = "hello",
        timeout_seconds: int = 60,
        kind: type[CliConnection] = PlainCli,
    ) -> CallOutcome:
        path = tmp_path / "agent"
        path.write_text(
            f"#!{sys.executable}\nimport os, sys, time, json, signal, subprocess\n{body}\n"
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        connection = kind(
            SeatSetup("x", environment=environment), str(path), Probe("1.2.3")
        )
        ask = RuntimeRequest(prompt, tmp_path, timeout_seconds)
        return carried(connection, ask)

    return run


def carried(connection: CliConnection, ask: RuntimeRequest) -> CallOutcome:
    async def run() -> CallOutcome:
        async with CallRunner() as carrier:
            call = Call(KEY, ask.prompt, ask.timeout_seconds, Answer.ITEMS, ask.profile)
            return await carrier.carry(connection, call, ask)

    return anyio.run(run)


def lives(pid: int) -> bool:
    """Whether a process runs; one that nobody has buried yet does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_prompt_of_300_kilobytes_arrives_whole_and_stdin_is_closed(
    agent: Callable[..., CallOutcome],
) -> None:
    outcome = agent("print(len(sys.stdin.read()))", prompt="x" * 300_000)

    assert outcome == RuntimeAnswer("300000\n")


def test_a_reply_of_10_megabytes_is_cut_off_as_malformed_and_does_not_hang(
    agent: Callable[..., CallOutcome],
) -> None:
    outcome = agent("sys.stdout.write('x' * 10_000_000)")

    assert isinstance(outcome, RuntimeRefusal)
    assert outcome.error_class is ErrorClass.MALFORMED


def test_a_child_that_ignores_signals_is_gone_after_the_limit(
    agent: Callable[..., CallOutcome], tmp_path: Path
) -> None:
    sleeper = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    body = f"""
child = subprocess.Popen([sys.executable, "-c", {sleeper!r}], start_new_session=True)
open({str(tmp_path / "pid")!r}, "w").write(str(child.pid))
time.sleep(600)
"""
    outcome = agent(body, timeout_seconds=3)

    assert isinstance(outcome, RuntimeRefusal)
    assert outcome.error_class is ErrorClass.TIMEOUT
    assert not lives(int((tmp_path / "pid").read_text()))


def test_a_cancelled_call_takes_its_program_with_it(tmp_path: Path) -> None:
    mark = tmp_path / "started"
    os.mkfifo(mark)
    path = tmp_path / "agent"
    body = f"import os, time\nopen({str(mark)!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)"
    path.write_text(f"#!{sys.executable}\n{body}\n")
    path.chmod(0o700)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    connection = PlainCli(
        SeatSetup("x", environment=environment), str(path), Probe("1")
    )
    ask = RuntimeRequest("hello", tmp_path, 600)
    pids: list[int] = []

    async def cancel_when_started() -> None:
        async with CallRunner() as carrier, anyio.create_task_group() as tasks:
            tasks.start_soon(
                carrier.carry,
                connection,
                Call(KEY, "hello", 600, Answer.ITEMS, ask.profile),
                ask,
            )
            pids.append(int(await anyio.to_thread.run_sync(mark.read_text)))
            tasks.cancel_scope.cancel()

    anyio.run(cancel_when_started)

    assert not lives(pids[0])


@pytest.mark.parametrize(
    ("body", "error_class"),
    [
        ("pass", ErrorClass.EMPTY),
        ("print('   ')", ErrorClass.EMPTY),
        (
            "print('fine', flush=True); os.kill(os.getpid(), signal.SIGKILL)",
            ErrorClass.OTHER,
        ),
    ],
)
def test_exit_code_0_and_printed_text_are_no_success_by_themselves(
    agent: Callable[..., CallOutcome], body: str, error_class: ErrorClass
) -> None:
    outcome = agent(body)

    assert isinstance(outcome, RuntimeRefusal)
    assert outcome.error_class is error_class


def test_bytes_that_are_no_text_are_replaced(agent: Callable[..., CallOutcome]) -> None:
    outcome = agent(r"sys.stdout.buffer.write(b'caf\xe9 \xf0\x9f')")

    assert isinstance(outcome, RuntimeAnswer)
    assert outcome.text.startswith("caf\ufffd")


def test_a_program_that_vanished_is_not_found(tmp_path: Path) -> None:
    connection = PlainCli(
        SeatSetup("x", environment={}), str(tmp_path / "gone"), Probe("1")
    )
    outcome = carried(connection, RuntimeRequest("hello", tmp_path, 5))

    assert isinstance(outcome, RuntimeRefusal)
    assert outcome.reason == "cli_not_found"


def test_an_endless_loop_of_unknown_steps_is_stopped_long_before_the_limit(
    agent: Callable[..., CallOutcome],
) -> None:
    step = json.dumps(
        {"type": "step_finish", "sessionID": "s", "part": {"reason": "unknown"}}
    )
    body = f"while True:\n    print({step!r}, flush=True)\n    time.sleep(0.01)"

    outcome = agent(body, timeout_seconds=600, kind=OpencodeCli)

    assert isinstance(outcome, RuntimeRefusal)
    assert outcome.error_class is ErrorClass.MALFORMED


@pytest.mark.parametrize("most_seconds", [None, 600])
def test_a_call_is_given_up_after_silence_and_not_for_taking_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_seconds: int | None
) -> None:
    limits: list[tuple[float | None, float | None]] = []

    def note(
        command: Command,
        *,
        timeout_seconds: float | None,
        idle_seconds: float | None,
        **_: object,
    ) -> CommandResult:
        limits.append((timeout_seconds, idle_seconds))
        return CommandResult(
            tuple(command.argv), Ended.EXITED, 0, datetime.now(UTC), stdout=b"done"
        )

    monkeypatch.setattr(process, "run", note)
    connection = PlainCli(SeatSetup("x", environment={}), "/bin/agent", Probe("1.2.3"))

    outcome = carried(
        connection, RuntimeRequest("hello", tmp_path, 40, most_seconds=most_seconds)
    )

    assert isinstance(outcome, RuntimeAnswer)
    [(altogether, silent)] = limits
    assert silent == 40
    assert altogether is None if most_seconds is None else 40 < (altogether or 0) <= 600


def test_an_adapter_that_breaks_leaves_no_key_in_the_log(
    agent: Callable[..., CallOutcome], caplog: pytest.LogCaptureFixture
) -> None:
    key = "ghp_" + "x7Kq2LmZ9vTnR4sWb8YcD1fGh5JkP3uQeA6i"

    class Breaking(PlainCli):
        def read_result(
            self, ask: RuntimeRequest, result: CommandResult
        ) -> CallOutcome:
            raise ValueError(f"cannot read {key}")

    outcome = agent("print('hello')", kind=Breaking)

    assert isinstance(outcome, RuntimeRefusal)
    assert "cannot read [left out: github-token]" in caplog.text
    assert key not in caplog.text
