"""What `relay` makes of its arguments where `send` has the same ones (rigs §8, §10)."""

from __future__ import annotations

from support.rig_bridges import Bridge, needs_ssh_keygen, with_signing_key


@needs_ssh_keygen
def test_recipients_that_come_to_nobody_are_refused_and_a_long_tldr_is_warned_of(
    bridge: Bridge,
) -> None:
    clone = bridge.clone("c", "mike-relay")
    with_signing_key(clone, bridge.base)
    (clone.path / "demo-01").mkdir()
    turn = (
        "relay",
        "ACK",
        "--thread",
        "demo-01",
        "--in-reply-to",
        "0" * 64,
        "--allow-unknown-parent",
        "--no-push",
    )

    refused = clone.rig(*turn, "--to", " , ")
    assert (refused.code, refused.out) == (1, "")
    assert "`--to <rig-id>` is required (one or more)" in refused.err

    assert (
        "warning: tldr is 281 chars (>280 soft cap)"
        in clone.rig(*turn, "--tldr", "t" * 281).ok().err
    )


def test_a_freeze_that_names_no_turn_is_refused(bridge: Bridge) -> None:
    clone = bridge.clone("c", "mike-relay")
    (clone.path / "demo-01").mkdir()
    refused = clone.rig(
        "relay", "--begin", "--thread", "demo-01", "--in-reply-to", "ABC"
    )
    assert (refused.code, refused.out) == (1, "")
    assert "is not a valid body_hash" in refused.err
