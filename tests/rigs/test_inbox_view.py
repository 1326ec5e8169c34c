from __future__ import annotations

from bridgehead.rigs.threads.thread import turn_of
from bridgehead.rigs.trust.verification_kinds import Verification, VerificationState
from bridgehead.rigs.views.listings import Inbox, Notice

NOTICE = Notice(
    turn_of(
        "demo-01",
        "REQUEST.md",
        {
            "from": "mac",
            "to": ["win"],
            "type": "REQUEST",
            "date": "2026-05-15T10:00:00Z",
            "status": "⏸ w",
            "tldr": "fans?",
        },
        commit_sha="1" * 40,
        position=3,
    ),
    Verification(VerificationState.VERIFIED),
)


def test_rows_below_the_count() -> None:
    assert list(Inbox([NOTICE]).lines()) == [
        "rig-bridge: inbox waiting=1",
        "thread=demo-01 type=REQUEST from=mac last=2026-05-15 file=REQUEST.md verification=verified",
    ]
    assert list(Inbox([]).lines()) == ["rig-bridge: inbox waiting=0"]


def test_items_are_watch_events_with_a_summary() -> None:
    assert Inbox([NOTICE]).json_object() == {
        "schema_version": "1.0",
        "op": "inbox",
        "envelopes": [
            {
                "thread_id": "demo-01",
                "filename": "REQUEST.md",
                "type": "REQUEST",
                "from": "mac",
                "to": ["win"],
                "status_class": "pending",
                "commit_sha": "1" * 40,
                "verification": {"state": "verified", "kinds": []},
                "tldr": "fans?",
            }
        ],
    }
