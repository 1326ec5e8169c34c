"""Which of two faults is named: arguments first, then the clone, then its threads (rigs §8)."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.rig_bridges import Bridge, Clone


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["send"], "send: <type> is required"),
        (
            ["send", "ACK", "--thread", "demo-01", "--to", "Bad_Rig"],
            "is not a canonical kebab-case slug",
        ),
        (["new", "Bad_Id"], "is not a valid kebab-case slug"),
        (
            ["close", "demo-01", "--status", "done"],
            '--status must be "cancelled" or "completed"',
        ),
        (["thread"], "thread: <thread-id> is required"),
        (["relay", "PING", "--thread", "demo-01"], 'unknown type "PING"'),
        (["status"], "not inside a git repo"),
    ],
)
def test_outside_a_repository_wrong_arguments_are_named_first(
    tmp_path: Path, arguments: list[str], complaint: str
) -> None:
    done = Clone(tmp_path, tmp_path).rig(
        *arguments, GIT_CEILING_DIRECTORIES=str(tmp_path.parent)
    )
    assert (done.code, done.out) == (1, "")
    assert complaint in done.err


def test_a_tracked_identity_is_warned_about_once(bridge: Bridge) -> None:
    clone = bridge.clone("a", "mac-m5max")
    assert "tracked" not in clone.rig("status").ok().err
    clone.git("add", "--force", ".bridge/config.yaml")
    for arguments in (["status"], ["inbox"], ["sync", "--json"]):
        assert clone.rig(*arguments).ok().err.count("config.yaml is tracked") == 1


def test_a_directory_no_thread_can_be_called_after_fails_the_schema_and_only_after_the_other_checks(
    bridge: Bridge,
) -> None:
    clone = bridge.clone("a", "mac-m5max")
    (clone.path / "Up-1").mkdir()
    for arguments, complaint in (
        (
            ["send", "ACK", "--thread", "Up-1", "--to", "ops"],
            "failed schema validation",
        ),
        (
            ["send", "ACK", "--thread", "Up-1", "--to", "ops", "--status", "x"],
            "unrecognized status marker",
        ),
        (["close", "Up-1", "--status", "completed"], "failed schema validation"),
        (
            ["send", "ACK", "--thread", "Up-2", "--to", "ops"],
            "thread directory not found",
        ),
        (
            ["send", "ACK", "--thread", "../home", "--to", "ops"],
            "thread directory not found",
        ),
    ):
        done = clone.rig(*arguments)
        assert (done.code, done.out) == (1, "")
        assert complaint in done.err
    assert not list((clone.path / "Up-1").iterdir())


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ([], "(no command)"),
        (["-v"], "-v"),
        (["frobnicate"], "frobnicate"),
        (["status"], "status"),
    ],
)
def test_the_debug_line_comes_first_and_names_the_first_token(
    tmp_path: Path, arguments: list[str], command: str
) -> None:
    done = Clone(tmp_path, tmp_path).rig(*arguments, DEBUG_RIG_BRIDGE="1")
    assert f" {command} (Python" in done.err.splitlines()[0]
