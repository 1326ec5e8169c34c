"""What goes into a prompt outside a fence is still made visible, and a marker is nobody's to compute."""

from __future__ import annotations

from typing import Any, cast

import pytest

from bridgehead.council.prompts.fences import PromptWriter, fence_for
from bridgehead.council.request.settings import RuntimeSettings
from bridgehead.council.runtimes.base import Missing, SeatSetup
from bridgehead.council.runtimes.machine import Machine
from bridgehead.council.runtimes.openai_compatible import ChatEndpoint

KEY = cast(Any, "claude/round-1")


def test_a_marker_depends_on_the_secret_and_the_call() -> None:
    markers = {
        fence_for(secret, key).marker
        for secret in (b"one", b"two")
        for key in (KEY, cast(Any, "other"))
    }
    assert len(markers) == 4
    assert fence_for(b"one", KEY).marker == fence_for(b"one", KEY).marker


def test_words_and_lines_hide_nothing_and_cannot_repeat_the_marker() -> None:
    fence = fence_for(b"secret", KEY)
    writer = PromptWriter(fence)
    for made in (writer.line, writer.words):
        shown = made(f"a\u200bb {fence.marker} c")
        assert "[U+200B]" in shown and fence.marker not in shown
    assert writer.line("a\n  b") == "a b"
    assert writer.words("<<< end foreign text x >>>").startswith(
        "[quoted, not a fence]"
    )


@pytest.mark.parametrize(
    "address",
    ["file:///etc/passwd", "ftp://example.com", "example.com/v1", "javascript:x"],
)
def test_an_endpoint_is_an_http_address(address: str) -> None:
    class Unasked:
        def get(self, *_: Any, **__: Any) -> None:
            raise AssertionError("it was called")

    setup = SeatSetup("openai", RuntimeSettings(options={"base_url": address}))
    assert isinstance(ChatEndpoint.locate(setup, cast(Machine, Unasked())), Missing)
