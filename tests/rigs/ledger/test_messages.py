"""Which messages another one acknowledges."""

from __future__ import annotations

from bridgehead.rigs.ledger.messages import Message, acknowledged_by


def message(filename: str, commit_sha: str, *references: str) -> Message:
    return Message(
        thread="demo-01",
        filename=filename,
        message_type="REQUEST",
        from_rig="mac",
        to=("win",),
        status_class="active",
        status_text="sent",
        tldr=None,
        envelope_date="2026-05-15",
        commit_sha=commit_sha,
        references=references,
        in_reply_to="",
        body_hash=f"hash of {filename}",
    )


def test_a_reference_too_short_for_a_commit_acknowledges_nothing() -> None:
    asked = message("REQUEST.md", "abcdef0" + "1" * 33)
    vague = message("ACK.md", "2" * 40, "a", "abcdef", "")
    exact = message("ACK.md", "2" * 40, "abcdef0")

    assert acknowledged_by(vague, [asked]) == []
    assert acknowledged_by(exact, [asked]) == [asked]
