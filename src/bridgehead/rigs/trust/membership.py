"""Who takes part in a bridge, with which keys, in which role, from when to when.

See rigs §10, membership. Membership is itself envelopes: signed STATE turns of the
reserved thread, each with one block of acts in its body:

    ```json bridgehead-membership
    [{"act": "join", "rig": "mac-m5max", "role": "rig", "key": "ssh-ed25519 AAAA…"}]
    ```

`Membership` folds them, oldest first. Nothing is ever taken back: a key has a place
where it came and perhaps one where it went, and each turn is judged by what held at
its own place in history.
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
    """What a member is.

    A human speaks through a rig whose name ends in -relay; an observer asks and owes
    nothing.
    """

    HUMAN = "human"
    RIG = "rig"
    OBSERVER = "observer"


class ActKind(StrEnum):
    # A join also changes role, human and freeze of somebody who is in already.
    JOIN = "join"
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
    # The longest freeze this member may ask for; 0: none.
    freeze_minutes: int | None = None
    # retire_key, leave: what the key signed from then on is not believed.
    since: str = ""

    def json_object(self) -> dict[str, object]:
        fields = self._asdict()
        kind = fields.pop("kind")
        given = {
            name: value for name, value in fields.items() if value not in ("", None)
        }
        return {"act": str(kind), **given}


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
        values = json.loads(blocks[0])
    except (ValueError, RecursionError):
        return ActUnreadable("the block is not JSON")
    if not isinstance(values, list) or not 0 < len(values) <= _MOST_ACTS:
        return ActUnreadable(f"the block must be a list of 1 to {_MOST_ACTS} acts")
    acts: list[Act] = []
    for value in values:
        act = _read_act(value)
        if isinstance(act, ActUnreadable):
            return act
        acts.append(act)
    return acts


def _read_act(value: object) -> Act | ActUnreadable:
    if not isinstance(value, dict) or value.get("act") not in list(ActKind):
        return ActUnreadable(f"act must be one of {', '.join(ActKind)}")
    kind = ActKind(value["act"])
    rig = value.get("rig")
    key = value.get("key", "")
    role = value.get("role")
    human = value.get("human", "")
    since = value.get("since", "")
    minutes = value.get("freeze_minutes")
    if not isinstance(rig, str) or not is_rig_id(rig):
        return ActUnreadable("rig must be a rig id")
    if not _is_key_for(kind, key):
        return ActUnreadable(
            "key must be a public key, of a retired one the fingerprint"
        )
    if role is not None and not _is_role_for(rig, role):
        return ActUnreadable(
            f"role must be one of {', '.join(Role)}; a human's rig ends in "
            f"{RELAY_SUFFIX}"
        )
    if not _is_human(human):
        return ActUnreadable(f"human must be a rig that ends in {RELAY_SUFFIX}")
    if not isinstance(since, str) or (since and timestamp_ms(since) is None):
        return ActUnreadable("since must be a date with a time")
    if minutes is not None and not _is_number_of_minutes(minutes):
        return ActUnreadable(
            f"freeze_minutes must be a number up to {MOST_FREEZE_MINUTES}"
        )
    return Act(kind, rig, key, Role(role) if role else None, human, minutes, since)


def _is_key_for(kind: ActKind, key: object) -> bool:
    if kind is ActKind.LEAVE:
        return key == ""
    shape = _FINGERPRINT if kind is ActKind.RETIRE_KEY else _KEY
    return isinstance(key, str) and shape.fullmatch(key) is not None


def _is_role_for(rig: str, role: object) -> bool:
    is_humans_rig = rig.endswith(RELAY_SUFFIX)
    return role in list(Role) and (role == Role.HUMAN) == is_humans_rig


def _is_human(human: object) -> bool:
    """Return whether a value names a human's rig, or nobody."""
    if not isinstance(human, str):
        return False
    return not human or (is_rig_id(human) and human.endswith(RELAY_SUFFIX))


def _is_number_of_minutes(value: object) -> bool:
    is_bool = isinstance(value, bool)
    return isinstance(value, int) and not is_bool and 0 <= value <= MOST_FREEZE_MINUTES


def fingerprint_of(key: str) -> str | None:
    """Return the fingerprint of an SSH public key; None if its text is no base64."""
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
    """A key trusted by hand, of rigs by name or of a person by e-mail address.

    A person's rig may be called by the first part of the address.
    """

    fingerprint: str
    principals: tuple[str, ...]  # patterns of addresses, names of rigs
    since: int = ARRIVING  # position from which unsigned turns of theirs are refused

    def names(self, email: str | None = None) -> frozenset[str]:
        """Return the rigs this key may speak as.

        `email` stands for the patterns that match it.
        """
        rigs = frozenset(name for name in self.principals if is_rig_id(name))
        if rigs:
            return rigs
        names: set[str] = set()
        for principal in self.principals:
            if "@" in principal and not re.search("[*?!]", principal):
                names |= names_of_person(principal)
        if email and self.covers(email):
            names |= names_of_person(email)
        return frozenset(names)

    def covers(self, email: str) -> bool:
        """Return whether this key belongs to the person with that address.

        The principals are read like ssh_config PATTERNS.
        """
        excluded = [name[1:] for name in self.principals if name.startswith("!")]
        if any(_matches(email, pattern) for pattern in excluded):
            return False
        included = [name for name in self.principals if not name.startswith("!")]
        return any(_matches(email, pattern) for pattern in included)

    @property
    def is_of_a_rig(self) -> bool:
        return any(is_rig_id(name) for name in self.principals)


def names_of_person(email: str) -> frozenset[str]:
    """Return what the rigs of the person with this address may be called.

    Those of mike@example.com are mike and mike-relay.
    """
    first_part = email.partition("@")[0].lower()
    name = re.sub("[^a-z0-9-]+", "-", first_part).strip("-")
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
    """A committed turn of the reserved thread."""

    place: Place
    path: str
    blob: str
    sender: str  # as the turn says
    signer: str | None  # fingerprint of a good signature
    acts: tuple[Act, ...] | ActUnreadable


class Order:
    """What comes before what.

    `parents` is None while history is one line; in a graph only descent counts.
    """

    def __init__(self, parents: Mapping[str, Sequence[str]] | None = None) -> None:
        self._parents = parents
        self._children: dict[str, list[str]] = {}
        for child, above in (parents or {}).items():
            for parent in above:
                self._children.setdefault(parent, []).append(child)
        self._reached: dict[tuple[str, bool], frozenset[str]] = {}

    def follows(self, place: Place, entry: Place) -> bool:
        """Return whether somebody at `place` had `entry` in their history."""
        if self._parents is None or not place.commit:
            return not place.commit or place.position > entry.position
        return place.commit in self._reach(entry.commit, down=False)

    def precedes(self, place: Place, entry: Place) -> bool:
        """Return whether `place` is in the history of `entry`."""
        if self._parents is None or not place.commit:
            return bool(place.commit) and place.position < entry.position
        return place.commit in self._reach(entry.commit, down=True)

    def _reach(self, start: str, *, down: bool) -> frozenset[str]:
        if (start, down) not in self._reached:
            edges: Mapping[str, Sequence[str]] = self._children
            if down:
                edges = self._parents or {}
            self._reached[start, down] = _reachable(start, edges)
        return self._reached[start, down]


def _reachable(start: str, edges: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """Return everything that can be reached from `start`."""
    found: set[str] = set()
    pending = [start]
    while pending:
        commits = edges.get(pending.pop(), ())
        fresh = [commit for commit in commits if commit not in found]
        found.update(fresh)
        pending += fresh
    return frozenset(found)


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
    """The fold of all entries.

    `carried_out` and `refused` tell, by path, which entries changed something, and why
    others did not.
    """

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
        """Fold the entries, oldest first.

        `founding` is the blob of the entry this clone saw first; hand-pinned keys
        outrank what members say.
        """
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
        oldest_first = sorted(
            entries, key=lambda entry: (entry.place.position, entry.path)
        )
        for entry in oldest_first:
            awaits_founding = self.founded is None and founding is not None
            if awaits_founding and entry.blob != founding:
                reason: str | None = "it comes before the entry this clone first saw"
            else:
                reason = self._take_in(entry)
            if reason is not None:
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
        """Return whether a rig had, by then, ever put a key on record.

        From there on that name must sign.
        """
        return any(
            key.rig == rig and self._order.follows(place, key.added)
            for key in self._keys
        )

    def holders(self, fingerprint: str, place: Place) -> frozenset[str]:
        """Return whose key this was at a place."""
        return frozenset(
            key.rig
            for key in self._keys
            if key.fingerprint == fingerprint and self._held_at(key, place)
        )

    def is_retired(self, fingerprint: str, rig: str, place: Place) -> bool:
        """Return whether a key was once this rig's and does not count at a place."""
        if rig in self.holders(fingerprint, place):
            return False
        return any(
            key.fingerprint == fingerprint
            for key in self.keys_of(rig)
            if self._order.follows(place, key.added)
        )

    def _held_at(self, key: MemberKey, place: Place) -> bool:
        """Return whether a key was in force for a turn at a place.

        The turn comes after the key was added, and before it was retired.
        """
        if not self._order.follows(place, key.added):
            return False
        if key.retired is not None and not self._order.precedes(place, key.retired):
            return False
        # From `since` on the key is not to be believed.
        return key.since_ms is None or place.committed_at * 1000 < key.since_ms

    def _take_in(self, entry: Entry) -> str | None:
        """Carry out an entry; return why not, if it is refused."""
        if isinstance(entry.acts, ActUnreadable):
            return entry.acts.reason
        if entry.signer is None:
            return "it is not signed by a key it can be held against"
        if self.founded is None:
            return self._found(entry, entry.acts, entry.signer)
        if not self._is_by_member(entry, entry.signer):
            return self._request(entry, entry.acts, entry.signer)
        for act in entry.acts:
            reason = self._objection(entry, act)
            if reason is not None:
                return reason
        for act in entry.acts:
            self._carry_out(entry, act)
        return None

    def _is_by_member(self, entry: Entry, signer: str) -> bool:
        """Return whether an entry is signed by the member it says it is from."""
        if self.member(entry.sender) is None:
            return False
        is_holder = entry.sender in self.holders(signer, entry.place)
        return is_holder or self._pinned_key(entry.sender, signer)

    def _found(self, entry: Entry, acts: Sequence[Act], signer: str) -> str | None:
        first = acts[0]
        if not _is_own_join(first, entry.sender, signer):
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
        """Note that a stranger asks to be let in, with the key that signed the entry.

        A stranger may do nothing else.
        """
        act = acts[0]
        asks_to_join = len(acts) == 1 and _is_own_join(act, entry.sender, signer)
        if not asks_to_join or self.has_key(act.rig, entry.place):
            return (
                f"{entry.sender} is not a member at this point, or signs with a key "
                "that is not its own"
            )
        self.requests[act.rig] = act
        self._asked_in[act.key] = entry.path
        return None

    def _objection(self, entry: Entry, act: Act) -> str | None:
        """Return why a member may not carry out an act; None if it may."""
        changes_itself = act.rig == entry.sender and act.kind is not ActKind.JOIN
        if not changes_itself:
            reason = self._missing_right(entry.sender)
            if reason is not None:
                return reason
            if self._contradicts_pin(act, entry.place):
                return f"another key is pinned for {act.rig} in this clone"
        if act.kind is not ActKind.JOIN and self.member(act.rig) is None:
            return f"{act.rig} is not a member"
        holders = self.holders(fingerprint_of(act.key) or "", entry.place)
        others = sorted(holders - {act.rig})
        return f"that key belongs to {', '.join(others)}" if others else None

    def _missing_right(self, actor: str) -> str | None:
        """Return why a member may not decide about others; None if it may.

        Humans decide; where there are none, rigs do.
        """
        role = self._members[actor].role
        if any(member.role is Role.HUMAN for member in self.members):
            if role is Role.HUMAN:
                return None
            return (
                f"{actor} may change nothing but its own keys; a human member decides"
            )
        if role is Role.RIG:
            return None
        return f"{actor} may change nothing but its own keys"

    def _contradicts_pin(self, act: Act, place: Place) -> bool:
        """Return whether an act gives a rig another key than the pinned one."""
        gives_key = bool(act.key) and act.kind is not ActKind.RETIRE_KEY
        if not gives_key or not self._is_pinned(act.rig):
            return False
        fingerprint = fingerprint_of(act.key) or ""
        if self._pinned_key(act.rig, fingerprint):
            return False
        return act.rig not in self.holders(fingerprint, place)

    def _carry_out(self, entry: Entry, act: Act) -> None:
        self.carried_out.add(entry.path)
        match act.kind:
            case ActKind.JOIN:
                self._admit(entry, act)
                self._add_key(act, entry.place)
            case ActKind.ADD_KEY:
                self._add_key(act, entry.place)
            case ActKind.RETIRE_KEY:
                self._retire_keys(act, entry.place)
            case ActKind.LEAVE:
                self._dismiss(act, entry.place)
                self._retire_keys(act, entry.place)

    def _admit(self, entry: Entry, act: Act) -> None:
        self.requests.pop(act.rig, None)
        if act.key in self._asked_in:
            self.carried_out.add(self._asked_in[act.key])
        before = self.member(act.rig)
        if before is None:
            self._members[act.rig] = _new_member(act, entry)
        else:
            self._members[act.rig] = _changed_member(act, before)

    def _dismiss(self, act: Act, place: Place) -> None:
        # The first entry may name somebody who never was in.
        member = self.member(act.rig)
        if member is not None:
            self._members[act.rig] = member._replace(left=place)

    def _add_key(self, act: Act, place: Place) -> None:
        fingerprint = fingerprint_of(act.key) or ""
        if act.rig not in self.holders(fingerprint, NOW):
            self._keys.append(MemberKey(act.rig, act.key, fingerprint, place))

    def _retire_keys(self, act: Act, place: Place) -> None:
        """Retire the key an act names, or all keys of a rig that leaves."""
        since_ms = timestamp_ms(act.since) if act.since else None
        for index, key in enumerate(self._keys):
            if key.rig != act.rig or key.retired is not None:
                continue
            if act.kind is ActKind.LEAVE or key.fingerprint == act.key:
                self._keys[index] = key._replace(retired=place, since_ms=since_ms)


def _is_own_join(act: Act, sender: str, signer: str) -> bool:
    """Return whether a rig joins by itself, with the key that signed."""
    return (
        act.kind is ActKind.JOIN
        and act.rig == sender
        and fingerprint_of(act.key) == signer
    )


def _new_member(act: Act, entry: Entry) -> Member:
    """Return a member as its first join makes it."""
    role = act.role
    if role is None:
        role = Role.HUMAN if act.rig.endswith(RELAY_SUFFIX) else Role.RIG
    human = act.human
    admitted_by_human = entry.sender.endswith(RELAY_SUFFIX) and entry.sender != act.rig
    if not human and admitted_by_human:
        human = entry.sender
    freeze_minutes = act.freeze_minutes
    if freeze_minutes is None:
        freeze_minutes = HUMAN_FREEZE_MINUTES if role is Role.HUMAN else 0
    return Member(act.rig, role, human, freeze_minutes, entry.place)


def _changed_member(act: Act, before: Member) -> Member:
    """Return a member with what another join says anew."""
    changed = before
    if act.role is not None:
        changed = changed._replace(role=act.role)
    if act.human:
        changed = changed._replace(human=act.human)
    if act.freeze_minutes is not None:
        changed = changed._replace(freeze_minutes=act.freeze_minutes)
    return changed


class Keyring:
    """Whose key is whose at a place in history.

    It knows what was pinned by hand, and what the members say.
    """

    def __init__(
        self, pins: Sequence[Pin] = (), membership: Membership | None = None
    ) -> None:
        self._pins = pins
        self.membership = membership or Membership()

    @property
    def knows_anybody(self) -> bool:
        return bool(self._pins) or self.membership.founded is not None

    def must_sign(self, rig: str, place: Place) -> bool:
        """Return whether a name had a key by then.

        What it wrote before that need not be signed.
        """
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
        """Return how the key of a good signature relates to the rig that is named.

        `person` is who owns the key according to the signers file, or OpenPGP;
        `email` is that of the commit's author.
        """
        membership = self.membership
        pins = self._pins_of(keys, person) if person else []
        pinned_names: set[str] = set()
        for pin in pins:
            pinned_names |= pin.names(email)
        holders: set[str] = set()
        for key in keys:
            holders |= membership.holders(key, place)
        is_retired = any(membership.is_retired(key, rig, place) for key in keys)
        return Standing(
            on_record=is_pinned(self._pins, rig) or membership.has_key(rig, place),
            must_sign=self.must_sign(rig, place),
            owns=rig in pinned_names or rig in holders,
            is_known=bool(pins or holders),
            of_another=bool(holders) or any(pin.is_of_a_rig for pin in pins),
            retired=is_retired and rig not in pinned_names,
            wrong_author=rig not in holders and _are_of_another_person(pins, email),
        )

    def _pins_of(self, keys: Sequence[str], person: str) -> list[Pin]:
        """Return the pins of keys; a person whose keys are not pinned counts as one."""
        pins = [pin for pin in self._pins if pin.fingerprint in keys]
        if not pins and "@" in person:
            return [Pin(keys[0] if keys else "", (person,))]
        return pins


def _are_of_another_person(pins: Sequence[Pin], email: str) -> bool:
    """Return whether these keys are people's, but not of this address."""
    if not pins or any(pin.is_of_a_rig for pin in pins):
        return False
    return not any(pin.covers(email) for pin in pins)


class Standing(NamedTuple):
    """How the key that signed a turn relates to the rig the turn is from."""

    on_record: bool = False  # that rig has a key, this or another
    must_sign: bool = False  # and had it by then
    owns: bool = False  # it is that rig's key
    is_known: bool = False  # it is somebody's whom this clone knows
    # It is of a rig by name; a person's key may be used by their machines.
    of_another: bool = False
    retired: bool = False  # it was that rig's
    wrong_author: bool = False  # a person's key on a commit by another address


def is_pinned(pins: Sequence[Pin], rig: str) -> bool:
    return any(rig in pin.names() for pin in pins)


def is_pinned_key(pins: Sequence[Pin], rig: str, fingerprint: str) -> bool:
    return any(pin.fingerprint == fingerprint and rig in pin.names() for pin in pins)
