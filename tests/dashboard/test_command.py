"""`bridgehead web` as it is installed: the link, the private file, one that runs already, a clean end."""

from __future__ import annotations

import json
import signal
import stat
import urllib.request
from pathlib import Path

import pytest

from bridgehead.dashboard.serving import WebRequest, choose_token
from bridgehead.errors import BridgeheadError
from bridgehead.exit_codes import ExitCode
from support.installed import Machine, machine


@pytest.fixture
def home(tmp_path: Path) -> Machine:
    return machine(tmp_path)


def test_the_command_prints_its_link_serves_and_stops_cleanly(home: Machine) -> None:
    process = home.start("web", "--port", "0", "--json")
    try:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        kept = home.home / "bridgehead" / "data" / "web.json"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert json.loads(kept.read_text())["token"] in told["url"]

        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with browser.open(told["url"]) as page:
            assert "Waiting for you" in page.read().decode()
            assert "token" not in page.url
        live = browser.open(f"http://{told['host']}:{told['port']}/live")
        assert live.readline().startswith(b"retry")

        again = home.run(
            "web", "--open", "--json", BROWSER="sh -c 'echo \"%s\" > opened'"
        )
        assert (again.code, again.json["url"]) == (0, told["url"])
        opened = (home.project / "opened").read_text()
        assert "/?ticket=" in opened, (
            "the machine sees what a program is started with: never the token"
        )
        with urllib.request.build_opener(urllib.request.HTTPCookieProcessor()).open(
            opened.strip()
        ) as page:
            assert page.status == 200

        process.send_signal(signal.SIGINT)
        live.read()
        live.close()
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == ExitCode.INTERRUPTED
    assert "stopped" in said
    assert "Traceback" not in said
    assert not kept.exists()


def test_beyond_loopback_a_token_must_be_chosen(home: Machine) -> None:
    done = home.run("web", "--host", "0.0.0.0", "--port", "0")

    assert (done.code, done.out) == (1, "")
    assert "--token-file" in done.err


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.9.10"])
def test_on_loopback_every_start_has_a_new_token(host: str) -> None:
    first, second = (choose_token(WebRequest(host, 0)) for _ in range(2))

    assert first != second
    assert len(first) > 40


@pytest.mark.parametrize(
    ("content", "mode", "problem"),
    [
        ("0123456789abcdef0123456789abcdef\n", 0o644, "other users can read it"),
        ("0123456789abcdef0123456789abcdef\n", 0o640, "other users can read it"),
        ("short", 0o600, "shorter than 16 characters"),
        ("", 0o600, "shorter than 16 characters"),
        ("spaces and / slashes in a token", 0o600, "letters, digits"),
        ("x" * 5000, 0o600, "larger than"),
        (None, 0o600, "nowhere"),
    ],
)
def test_a_token_file_that_protects_nothing_is_refused(
    tmp_path: Path, content: str | None, mode: int, problem: str
) -> None:
    file = tmp_path / "nowhere"
    if content is not None:
        file.write_text(content)
        file.chmod(mode)

    with pytest.raises(BridgeheadError, match=problem):
        choose_token(WebRequest("0.0.0.0", 0, token_file=file))


def test_the_token_of_a_private_file_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("0123456789abcdef0123456789abcdef\n")
    file.chmod(0o600)

    assert (
        choose_token(WebRequest("0.0.0.0", 0, token_file=file))
        == "0123456789abcdef0123456789abcdef"
    )
