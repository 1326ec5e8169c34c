"""The model server: four wires, each with normal answers, faults, broken streams, tools and scripts."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from bridgehead.errors import ConfigError
from bridgehead.testing.exchange import Say
from bridgehead.testing.model_server import ModelServer, main
from bridgehead.testing.scripts import (
    SCENARIOS,
    BadScript,
    Rule,
    RuleScript,
    Scripted,
    address,
    load_script,
)

PROMPT = "Say hello"

# Where each wire is posted, and the smallest body its client sends.
QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "anthropic": (
        "/v1/messages?beta=true",
        {
            "model": "m",
            "stream": True,
            "messages": [{"role": "user", "content": PROMPT}],
            "tools": [{"name": "Write"}],
        },
    ),
    "responses": (
        "/v1/responses",
        {
            "model": "m",
            "stream": True,
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": PROMPT}]}
            ],
            "tools": [{"name": "exec_command"}],
        },
    ),
    "chat": (
        "/v1/chat/completions",
        {
            "model": "m",
            "stream": True,
            "messages": [{"role": "user", "content": PROMPT}],
            "tools": [{"type": "function", "function": {"name": "bash"}}],
        },
    ),
    "gemini": (
        "/v1beta/models/m:streamGenerateContent?alt=sse",
        {
            "contents": [{"role": "user", "parts": [{"text": PROMPT}]}],
            "tools": [{"functionDeclarations": [{"name": "write_file"}]}],
        },
    ),
}
TERMINAL = {
    "anthropic": '"type":"message_stop"',
    "responses": "response.completed",
    "chat": "[DONE]",
    "gemini": '"finishReason":"STOP"',
}

every_wire = pytest.mark.parametrize("wire", QUESTIONS)


def ask(
    server: ModelServer, wire: str, scenario: str = "ok", **changes: Any
) -> httpx.Response:
    path, body = QUESTIONS[wire]
    # Without TLS there are no certificates to load, which would take longer than everything else.
    url = server.base_url(scenario) + path
    return httpx.post(
        url, json=body | changes, trust_env=False, timeout=10, verify=False
    )


@every_wire
def test_a_normal_answer_is_a_complete_stream_that_echoes_the_prompt(wire: str) -> None:
    with ModelServer() as server:
        answer = ask(server, wire)

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/event-stream"
    assert f"FAKE-REPLY turn=1 echo={PROMPT}" in answer.text
    assert TERMINAL[wire] in answer.text


@every_wire
def test_a_cut_stream_lacks_its_terminal_event(wire: str) -> None:
    with ModelServer() as server:
        assert TERMINAL[wire] not in ask(server, wire, "cut").text


@pytest.mark.parametrize("wire", ["anthropic", "responses", "chat"])
def test_a_client_that_does_not_stream_gets_one_json_object(wire: str) -> None:
    with ModelServer() as server:
        answer = ask(server, wire, "cut", stream=False)

    assert answer.headers["content-type"] == "application/json"
    assert "FAKE-REPLY" in json.dumps(answer.json())


@every_wire
@pytest.mark.parametrize(
    ("scenario", "statuses"),
    [
        ("e401", {401}),
        ("e400key", {400, 401}),
        ("e404", {404}),
        ("ectx", {400}),
        ("e429", {429}),
        ("equota", {429}),
        ("e500", {500}),
        ("e529", {503, 529}),
    ],
)
def test_a_fault_has_the_vendors_status_and_an_error_object(
    wire: str, scenario: str, statuses: set[int]
) -> None:
    with ModelServer() as server:
        answer = ask(server, wire, scenario)

    assert answer.status_code in statuses
    assert answer.json()["error"]["message"]
    assert (answer.headers.get("retry-after") == "1") == (scenario == "e429")


@every_wire
def test_a_broken_answer_is_no_json_although_its_status_is_200(wire: str) -> None:
    with ModelServer() as server:
        page, broken = ask(server, wire, "malformed"), ask(server, wire, "badsse")

    assert (page.status_code, page.headers["content-type"]) == (200, "text/html")
    with pytest.raises(json.JSONDecodeError):
        json.loads(broken.text.removeprefix("data: "))


@every_wire
def test_a_tool_scenario_calls_a_tool_first_and_speaks_after_its_result(
    wire: str,
) -> None:
    _, body = QUESTIONS[wire]
    results: dict[str, dict[str, Any]] = {
        "anthropic": {
            "messages": [
                *body.get("messages", []),
                {
                    "role": "user",
                    "content": [
                        {"type": "tool_result", "tool_use_id": "x", "content": "done"}
                    ],
                },
            ]
        },
        "responses": {
            "input": [
                *body.get("input", []),
                {"type": "function_call_output", "output": "done"},
            ]
        },
        "chat": {
            "messages": [*body.get("messages", []), {"role": "tool", "content": "done"}]
        },
        "gemini": {
            "contents": [
                *body.get("contents", []),
                {
                    "role": "user",
                    "parts": [
                        {"functionResponse": {"name": "write_file", "response": {}}}
                    ],
                },
            ]
        },
    }
    with ModelServer() as server:
        first = ask(server, wire, "toolwrite")
        second = ask(server, wire, "toolwrite", **results[wire])

    assert "model-server-was-here.txt" in first.text
    assert "FAKE-REPLY turn=1" in second.text


def test_the_file_of_a_tool_scenario_is_named_in_the_prompt() -> None:
    with ModelServer() as server:
        answer = ask(
            server,
            "chat",
            "toolbash",
            messages=[{"role": "user", "content": "do it PATH=/x/pwned.txt now"}],
        )

    assert "echo pwned > /x/pwned.txt" in answer.text


def test_a_request_without_tools_gets_text_even_in_a_tool_scenario() -> None:
    with ModelServer() as server:
        assert "FAKE-REPLY" in ask(server, "chat", "toolwrite", tools=[]).text


def test_every_request_is_logged_with_its_scenario_status_headers_and_body(
    tmp_path: Path,
) -> None:
    file = tmp_path / "requests.jsonl"
    with ModelServer(log_file=file) as server:
        path, body = QUESTIONS["chat"]
        headers = {"authorization": "Bearer a-rather-long-key"}
        httpx.post(
            server.base_url("e404") + path, json=body, headers=headers, trust_env=False
        )
        (entry,) = server.log.questions(scenario="e404")

    assert (entry.method, entry.status, entry.wire) == ("POST", 404, "chat")
    assert entry.headers["authorization"] == "Bearer a-rather-long-key"
    assert entry.body["messages"][0]["content"] == PROMPT
    written = json.loads(file.read_text())
    assert "a-rather-long-key" not in written["headers"]["authorization"]
    assert written["path"].startswith("/s/e404/")


def test_a_script_decides_before_the_scenario_until_it_is_used_up() -> None:
    script = RuleScript(
        [
            Rule(when="hello", say={"outputs": []}, times=1),
            Rule(wire="gemini", fault="e429"),
        ]
    )
    with ModelServer(script=script) as server:
        first, second, refused = (
            ask(server, "chat"),
            ask(server, "chat"),
            ask(server, "gemini"),
        )

    assert r"{\"outputs\":[]}" in first.text
    assert "FAKE-REPLY" in second.text
    assert refused.status_code == 429


def test_a_function_can_be_the_script() -> None:
    with ModelServer(
        script=lambda request: Scripted(Say(f"you offered {request.tools}"))
    ) as server:
        assert "you offered ('bash',)" in ask(server, "chat").text


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        ("nonsense", "JSON is malformed"),
        ('[{"when": "x"}]', "give either `say`, `fault` or `call`"),
        ('[{"say": "a", "fault": "e401"}]', "give either `say`, `fault` or `call`"),
        ('[{"fault": "e999"}]', "unknown fault 'e999'"),
        ('[{"say": "a", "times": 0}]', "times at least 1"),
        ('[{"sya": "a"}]', "sya"),
    ],
)
def test_a_script_file_is_checked_before_the_server_starts(
    tmp_path: Path, rules: str, problem: str
) -> None:
    file = tmp_path / "script.json"
    file.write_text(rules)
    with pytest.raises(BadScript, match=problem):
        load_script(file)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/s/ok.250ms/v1/messages", ("ok", 0.25, "/v1/messages")),
        ("/s/e429/v1/responses?x=1", ("e429", 0.0, "/v1/responses?x=1")),
        ("/s/hang", ("hang", 0.0, "/")),
        ("/v1/responses", ("ok", 0.0, "/v1/responses")),
    ],
)
def test_the_path_names_the_scenario_and_its_latency(
    path: str, expected: tuple[str, float, str]
) -> None:
    assert address(path) == expected


def test_a_hanging_request_ends_when_the_server_stops() -> None:
    server = ModelServer()
    server.start()
    ended: list[type[Exception]] = []

    def wait_for_an_answer() -> None:
        try:
            ask(server, "chat", "hang")
        except httpx.HTTPError as error:
            ended.append(type(error))

    client = threading.Thread(target=wait_for_an_answer)
    client.start()
    assert server.log.wait_until(lambda entries: len(entries) == 1, timeout_seconds=10)
    server.stop()
    client.join(timeout=10)

    assert ended == [httpx.RemoteProtocolError]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"[]", 400),
        (b"{", 400),
        (b"", 400),
        pytest.param(b"[" * 50_000, 400, id="deep"),
    ],
)
def test_a_body_that_is_no_json_object_is_refused(body: bytes, status: int) -> None:
    with ModelServer() as server:
        answer = httpx.post(
            server.base_url() + "/v1/responses", content=body, trust_env=False
        )

    assert answer.status_code == status


def test_a_chunked_body_is_read() -> None:
    path, body = QUESTIONS["chat"]
    pieces = iter([json.dumps(body).encode()[:10], json.dumps(body).encode()[10:]])
    with ModelServer() as server:
        answer = httpx.post(server.base_url() + path, content=pieces, trust_env=False)

    assert "FAKE-REPLY" in answer.text


@pytest.mark.parametrize(
    "head", ["content-length: \u00b2", "transfer-encoding: chunked\r\n\r\n-5"]
)
def test_a_body_without_a_readable_length_is_refused_at_once(head: str) -> None:
    request = f"POST /v1/responses HTTP/1.1\r\nhost: x\r\n{head}\r\n\r\n"
    with (
        ModelServer() as server,
        socket.create_connection(("127.0.0.1", httpx.URL(server.url).port)) as client,
    ):
        client.settimeout(20)
        client.sendall(request.encode("latin-1"))
        answer = client.recv(100)

    assert answer.startswith(b"HTTP/1.1 413 ")


def test_an_unknown_scenario_is_a_404_that_lists_the_known_ones() -> None:
    with ModelServer() as server:
        answer = ask(server, "chat", "okay")

    assert answer.status_code == 404
    assert all(name in answer.text for name in SCENARIOS)


def test_an_unknown_scenario_lists_no_models_either() -> None:
    with ModelServer() as server:
        assert (
            httpx.get(
                server.base_url("okay") + "/v1/models", trust_env=False
            ).status_code
            == 404
        )


def test_models_are_listed_and_a_bad_key_is_refused_there_too() -> None:
    with ModelServer() as server:
        listed = httpx.get(server.base_url() + "/v1/models", trust_env=False)
        refused = httpx.get(server.base_url("e401") + "/v1/models", trust_env=False)

    assert [model["id"] for model in listed.json()["data"]] == ["fake-model-1"]
    assert refused.status_code == 401


def test_the_server_never_listens_beyond_the_loopback() -> None:
    with pytest.raises(ConfigError, match=r"not on '0\.0\.0\.0'"):
        ModelServer(host="0.0.0.0")


def test_a_bad_script_ends_the_command_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--script", str(tmp_path / "missing.json")]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert "missing.json" in output.err


def test_a_port_that_is_none_ends_the_command_with_1(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--port", "65536"]) == 1
    assert "model_server: " in capsys.readouterr().err
