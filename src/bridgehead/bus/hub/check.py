"""`bus check`: look at a hub the way a bridge would use it, and say what is wrong with
it.

Each finding has a stable class, says whether it is fine, to be looked at or broken, and
what to do about it.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Literal

import msgspec

from bridgehead.bus.sockets.dial import (
    ClientConversation,
    ConnectionEnded,
    DialRefused,
    Target,
    Unreachable,
    dial,
)
from bridgehead.bus.transports.base import is_encrypted
from bridgehead.bus.wire.message import (
    Malformed,
    Message,
    decode_json,
    encode,
    read_value,
)
from bridgehead.bus.wire.topics import (
    HANDLED,
    MATCHED,
    PROBE,
    SYNC,
    UNMATCHED,
    UPDATE_DEFAULT,
)
from bridgehead.errors import BridgeheadError

State = Literal["fine", "look", "broken"]


class Finding(msgspec.Struct, frozen=True):
    """One thing that was checked."""

    kind: str
    state: State
    sentence: str
    fix: str | None = None


class CheckOptions(msgspec.Struct, frozen=True):
    """What is looked at and for how long."""

    url: str
    token: str | None = None
    listen_s: float = 1.0
    assistant: bool = False
    """Whether our own assistant answers on this hub."""
    profile: str = "auto"
    foreign: bool = False
    """Whether a bridge stands in front of this hub, and not in the process that serves
    it.
    """


async def check_hub(options: CheckOptions) -> list[Finding]:
    """Return all that is worth saying about the hub, in a deployer's order."""
    conversation = ClientConversation()
    headers = (("Authorization", f"Bearer {options.token}"),) if options.token else ()
    try:
        await dial(Target(options.url, headers), conversation)
    except DialRefused as refused:
        return [_refused(options.url, refused)]
    except (Unreachable, BridgeheadError) as error:
        return [
            Finding(
                "hub-unreachable",
                "broken",
                error.message,
                "`bridgehead bus serve` starts one",
            )
        ]
    findings = [Finding("hub-reachable", "fine", f"{options.url} answers")]
    try:
        findings.append(await _greeting(conversation))
        findings.append(await _echo(conversation))
        findings.append(await _origin(options))
        findings += await _traffic(conversation, options)
    except ConnectionEnded as ended:
        findings.append(
            Finding(
                "hub-closed",
                "broken",
                f"the hub ended the connection ({ended.code} {ended.reason})",
            )
        )
    finally:
        conversation.peer.abort()
    return findings


def _refused(url: str, refused: DialRefused) -> Finding:
    fix = {
        401: (
            "set hub_token in [bus]; without one, only the user that runs the hub may "
            "connect"
        ),
        403: "add this machine's name to hosts of the hub",
        404: "the path of a hub is /core",
    }.get(refused.status)
    return Finding(
        "hub-refused", "broken", f"{url} answered HTTP {refused.status}", fix
    )


async def _greeting(conversation: ClientConversation) -> Finding:
    try:
        async with asyncio.timeout(2):
            value = decode_json(await conversation.receive())
    except TimeoutError:
        return Finding(
            "hub-silent",
            "look",
            "the hub sent no greeting; it may not be a message bus",
        )
    if is_encrypted(value):
        return Finding(
            "hub-encrypted",
            "broken",
            "messages are encrypted with websocket.secret_key, which is not supported",
            "remove websocket.secret_key from the hub's configuration",
        )
    read = read_value(value)
    if isinstance(read, Malformed):
        return Finding(
            "hub-greeting",
            "broken",
            f"the hub's first frame is not a message ({read.reason})",
        )
    return Finding("hub-greeting", "fine", f"it greets with {read.message.type!r}")


async def _echo(conversation: ClientConversation) -> Finding:
    probe = Message(PROBE, {"n": secrets.token_hex(8)}, {"source": "bridgehead-check"})
    await conversation.send(encode(probe))
    try:
        async with asyncio.timeout(2):
            while True:
                read = read_value(decode_json(await conversation.receive()))
                if not isinstance(read, Malformed) and read.message == probe:
                    return Finding(
                        "hub-echo",
                        "fine",
                        "it relays messages unchanged, also to their sender",
                    )
    except TimeoutError:
        return Finding(
            "hub-echo",
            "broken",
            "a message sent to the hub did not come back unchanged; replies cannot be "
            "told apart from echoes",
        )


async def _origin(options: CheckOptions) -> Finding:
    """Check that a page in a browser cannot use the bus."""
    page = (("Origin", "http://page.invalid"),)
    conversation = ClientConversation()
    try:
        await dial(Target(options.url, page), conversation)
    except BridgeheadError:
        return Finding("hub-origin", "fine", "it refuses connections from web pages")
    conversation.peer.abort()
    return Finding(
        "hub-origin",
        "look",
        "it accepts connections from any web page the user opens",
        "use the embedded hub (bridgehead bus serve), which checks Origin",
    )


async def _traffic(
    conversation: ClientConversation, options: CheckOptions
) -> list[Finding]:
    """Listen for a while: who orchestrates here, and in which names?"""
    topics: set[str] = set()
    bad = 0
    # Stock clients ask this when they connect; a core of the legacy generation answers.
    await conversation.send(encode(Message(SYNC, {}, {"source": "bridgehead-check"})))
    try:
        async with asyncio.timeout(options.listen_s):
            while True:
                read = read_value(decode_json(await conversation.receive()))
                if isinstance(read, Malformed):
                    bad += 1
                else:
                    topics.add(read.message.type)
    except TimeoutError:
        pass
    findings = [_names(topics, options)]
    if bad:
        findings.append(
            Finding(
                "hub-bad-frames",
                "look",
                f"{bad} invalid frames were relayed to all clients",
            )
        )
    if options.assistant and topics & {
        MATCHED,
        UNMATCHED,
        HANDLED,
        "complete_intent_failure",
    }:
        findings.append(
            Finding(
                "two-orchestrators",
                "broken",
                "another program handles utterances on this hub; each would be "
                "answered twice",
                "remove assistant from [bus]",
            )
        )
    return findings


def _names(topics: set[str], options: CheckOptions) -> Finding:
    legacy = topics & {
        "recognizer_loop:utterance",
        "speak",
        "complete_intent_failure",
        UPDATE_DEFAULT,
    }
    spec = topics & {
        MATCHED,
        UNMATCHED,
        "ovos.utterance.handle",
        "ovos.utterance.speak",
    }
    if legacy and options.profile == "spec":
        return Finding(
            "hub-names",
            "broken",
            "a core that uses legacy names is connected, and profile spec sends none, "
            "so it receives nothing",
            'set profile = "auto" in [bus]',
        )
    if legacy and spec:
        return Finding(
            "hub-names",
            "fine",
            "it carries legacy and specification names; profile auto fits",
        )
    if legacy:
        return Finding(
            "hub-names", "fine", "it carries legacy names; profile auto or legacy fits"
        )
    if spec or (options.foreign and options.profile == "auto"):
        seen = (
            "it carries specification names only"
            if spec
            else "no core that uses legacy names answered"
        )
        return Finding(
            "hub-names",
            "look",
            f"{seen}; a core that uses only specification names misses the first "
            "utterances",
            'set profile = "spec" in [bus]',
        )
    return Finding(
        "hub-names",
        "fine",
        "no traffic was seen; profile auto decides at the first message",
    )
