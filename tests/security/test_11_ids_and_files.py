"""Hole 11: ids that look like options or folders, keys in the work tree, a damaged list of what is in quarantine."""

from __future__ import annotations

import json
import stat
import subprocess
from pathlib import Path

import msgspec
import pytest

from bridgehead.bus.access.enrolment import Enrolment, enrol
from bridgehead.bus.access.join_file import (
    BadJoinFile,
    JoinFile,
    Pin,
    read_join_file,
    write_join_file,
)
from bridgehead.bus.access.state_folder import StateFolder
from bridgehead.bus.gateway.pairing import pair
from bridgehead.bus.participants.sources import Sources
from bridgehead.bus.sockets.dial import (
    ClientConversation,
    ConnectionEnded,
    Target,
    dial,
)
from bridgehead.errors import ConfigError
from bridgehead.host.clock import SystemClock
from bus.support.bridging import make_record
from bus.support.running import run
from bus.support.serving import served_bus
from support.installed import machine
from support.rig_bridges import Clone, make_bridge

NO_IDS = (
    "--help",
    "-x",
    "..",
    ".",
    ".ssh",
    "../up",
    "a/b",
    "a\\b",
    "a\x00b",
    "a\nb",
    "a\x1b[2J",
    "a b",
    "",
    "a" * 65,
)
KEY = "A" * 43 + "="


# -- ids ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NO_IDS)
def test_no_folder_has_a_participant_of_such_a_name(tmp_path: Path, name: str) -> None:
    folder = StateFolder(tmp_path / "bus")
    request = Enrolment(name, {}, "ws://127.0.0.1:1/bridge/v1", Pin(), token=True)
    with pytest.raises(ConfigError):
        enrol(folder, request, SystemClock(), tmp_path / "given.json")
    with pytest.raises(ConfigError):
        folder.put_table(name, {})
    with pytest.raises(ConfigError):
        folder.join_file(name)
    assert not (tmp_path / "given.json").exists()


@pytest.mark.parametrize("name", ["--help", "..", ".ssh", "a/b"])
def test_a_file_that_names_such_a_participant_is_refused(
    tmp_path: Path, name: str
) -> None:
    folder = StateFolder(tmp_path / "bus")
    folder.prepare()
    folder.records_file.write_text(f"[{json.dumps(name)}]\n")
    with pytest.raises(ConfigError, match="participant ID"):
        folder.records()
    path = tmp_path / "x.join.json"
    join = JoinFile(1, "ws://127.0.0.1:1/bridge/v1", name, key=KEY)
    path.write_bytes(msgspec.json.encode(join))
    with pytest.raises(BadJoinFile, match="participant ID"):
        read_join_file(path)
    with pytest.raises(ConfigError):
        write_join_file(tmp_path / "y.join.json", join)


def test_the_commands_refuse_such_ids(tmp_path: Path) -> None:
    home = machine(tmp_path)
    before = set(tmp_path.rglob("*"))
    for name in ("--help", "-x", "..", "a/b"):
        for command in (
            ("bus", "participant", "add", "--", name),
            ("bus", "participant", "pair", f"--id={name}", "ws://127.0.0.1:1"),
            ("bus", "participant", "revoke", "--", name),
            ("bus", "policy", "set", "--", name, "tts", "false"),
            ("bus", "policy", "show", "--", name),
        ):
            done = home.run(*command)
            assert done.code not in (0, 70), (command, done.err)
            assert "Traceback" not in done.err
    made = {path.name for path in set(tmp_path.rglob("*")) - before}
    assert not {name for name in made if name.endswith("join.json")}


def test_no_device_is_paired_under_such_a_name_whatever_it_sends(
    tmp_path: Path,
) -> None:
    class Nobody:
        def ask(self, request: object) -> None:
            raise AssertionError("nobody is to be asked about it")

    async def main() -> None:
        async with served_bus(tmp_path, approvals=Nobody(), pairing=True) as server:  # type: ignore[arg-type]
            url = f"ws://{server.gateway_address}/pair"
            for name in NO_IDS:
                with pytest.raises(ConfigError):
                    await pair(url, name, lambda _code: None)
            for name in NO_IDS[:6]:
                device = ClientConversation()
                await dial(Target(url), device)
                asks = {"l2": "pair", "participant": name, "commit": KEY}
                await device.send(msgspec.json.encode(asks))
                with pytest.raises(ConnectionEnded, match="4001"):
                    await device.receive()

    run(main())


def test_a_claimed_name_is_no_option_and_no_path() -> None:
    sources = Sources("bridge", (), {}, lambda: "abc", lambda _name: None)
    for number, claim in enumerate(NO_IDS):
        record = make_record(f"p{number}")
        if claim not in ("a b", "a" * 65):
            assert sources.assign(record, claim) == record.id
    assert sources.assign(make_record("last"), "kitchen speaker") == "kitchen speaker"


# -- join files ---------------------------------------------------------------------------------------------------


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def git(at: Path, *arguments: str) -> str:
    command = ["git", "-c", "safe.directory=*", *arguments]
    done = subprocess.run(command, cwd=at, capture_output=True, text=True, check=True)
    return done.stdout


def test_a_key_is_not_written_into_the_work_tree(tmp_path: Path) -> None:
    home = machine(tmp_path)
    git(home.project, "init", "-q")
    done = home.run("bus", "participant", "add", "kitchen", "--json")
    assert done.code == 0, done.err
    kept = Path(done.json["join_file"])
    assert not kept.is_relative_to(home.project)
    assert mode(kept) == 0o600 and mode(kept.parent) == 0o700
    assert git(home.project, "status", "--porcelain", "--ignored") == ""
    assert read_join_file(kept).participant == "kitchen"

    chosen = home.project / "kitchen.join.json"
    for command in (
        ("bus", "participant", "add", "den", "--join", str(chosen)),
        ("bus", "participant", "add", "den", "--join", "sub/../den.json"),
        (
            "bus",
            "participant",
            "pair",
            "ws://127.0.0.1:1",
            "--id=den",
            "--join=den.json",
        ),
    ):
        refused = home.run(*command)
        assert refused.code == 1 and "git work tree" in refused.err, refused.err
        assert "holds a key" in refused.err
    assert git(home.project, "status", "--porcelain", "--ignored") == ""
    listed = home.run("bus", "participant", "list", "--json").json["participants"]
    assert [one["id"] for one in listed] == ["kitchen"], "den was not enrolled"


def test_a_state_folder_in_a_work_tree_keeps_its_keys_out_of_commits(
    tmp_path: Path,
) -> None:
    home = machine(tmp_path)
    git(home.project, "init", "-q")
    state = home.project / "state"
    done = home.run(
        "bus", "participant", "add", "kitchen", "--state", str(state), "--json"
    )
    assert done.code == 0, done.err
    kept = Path(done.json["join_file"])
    assert kept.parent == state / "join"
    git(home.project, "add", "-A")
    assert "join" not in git(home.project, "ls-files")


# -- quarantine ---------------------------------------------------------------------------------------------------


ENTRY = {"path": "a/b", "blob": "c", "kinds": ["parse_failed"], "commit": "d"}
DAMAGED = (
    b"",
    b"{",
    b"[]",
    b"\xff\xfe",
    b'{"entries":[]}',
    b'{"format":2,"entries":[]}',
    b'{"format":1,"entries":{"a":1}}',
    b'{"format":1,"entries":[{"path":"demo-01/REQUEST.md"}]}',
    json.dumps({"format": 1, "entries": [ENTRY | {"kinds": ["new"]}]}).encode(),
    json.dumps({"format": 1, "entries": [ENTRY | {"accepted": "no"}]}).encode(),
    json.dumps({"format": 1, "entries": [ENTRY | {"path": 7}]}).encode(),
)


@pytest.fixture
def forged(tmp_path: Path) -> Clone:
    """A clone with a forged question in quarantine."""
    bridge = make_bridge(tmp_path)
    sender = bridge.clone("a", "rig-a")
    receiver = bridge.clone("b", "rig-b")
    sender.rig("new", "demo-01").ok()
    sender.rig("send", "REQUEST", "--thread", "demo-01", "--to", "rig-b").ok()
    folder = sender.path / "demo-01"
    text = (folder / "REQUEST.md").read_text()
    (folder / "REQUEST-2.md").write_text(f"{text}\nchanged after it was hashed\n")
    sender.git("add", "-A")
    sender.git("commit", "-q", "-m", "REQUEST: forged")
    sender.git("push", "-q", "origin", "HEAD")
    receiver.rig("sync", "--auto").ok()
    assert "REQUEST-2.md" in receiver.rig("quarantine", "list").ok().out
    return receiver


def test_a_damaged_list_of_what_is_in_quarantine_is_an_error_and_trusts_nothing(
    forged: Clone,
) -> None:
    (kept,) = (forged.path / ".git").rglob("quarantine.json")
    reading = (("inbox",), ("thread", "demo-01"), ("quarantine", "list"), ("status",))
    tried = [(damage, reading[:1]) for damage in DAMAGED]
    tried.append((DAMAGED[1], reading))
    for damage, commands in tried:
        kept.write_bytes(damage)
        for command in commands:
            done = forged.rig(*command)
            assert done.code != 0, (command, damage)
            assert str(kept) in done.err and "is damaged" in done.err, done.err
            assert "rig verify" in done.err, "it says what to do"
            assert "REQUEST" not in done.out
        assert kept.read_bytes() == damage, "it is left as it is for whoever looks"

    kept.unlink()
    forged.rig("verify")
    assert "REQUEST-2.md" in forged.rig("quarantine", "list").ok().out
    shown = forged.rig("inbox", "--json").ok().json["envelopes"]
    assert [one["filename"] for one in shown] == ["REQUEST.md"]
