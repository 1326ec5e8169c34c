"""Which reason is given when a fetched history may not be taken in (rigs §9.2)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bridgehead.rigs.trust.incoming_changes import (
    Change,
    Refusal,
    SyncReport,
    report_changes,
)

APPEND = Change("A", "demo-01/ACK.md")
OUTSIDE = Change("A", "README.md")


def report(
    changes: Sequence[Change] = (), *, local_ahead: int = 0, remote_ahead: int = 1
) -> SyncReport:
    return report_changes(
        changes,
        local_head="1" * 40,
        remote_head="2" * 40,
        local_ahead=local_ahead,
        remote_ahead=remote_ahead,
    )


def test_a_pure_append_may_be_pulled() -> None:
    appended = report([APPEND])
    assert appended.fast_forward_eligible
    assert appended.refusal() is None
    assert appended.json_object() == {
        "fast_forward_eligible": True,
        "new_envelopes": [
            {"path": "demo-01/ACK.md", "thread_id": "demo-01", "sha": "2" * 40}
        ],
        "changed_envelopes": [],
        "diverged": False,
        "remote_head": "2" * 40,
        "local_head": "1" * 40,
    }


@pytest.mark.parametrize("local_ahead", [0, 3])
def test_with_nothing_to_pull_nothing_is_refused(local_ahead: int) -> None:
    nothing = report([APPEND], local_ahead=local_ahead, remote_ahead=0)
    assert nothing.fast_forward_eligible
    assert not nothing.diverged
    assert nothing.new_envelopes == ()
    assert nothing.refusal() is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (OUTSIDE, "new file outside a known thread directory"),
        (Change("A", "demo-01/notes.txt"), "new file outside a known thread directory"),
        (Change("A", "Bad/ACK.md"), "new file outside a known thread directory"),
        (
            Change("M", "demo-01/ACK.md"),
            "modified in place (append-only rule violated)",
        ),
        (
            Change("R100", "demo-01/B.md", "demo-01/A.md"),
            "rename detected (envelopes must not move)",
        ),
        (Change("C75", "demo-01/B.md", "demo-01/A.md"), "copy detected"),
        (Change("T", "demo-01/A.md"), "type change detected"),
        (Change("D", "demo-01/A.md"), "file deleted on remote"),
        (Change("X", "demo-01/A.md"), "unknown change (X)"),
    ],
)
def test_everything_else_is_a_change_with_a_reason(change: Change, reason: str) -> None:
    changed = report([APPEND, change])
    assert [(item.path, item.reason) for item in changed.changed] == [
        (change.path, reason)
    ]
    assert changed.diverged
    assert not changed.fast_forward_eligible
    assert changed.refusal() is Refusal.NON_APPEND


def test_a_non_append_change_outranks_divergence() -> None:
    assert report([OUTSIDE], local_ahead=1).refusal() is Refusal.NON_APPEND
    assert report([APPEND], local_ahead=1).refusal() is Refusal.BOTH_AHEAD


def test_both_sides_may_be_ahead_where_ours_is_made_again_on_top() -> None:
    assert report([APPEND], local_ahead=1).refusal(rebuilds=True) is None
    assert report([OUTSIDE], local_ahead=1).refusal(accept_non_envelope=True) is None
    assert report([OUTSIDE], local_ahead=1).refusal(rebuilds=True) is Refusal.NON_APPEND


def test_a_change_hidden_between_the_ends_refuses_like_one_that_shows() -> None:
    hidden = report([APPEND]).with_hidden(
        ["demo-01/ACK.md"], "modified in place (append-only rule violated)"
    )
    assert hidden.refusal(accept_non_envelope=True) is Refusal.NON_APPEND


def test_commits_without_envelopes_need_to_be_accepted() -> None:
    assert report().refusal() is Refusal.NOT_ELIGIBLE
    assert report().refusal(accept_non_envelope=True) is None
    assert report([OUTSIDE]).refusal(accept_non_envelope=True) is None
    assert report([APPEND, OUTSIDE]).refusal(accept_non_envelope=True) is None


@pytest.mark.parametrize(
    "change",
    [
        Change("M", "demo-01/A.md"),
        Change("R100", "OLD.md", "demo-01/A.md"),
        Change("A", "demo-01/x.txt"),
    ],
)
def test_accepting_them_does_not_accept_changes_inside_a_thread(change: Change) -> None:
    assert report([change]).refusal(accept_non_envelope=True) is Refusal.NON_APPEND
