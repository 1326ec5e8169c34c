"""Messages of every kind, good and bad, without a process: what is answered, and with which code."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.mcp_server.jsonrpc import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    VERSION_KEY,
    Code,
    Reply,
    read_message,
)
from bridgehead.mcp_server.server import Server
from bridgehead.mcp_server.tools.catalogue import TOOLS
from bridgehead.mcp_server.transports.conversation import (
    Answer,
    CarryOut,
    Conversation,
    Stop,
)


def conversation() -> Conversation:
    def no_assembly() -> Any:
        raise AssertionError("nothing here needs the project")

    return Conversation(Server(no_assembly))


def said(talk: Conversation, content: bytes) -> dict[str, Any]:
    effect = talk.received(read_message(content))
    assert isinstance(effect, Answer), effect
    answer: dict[str, Any] = json.loads(effect.content)
    return answer


def request(method: str, request_id: object = 1, **params: Any) -> bytes:
    return json.dumps(
        {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    ).encode()


def hello(version: str = "2025-11-25") -> bytes:
    return request(
        "initialize",
        "hello",
        protocolVersion=version,
        capabilities={},
        clientInfo={"name": "c"},
    )


def envelope(version: object = "2026-07-28") -> dict[str, Any]:
    return {
        "_meta": {
            VERSION_KEY: version,
            CAPABILITIES_KEY: {},
            CLIENT_KEY: {"name": "c", "version": "1"},
        }
    }


@pytest.mark.parametrize(
    ("line", "code", "request_id"),
    [
        (b"no json", Code.PARSE_ERROR, None),
        (b'{"jsonrpc": "2.0", "id": 1,', Code.PARSE_ERROR, None),
        (b"\xff\xfe", Code.PARSE_ERROR, None),
        (b"[" * 100_000, Code.PARSE_ERROR, None),
        (b"[]", Code.INVALID_REQUEST, None),
        (b"null", Code.INVALID_REQUEST, None),
        (b'"text"', Code.INVALID_REQUEST, None),
        (b'{"id": 5, "method": "ping"}', Code.INVALID_REQUEST, 5),
        (b'{"jsonrpc": "2.0", "id": 5}', Code.INVALID_REQUEST, 5),
        (b'{"jsonrpc": "2.0", "id": 5, "method": 7}', Code.INVALID_REQUEST, 5),
        (
            b'{"jsonrpc": "2.0", "id": null, "method": "ping"}',
            Code.INVALID_REQUEST,
            None,
        ),
        (
            b'{"jsonrpc": "2.0", "id": true, "method": "ping"}',
            Code.INVALID_REQUEST,
            None,
        ),
        (
            b'{"jsonrpc": "2.0", "id": "a", "method": "ping", "params": [1]}',
            Code.INVALID_PARAMS,
            "a",
        ),
        (request("tools/list"), Code.INVALID_REQUEST, 1),
        (request("initialize"), Code.INVALID_PARAMS, 1),
        (request("tools/list", **envelope("2099-01-01")), Code.UNSUPPORTED_VERSION, 1),
        (request("tools/list", **envelope(7)), Code.INVALID_PARAMS, 1),
        (
            request("tools/list", _meta={VERSION_KEY: "2026-07-28"}),
            Code.INVALID_PARAMS,
            1,
        ),
        (request("no/such/method", **envelope()), Code.METHOD_NOT_FOUND, 1),
        (request("prompts/get", name="nope", **envelope()), Code.INVALID_PARAMS, 1),
        (request("prompts/get", name="hand_off", **envelope()), Code.INVALID_PARAMS, 1),
        (
            request("prompts/get", name="hand_off", arguments={"to": 7}, **envelope()),
            Code.INVALID_PARAMS,
            1,
        ),
        (
            request(
                "prompts/get", name="read_inbox", arguments={"x": "y"}, **envelope()
            ),
            Code.INVALID_PARAMS,
            1,
        ),
    ],
)
def test_what_cannot_be_honoured_is_answered_with_its_code(
    line: bytes, code: Code, request_id: object
) -> None:
    talk = conversation()

    answer = said(talk, line)

    assert (answer["error"]["code"], answer["id"]) == (code, request_id)
    assert answer["error"]["message"]
    assert "result" in said(talk, request("ping")), "the conversation goes on"


def test_a_notification_is_not_answered_whatever_it_carries() -> None:
    talk = conversation()

    for line in (
        b'{"jsonrpc": "2.0", "method": "x", "params": 7}',
        b'{"jsonrpc": "2.0", "method": "no/such"}',
    ):
        assert talk.received(read_message(line)) is None


@pytest.mark.parametrize(
    ("wanted", "agreed"),
    [
        ("2024-11-05", "2024-11-05"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ],
)
def test_a_client_that_introduces_itself_gets_a_version_both_know(
    wanted: str, agreed: str
) -> None:
    talk = conversation()

    assert said(talk, hello(wanted))["result"]["protocolVersion"] == agreed
    assert "resultType" not in said(talk, request("tools/list"))["result"]


def test_the_two_ways_of_speaking_do_not_mix() -> None:
    old, new = conversation(), conversation()
    said(old, hello())
    listed = said(new, request("tools/list", **envelope()))["result"]

    assert (listed["resultType"], listed["cacheScope"]) == ("complete", "private")
    assert (
        said(old, request("tools/list", **envelope()))["error"]["code"]
        == Code.INVALID_REQUEST
    )
    assert said(old, hello())["error"]["code"] == Code.INVALID_REQUEST
    assert said(new, hello())["error"]["code"] == Code.UNSUPPORTED_VERSION
    assert said(new, request("tools/list"))["error"]["code"] == Code.INVALID_REQUEST


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
METHODS = (
    "initialize",
    "ping",
    "tools/list",
    "prompts/get",
    "server/discover",
    "resources/templates/list",
    "x",
)


@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "jsonrpc": st.just("2.0") | values,
                "id": values,
                "method": st.sampled_from(METHODS) | values,
                "params": values
                | st.builds(lambda given: {**envelope(), "arguments": given}, values),
                "result": values,
            },
        ),
        max_size=6,
    )
)
def test_whatever_arrives_each_message_gets_at_most_one_well_formed_answer(
    messages: list[dict[str, Any]],
) -> None:
    talk = conversation()
    for message in messages:
        effect = talk.received(read_message(json.dumps(message).encode()))
        if isinstance(effect, Answer):
            answer = json.loads(effect.content)
            assert answer["jsonrpc"] == "2.0"
            assert ("result" in answer) != ("error" in answer)
            assert answer["id"] in (message.get("id"), None)
        assert effect is None or "id" in message or isinstance(effect, Answer)


def test_calls_go_beside_the_loop_and_cancellations_stop_them() -> None:
    talk = conversation()
    said(talk, hello())

    begun = talk.received(read_message(request("tools/call", 7, name="doctor")))
    stopped = talk.received(
        read_message(
            b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}'
        )
    )

    assert isinstance(begun, CarryOut)
    assert begun.client.name == "c"
    assert stopped == Stop(7)
    assert (
        talk.received(
            read_message(b'{"jsonrpc": "2.0", "method": "notifications/unheard_of"}')
        )
        is None
    )
    assert talk.received(
        read_message(b'{"jsonrpc": "2.0", "id": 3, "result": {}}')
    ) == Reply(3, {})


def test_there_are_few_tools_and_each_says_what_it_takes_and_returns() -> None:
    listed = [tool.listed() for tool in TOOLS]

    assert 6 <= len(listed) <= 12
    for tool in listed:
        assert tool["inputSchema"]["type"] == tool["outputSchema"]["type"] == "object"
        assert tool["inputSchema"]["additionalProperties"] is False
        assert "$ref" not in json.dumps(tool)
    # Every word is paid for in every conversation: 300 tools cost others 25,000 tokens.
    assert len(json.dumps(listed)) < 17_000


def test_discovery_imports_nothing_of_what_the_tools_do() -> None:
    program = (
        "import sys; from bridgehead.mcp_server.transports.stdio import serve; serve(lambda: None);"
        "print(sorted({'mcp', 'pydantic', 'anyio', 'asyncio', 'sqlite3', 'bridgehead.assembly', 'bridgehead.council'}"
        " & set(sys.modules)), file=sys.stderr)"
    )
    asked = (
        b"\n".join(
            [
                hello(),
                request("tools/list"),
                request("prompts/list", 2),
                request("ping", 3),
            ]
        )
        + b"\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        input=asked,
        capture_output=True,
        timeout=60,
        check=True,
    )

    assert done.stderr.decode().strip() == "[]"
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [
        "hello",
        1,
        2,
        3,
    ]
