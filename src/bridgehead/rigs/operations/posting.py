"""How an envelope becomes a pushed commit: one file, one commit, a push that survives a lost race (rigs §8, §9.5)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from bridgehead.errors import FileError, UserError
from bridgehead.host.directories import make_dir
from bridgehead.host.file_errors import FileTaken
from bridgehead.host.files import read_bounded, write_atomic
from bridgehead.rigs.envelope.envelope import MAX_ENVELOPE_BYTES, parse_frontmatter
from bridgehead.rigs.envelope.fields import refuse_members_thread
from bridgehead.rigs.envelope.frontmatter import ParseFailure
from bridgehead.rigs.envelope.yaml_core import Value
from bridgehead.rigs.operations.drafts import Draft
from bridgehead.rigs.repositories.errors import GitFailed, PushFailed
from bridgehead.rigs.repositories.records import CommitRecord, Identity, Pushed, Rebuilt, Wire
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.views.results import PushedTurns

PUSH_TRIES = 5
_FIRST_BACKOFF_SECONDS = 0.1
_LARGE_FILE_BYTES = 25 * 1000 * 1000
_JITTER_BITS = 16
PUSH_COMMAND = "rig-bridge push"
_OUTGOING = "outgoing.json"
_MAX_OUTGOING_BYTES = 1 << 20
_MOST_OUTGOING = 1000
# What makes two envelopes the same word twice; when it was said, and what was known then, does not.
_INTENT = ("from", "to", "status", "type", "thread", "in_reply_to", "tldr", "body_hash")
LANDED_LOCALLY = "commit landed locally but push failed."


class Post(NamedTuple):
    """What is to be committed; name and subject are chosen when the lock is held."""

    thread_id: str
    draft: Draft
    name: Callable[[Collection[str]], str]
    subject: Callable[[str], str]
    push: bool
    retry: bool = True
    identity: Identity | None = None
    must_sign: bool = False
    replaces_draft: bool = False


class Landed(NamedTuple):
    """Where an envelope ended up."""

    path: str
    commit: str
    pushed: bool
    crossed: tuple[str, ...] = ()  # paths of envelopes that came in while it was on its way


class ArrivalRefused(PushFailed):
    """Others pushed first, and what they pushed may not be taken in."""

    def __init__(self, wire: Wire, git_says: str, refusal: str, advice: str) -> None:
        super().__init__(wire.remote, wire.branch, git_says)
        self.hint = f"what the remote has was refused ({refusal}): {advice}; then {PUSH_COMMAND}"


def require_thread(rig: Rig, thread_id: str) -> str:
    """Return the thread's id if it has a directory; whether a thread may be called so is the schema's to say."""
    inside = not thread_id.startswith("/") and ".." not in thread_id.split("/")
    if not inside or not rig.repository.has_directory(thread_id):
        raise UserError(
            f'thread directory not found: "{thread_id}"', hint=f"rig-bridge new {thread_id} opens the thread"
        )
    refuse_members_thread(thread_id)
    return thread_id


def refuse_if_frozen(rig: Rig, thread_id: str, wire: Wire | None, *, push: bool) -> None:
    """Keep out of a thread that waits for a human (rigs §10); only a push asks the remote."""
    if push and wire is not None:
        note = rig.repository.ask_freeze(wire, thread_id)
    else:
        note = rig.repository.freezes().get(thread_id)
    if note is None:
        return
    from bridgehead.rigs.operations.identities import in_force
    from bridgehead.rigs.threads.freeze import ThreadFrozen

    freeze = in_force(rig, thread_id, note)
    if freeze is not None and freeze.forbids(rig.config.rig_id, rig.now_ms()):
        raise ThreadFrozen(thread_id, freeze)


def post(rig: Rig, wire: Wire | None, what: Post) -> Landed:
    """Write, commit and push one envelope. The caller holds the lock and has asked for the wire."""
    text = what.draft.text.encode()
    if len(text) > MAX_ENVELOPE_BYTES:
        raise UserError(
            f"the envelope would have {len(text)} bytes, more than the 50 MiB ({MAX_ENVELOPE_BYTES}) anybody reads"
        )
    if len(text) > _LARGE_FILE_BYTES:
        rig.tell(f"warning: the envelope has {len(text) // 1_000_000} MB; others must download it")
    if not what.push or wire is None:
        return Landed(*_commit(rig, what, text), pushed=False)
    outgoing = Outgoing(rig.repository.private_dir)
    intent = intent_of(what.draft.frontmatter)
    landed = _said_before(rig, what.thread_id, intent, outgoing.since(intent)) if outgoing.has(intent) else None
    if landed is not None and landed.pushed:
        rig.tell(f"{landed.path} says the same and has been pushed since: nothing is written twice")
        outgoing.change(drop=intent)
        return landed
    if landed is not None:
        rig.tell(f"{landed.path} says the same and was never pushed: that one is pushed, nothing is written twice")
    else:
        outgoing.change(add=intent, since=rig.repository.head().commit or "")
        landed = Landed(*_commit(rig, what, text), pushed=False)
    try:
        landed = _push(rig, wire, landed, retry=what.retry)
        outgoing.change(drop=intent)
        return landed
    except GitFailed as error:
        if isinstance(error, ArrivalRefused):
            rig.tell(LANDED_LOCALLY)
        else:
            _advise_recovery(rig)
        raise
    except UserError:  # files in the way; it names them
        rig.tell(LANDED_LOCALLY)
        raise


def push_unsent(rig: Rig) -> PushedTurns:
    """Bring what is committed here and not on the wire to the others; what they have pushed comes in first."""
    with rig.repository.lock():
        rig.repository.recover()
        wire = rig.repository.wire(rig.config.remote, rig.config.branch)
        unpushed, head = rig.repository.unpushed(), rig.repository.head().commit
        if wire is None or head is None or not unpushed:
            return PushedTurns(0, head or "")
        landed = _push(rig, wire, Landed("", head, pushed=False), retry=True)
        Outgoing(rig.repository.private_dir).clear()
    rig.announce("rig.pushed", commit=landed.commit, envelopes=len(unpushed))
    return PushedTurns(len(unpushed), landed.commit)


def intent_of(frontmatter: Mapping[str, Value]) -> str:
    """Return what an envelope is meant to say, to whom, in how many words ever: the same text means the same."""
    from hashlib import sha256
    from json import dumps

    said = [frontmatter.get(name) for name in _INTENT]
    return sha256(dumps(said, ensure_ascii=False).encode("utf-8", "surrogatepass")).hexdigest()


class Outgoing:
    """What was to be pushed and, as far as this clone knows, is not yet."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / _OUTGOING

    def has(self, intent: str) -> bool:
        return intent in self._read()

    def since(self, intent: str) -> str:
        """Return the commit after which it was to be said; empty if there was none."""
        return self._read().get(intent, "")

    def change(self, *, add: str | None = None, since: str = "", drop: str | None = None) -> None:
        """Called under the lock. Not being able to write costs the next sender the look at what is unpushed."""
        kept = {intent: commit for intent, commit in self._read().items() if intent not in (add, drop)}
        self._write({**kept, **({add: since} if add else {})})

    def clear(self) -> None:
        self._write({})

    def _read(self) -> dict[str, str]:
        from json import loads

        try:
            return {str(name): str(since) for name, since in loads(read_bounded(self._path, _MAX_OUTGOING_BYTES))}
        except (FileError, ValueError, TypeError):
            return {}

    def _write(self, intents: Mapping[str, str]) -> None:
        from json import dumps

        with suppress(FileError):
            make_dir(self._path.parent)
            write_atomic(self._path, dumps([*intents.items()][-_MOST_OUTGOING:]))


def _said_before(rig: Rig, thread_id: str, intent: str, since: str) -> Landed | None:
    """The envelope of a thread that says this already: unpushed, or taken along by another command's push meanwhile.

    A killed command may have come as far as that, too. Pushing it takes along what lies on top of it.
    """
    unpushed = rig.repository.unpushed()
    waiting = {record.commit for record in unpushed}
    later: list[CommitRecord] = []
    with suppress(GitFailed):  # the commit is gone: only what is unpushed can be compared
        later = rig.repository.commits_between(since, rig.repository.head().commit or since) if since else []
    added = [
        (record.commit, change)
        for record in (*unpushed, *later)
        for change in record.changes
        if change.status == "A" and change.path.startswith(f"{thread_id}/")
    ]
    blobs = rig.repository.read_blobs([change.blob for _, change in added])
    for commit, change in added:
        read = parse_frontmatter(blobs.get(change.blob) or b"")
        if not isinstance(read, ParseFailure) and intent_of(read) == intent:
            return Landed(change.path, commit, pushed=commit not in waiting)
    return None


def _commit(rig: Rig, what: Post, text: bytes) -> tuple[str, str]:
    taken = set(rig.repository.filenames(what.thread_id))
    while True:
        name = what.name(taken)
        path = f"{what.thread_id}/{name}"
        try:
            posting = rig.repository.begin_posting(path, text, replaces_draft=what.replaces_draft)
        except FileTaken:  # somebody without our lock was faster, the reference for one
            if name in taken:
                raise
            taken.add(name)
            continue
        with posting:
            commit = posting.land(what.subject(path), identity=what.identity, must_sign=what.must_sign)
        for warning in posting.warnings:
            rig.tell(f"warning: {warning}")
        return path, commit


def _push(rig: Rig, wire: Wire, landed: Landed, *, retry: bool) -> Landed:
    backoff, reason = _FIRST_BACKOFF_SECONDS, ""
    for attempt in range(PUSH_TRIES + 1):
        outcome = rig.repository.push(wire, landed.commit)
        if isinstance(outcome, Pushed):
            return _note_crossed(rig, landed._replace(pushed=True))
        reason = outcome.reason
        if not retry or attempt == PUSH_TRIES:
            break
        rig.sleep(backoff * (0.5 + rig.random_bits(_JITTER_BITS) / (1 << _JITTER_BITS)))
        backoff *= 2
        moved = _rebuild_on(rig, wire, landed, reason)
        if moved is None:
            break
        landed = moved
    _note_crossed(rig, landed)
    raise PushFailed(wire.remote, wire.branch, reason)


def _rebuild_on(rig: Rig, wire: Wire, landed: Landed, reason: str) -> Landed | None:
    """Take in what was pushed before us, through the gate, and put our turns on top; None if ours do not allow it."""
    from bridgehead.rigs.operations.arrivals import (
        Acceptance,
        hold,
        inspect,
        narrate,
        refuse_to_overwrite,
        remedy,
        settle,
    )

    arrival = inspect(rig, rig.repository.fetch(wire), Acceptance(), rebuilds=True)
    if arrival.refusal is not None:
        narrate(rig, arrival)
        settle(rig, arrival, moved=False)
        raise ArrivalRefused(wire, reason, str(arrival.refusal), remedy(arrival) or "")
    if not arrival.report.remote_ahead:
        return landed  # it has not moved: what we have stands on it already
    refuse_to_overwrite(rig, arrival)
    hold(rig, arrival)
    rebuilt = rig.repository.rebuild(arrival.report.remote_head, inspected=True)
    if rebuilt is None:
        return None
    moved = _moved(rig, landed, rebuilt)
    settle(rig, arrival, moved=arrival.report.remote_ahead > 0)
    narrate(rig, arrival)
    return moved._replace(crossed=(*landed.crossed, *arrival.taken_in))


def _note_crossed(rig: Rig, landed: Landed) -> Landed:
    """Remember what the author of a turn cannot have known, although its commit lies on top of it."""
    if landed.crossed:
        from bridgehead.rigs.threads.crossings import Crossings

        Crossings(rig.repository.private_dir).note(landed.path, landed.crossed)
    return landed


def _moved(rig: Rig, landed: Landed, rebuilt: list[Rebuilt]) -> Landed:
    """Follow our envelope to its new commit, and tell the ledger about every turn that moved."""
    rig.ledger.rewritten(rebuilt)
    for turn in rebuilt:
        if turn.old_commit == landed.commit:
            landed = landed._replace(path=turn.path, commit=turn.commit)
    return landed


def _advise_recovery(rig: Rig) -> None:
    rig.tell(LANDED_LOCALLY)
    rig.tell(f"to bring it to the others: cd {rig.repository.root}; {PUSH_COMMAND}")
