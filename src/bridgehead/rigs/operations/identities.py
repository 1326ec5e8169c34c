"""Whose key is whose in this clone: what was pinned by hand, the membership in history, and what signatures say.

Signatures are checked once: a commit never changes, so what git said is kept until the pinned file does.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bridgehead.errors import FileError
from bridgehead.host.files import read_bounded
from bridgehead.rigs.envelope.envelope import Envelope, parse_envelope
from bridgehead.rigs.envelope.fields import MEMBERS_THREAD
from bridgehead.rigs.repositories.records import UNSIGNED, FreezeNote, SignatureCheck
from bridgehead.rigs.repositories.work_tree import keep
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.trust.attestation import Signature
from bridgehead.rigs.trust.envelope_problems import check_envelope
from bridgehead.rigs.trust.membership import (
    ARRIVING,
    NOW,
    Act,
    ActUnreadable,
    Entry,
    Keyring,
    Membership,
    Order,
    Pin,
    Place,
    fingerprint_of,
    is_pinned,
    is_pinned_key,
    read_acts,
)

if TYPE_CHECKING:
    from bridgehead.rigs.config import MustSign
    from bridgehead.rigs.operations.catalogue import Catalogue
    from bridgehead.rigs.threads.freeze import Freeze

MAX_SIGNERS_BYTES = 1 << 20
_MAX_BYTES = 64 * 1024 * 1024
_MOST_CHECKS = 100_000
_FORMAT = 2


class RawEntry(NamedTuple):
    """A committed file of the reserved thread, before anything is believed of it."""

    path: str
    blob: str
    place: Place
    signed: bool


class Identities:
    """Who is who, for envelopes that are here and for those that `arriving` entries come with.

    `parents` is the graph of what arrives where that is not one line.
    """

    def __init__(
        self,
        rig: Rig,
        arriving: Sequence[RawEntry] = (),
        parents: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        rig.repository.refuse_shallow()
        self._rig = rig
        self._arriving = arriving
        self._parents = parents
        self.signers_file = allowed_signers_file(rig)
        self._signers_text = _text_of(self.signers_file)
        self._founder_file: Path = rig.repository.private_dir / "founder"
        self._checks_file: Path = rig.repository.private_dir / "signatures"
        self._checks: dict[str, SignatureCheck] = {}
        self.must_sign: MustSign = (
            rig.settings.require_signed if rig.settings else "members"
        )

    @cached_property
    def pins(self) -> list[Pin]:
        if not self._signers_text:
            return []
        from bridgehead.rigs.trust.signers import pins

        return pins(self._signers_text)

    @cached_property
    def keyring(self) -> Keyring:
        membership = self._fold(self._entries)
        founder = self._founder_file
        if (
            membership.founded is not None
            and not founder.exists()
            and not self._arriving
        ):
            # Trust on first use: from now on it is this one.
            keep(founder, membership.founded.blob + "\n")
        if membership.founded is None and founder.exists():
            self._rig.tell_once(
                "warning: the entry that founded the membership was changed or "
                f"deleted in {MEMBERS_THREAD}, so "
                "no member is known here; rig-bridge verify shows what was changed"
            )
        return Keyring(self.pins, membership)

    def own_names(self) -> frozenset[str]:
        """Return the members that the key of this clone speaks for now."""
        key = self._rig.repository.signing_key_text()
        return (
            self.membership.holders(fingerprint_of(key) or "", NOW)
            if key
            else frozenset()
        )

    def objection(self, sender: str, key: str, acts: Sequence[Act]) -> str | None:
        """Say what everybody would have against acts, if `sender` put them on record now with this key."""
        last = max((entry.place.position for entry in self._entries), default=0)
        wanted = Entry(
            Place("", max(last + 1, ARRIVING)), "", "", sender, key, tuple(acts)
        )
        return self._fold([*self._entries, wanted]).refused.get("")

    def _fold(self, entries: Sequence[Entry]) -> Membership:
        if not entries:
            return Membership()
        pins = self.pins
        founding = _text_of(self._founder_file).strip() or None
        return Membership(
            entries,
            self._order(),
            founding=founding,
            may_found=lambda rig, key: (
                bool(founding) or not pins or is_pinned_key(pins, rig, key)
            ),
            is_pinned=lambda rig: is_pinned(pins, rig),
            pinned_key=lambda rig, key: is_pinned_key(pins, rig, key),
        )

    @cached_property
    def _entries(self) -> list[Entry]:
        raw = [*self._here(), *self._arriving]
        if not raw:
            return []
        blobs = self._rig.repository.read_blobs([one.blob for one in raw])
        checks = self.check(one.place.commit for one in raw if one.signed)
        return [
            _entry(one, blobs.get(one.blob), checks.get(one.place.commit, UNSIGNED))
            for one in raw
        ]

    @property
    def membership(self) -> Membership:
        return self.keyring.membership

    @property
    def signers_known(self) -> bool:
        """Tell whether this clone trusts anybody at all."""
        return self.signers_file is not None or self.membership.founded is not None

    @cached_property
    def judges_unsigned(self) -> bool:
        """Tell whether something can speak against an envelope that is simply not signed."""
        return self.must_sign == "all" or (
            self.must_sign == "members" and self.keyring.knows_anybody
        )

    def check(self, commits: Iterable[str]) -> dict[str, SignatureCheck]:
        """Say what the signatures of commits are; git is asked about those it was not asked about before."""
        wanted = list(dict.fromkeys(commits))
        for commit in wanted:
            if commit not in self._checks and (
                check := _read_check(self._kept_checks.get(commit.encode(), b""))
            ):
                self._checks[commit] = check
        missing = [commit for commit in wanted if commit not in self._checks]
        if missing:
            self._checks |= (
                fresh := self._rig.repository.check_signatures(
                    missing, self.signers_file
                )
            )
            self._keep(fresh)
        return {commit: self._checks[commit] for commit in wanted}

    @cached_property
    def _kept_checks(self) -> dict[bytes, bytes]:
        """What is known of commits, as it lies in the file: there may be very many, of which a few are asked for."""
        try:
            first, *lines = read_bounded(self._checks_file, _MAX_BYTES).splitlines()
            kept = dict(line.split(b" ", 1) for line in lines)
            return kept if json.loads(first) == [_FORMAT, self._checked_with] else {}
        except (FileError, ValueError, TypeError):
            return {}

    def _keep(self, checks: Mapping[str, SignatureCheck]) -> None:
        """Keep what no other program can change its mind about: good SSH signatures."""
        rows = {
            commit.encode(): json.dumps(
                [c.signature.value, c.principal, c.key_names, c.holds]
            ).encode()
            for commit, c in checks.items()
            if _is_lasting(c)
        }
        self._kept_checks.update(rows)
        lines = [b"%s %s" % item for item in self._kept_checks.items()][-_MOST_CHECKS:]
        keep(
            self._checks_file,
            b"\n".join([json.dumps([_FORMAT, self._checked_with]).encode(), *lines]),
        )

    @cached_property
    def _checked_with(self) -> str:
        return f"{self.signers_file}\n{self._rig.repository.revoked_keys()}\n{self._signers_text}"

    def _here(self) -> list[RawEntry]:
        """The entries in HEAD. A work tree that lacks the folder does not make them go away."""
        if (
            not self._rig.repository.has_directory(MEMBERS_THREAD)
            and not self._founder_file.exists()
        ):
            return []
        rows = self._catalogue.committed(MEMBERS_THREAD).values()
        return [
            RawEntry(
                f"{MEMBERS_THREAD}/{row.filename}",
                row.blob,
                Place(row.commit, row.position, row.committed_at),
                row.signed,
            )
            for row in rows
            if row.commit and not row.rewritten
        ]

    @cached_property
    def _catalogue(self) -> "Catalogue":
        from bridgehead.rigs.operations.catalogue import catalogue

        return catalogue(self._rig, MEMBERS_THREAD)

    def _order(self) -> Order:
        here = self._catalogue.parents()
        if here is None and self._parents is None:
            return Order()
        return Order(
            {**(here or self._rig.repository.ancestry()), **(self._parents or {})}
        )


def _read_check(stored: bytes) -> SignatureCheck | None:
    try:
        word, person, names, holds = json.loads(stored)
        return SignatureCheck(Signature(word), person, tuple(names), bool(holds))
    except (ValueError, TypeError):
        return None


def _is_lasting(check: SignatureCheck) -> bool:
    return (
        check.holds
        and bool(check.key_names)
        and check.key_names[0].startswith("SHA256:")
    )


def _entry(raw: RawEntry, content: bytes | None, check: SignatureCheck) -> Entry:
    parsed = parse_envelope(content or b"")
    signer = check.key_names[0] if check.holds and check.key_names else None
    if not isinstance(parsed, Envelope) or not check_envelope(parsed).valid:
        return Entry(
            raw.place,
            raw.path,
            raw.blob,
            "",
            signer,
            ActUnreadable("it is not a valid envelope"),
        )
    acts = read_acts(parsed.body)
    read = acts if isinstance(acts, ActUnreadable) else tuple(acts)
    return Entry(
        raw.place, raw.path, raw.blob, str(parsed.frontmatter["from"]), signer, read
    )


def in_force(rig: Rig, thread_id: str, note: FreezeNote) -> "Freeze | None":
    """What a note says, as far as its author may say it; None if that is nothing, or nothing any more."""
    from bridgehead.rigs.threads.freeze import read_freeze

    freeze = read_freeze(note.text)
    if freeze is None or not freeze.holds(rig.now_ms()):
        return None
    identities = Identities(rig)
    signed_by: frozenset[str] = frozenset()
    if note.signed and identities.membership.founded is not None:
        check = identities.check([note.object_id])[note.object_id]
        names = check.key_names if check.holds else ()
        signed_by = frozenset(
            who for name in names for who in identities.membership.holders(name, NOW)
        )
    allowed = freeze.as_allowed(thread_id, identities.membership, signed_by)
    if allowed is None:
        rig.tell_once(
            f"warning: the freeze of {thread_id} in the name of {freeze.rig} is "
            "ignored: "
            "it is not signed by a member who may freeze"
        )
    return allowed if allowed is not None and allowed.holds(rig.now_ms()) else None


def allowed_signers_file(rig: Rig) -> Path | None:
    """The file of the rig's configuration, else the one git's configuration names; None if there is no such file.

    A tracked file is not used: whoever may push would choose who is trusted.
    """
    named = rig.settings.allowed_signers if rig.settings else None
    path = (
        Path(rig.repository.root, named).expanduser()
        if named
        else rig.repository.allowed_signers()
    )
    if path is None or not path.is_file():
        return None
    if tracked := tracked_path(rig, path):
        rig.tell_once(
            f"warning: the signers in {tracked} are tracked by git, so other rigs can "
            "change them and none is trusted; "
            "to trust one here: rig-bridge trust add <principal> <key>"
        )
        return None
    return path


def tracked_path(rig: Rig, path: Path) -> str | None:
    """Return the path in the repository, of the file or of what a link leads to, if git tracks it."""
    root = Path(rig.repository.root)
    for place, top in ((path, root), (path.resolve(), root.resolve())):
        if place.is_relative_to(top) and rig.repository.is_tracked(
            place.relative_to(top).as_posix()
        ):
            return place.relative_to(top).as_posix()
    return None


def _text_of(path: Path | None) -> str:
    try:
        return (
            read_bounded(path, MAX_SIGNERS_BYTES).decode("utf-8", "surrogateescape")
            if path
            else ""
        )
    except FileError:
        return ""
