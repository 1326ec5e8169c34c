"""Answers with a program: prompt on its stdin, answer on its stdout, any exit but 0 is a failure (flows §14)."""

from __future__ import annotations

import os
from collections.abc import Sequence

from bridgehead.flows.checkpoint_files import MIB, CheckpointFiles
from bridgehead.flows.handlers.base import Handler, Reply
from bridgehead.flows.request import AgentRequest
from bridgehead.flows.words import ErrorType, RequestStatus
from bridgehead.host.process import Command, CommandResult, Ended, run

# A response file may have 16 MiB; escaping can make an answer longer than it was.
ANSWER_LIMIT = 12 * MIB
_STDERR_SHOWN = 500


class CommandHandler(Handler):
    """Runs the same words for every request; the program finds the agent's name in BRIDGEHEAD_AGENT."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = tuple(words)

    def answer(self, request: AgentRequest, files: CheckpointFiles) -> Reply:
        # The user's own program, named by the user: it keeps the user's environment.
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
        return _reply(run(command, timeout_seconds=request.timeout_seconds, idle_seconds=None))


def _reply(result: CommandResult) -> Reply:
    took = round(result.duration_seconds, 3)
    if result.ended is Ended.TIMEOUT:
        return Reply(
            RequestStatus.TIMEOUT,
            error_type=ErrorType.TIMEOUT.value,
            message=f"{result.argv[0]} was stopped after {took:g} s",
            duration_seconds=took,
        )
    problem = _problem(result)
    if problem is not None:
        return Reply(
            RequestStatus.ERROR,
            error_type=ErrorType.INVOCATION_FAILED.value,
            message=problem,
            duration_seconds=took,
        )
    return Reply(text=result.text(), duration_seconds=took)


def _problem(result: CommandResult) -> str | None:
    program = result.argv[0]
    if result.ended is Ended.NOT_STARTED:
        return f"{program} could not be started: {result.reason}"
    if result.ended is Ended.OUTPUT_CAP:
        return f"{program} wrote more than {ANSWER_LIMIT} bytes"
    if result.exit_code != 0:
        said = result.error_text().strip()[-_STDERR_SHOWN:]
        return f"{program} ended with {result.exit_code}" + (f": {said}" if said else "")
    return None if result.stdout.strip() else f"{program} ended with 0 and said nothing"
