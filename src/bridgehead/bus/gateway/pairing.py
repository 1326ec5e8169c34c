"""Pair unknown devices (bus serve --pairing): the device shows six digits, a person
compares them and answers yes.

The digits are computed from a random number of each side and from the certificate the
device sees. The device commits to its number before it knows the server's, so nobody
in between can make both ends show the same digits.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
from collections.abc import Callable
from typing import Any, Final

import msgspec

from bridgehead.bus.access.certificates import key_fingerprint
from bridgehead.bus.access.credentials import (
    NONCE_BYTES,
    FailedAttempts,
    certificate_binding,
)
from bridgehead.bus.access.enrolment import Enrolment, enrol, is_free, kept_table
from bridgehead.bus.access.join_file import JoinFile, Pin
from bridgehead.bus.access.state_folder import StateFolder
from bridgehead.bus.actions import CloseCode
from bridgehead.bus.gateway.gateway import BUSY, Gateway
from bridgehead.bus.interfaces import ApprovalRequest, Approvals
from bridgehead.bus.participants.record import check_participant_id, parse_record
from bridgehead.bus.sockets.base import (
    NOT_FOUND,
    Answer,
    Conversation,
    Peer,
    Request,
    Site,
    Upgrade,
    WaitingConnections,
    share_of,
)
from bridgehead.bus.sockets.dial import (
    ClientConversation,
    ConnectionEnded,
    DialRefused,
    Target,
    dial,
)
from bridgehead.bus.wire.frames import from_base64, to_base64
from bridgehead.bus.wire.message import decode_json
from bridgehead.errors import BridgeheadError, ConfigError
from bridgehead.host.clock import Clock, SystemClock

_log: Final = logging.getLogger("bridgehead.bus")

WAIT_S: Final = 600.0
POLL_S: Final = 0.5
STEP_S: Final = 10.0
"""How long a device may take to send its name and its number."""
MAX_WAITING: Final = 8
WAITING_EACH: Final = 2
"""Devices of one address that may wait at the same time."""
QUESTIONS_EACH: Final = 6
QUESTIONS: Final = 30
QUESTIONS_IN_S: Final = 600.0
"""How many questions one address and all of them may cause in this time: each is
recorded and shown to a person.
"""
MAX_BYTES: Final = 4096
NO_PAIRING: Final = "the bridge does not offer pairing"


def pairing_code(
    participant: str, device_nonce: bytes, server_nonce: bytes, binding: bytes
) -> str:
    """Return the six digits that both ends compute, as `042 917`."""
    transcript = (
        b"bridgehead-v1 pair\x00"
        + device_nonce
        + server_nonce
        + binding
        + participant.encode()
    )
    digest = hashlib.sha256(transcript).digest()
    number = int.from_bytes(digest[:8], "big") % 1_000_000
    return f"{number // 1000:03d} {number % 1000:03d}"


class PairingEndpoint(Site):
    """Serves `/pair`, where unknown devices ask to join."""

    def __init__(
        self,
        gateway: Gateway,
        folder: StateFolder,
        approvals: Approvals,
        *,
        url: str,
        pin: Pin,
        clock: Clock | None = None,
        wait_s: float = WAIT_S,
        poll_s: float = POLL_S,
    ) -> None:
        self.gateway = gateway
        self.folder = folder
        self.approvals = approvals
        self.url = url
        self.pin = pin
        self.clock = clock or SystemClock()
        self.wait_s = wait_s
        self.poll_s = poll_s
        self.waiting: WaitingConnections[PairingSocket] = WaitingConnections(
            MAX_WAITING
        )
        """When too many wait, the oldest of the address with the most has to go, so
        that nobody takes all places.
        """
        self._questions = FailedAttempts(limit=QUESTIONS, window_s=QUESTIONS_IN_S)
        self._questions_each = FailedAttempts(
            limit=QUESTIONS_EACH, window_s=QUESTIONS_IN_S
        )

    def upgrade(self, request: Request) -> Upgrade | Answer:
        if request.path != "/pair" or "origin" in request.headers:
            return NOT_FOUND
        # Failed attempts from this address do not count here: other devices may be
        # behind it, and a new device has no key yet.
        if self.waiting.of(request.share) >= WAITING_EACH:
            self.gateway.refused(request.address, "pairing")
            return BUSY
        return Upgrade(
            PairingSocket(self, request.address), MAX_BYTES, first_bytes=MAX_BYTES
        )

    def may_ask(self, address: str) -> bool:
        """Return whether a person may be asked about one more device, and count it."""
        now = self.clock.monotonic()
        if self._questions.too_many("", now) or self._questions_each.too_many(
            share_of(address), now
        ):
            self.gateway.refused(address, "pairing")
            return False
        self._questions.note("", now)
        self._questions_each.note(share_of(address), now)
        return True


class PairingSocket(Conversation):
    """The connection of one device that waits for a yes."""

    def __init__(self, endpoint: PairingEndpoint, address: str) -> None:
        self._endpoint = endpoint
        self._address = address
        self._peer: Peer
        self._participant = ""
        self._commitment = b""
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._step: Callable[[dict[str, Any]], bool] = self._introduced
        self._task: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None

    # -- Conversation ---------------------------------------------------------

    def opened(self, peer: Peer) -> None:
        self._peer = peer
        leaving = self._endpoint.waiting.add(share_of(self._address), self)
        if leaving is not None:
            leaving.give_way()
        self._deadline = asyncio.get_running_loop().call_later(
            STEP_S, self._refuse, "too late"
        )

    def received(self, payload: bytes, *, text: bool) -> None:
        frame = decode_json(payload)
        is_expected = isinstance(frame, dict) and self._task is None
        if not is_expected or not self._step(frame):
            self._endpoint.gateway.authentication_failed(self._address)
            self._refuse("not understood")

    def closed(self, code: int, reason: str) -> None:
        self._endpoint.waiting.discard(share_of(self._address), self)
        if self._deadline is not None:
            self._deadline.cancel()
        if self._task is not None:
            self._task.cancel()

    # -- steps ----------------------------------------------------------------

    def _introduced(self, frame: dict[str, Any]) -> bool:
        """Take the name of the device and its commitment to a number.

        Return False if the frame is not that.
        """
        name = frame.get("participant")
        commitment = from_base64(frame.get("commit"), 32)
        if frame.get("l2") != "pair" or not isinstance(name, str) or commitment is None:
            return False
        try:
            self._participant = check_participant_id(name)
        except ConfigError:
            return False
        self._endpoint.gateway.reload()
        if not is_free(self._endpoint.gateway.directory.credentials.get(name)):
            self._refuse("this name is already in use")
            return True
        self._commitment = commitment
        self._step = self._revealed
        self._peer.send(
            msgspec.json.encode({"l2": "pair", "nonce": to_base64(self._nonce)})
        )
        return True

    def _revealed(self, frame: dict[str, Any]) -> bool:
        """Take the number the device committed to, and ask a person.

        Return False if the frame is not that.
        """
        nonce = from_base64(frame.get("nonce"), NONCE_BYTES)
        if frame.get("l2") != "reveal" or nonce is None:
            return False
        if not secrets.compare_digest(hashlib.sha256(nonce).digest(), self._commitment):
            return False
        if not self._endpoint.may_ask(self._address):
            self._refuse("too many devices asked; try again later")
            return True
        assert self._deadline is not None
        self._deadline.cancel()
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(
            self._endpoint.wait_s, self._refuse, "too late"
        )
        code = pairing_code(
            self._participant, nonce, self._nonce, self._endpoint.gateway.bindings[0]
        )
        self._task = loop.create_task(self._wait_for_answer(code))
        return True

    async def _wait_for_answer(self, code: str) -> None:
        """Enrol the device if a person agrees.

        It gets the record they were shown, whatever the file says by then.
        """
        endpoint = self._endpoint
        try:
            table = await asyncio.to_thread(
                kept_table, endpoint.folder, self._participant
            )
            rights = parse_record(self._participant, table).rights()
            if not await self._is_wanted(code, rights):
                self._refuse("refused by the operator")
                return
            request = Enrolment(
                self._participant, table, endpoint.url, endpoint.pin, paired=True
            )
            join = await asyncio.to_thread(
                enrol, endpoint.folder, request, endpoint.clock
            )
        except BridgeheadError as error:
            _log.error("pairing %s failed: %s", self._participant, error)
            self._refuse("the bridge could not enrol it")
            return
        endpoint.gateway.reload()
        self._peer.send(msgspec.json.encode({"l2": "paired", "join": join}))
        self._peer.close(1000, "paired")

    async def _is_wanted(self, code: str, rights: str) -> bool:
        approvals = self._endpoint.approvals
        request = ApprovalRequest(
            f"pair:{self._participant}:{secrets.token_hex(4)}",
            f"device {self._participant} asks to join the bus and shows {code}",
            f"A device at {self._address} asks to join as {self._participant!r}. "
            f"Answer yes only if its display shows {code}. "
            f"It would get: {rights}.",
            self._endpoint.wait_s,
        )
        await asyncio.to_thread(approvals.ask, request)
        answer: str | None = None
        try:
            answer = await asyncio.to_thread(approvals.answer_to, request.key)
            while answer is None:
                await asyncio.sleep(self._endpoint.poll_s)
                answer = await asyncio.to_thread(approvals.answer_to, request.key)
        finally:
            if answer is None:
                approvals.withdraw(request.key)
        return answer == "yes"

    def give_way(self) -> None:
        self._refuse("other devices are waiting; try again")

    def _refuse(self, reason: str) -> None:
        self._peer.close(CloseCode.NOT_AUTHENTICATED, reason)


async def pair(
    url: str, participant: str, show_code: Callable[[str], None]
) -> JoinFile:
    """Show the digits on the device, wait for the yes, and return the join file."""
    check_participant_id(participant)
    conversation = await _dial_for_pairing(url)
    shown = conversation.peer.certificate
    binding = certificate_binding(shown)
    nonce = secrets.token_bytes(NONCE_BYTES)
    try:
        introduction = {
            "l2": "pair",
            "participant": participant,
            "commit": to_base64(hashlib.sha256(nonce).digest()),
        }
        await conversation.send(msgspec.json.encode(introduction))
        reply = _read(await conversation.receive())
        server_nonce = from_base64(reply.get("nonce"), NONCE_BYTES)
        if server_nonce is None:
            raise PairingRefused(NO_PAIRING)
        await conversation.send(
            msgspec.json.encode({"l2": "reveal", "nonce": to_base64(nonce)})
        )
        show_code(pairing_code(participant, nonce, server_nonce, binding))
        reply = _read(await conversation.receive())
        join = msgspec.convert(reply.get("join"), JoinFile)
    except ConnectionEnded as ended:
        raise PairingRefused(ended.reason or "the connection ended") from ended
    except msgspec.ValidationError as error:
        raise PairingRefused("its answer cannot be read") from error
    finally:
        conversation.peer.close(1000, "")
    if join.key_sha256 is not None and (
        shown is None or key_fingerprint(shown) != join.key_sha256
    ):
        raise PairingRefused("it sent a different key than it showed")
    return join


async def _dial_for_pairing(url: str) -> ClientConversation:
    conversation = ClientConversation()
    try:
        # Any certificate will do: it goes into the digits that a person compares.
        await dial(Target(url, accept_any_certificate=True), conversation)
    except DialRefused as refused:
        is_full = refused.status == BUSY.status
        raise PairingRefused(
            "too many devices wait; try again in a minute" if is_full else NO_PAIRING
        ) from refused
    return conversation


def _read(payload: bytes) -> dict[str, Any]:
    frame = decode_json(payload)
    return frame if isinstance(frame, dict) else {}


class PairingRefused(BridgeheadError):
    """The device was not let in."""

    def __init__(self, cause: str) -> None:
        super().__init__(
            f"pairing failed: {cause}",
            hint="run the bridge with --pairing, and answer yes to the request",
        )
