"""Recognise echoes and copies of hub messages, and the names a hub uses. Pure.

Echoes are our own messages coming back, also after a restart (B-21); copies repeat a
message under another name (B-57). What is read is always translated to the names of the
specification; only what is written depends on the profile (B-58).
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

import msgspec

from bridgehead.bus.bridge.settings import Profile
from bridgehead.bus.participants.participants import Participant
from bridgehead.bus.wire import topics
from bridgehead.bus.wire.message import Message, destinations, encode_ordered
from bridgehead.bus.wire.topics import has_counterpart, spec_topic, to_legacy, to_spec

WINDOW_S: Final = 5.0
_DIGEST_BYTES: Final = 16
_PROOF_S: Final = 1.0
_MAX_PROOFS: Final = 64
_LEGACY_PROOF: Final = "complete_intent_failure"


class Echo(msgspec.Struct, frozen=True, gc=False):
    """A message this bridge wrote: `author` is the participant, None for the bridge
    itself.
    """

    author: str | None
    hops: int


class _Written(msgspec.Struct, frozen=True, gc=False):
    key: tuple[str, object]
    digest: bytes
    at: float
    echo: Echo


class EchoTable:
    """Messages written to the hub whose echo has not come back yet."""

    def __init__(self, *, limit: int = 8192, lifetime_s: float = 60) -> None:
        self._limit = limit
        self._lifetime_s = lifetime_s
        self._in_order: deque[_Written] = deque()
        self._by_digest: dict[bytes, list[_Written]] = {}
        """Nearly always one entry each, so lists: an empty deque weighs ten times as
        much.
        """
        self._keys: Counter[tuple[str, object]] = Counter()
        self._fresh: tuple[Message, Echo, float] | None = None
        self.waits = False
        """Whether anything may come back."""

    def __len__(self) -> int:
        fresh = 0 if self._fresh is None else 1
        return sum(self._keys.values()) + fresh

    def wrote(
        self, message: Message, author: str | None, hops: int, now: float
    ) -> None:
        if self._fresh is not None or self._in_order:
            self._settle()
            self._forget_old(now)
        self._fresh = (message, Echo(author, hops), now)
        self.waits = True

    def _settle(self) -> None:
        """Put the last message written into the table.

        Until then it is known by itself.
        """
        if self._fresh is None:
            return
        message, echo, at = self._fresh
        self._fresh = None
        entry = _Written(_key(message), _digest(message), at, echo)
        self._in_order.append(entry)
        self._by_digest.setdefault(entry.digest, []).append(entry)
        self._keys[entry.key] += 1

    def answer(self, message: Message, now: float) -> Echo | None:
        """Return what was written and now comes back; the oldest entry is used up."""
        # An embedded hub brings back the very object at once, so most echoes need no
        # digest at all.
        if self._fresh is not None and self._fresh[0] is message:
            echo = self._fresh[1]
            self._fresh = None
            return echo
        self.waits = self._fresh is not None or bool(self._in_order)
        self._settle()
        self._forget_old(now)
        # Most of what the hub says was not written here and needs no digest.
        if _key(message) not in self._keys:
            return None
        waiting = self._by_digest.get(_digest(message))
        if not waiting:
            return None
        entry = waiting.pop(0)
        self._use_up(entry, waiting)
        return entry.echo

    def _use_up(self, entry: _Written, waiting: list[_Written]) -> None:
        if not waiting:
            del self._by_digest[entry.digest]
        self._keys[entry.key] -= 1
        if not self._keys[entry.key]:
            del self._keys[entry.key]
        # An echo usually answers for the oldest entry, so the list is cleared from its
        # head.
        if self._in_order and self._in_order[0] is entry:
            self._in_order.popleft()

    def _forget_old(self, now: float) -> None:
        oldest = now - self._lifetime_s
        while self._in_order and (
            len(self._in_order) >= self._limit or self._in_order[0].at < oldest
        ):
            entry = self._in_order.popleft()
            waiting = self._by_digest.get(entry.digest)
            if waiting and waiting[0] is entry:
                waiting.pop(0)
                self._use_up(entry, waiting)


class RestartEchoes:
    """Knows when the process began; `began` is None where there was none before it."""

    def __init__(self, began: float | None) -> None:
        self._until = 0.0 if began is None else began + WINDOW_S
        self.lasts = began is not None
        """Whether the first seconds may not be over yet."""

    def obstacle(
        self, participant: Participant, message: Message, now: float
    ) -> str | None:
        """Return `echo` if the participant's own words of before the restart may be
        coming back.
        """
        if now >= self._until:
            self.lasts = False
            return None
        is_own = (
            message.context.get("source") == participant.source
            and not destinations(message.context)
            and participant.record.may_publish(message.type)
        )
        return "echo" if is_own else None


class CopyTable:
    """Hub messages of the last second under topics that have two names."""

    def __init__(self, *, limit: int = 4096, window_s: float = 1.0) -> None:
        self._limit = limit
        self._window_s = window_s
        self._recent: deque[tuple[float, tuple[bool, str, bytes]]] = deque()
        self._arrivals: dict[tuple[bool, str, bytes], list[float]] = {}
        """By whether the name was the specification's, that name, and the content.

        The oldest first.
        """

    def is_copy(self, message: Message, now: float) -> bool:
        """Return whether the same content arrived less than a second ago under the
        counterpart topic.
        """
        if not has_counterpart(message.type):
            return False
        self._forget_old(now)
        named = spec_topic(message.type)
        content = _digest(message, topic=False)
        # One of the two has the specification's name: pings of two skills are no copies
        # of each other.
        if earlier := self._arrivals.get((named != message.type, named, content)):
            earlier.pop(0)
            return True
        key = (named == message.type, named, content)
        self._arrivals.setdefault(key, []).append(now)
        self._recent.append((now, key))
        return False

    def _forget_old(self, now: float) -> None:
        oldest = now - self._window_s
        while self._recent and (
            len(self._recent) >= self._limit or self._recent[0][0] <= oldest
        ):
            at, key = self._recent.popleft()
            earlier = self._arrivals.get(key)
            if earlier and earlier[0] == at:
                earlier.pop(0)
            if not earlier:
                self._arrivals.pop(key, None)


def _key(message: Message) -> tuple[str, object]:
    source = message.context.get("source")
    return message.type, source if isinstance(source, str) else None


def _digest(message: Message, *, topic: bool = True) -> bytes:
    """Equal for messages with equal data and context and, where it counts, an equal
    topic.
    """
    encoded = encode_ordered(
        (message.type if topic else "", message.data, message.context)
    )
    return hashlib.blake2b(encoded, digest_size=_DIGEST_BYTES).digest()


class HubNames:
    """The edge between our names and the hub's."""

    def __init__(
        self,
        profile: Profile,
        *,
        own_hub: bool = False,
        others: Callable[[], int] = lambda: 1,
    ) -> None:
        """`others` says how many are on the hub besides this process, which says
        everything once.
        """
        self._profile = profile
        self.translates = profile != "spec"
        """Whether the hub may use other names than ours."""
        self._own_hub = own_hub
        self._others = others
        self._speak(spec=profile == "spec" or (profile == "auto" and own_hub))
        self._copies = CopyTable()
        self._proofs: deque[tuple[float, bytes]] = deque()

    def writes_spec(self, now: float) -> bool:
        """Return whether specification names are written at this moment."""
        if self._proofs and self._proofs[0][0] + _PROOF_S <= now:
            self._proofs.clear()
            self._speak(spec=True)
        return not self.writes_legacy

    def _speak(self, *, spec: bool) -> None:
        self.writes_legacy = not spec
        """Whether what is written has to go through `written`."""
        self.may_wait_for_audio = self.translates and not (self._own_hub and spec)
        """Whether skills of a foreign core may wait here for the end of speech."""

    def written(self, message: Message, now: float) -> Message:
        """Return `message` as this hub's listeners expect it."""
        if self.writes_spec(now):
            return message
        return to_legacy(message) or message

    def read(self, message: Message, echo: Echo | None, now: float) -> Message | None:
        """Return an unmarked message in our names, None if it is a copy of another.

        Also learns which names the hub uses.
        """
        others = self._others  # a function, not a method: see Bridge.received
        if echo is None and others():
            is_copy = self._copies.is_copy(message, now)
            if self._profile == "auto":
                self._learn(message, now, is_copy=is_copy)
            if is_copy:
                return None
        if spec_topic(message.type) == message.type:
            return message
        return to_spec(message)

    def _learn(self, message: Message, now: float, *, is_copy: bool) -> None:
        self.writes_spec(now)
        if message.type == topics.UPDATE_DEFAULT and self._own_hub:
            # Only a core of the legacy generation says this: when it starts and
            # whenever somebody connects.
            self._speak(spec=False)
            return
        # Only what an orchestrator alone emits counts: skills of either generation run
        # under cores of the other.
        if spec_topic(message.type) not in (topics.MATCHED, topics.UNMATCHED):
            return
        content = _digest(message, topic=False)
        if is_copy:
            self._proofs = deque(proof for proof in self._proofs if proof[1] != content)
        elif message.type == _LEGACY_PROOF:
            self._speak(spec=False)
        elif len(self._proofs) < _MAX_PROOFS:
            self._proofs.append((now, content))
