"""Look at envelopes that arrived or are shown: file, history, signature, attestation (rigs §9.4).

Gathers the facts from the repository and hands them to the rules in verdict.py and attestation.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from bridgehead.rigs.attestation import (
    Signature,
    Witness,
    is_relay_turn,
    relay_findings,
    signature_findings,
)
from bridgehead.rigs.envelope import Envelope, parse_envelope
from bridgehead.rigs.filenames import envelope_at
from bridgehead.rigs.frontmatter import ParseFailure
from bridgehead.rigs.operations.rig import Rig
from bridgehead.rigs.repositories.records import UNSIGNED, CommitRecord, SignatureCheck
from bridgehead.rigs.verdict import check_envelope, file_findings
from bridgehead.rigs.verification_kinds import Kind, PathFindings, Verification, sum_up

_TOO_LARGE = ParseFailure("the file is larger than an envelope may be")


class Committed(NamedTuple):
    """An envelope in history: what it is now, the commit that added it, and whether its path had content before."""

    path: str
    blob: str
    is_symlink: bool
    added_by: CommitRecord
    rewritten: bool

    @property
    def thread_id(self) -> str:
        return self.path.partition("/")[0]


def committed_envelopes(history: Sequence[CommitRecord], thread_id: str | None = None) -> list[Committed]:
    """Follow every envelope through a history, given parents first; those that were deleted again are left out."""
    found: dict[str, Committed] = {}
    gone: set[str] = set()
    for commit in history:
        for change in commit.changes:
            place = envelope_at(change.path)
            if place is None or (thread_id is not None and place.thread_id != thread_id):
                continue
            known = found.get(change.path)
            if change.status == "D":
                if found.pop(change.path, None):
                    gone.add(change.path)
            elif known is None:
                again = change.path in gone
                found[change.path] = Committed(change.path, change.blob, change.is_symlink, commit, again)
            elif change.blob != known.blob:
                found[change.path] = known._replace(
                    blob=change.blob, is_symlink=change.is_symlink, rewritten=True
                )
    return list(found.values())


class Parsed(NamedTuple):
    """A committed envelope with its content."""

    where: Committed
    content: Envelope | ParseFailure

    @property
    def nonce(self) -> str | None:
        return self._text("nonce")

    @property
    def body_hash(self) -> str | None:
        return self._text("body_hash")

    def _text(self, name: str) -> str | None:
        value = self.content.frontmatter.get(name) if isinstance(self.content, Envelope) else None
        return value if isinstance(value, str) else None


def read_committed(rig: Rig, envelopes: Sequence[Committed]) -> list[Parsed]:
    """Read and parse envelopes straight from the object store."""
    blobs = rig.repository.read_blobs([found.blob for found in envelopes if not found.is_symlink])
    parsed: list[Parsed] = []
    for found in envelopes:
        raw = b"" if found.is_symlink else blobs.get(found.blob)
        parsed.append(Parsed(found, _TOO_LARGE if raw is None else parse_envelope(raw)))
    return parsed


class Verifier:
    """Judges envelopes of one repository. `earlier` gives those that were there before the ones to be judged."""

    def __init__(self, rig: Rig, earlier: Callable[[], Sequence[Parsed]] = tuple) -> None:
        self._rig = rig
        self._read_earlier = earlier
        self._signers = allowed_signers_file(rig)

    def judge(self, envelopes: Sequence[Parsed]) -> list[tuple[Parsed, Verification]]:
        """Judge envelopes, given oldest first."""
        commits = list(dict.fromkeys(parsed.where.added_by.commit for parsed in envelopes))
        checks = self._rig.repository.check_signatures(commits, self._signers) if commits else {}
        nonces: dict[str, str] = {}
        judged = []
        for position, parsed in enumerate(envelopes):
            check = checks.get(parsed.where.added_by.commit, UNSIGNED)
            kinds = tuple(dict.fromkeys(self._findings(parsed, check, envelopes[:position], nonces)))
            known = self._signers is not None and check.signature is Signature.KNOWN
            judged.append((parsed, sum_up(kinds, known_signer=known)))
        return judged

    def _findings(
        self, parsed: Parsed, check: SignatureCheck, before: Sequence[Parsed], nonces: dict[str, str]
    ) -> Iterator[Kind]:
        if parsed.where.is_symlink:
            yield Kind.SYMLINK
            return
        yield from file_findings(parsed.content, check_envelope(parsed.content), parsed.where.thread_id)
        if parsed.where.rewritten:
            yield Kind.REWRITTEN
        relay = isinstance(parsed.content, Envelope) and is_relay_turn(parsed.content.frontmatter)
        if not relay or not isinstance(parsed.content, Envelope):
            yield from signature_findings(
                check.signature, relay=False, signers_known=self._signers is not None
            )
            return
        witness = self._witness(parsed, check, before, nonces)
        yield from relay_findings(
            parsed.content.frontmatter, witness, signers_known=self._signers is not None
        )

    def _witness(
        self, parsed: Parsed, check: SignatureCheck, before: Sequence[Parsed], nonces: dict[str, str]
    ) -> Witness:
        content = parsed.content
        assert isinstance(content, Envelope)
        claimed, parent = content.frontmatter.get("attested_by"), content.frontmatter.get("in_reply_to")
        commit = parsed.where.added_by
        return Witness(
            signature=check.signature,
            fingerprint=check.fingerprint_for(claimed if isinstance(claimed, str) else ""),
            signed_by_author=check.principal is not None and _covers(check.principal, commit.author.email),
            committed_at_ms=commit.committed_at * 1000,
            parent_known=isinstance(parent, str) and self._knows_parent(parsed, parent, before),
            nonce_seen_before=self._seen_before(parsed, nonces),
        )

    @cached_property
    def _earlier(self) -> Sequence[Parsed]:
        return self._read_earlier()

    def _knows_parent(self, parsed: Parsed, parent: str, before: Sequence[Parsed]) -> bool:
        thread_id = parsed.where.thread_id
        return any(
            other.where.thread_id == thread_id and other.body_hash == parent
            for other in (*before, *self._earlier)
        )

    def _seen_before(self, parsed: Parsed, nonces: dict[str, str]) -> bool:
        if parsed.nonce is None:
            return False
        if not nonces:
            nonces.update({other.nonce: other.where.path for other in self._earlier if other.nonce})
        first = nonces.setdefault(parsed.nonce, parsed.where.path)
        return first != parsed.where.path


def allowed_signers_file(rig: Rig) -> Path | None:
    """The file of the rig's configuration, else the one git's configuration names; None if there is no such file."""
    named = rig.settings.allowed_signers if rig.settings else None
    path = Path(rig.repository.root, named).expanduser() if named else rig.repository.allowed_signers()
    return path if path is not None and path.is_file() else None


def findings_of(judged: Sequence[tuple[Parsed, Verification]]) -> list[PathFindings]:
    return [PathFindings(parsed.where.path, verification.kinds) for parsed, verification in judged]


def _covers(principals: str, email: str) -> bool:
    from bridgehead.rigs.allowed_signers import covers

    return covers(principals, email)
