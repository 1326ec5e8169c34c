"""What a reviewed tree cannot bring about: its programs are not found, its names are no options, no key strays."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from bridgehead.council.runtimes.exchange import HttpReply, HttpRequest, RuntimeRequest
from bridgehead.council.runtimes.machine import Machine, http_get
from bridgehead.council.runtimes.opencode import NO_TOOLS, OpencodeServer
from bridgehead.council.runtimes.static import ANALYSERS


def test_a_program_of_the_tree_is_found_neither_by_name_nor_by_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("tree", "tree/bin", "system"):
        (tmp_path / folder).mkdir()
        program = tmp_path / folder / "claude"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    monkeypatch.chdir(tmp_path / "tree")
    system = str(tmp_path / "system")
    assert Machine({"PATH": f".:bin::{system}"}).which("claude") == f"{system}/claude"
    assert Machine({"PATH": ".:bin:"}).which("claude") is None
    for path in ("./claude", "bin/claude"):
        assert Machine({"PATH": system}).which(path) is None
    assert Machine({"PATH": system}).which(f"{system}/claude") == f"{system}/claude"


def test_a_key_follows_no_redirect_and_a_call_to_this_machine_no_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[dict[str, Any]] = []

    def get(url: str, **given: Any) -> httpx.Response:
        calls.append({"url": url, **given})
        return httpx.Response(200, text="{}")

    monkeypatch.setattr(httpx, "get", get)
    for url in (
        "http://127.0.0.1:1/models",
        "http://localhost:1/x",
        "https://api.example.com/models",
    ):
        assert http_get(url, {"authorization": "Bearer k"}, 1.0).status == 200
    assert [call["follow_redirects"] for call in calls] == [False] * 3
    assert [call["trust_env"] for call in calls] == [False, False, True]


@pytest.mark.parametrize(
    "analyser",
    [one for one in ANALYSERS if not one.in_process],
    ids=lambda one: one.name,
)
def test_a_file_name_is_no_option_of_an_analyser(analyser: Any, tmp_path: Path) -> None:
    endings = (".py", ".js", ".go", ".sh", ".dockerfile", "/.github/workflows/a.yml")
    wanted = [name for end in endings if analyser.wants(name := f"--config=evil{end}")]
    command = analyser.command(wanted, tmp_path, {})
    assert wanted
    assert list(command.argv)[-len(wanted) :] == [f"./{name}" for name in wanted]


def server() -> OpencodeServer:
    return OpencodeServer("http://127.0.0.1:4096", None, HttpReply(200, "{}"))


def asked(**fields: Any) -> HttpRequest:
    return cast(
        HttpRequest, server().ask(RuntimeRequest("look", Path("/copy"), 60, **fields))
    )


def test_an_opencode_server_is_told_what_an_inspection_may_not_do() -> None:
    rules = {rule["permission"]: rule["action"] for rule in asked().body["permission"]}
    assert rules == NO_TOOLS
    assert asked().body["agent"] == "plan"


def test_a_session_id_stays_a_session_id() -> None:
    assert asked(session="../config?x=1#").url.endswith(
        "/session/..%2Fconfig%3Fx%3D1%23/message"
    )


def test_no_hosted_model_is_a_default() -> None:
    connection = server()
    listed = '{"providers": [{"id": "opencode", "models": {"big": {}}}, {"id": "own", "models": {"m": {}}}]}'
    connection._listing = HttpReply(200, listed)
    assert connection.models(cast(Machine, None)) == ["own/m"]
