"""What a failed call says in a report (council §3)."""

from __future__ import annotations

from typing import Final

from bridgehead.contract.timeouts import timeout_skip_reason
from bridgehead.contract.words import ErrorClass
from bridgehead.council.reporting.seat_report import excerpt

DETAIL_CHARACTERS: Final = 64 * 1024
CLI_NOT_FOUND: Final = "cli_not_found"


def skip_reason(error_class: ErrorClass, message: str, timeout_seconds: int) -> str:
    """Return the skip reason of a call that failed like this."""
    if error_class is ErrorClass.TIMEOUT:
        return timeout_skip_reason(timeout_seconds)
    if error_class is ErrorClass.AUTH:
        return f"auth_probe_failed: {excerpt(message)}"
    return f"cli_error: {excerpt(message)}"
