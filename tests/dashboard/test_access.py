"""Who is let in: nothing of a request is worked on before Host, Origin and credentials were judged (design §9)."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from bridgehead.contract.record_words import PendingState
from bridgehead.dashboard.access import MOST_BODY_BYTES, Access, Session
from bridgehead.dashboard.app import Dashboard
from bridgehead.host.clock import ManualClock
from bridgehead.mcp_server.transports.http import HttpApp
from dashboard.support.served import (
    ORIGIN,
    TOKEN,
    OpenDashboard,
    ask,
    open_dashboard,
    scratch_assembly,
    served,
)

COOKIE = "bridgehead_web_8183"
PATHS = (
    "/",
    "/councils",
    "/councils/x",
    "/events",
    "/health",
    "/live",
    "/nowhere",
    "/answer/q-1",
)


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenDashboard]:
    with open_dashboard(tmp_path_factory.mktemp("access")) as made:
        yield made


@pytest.fixture
def stranger(web: OpenDashboard) -> TestClient:
    return TestClient(web.dashboard.app, base_url=ORIGIN)


def test_the_link_is_exchanged_for_a_cookie_and_leaves_the_address_bar(
    stranger: TestClient,
) -> None:
    entered = stranger.get(
        "/events", params={"token": TOKEN, "part": "rigs"}, follow_redirects=False
    )

    assert (entered.status_code, entered.headers["location"]) == (
        303,
        "/events?part=rigs",
    )
    cookie = entered.headers["set-cookie"].lower()
    assert all(word in cookie for word in ("httponly", "samesite=strict", "path=/"))
    assert TOKEN not in entered.headers["set-cookie"] + entered.text
    assert stranger.get("/events").status_code == 200


@pytest.mark.parametrize("path", PATHS)
def test_without_a_cookie_every_page_is_closed_and_says_how_to_open_it(
    stranger: TestClient, path: str
) -> None:
    answer = stranger.get(path)

    assert answer.status_code == 401
    assert "bridgehead web --open" in answer.text
    assert "bridgehead 0." not in answer.text, "a stranger is not told the version"


@pytest.mark.parametrize(
    "token", ["", "wrong", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "é" * 38, "\udcff"]
)
def test_a_token_that_is_not_exactly_right_opens_nothing(
    stranger: TestClient, token: str
) -> None:
    query = token.encode("utf-8", "surrogateescape")

    assert (
        stranger.get("/", params={"token": query.decode("latin-1")}).status_code == 401
    )  # type: ignore[dict-item]
    assert COOKIE not in stranger.cookies


@pytest.mark.parametrize(
    "path", ["//evil.example/", "/%2f%2fevil.example/", "/\\evil.example"]
)
def test_entering_never_leads_to_another_host(stranger: TestClient, path: str) -> None:
    entered = stranger.get(f"{ORIGIN}{path}?token={TOKEN}", follow_redirects=False)

    assert not entered.headers["location"].startswith(("//", "http", "/\\"))


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8183",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "",
        "[::",
    ],
)
def test_a_name_that_resolves_here_but_is_not_ours_is_refused(
    web: OpenDashboard, host: str
) -> None:
    assert web.client.get("/", headers={"Host": host}).status_code == 403
    assert (
        web.client.get("/static/style.css", headers={"Host": host}).status_code == 403
    )


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:3000"},
        {"Origin": "null"},
        {"Origin": f"{ORIGIN}.evil.example"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
    ],
    ids=lambda headers: next(iter(headers.values())),
)
@pytest.mark.parametrize("path", ["/live", "/events"])
def test_a_page_of_another_origin_reads_nothing_and_follows_nothing(
    web: OpenDashboard, path: str, headers: dict[str, str]
) -> None:
    assert web.client.get(path, headers=headers).status_code == 403


def test_a_proxy_in_front_may_speak_tls_under_a_listed_name(tmp_path: Path) -> None:
    assembly = scratch_assembly(tmp_path)
    with assembly.store() as store:
        app = Dashboard(
            assembly, store, token=TOKEN, port=8183, hosts=("team.example",)
        ).app
        with TestClient(app, base_url="http://team.example") as client:
            client.get("/", params={"token": TOKEN})
            assert (
                client.get(
                    "/events", headers={"Origin": "https://team.example"}
                ).status_code
                == 200
            )
            assert (
                client.get(
                    "/events", headers={"Origin": "https://other.example"}
                ).status_code
                == 403
            )
            assert (
                client.get("/events", headers={"Host": "other.example"}).status_code
                == 403
            )


def test_a_link_from_elsewhere_may_be_followed(web: OpenDashboard) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}

    assert web.client.get("/events", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("headers", "fields", "status"),
    [
        ({"Origin": "https://evil.example"}, {}, 403),
        ({"Origin": "http://127.0.0.1:3000", "Sec-Fetch-Site": "same-site"}, {}, 403),
        ({"Origin": ""}, {}, 403),
        ({}, {}, 403),
        ({"Origin": ORIGIN}, {"csrf": "guessed"}, 422),
        ({"Origin": ORIGIN}, {"csrf": "é"}, 422),
        ({"Origin": ORIGIN}, {"csrf": ""}, 422),
        ({"Origin": ORIGIN, "Content-Type": "application/json"}, {}, 422),
        (
            {"Origin": ORIGIN, "Content-Type": "multipart/form-data; boundary=x"},
            {},
            422,
        ),
    ],
)
def test_a_form_that_is_not_ours_changes_nothing(
    web: OpenDashboard, headers: dict[str, str], fields: dict[str, str], status: int
) -> None:
    item = ask(web.store, "forged", choices=("yes", "no"))
    given = {"csrf": web.csrf(), "text": "yes", **fields}

    answered = web.client.post(
        f"/answer/{item.id}", data=given, headers=headers, follow_redirects=False
    )

    assert answered.status_code == status
    assert web.store.pending_item(item.id).state is PendingState.OPEN


def test_a_form_of_another_session_changes_nothing(
    web: OpenDashboard, stranger: TestClient
) -> None:
    item = ask(web.store, "forged", choices=("yes", "no"))
    stranger.get("/", params={"token": TOKEN})

    given = {"csrf": web.csrf(), "text": "yes"}
    answered = stranger.post(
        f"/answer/{item.id}", data=given, headers={"Origin": ORIGIN}
    )

    assert answered.status_code == 422
    assert web.store.pending_item(item.id).state is PendingState.OPEN


@pytest.mark.parametrize(
    "declared", [str(MOST_BODY_BYTES + 1), "-1", "many", "9" * 5000]
)
def test_a_body_that_says_it_is_too_large_is_not_read(
    web: OpenDashboard, declared: str
) -> None:
    headers = {"Origin": ORIGIN, "Content-Length": declared}

    assert web.client.post("/health", content=b"x", headers=headers).status_code == 413


def test_a_body_that_does_not_say_how_large_it_is_ends_at_the_limit(
    web: OpenDashboard,
) -> None:
    chunks = (b"x" * (1 << 20) for _ in range((MOST_BODY_BYTES >> 20) + 1))

    assert (
        web.client.post(
            "/health", content=chunks, headers={"Origin": ORIGIN}
        ).status_code
        == 413
    )


def test_a_stranger_s_body_is_not_read_at_all(stranger: TestClient) -> None:
    app = stranger.app
    read: list[str] = []

    async def ask_without_credentials() -> list[dict[str, Any]]:
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            read.append("read")
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [
            (b"host", b"127.0.0.1:8183"),
            (b"origin", ORIGIN.encode()),
            (b"content-length", b"5"),
        ]
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/health",
            "query_string": b"",
            "headers": headers,
        }
        await app(scope, receive, send)  # type: ignore[arg-type]
        return sent

    sent = anyio.run(ask_without_credentials)
    assert sent[0]["status"] == 401
    assert read == []


@pytest.mark.parametrize(
    "path",
    ["/", "/events", "/nowhere", "/static/live.js", "/static/../app.py", "/live2"],
)
def test_every_answer_carries_the_strict_headers(
    web: OpenDashboard, stranger: TestClient, path: str
) -> None:
    for client in (web.client, stranger):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert "access-control-allow-origin" not in headers


def test_a_program_shows_the_token_as_bearer(stranger: TestClient) -> None:
    right, wrong = (
        {"Authorization": f"Bearer {token}"} for token in (TOKEN, TOKEN[:-1])
    )

    assert stranger.get("/events", headers=right).status_code == 200
    assert stranger.get("/events", headers=wrong).status_code == 401


def test_a_link_for_a_browser_is_issued_to_the_token_only_and_works_once(
    web: OpenDashboard, stranger: TestClient
) -> None:
    assert stranger.post("/link").status_code == 401
    assert web.client.post("/link", headers={"Origin": ORIGIN}).status_code == 401, (
        "a page gets none"
    )
    link = stranger.post("/link", headers={"Authorization": f"Bearer {TOKEN}"}).text

    first = stranger.get(link, follow_redirects=False)
    second = TestClient(web.dashboard.app, base_url=ORIGIN).get(link)

    assert (first.status_code, first.headers["location"]) == (303, "/")
    assert second.status_code == 401


def test_a_link_that_was_left_lying_opens_nothing(tmp_path: Path) -> None:
    with open_dashboard(tmp_path) as made:
        link = made.dashboard.access.new_link()
        clock = made.dashboard.context.clock
        assert isinstance(clock, ManualClock)
        clock.advance(61)
        late = TestClient(made.dashboard.app, base_url=ORIGIN).get(link)

        assert late.status_code == 401
        clock.advance(12 * 3600)
        assert made.client.get("/events").status_code == 401, "a session ends too"


def test_no_websocket_is_opened(web: OpenDashboard) -> None:
    with pytest.raises(WebSocketDisconnect), web.client.websocket_connect("/live"):
        pass


def test_mcp_is_behind_the_same_door_with_the_bearer_token_only(tmp_path: Path) -> None:
    assembly = scratch_assembly(tmp_path)
    hello = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    with assembly.store() as store:
        mounted = HttpApp(lambda: assembly, token=TOKEN)
        dashboard = Dashboard(assembly, store, token=TOKEN, port=8183, mcp=mounted)
        with TestClient(dashboard.app, base_url=ORIGIN) as client:
            client.get("/", params={"token": TOKEN})
            assert (
                client.post("/mcp", json=hello, headers={"Origin": ORIGIN}).status_code
                == 401
            )
            assert (
                client.post(
                    "/mcp", json=hello, headers={**bearer, "Host": "evil.example"}
                ).status_code
                == 403
            )
            assert (
                client.post(
                    "/mcp",
                    json=hello,
                    headers={**bearer, "Origin": "https://evil.example"},
                ).status_code
                == 403
            )
            assert client.post("/mcp", json=hello, headers=bearer).status_code not in (
                401,
                403,
                404,
                405,
            )


class Door:
    """A door whose kernel says who comes, and a cookie that was made there."""

    def __init__(self) -> None:
        self.user: int | None = 1000
        self.access = Access(
            TOKEN,
            ManualClock(),
            names=frozenset({"localhost"}),
            port=8183,
            user_at=lambda _ends: self.user,
        )
        entered = self.access.judge(self.request(f"token={TOKEN}"))
        assert isinstance(entered, Response)
        self.cookie = entered.headers["set-cookie"].partition(";")[0]

    def request(self, query: str = "", **headers: str) -> HTTPConnection:
        sent = {"host": "127.0.0.1:8183", **headers}
        return HTTPConnection(
            {
                "type": "http",
                "method": "GET",
                "scheme": "http",
                "path": "/",
                "query_string": query.encode(),
                "headers": [
                    (name.encode(), value.encode()) for name, value in sent.items()
                ],
                "client": ("127.0.0.1", 40000),
                "server": ("127.0.0.1", 8183),
            }
        )

    def opens(self, **headers: str) -> bool:
        return isinstance(
            self.access.judge(self.request(cookie=self.cookie, **headers)), Session
        )


def test_a_cookie_that_another_account_got_hold_of_opens_nothing_for_it() -> None:
    door = Door()
    assert door.opens()
    for other in (1001, None):
        door.user = other
        assert not door.opens()
    door.user = 1000
    assert door.opens(), "and its owner is not locked out by the attempt"


def test_a_session_is_good_at_the_address_it_was_made_for() -> None:
    door = Door()
    for host in ("localhost:8183", "127.0.0.1:9999", "127.0.0.1"):
        assert not door.opens(host=host)


def test_any_number_of_bad_tokens_do_not_lock_the_owner_out() -> None:
    door = Door()
    for number in range(100):
        refused = door.access.judge(door.request(f"token=wrong-{number}"))
        assert isinstance(refused, Response) and refused.status_code == 401
    entered = door.access.judge(door.request(f"token={TOKEN}"))
    assert isinstance(entered, Response) and entered.status_code == 303
    assert door.opens()


@pytest.mark.skipif(
    not Path("/proc/net/tcp").exists() or os.geteuid() != 0,
    reason="needs /proc and a second user",
)
def test_a_replayed_cookie_is_recognised_by_the_kernel_s_word(tmp_path: Path) -> None:
    with served(tmp_path) as web:
        port = int(web.base.rpartition(":")[2])
        entered = answer_to(port, 0, f"/health?token={TOKEN}", "")
        cookie = next(
            line
            for line in entered.split("\r\n")
            if line.lower().startswith("set-cookie")
        )
        value = cookie.partition(": ")[2].partition(";")[0]
        assert answer_to(port, 0, "/health", value).startswith("HTTP/1.1 200")
        assert answer_to(port, 65534, "/health", value).startswith("HTTP/1.1 401")


def answer_to(port: int, user: int, path: str, cookie: str) -> str:
    """What a socket of this user is answered."""
    os.seteuid(user)
    try:
        client = socket.socket()
    finally:
        os.seteuid(0)
    with client:
        client.connect(("127.0.0.1", port))
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
        client.sendall(head.encode())
        return b"".join(iter(lambda: client.recv(65536), b"")).decode()


def test_a_body_that_never_ends_is_not_waited_for(
    web: OpenDashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridgehead.dashboard.access.BODY_SECONDS", 0)

    async def send_half() -> list[dict[str, Any]]:
        sent: list[dict[str, Any]] = []
        parts = iter([{"type": "http.request", "body": b"csrf=", "more_body": True}])

        async def receive() -> dict[str, Any]:
            if (part := next(parts, None)) is not None:
                return part
            await anyio.sleep_forever()
            raise AssertionError

        async def send(message: Any) -> None:
            sent.append(message)

        headers = [
            (b"host", b"127.0.0.1:8183"),
            (b"authorization", f"Bearer {TOKEN}".encode()),
        ]
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/health",
            "query_string": b"",
            "headers": headers,
        }
        with anyio.move_on_after(20):  # for a server that waits for ever
            await web.dashboard.app(scope, receive, send)
        return sent

    assert anyio.run(send_half)[0]["status"] == 408


def exchange(port: int, sent: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.settimeout(20)
        client.sendall(sent)
        return b"".join(iter(lambda: client.recv(65536), b""))


def test_a_request_with_two_lengths_is_refused_and_what_follows_is_not_read(
    tmp_path: Path,
) -> None:
    with served(tmp_path) as web:
        port = int(web.base.rpartition(":")[2])
        inner = f"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        for path in ("/health", "/static/style.css"):
            outer = (
                f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
                f"Content-Length: {len(inner) + 5}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            )
            answered = exchange(port, (outer + inner).encode())
            assert (
                answered.startswith(b"HTTP/1.1 400 ")
                and answered.count(b"HTTP/1.1 ") == 1
            )


def test_sockets_that_say_nothing_do_not_silence_the_dashboard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridgehead.dashboard.serving.MOST_WAITING", 16)
    # Without the limit the server refuses everybody from this number of connections on.
    monkeypatch.setattr("bridgehead.dashboard.serving.MOST_READERS", -150)
    with served(tmp_path) as web, contextlib.ExitStack() as silent:
        port = int(web.base.rpartition(":")[2])
        for number in range(200):
            client = silent.enter_context(socket.create_connection(("127.0.0.1", port)))
            if number % 2:
                client.sendall(b"GET / HTTP/1.1\r\nHo")
        asked = (
            f"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
        ).encode()
        assert exchange(port, asked).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "first", [b"", b"GET /static/style.css HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"]
)
def test_a_head_that_never_ends_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bytes
) -> None:
    monkeypatch.setattr("bridgehead.dashboard.serving.HEAD_SECONDS", 0.3)
    with served(tmp_path) as web:
        port = int(web.base.rpartition(":")[2])
        with contextlib.suppress(ConnectionResetError):
            assert exchange(port, first + b"GET / HTTP/1.1\r\nHo").count(
                b"HTTP/1.1 200"
            ) == bool(first)
