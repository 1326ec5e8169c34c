"""Check a hub for `bus check` the way a bridge would use it, and say what is wrong.

Each finding has a stable kind, says whether something is fine, worth a look or broken,
and what to do about it.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from typing import Final, Literal

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
LEGACY_TOPICS: Final = frozenset(
    {
        "recognizer_loop:utterance",
        "speak",
        "complete_intent_failure",
        UPDATE_DEFAULT,
    }
)
SPEC_TOPICS: Final = frozenset(
    {
        MATCHED,
        UNMATCHED,
        "ovos.utterance.handle",
        "ovos.utterance.speak",
    }
)
ORCHESTRATOR_TOPICS: Final = frozenset(
    {
        MATCHED,
        UNMATCHED,
        HANDLED,
        "complete_intent_failure",
    }
)
"""What only a program that handles utterances sends."""


class Finding(msgspec.Struct, frozen=True):
    """One thing that was checked."""

    kind: str
    state: State
    sentence: str
    fix: str | None = None


class CheckOptions(msgspec.Struct, frozen=True):
    """What to check and for how long."""

    url: str
    token: str | None = None
    listen_s: float = 1.0
    assistant: bool = False
    """Whether our own assistant answers on this hub."""
    profile: str = "auto"
    foreign: bool = False
    """Whether the bridge runs in another process than the hub."""


async def check_hub(options: CheckOptions) -> list[Finding]:
    """Return the findings about a hub, in the order in which one would fix them."""
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
    """Listen for a while to find out who handles utterances, and under which names."""
    topics: set[str] = set()
    invalid_frames = 0
    # Stock clients ask this when they connect; a core of the legacy generation answers.
    await conversation.send(encode(Message(SYNC, {}, {"source": "bridgehead-check"})))
    with suppress(TimeoutError):
        async with asyncio.timeout(options.listen_s):
            while True:
                read = read_value(decode_json(await conversation.receive()))
                if isinstance(read, Malformed):
                    invalid_frames += 1
                else:
                    topics.add(read.message.type)
    findings = [_names(topics, options)]
    if invalid_frames:
        findings.append(
            Finding(
                "hub-bad-frames",
                "look",
                f"{invalid_frames} invalid frames were relayed to all clients",
            )
        )
    if options.assistant and topics & ORCHESTRATOR_TOPICS:
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
    """Judge whether the names on the hub fit the profile in use."""
    legacy = topics & LEGACY_TOPICS
    spec = topics & SPEC_TOPICS
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
