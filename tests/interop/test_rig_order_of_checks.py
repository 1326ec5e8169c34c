"""Which of two faults is named: arguments first, then the clone, then its threads (rigs §8)."""

from __future__ import annotations

from pathlib import Path

import pytest

from rig_bridges import Bridge, Clone


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["send"], "send: <type> is required"),
        (["send", "ACK", "--thread", "demo-01", "--to", "Bad_Rig"], "is not a canonical kebab-case slug"),
        (["new", "Bad_Id"], "is not a valid kebab-case slug"),
        (["close", "demo-01", "--status", "done"], '--status must be "cancelled" or "completed"'),
        (["thread"], "thread: <thread-id> is required"),
        (["relay", "PING", "--thread", "demo-01"], 'unknown type "PING"'),
        (["status"], "not inside a git repo"),
    ],
)
def test_outside_a_repository_wrong_arguments_are_named_first(
    tmp_path: Path, arguments: list[str], complaint: str
) -> None:
    done = Clone(tmp_path, tmp_path).rig(*arguments, GIT_CEILING_DIRECTORIES=str(tmp_path.parent))
    assert (done.code, done.out) == (1, "")
    assert complaint in done.err


def test_a_tracked_identity_is_warned_about_once(bridge: Bridge) -> None:
    clone = bridge.clone("a", "mac-m5max")
    assert "tracked" not in clone.rig("status").ok().err
    clone.git("add", "--force", ".bridge/config.yaml")
    for arguments in (["status"], ["inbox"], ["sync", "--json"]):
        assert clone.rig(*arguments).ok().err.count("config.yaml is tracked") == 1
