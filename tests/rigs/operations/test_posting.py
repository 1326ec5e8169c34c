"""An envelope beyond the size that readers accept is not sent (rigs §3.1)."""

from __future__ import annotations

from typing import cast

import pytest

from bridgehead.errors import UserError
from bridgehead.rigs.operations import posting
from bridgehead.rigs.operations.drafts import Draft
from bridgehead.rigs.rig import Rig


def test_an_envelope_that_nobody_could_read_is_refused_before_anything_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(posting, "MAX_ENVELOPE_BYTES", 19)
    what = posting.Post(
        "demo-01", Draft({"from": "mac"}, "x\n"), name=str, subject=str, push=False
    )
    with pytest.raises(UserError, match="would have 20 bytes"):
        posting.post(cast(Rig, None), what)
