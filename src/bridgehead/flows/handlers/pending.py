"""Answers by waiting for a person: `bridgehead answer`, `flow respond`, or anything that writes the response file."""

from __future__ import annotations

import os

from bridgehead.flows.checkpoint_files import CheckpointFiles
from bridgehead.flows.handlers.base import Handler, Reply
from bridgehead.flows.request import AgentRequest
from bridgehead.flows.words import ErrorType, RequestStatus

FIRST_POLL_SECONDS = 0.05
LONGEST_POLL_SECONDS = 1.0


class PendingHandler(Handler):
    """Waits until the response file is there, or the request's time is over."""

    def answer(self, request: AgentRequest, files: CheckpointFiles) -> Reply | None:
        until = files.clock.monotonic() + request.timeout_seconds
        poll = FIRST_POLL_SECONDS
        while not os.path.lexists(files.response_path):
            left = until - files.clock.monotonic()
            if left <= 0:
                return Reply(
                    RequestStatus.TIMEOUT,
                    error_type=ErrorType.TIMEOUT.value,
                    message=f"nobody answered within {request.timeout_seconds} s",
                    duration_seconds=float(request.timeout_seconds),
                )
            files.clock.sleep(min(poll, left))
            poll = min(2 * poll, LONGEST_POLL_SECONDS)
        return None
