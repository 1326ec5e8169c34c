"""What counts as an answer to a pending item."""

from __future__ import annotations

import pytest

from bridgehead.contract.pending import Answer, Question, refusal
from bridgehead.contract.record_words import AnswerStatus, Part, PendingKind

FREE = Question(
    key="k", kind=PendingKind.FLOW_REQUEST, part=Part.FLOWS, origin="flow", title="t"
)
CHOICE = Question(
    key="k",
    kind=PendingKind.HALTED_RUNTIME,
    part=Part.COUNCIL,
    origin="runtime codex",
    title="t",
    choices=("retry", "skip"),
)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (FREE, Answer(text="anything")),
        (CHOICE, Answer(text="retry")),
        (CHOICE, Answer(text=" skip\n")),
        (FREE, Answer(status=AnswerStatus.ERROR, message="no idea")),
        (CHOICE, Answer(status=AnswerStatus.CANCELLED, message="not now")),
    ],
)
def test_a_fitting_answer_is_not_refused(question: Question, answer: Answer) -> None:
    assert refusal(question, answer) is None


@pytest.mark.parametrize(
    ("question", "answer", "reason"),
    [
        (FREE, Answer(), "empty"),
        (FREE, Answer(text=" \n"), "empty"),
        (CHOICE, Answer(text="maybe"), "retry, skip"),
        (FREE, Answer(status=AnswerStatus.ERROR), "message"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused_with_the_reason(
    question: Question, answer: Answer, reason: str
) -> None:
    assert reason in (refusal(question, answer) or "")
