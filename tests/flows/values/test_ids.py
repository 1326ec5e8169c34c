"""Ids of flows: readable, and never given twice."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bridgehead.flows.values import ids
from bridgehead.flows.values.ids import free_flow_id

AT = datetime(2026, 11, 18, 10, 30, tzinfo=UTC)


def test_an_id_that_another_run_has_is_drawn_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn = iter([b"\x4f\x2a", b"\x4f\x2a", b"\x00\x01"])
    monkeypatch.setattr(ids.os, "urandom", lambda _count: next(drawn))
    taken = {"flow-20261118-103000-4f2a"}

    assert free_flow_id(AT, taken.__contains__) == "flow-20261118-103000-0001"
