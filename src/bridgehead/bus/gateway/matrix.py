"""The Matrix door: rooms and threads of a Matrix account, encrypted ones too, talk to the assistant.

Nothing is posted twice: what is posted has a transaction id made of the message that it answers, the server knows the
ids it has seen, and how far everything has been answered is kept beside the other state of the bridge.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import deque
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec
import nio

from bridgehead.bus.client.participant import waits
from bridgehead.bus.gateway.door import Door
from bridgehead.bus.participants.record import ParticipantRecord
from bridgehead.bus.relay import Relay
from bridgehead.errors import BridgeheadError
from bridgehead.host.directories import make_private_dir
from bridgehead.host.file_errors import FileMissing
from bridgehead.host.files import read_bounded, write_atomic

_log: Final = logging.getLogger("bridgehead.bus.matrix")
SYNC_MS: Final = 30_000
TYPING_MS: Final = 30_000
CLOSE_S: Final = 2.0
MOST_ANSWERED: Final = 2000
MAX_BYTES: Final = 4 * 1024 * 1024
TIMELINE: Final = {"room": {"timeline": {"limit": 50}}}
ONLY_TEXT: Final = "I can only read text."
UNREADABLE: Final = "I cannot read this encrypted message; it may have been sent before I was here."
_MEDIA: Final = ("m.image", "m.file", "m.audio", "m.video", "m.location")


class MatrixState(msgspec.Struct):
    """How far everything has been answered, and with what."""

    since: str | None = None
    answered: dict[str, str] = {}
    """Message to the first answer, in the order they were given."""


class MatrixDoor(Door):
    """One account, which talks to those it is allowed to."""

    def __init__(
        self, relay: Relay, record: ParticipantRecord, *, url: str, token: str, allow: Sequence[str], folder: Path
    ) -> None:
        super().__init__(relay, record)
        self._url = url
        self._token = token
        self._allow = tuple(allow)
        self._folder = folder
        self._state = MatrixState()
        self.listens = False
        self._client: nio.AsyncClient
        self._said: dict[str, int] = {}
        """How often each open message has been answered."""
        self._batches: deque[tuple[str, set[str]]] = deque()
        """Tokens of the server, each with the messages up to it that are still open."""
        self._sending: dict[str, asyncio.Task[None]] = {}
        """The last thing that is done in each room; the next one waits for it."""

    # -- Door -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        make_private_dir(self._folder)
        self._state = _read(self._folder / "state.json")
        self._client = nio.AsyncClient(self._url, store_path=str(self._folder))
        self._client.access_token = self._token
        try:
            known = _checked(await self._client.whoami())
            self._client.restore_login(known.user_id, known.device_id or "bridgehead", self._token)
            since = self._state.since
            while True:
                since = await self._sync(since, is_first=not self.listens)
                self.listens = True
        finally:
            self.listens = False
            if self._sending:
                _done, left = await asyncio.wait(self._sending.values(), timeout=CLOSE_S)
                for task in left:
                    task.cancel()
            await self._client.close()

    def speak(self, room: str, text: str, message_id: str | None, *, is_open: bool) -> None:
        room_id, _, root = room.partition(" ")
        ordinal = edited = None
        if is_open and message_id is not None:
            ordinal = self._said[message_id] = self._said.get(message_id, 0) + 1
            edited = self._state.answered.get(message_id) if ordinal == 1 else None
        content = message_content(text, root, message_id, edited)
        # The first answer to a message is that also when it is made again in other words after a restart.
        unique = f"{message_id} {ordinal}" if ordinal and not edited else f"{message_id} {text}"
        # What is said to nobody in particular is said in every room.
        for one in (room_id,) if room_id.startswith("!") else tuple(self._client.rooms):
            transaction = hashlib.sha256(f"{one} {unique}".encode()).hexdigest()
            self._later(one, self._post(one, content, transaction, message_id if ordinal else None))

    def think(self, room: str, message_id: str, *, on: bool) -> None:
        room_id = room.partition(" ")[0]
        still = on or any(other.partition(" ")[0] == room_id for other in self._open.values())
        self._later(room_id, self._client.room_typing(room_id, still, TYPING_MS))
        if not on:
            self._said.pop(message_id, None)
            self._later(room_id, self._note(message_id))

    # -- what comes -----------------------------------------------------------------------------------------------

    async def _sync(self, since: str | None, *, is_first: bool) -> str:
        """Take what is new since a token; returns the next one. The first time the rooms are told as a whole."""
        synced = _checked(await self._client.sync(SYNC_MS, TIMELINE, since=since, full_state=is_first))
        for room_id, invited in synced.rooms.invite.items():
            await self._invited(room_id, invited)
        before = set(self._open)
        # What was said before we ever came is no question.
        for room_id, joined in synced.rooms.join.items() if since is not None else ():
            for event in joined.timeline.events:
                try:
                    self._received(room_id, event)
                except (AttributeError, TypeError, ValueError) as error:  # anybody may send anything
                    _log.warning("an event of %s was left out: %s", room_id, error)
        if self._client.should_upload_keys:
            await self._client.keys_upload()
        if self._client.should_query_keys:
            await self._client.keys_query()
        self._batches.append((synced.next_batch, set(self._open) - before))
        await self._advance()
        return str(synced.next_batch)

    async def _invited(self, room_id: str, invited: Any) -> None:
        own = self._client.user_id
        invitations = [event for event in invited.invite_state if getattr(event, "state_key", None) == own]
        inviter = invitations[-1].sender if invitations else ""
        if self.may_speak(inviter):
            _checked(await self._client.join(room_id))
        else:
            _log.warning("an invitation by %r was refused", inviter)
            _checked(await self._client.room_leave(room_id))

    def may_speak(self, user: str) -> bool:
        """Whether this user may invite and ask: by name, or as one of a server (`*:example.org`)."""
        server = user.partition(":")[2]
        return user in self._allow or (bool(server) and f"*:{server}" in self._allow)

    def _received(self, room_id: str, event: nio.Event) -> None:
        if event.sender == self._client.user_id or not self.may_speak(event.sender):
            return
        content = event.source.get("content", {})
        relation = content.get("m.relates_to") if isinstance(content.get("m.relates_to"), dict) else {}
        is_edit = relation.get("rel_type") == "m.replace"
        message_id = str(relation.get("event_id")) if is_edit else event.event_id
        root = relation.get("event_id") if relation.get("rel_type") == "m.thread" else None
        room = f"{room_id} {root}" if isinstance(root, str) and len(room_id) + len(root) < 128 else room_id
        if message_id in self._open or (message_id in self._state.answered and not is_edit):
            return
        if isinstance(event, nio.RoomMessageText):
            said = content.get("m.new_content", {}).get("body") if is_edit else event.body
            if isinstance(said, str) and said.strip() and self._is_addressed(room_id, content, said):
                self._later(room_id, self._client.room_read_markers(room_id, event.event_id, event.event_id))
                self.heard(room, said, message_id)
        elif isinstance(event, nio.MegolmEvent):
            self.speak(room, UNREADABLE, message_id, is_open=False)
        elif content.get("msgtype") in _MEDIA and self._is_addressed(room_id, content, ""):
            self.speak(room, ONLY_TEXT, message_id, is_open=False)

    def _is_addressed(self, room_id: str, content: dict[str, Any], said: str) -> bool:
        """In a room with others the assistant is spoken to by name; alone with somebody, always."""
        room = self._client.rooms.get(room_id)
        if room is None or room.member_count <= 2:
            return True
        mentions = content.get("m.mentions")
        mentioned = mentions.get("user_ids", ()) if isinstance(mentions, dict) else ()
        own = self._client.user_id
        names = {own, own[1:].partition(":")[0], room.user_name(own) or own}
        return own in mentioned or any(name.lower() in said.lower() for name in names)

    # -- what goes ------------------------------------------------------------------------------------------------

    def _later(self, room_id: str, work: Coroutine[Any, Any, Any]) -> None:
        """Do it after what is under way in the room, so that answers keep their order."""
        self._sending[room_id] = asyncio.get_running_loop().create_task(_after(self._sending.get(room_id), work))

    async def _post(self, room_id: str, content: dict[str, Any], transaction: str, answers: str | None = None) -> None:
        for wait_s in waits():
            try:
                sent = await self._client.room_send(
                    room_id, "m.room.message", content, tx_id=transaction, ignore_unverified_devices=True
                )
                break
            except (aiohttp.ClientError, TimeoutError):  # the server is away; it knows what it has got before
                await asyncio.sleep(wait_s)
        _checked(sent)
        if answers is not None:
            self._state.answered.setdefault(answers, sent.event_id)

    async def _note(self, message_id: str) -> None:
        """The message has had its end marker; one that was answered by silence is answered, too."""
        self._state.answered.setdefault(message_id, "")
        while len(self._state.answered) > MOST_ANSWERED:
            del self._state.answered[next(iter(self._state.answered))]
        for _token, still_open in self._batches:
            still_open.discard(message_id)
        await self._advance()

    async def _advance(self) -> None:
        """Keep how far everything is answered: the next start asks again what was still open."""
        while self._batches and not self._batches[0][1]:
            self._state.since = self._batches.popleft()[0]
        kept = msgspec.json.encode(self._state)
        await asyncio.to_thread(write_atomic, self._folder / "state.json", kept, private=True)


def message_content(text: str, root: str, message_id: str | None, edited: str | None) -> dict[str, Any]:
    """A text as Matrix wants it: an edit of an earlier one, an answer in a thread, an answer, or neither."""
    content: dict[str, Any] = {"msgtype": "m.text", "body": text}
    reply = {"m.in_reply_to": {"event_id": message_id}} if message_id else {}
    if edited:
        relation: dict[str, Any] = {"rel_type": "m.replace", "event_id": edited}
        return {"msgtype": "m.text", "body": f"* {text}", "m.new_content": content, "m.relates_to": relation}
    if root:
        relation = {"rel_type": "m.thread", "event_id": root, "is_falling_back": True, **reply}
        return {**content, "m.relates_to": relation}
    return {**content, "m.relates_to": reply} if reply else content


async def _after(before: asyncio.Task[None] | None, work: Coroutine[Any, Any, Any]) -> None:
    if before is not None:
        await asyncio.wait((before,))
    try:
        await work
    except Exception as error:  # a room that is gone is no reason to stop in the others
        _log.warning("%s: %s", type(error).__name__, error)


def _checked(reply: Any) -> Any:
    if isinstance(reply, nio.ErrorResponse):
        raise BridgeheadError(f"the Matrix server refused that: {reply.message}")
    return reply


def _read(path: Path) -> MatrixState:
    try:
        return msgspec.json.decode(read_bounded(path, MAX_BYTES), type=MatrixState)
    except FileMissing:
        return MatrixState()
