"""Who is believed, and what the files that say so look like to others (bus §9, §10)."""

from __future__ import annotations

import ssl
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridgehead.bus.access.certificates import ensure_certificate, server_context
from bridgehead.bus.access.credentials import (
    KEY_BYTES,
    NONCE_BYTES,
    Challenge,
    Credential,
    FailedAttempts,
    RefusalCount,
    bearer_token,
    mac_fits,
    make_token,
    token_fits,
    token_hash,
)
from bridgehead.bus.access.enrolment import Enrolment, enrol
from bridgehead.bus.access.join_file import (
    BadJoinFile,
    JoinFile,
    read_join_file,
    write_join_file,
)
from bridgehead.bus.access.state_folder import SECRET_BYTES, BadRecordsFile, StateFolder
from bridgehead.bus.wire.frames import from_base64, to_base64
from bridgehead.errors import BridgeheadError, LockTimeout, UserError
from bridgehead.host.clock import ManualClock
from bridgehead.host.locks import FileLock

KEY = b"k" * KEY_BYTES
CHALLENGE = Challenge("kitchen", b"s" * NONCE_BYTES, b"c" * NONCE_BYTES, b"b" * 32)
NOW = datetime(2026, 11, 15, tzinfo=UTC)
JOIN = JoinFile(1, "ws://127.0.0.1:1/bridge/v1", "kitchen", key=to_base64(KEY))


@pytest.mark.parametrize(
    "changed",
    [
        Challenge(
            "study", CHALLENGE.server_nonce, CHALLENGE.client_nonce, CHALLENGE.binding
        ),
        Challenge(
            "kitchen", b"t" * NONCE_BYTES, CHALLENGE.client_nonce, CHALLENGE.binding
        ),
        Challenge(
            "kitchen", CHALLENGE.server_nonce, b"d" * NONCE_BYTES, CHALLENGE.binding
        ),
        Challenge("kitchen", CHALLENGE.server_nonce, CHALLENGE.client_nonce, b"x" * 32),
    ],
    ids=[
        "another participant",
        "another challenge",
        "another answer",
        "another certificate",
    ],
)
def test_a_proof_is_good_for_one_challenge_through_one_certificate(
    changed: Challenge,
) -> None:
    credential = Credential(key=to_base64(KEY))
    assert mac_fits(credential, CHALLENGE, CHALLENGE.client_mac(KEY))
    assert not mac_fits(credential, CHALLENGE, changed.client_mac(KEY))


def test_neither_side_can_prove_itself_with_the_words_of_the_other() -> None:
    assert CHALLENGE.client_mac(KEY) != CHALLENGE.server_mac(KEY)


def test_nonces_and_keys_are_long() -> None:
    assert (NONCE_BYTES, KEY_BYTES, SECRET_BYTES) == (32, 32, 32)


@pytest.mark.parametrize(("seconds", "fits"), [(-1, True), (0, False), (1, False)])
def test_a_token_ends_when_it_says(seconds: int, fits: bool) -> None:
    token = make_token("study", bytes(32))
    credential = Credential(token_sha256=token_hash(token), expires=NOW.isoformat())
    assert token_fits(credential, token, NOW + timedelta(seconds=seconds)) is fits


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer t", "t"),
        ("bearer  t ", "t"),
        ("Basic t", None),
        ("t", None),
        ("Bearer ", None),
        (None, None),
    ],
)
def test_a_token_is_shown_as_a_bearer_s(header: str | None, token: str | None) -> None:
    assert bearer_token(header) == token


def test_failed_attempts_are_counted_for_a_while_and_for_so_many_addresses() -> None:
    failed = FailedAttempts(limit=2, window_s=60, addresses=2)
    failed.note("a", 0)
    assert not failed.too_many("a", 1)
    failed.note("a", 1)
    assert failed.too_many("a", 2) and not failed.too_many("b", 2)
    assert not failed.too_many("a", 61)
    for address in "bcd":
        failed.note(address, 2)
    assert len(failed._recent) == 2


def test_refusals_are_told_at_once_and_then_once_a_minute() -> None:
    refusals = RefusalCount()
    told = []
    for second in range(121):
        refusals.note("a", "origin")
        told.append(refusals.take(second))
    assert [
        (second, summary.count) for second, summary in enumerate(told) if summary
    ] == [(0, 1), (60, 60), (120, 60)]


@pytest.mark.parametrize(
    "text",
    ["", "AAAA", to_base64(b"k" * 31), "!" + to_base64(KEY), to_base64(KEY) + "\n", 7],
)
def test_a_key_has_its_length_and_nothing_but_its_letters(text: Any) -> None:
    assert from_base64(to_base64(KEY), KEY_BYTES) == KEY
    assert from_base64(text, KEY_BYTES) is None


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def enrolment(name: str, **changes: Any) -> Enrolment:
    return Enrolment(name, {}, JOIN.url, **changes)


def test_what_admits_somebody_is_read_by_its_owner_only(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "bus")
    folder.path.mkdir(mode=0o755)
    enrol(folder, enrolment("kitchen"), ManualClock(), tmp_path / "kitchen.join.json")
    folder.secret()
    cert, key = ensure_certificate(folder.tls_folder, "127.0.0.1")
    assert mode(folder.path) == mode(folder.tls_folder) == 0o700
    files = (
        folder.credentials_file,
        folder.path / "bridge.secret",
        tmp_path / "kitchen.join.json",
        key,
        cert,
    )
    assert [mode(path) for path in files] == [0o600] * 5


def test_every_token_and_key_is_another(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    made = [
        enrol(folder, enrolment(name, token=token), ManualClock())
        for token in (True, False)
        for name in ("a", "b")
    ]
    secrets = {(join.token or "").partition(".")[2] or join.key for join in made}
    assert len(secrets) == 4 and "A" * 43 not in secrets


def test_a_secret_that_was_torn_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "bridge.secret").write_bytes(b"short")
    with pytest.raises(BadRecordsFile, match="must hold 32 bytes"):
        StateFolder(tmp_path).secret()


def test_commands_change_the_participants_one_after_another(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    with folder.editing(), pytest.raises(LockTimeout):
        _in_another_thread(lambda: FileLock(tmp_path / ".lock", 0).acquire())


def _in_another_thread(work: Any) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


def test_one_bridge_serves_a_folder(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    held = folder.claim()
    with pytest.raises(BridgeheadError, match="another bridge"):
        folder.claim()
    held.release()
    folder.claim().release()


def test_a_join_file_is_written_over_its_own_and_over_nothing_else(
    tmp_path: Path,
) -> None:
    path = tmp_path / "kitchen.join.json"
    write_join_file(path, JOIN)
    write_join_file(path, JOIN)
    for other in (JoinFile(1, JOIN.url, "study", key=JOIN.key), None):
        if other is not None:
            with pytest.raises(
                UserError, match="is not a join file of this participant"
            ):
                write_join_file(path, other)
        path.write_text("my notes")
        with pytest.raises(UserError, match="is not a join file of this participant"):
            write_join_file(path, JOIN)
    assert path.read_text() == "my notes"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"key": to_base64(b"short")}, "not a device key"),
        ({"cert_sha256": "ab"}, "not a fingerprint"),
        ({"cert_sha256": "z" * 64}, "not a fingerprint"),
        ({"token": "kitchen.x"}, "either a key or a token"),
        ({"key": None}, "either a key or a token"),
        ({"participant": "a b"}, "not a valid participant ID"),
        ({"v": 2}, "version 2"),
    ],
)
def test_a_join_file_that_cannot_be_used_says_why(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    (tmp_path / "join").write_bytes(
        msgspec.json.encode({**msgspec.structs.asdict(JOIN), **changes})
    )
    with pytest.raises(BadJoinFile, match=problem):
        read_join_file(tmp_path / "join")


@pytest.mark.parametrize(("allowed", "oldest"), [(False, "TLSv1_3"), (True, "TLSv1_2")])
def test_old_tls_is_spoken_where_it_was_allowed(
    tmp_path: Path, allowed: bool, oldest: str
) -> None:
    cert, key = ensure_certificate(tmp_path / "tls", "127.0.0.1")
    context = server_context(cert, key, client_ca=None, allow_tls12=allowed)
    assert context.minimum_version is ssl.TLSVersion[oldest]
