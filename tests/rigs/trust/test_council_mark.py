"""The mark of a reviewed hand-off: what is written is read back, and nothing else passes for one."""

from __future__ import annotations

import pytest

from bridgehead.contract.words import Verdict
from bridgehead.errors import UserError
from bridgehead.rigs.envelope.body_hash import normalise_body
from bridgehead.rigs.trust.council_mark import (
    CouncilMark,
    MarkUnreadable,
    council_findings,
    read_mark,
    with_mark,
)
from bridgehead.rigs.trust.verification_kinds import Kind

MARK = CouncilMark("7d1c-02", Verdict.CONCERNS, "ab" * 32)


def block(said: str) -> str:
    return f"Built.\n\n```json bridgehead-council\n{said}\n```\n"


def test_a_mark_survives_the_body_it_is_put_into():
    body = with_mark("Built.\r\nSee `json bridgehead-council` below.\n\n\n", MARK)

    assert read_mark(normalise_body(body)) == MARK
    assert body.startswith("Built.")


def test_a_body_without_a_block_has_no_mark():
    assert read_mark("Built.\n\n```json\n{}\n```\n") is None


def test_a_second_mark_is_refused():
    with pytest.raises(UserError, match="already contains a council block"):
        with_mark(with_mark("Built.", MARK), MARK)


@pytest.mark.parametrize(
    "body",
    [
        block("{}"),
        block("not json"),
        block('["council"]'),
        block("[" * 3000),
        block(" " * 5000),
        block('{"council": "x", "verdict": "PASS", "report_sha256": "short"}'),
        block(
            f'{{"council": "x", "verdict": "GREAT", "report_sha256": "{"ab" * 32}"}}'
        ),
        block(
            f'{{"council": "../x", "verdict": "PASS", "report_sha256": "{"ab" * 32}"}}'
        ),
        block(
            f'{{"council": "x y", "verdict": "PASS", "report_sha256": "{"ab" * 32}"}}'
        ),
        block(
            f'{{"council": "x", "verdict": "PASS", "report_sha256": "{"ab" * 32}0"}}'
        ),
        block(f'{{"council": 7, "verdict": "PASS", "report_sha256": "{"ab" * 32}"}}'),
        block(
            f'{{"council": "x", "verdict": "PASS", "report_sha256": "{"ab" * 32}", "more": "1"}}'
        ),
        MARK.block() + MARK.block(),
        MARK.block().removesuffix("```\n"),
    ],
)
def test_what_is_no_single_whole_block_is_unreadable(body):
    assert isinstance(read_mark(body), MarkUnreadable)
    assert list(council_findings("RESULT", body, lambda council: None)) == [
        Kind.COUNCIL_UNREADABLE
    ]


@pytest.mark.parametrize(
    ("message_type", "body", "loaded", "findings"),
    [
        ("RESULT", "Built.\n", None, [Kind.COUNCIL_ABSENT]),
        ("ACK", "Built.\n", None, []),
        ("RESULT", MARK.block(), None, [Kind.COUNCIL_UNCONFIRMED]),
        ("RESULT", MARK.block(), MARK, []),
        (
            "RESULT",
            MARK.block(),
            MARK._replace(report_sha256="cd" * 32),
            [Kind.COUNCIL_MISMATCH],
        ),
        (
            "RESULT",
            MARK.block(),
            MARK._replace(verdict=Verdict.FAIL),
            [Kind.COUNCIL_MISMATCH],
        ),
    ],
)
def test_a_result_must_carry_a_mark_that_the_record_confirms(
    message_type, body, loaded, findings
):
    assert (
        list(council_findings(message_type, body, {"7d1c-02": loaded}.get)) == findings
    )
