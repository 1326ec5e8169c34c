"""Keep paused runs going.

`drive` runs a program, has a handler answer its request, and runs it again (flows §5).
`Watch` resumes any run whose answer has arrived, a few at a time, each in a process of
its own.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, NamedTuple

from bridgehead.contract.record_words import is_person
from bridgehead.errors import AlreadyAnswered, BridgeheadError, UserError
from bridgehead.exit_codes import ExitCode
from bridgehead.flows.calls import Call, outstanding_calls
from bridgehead.flows.engine.mailbox import Rejected, attempts_by_id, match_response
from bridgehead.flows.engine.run_request import PAUSE_WORD, RunInputs
from bridgehead.flows.errors import RequestExpired, UnsupportedVersion
from bridgehead.flows.files.agent_files import AgentRequest
from bridgehead.flows.files.checkpoint_files import MIB, CheckpointFiles
from bridgehead.flows.files.documents import (
    Contract,
    InvalidDocument,
    is_supported,
    load_document,
)
from bridgehead.flows.files.json_bytes import Unreadable
from bridgehead.flows.files.root import DRIVER_LOCK, JOURNAL_FOLDER, FlowRoot
from bridgehead.flows.handlers import Handler, PendingHandler
from bridgehead.flows.interfaces import OpenRequest
from bridgehead.flows.journals.base import Run
from bridgehead.flows.operations.respond import give
from bridgehead.flows.values.times import deadline_after, utc_text
from bridgehead.flows.words import (
    REQUEST_FILE,
    RESPONSE_FILE,
    DocumentKind,
    Profile,
    RunStatus,
)
from bridgehead.host.command import (
    Cancel,
    Command,
    Ended,
    our_command,
    our_environment,
)
from bridgehead.host.process import Stream, run

DEFAULT_MAX_ITERATIONS: Final = 50
DEFAULT_CONCURRENCY: Final = 4
GIVE_UP_SECONDS: Final = 5.0
FIRST_PATIENCE_SECONDS: Final = 30.0
LONGEST_PATIENCE_SECONDS: Final = 3600.0
RECHECK_SECONDS: Final = 15.0
"""How long a root is skipped if nothing was written to it.

It is not skipped forever, as an ask may expire or a driver be killed.
"""
_STDERR_SHOWN: Final = 500
STDOUT_LIMIT: Final = 64 * MIB
FIRST_BACKOFF_SECONDS: Final = 0.5
LONGEST_BACKOFF_SECONDS: Final = 30.0
RESUME_FLAG: Final = "--resume"


def drive_loop(
    run: Callable[[bool], int],
    dispatch: Callable[[], object],
    *,
    max_iterations: int = DEFAULT_MAX_ITERATIONS,
) -> int:
    """Call `run(resume)` until it does not end paused; return its last exit code.

    `dispatch()` is called after each pause, except that of the last permitted run,
    whose request is left to be answered later.
    """
    for iteration in range(max_iterations):
        code = run(iteration > 0)
        if code != ExitCode.WAITING:
            return code
        if iteration + 1 < max_iterations:
            dispatch()
    return ExitCode.USER


def backoff_before(retry_count: int) -> float:
    """Return the seconds to wait before a handler is retried: 0.5, 1, 2, 4 … 30."""
    doublings = min(retry_count - 1, 30)
    return float(min(LONGEST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2**doublings))


class DriveRequest(NamedTuple):
    """A command to be driven in `directory`.

    Its requests are found there, unless its pause line names another root.
    """

    command: tuple[str, ...]
    directory: Path
    max_iterations: int = DEFAULT_MAX_ITERATIONS
    concurrency: int = DEFAULT_CONCURRENCY
    """How many questions of one run the handler gets at the same time."""


class DriveResult(NamedTuple):
    """How the last run ended, and what it wrote to stdout."""

    exit_code: int
    stdout: bytes
    runs: int
    gave_up: bool
    """Whether the last permitted run paused; it can still be resumed."""


def drive(
    request: DriveRequest,
    handler: Handler,
    inputs: RunInputs | None = None,
    *,
    on_stderr: Callable[[bytes], None] = lambda _: None,
) -> DriveResult:
    """Drive the command to its end; `on_stderr` gets its error output as it comes."""
    if request.max_iterations < 1:
        raise UserError("--max-iterations must be at least 1")
    with ExitStack() as locks:
        driver = _Driver(request, handler, inputs or RunInputs(), on_stderr, locks)
        code = drive_loop(
            driver.run, driver.dispatch, max_iterations=request.max_iterations
        )
        return DriveResult(code, driver.stdout, driver.runs, driver.paused)


class _Driver:
    def __init__(
        self,
        request: DriveRequest,
        handler: Handler,
        inputs: RunInputs,
        on_stderr: Callable[[bytes], None],
        locks: ExitStack,
    ) -> None:
        self._locks = locks
        self._locked_roots: set[Path] = set()
        self._request = request
        self._handler = handler
        self._inputs = inputs
        self._on_stderr = on_stderr
        self.stdout = b""
        self.runs = 0
        self.paused = False

    def run(self, resume: bool) -> int:
        words = self._request.command
        if resume and RESUME_FLAG not in words:
            words = (*words, RESUME_FLAG)
        # This is the user's own program: it keeps the user's environment, and may leave
        # processes behind on purpose.
        command = Command(
            words,
            env=dict(os.environ),
            cwd=self._request.directory,
            stdout_cap=STDOUT_LIMIT,
        )
        result = run(
            command,
            timeout_seconds=None,
            idle_seconds=None,
            on_output=self._pass_stderr,
            keep_family=True,
        )
        if result.ended is Ended.NOT_STARTED:
            raise UserError(f"{words[0]} could not be started: {result.reason}")
        self.stdout = result.stdout
        self.runs += 1
        self.paused = result.exit_code == ExitCode.WAITING
        return result.exit_code

    def dispatch(self) -> None:
        """Have the handler answer the request, and the run's other open requests."""
        root = FlowRoot.open(self._root())
        inputs = self._inputs
        files = CheckpointFiles(root, inputs.clock, size_limits=inputs.size_limits)
        self._keep_watchers_away(root)
        requests = [self._read_request(files)]
        if self._handler.takes_several and self._request.concurrency > 1:
            requests += _also_waiting(files, inputs, requests[0].request_id)
        for request in requests:
            self._announce(request, root)
        if len(requests) == 1:
            self._answer(requests[0], files)
        else:
            self._answer_all(requests, files)
        for request in requests:
            inputs.announcer.settled(request.request_id, str(root.path), "answered")

    def _keep_watchers_away(self, root: FlowRoot) -> None:
        """Hold the lock that keeps watchers from resuming the run while it is driven.

        A program without a journal has no run that a watcher could resume.
        """
        if root.journal.exists() and root.path not in self._locked_roots:
            self._locks.enter_context(root.locked(DRIVER_LOCK))
            self._locked_roots.add(root.path)

    def _announce(self, request: AgentRequest, root: FlowRoot) -> None:
        name = Path(self._request.command[0]).name
        deadline = utc_text(deadline_after(request.created_at, request.timeout_seconds))
        self._inputs.announcer.asked(
            OpenRequest("", name, str(root.path), request.to_dict(), deadline)
        )

    def _answer(self, request: AgentRequest, files: CheckpointFiles) -> None:
        if request.retry_count:  # the handler has just failed
            files.clock.sleep(backoff_before(request.retry_count))
        # A question for a person is not given to a program.
        handler = PendingHandler() if is_person(request.agent_name) else self._handler
        reply = handler.answer(request, files)
        if reply is not None and not self._handler.cancel.cancelled:
            # Somebody else may have answered first, or the request may have expired.
            with suppress(AlreadyAnswered, RequestExpired):
                give(reply, request.request_id, files, self._inputs)

    def _answer_all(self, requests: list[AgentRequest], files: CheckpointFiles) -> None:
        """Have several requests answered at the same time.

        Ctrl-C, or a handler that fails, ends the answers that are under way.
        """
        work = _SharedWork(requests, lambda request: self._answer(request, files))
        threads = [
            threading.Thread(target=work.run, daemon=True)
            for _ in range(min(self._request.concurrency, len(requests)))
        ]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException:
            work.stop()
            self._handler.cancel.cancel()
            for thread in threads:
                thread.join(GIVE_UP_SECONDS)
            raise
        if work.failures:
            raise work.failures[0]

    def _pass_stderr(self, stream: Stream, chunk: bytes) -> None:
        if stream == "stderr":
            self._on_stderr(chunk)

    def _root(self) -> Path:
        """Return the root named by the pause line, or else the command's directory."""
        for line in reversed(self.stdout.decode("utf-8", "replace").splitlines()):
            word, _, facts = line.partition(" ")
            if word == PAUSE_WORD:
                return self._named_root(facts)
        return self._request.directory

    def _named_root(self, facts: str) -> Path:
        try:
            named = json.loads(facts)
            request = Path(named["request_file"])
            response = Path(named["response_file"])
        except (ValueError, TypeError, KeyError) as error:
            raise UserError(
                f"the pause line of {self._request.command[0]} cannot be read: {error}"
            ) from error
        expected = (request.parent / REQUEST_FILE, request.parent / RESPONSE_FILE)
        if (request, response) != expected or not request.is_absolute():
            raise UserError(
                f"the pause line of {self._request.command[0]} names files that are "
                "not a flow's"
            )
        return request.parent

    def _read_request(self, files: CheckpointFiles) -> AgentRequest:
        content = files.read(files.request_path)
        try:
            if not isinstance(content, bytes):
                raise Unreadable(content.reason if content else "there is none")
            document = load_document(
                content, DocumentKind.REQUEST, Profile.STRICT, Contract.OPEN
            )
        except (Unreadable, InvalidDocument) as error:
            ended = (
                f"{self._request.command[0]} ended with 42, but {files.request_path} "
                "contains no request"
            )
            raise UserError(f"{ended}: {error}") from error
        if not is_supported(document):
            raise UnsupportedVersion(files.request_path, str(document["version"]))
        return AgentRequest.from_dict(document)


class _SharedWork:
    """A queue of requests that several threads work on, until one fails."""

    def __init__(
        self, requests: list[AgentRequest], answer: Callable[[AgentRequest], None]
    ) -> None:
        self._remaining = requests[::-1]
        self._answer = answer
        self.failures: list[Exception] = []

    def run(self) -> None:
        while self._remaining and not self.failures:
            try:
                self._answer(self._remaining.pop())
            except IndexError:  # another thread took the last one
                return
            except Exception as error:  # raised again in the thread that waits
                self.failures.append(error)

    def stop(self) -> None:
        self._remaining.clear()


def _also_waiting(
    files: CheckpointFiles, inputs: RunInputs, on_file: str
) -> list[AgentRequest]:
    """Return the other open requests of the run that wrote this one.

    There are several if the flow uses `gather` or `map`.
    """
    if not files.root.journal.exists():
        return []
    with inputs.open_journal(files.root) as journal:
        owner = journal.owner(on_file)
        if owner is None:
            return []
        run, _ = owner
        calls = outstanding_calls(journal.attempts(run.id)).values()
    requests = []
    for call in calls:
        attempt = call.current
        is_other = attempt.request_id.lower() != on_file.lower()
        if is_other and attempt.response is None:
            requests.append(AgentRequest.from_dict(dict(attempt.document)))
    return requests


class WaitingRun(NamedTuple):
    """A paused run that can continue now.

    `answers` are the calls that are answered or expired.
    """

    root: Path
    run: Run
    answers: frozenset[str]


class Watched(NamedTuple):
    """A root to be watched.

    Only runs in `ids` are resumed, which the user is known to have started; None stands
    for any run.
    """

    root: Path
    ids: frozenset[str] | None = None


def ready_in(place: Watched, inputs: RunInputs) -> WaitingRun | None:
    """Return the paused run of a root if it can continue now.

    It can if an answer has arrived, or an ask has expired.
    """
    root = FlowRoot.open(place.root)
    if not root.journal.exists() or root.is_held() or root.is_held(DRIVER_LOCK):
        return None
    with inputs.open_journal(root) as journal:
        run = journal.unfinished()
        if run is None or run.status is not RunStatus.WAITING or not run.source:
            return None
        if place.ids is not None and run.id not in place.ids:
            return None
        calls = list(outstanding_calls(journal.attempts(run.id)).values())
    now = inputs.clock.now()
    ready = _answered_in_files(root, calls, inputs)
    for call in calls:
        if call.current.response is not None or call.current.is_expired(now):
            ready.add(call.path)
    return WaitingRun(root.path, run, frozenset(ready)) if ready else None


def _answered_in_files(
    root: FlowRoot, calls: Iterable[Call], inputs: RunInputs
) -> set[str]:
    """Return the paths of the calls answered by response files."""
    files = CheckpointFiles(root, inputs.clock, size_limits=inputs.size_limits)
    attempts = attempts_by_id(calls)
    answered = set()
    for path in files.response_paths():
        content = files.read(path)
        if not isinstance(content, bytes):
            continue
        found = match_response(content, attempts)
        if not isinstance(found, Rejected):
            call, _ = found
            answered.add(call.path)
    return answered


class Watch:
    """Resumes runs that can continue.

    A run that makes no progress is retried after a while, longer each time.
    """

    def __init__(
        self,
        places: Callable[[], Iterable[Watched]],
        resume: Callable[[WaitingRun], bool],
        inputs: RunInputs | None = None,
        *,
        concurrency: int = DEFAULT_CONCURRENCY,
        patience_seconds: float = 0.0,
    ) -> None:
        """Watch `places`, and call `resume`, which returns whether the run progressed.

        For `patience_seconds`, whoever answered may resume the run first.
        """
        self._places = places
        self._resume = resume
        self._inputs = inputs or RunInputs()
        self._concurrency = concurrency
        self._patience_seconds = patience_seconds
        self._under_way: dict[Path, threading.Thread] = {}
        self._seen: dict[Path, tuple[tuple[int, ...], float]] = {}
        self._tried: dict[tuple[str, frozenset[str]], tuple[int, float]] = {}
        """How often a run made no progress, and when it may be tried again.

        The key is the run's id and the calls that are answered.
        """

    def look(self) -> int:
        """Resume the runs that can continue and were not tried lately.

        Return how many runs are under way.
        """
        self._under_way = {
            root: thread
            for root, thread in self._under_way.items()
            if thread.is_alive()
        }
        for place in self._places():
            if len(self._under_way) >= self._concurrency:
                break
            if place.root in self._under_way or self._is_unchanged(place.root):
                continue
            try:
                ready = ready_in(place, self._inputs)
            except BridgeheadError:
                # The root is gone or unusable. A resume by hand will say why.
                continue
            if ready is None:
                continue
            del self._seen[place.root]
            if self._is_due(ready):
                self._start(place.root, ready)
        return len(self._under_way)

    def _start(self, root: Path, ready: WaitingRun) -> None:
        thread = threading.Thread(target=self._resume_run, args=(ready,), daemon=True)
        self._under_way[root] = thread
        thread.start()

    def wait(self) -> None:
        """Wait until everything under way has ended or paused again."""
        for thread in list(self._under_way.values()):
            thread.join()

    def _is_unchanged(self, root: Path) -> bool:
        """Return whether nothing was ready at the last look, nor written since.

        The modification times of four files decide.
        """
        private = root / JOURNAL_FOLDER
        names = (
            root / RESPONSE_FILE,
            private / "inbox",
            private / "journal.db",
            private / "journal.db-wal",
        )
        stamp = tuple(_written_at(path) for path in names)
        now = self._inputs.clock.monotonic()
        seen, until = self._seen.get(root, ((), 0.0))
        if seen == stamp and now < until:
            return True
        self._seen[root] = (stamp, now + RECHECK_SECONDS)
        return False

    def _is_due(self, ready: WaitingRun) -> bool:
        now = self._inputs.clock.monotonic()
        first_try = (0, now + self._patience_seconds)
        _, due_at = self._tried.setdefault((ready.run.id, ready.answers), first_try)
        return now >= due_at

    def _resume_run(self, ready: WaitingRun) -> None:
        tries, _ = self._tried.pop((ready.run.id, ready.answers), (0, 0.0))
        if self._resume(ready):
            return
        doublings = min(tries, 30)
        wait = min(LONGEST_PATIENCE_SECONDS, FIRST_PATIENCE_SECONDS * 2**doublings)
        until = self._inputs.clock.monotonic() + wait
        self._tried[ready.run.id, ready.answers] = (tries + 1, until)


def _written_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return -1


def resume_in_process(
    ready: WaitingRun,
    say: Callable[[str], None],
    show: Callable[[bytes], None],
    cancel: Cancel,
) -> bool:
    """Resume a run in a child process; return whether it made progress."""
    words = our_command("flow", "resume", ready.run.id, "--dir", str(ready.root))
    say(f"{ready.run.id} {ready.run.name} in {ready.root}: resuming")
    command = Command(
        words,
        env=our_environment(os.environ, search_path=True),
        cwd=ready.root,
        stdout_cap=STDOUT_LIMIT,
    )
    result = run(
        command,
        timeout_seconds=None,
        idle_seconds=None,
        cancel=cancel,
        keep_family=True,
    )
    if result.ended is Ended.CANCELLED:
        say(f"{ready.run.id} was stopped; `bridgehead flow resume` continues it")
        return True
    if result.exit_code == ExitCode.WAITING:
        say(f"{ready.run.id} is waiting for the next answer")
        return True
    if result.exit_code == ExitCode.DONE:
        say(f"{ready.run.id} has ended")
        show(result.stdout)
        return True
    reason = result.error_text().strip()[-_STDERR_SHOWN:]
    if not reason:
        reason = f"exit {result.exit_code}"
    say(f"{ready.run.id} could not continue: {reason}")
    return False
