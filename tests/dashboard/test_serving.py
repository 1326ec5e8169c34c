"""Which token a dashboard is served with, and who may read it."""

from __future__ import annotations

import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bridgehead.config.places import Places
from bridgehead.dashboard.app import Dashboard
from bridgehead.dashboard.serving import (
    SHORTEST_TOKEN,
    Address,
    Server,
    WeakToken,
    WebRequest,
    choose_token,
    forget_address,
    note_address,
    read_address,
)
from bridgehead.errors import FileError, UserError

ADDRESS = Address(host="127.0.0.1", port=8183, token="t" * 32, pid=1)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("192.168.1.7", False),
        ("::", False),
        ("winbox.local", False),
        ("localhost.example.com", False),
    ],
)
def test_beyond_this_machine_a_token_must_be_chosen(host: str, loopback: bool) -> None:
    request = WebRequest(host, 0)
    assert request.is_loopback is loopback
    if loopback:
        assert choose_token(request) != choose_token(request)
    else:
        with pytest.raises(UserError, match="needs a token file"):
            choose_token(request)


def token_file(folder: Path, text: str, mode: int = 0o600) -> WebRequest:
    path = folder / "web-token"
    path.write_text(text)
    path.chmod(mode)
    return WebRequest("0.0.0.0", 0, token_file=path)


def test_a_chosen_token_is_taken(tmp_path: Path) -> None:
    assert (
        choose_token(token_file(tmp_path, "a" * SHORTEST_TOKEN + "\n"))
        == "a" * SHORTEST_TOKEN
    )


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        ("a" * 32, 0o640, "other users can read it"),
        ("a" * 32, 0o604, "other users can read it"),
        ("a" * (SHORTEST_TOKEN - 1), 0o600, "shorter than"),
        ("a b" * 16, 0o600, "only letters"),
        ("ü" * 32, 0o600, "only letters"),
        ("", 0o600, "shorter than"),
    ],
)
def test_a_token_that_is_weak_or_shown_to_others_is_refused(
    tmp_path: Path, text: str, mode: int, why: str
) -> None:
    with pytest.raises(WeakToken, match=why):
        choose_token(token_file(tmp_path, text, mode))


def test_a_token_is_not_read_through_a_link(tmp_path: Path) -> None:
    request = token_file(tmp_path, "a" * 32)
    assert request.token_file is not None
    (tmp_path / "link").symlink_to(request.token_file)
    with pytest.raises(FileError):
        choose_token(WebRequest("0.0.0.0", 0, token_file=tmp_path / "link"))


def test_where_it_runs_is_noted_for_its_owner_only(tmp_path: Path) -> None:
    places = Places(tmp_path, tmp_path / "config", tmp_path / "data")
    path = note_address(places, ADDRESS)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(places.data.stat().st_mode) == 0o700
    assert read_address(places) == ADDRESS
    forget_address(places, Address(host="127.0.0.1", port=1, token="other", pid=2))
    assert path.exists()
    forget_address(places, ADDRESS)
    assert not path.exists()


def test_no_header_says_whose_connection_it_is() -> None:
    """What is served is on this machine; a proxy's word for another address is nobody's."""

    async def nobody(*_: Any) -> None: ...

    config = Server(cast(Dashboard, SimpleNamespace(app=nobody))).config
    assert (config.proxy_headers, config.ws, config.access_log) == (
        False,
        "none",
        False,
    )
