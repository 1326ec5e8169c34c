"""A token is cancelled once, for everyone who watches it."""

from __future__ import annotations

from bridgehead.host.command import Cancel


def test_everyone_watching_is_woken_and_nobody_afterwards() -> None:
    cancel = Cancel()
    calls: list[str] = []
    with cancel.waking(lambda: calls.append("outer")):
        with cancel.waking(lambda: calls.append("inner")):
            cancel.cancel()
        cancel.cancel()
    cancel.cancel()
    assert cancel.cancelled
    assert calls == ["outer", "inner", "outer"]


def test_a_signal_handler_may_cancel_while_the_thread_is_being_woken() -> None:
    cancel = Cancel()
    calls: list[int] = []

    def cancel_again() -> None:
        calls.append(len(calls))
        if len(calls) == 1:
            cancel.cancel()

    with cancel.waking(cancel_again):
        cancel.cancel()
    assert calls == [0, 1]


def test_a_new_token_is_not_cancelled() -> None:
    assert not Cancel().cancelled
