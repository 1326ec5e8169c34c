"""The Matrix door: rooms and threads of a Matrix account, encrypted ones too, talk to
the assistant.

What is said there is asked for (an account like a person's), or brought by the server
(an application service); from then on it is the same. Each room is a participant of its
own, so that none waits for another, and what is answered late is told in the room where
it was asked.

Nothing is posted twice: what is posted has a transaction id made of the message that it
answers, the server knows the ids it has seen, and how far everything has been answered
is kept beside the other state of the bridge.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
from collections import deque
from collections.abc import Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

import aiohttp
import msgspec
import nio

from bridgehead.bus.actions import CloseCode
from bridgehead.bus.client.participant import waits
from bridgehead.bus.gateway.chat import CHAT_PREFIX
from bridgehead.bus.gateway.doors.door import Door
from bridgehead.bus.participants.participants import TooManyParticipants
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
EDIT_S: Final = 1.0
"""How long an answer that is being made stays as it is before its next edit."""
MOST_ANSWERED: Final = 2000
MOST_TRANSACTIONS: Final = 1000
MOST_FALLBACK: Final = 500
"""Characters of an edit for programs that know no edits.

The text is in it once more, and a message has 64 KiB.
"""
MAX_BYTES: Final = 64 * 1024 * 1024
REGISTER: Final = "/_matrix/client/v3/register"
TIMELINE: Final = {"room": {"timeline": {"limit": 50}}}
ONLY_TEXT: Final = "I can only read text."
UNREADABLE: Final = (
    "I cannot read this encrypted message; it may have been sent before I joined."
)
NO_KEYS: Final = (
    "I cannot read encrypted rooms; invite me to one that is not encrypted."
)
LONGEST_CHANNEL: Final = 128
_MEDIA: Final = ("m.image", "m.file", "m.audio", "m.video", "m.location")


class MatrixState(msgspec.Struct):
    """How far everything has been answered, and with what."""

    since: str | None = None
    answered: dict[str, str] = {}
    """Message to the first answer, in the order they were given."""
    begun: dict[str, str] = {}
    """Message to an answer of which only the beginning has been posted."""
    transactions: list[str] = []
    """The last ones an application service was brought."""
    brought: dict[str, dict[str, Any]] = {}
    """Open messages that the server has brought and will not bring again."""


class RoomMessage(msgspec.Struct, frozen=True):
    """Which message an event of a room is about."""

    id: str
    """The event, or the one that it edits."""
    room: str
    """The room, and the thread if it is in one."""
    is_edit: bool = False


class MatrixDoor(Door):
    """One account, which talks to those it is allowed to.

    With a name to `serve_as` it is an application service.
    """

    listens = False  # its rooms do
    shows_pieces = True

    def __init__(
        self,
        relay: Relay,
        record: ParticipantRecord,
        *,
        url: str,
        token: str,
        allow: Sequence[str],
        folder: Path,
        serve_as: str | None = None,
    ) -> None:
        super().__init__(relay, record)
        self._url = url
        self._token = token
        self._allow = tuple(allow)
        self._folder = folder
        self._serve_as = serve_as
        self._state = MatrixState()
        self.is_ready = False
        self._taking = asyncio.Lock()
        self._client: nio.AsyncClient
        self._rooms: dict[str, MatrixRoomParticipant] = {}
        self._said: dict[str, int] = {}
        """How often each open message has been answered."""
        self._showing: dict[str, tuple[list[str], asyncio.Task[None]]] = {}
        """The pieces of an answer that is being made, and what shows them."""
        self._cannot_read: set[str] = set()
        self._batches: deque[tuple[str, set[str]]] = deque()
        """Tokens of the server, each with the messages up to it that are still open."""
        self._sending: dict[str, asyncio.Task[None]] = {}
        """The last thing that is done in each room; the next one waits for it."""

    # -- Door -----------------------------------------------------------------

    async def run(self) -> None:
        make_private_dir(self._folder)
        self._state = _read(self._folder / "state.json")
        self._client = nio.AsyncClient(self._url, store_path=str(self._folder))
        self._client.access_token = self._token
        try:
            if self._serve_as is not None:
                await self._be_brought(self._serve_as)
            known = _checked(await self._client.whoami())
            self._client.restore_login(
                known.user_id, known.device_id or "bridgehead", self._token
            )
            since = self._state.since
            while True:
                since = await self._sync(since, is_first=not self.is_ready)
                self.is_ready = True
        finally:
            self.is_ready = False
            if self._sending:
                _done, left = await asyncio.wait(
                    self._sending.values(), timeout=CLOSE_S
                )
                for task in left:
                    task.cancel()
            await self._client.close()

    def speak(
        self, room: str, text: str, message_id: str | None, *, is_open: bool
    ) -> None:
        room_id, _, root = room.partition(" ")
        ordinal = 0
        if is_open and message_id is not None:
            ordinal = self._said[message_id] = self._said.get(message_id, 0) + 1
            self._stop_showing(message_id)
        # What is said to nobody in particular is said in every room.
        room_ids = [room_id] if room_id.startswith("!") else list(self._client.rooms)
        for target in room_ids:
            self._later(target, self._answer(target, root, text, message_id, ordinal))

    def piece(self, room: str, text: str, message_id: str) -> None:
        if message_id not in self._showing:
            pieces: list[str] = []
            showing = asyncio.get_running_loop().create_task(
                self._show(room, message_id, pieces)
            )
            self._showing[message_id] = (pieces, showing)
        self._showing[message_id][0].append(text)

    async def _show(self, room: str, message_id: str, pieces: list[str]) -> None:
        room_id, _, root = room.partition(" ")
        shown = ""
        while True:
            await asyncio.sleep(EDIT_S)
            text = "".join(pieces)
            if text == shown:
                continue
            self._later(
                room_id,
                self._answer(room_id, root, text, message_id, 1, is_whole=False),
            )
            await asyncio.wait((self._sending[room_id],))
            shown = text

    def _stop_showing(self, message_id: str) -> None:
        showing = self._showing.pop(message_id, None)
        if showing is not None:
            _pieces, task = showing
            task.cancel()

    def think(self, room: str, message_id: str, *, on: bool) -> None:
        room_id = room.partition(" ")[0]
        still = on or any(
            other.partition(" ")[0] == room_id for other in self._open.values()
        )
        self._later(room_id, self._client.room_typing(room_id, still, TYPING_MS))
        if not on:
            self._said.pop(message_id, None)
            self._stop_showing(message_id)
            self._later(room_id, self._note(message_id))

    def close(self, code: CloseCode) -> None:
        super().close(code)
        for room_id in tuple(self._rooms):
            self._leave(room_id)

    def participant(self, room: str) -> str:
        """Return the room as a participant, with the rights of the door as they are
        now; its threads belong to it.
        """
        room_id = room.partition(" ")[0]
        known = self._relay.bridge.known
        of_door = known.get(self._record.id)
        record = msgspec.structs.replace(
            self._record if of_door is None else of_door.record,
            id=self._name(room_id),
            managed_session_id=None,
            ephemeral=True,
        )
        if room_id in self._rooms:
            self._relay.change_record(record)
            return record.id
        try:
            connection = self._rooms[room_id] = MatrixRoomParticipant(self, room_id)
            self._relay.join(record, connection)
        except TooManyParticipants as full:
            _log.warning("%s", full)
            del self._rooms[room_id]
            return self._record.id
        return record.id

    def _name(self, room_id: str) -> str:
        digest = hashlib.sha256(room_id.encode()).hexdigest()
        return f"{CHAT_PREFIX}{self._record.id[:32]}-{digest[:16]}"

    def _leave(self, room_id: str) -> None:
        self._client.rooms.pop(room_id, None)
        if (connection := self._rooms.pop(room_id, None)) is not None:
            self._relay.leave(self._name(room_id), connection, goodbye=True)

    def forget(self, room_id: str) -> None:
        """Forget a room that the bus has dismissed.

        It joins again with the next message.
        """
        self._rooms.pop(room_id, None)

    # -- what comes -----------------------------------------------------------

    async def _sync(self, since: str | None, *, is_first: bool) -> str:
        """Take what is new since a token; returns the next one.

        The first time the rooms are told as a whole.
        """
        synced = _checked(
            await self._client.sync(SYNC_MS, TIMELINE, since=since, full_state=is_first)
        )
        before = set(self._open)
        # What was said before we ever came is no question.
        await self._take(synced, is_heard=since is not None)
        if self._client.should_upload_keys:
            await self._client.keys_upload()
        if self._client.should_query_keys:
            await self._client.keys_query()
        self._batches.append((synced.next_batch, set(self._open) - before))
        await self._advance()
        return str(synced.next_batch)

    async def _be_brought(self, name: str) -> NoReturn:
        """Be an application service: know the rooms and what was open, then wait for
        what the server brings.
        """
        wanted = {
            "type": "m.login.application_service",
            "username": name,
            "inhibit_login": True,
        }
        headers = {"Authorization": f"Bearer {self._token}"}
        async with await self._client.send(
            "POST", REGISTER, json.dumps(wanted), headers
        ) as reply:
            if reply.status != 200:
                _check_registration(await reply.json())
        self._client.user_id = _checked(await self._client.whoami()).user_id
        rooms = (
            {"room_id": room_id}
            for room_id in _checked(await self._client.joined_rooms()).rooms
        )
        for event in (*rooms, *self._state.brought.values()):
            await self._event(event)
        self.is_ready = True
        await asyncio.get_running_loop().create_future()
        raise AssertionError("this future is never set")

    async def transaction(self, name: str, events: list[Any]) -> bool:
        """Take what the server brings, each transaction once.

        False as long as it must try again.
        """
        async with self._taking:
            if self.is_ready and name not in self._state.transactions:
                for event in events:
                    await self._event(event)
                transactions = [*self._state.transactions, name]
                self._state.transactions = transactions[-MOST_TRANSACTIONS:]
                # Before the server is told that it need not bring this again.
                await self._advance()
            return self.is_ready

    async def _event(self, event: Any) -> None:
        """Take one event that was brought.

        Whatever is wrong with it, the server would bring it again for ever.
        """
        try:
            await self._bring(event, event["room_id"])
        # Nothing is wrong with the event, but with the server, or the way there.
        except (aiohttp.ClientError, TimeoutError):
            raise
        except Exception as error:
            _log.warning("an event was skipped: %s: %s", type(error).__name__, error)

    async def _bring(self, event: dict[str, Any], room_id: str) -> None:
        """Take an event as if it had been asked for, with the state of a room that is
        new to us.
        """
        is_own = (
            event.get("type") == "m.room.member"
            and event["state_key"] == self._client.user_id
        )
        membership = event["content"]["membership"] if is_own else "join"
        if membership == "invite":
            update: dict[str, Any] = {"invite_state": {"events": [event]}}
        elif membership == "join":
            state = []
            if room_id not in self._client.rooms:
                state = _checked(await self._client.room_get_state(room_id)).events
            timeline = [event] if "type" in event else []
            update = {"state": {"events": state}, "timeline": {"events": timeline}}
        else:
            self._leave(room_id)
            return
        sync = {
            "next_batch": secrets.token_hex(8),
            "rooms": {membership: {room_id: update}},
        }
        synced = _checked(nio.SyncResponse.from_dict(sync))
        await self._client.receive_response(synced)
        await self._take(synced, is_heard=True)

    async def _take(self, synced: nio.SyncResponse, *, is_heard: bool) -> None:
        for room_id, invited in synced.rooms.invite.items():
            try:
                await self._invited(room_id, invited)
            except BridgeheadError as error:  # it was taken back meanwhile
                _log.warning(
                    "the invitation to %s was not accepted: %s", room_id, error
                )
        for room_id in synced.rooms.leave:
            self._leave(room_id)
        for room_id, joined in synced.rooms.join.items():
            self.participant(room_id)
            if not is_heard:
                continue
            for event in joined.timeline.events:
                try:
                    self._received(room_id, event)
                # Anybody may send anything.
                except (AttributeError, TypeError, ValueError) as error:
                    _log.warning("an event in %s was skipped: %s", room_id, error)

    async def _invited(self, room_id: str, invited: Any) -> None:
        own = self._client.user_id
        invitations = [
            event
            for event in invited.invite_state
            if getattr(event, "state_key", None) == own
        ]
        inviter = invitations[-1].sender if invitations else ""
        if self.may_speak(inviter):
            _checked(await self._client.join(room_id))
        else:
            _log.warning("an invitation by %r was refused", inviter)
            _checked(await self._client.room_leave(room_id))

    def may_speak(self, user: str) -> bool:
        """Return whether this user may invite and ask.

        Users are allowed by name, or with everybody of a server (`*:example.org`).
        """
        server = user.partition(":")[2]
        return user in self._allow or (bool(server) and f"*:{server}" in self._allow)

    def _received(self, room_id: str, event: nio.Event) -> None:
        """Take an event of a room from somebody who may speak to us."""
        if event.sender == self._client.user_id or not self.may_speak(event.sender):
            return
        content = event.source.get("content", {})
        message = _room_message(room_id, event.event_id, content)
        if message.id in self._open:
            return
        if message.id in self._state.answered and not message.is_edit:
            return
        if self._is_closed(room_id):
            self._excuse_missing_keys(room_id, event)
        elif isinstance(event, nio.RoomMessageText):
            self._received_text(room_id, event, message)
        elif isinstance(event, nio.MegolmEvent):
            self.speak(message.room, UNREADABLE, message.id, is_open=False)
        elif content.get("msgtype") not in _MEDIA:
            return
        elif self._is_addressed(room_id, content, ""):
            self.speak(message.room, ONLY_TEXT, message.id, is_open=False)

    def _excuse_missing_keys(self, room_id: str, event: nio.Event) -> None:
        """Say once in an encrypted room that nothing can be read there."""
        is_message = isinstance(event, nio.MegolmEvent | nio.RoomMessage)
        if is_message and room_id not in self._cannot_read:
            self._cannot_read.add(room_id)
            self.speak(room_id, NO_KEYS, None, is_open=False)

    def _received_text(
        self, room_id: str, event: nio.RoomMessageText, message: RoomMessage
    ) -> None:
        """Put a text to the assistant if it is meant for it."""
        content = event.source["content"]
        text = event.body
        if message.is_edit:
            text = content.get("m.new_content", {}).get("body")
        if not isinstance(text, str) or not text.strip():
            return
        if not self._is_addressed(room_id, content, text):
            return
        self._later(
            room_id,
            self._client.room_read_markers(room_id, event.event_id, event.event_id),
        )
        self.heard(message.room, text, message.id)
        if self._serve_as is not None and message.id in self._open:
            self._state.brought[message.id] = event.source

    def _is_closed(self, room_id: str) -> bool:
        """Return whether a room is encrypted and we have no keys.

        That is so for an application service. Nothing may go there in the clear.
        """
        room = self._client.rooms.get(room_id)
        return room is not None and room.encrypted and self._client.olm is None

    def _is_addressed(self, room_id: str, content: dict[str, Any], said: str) -> bool:
        """Return whether a message is meant for the assistant.

        In a room with several people, the message must name it.
        """
        room = self._client.rooms.get(room_id)
        if room is None or room.member_count <= 2:
            return True
        mentions = content.get("m.mentions")
        mentioned = mentions.get("user_ids", ()) if isinstance(mentions, dict) else ()
        own = self._client.user_id
        names = {own, own[1:].partition(":")[0], room.user_name(own) or own}
        return own in mentioned or any(name.lower() in said.lower() for name in names)

    # -- what goes ------------------------------------------------------------

    def _later(self, room_id: str, work: Coroutine[Any, Any, Any]) -> None:
        """Do the work after what is under way in the room, to keep the order."""
        self._sending[room_id] = asyncio.get_running_loop().create_task(
            _after(self._sending.get(room_id), work)
        )

    async def _answer(
        self,
        room_id: str,
        root: str,
        text: str,
        message_id: str | None,
        ordinal: int,
        *,
        is_whole: bool = True,
    ) -> None:
        """Post a text. The first answer to a message takes the place of its beginning,
        or of one to earlier words.
        """
        named = str(message_id)
        edited = None
        if ordinal == 1:
            edited = self._state.begun.get(named) or self._state.answered.get(named)
        unique = f"{message_id} {text}" if message_id else secrets.token_hex(16)
        if ordinal and not edited:
            # The first answer to a message stays the first when it is made again in
            # other words after a restart.
            unique = f"{message_id} {ordinal if is_whole else 'begun'}"
        content = message_content(text, root, message_id, edited)
        sent = await self._post(room_id, content, f"{room_id} {unique}")
        if sent is None:
            return
        if ordinal and is_whole:
            self._state.answered.setdefault(named, edited or sent)
        elif not is_whole and not edited:
            self._state.begun[named] = sent
            await self._advance()

    async def _post(
        self, room_id: str, content: dict[str, Any], unique: str
    ) -> str | None:
        if self._is_closed(room_id) and content["body"] != NO_KEYS:
            return None
        transaction = hashlib.sha256(unique.encode()).hexdigest()
        for wait_s in waits():
            try:
                sent = await self._client.room_send(
                    room_id,
                    "m.room.message",
                    content,
                    tx_id=transaction,
                    ignore_unverified_devices=True,
                )
                break
            # The server is away; it knows what it has got before.
            except (aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(wait_s)
        return str(_checked(sent).event_id)

    async def _note(self, message_id: str) -> None:
        """Note the end marker of a message; silence is an answer, too."""
        self._state.answered.setdefault(message_id, "")
        while len(self._state.answered) > MOST_ANSWERED:
            del self._state.answered[next(iter(self._state.answered))]
        self._state.begun.pop(message_id, None)
        self._state.brought.pop(message_id, None)
        for _token, still_open in self._batches:
            still_open.discard(message_id)
        await self._advance()

    async def _advance(self) -> None:
        """Keep how far everything is answered: the next start asks again what was still
        open.
        """
        while self._batches and not self._batches[0][1]:
            self._state.since = self._batches.popleft()[0]
        kept = msgspec.json.encode(self._state)
        await asyncio.to_thread(
            write_atomic, self._folder / "state.json", kept, private=True
        )


class MatrixRoomParticipant:
    """A room, as the bus sees it; what the bus says goes through the door."""

    def __init__(self, door: MatrixDoor, room_id: str) -> None:
        self._door = door
        self.welcome = door.welcome
        self.refuse = door.refuse
        self.deliver = partial(door.deliver, place=room_id)
        self.close = lambda code: door.forget(room_id)

    @property
    def listens(self) -> bool:
        return self._door.is_ready


def _room_message(room_id: str, event_id: str, content: dict[str, Any]) -> RoomMessage:
    relation = content.get("m.relates_to")
    if not isinstance(relation, dict):
        return RoomMessage(event_id, room_id)
    kind = relation.get("rel_type")
    target = relation.get("event_id")
    if kind == "m.replace":
        return RoomMessage(str(target), room_id, is_edit=True)
    if kind == "m.thread" and isinstance(target, str):
        thread = f"{room_id} {target}"
        if len(thread) <= LONGEST_CHANNEL:
            return RoomMessage(event_id, thread)
    return RoomMessage(event_id, room_id)


def message_content(
    text: str, root: str, message_id: str | None, edited: str | None
) -> dict[str, Any]:
    """Return a text as Matrix wants it: an edit of an earlier one, an answer in a
    thread, an answer, or neither.
    """
    content: dict[str, Any] = {"msgtype": "m.text", "body": text}
    reply = {"m.in_reply_to": {"event_id": message_id}} if message_id else {}
    if edited:
        relation: dict[str, Any] = {"rel_type": "m.replace", "event_id": edited}
        fallback = {"msgtype": "m.text", "body": f"* {text[:MOST_FALLBACK]}"}
        return {**fallback, "m.new_content": content, "m.relates_to": relation}
    if root:
        relation = {
            "rel_type": "m.thread",
            "event_id": root,
            "is_falling_back": True,
            **reply,
        }
        return {**content, "m.relates_to": relation}
    if reply:
        return {**content, "m.relates_to": reply}
    return content


async def _after(
    before: asyncio.Task[None] | None, work: Coroutine[Any, Any, Any]
) -> None:
    if before is not None:
        await asyncio.wait((before,))
    try:
        await work
    except Exception as error:  # a room that is gone is no reason to stop in the others
        _log.warning("%s: %s", type(error).__name__, error)


def _checked(reply: Any) -> Any:
    if isinstance(reply, nio.ErrorResponse):
        raise BridgeheadError(f"the Matrix server refused a request: {reply.message}")
    return reply


def _check_registration(refused: dict[str, Any]) -> None:
    """Raise unless our name was refused because we have it already."""
    if refused.get("errcode") != "M_USER_IN_USE":
        raise BridgeheadError(
            f"the Matrix server refused the registration: {refused.get('error')}; "
            "list the file in app_service_config_files there and restart it"
        )


def _read(path: Path) -> MatrixState:
    try:
        return msgspec.json.decode(read_bounded(path, MAX_BYTES), type=MatrixState)
    except FileMissing:
        return MatrixState()
