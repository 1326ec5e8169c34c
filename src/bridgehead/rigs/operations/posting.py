"""How an envelope becomes a pushed commit: one file, one commit, a push that survives a lost race (rigs §8, §9.5)."""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from bridgehead.errors import FileError, UserError
from bridgehead.host.file_errors import FileTaken
from bridgehead.host.files import read_bounded
from bridgehead.rigs.envelope.envelope import MAX_ENVELOPE_BYTES, parse_frontmatter
from bridgehead.rigs.envelope.fields import MEMBERS_THREAD, refuse_members_thread
from bridgehead.rigs.envelope.frontmatter import ParseFailure
from bridgehead.rigs.envelope.names import envelope_at
from bridgehead.rigs.envelope.yaml_core import Value
from bridgehead.rigs.operations.drafts import Draft
from bridgehead.rigs.repositories.errors import GitFailed, PushFailed
from bridgehead.rigs.repositories.records import (
    CommitRecord,
    Identity,
    Pushed,
    Rebuilt,
    Wire,
)
from bridgehead.rigs.repositories.work_tree import keep, names_in
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.views.results import PushedTurns

PUSH_TRIES = 5
_FIRST_BACKOFF_SECONDS = 0.1
_LARGE_FILE_BYTES = 25 * 1000 * 1000
_JITTER_BITS = 16
PUSH_COMMAND = "rig-bridge push"
_OUTGOING = "outgoing"
_MAX_OUTGOING_BYTES = 200
_TOLD = b"!"
_REPEATED_WITHIN_MS = 3_600_000
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
    heeds_freeze: bool = False


class Landed(NamedTuple):
    """Where an envelope ended up."""

    path: str
    commit: str
    pushed: bool
    crossed: tuple[
        str, ...
    ] = ()  # paths of envelopes that came in while it was on its way


class ArrivalRefused(PushFailed):
    """The remote is not where it was, and what it has now may not be taken in, or lacks what it had."""

    def __init__(
        self, wire: Wire, git_says: str, refusal: str | None, advice: str
    ) -> None:
        super().__init__(wire.remote, wire.branch, git_says)
        refused = f"what the remote has was refused ({refusal}): " if refusal else ""
        self.hint = f"{refused}{advice}; then {PUSH_COMMAND}"


def require_thread(rig: Rig, thread_id: str) -> str:
    """Return the thread's id if it has a directory; whether a thread may be called so is the schema's to say."""
    inside = not thread_id.startswith("/") and ".." not in thread_id.split("/")
    if not inside or not rig.repository.has_directory(thread_id):
        raise UserError(
            f'thread directory not found: "{thread_id}"',
            hint=f"rig-bridge new {thread_id} opens the thread",
        )
    refuse_members_thread(thread_id)
    return thread_id


def _refuse_if_frozen(
    rig: Rig, thread_id: str, wire: Wire | None, *, push: bool
) -> None:
    """Keep out of a thread that waits for a human (rigs §10); only a push asks the remote."""
    here = rig.repository
    note = (
        here.ask_freeze(wire, thread_id)
        if push and wire is not None
        else here.freezes().get(thread_id)
    )
    if note is None:
        return
    from bridgehead.rigs.operations.identities import in_force
    from bridgehead.rigs.threads.freeze import ThreadFrozen

    freeze = in_force(rig, thread_id, note)
    if freeze is not None and freeze.forbids(rig.config.rig_id, rig.now_ms()):
        raise ThreadFrozen(thread_id, freeze)


def post(rig: Rig, what: Post) -> Landed:
    """Write, commit and push one envelope. The caller holds the lock."""
    text = what.draft.text.encode()
    if len(text) > MAX_ENVELOPE_BYTES:
        raise UserError(
            f"the envelope would have {len(text)} bytes; the limit is 50 MiB "
            f"({MAX_ENVELOPE_BYTES})"
        )
    if len(text) > _LARGE_FILE_BYTES:
        rig.tell(
            f"warning: the envelope has {len(text) // 1_000_000} MB; others must "
            "download it"
        )
    wire = rig.repository.wire(rig.config.remote, rig.config.branch, pushing=what.push)
    if what.heeds_freeze:
        _refuse_if_frozen(rig, what.thread_id, wire, push=what.push)
    outgoing = Outgoing(rig.repository.private_dir)
    intent = intent_of(what.draft.frontmatter)
    pushing = what.push and wire is not None
    landed = _said_before(rig, what.thread_id, intent, outgoing, pushing=pushing)
    if landed is None:
        outgoing.add(intent, rig.repository.head().commit or "", rig.now_ms())
        landed = Landed(*_commit(rig, what, text), pushed=False)
    elif landed.pushed or not pushing:
        rig.tell(
            f"{landed.path} was committed earlier with the same content; no second "
            "envelope was written"
        )
    else:
        rig.tell(
            f"{landed.path} has the same content and was not pushed yet; no second "
            "envelope was written"
        )
    if what.push and wire is not None and not landed.pushed:
        try:
            landed = _push(rig, wire, landed, retry=what.retry)
        except (GitFailed, UserError) as error:
            rig.tell(LANDED_LOCALLY)
            # The others name what to do.
            if isinstance(error, GitFailed) and not isinstance(error, ArrivalRefused):
                rig.tell(f"to push it: cd {rig.repository.root}; {PUSH_COMMAND}")
            raise
    rig.once_answered(lambda: outgoing.mark(intent))
    if what.thread_id != MEMBERS_THREAD and rig.repository.has_directory(
        MEMBERS_THREAD
    ):
        _warn_if_kept_apart(rig)
    return landed


def _warn_if_kept_apart(rig: Rig) -> None:
    """Say so when this rig is, or was, on record and what it signs with does not count for it now."""
    from bridgehead.rigs.operations.identities import Identities

    identities = Identities(rig)
    own = str(rig.config.rig_id)
    if own in identities.membership.names and own not in identities.own_names():
        rig.tell(
            f"warning: the key of this clone is not valid for {own} now, so other "
            "rigs quarantine this; "
            f"a member can admit the rig again: rig-bridge member add {own} <its .pub "
            "file>"
        )


def push_unsent(rig: Rig) -> PushedTurns:
    """Bring what is committed here and not on the wire to the others; what they have pushed comes in first."""
    with rig.repository.lock():
        rig.repository.recover()
        wire = rig.repository.wire(rig.config.remote, rig.config.branch)
        unpushed = rig.repository.unpushed()
        head = rig.repository.head().commit
        if wire is None or head is None or not unpushed:
            return PushedTurns(0, head or "")
        landed = _push(rig, wire, Landed("", head, pushed=False), retry=True)
    rig.once_answered(Outgoing(rig.repository.private_dir).clear)
    added = [
        change.path
        for record in unpushed
        for change in record.changes
        if change.status == "A"
    ]
    turns = len([path for path in added if envelope_at(path)])
    rig.announce("rig.pushed", commit=landed.commit, envelopes=turns)
    return PushedTurns(turns, landed.commit)


def intent_of(frontmatter: Mapping[str, Value]) -> str:
    """Return what an envelope is meant to say, to whom, in how many words ever: the same text means the same."""
    from hashlib import sha256
    from json import dumps

    said = [frontmatter.get(name) for name in _INTENT]
    return sha256(
        dumps(said, ensure_ascii=False).encode("utf-8", "surrogatepass")
    ).hexdigest()


class Outgoing:
    """What was to be said and whose sender, as far as this clone knows, was never told that it was: a file for each.

    A command that is killed leaves its file, so that the same words are not said twice if it is repeated. One that
    ended marks it, so they can be said again. Between the last byte of an answer and the mark a kill leaves the file of
    a sender who knows; that is why those of pushed envelopes count for an hour only.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory / _OUTGOING

    def find(self, intent: str) -> tuple[str, int] | None:
        """Return the commit after which it was to be said, empty if there was none, and when; None if it was not."""
        with suppress(FileError, ValueError):
            content = read_bounded(self._directory / intent, _MAX_OUTGOING_BYTES)
            since, _, moment = content.decode().partition(" ")
            if not content.startswith(_TOLD):
                return since, int(moment)
            self.drop(intent)
        return None

    def add(self, intent: str, since: str, now_ms: int) -> None:
        """Not being able to write costs a repeated sender the look at what it said before, nothing else."""
        for other in names_in(self._directory):
            self.find(other)
        keep(self._directory / intent, f"{since} {now_ms}")

    def mark(self, intent: str) -> None:
        """Note that its sender was told; removing the file takes longer, and a kill meanwhile looks like a failure."""
        with (
            suppress(OSError),
            (self._directory / intent).open("r+b", buffering=0) as file,
        ):
            file.write(_TOLD)

    def drop(self, intent: str) -> None:
        with suppress(OSError):
            (self._directory / intent).unlink(missing_ok=True)

    def clear(self) -> None:
        for intent in names_in(self._directory):
            self.drop(intent)


def _said_before(
    rig: Rig, thread_id: str, intent: str, outgoing: Outgoing, *, pushing: bool
) -> Landed | None:
    """The envelope of a thread that says this already, although its sender was not told so.

    It is unpushed, or was pushed by a command that was killed then, or was taken along by another. Pushing it takes
    along what lies on top of it.
    """
    known = outgoing.find(intent)
    if known is None:
        return None
    since = known[0]
    is_late = known[1] + _REPEATED_WITHIN_MS < rig.now_ms()
    unpushed = rig.repository.unpushed()
    waiting = {record.commit for record in unpushed}
    has_upstream = rig.repository.head().tracking_ref is not None
    later: list[CommitRecord] = []
    # The commit is gone: only what is unpushed can be compared.
    with suppress(GitFailed):
        later = (
            rig.repository.commits_between(since, rig.repository.head().commit or since)
            if since
            else []
        )
    added = [
        (record.commit, change)
        for record in (*unpushed, *later)
        for change in record.changes
        if change.status == "A" and change.path.startswith(f"{thread_id}/")
    ]
    blobs = rig.repository.read_blobs([change.blob for _, change in added])
    for commit, change in added:
        read = parse_frontmatter(blobs.get(change.blob) or b"")
        counts = not is_late or (pushing and commit in waiting)
        if counts and not isinstance(read, ParseFailure) and intent_of(read) == intent:
            return Landed(
                change.path, commit, pushed=commit not in waiting and has_upstream
            )
    return None


def _commit(rig: Rig, what: Post, text: bytes) -> tuple[str, str]:
    taken = set(rig.repository.filenames(what.thread_id))
    while True:
        name = what.name(taken)
        path = f"{what.thread_id}/{name}"
        try:
            posting = rig.repository.begin_posting(
                path, text, replaces_draft=what.replaces_draft
            )
        except FileTaken:  # somebody without our lock was faster, the reference for one
            if name in taken:
                raise
            taken.add(name)
            continue
        with posting:
            commit = posting.land(
                what.subject(path), identity=what.identity, must_sign=what.must_sign
            )
        for warning in posting.warnings:
            rig.tell(f"warning: {warning}")
        return path, commit


def _push(rig: Rig, wire: Wire, landed: Landed, *, retry: bool) -> Landed:
    backoff = _FIRST_BACKOFF_SECONDS
    reason = ""
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
    if arrival.refusal is not None or arrival.report.gone:
        narrate(rig, arrival)
        settle(rig, arrival, moved=False)
        raise ArrivalRefused(wire, reason, arrival.refusal, remedy(arrival) or "")
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
