"""Get requests answered by a program or a person (flows §14)."""

from __future__ import annotations

import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from bridgehead.errors import UserError
from bridgehead.flows.calls import Reply
from bridgehead.flows.files.agent_files import AgentRequest
from bridgehead.flows.files.checkpoint_files import MIB, CheckpointFiles
from bridgehead.flows.words import ErrorType, RequestStatus
from bridgehead.host.command import Cancel, Command, CommandResult, Ended
from bridgehead.host.process import run

# Below the 16 MiB of a response file, as escaping makes an answer longer.
ANSWER_LIMIT = 12 * MIB
_STDERR_SHOWN = 500
FIRST_POLL_SECONDS = 0.05
LONGEST_POLL_SECONDS = 1.0


class HandlerUnusable(UserError):
    """The handler cannot be asked at all; the run stays paused."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"{reason}; no request was sent, and the run stays paused",
            hint="fix the handler and retry, or answer with `bridgehead flow respond`",
        )


class Handler(ABC):
    """One way to get a request answered."""

    takes_several = True
    """Whether it can answer several requests at once, each in its own thread."""

    @cached_property
    def cancel(self) -> Cancel:
        """Return the switch that is set when its replies are not needed any more."""
        return Cancel()

    @abstractmethod
    def answer(self, request: AgentRequest, files: CheckpointFiles) -> Reply | None:
        """Return the reply, within the request's time limit.

        Return None if somebody else has written the response file. Raise
        HandlerUnusable if the handler cannot be asked at all, because a program or a
        login is missing.
        """


HandlerMaker = Callable[[str], Handler]


def make_handler(
    name: str, others: Mapping[str, HandlerMaker] | None = None
) -> Handler:
    """Return the handler called `pending` or `cmd:COMMAND`, or one of the `others`.

    The others are given by their schemes (`runtime:NAME`, `rig:ID`).
    """
    scheme, _, argument = name.partition(":")
    if name == "pending":
        return PendingHandler()
    if scheme == "cmd":
        return CommandHandler(_words(argument))
    if others and scheme in others and argument:
        return others[scheme](argument)
    forms = ["pending", "cmd:COMMAND", *(f"{other}:NAME" for other in others or ())]
    raise UserError(
        f"there is no handler {name!r}", hint=f"handlers: {', '.join(forms)}"
    )


def _words(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UserError(
            f"the command of the handler cannot be parsed: {error}"
        ) from error
    if not words:
        raise UserError("the handler cmd: needs a command, for example cmd:'claude -p'")
    return words


class CommandHandler(Handler):
    """Runs the same command for every request.

    The prompt is its standard input, the agent's name is in BRIDGEHEAD_AGENT.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words = tuple(words)

    def answer(self, request: AgentRequest, files: CheckpointFiles) -> Reply:
        # The user named this program, so it gets the user's environment.
        environment = {
            **os.environ,
            "BRIDGEHEAD_AGENT": request.agent_name,
            "BRIDGEHEAD_REQUEST_ID": request.request_id,
            "BRIDGEHEAD_TIMEOUT_SECONDS": str(request.timeout_seconds),
        }
        command = Command(
            self._words,
            stdin=request.prompt,
            env=environment,
            cwd=files.root.path,
            stdout_cap=ANSWER_LIMIT,
        )
        timeout = request.timeout_seconds
        return _reply(
            run(command, timeout_seconds=timeout, idle_seconds=None, cancel=self.cancel)
        )


def _reply(result: CommandResult) -> Reply:
    took = round(result.duration_seconds, 3)
    if result.ended is Ended.NOT_STARTED:
        raise HandlerUnusable(f"{result.argv[0]} could not be started: {result.reason}")
    if result.ended is Ended.TIMEOUT:
        return _timed_out(f"{result.argv[0]} was stopped after {took:g} s", took)
    problem = _problem(result)
    if problem is not None:
        return Reply(
            RequestStatus.ERROR,
            error_type=ErrorType.INVOCATION_FAILED.value,
            message=problem,
            duration_seconds=took,
        )
    return Reply(text=result.text(), duration_seconds=took)


def _timed_out(message: str, seconds: float) -> Reply:
    error = ErrorType.TIMEOUT.value
    return Reply(
        RequestStatus.TIMEOUT,
        error_type=error,
        message=message,
        duration_seconds=seconds,
    )


def _problem(result: CommandResult) -> str | None:
    program = result.argv[0]
    if result.ended is Ended.OUTPUT_CAP:
        return f"{program} wrote more than {ANSWER_LIMIT} bytes"
    if result.exit_code != 0:
        problem = f"{program} ended with {result.exit_code}"
        reason = result.error_text().strip()[-_STDERR_SHOWN:]
        return f"{problem}: {reason}" if reason else problem
    if not result.stdout.strip():
        return f"{program} ended with exit code 0 and no output"
    return None


class PendingHandler(Handler):
    """Waits for the response file until the request times out."""

    takes_several = False

    def answer(self, request: AgentRequest, files: CheckpointFiles) -> Reply | None:
        until = files.clock.monotonic() + request.timeout_seconds
        poll = FIRST_POLL_SECONDS
        while not os.path.lexists(files.response_path):
            seconds_left = until - files.clock.monotonic()
            if seconds_left <= 0:
                seconds = request.timeout_seconds
                return _timed_out(f"no answer within {seconds} s", float(seconds))
            files.clock.sleep(min(poll, seconds_left))
            poll = min(2 * poll, LONGEST_POLL_SECONDS)
        return None
