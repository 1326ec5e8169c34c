"""An answer as it comes from a form: by whom and when is said here, never by the form."""

from __future__ import annotations

from bridgehead.contract.pending import Answer
from bridgehead.contract.words import AnswerStatus
from bridgehead.dashboard.desk import Desk
from bridgehead.dashboard.page import Form
from bridgehead.errors import UserError
from bridgehead.host.clock import iso_ms


def answer_from(desk: Desk, form: Form) -> Answer:
    """The text, or a status with the reason why there is none."""
    status = form.get("status", AnswerStatus.SUCCESS.value)
    if status not in tuple(AnswerStatus):
        raise UserError(f"an answer cannot have the status {status!r}")
    return Answer(
        status=AnswerStatus(status),
        text=form.get("text"),
        message=form.get("message"),
        by=desk.user,
        at=iso_ms(desk.clock.now()),
    )
