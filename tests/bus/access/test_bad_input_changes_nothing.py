"""Records, join files and settings that cannot be: refused with a sentence, and everything stays as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridgehead.bus.access.enrolled import EnrolledParticipants
from bridgehead.bus.access.enrolment import (
    Enrolment,
    enrol,
    parse_duration,
    revoke,
    set_key,
)
from bridgehead.bus.access.join_file import BadJoinFile, JoinFile, read_join_file
from bridgehead.bus.access.state_folder import StateFolder
from bridgehead.bus.bridge.settings import BridgeSettings
from bridgehead.bus.participants.record import parse_record
from bridgehead.bus.serve import foreign_hub
from bridgehead.bus.settings import Address, BusSettings, ServingSettings
from bridgehead.bus.sockets.dial import BadUrl
from bridgehead.config.declared import SETTINGS
from bridgehead.errors import BridgeheadError, ConfigError, UserError
from bridgehead.host.clock import ManualClock
from bus.support.running import run
from bus.support.serving import served_bus

URL = "wss://hub.example:8182/bridge/v1"


def add(
    folder: StateFolder, name: str, path: Path, url: str = URL, **table: Any
) -> JoinFile:
    return enrol(folder, Enrolment(name, table, url), ManualClock(), path)


def test_who_cannot_be_given_a_join_file_is_neither_enrolled_nor_locked_out(
    tmp_path: Path,
) -> None:
    folder = StateFolder(tmp_path / "bus")
    add(folder, "den", tmp_path / "den.json")
    before = folder.records_file.read_bytes(), folder.credentials_file.read_bytes()
    (tmp_path / "taken.json").write_text("somebody's")
    for name, path, error in (
        ("hall", tmp_path / "den.json", UserError),
        ("hall", tmp_path / "nowhere" / "x.json", BridgeheadError),
        ("den", tmp_path / "taken.json", UserError),
    ):
        with pytest.raises(error):
            add(folder, name, path)
    assert (
        folder.records_file.read_bytes(),
        folder.credentials_file.read_bytes(),
    ) == before


@pytest.mark.parametrize(
    "url",
    [
        "foo",
        "http://hub/",
        "wss://",
        "wss://[::1",
        "wss://h:99999/",
        "wss://a b/",
        "ws://10.0.0.5:8182/",
    ],
)
def test_a_join_file_names_a_bridge_that_can_be_reached_safely(
    tmp_path: Path, url: str
) -> None:
    folder, path = StateFolder(tmp_path / "bus"), tmp_path / "den.json"
    with pytest.raises(UserError, match=r"is not a WebSocket URL|is not encrypted"):
        add(folder, "den", path, url)
    assert folder.records() == {} and not path.exists()
    with pytest.raises(UserError, match=r"is not a WebSocket URL|is not encrypted"):
        BusSettings.parse({"public_url": url})
    path.write_text(f'{{"v":1,"url":"{url}","participant":"den","token":"t"}}')
    with pytest.raises(BadJoinFile, match="url"):
        read_join_file(path)


@pytest.mark.parametrize(
    "secret", ['"key":"k"', '"key":"ü"', '"token":"t","cert_sha256":"ü"']
)
def test_a_secret_or_fingerprint_that_is_none_is_told_before_anything_is_dialled(
    tmp_path: Path, secret: str
) -> None:
    path = tmp_path / "den.json"
    path.write_text(f'{{"v":1,"url":"{URL}","participant":"den",{secret}}}')
    with pytest.raises(BadJoinFile, match=r"device key|fingerprint"):
        read_join_file(path)


@pytest.mark.parametrize(
    "text", ["²d", "９d", "0d", "-1d", "", "d", "1", "999999999999w", "9" * 5000 + "d"]
)
def test_a_length_of_time_is_a_plain_number_within_a_century(text: str) -> None:
    with pytest.raises(UserError, match="not a duration"):
        parse_duration(text)


def test_a_key_inside_something_that_has_no_keys_is_unknown(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "bus")
    add(folder, "den", tmp_path / "den.json", tts=True)
    with pytest.raises(UserError, match="has no key"):
        set_key(folder, "den", "tts.x", "1")


def test_a_command_cannot_give_two_participants_one_session(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "bus")
    for name in ("a", "b"):
        add(folder, name, tmp_path / f"{name}.json", mode="manage")
    set_key(folder, "a", "managed_session_id", "m")
    with pytest.raises(ConfigError, match="have the same session"):
        set_key(folder, "b", "managed_session_id", "m")
    assert folder.records()["b"].managed_session_id is None


@pytest.mark.parametrize(
    "table",
    [
        {"limits": {"messages_per_second": float("nan")}},
        {"limits": {"burst": 0}},
        {"limits": {"max_depth": -1}},
        {"publish": ["a b"]},
        {"deliver": ["a..*"]},
    ],
    ids=str,
)
def test_limits_and_patterns_that_mean_nothing_are_refused(
    table: dict[str, Any],
) -> None:
    with pytest.raises(ConfigError, match="'den'"):
        parse_record("den", table)


@pytest.mark.parametrize("key", ["grace_s", "hook_wait_s", "assistant_timeout_s"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1])
def test_a_time_to_wait_is_a_finite_number(key: str, value: float) -> None:
    with pytest.raises(ConfigError, match=key):
        BusSettings.parse({key: value})


def test_a_port_is_written_in_plain_digits() -> None:
    with pytest.raises(ConfigError):
        Address.parse("127.0.0.1:²")


@pytest.mark.parametrize(
    "url", ["foo", "http://x/", "ws://[x", "ws://h:99999/", "ws:///core", "nats://"]
)
def test_a_hub_is_not_dialled_where_none_can_be(url: str) -> None:
    with pytest.raises(BadUrl):
        foreign_hub(ServingSettings(hub=url))


def test_somebody_is_revoked_although_the_records_are_being_edited(
    tmp_path: Path,
) -> None:
    folder = StateFolder(tmp_path / "bus")
    add(folder, "den", tmp_path / "den.json")
    directory = EnrolledParticipants(folder)
    folder.records_file.write_text("[den")
    revoke(folder, "den")
    assert directory.reload(0.0).revoked == ("den",)
    assert directory.problem is not None and "den" in directory.records


def test_a_revocation_that_was_cut_off_is_ended_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = StateFolder(tmp_path / "bus")
    add(folder, "den", tmp_path / "den.json")
    folder.put_table("den", {"grants": {"notices": True}})
    with monkeypatch.context() as patched, pytest.raises(OSError):
        patched.setattr(
            folder, "put_table", lambda *_: (_ for _ in ()).throw(OSError("full"))
        )
        revoke(folder, "den")
    assert folder.credentials()["den"].revoked and "grants" in folder.tables()["den"]

    revoke(folder, "den")

    assert "grants" not in folder.tables()["den"]
    with pytest.raises(UserError, match="already revoked"):
        revoke(folder, "den")


@pytest.mark.parametrize("expires", ["soon", "2026-01-01T00:00:00"])
def test_an_expiry_that_is_no_moment_is_told_with_the_file(
    tmp_path: Path, expires: str
) -> None:
    folder = StateFolder(tmp_path / "bus")
    add(folder, "den", tmp_path / "den.json")
    folder.credentials_file.write_text(
        f'{{"den":{{"token_sha256":"x","expires":"{expires}"}}}}'
    )
    with pytest.raises(ConfigError, match=r"credentials\.json"):
        folder.credentials()


def test_two_bridges_cannot_remember_in_one_folder(tmp_path: Path) -> None:
    async def main() -> None:
        async with served_bus(tmp_path) as first:
            with pytest.raises(BridgeheadError, match="another bridge"):
                async with served_bus(tmp_path):
                    pass
            assert await first.satellite("kitchen")
        async with served_bus(tmp_path):
            pass

    run(main())


def test_every_option_of_a_bridge_can_be_set_and_has_one_default() -> None:
    declared = {
        setting.key: setting.default for setting in SETTINGS if setting.section == "bus"
    }
    assert declared.keys() == {
        *BridgeSettings.__struct_fields__,
        *ServingSettings.__struct_fields__,
    }
    assert (
        BusSettings.parse(
            {key: value for key, value in declared.items() if value is not None}
        )
        == BusSettings()
    )
