"""Know whose key is whose in this clone.

That follows from the keys pinned by hand, the membership in history, and signatures.
A signature is checked once: a commit never changes, so what git found is kept until
the file of pinned keys changes.
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
    """Who is who, for envelopes that are here and for those that are arriving.

    `arriving` are the entries that come with the latter, and `parents` is the graph of
    what arrives if its history is not linear.
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
        knows_founder = self._founder_file.exists()
        if membership.founded is None:
            if knows_founder:
                self._rig.tell_once(
                    "warning: the entry that founded the membership was changed or "
                    f"deleted in {MEMBERS_THREAD}, so "
                    "no member is known here; rig-bridge verify shows what was changed"
                )
        elif not knows_founder and not self._arriving:
            # Trust on first use: from now on it is this one.
            keep(self._founder_file, membership.founded.blob + "\n")
        return Keyring(self.pins, membership)

    def own_names(self) -> frozenset[str]:
        """Return the members that the key of this clone speaks for now."""
        key = self._rig.repository.signing_key_text()
        if not key:
            return frozenset()
        return self.membership.holders(fingerprint_of(key) or "", NOW)

    def objection(self, sender: str, key: str, acts: Sequence[Act]) -> str | None:
        """Return why acts that `sender` signs now with this key would be refused."""
        last = max((entry.place.position for entry in self._entries), default=0)
        place = Place("", max(last + 1, ARRIVING))
        proposal = Entry(place, "", "", sender, key, tuple(acts))
        return self._fold([*self._entries, proposal]).refused.get("")

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
        raw_entries = [*self._entries_here(), *self._arriving]
        if not raw_entries:
            return []
        blobs = self._rig.repository.read_blobs([raw.blob for raw in raw_entries])
        checks = self.check(raw.place.commit for raw in raw_entries if raw.signed)
        return [
            _entry(raw, blobs.get(raw.blob), checks.get(raw.place.commit, UNSIGNED))
            for raw in raw_entries
        ]

    @property
    def membership(self) -> Membership:
        return self.keyring.membership

    @property
    def signers_known(self) -> bool:
        """Whether this clone trusts anybody at all."""
        return self.signers_file is not None or self.membership.founded is not None

    @cached_property
    def judges_unsigned(self) -> bool:
        """Whether an envelope can be bad just because it is not signed."""
        if self.must_sign == "members":
            return self.keyring.knows_anybody
        return self.must_sign == "all"

    def check(self, commits: Iterable[str]) -> dict[str, SignatureCheck]:
        """Return the signature checks of commits; git is asked about each one once."""
        wanted = list(dict.fromkeys(commits))
        for commit in wanted:
            if commit not in self._checks:
                stored = self._stored_checks.get(commit.encode(), b"")
                check = _read_check(stored)
                if check is not None:
                    self._checks[commit] = check
        missing = [commit for commit in wanted if commit not in self._checks]
        if missing:
            fresh = self._rig.repository.check_signatures(missing, self.signers_file)
            self._checks |= fresh
            self._store(fresh)
        return {commit: self._checks[commit] for commit in wanted}

    @cached_property
    def _stored_checks(self) -> dict[bytes, bytes]:
        """The checks as they lie in the file.

        They are parsed when asked for: there may be very many, of which few matter.
        """
        try:
            first, *lines = read_bounded(self._checks_file, _MAX_BYTES).splitlines()
            stored = dict(line.split(b" ", 1) for line in lines)
            is_current = json.loads(first) == [_FORMAT, self._checked_with]
        except (FileError, ValueError, TypeError):
            return {}
        return stored if is_current else {}

    def _store(self, checks: Mapping[str, SignatureCheck]) -> None:
        """Store the checks that cannot change later: those of good SSH signatures."""
        for commit, check in checks.items():
            if _is_lasting(check):
                self._stored_checks[commit.encode()] = _check_row(check)
        rows = [b"%s %s" % item for item in self._stored_checks.items()]
        header = json.dumps([_FORMAT, self._checked_with]).encode()
        keep(self._checks_file, b"\n".join([header, *rows[-_MOST_CHECKS:]]))

    @cached_property
    def _checked_with(self) -> str:
        """Everything besides the commit that a check depends on."""
        revoked_keys = self._rig.repository.revoked_keys()
        return f"{self.signers_file}\n{revoked_keys}\n{self._signers_text}"

    def _entries_here(self) -> list[RawEntry]:
        """Return the entries in HEAD, even if the work tree lacks their folder."""
        has_folder = self._rig.repository.has_directory(MEMBERS_THREAD)
        if not has_folder and not self._founder_file.exists():
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
        arriving = self._parents
        if here is None and arriving is None:
            return Order()
        if not here:
            here = self._rig.repository.ancestry()
        return Order({**here, **(arriving or {})})


def _check_row(check: SignatureCheck) -> bytes:
    fields = [check.signature.value, check.principal, check.key_names, check.holds]
    return json.dumps(fields).encode()


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
    sender = ""
    acts: tuple[Act, ...] | ActUnreadable
    if isinstance(parsed, Envelope) and check_envelope(parsed).valid:
        sender = str(parsed.frontmatter["from"])
        found = read_acts(parsed.body)
        acts = found if isinstance(found, ActUnreadable) else tuple(found)
    else:
        acts = ActUnreadable("it is not a valid envelope")
    return Entry(raw.place, raw.path, raw.blob, sender, signer, acts)


def in_force(rig: Rig, thread_id: str, note: FreezeNote) -> "Freeze | None":
    """Return the freeze of a note, as far as its author may freeze; None if expired."""
    from bridgehead.rigs.threads.freeze import read_freeze

    freeze = read_freeze(note.text)
    if freeze is None or not freeze.holds(rig.now_ms()):
        return None
    identities = Identities(rig)
    signers = _signers_of(note, identities)
    allowed = freeze.as_allowed(thread_id, identities.membership, signers)
    if allowed is None:
        rig.tell_once(
            f"warning: the freeze of {thread_id} in the name of {freeze.rig} is "
            "ignored: "
            "it is not signed by a member who may freeze"
        )
        return None
    return allowed if allowed.holds(rig.now_ms()) else None


def _signers_of(note: FreezeNote, identities: Identities) -> frozenset[str]:
    """Return the members who signed a note."""
    membership = identities.membership
    if not note.signed or membership.founded is None:
        return frozenset()
    check = identities.check([note.object_id])[note.object_id]
    if not check.holds:
        return frozenset()
    signers: set[str] = set()
    for key_name in check.key_names:
        signers |= membership.holders(key_name, NOW)
    return frozenset(signers)


def allowed_signers_file(rig: Rig) -> Path | None:
    """Return the file of trusted signers; None if there is none.

    The rig's configuration names it, or else git's. A tracked file is not used: anybody
    who may push would choose who is trusted.
    """
    named = rig.settings.allowed_signers if rig.settings else None
    if named:
        path: Path | None = Path(rig.repository.root, named).expanduser()
    else:
        path = rig.repository.allowed_signers()
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
    """Return the path of a file in the repository if git tracks it.

    A link counts as the file it leads to.
    """
    root = Path(rig.repository.root)
    for file, top in ((path, root), (path.resolve(), root.resolve())):
        if not file.is_relative_to(top):
            continue
        inside = file.relative_to(top).as_posix()
        if rig.repository.is_tracked(inside):
            return inside
    return None


def _text_of(path: Path | None) -> str:
    if path is None:
        return ""
    try:
        content = read_bounded(path, MAX_SIGNERS_BYTES)
    except FileError:
        return ""
    return content.decode("utf-8", "surrogateescape")
