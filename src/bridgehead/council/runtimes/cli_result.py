"""What holds for every agent CLI: exit code 0 is not success, and no record is a refusal (runtimes §2)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from bridgehead.contract.words import ErrorClass
from bridgehead.council.refusals import CLI_NOT_FOUND, DETAIL_CHARACTERS, classify, excerpt
from bridgehead.council.runtimes.exchange import NOTHING_REPORTED, Answered, Outcome, Refused
from bridgehead.host.command import CommandResult, Ended

StartupErrors = Sequence[tuple[re.Pattern[str], ErrorClass]]
"""What a CLI writes to stderr when it does not even begin, in the order in which it is looked for."""

# Below 0, or 128 and up: a signal ended it, whatever it had printed by then. Some CLIs also use these codes for HTTP
# statuses, but then their record says that they failed.
_OWN_END: Final = range(128)
# What `timeout` programs end with; a user may have put one around the runtime (council §19).
_TIMED_OUT: Final = 124
_TERMINAL_CODES: Final = re.compile(r"\x1b\[[0-9;]*m")


def ended_early(program: str, result: CommandResult, timeout_seconds: int) -> Refused | None:
    """The refusal of a program that did not come to its own end, or None."""
    detail = stderr_of(result)
    match result.ended:
        case Ended.NOT_STARTED:
            message = f"{program} could not be started: {result.reason}"
            return Refused(ErrorClass.OTHER, message, detail, reason=CLI_NOT_FOUND)
        case Ended.TIMEOUT | Ended.IDLE:
            message = f"{program} was stopped after {timeout_seconds} s without having answered"
            return Refused(ErrorClass.TIMEOUT, message, detail)
        case Ended.OUTPUT_CAP:
            return Refused(ErrorClass.MALFORMED, f"{program} printed more than is read", detail)
        case Ended.EXITED if result.exit_code == _TIMED_OUT:
            return Refused(ErrorClass.TIMEOUT, f"{program} ended with the code of a timeout", detail)
    return None


def succeeded(program: str, result: CommandResult, answered: Answered) -> Outcome:
    """`answered`, unless the program was killed or the answer is empty (runtimes §2.1)."""
    if result.exit_code not in _OWN_END:
        message = f"{program} was ended with code {result.exit_code}"
        return Refused(ErrorClass.OTHER, message, stderr_of(result), usage=answered.usage)
    if not answered.text.strip():
        return empty(program, result, answered)
    return answered


def empty(program: str, result: CommandResult, answered: Answered | None = None) -> Refused:
    message = f"{program} ended with code {result.exit_code} and gave no answer"
    usage = answered.usage if answered else NOTHING_REPORTED
    return Refused(ErrorClass.EMPTY, message, stderr_of(result), usage=usage)


def refused_without_record(program: str, result: CommandResult, known: StartupErrors) -> Refused:
    """A run that left no record of its own: what stderr says decides."""
    said = stderr_of(result)
    if result.exit_code == 0:
        return empty(program, result)
    message = excerpt(said) or f"{program} ended with code {result.exit_code} and said nothing"
    told = next((error_class for pattern, error_class in known if pattern.search(said)), None)
    return Refused(told or classify(said), message, said)


def stderr_of(result: CommandResult) -> str:
    """stderr without colours, cut to what the log takes."""
    return excerpt(_TERMINAL_CODES.sub("", result.error_text()), DETAIL_CHARACTERS)
