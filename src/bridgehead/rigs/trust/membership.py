"""Who takes part in a bridge, with which keys, in which role, from when to when (rigs §10, membership).

Membership is itself envelopes: signed STATE turns of the reserved thread, each with one block of acts in its body:

    ```json bridgehead-membership
    [{"act": "join", "rig": "mac-m5max", "role": "rig", "key": "ssh-ed25519 AAAA…"}]
    ```

`Membership` folds them, oldest first. Nothing is ever taken back: a key has a place where it came and perhaps one where
it went, and each turn is judged by what held at its own place in history.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import NamedTuple

from bridgehead.rigs.envelope.names import RELAY_SUFFIX, is_rig_id
from bridgehead.rigs.envelope.text import timestamp_ms

ARRIVING = 1 << 60  # the position of the first commit that is only about to come in
HUMAN_FREEZE_MINUTES = 24 * 60  # what a human may freeze where nothing else was said
MOST_FREEZE_MINUTES = 60 * 24 * 30
_OPENING = "```json bridgehead-membership"
_BLOCK = re.compile(rf"^{_OPENING}\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
_MOST_CHARACTERS = 64 * 1024
_MOST_ACTS = 50
_KEY = re.compile(
    r"((?:ssh|ecdsa|sk)-[a-z0-9@.-]{1,64}) ([A-Za-z0-9+/]{16,4096}={0,3})"
)
_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")


class Role(StrEnum):
    """What a member is: a human speaks through a rig whose name ends in -relay; an observer asks and owes nothing."""

    HUMAN = "human"
    RIG = "rig"
    OBSERVER = "observer"


class ActKind(StrEnum):
    JOIN = (
        "join"  # also says role, human and freeze anew for somebody who is in already
    )
    ADD_KEY = "add_key"
    RETIRE_KEY = "retire_key"
    LEAVE = "leave"


class Act(NamedTuple):
    """One change of membership."""

    kind: ActKind
    rig: str
    key: str = ""  # join, add_key: `type blob`; retire_key: the fingerprint
    role: Role | None = None
    human: str = ""  # who answers for a rig when it is overdue
    freeze_minutes: int | None = (
        None  # the longest freeze this member may ask for; 0: none
    )
    since: str = (
        ""  # retire_key, leave: what the key signed from then on is not believed
    )

    def json_object(self) -> dict[str, object]:
        said = self._asdict()
        return {
            "act": str(said.pop("kind")),
            **{k: v for k, v in said.items() if v not in ("", None)},
        }


class ActUnreadable(NamedTuple):
    reason: str


def acts_block(acts: Sequence[Act]) -> str:
    """Return the block as it stands in a body."""
    lines = ",\n".join(
        json.dumps(act.json_object(), ensure_ascii=False) for act in acts
    )
    return f"{_OPENING}\n[{lines}]\n```\n"


def read_acts(body: str) -> list[Act] | ActUnreadable:
    """Return the acts in the body of a turn; all of them or none."""
    blocks = _BLOCK.findall(body[:_MOST_CHARACTERS])
    if len(blocks) != 1:
        return ActUnreadable("there must be one block of acts")
    try:
        said = json.loads(blocks[0])
    except (ValueError, RecursionError):
        return ActUnreadable("the block is not JSON")
    if not isinstance(said, list) or not 0 < len(said) <= _MOST_ACTS:
        return ActUnreadable(f"the block must be a list of 1 to {_MOST_ACTS} acts")
    acts = [_read_act(one) for one in said]
    unreadable = next((act for act in acts if isinstance(act, ActUnreadable)), None)
    return unreadable or [act for act in acts if isinstance(act, Act)]


def _read_act(said: object) -> Act | ActUnreadable:
    if not isinstance(said, dict) or said.get("act") not in set(ActKind):
        return ActUnreadable(f"act must be one of {', '.join(ActKind)}")
    kind = ActKind(said["act"])
    rig = said.get("rig")
    key = said.get("key", "")
    role = said.get("role")
    human = said.get("human", "")
    since = said.get("since", "")
    minutes = said.get("freeze_minutes")
    if not isinstance(rig, str) or not is_rig_id(rig):
        return ActUnreadable("rig must be a rig id")
    wanted = _FINGERPRINT if kind is ActKind.RETIRE_KEY else _KEY
    needs_key = kind is not ActKind.LEAVE
    if (
        not isinstance(key, str)
        or bool(key) != needs_key
        or (key and not wanted.fullmatch(key))
    ):
        return ActUnreadable(
            "key must be a public key, of a retired one the fingerprint"
        )
    if role is not None and (
        role not in set(Role) or (role == Role.HUMAN) != rig.endswith(RELAY_SUFFIX)
    ):
        return ActUnreadable(
            f"role must be one of {', '.join(Role)}; a human's rig ends in "
            f"{RELAY_SUFFIX}"
        )
    if not isinstance(human, str) or (
        human and not (is_rig_id(human) and human.endswith(RELAY_SUFFIX))
    ):
        return ActUnreadable(f"human must be a rig that ends in {RELAY_SUFFIX}")
    if not isinstance(since, str) or (since and timestamp_ms(since) is None):
        return ActUnreadable("since must be a date with a time")
    if minutes is not None and (
        type(minutes) is not int or not 0 <= minutes <= MOST_FREEZE_MINUTES
    ):
        return ActUnreadable(
            f"freeze_minutes must be a number up to {MOST_FREEZE_MINUTES}"
        )
    return Act(kind, rig, key, Role(role) if role else None, human, minutes, since)


def fingerprint_of(key: str) -> str | None:
    """Return the name of an SSH public key that means the same everywhere; None if its text is no base64."""
    from base64 import b64decode, b64encode
    from binascii import Error
    from hashlib import sha256

    words = key.split()
    try:
        raw = b64decode(words[1], validate=True)
    except (Error, IndexError, ValueError):
        return None
    return "SHA256:" + b64encode(sha256(raw).digest()).decode().rstrip("=")


class Pin(NamedTuple):
    """A key trusted by hand: for rigs by name, or for a person by e-mail, who may be called by its first part."""

    fingerprint: str
    principals: tuple[str, ...]  # patterns of addresses, names of rigs
    since: int = ARRIVING  # position from which unsigned turns of theirs are refused

    def names(self, email: str | None = None) -> frozenset[str]:
        """Return the rigs this key may speak as; `email` stands for patterns that mean it."""
        rigs = frozenset(who for who in self.principals if is_rig_id(who))
        addresses = [
            who for who in self.principals if "@" in who and not re.search("[*?!]", who)
        ]
        if email and self.covers(email):
            addresses.append(email)
        return rigs or frozenset(
            name for address in addresses for name in names_of_person(address)
        )

    def covers(self, email: str) -> bool:
        """Tell whether this is the key of the person with that address (ssh_config PATTERNS)."""
        if any(
            who.startswith("!") and _matches(email, who[1:]) for who in self.principals
        ):
            return False
        return any(
            _matches(email, who) for who in self.principals if not who.startswith("!")
        )

    @property
    def is_of_a_rig(self) -> bool:
        return any(is_rig_id(who) for who in self.principals)


def names_of_person(email: str) -> frozenset[str]:
    """Return what the rig of the person with this address is called: mike@example.com is mike, and mike-relay."""
    name = re.sub("[^a-z0-9-]+", "-", email.partition("@")[0].lower()).strip("-")
    return frozenset({name, name + RELAY_SUFFIX}) if is_rig_id(name) else frozenset()


def _matches(email: str, pattern: str) -> bool:
    # Only * and ? are special to OpenSSH.
    return fnmatchcase(email, pattern.replace("[", "[[]"))


class Place(NamedTuple):
    """Where something stands in history."""

    commit: str  # empty: not committed, so after everything
    position: int
    committed_at: int = 0


NOW = Place("", ARRIVING)


class Entry(NamedTuple):
    """A committed turn of the reserved thread: who it says it is from, and whose key signed it."""

    place: Place
    path: str
    blob: str
    sender: str
    signer: str | None  # fingerprint of a good signature
    acts: tuple[Act, ...] | ActUnreadable


class Order:
    """What comes before what. `parents` is None while history is one line; in a graph only descent counts."""

    def __init__(self, parents: Mapping[str, Sequence[str]] | None = None) -> None:
        self._parents = parents
        self._children: dict[str, list[str]] = {}
        for child, above in (parents or {}).items():
            for parent in above:
                self._children.setdefault(parent, []).append(child)
        self._reached: dict[tuple[str, bool], frozenset[str]] = {}

    def follows(self, place: Place, entry: Place) -> bool:
        """Tell whether somebody at `place` had `entry` in their history."""
        if self._parents is None or not place.commit:
            return not place.commit or place.position > entry.position
        return place.commit in self._reach(entry.commit, down=False)

    def precedes(self, place: Place, entry: Place) -> bool:
        """Tell whether `place` is in the history of `entry`."""
        if self._parents is None or not place.commit:
            return bool(place.commit) and place.position < entry.position
        return place.commit in self._reach(entry.commit, down=True)

    def _reach(self, start: str, *, down: bool) -> frozenset[str]:
        if (start, down) not in self._reached:
            edges: Mapping[str, Sequence[str]] = (
                (self._parents or {}) if down else self._children
            )
            found: set[str] = set()
            pending = [start]
            while pending:
                fresh = [
                    one for one in edges.get(pending.pop(), ()) if one not in found
                ]
                found.update(fresh)
                pending += fresh
            self._reached[start, down] = frozenset(found)
        return self._reached[start, down]


class MemberKey(NamedTuple):
    """A key from where it came to where it went."""

    rig: str
    key: str
    fingerprint: str
    added: Place
    retired: Place | None = None
    since_ms: int | None = None


class Member(NamedTuple):
    """Somebody as the last act about them left them."""

    rig: str
    role: Role
    human: str
    freeze_minutes: int
    joined: Place
    left: Place | None = None


class Membership:
    """The fold of all entries: by path, those that were carried out, and why others changed nothing."""

    def __init__(
        self,
        entries: Iterable[Entry] = (),
        order: Order | None = None,
        *,
        founding: str | None = None,
        may_found: Callable[[str, str], bool] = lambda _rig, _fingerprint: True,
        is_pinned: Callable[[str], bool] = lambda _rig: False,
        pinned_key: Callable[[str, str], bool] = lambda _rig, _fingerprint: False,
    ) -> None:
        """`founding` is the blob of the entry this clone saw first; hand-pinned keys outrank what members say."""
        self._order = order or Order()
        self._keys: list[MemberKey] = []
        self._members: dict[str, Member] = {}
        self.founded: Entry | None = None
        self.requests: dict[str, Act] = {}  # by rig: joins that nobody has admitted yet
        self._asked_in: dict[str, str] = {}  # the path of each
        self.carried_out: set[str] = set()
        self.refused: dict[str, str] = {}
        self._may_found = may_found
        self._is_pinned = is_pinned
        self._pinned_key = pinned_key
        for entry in sorted(entries, key=lambda one: (one.place.position, one.path)):
            if self.founded is None and founding is not None and entry.blob != founding:
                self.refused[entry.path] = (
                    "it comes before the entry this clone first saw"
                )
            elif reason := self._take_in(entry):
                self.refused[entry.path] = reason

    @property
    def members(self) -> list[Member]:
        """Everybody who is in now, by name."""
        return [
            self._members[rig]
            for rig in sorted(self._members)
            if self._members[rig].left is None
        ]

    @property
    def names(self) -> frozenset[str]:
        """Everybody who ever had a key."""
        return frozenset(key.rig for key in self._keys)

    def member(self, rig: str) -> Member | None:
        """Return somebody who is in now."""
        found = self._members.get(rig)
        return found if found is not None and found.left is None else None

    def keys_of(self, rig: str) -> list[MemberKey]:
        return [key for key in self._keys if key.rig == rig]

    def has_key(self, rig: str, place: Place) -> bool:
        """Tell whether somebody had, by then, ever put a key on record: from there on that name must sign."""
        return any(
            key.rig == rig and self._order.follows(place, key.added)
            for key in self._keys
        )

    def holders(self, fingerprint: str, place: Place) -> frozenset[str]:
        """Return whose key this was at a place."""
        return frozenset(
            key.rig
            for key in self._keys
            if key.fingerprint == fingerprint
            and self._was_there(key, place)
            and (
                key.since_ms is None or place.committed_at * 1000 < key.since_ms
            )  # from then on not to be believed
        )

    def is_retired(self, fingerprint: str, rig: str, place: Place) -> bool:
        """Tell whether a key was this rig's once and not, or not to be believed, at a place."""
        return rig not in self.holders(fingerprint, place) and any(
            key.fingerprint == fingerprint
            for key in self._keys
            if key.rig == rig and self._order.follows(place, key.added)
        )

    def _was_there(self, key: MemberKey, place: Place) -> bool:
        """Tell whether a turn had the key's coming in its history and is itself in the history of its going."""
        return self._order.follows(place, key.added) and (
            key.retired is None or self._order.precedes(place, key.retired)
        )

    def _take_in(self, entry: Entry) -> str | None:
        """Carry out an entry; return why not, if it is refused."""
        if isinstance(entry.acts, ActUnreadable):
            return entry.acts.reason
        if entry.signer is None:
            return "it is not signed by a key it can be held against"
        if self.founded is None:
            return self._found(entry, entry.acts, entry.signer)
        speaks = entry.sender in self.holders(
            entry.signer, entry.place
        ) or self._pinned_key(entry.sender, entry.signer)
        if not speaks or self.member(entry.sender) is None:
            return self._request(entry, entry.acts, entry.signer)
        reason = next(
            (why for act in entry.acts if (why := self._objection(entry, act))), None
        )
        for act in entry.acts if reason is None else ():
            self._carry_out(entry, act)
        return reason

    def _found(self, entry: Entry, acts: Sequence[Act], signer: str) -> str | None:
        first = acts[0]
        if (
            first.kind is not ActKind.JOIN
            or first.rig != entry.sender
            or fingerprint_of(first.key) != signer
        ):
            return (
                "the first entry must be a rig's own join, signed with the key it names"
            )
        if not self._may_found(first.rig, signer):
            return "keys are pinned in this clone, and the founder's is not one of them"
        self.founded = entry
        for act in acts:
            self._carry_out(entry, act)
        return None

    def _request(self, entry: Entry, acts: Sequence[Act], signer: str) -> str | None:
        """A stranger may ask to be let in, with the key that signed the question, and nothing else."""
        act = acts[0]
        own = (
            act.kind is ActKind.JOIN
            and act.rig == entry.sender
            and fingerprint_of(act.key) == signer
        )
        if not own or len(acts) > 1 or self.has_key(act.rig, entry.place):
            return (
                f"{entry.sender} is not a member at this point, or signs with a key "
                "that is not its own"
            )
        self.requests[act.rig] = act
        self._asked_in[act.key] = entry.path
        return None

    def _objection(self, entry: Entry, act: Act) -> str | None:
        actor = self._members[entry.sender]
        own = act.rig == entry.sender and act.kind is not ActKind.JOIN
        humans = any(member.role is Role.HUMAN for member in self.members)
        if not own and actor.role is not (Role.HUMAN if humans else Role.RIG):
            return f"{entry.sender} may change nothing but its own keys" + (
                "; a human member decides" if humans else ""
            )
        if (
            self._is_pinned(act.rig)
            and act.key
            and not own
            and act.kind is not ActKind.RETIRE_KEY
        ):
            name = fingerprint_of(act.key) or ""
            if not (
                self._pinned_key(act.rig, name)
                or act.rig in self.holders(name, entry.place)
            ):
                return f"another key is pinned for {act.rig} in this clone"
        if act.kind is not ActKind.JOIN and self.member(act.rig) is None:
            return f"{act.rig} is not a member"
        owner = self.holders(fingerprint_of(act.key) or "", entry.place) - {act.rig}
        return f"that key belongs to {', '.join(sorted(owner))}" if owner else None

    def _carry_out(self, entry: Entry, act: Act) -> None:
        place = entry.place
        self.carried_out.add(entry.path)
        if act.kind is ActKind.JOIN:
            self.requests.pop(act.rig, None)
            self.carried_out.update(
                [self._asked_in[act.key]] if act.key in self._asked_in else ()
            )
            self._members[act.rig] = _joined(act, self.member(act.rig), entry)
        if act.kind in (ActKind.JOIN, ActKind.ADD_KEY):
            fingerprint = fingerprint_of(act.key) or ""
            if act.rig not in self.holders(fingerprint, NOW):
                self._keys.append(MemberKey(act.rig, act.key, fingerprint, place))
            return
        gone = act.key if act.kind is ActKind.RETIRE_KEY else None
        if act.kind is ActKind.LEAVE:
            self._members[act.rig] = self._members[act.rig]._replace(left=place)
        self._keys = [
            key._replace(
                retired=place, since_ms=timestamp_ms(act.since) if act.since else None
            )
            if key.rig == act.rig
            and key.retired is None
            and gone in (None, key.fingerprint)
            else key
            for key in self._keys
        ]


def _joined(act: Act, before: Member | None, entry: Entry) -> Member:
    by_name = Role.HUMAN if act.rig.endswith(RELAY_SUFFIX) else Role.RIG
    role = act.role or (before.role if before else by_name)
    admitted_by = (
        entry.sender
        if entry.sender.endswith(RELAY_SUFFIX) and entry.sender != act.rig
        else ""
    )
    usual = (
        before.freeze_minutes
        if before
        else HUMAN_FREEZE_MINUTES
        if role is Role.HUMAN
        else 0
    )
    return Member(
        act.rig,
        role,
        act.human or (before.human if before else admitted_by),
        usual if act.freeze_minutes is None else act.freeze_minutes,
        before.joined if before else entry.place,
    )


class Keyring:
    """Whose key is whose at a place in history: what was pinned by hand, and what the members say."""

    def __init__(
        self, pins: Sequence[Pin] = (), membership: Membership | None = None
    ) -> None:
        self._pins = pins
        self.membership = membership or Membership()

    @property
    def knows_anybody(self) -> bool:
        return bool(self._pins) or self.membership.founded is not None

    def must_sign(self, rig: str, place: Place) -> bool:
        """Tell whether a name has had a key by then. What was there before its key was is not held against it."""
        return self.membership.has_key(rig, place) or any(
            pin.since <= place.position and rig in pin.names() for pin in self._pins
        )

    def standing(
        self,
        rig: str,
        place: Place,
        keys: Sequence[str] = (),
        person: str | None = None,
        email: str = "",
    ) -> "Standing":
        """Say how the key that made a good signature stands to the rig that is named.

        `person` is whom the signers file, or OpenPGP, says it is of; `email` that of the commit's author.
        """
        pins = [pin for pin in self._pins if pin.fingerprint in keys] if person else []
        if person and not pins and "@" in person:
            pins = [Pin(keys[0] if keys else "", (person,))]
        held = frozenset(
            holder for key in keys for holder in self.membership.holders(key, place)
        )
        claims = frozenset(name for pin in pins for name in pin.names(email))
        addressed = [pin for pin in pins if not pin.is_of_a_rig]
        return Standing(
            on_record=is_pinned(self._pins, rig) or self.membership.has_key(rig, place),
            must_sign=self.must_sign(rig, place),
            owns=rig in claims or rig in held,
            is_known=bool(pins or held),
            of_another=bool(held) or any(pin.is_of_a_rig for pin in pins),
            retired=any(self.membership.is_retired(key, rig, place) for key in keys)
            and rig not in claims,
            wrong_author=rig not in held
            and bool(addressed)
            and len(addressed) == len(pins)
            and not any(pin.covers(email) for pin in addressed),
        )


class Standing(NamedTuple):
    """How the key that signed a turn stands to the rig it says it is from."""

    on_record: bool = False  # that rig has a key, this or another
    must_sign: bool = False  # and had it by then
    owns: bool = False  # it is that rig's key
    is_known: bool = False  # it is somebody's whom this clone knows
    of_another: bool = (
        False  # of a rig by name; a person's key may be used by their machines
    )
    retired: bool = False  # it was that rig's
    wrong_author: bool = False  # a person's key on a commit by another address


def is_pinned(pins: Sequence[Pin], rig: str) -> bool:
    return any(rig in pin.names() for pin in pins)


def is_pinned_key(pins: Sequence[Pin], rig: str, fingerprint: str) -> bool:
    return any(pin.fingerprint == fingerprint and rig in pin.names() for pin in pins)
