"""What lies where a rig command wants to read or write: exit 2 is left to the system's refusals (rigs §13)."""

from __future__ import annotations

import subprocess

import pytest

from support.rig_bridges import OURS, Bridge, Clone


@pytest.fixture
def mac(bridge: Bridge) -> Clone:
    clone = bridge.clone("a", "mac-m5max")
    (clone.path / "demo-01").mkdir()
    return clone


def test_something_in_the_way_is_the_callers_to_move(mac: Clone) -> None:
    (mac.path / "demo-02").write_text("no directory\n")
    (mac.path / "demo-01" / "REQUEST.md").mkdir()
    (mac.path / "demo-01" / "RESOLUTION.md").mkdir()
    for arguments, complaint in (
        (["new", "demo-02"], "it is not a directory"),
        (["new", "demo-01"], "already exists — pass --force to overwrite"),
        (["new", "demo-01", "--force"], "it is not a regular file"),
        (
            ["close", "demo-01", "--status", "completed"],
            "a thread may only be closed once",
        ),
    ):
        done = mac.rig(*arguments)
        assert (done.code, done.out) == (1, "")
        assert complaint in done.err


def test_a_configuration_that_is_no_file_is_a_user_error(mac: Clone) -> None:
    (mac.path / ".bridge" / "config.yaml").unlink()
    (mac.path / ".bridge" / "config.yaml").mkdir()
    done = mac.rig("send", "ACK", "--thread", "demo-01", "--to", "ops", "--no-push")
    assert (done.code, done.out) == (1, "")
    assert "config.yaml" in done.err


def test_the_body_may_come_from_a_pipe_that_has_a_name(mac: Clone) -> None:
    script = f"{OURS} send ACK --thread demo-01 --to ops --no-push --body-file <(printf 'from a pipe\\n')"
    subprocess.run(
        ["bash", "-c", script],
        cwd=mac.path,
        env=mac.environ(),
        check=True,
        capture_output=True,
        timeout=60,
    )
    assert (mac.path / "demo-01" / "ACK.md").read_text().endswith("---\nfrom a pipe\n")
    refused = mac.rig(
        "send",
        "ACK",
        "--thread",
        "demo-01",
        "--to",
        "ops",
        "--no-push",
        "--body-file",
        ".",
    )
    assert (refused.code, refused.out) == (1, "")
