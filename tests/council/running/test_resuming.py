"""Cases of the shape of the resume vectors with other names, seats and rigs that answer."""

from __future__ import annotations

from typing import Any

import pytest

from council.support.resuming import Resumed

NAMES = ("reused", "called_again", "folded", "still_waiting", "given_up")


def call(key: str, state: str, *, answered: bool = False) -> dict[str, Any]:
    return {"key": key, "state": state, "answered": answered}


@pytest.mark.parametrize(
    ("calls", "close", "expected"),
    [
        pytest.param(
            [
                call("codex/2/challenge/challenger", "finished"),
                call("gemini/2/challenge/challenger", "started"),
            ],
            False,
            {
                "reused": ["codex/2/challenge/challenger"],
                "called_again": ["gemini/2/challenge/challenger"],
            },
            id="a-later-round",
        ),
        pytest.param(
            [
                call("claude/2/challenge/challenger", "finished"),
                call("claude/2/response/api", "started"),
            ],
            False,
            {
                "reused": ["claude/2/challenge/challenger"],
                "called_again": ["claude/2/response/api"],
            },
            id="an-answer-to-a-challenge",
        ),
        pytest.param(
            [
                call("opencode/1/analysis/api", "finished"),
                call("opencode/2/challenge/challenger", "waiting", answered=True),
                call("codex/2/challenge/challenger", "failed"),
            ],
            False,
            {
                "reused": ["opencode/1/analysis/api", "codex/2/challenge/challenger"],
                "folded": ["opencode/2/challenge/challenger"],
            },
            id="the-host-in-a-later-round",
        ),
        pytest.param(
            [
                call("gemini/1/analysis/performance", "waiting", answered=True),
                call("opencode/1/analysis/performance", "started"),
                call("gemini/1/analysis/challenger", "waiting"),
            ],
            False,
            {
                "called_again": ["opencode/1/analysis/performance"],
                "folded": ["gemini/1/analysis/performance"],
                "still_waiting": ["gemini/1/analysis/challenger"],
            },
            id="another-host",
        ),
        pytest.param(
            [
                call("codex/1/analysis/api", "finished"),
                call("rig:far-away/1/report", "waiting", answered=True),
                call("rig:silent/1/report", "waiting"),
            ],
            False,
            {
                "reused": ["codex/1/analysis/api"],
                "folded": ["rig:far-away/1/report"],
                "still_waiting": ["rig:silent/1/report"],
            },
            id="one-rig-of-two-answers",
        ),
        pytest.param(
            [
                call("rig:far-away/1/report", "waiting", answered=True),
                call("rig:silent/1/report", "waiting"),
                call("claude/1/analysis/security", "failed"),
            ],
            True,
            {
                "reused": ["claude/1/analysis/security"],
                "folded": ["rig:far-away/1/report"],
                "given_up": ["rig:silent/1/report"],
            },
            id="an-answer-is-folded-before-the-rest-is-given-up",
        ),
    ],
)
def test_any_seat_may_be_the_host_and_any_rig_may_answer(
    calls: list[dict[str, Any]], close: bool, expected: dict[str, list[str]]
) -> None:
    council = Resumed(calls, close=close)

    assert {name: getattr(council, name) for name in NAMES} == {
        **{name: [] for name in NAMES},
        **expected,
    }
