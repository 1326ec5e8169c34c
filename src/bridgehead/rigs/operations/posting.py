"""Turn an envelope into a pushed commit (rigs §8, §9.5).

One file, one commit, and a push that survives a lost race.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
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
    PathChange,
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
_ANSWERED = b"!"
_REPEATED_WITHIN_MS = 3_600_000
# The fields that make two envelopes the same message. When it was written, and what was
# known then, does not count.
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
    crossed: tuple[str, ...] = ()  # paths of envelopes that came in meanwhile


class ArrivalRefused(PushFailed):
    """The remote has moved, and what it has now is refused or lacks what it had."""

    def __init__(
        self, wire: Wire, git_says: str, refusal: str | None, advice: str
    ) -> None:
        super().__init__(wire.remote, wire.branch, git_says)
        refused = f"what the remote has was refused ({refusal}): " if refusal else ""
        self.hint = f"{refused}{advice}; then {PUSH_COMMAND}"


def require_thread(rig: Rig, thread_id: str) -> str:
    """Return the thread's id if it has a directory; the schema checks the name."""
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
    """Raise ThreadFrozen if a thread waits for a human (rigs §10).

    The remote is asked only if there is to be a push.
    """
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


def post(rig: Rig, turn: Post) -> Landed:
    """Write, commit and push one envelope. The caller holds the lock."""
    text = turn.draft.text.encode()
    _check_size(rig, len(text))
    wire = rig.repository.wire(rig.config.remote, rig.config.branch, pushing=turn.push)
    if turn.heeds_freeze:
        _refuse_if_frozen(rig, turn.thread_id, wire, push=turn.push)
    outgoing = Outgoing(rig.repository.private_dir)
    intent = intent_of(turn.draft.frontmatter)
    push_to = wire if turn.push else None
    landed = _landed_before(
        rig, turn.thread_id, intent, outgoing, pushing=push_to is not None
    )
    if landed is None:
        outgoing.add(intent, rig.repository.head().commit or "", rig.now_ms())
        landed = Landed(*_commit(rig, turn, text), pushed=False)
    elif landed.pushed or push_to is None:
        rig.tell(
            f"{landed.path} was committed earlier with the same content; no second "
            "envelope was written"
        )
    else:
        rig.tell(
            f"{landed.path} has the same content and was not pushed yet; no second "
            "envelope was written"
        )
    if push_to is not None and not landed.pushed:
        landed = _push_or_explain(rig, push_to, landed, retry=turn.retry)
    rig.once_answered(lambda: outgoing.mark(intent))
    is_membership_act = turn.thread_id == MEMBERS_THREAD
    if not is_membership_act and rig.repository.has_directory(MEMBERS_THREAD):
        _warn_if_quarantined(rig)
    return landed


def record_landed(
    rig: Rig, event: str, thread_id: str, landed: Landed, **facts: object
) -> int | None:
    """Write a turn to the ledger and announce it; return its row in the ledger."""
    row_id = rig.ledger.sent(landed.path, landed.commit, pushed=landed.pushed)
    rig.announce(
        event,
        thread=thread_id,
        **facts,
        path=landed.path,
        commit=landed.commit,
        pushed=landed.pushed,
    )
    return row_id


def _check_size(rig: Rig, size: int) -> None:
    if size > MAX_ENVELOPE_BYTES:
        raise UserError(
            f"the envelope would have {size} bytes; the limit is 50 MiB "
            f"({MAX_ENVELOPE_BYTES})"
        )
    if size > _LARGE_FILE_BYTES:
        rig.tell(
            f"warning: the envelope has {size // 1_000_000} MB; others must download it"
        )


def _push_or_explain(rig: Rig, wire: Wire, landed: Landed, *, retry: bool) -> Landed:
    """Push; if that fails, tell how to push what was committed here."""
    try:
        return _push(rig, wire, landed, retry=retry)
    except UserError as error:
        rig.tell(LANDED_LOCALLY)
        # Other errors say themselves what to do.
        is_failed_push = isinstance(error, GitFailed)
        if is_failed_push and not isinstance(error, ArrivalRefused):
            rig.tell(f"to push it: cd {rig.repository.root}; {PUSH_COMMAND}")
        raise


def _warn_if_quarantined(rig: Rig) -> None:
    """Warn if other rigs quarantine what this rig signs.

    That happens to a rig that is, or was, a member and whose key does not count now.
    """
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
    """Push what is committed here only; what others have pushed comes in first."""
    with rig.repository.lock():
        rig.repository.recover()
        wire = rig.repository.wire(rig.config.remote, rig.config.branch)
        unpushed = rig.repository.unpushed()
        head = rig.repository.head().commit
        if wire is None or head is None or not unpushed:
            return PushedTurns(0, head or "")
        landed = _push(rig, wire, Landed("", head, pushed=False), retry=True)
    rig.once_answered(Outgoing(rig.repository.private_dir).clear)
    added = [change.path for _, change in _added_files(unpushed)]
    turns = len([path for path in added if envelope_at(path)])
    rig.announce("rig.pushed", commit=landed.commit, envelopes=turns)
    return PushedTurns(turns, landed.commit)


def _added_files(
    commits: Iterable[CommitRecord],
) -> Iterator[tuple[CommitRecord, PathChange]]:
    for commit in commits:
        for change in commit.changes:
            if change.status == "A":
                yield commit, change


def intent_of(frontmatter: Mapping[str, Value]) -> str:
    """Return a fingerprint of what an envelope says and to whom, whenever that was."""
    from hashlib import sha256
    from json import dumps

    values = [frontmatter.get(name) for name in _INTENT]
    text = dumps(values, ensure_ascii=False)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Outgoing:
    """The messages whose senders may not know that they were sent: a file for each.

    A command that is killed leaves its file, so that repeating it does not send the
    same message twice. A command that ends marks its file, so that the message can be
    sent once more. A kill between the last byte of an answer and the mark leaves the
    file of a sender who does know; that is why files of pushed envelopes count for an
    hour only.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory / _OUTGOING

    def find(self, intent: str) -> tuple[str, int] | None:
        """Return the commit a message was to follow, and when; None if there is none.

        The commit is empty if it was to be the first.
        """
        with suppress(FileError, ValueError):
            content = read_bounded(self._directory / intent, _MAX_OUTGOING_BYTES)
            since, _, moment = content.decode().partition(" ")
            if not content.startswith(_ANSWERED):
                return since, int(moment)
            self.drop(intent)
        return None

    def add(self, intent: str, since: str, now_ms: int) -> None:
        """Note a message before it is sent.

        If the file cannot be written, a repeated command sends it twice, nothing else.
        """
        for other in names_in(self._directory):
            self.find(other)
        keep(self._directory / intent, f"{since} {now_ms}")

    def mark(self, intent: str) -> None:
        """Note that the sender has the answer.

        Removing the file takes longer, and a kill meanwhile would look like a failure.
        """
        with (
            suppress(OSError),
            (self._directory / intent).open("r+b", buffering=0) as file,
        ):
            file.write(_ANSWERED)

    def drop(self, intent: str) -> None:
        with suppress(OSError):
            (self._directory / intent).unlink(missing_ok=True)

    def clear(self) -> None:
        for intent in names_in(self._directory):
            self.drop(intent)


def _landed_before(
    rig: Rig, thread_id: str, intent: str, outgoing: Outgoing, *, pushing: bool
) -> Landed | None:
    """Return the envelope with this content if its sender may not know of it.

    It is unpushed, or was pushed by a command that was killed then, or along with a
    later one. Pushing it pushes what lies on top of it as well.
    """
    noted = outgoing.find(intent)
    if noted is None:
        return None
    since, noted_at = noted
    is_recent = rig.now_ms() <= noted_at + _REPEATED_WITHIN_MS
    unpushed = rig.repository.unpushed()
    unpushed_commits = {record.commit for record in unpushed}
    has_upstream = rig.repository.head().tracking_ref is not None
    candidates = [
        (record.commit, change)
        for record, change in _added_files([*unpushed, *_commits_since(rig, since)])
        if change.path.startswith(f"{thread_id}/")
    ]
    blobs = rig.repository.read_blobs([change.blob for _, change in candidates])
    for commit, change in candidates:
        is_unpushed = commit in unpushed_commits
        still_to_be_pushed = pushing and is_unpushed
        if not is_recent and not still_to_be_pushed:
            continue
        frontmatter = parse_frontmatter(blobs.get(change.blob) or b"")
        if isinstance(frontmatter, ParseFailure) or intent_of(frontmatter) != intent:
            continue
        return Landed(change.path, commit, pushed=has_upstream and not is_unpushed)
    return None


def _commits_since(rig: Rig, commit: str) -> list[CommitRecord]:
    """Return the commits after one; none if it is empty or gone from history."""
    if not commit:
        return []
    head = rig.repository.head().commit or commit
    try:
        return rig.repository.commits_between(commit, head)
    except GitFailed:
        return []


def _commit(rig: Rig, turn: Post, text: bytes) -> tuple[str, str]:
    taken = set(rig.repository.filenames(turn.thread_id))
    while True:
        name = turn.name(taken)
        path = f"{turn.thread_id}/{name}"
        try:
            posting = rig.repository.begin_posting(
                path, text, replaces_draft=turn.replaces_draft
            )
        except FileTaken:  # by somebody who does not take our lock
            if name in taken:
                raise
            taken.add(name)
            continue
        with posting:
            commit = posting.land(
                turn.subject(path), identity=turn.identity, must_sign=turn.must_sign
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
        jitter = rig.random_bits(_JITTER_BITS) / (1 << _JITTER_BITS)
        rig.sleep(backoff * (0.5 + jitter))
        backoff *= 2
        moved = _rebuild_on(rig, wire, landed, reason)
        if moved is None:
            break
        landed = moved
    _note_crossed(rig, landed)
    raise PushFailed(wire.remote, wire.branch, reason)


def _rebuild_on(rig: Rig, wire: Wire, landed: Landed, reason: str) -> Landed | None:
    """Pull what was pushed before us, through the gate, and put our turns on top.

    Return None if our commits cannot be rebuilt.
    """
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
    """Record the envelopes below a turn that its author cannot have known."""
    if landed.crossed:
        from bridgehead.rigs.threads.crossings import Crossings

        Crossings(rig.repository.private_dir).note(landed.path, landed.crossed)
    return landed


def _moved(rig: Rig, landed: Landed, rebuilt: list[Rebuilt]) -> Landed:
    """Return where our envelope is now; the ledger learns of every turn that moved."""
    rig.ledger.rewritten(rebuilt)
    for turn in rebuilt:
        if turn.old_commit == landed.commit:
            landed = landed._replace(path=turn.path, commit=turn.commit)
    return landed
