"""The chat page (bus §17): each browser session is a participant in managing mode.

The link that `bus serve` prints works once and is exchanged for a cookie that no script
can read. Only a page that we served, with that cookie, gets a WebSocket. The cookie is
signed and says who it is for, so a page stays logged in when the bus restarts.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from importlib import resources
from typing import Any, Final

import msgspec

from bridgehead.bus.actions import Delivery
from bridgehead.bus.gateway.connections import RawConnection
from bridgehead.bus.gateway.gateway import Gateway
from bridgehead.bus.interfaces import (
    ItemAnswer,
    ItemAnswered,
    Notice,
    ShownQuestions,
    typed_answer,
)
from bridgehead.bus.participants.record import Grant, ParticipantRecord, Role
from bridgehead.bus.sockets.base import NOT_FOUND, Answer, Request, Site, Upgrade
from bridgehead.bus.sockets.origin import UserOf, user_behind
from bridgehead.bus.wire.message import decode_json
from bridgehead.bus.wire.topics import HANDLED, NOTICE, PIECE, SPEAK, STOP, UNMATCHED
from bridgehead.host.clock import Clock, SystemClock

COOKIE: Final = "bridgehead_chat"
CHAT_PREFIX: Final = "chat-"
LINK_S: Final = 600.0
SESSION_S: Final = 12 * 3600.0
MAX_LINKS: Final = 1000
MAX_MESSAGE_BYTES: Final = 64 * 1024
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS: Final = (
    ("Content-Security-Policy", _POLICY),
    ("X-Frame-Options", "DENY"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
)
_FILES: Final = {
    "/chat/chat.js": ("chat.js", "text/javascript; charset=utf-8"),
    "/chat/chat.css": ("chat.css", "text/css; charset=utf-8"),
}


class _ChatLogin(msgspec.Struct, frozen=True, array_like=True):
    """The content of a cookie."""

    participant: str
    until: float
    user: int | None
    """The account whose browser it is; None if unknown, as on other machines."""


class ChatEndpoint(Site):
    """Serves `/chat`: the page, its files, and the WebSocket behind it."""

    def __init__(
        self,
        gateway: Gateway,
        secret: bytes,
        *,
        grants: frozenset[Grant] = frozenset(),
        lang: str | None = None,
        clock: Clock | None = None,
        user_of: UserOf = user_behind,
    ) -> None:
        self._gateway = gateway
        self._key = hmac.digest(secret, b"bridgehead chat cookie", "sha256")
        self._user_of = user_of
        self._grants = grants
        self._lang = lang
        self._clock = clock or SystemClock()
        self._links: dict[str, float] = {}

    def new_link(self) -> str:
        """Return a path that opens the chat once, within the next minutes."""
        token = secrets.token_urlsafe(24)
        self._links[token] = self._clock.monotonic() + LINK_S
        while len(self._links) > MAX_LINKS:
            del self._links[next(iter(self._links))]
        return f"/chat?t={token}"

    # -- Site -----------------------------------------------------------------

    def upgrade(self, request: Request) -> Upgrade | Answer:
        if request.path != "/chat":
            return NOT_FOUND
        # A browser always names the page's origin, so this is not one.
        if "origin" not in request.headers:
            return Answer(403, b"this WebSocket is for the chat page\n")
        login = self._login_of(request)
        if login is None:
            return Answer(
                401, b"open the link that `bridgehead bus link chat` prints\n"
            )
        record = ParticipantRecord(
            login.participant,
            Role.OPAQUE,
            "manage",
            grants=self._grants,
            lang=self._lang,
            ephemeral=True,
        )
        return Upgrade(ChatSocket(self._gateway, record, None), MAX_MESSAGE_BYTES)

    async def respond(self, request: Request) -> Answer:
        if request.method not in ("GET", "HEAD"):
            return Answer(405, b"read only\n", headers=(("Allow", "GET"),))
        if request.path in _FILES:
            name, kind = _FILES[request.path]
            return Answer(200, _file(name), kind, PAGE_HEADERS)
        if request.path != "/chat":
            return NOT_FOUND
        if self._login_of(request) is not None:
            return self._page()
        return self._open_link(request)

    def _open_link(self, request: Request) -> Answer:
        until = self._links.pop(request.query.get("t", ""), None)
        if until is None or until < self._clock.monotonic():
            return Answer(
                401, _file("chat_closed.html"), "text/html; charset=utf-8", PAGE_HEADERS
            )
        secure = "; Secure" if request.secure else ""
        attributes = (
            f"Path=/chat; Max-Age={SESSION_S:.0f}; HttpOnly; SameSite=Strict{secure}"
        )
        cookie = f"{_cookie_name(request)}={self._new_cookie(request)}; {attributes}"
        return self._page(("Set-Cookie", cookie))

    def _page(self, *headers: tuple[str, str]) -> Answer:
        return Answer(
            200,
            _file("chat.html"),
            "text/html; charset=utf-8",
            (*PAGE_HEADERS, *headers),
        )

    def _new_cookie(self, request: Request) -> str:
        until = self._clock.now().timestamp() + SESSION_S
        participant = f"{CHAT_PREFIX}{secrets.token_hex(6)}"
        login = _ChatLogin(participant, until, self._user_of(request))
        payload = base64.urlsafe_b64encode(msgspec.json.encode(login)).decode("ascii")
        return f"{payload}.{self._signature(payload)}"

    def _signature(self, payload: str) -> str:
        return hmac.digest(self._key, payload.encode(), "sha256").hex()

    def _login_of(self, request: Request) -> _ChatLogin | None:
        """Return who is logged in with the cookie of a request."""
        payload, _, signature = _cookie(request).partition(".")
        expected = self._signature(payload)
        if not hmac.compare_digest(expected.encode(), signature.encode()):
            return None
        login = msgspec.json.decode(base64.urlsafe_b64decode(payload), type=_ChatLogin)
        if login.until < self._clock.now().timestamp():
            return None
        # Browsers send a cookie to every port of a host, where servers of other
        # accounts may see it.
        return login if login.user == self._user_of(request) else None


class ChatSocket(RawConnection):
    """The connection of one open page.

    It speaks small JSON objects of its own; the page knows nothing of topics.
    """

    def __init__(
        self, gateway: Gateway, record: ParticipantRecord, claim: object
    ) -> None:
        super().__init__(gateway, record, claim)
        self._shown = ShownQuestions()
        """The questions that a typed answer may mean; a button names its question."""

    def received(self, payload: bytes, *, text: bool) -> None:
        if not self._joined:
            return
        decoded = decode_json(payload)
        fields = decoded if isinstance(decoded, dict) else {}
        if "answer" in fields:
            answer = _answer_in(fields["answer"])
        else:
            answer = self._typed_answer(fields.get("text"))
        if answer is not None:
            self._pass_on(answer)
        elif fields.get("stop") is True:
            self._gateway.relay.take(self._participant, payload, value={"type": STOP})
        else:
            value = {
                "text": fields.get("text"),
                "utterance_id": fields.get("id"),
                "pieces": True,
            }
            self._gateway.relay.take(self._participant, payload, value=value)

    def _pass_on(self, answer: ItemAnswer) -> None:
        if self._gateway.relay.admits(self._participant):
            self._gateway.pending_answers.answer(
                self._participant, answer, self._answered
            )

    # -- ParticipantConnection ------------------------------------------------

    def welcome(self, source: str) -> None:
        may_answer = self._gateway.pending_answers.may(self._participant, Grant.APPROVE)
        self._send(
            {"welcome": {"participant": self._participant, "may_answer": may_answer}}
        )
        self._gateway.pending_answers.send_open_items(
            self._participant, self._show_question
        )

    def deliver(self, delivery: Delivery) -> None:
        message = msgspec.json.decode(delivery.body)
        if delivery.topic == PIECE:
            self._send({"piece": str(message["data"].get("text", ""))})
        elif delivery.topic == SPEAK:
            self._shown.speak()
            data = message["data"]
            speech = {
                "utterance": str(data.get("utterance", "")),
                "lang": data.get("lang"),
            }
            self._send({"speak": speech})
        elif delivery.topic == NOTICE:
            self._show_question(msgspec.convert(message["data"], Notice))
        elif delivery.topic in (HANDLED, UNMATCHED):
            kind = "handled" if delivery.topic == HANDLED else "unmatched"
            self._send({kind: True, "id": message["context"].get("utterance_id")})

    def refuse(self, code: str, details: dict[str, Any]) -> None:
        self._send({"error": {"code": code, **details}})

    # -- inside ---------------------------------------------------------------

    def _typed_answer(self, line: object) -> ItemAnswer | None:
        given = typed_answer(line)
        if given is None:
            return None
        return ItemAnswer(given.id, given.text, self._shown.digest_of(given.id))

    def _answered(self, result: ItemAnswered) -> None:
        if result.notice is not None:
            self._shown.show(result.notice)
        self._send({"answered": result.to_data()})

    def _show_question(self, notice: Notice) -> None:
        # A question asked while the page opens comes twice: announced, and in the list
        # of what was open.
        if self._shown.has_in_view(notice):
            return
        self._shown.show(notice)
        self._send({"notice": notice.to_data()})

    def _send(self, event: dict[str, Any]) -> None:
        self._reply(msgspec.json.encode(event))


def _answer_in(value: object) -> ItemAnswer | None:
    try:
        return msgspec.convert(value, ItemAnswer)
    except msgspec.ValidationError:
        return None


def _cookie_name(request: Request) -> str:
    """Return a name of our own port, because browsers send cookies to every port.

    Otherwise two chats on one machine would log each other out.
    """
    return COOKIE if request.ends is None else f"{COOKIE}_{request.ends.near[1]}"


def _cookie(request: Request) -> str:
    for part in request.headers.get("cookie", "").split(";"):
        name, _, value = part.strip().partition("=")
        if name == _cookie_name(request):
            return value
    return ""


def _file(name: str) -> bytes:
    return (
        resources.files("bridgehead.bus.gateway").joinpath("static", name).read_bytes()
    )
