"""Programs are run within their limits, and nothing of them outlives the run."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bridgehead.host import family, process
from bridgehead.host.clock import SystemClock
from bridgehead.host.command import (
    Cancel,
    Command,
    CommandResult,
    Ended,
    child_environment,
)
from bridgehead.host.guardian import MARK
from bridgehead.host.process import Pipes, Stream, run

StartScript = Callable[..., subprocess.Popen[str]]

FOREVER = 600.0
TAG, TAGGED = "HOST_TEST_TAG", uuid.uuid4().hex


@pytest.fixture(autouse=True)
def nothing_is_left_alive() -> Iterator[None]:
    """Every test starts tagged programs, and none of them may outlive it."""
    yield
    assert left_alive() == []


def left_alive() -> list[family.ProcessEntry]:
    return [
        entry
        for listed in family.living_processes()
        for entry in listed
        if family.has_variable(entry, TAG, TAGGED)
    ]


def python(source: str, *arguments: str, **options: object) -> Command:
    environment = child_environment({TAG: TAGGED})
    return Command(
        [sys.executable, "-c", source, *arguments], **{"env": environment, **options}
    )  # type: ignore[arg-type]


def finish(command: Command, **options: object) -> CommandResult:
    """Run to the program's own end; the limit only keeps a broken test from hanging."""
    return run(command, timeout_seconds=60, idle_seconds=None, **options)  # type: ignore[arg-type]


class SkippingClock(SystemClock):
    """Real time that can be made to jump ahead, so that no test has to wait for a limit."""

    def __init__(self) -> None:
        self._skipped = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self._skipped

    def skip(self, seconds: float) -> None:
        self._skipped += seconds


class Listener:
    """Collects output and calls `once` when a line saying READY has come."""

    def __init__(self, once: Callable[[], None]) -> None:
        self.heard = b""
        self._once = once
        self._called = False

    def __call__(self, stream: Stream, chunk: bytes) -> None:
        self.heard += chunk
        if b"READY\n" in self.heard and not self._called:
            self._called = True
            self._once()


def run_until_ready(command: Command, **options: object) -> CommandResult:
    """Let the deadline pass at the moment the program says READY."""
    clock = SkippingClock()
    listener = Listener(lambda: clock.skip(FOREVER))
    return run(
        command,
        timeout_seconds=FOREVER,
        idle_seconds=None,
        on_output=listener,
        clock=clock,
        **options,  # type: ignore[arg-type]
    )


def pids_in(result: CommandResult) -> list[int]:
    return [int(word) for word in result.text().split() if word.isdigit()]


def is_alive(pid: int) -> bool:
    return family.find_process(pid) is not None


# --- a program that ends by itself


def test_a_program_is_given_its_prompt_and_its_output_comes_back() -> None:
    source = "import sys; print(sys.stdin.read().upper()); print('noise', file=sys.stderr); sys.exit(3)"
    result = finish(python(source, stdin="größe"))
    assert (result.ended, result.exit_code) == (Ended.EXITED, 3)
    assert (result.text(), result.error_text()) == ("GRÖSSE\n", "noise\n")
    assert result.argv[:2] == (sys.executable, "-c")
    assert result.duration_seconds > 0
    assert result.started_at.tzinfo is not None
    assert (result.stdout_truncated, result.stderr_truncated, result.reason) == (
        False,
        False,
        None,
    )


def test_a_prompt_far_beyond_the_size_of_a_pipe_arrives_intact() -> None:
    prompt = "".join(chr(0x4E00 + number % 5000) for number in range(100_000))  # 300 kB
    source = "import sys, hashlib; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
    result = finish(python(source, stdin=prompt))
    assert result.text().strip() == hashlib.sha256(prompt.encode()).hexdigest()


def test_a_program_that_answers_while_it_still_reads_blocks_nobody() -> None:
    source = "import sys\nfor line in sys.stdin: print(line * 3, end='', flush=True)"
    prompt = "".join(f"{number:05} {'x' * 94}\n" for number in range(5000))
    result = finish(python(source, stdin=prompt))
    assert result.text() == "".join(
        line * 3 for line in prompt.splitlines(keepends=True)
    )


def test_a_program_that_never_reads_its_prompt_does_not_hang_us() -> None:
    result = finish(python("print('done')", stdin=b"x" * 1_000_000))
    assert (result.ended, result.exit_code, result.text()) == (
        Ended.EXITED,
        0,
        "done\n",
    )


def test_a_program_that_closes_stdin_early_is_put_up_with() -> None:
    source = "import os, sys; os.close(0); sys.stdout.write('closed'); sys.stdout.flush(); os.close(1)"
    result = finish(python(source, stdin=b"x" * 1_000_000))
    assert (result.exit_code, result.text()) == (0, "closed")


OPEN_STDIN = """
import sys
from bridgehead.host.process import Command, run
result = run(Command([sys.executable, "-c", "import sys; print(repr(sys.stdin.read()))"]),
             timeout_seconds=60, idle_seconds=None)
print(result.ended, result.text())
"""


def test_a_program_that_reads_to_the_end_of_stdin_is_not_left_waiting_for_ours(
    started: StartScript,
) -> None:
    parent = started(OPEN_STDIN)  # its own stdin is a pipe nobody writes to or closes
    assert parent.stdout is not None
    assert parent.stdout.read().split() == ["exited", "''"]


@pytest.mark.parametrize(
    ("returncode", "source"),
    [
        (0, "pass"),
        (42, "raise SystemExit(42)"),
        (143, "import os; os.kill(os.getpid(), 15)"),
    ],
)
def test_the_exit_code_is_the_programs_own_or_that_of_the_signal_that_killed_it(
    returncode: int, source: str
) -> None:
    result = finish(python(source))
    assert (result.ended, result.exit_code) == (Ended.EXITED, returncode)


def test_output_that_is_not_utf_8_is_shown_with_replacement_characters() -> None:
    result = finish(python(r"import os; os.write(1, b'a\xffb'); os.write(2, b'\xfe')"))
    assert (result.text(), result.error_text()) == ("a\ufffdb", "\ufffd")
    assert result.stdout == b"a\xffb"


def test_the_program_runs_in_the_directory_it_was_given(tmp_path: Path) -> None:
    result = finish(python("import os; print(os.getcwd())", cwd=tmp_path))
    assert Path(result.text().strip()) == tmp_path.resolve()


def test_where_the_system_does_not_announce_an_end_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    result = finish(python("print('done')", stdin="x"))
    assert (result.ended, result.exit_code, result.text()) == (
        Ended.EXITED,
        0,
        "done\n",
    )


# --- a program that cannot be started


def test_a_missing_program_is_a_result_and_not_an_exception() -> None:
    result = finish(Command(["no-such-program-anywhere", "--version"]))
    assert (result.ended, result.exit_code) == (Ended.NOT_STARTED, 127)
    assert result.reason == "no-such-program-anywhere: No such file or directory"


def test_a_file_that_is_not_executable_is_a_result(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    result = finish(Command([str(program)]))
    assert (result.ended, result.exit_code) == (Ended.NOT_STARTED, 126)
    assert result.reason == f"{program}: Permission denied"


def test_a_missing_working_directory_is_named(tmp_path: Path) -> None:
    result = finish(python("pass", cwd=tmp_path / "gone"))
    assert (result.ended, result.exit_code) == (Ended.NOT_STARTED, 126)
    assert (
        result.reason
        == f"working directory {tmp_path / 'gone'}: No such file or directory"
    )


@pytest.mark.parametrize(
    "command",
    [
        Command([sys.executable, "a\0b"]),
        Command([sys.executable], env={"A=B": "c"}),
        Command([sys.executable, "x" * 200_000]),
    ],
    ids=[
        "nul in an argument",
        "impossible variable",
        "argument beyond the system's limit",
    ],
)
def test_what_the_system_cannot_pass_on_is_a_result(command: Command) -> None:
    result = finish(command)
    assert (result.ended, result.exit_code) == (Ended.NOT_STARTED, 126)
    assert result.reason


@pytest.mark.parametrize("argv", [[], (), "ls -l"])
def test_a_command_without_a_program_cannot_be_made(argv: object) -> None:
    with pytest.raises(ValueError, match="starts with a program"):
        Command(argv)  # type: ignore[arg-type]


# --- limits


def test_a_program_that_hangs_is_ended_at_the_deadline_with_124() -> None:
    result = run(
        python("import time; time.sleep(600)", grace_seconds=0.1),
        timeout_seconds=0.05,
        idle_seconds=None,
    )
    assert (result.ended, result.exit_code) == (Ended.TIMEOUT, 124)


def test_a_program_that_falls_silent_is_ended_by_the_idle_limit() -> None:
    source = "import time; print('thinking', flush=True); time.sleep(600)"
    result = run(
        python(source, grace_seconds=0.1), timeout_seconds=None, idle_seconds=0.3
    )
    assert (result.ended, result.exit_code) == (Ended.IDLE, 124)


def test_a_program_that_keeps_talking_is_not_idle(tmp_path: Path) -> None:
    clock, fifo = SkippingClock(), tmp_path / "fifo"
    os.mkfifo(fifo)

    def let_it_go_on_after_40_seconds(stream: Stream, chunk: bytes) -> None:
        clock.skip(40)
        fifo.write_text("go on")  # waits until the program reads it

    source = "import sys\nfor n in range(5): print(n, flush=True, file=sys.stderr); open(sys.argv[1]).read()"
    result = run(
        python(source, str(fifo)),
        timeout_seconds=None,
        idle_seconds=60,
        on_output=let_it_go_on_after_40_seconds,
        clock=clock,
    )
    assert (result.ended, result.exit_code) == (Ended.EXITED, 0)
    assert result.error_text().split() == ["0", "1", "2", "3", "4"]
    assert result.duration_seconds > 5 * 40


def test_a_program_that_prints_without_end_is_stopped_at_the_cap() -> None:
    source = "import sys\nwhile True: sys.stdout.write('y' * 1000)"
    result = finish(python(source, stdout_cap=100_000))
    assert (result.ended, result.exit_code) == (Ended.OUTPUT_CAP, 124)
    assert result.stdout == b"y" * 100_000
    assert result.stdout_truncated


def test_output_of_exactly_the_cap_is_complete() -> None:
    result = finish(python("print('y' * 1000, end='')", stdout_cap=1000))
    assert (result.ended, result.stdout, result.stdout_truncated) == (
        Ended.EXITED,
        b"y" * 1000,
        False,
    )


def test_of_stderr_the_end_is_kept() -> None:
    source = "import sys\nfor n in range(30000): print(f'{n:09}', file=sys.stderr)"
    result = finish(python(source, stderr_tail=50))
    assert result.stderr == b"".join(
        b"%09d\n" % number for number in range(29995, 30000)
    )
    assert (result.ended, result.stderr_truncated, result.stdout_truncated) == (
        Ended.EXITED,
        True,
        False,
    )


def test_what_a_program_prints_in_its_grace_period_is_kept() -> None:
    source = """
import os, signal, time
def last_words(*_):  # not print: it may have been interrupted itself
    os.write(1, b"last record\\n")
    os._exit(0)
signal.signal(signal.SIGINT, last_words)
print("READY", flush=True)
time.sleep(600)
"""
    result = run_until_ready(
        python(source, first_signal=signal.SIGINT, grace_seconds=60)
    )
    assert (result.ended, result.exit_code) == (Ended.TIMEOUT, 124)
    assert result.text() == "READY\nlast record\n"


def test_the_first_signal_reaches_the_whole_group() -> None:
    source = """
import os, signal, subprocess, sys
child = '''
import os, signal, time
signal.signal(signal.SIGUSR1, lambda *_: (os.write(1, b"child told\\\\n"), os._exit(0)))
print("READY", flush=True)
time.sleep(600)
'''
signal.signal(signal.SIGUSR1, lambda *_: None)
subprocess.Popen([sys.executable, "-c", child]).wait()
"""
    told = run_until_ready(
        python(source, first_signal=signal.SIGUSR1, grace_seconds=60)
    )
    assert told.text() == "READY\nchild told\n"


# --- the whole family

TREE = """
import os, subprocess, sys, time
grandchild = '''
import os, signal, sys, time
os.setsid()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
print(os.getpid(), flush=True)
{grandchild_then}
print("READY", flush=True)
time.sleep(600)
'''
print(os.getpid(), flush=True)
child = subprocess.Popen([sys.executable, "-c", grandchild])
{child_then}
"""


def tree(
    *, grandchild_then: str = "", child_then: str = "time.sleep(600)", **options: object
) -> Command:
    source = TREE.format(grandchild_then=grandchild_then, child_then=child_then)
    return python(source, **{"grace_seconds": 0.1, **options})


def test_a_grandchild_in_a_session_of_its_own_that_ignores_sigterm_does_not_survive_the_deadline() -> (
    None
):
    result = run_until_ready(tree())
    assert (result.ended, result.exit_code, result.leftovers_killed) == (
        Ended.TIMEOUT,
        124,
        1,
    )
    assert len(pids_in(result)) == 2
    assert [pid for pid in pids_in(result) if is_alive(pid)] == []


def test_an_orphan_in_a_session_of_its_own_is_found_by_its_mark() -> None:
    fork_away = "os.fork() and os._exit(0); print(os.getpid(), flush=True)"
    result = run_until_ready(
        tree(grandchild_then=fork_away, child_then="child.wait(); time.sleep(600)")
    )
    assert result.ended is Ended.TIMEOUT
    assert len(pids_in(result)) == 3
    assert [pid for pid in pids_in(result) if is_alive(pid)] == []


def test_a_grandchild_that_cleared_its_environment_is_found_by_its_parents() -> None:
    again = "os.environ.get('HOME') and os.execve(sys.executable, [sys.executable, '-c', %r], {})"
    source = "import os, time; print(os.getpid(), flush=True); print('READY', flush=True); time.sleep(600)"
    result = run_until_ready(tree(grandchild_then=again % source))
    assert [pid for pid in pids_in(result) if is_alive(pid)] == []
    assert len(set(pids_in(result))) == 2


def test_without_proc_the_family_is_found_by_its_parents(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    with monkeypatch.context() as without_proc:
        without_proc.setattr(family, "PROC", str(tmp_path / "none"))
        result = run_until_ready(tree())
    assert result.ended is Ended.TIMEOUT
    assert len(pids_in(result)) == 2
    assert [pid for pid in pids_in(result) if is_alive(pid)] == []


def test_a_family_that_keeps_forking_is_killed_all_the_same() -> None:
    # It ends by itself, in case we ever fail to: a chain of forks nobody stops would eat the machine.
    fork_on = """
print("READY", flush=True)
end = time.monotonic() + 20
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
    os.setsid()
    time.sleep(0.002)
"""
    result = run_until_ready(tree(grandchild_then=fork_on))
    assert result.ended is Ended.TIMEOUT
    assert left_alive() == []


LEAVER = """
import subprocess, sys
straggler = "import os, time; os.setsid(); print(os.getpid(), flush=True); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", straggler], stdout=subprocess.PIPE, stderr={stderr})
print(child.stdout.readline().decode(), flush=True)
"""


def test_a_child_that_outlives_a_normal_end_is_killed_and_counted() -> None:
    result = finish(python(LEAVER.format(stderr="subprocess.DEVNULL")))
    assert (result.ended, result.exit_code, result.leftovers_killed) == (
        Ended.EXITED,
        0,
        1,
    )
    assert [pid for pid in pids_in(result) if is_alive(pid)] == []


def test_a_child_that_holds_the_pipe_open_does_not_hang_us() -> None:
    result = finish(python(LEAVER.format(stderr="None")))
    assert (result.ended, result.exit_code, result.leftovers_killed) == (
        Ended.EXITED,
        0,
        1,
    )
    assert len(pids_in(result)) == 1


@pytest.mark.parametrize("stderr", ["subprocess.DEVNULL", "None"])
def test_a_family_that_is_to_be_kept_lives_on(stderr: str) -> None:
    result = finish(python(LEAVER.format(stderr=stderr)), keep_family=True)
    [straggler] = pids_in(result)
    try:
        assert (result.ended, result.leftovers_killed) == (Ended.EXITED, 0)
        assert is_alive(straggler)
    finally:
        os.kill(straggler, signal.SIGKILL)
        wait_until_gone(straggler)


def wait_until_gone(pid: int) -> None:
    """Block until a process that is not our child has ended."""
    handle = os.pidfd_open(pid)
    try:
        select.select([handle], [], [], 30)
    finally:
        os.close(handle)


def test_the_last_output_is_taken_although_it_comes_through_a_helper(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "LINGER_SECONDS", 60.0)
    source = """
import os, subprocess, sys
helper = "import sys; text = sys.stdin.read(); print(text, end='')"  # speaks only when the program has ended
pipe = subprocess.Popen([sys.executable, "-c", helper], stdin=subprocess.PIPE).stdin
os.dup2(pipe.fileno(), 1)
print("through the helper")
"""
    assert finish(python(source)).text() == "through the helper\n"


def test_what_was_written_before_the_kill_is_taken(tmp_path: Path) -> None:
    clock, fifo = SkippingClock(), tmp_path / "fifo"
    os.mkfifo(fifo)

    def pass_the_deadline_when_more_was_written() -> None:
        fifo.read_bytes()
        clock.skip(FOREVER)

    source = """
import sys, time
print("READY", flush=True)
print("more", flush=True)
open(sys.argv[1], "w").close()
time.sleep(600)
"""
    result = run(
        python(source, str(fifo), grace_seconds=0),
        timeout_seconds=FOREVER,
        idle_seconds=None,
        on_output=Listener(pass_the_deadline_when_more_was_written),
        clock=clock,
    )
    assert (result.ended, result.text()) == (Ended.TIMEOUT, "READY\nmore\n")


NESTED = """
import sys
from bridgehead.host.process import Command, child_environment, run
inner = "import os, time; print(os.getpid(), flush=True); print('READY', flush=True); time.sleep(600)"
run(Command([sys.executable, "-c", inner], env=child_environment({{}}, keep={keep})),
    timeout_seconds=600, idle_seconds=None,
    on_output=lambda stream, chunk: (sys.stdout.buffer.write(chunk), sys.stdout.flush()))
"""


def test_a_run_inside_a_run_is_part_of_the_outer_family() -> None:
    result = run_until_ready(python(NESTED.format(keep=[TAG]), grace_seconds=0.1))
    assert result.ended is Ended.TIMEOUT
    assert len(pids_in(result)) == 1
    assert [pid for pid in pids_in(result) if is_alive(pid)] == []


# --- stopped from outside


def test_another_thread_can_cancel_a_run() -> None:
    cancel, ready = Cancel(), threading.Event()

    def cancel_when_ready() -> None:
        ready.wait(30)
        cancel.cancel()

    canceller = threading.Thread(target=cancel_when_ready)
    canceller.start()
    result = run(
        tree(),
        timeout_seconds=None,
        idle_seconds=None,
        cancel=cancel,
        on_output=Listener(ready.set),
    )
    canceller.join()
    assert (result.ended, result.exit_code) == (Ended.CANCELLED, 130)
    assert len(pids_in(result)) == 2
    assert left_alive() == []


def test_output_itself_can_cancel_a_run() -> None:
    cancel = Cancel()
    result = run(
        python(
            "import time; print('READY', flush=True); time.sleep(600)",
            grace_seconds=0.1,
        ),
        timeout_seconds=None,
        idle_seconds=None,
        cancel=cancel,
        on_output=Listener(cancel.cancel),
    )
    assert (result.ended, result.text()) == (Ended.CANCELLED, "READY\n")


def test_a_cancelled_run_waits_for_its_grace_period_without_turning_in_circles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float | None] = []
    wait = Pipes.wait

    def counted(pipes: Pipes, seconds: float | None) -> bool:
        waits.append(seconds)
        return wait(pipes, seconds)

    monkeypatch.setattr(Pipes, "wait", counted)
    cancel = Cancel()
    result = run(
        tree(
            grace_seconds=0.3,
            child_then="import signal; signal.signal(15, signal.SIG_IGN); time.sleep(600)",
        ),
        timeout_seconds=None,
        idle_seconds=None,
        cancel=cancel,
        on_output=Listener(cancel.cancel),
    )
    assert result.ended is Ended.CANCELLED
    assert len(waits) < 50


def test_one_token_stops_several_runs_and_is_never_reset(tmp_path: Path) -> None:
    cancel, ready = Cancel(), threading.Semaphore(0)
    command = python(
        "import time; print('READY', flush=True); time.sleep(600)", grace_seconds=0.1
    )
    results: list[CommandResult] = []

    def attend() -> None:
        listener = Listener(ready.release)
        results.append(
            run(
                command,
                timeout_seconds=None,
                idle_seconds=None,
                cancel=cancel,
                on_output=listener,
            )
        )

    threads = [threading.Thread(target=attend) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert ready.acquire(timeout=30)
    assert ready.acquire(timeout=30)
    cancel.cancel()
    cancel.cancel()
    for thread in threads:
        thread.join()
    assert [result.ended for result in results] == [Ended.CANCELLED, Ended.CANCELLED]

    marker = tmp_path / "ran"
    late = finish(
        python("import sys; open(sys.argv[1], 'w')", str(marker)), cancel=cancel
    )
    assert (late.ended, late.exit_code) == (Ended.CANCELLED, 130)
    assert not marker.exists()


INTERRUPTED = """
import os, signal, sys
from bridgehead.host.process import Command, child_environment, run
def interrupt(stream, chunk):
    sys.stdout.buffer.write(chunk)
    sys.stdout.flush()
    if b"READY" in chunk:
        os.kill(os.getpid(), signal.SIGINT)
try:
    run(Command([sys.executable, "-c", sys.argv[1]], env=child_environment({}, keep=sys.argv[2:])),
        timeout_seconds=600, idle_seconds=None, on_output=interrupt)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_kills_the_family_before_it_goes_on(
    started: StartScript, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TAG, TAGGED)
    parent = started(INTERRUPTED, str(tree().argv[2]), TAG)
    output, _ = parent.communicate(timeout=60)
    words = output.split()
    assert words[-2:] == ["READY", "interrupted"]
    assert [int(word) for word in words[:-2] if is_alive(int(word))] == []


def test_a_listener_that_fails_takes_the_family_with_it() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(tree(), timeout_seconds=None, idle_seconds=None, on_output=Listener(fail))
    assert left_alive() == []


def test_no_handle_and_no_thread_is_left_behind() -> None:
    finish(python("pass", stdin="x"))
    handles, threads = len(list(Path("/dev/fd").iterdir())), threading.active_count()
    for command in (
        python("pass", stdin="x" * 200_000),
        Command(["no-such-program"]),
        python("pass"),
    ):
        finish(command, cancel=Cancel())
    assert (len(list(Path("/dev/fd").iterdir())), threading.active_count()) == (
        handles,
        threads,
    )


# --- what the program can see


def test_nothing_of_our_environment_reaches_the_program_unasked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not for you")
    monkeypatch.setenv("LD_PRELOAD_NOTE", "nor this")
    command = Command(
        [sys.executable, "-c", "import os, json; print(json.dumps(dict(os.environ)))"]
    )
    seen = json.loads(finish(command).text())
    assert "not for you" not in seen.values()
    assert set(seen) <= {
        *child_environment({}),
        MARK,
        "LC_CTYPE",
    }  # Python itself sets LC_CTYPE
    assert (seen["TERM"], seen["NO_COLOR"]) == ("dumb", "1")


def test_a_command_given_an_environment_gets_that_one_and_the_mark() -> None:
    command = Command(
        [sys.executable, "-c", "import os; print(sorted(os.environ))"],
        env={"ONLY": "this"},
    )
    assert set(ast.literal_eval(finish(command).text())) - {"LC_CTYPE"} == {
        MARK,
        "ONLY",
    }


def test_keys_and_prompts_do_not_show_in_the_text_of_a_command() -> None:
    command = Command(["program"], stdin="the prompt", env={"KEY": "the key"})
    assert "the prompt" not in repr(command)
    assert "the key" not in repr(command)
