from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bridgehead.contract.words import CapabilityProfile, ErrorClass
from bridgehead.council.calls import Answer, Call, CallKey, CallUsage, Role, Step
from bridgehead.council.runtimes.exchange import Answered, Outcome, Refused
from bridgehead.council.runtimes.replay import BadRecording, ReplayConnection, load_recordings, record


def call(prompt: str = "look", domain: str = "security", round_number: int = 1) -> Call:
    key = CallKey(bridge="claude", round=round_number, step=Step.ANALYSIS, role=Role.EXPERT, domain=domain)
    return Call(key, prompt, 60, Answer.ITEMS, CapabilityProfile.INSPECT)


OUTCOMES: list[Outcome] = [
    Answered("hello", session="s1", model="m", usage=CallUsage(tokens_in=1, tokens_out=2, cost_usd=0.5)),
    Refused(ErrorClass.RATE_LIMIT, "slow down", usage=CallUsage(tokens_in=3)),
]


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_recorded_outcome_is_played_back_from_its_file(tmp_path: Path, outcome: Outcome) -> None:
    file = tmp_path / "recordings.jsonl"
    file.write_bytes(msgspec.json.encode(record(call(), outcome)) + b"\n")

    assert ReplayConnection(load_recordings(file)).answer(call()) == outcome


@pytest.mark.parametrize("other", [call("look again"), call(domain="testing"), call(round_number=2)])
def test_a_call_that_was_never_recorded_fails(other: Call) -> None:
    outcome = ReplayConnection([record(call(), Answered("hello"))]).answer(other)

    assert isinstance(outcome, Refused)
    assert "no reply was recorded" in outcome.message


def test_a_broken_file_is_refused_with_the_line(tmp_path: Path) -> None:
    file = tmp_path / "recordings.jsonl"
    file.write_bytes(msgspec.json.encode(record(call(), Answered("hello"))) + b'\n{"key": 7}\n')

    with pytest.raises(BadRecording, match="line 2"):
        load_recordings(file)
