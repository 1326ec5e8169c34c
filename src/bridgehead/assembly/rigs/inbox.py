"""Envelopes awaiting a reply: as pending items, and fenced so that an agent can be
shown them (rigs §8, design §5, item 5).
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from bridgehead.assembly.rigs.clones import known_clones
from bridgehead.assembly.rigs.rig import make_rig
from bridgehead.assembly.rigs.views_cache import cached_inbox
from bridgehead.contract.pending import Answer, PendingItem, Question
from bridgehead.contract.record_words import (
    AnswerStatus,
    Part,
    PendingKind,
    PendingState,
)
from bridgehead.control_plane.stores.base import Store
from bridgehead.errors import BridgeheadError, FileError, UserError
from bridgehead.rigs.envelope.text import iso_timestamp
from bridgehead.rigs.operations.inbox import inbox_contents, listed_debts
from bridgehead.rigs.rig import Reviews, Rig
from bridgehead.rigs.threads.crossings import Seen
from bridgehead.rigs.threads.listed_envelope import ListedEnvelope
from bridgehead.rigs.threads.obligations import DebtState, Obligation
from bridgehead.rigs.threads.thread import Turn
from bridgehead.rigs.trust.verification_kinds import Verification, VerificationState
from bridgehead.rigs.views.listings import Notice
from bridgehead.rigs.views.result_format import stamped

if TYPE_CHECKING:
    from bridgehead.contract.fencing import Fence
    from bridgehead.contract.words import Trust

ID_PREFIX = "r-"
ANSWER_WITH = "bridgehead answer {} --file <your answer>"
MOST_ENVELOPES = 20
MOST_CHARACTERS = (
    60_000  # of one envelope; an agent that wants the rest can read the file
)


def envelope_item_id(root: str, path: str) -> str:
    """Return the same id for the same envelope in the same clone, whoever asks."""
    from hashlib import sha256  # late, as all that only something waiting needs

    digest = sha256(f"{root}\0{path}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{ID_PREFIX}{digest}"


def trust_of(state: VerificationState) -> "Trust":
    """Say how far a prompt is to believe an envelope."""
    from bridgehead.contract.words import Trust

    return Trust.UNTRUSTED if state is VerificationState.BROKEN else Trust(state.value)


class FencedEnvelope(NamedTuple):
    """One envelope that waits: `id` is what `bridgehead answer` takes, `text` the whole
    file, fenced.
    """

    id: str
    notice: Notice
    text: str
    debt: Obligation | None = None  # None: an answer or an end, which asks for nothing
    head: str = ""
    """Its type, thread, commit and deadline, each fenced."""

    def block(self, answer_with: str = ANSWER_WITH) -> str:
        if self.debt is None:
            return f"{self.head} Delivered to you; it asks for no answer.\n{self.text}"
        how = f"To answer it: {answer_with.format(self.id)}"
        return f"{self.head} {how}\n{self.text}"


class EnvelopesForAgent(NamedTuple):
    """What waits for one rig, newest first, ready for a prompt."""

    rig_id: str
    preamble: str  # explains the marker; belongs before the first fenced text
    envelopes: Sequence[FencedEnvelope]
    left_out: int = 0  # older ones that wait too
    delivered: Sequence[FencedEnvelope] = ()  # answers nobody here has seen before
    owed: Sequence[str] = ()  # who owes this rig an answer, in which thread, by when

    def prompt(self, answer_with: str = ANSWER_WITH) -> str:
        """Everything in one text; the empty inbox is one sentence."""
        count = len(self.envelopes) + self.left_out
        owed = [f"It is owed answers by {'; '.join(self.owed)}."] if self.owed else []
        if not count and not self.delivered:
            note = [self.preamble] if owed else []
            return "\n\n".join(["No envelope waits for this rig.", *note, *owed]) + "\n"
        waiting = "envelope waits" if count == 1 else "envelopes wait"
        opening = f"{count} {waiting} for this rig."
        if self.left_out:
            opening += f" The newest {len(self.envelopes)} follow."
        if self.delivered:
            were = "was" if len(self.delivered) == 1 else "were"
            opening += f" {len(self.delivered)} {were} delivered to it."
        blocks = [
            fenced.block(answer_with) for fenced in (*self.envelopes, *self.delivered)
        ]
        return "\n\n".join([opening, self.preamble, *owed, *blocks]) + "\n"

    def json_object(self) -> dict[str, object]:
        return stamped(
            "inbox",
            envelopes=list(map(_fenced_object, self.envelopes)),
            delivered=list(map(_fenced_object, self.delivered)),
            left_out=self.left_out,
            prompt=self.prompt(),
        )


def _fenced_object(fenced: FencedEnvelope) -> dict[str, object]:
    turn = fenced.notice.turn
    return {
        "id": fenced.id,
        **fenced.notice.json_object(),
        "tldr": turn.tldr or None,
        "due": fenced.debt.due or None if fenced.debt else None,
        "text": fenced.text,
    }


def envelopes_for_agent(rig: Rig, *, most: int = MOST_ENVELOPES) -> EnvelopesForAgent:
    """Return what waits for a rig (`make_rig` of assembly/rigs/rig.py), at most `most`
    of it.

    A clone without identity raises ConfigMissing; an envelope that vanishes meanwhile
    is left out with a warning.
    """
    found = inbox_contents(rig)
    fence = _new_fence()
    waiting = [_fenced(rig, fence, debt.asked, debt.owed) for debt in found.owes[:most]]
    delivered = [_fenced(rig, fence, notice) for notice in found.delivered[:most]]
    shown = [one for one in delivered if one is not None]
    Seen(rig.repository.private_dir).note(one.notice.turn.path for one in shown)
    return EnvelopesForAgent(
        fence.wrap_line(str(rig.config.rig_id)),
        f"{fence.preamble} {fence.line_preamble}",
        [one for one in waiting if one is not None],
        max(0, len(found.owes) - most),
        shown,
        [
            fence.wrap_line(_owed_line(debt.owed, debt.asked.turn))
            for debt in found.owed[:most]
        ],
    )


class ArrivalRunner:
    """Runs a command of the operator's for each envelope that waits for a rig: once in
    this run, one at a time.

    The envelope is on its standard input, fenced; what it prints goes to our stderr. It
    may take `timeout_seconds`.
    """

    def __init__(
        self,
        rig: Rig,
        typed: str,
        timeout_seconds: float,
        thread_id: str | None,
        environ: Mapping[str, str],
    ) -> None:
        import shlex

        try:
            self._argv = shlex.split(typed)
        except ValueError as error:
            raise UserError(f"watch: --exec cannot be parsed: {error}") from error
        if not self._argv:
            raise UserError("watch: --exec <command> is empty")
        self._rig = rig
        self._timeout_seconds = timeout_seconds
        self._thread_id = thread_id
        self._environ = environ
        self._done: set[str] = set()

    def run(self) -> Iterator[dict[str, object]]:
        """Yield one object for each run, for whoever reads the events."""
        found = inbox_contents(self._rig)
        waiting = [
            (debt.asked, debt.owed)
            for debt in found.owes
            if debt.owed.state is DebtState.OPEN
        ]
        delivered: list[tuple[Notice, Obligation | None]] = [
            (notice, None) for notice in found.delivered
        ]
        for notice, debt in reversed([*waiting, *delivered]):
            turn = notice.turn
            if turn.path in self._done or self._thread_id not in (None, turn.thread_id):
                continue
            self._done.add(turn.path)
            fence = _new_fence()
            if fenced := _fenced(self._rig, fence, notice, debt):
                note = f"{fence.preamble} {fence.line_preamble}"
                yield self._run_one(turn, f"{note}\n\n{fenced.block()}\n")

    def _run_one(self, turn: Turn, prompt: str) -> dict[str, object]:
        from bridgehead.host.process import Command, run

        env = {
            **self._environ,
            "BRIDGEHEAD_THREAD": turn.thread_id,
            "BRIDGEHEAD_ENVELOPE": turn.path,
        }
        command = Command(
            self._argv, stdin=prompt, env=env, cwd=self._rig.repository.root
        )
        result = run(
            command,
            timeout_seconds=self._timeout_seconds,
            idle_seconds=None,
            on_output=_to_stderr,
        )
        if result.exit_code == 0:
            Seen(self._rig.repository.private_dir).note([turn.path])
        elif result.reason:
            self._rig.tell(f"warning: {self._argv[0]} was not started: {result.reason}")
        return stamped(
            "sync",
            event="ran",
            at=iso_timestamp(self._rig.now_ms()),
            thread_id=turn.thread_id,
            filename=turn.filename,
            ended=str(result.ended),
            exit_code=result.exit_code,
        )


def _to_stderr(_stream: str, chunk: bytes) -> None:
    sys.stderr.buffer.write(chunk)
    sys.stderr.buffer.flush()


def _owed_line(owed: Obligation, turn: Turn) -> str:
    due = f", due {owed.due}" if owed.due else ""
    return f"{owed.debtor} in thread {turn.thread_id}{due}"


def _head(fence: "Fence", turn: Turn, debt: Obligation | None) -> str:
    """Return what an agent has to know of an envelope.

    All of it was written elsewhere.
    """
    facts = f"{turn.type} in thread {turn.thread_id}, commit {turn.commit_sha}"
    due = f", due by {debt.due}" if debt and debt.due else ""
    return f"{fence.wrap_line(facts + due)}."


def _new_fence() -> "Fence":
    import secrets

    from bridgehead.contract.fencing import Fence

    return Fence(secrets.choice)


def _fenced(
    rig: Rig, fence: "Fence", notice: Notice, debt: Obligation | None = None
) -> FencedEnvelope | None:
    turn, verification = notice
    try:
        text = rig.repository.read_file(turn.path).decode("utf-8", "replace")
    except FileError as error:
        rig.tell(f"warning: {turn.path}: {error.message}; left out")
        return None
    if len(text) > MOST_CHARACTERS:
        text = (
            f"{text[:MOST_CHARACTERS]}\n[cut here: {len(text) - MOST_CHARACTERS} more "
            "characters in the file]"
        )
    inside = fence.wrap(
        text,
        origin=f"rig {turn.sender}, {turn.path}",
        trust=trust_of(verification.state),
    )
    return FencedEnvelope(
        envelope_item_id(rig.repository.root, turn.path),
        notice,
        inside,
        debt,
        _head(fence, turn, debt),
    )


class PendingEnvelopes:
    """The inboxes of the current repository and of those the record has events of."""

    def __init__(
        self,
        here: Path,
        store: Store,
        warn: Callable[[str], None],
        reviews: Callable[[str], Reviews],
    ) -> None:
        self._here = here
        self._store = store
        self._warn = warn
        self._reviews = reviews

    def items(self) -> Sequence[PendingItem]:
        items: list[PendingItem] = []
        for clone in known_clones(self._here, self._store):
            items += self._items_of(clone.root)
        return items

    def answer(self, item: PendingItem, answer: Answer) -> PendingItem:
        """Send the answer as a RESPONSE that names what it answers.

        What another rig owes stays open for that rig.
        """
        from bridgehead.rigs.operations.send import SendRequest, send

        context = item.question.context
        failed = answer.status is not AnswerStatus.SUCCESS
        text = (answer.message if failed else answer.text) or ""
        send(
            make_rig(item.question.project, self._warn, self._reviews),
            SendRequest(
                "RESPONSE",
                context["thread"],
                [context.get("debtor", ""), context["from"]],
                status=f"❌ {answer.status}" if failed else None,
                body=lambda: text,
                references=[context["commit"]],
            ),
        )
        return msgspec.structs.replace(item, state=PendingState.ANSWERED, answer=answer)

    def _items_of(self, root: str) -> list[PendingItem]:
        try:
            rig = make_rig(root, self._warn)
            known, found = cached_inbox(rig)
            waiting = [*found.owes, *found.escalated(rig.now_ms())]
            owed = listed_debts(known, waiting)
            return [
                _item(rig, *listed, debt.owed)
                for listed, debt in zip(owed, waiting, strict=True)
            ]
        except BridgeheadError as error:
            self._warn(f"{root}: {error.message}")
            return []


def _item(
    rig: Rig, envelope: ListedEnvelope, verification: Verification, owed: Obligation
) -> PendingItem:
    turn = envelope.turn
    root = rig.repository.root
    name = turn.path
    debtor = {}
    due = _due(owed, rig.now_ms())
    if owed.debtor != rig.config.rig_id:  # escalated
        name = f"{name} {owed.debtor}"
        debtor = {"debtor": owed.debtor}
        due = f"{due}, owed by {owed.debtor}"
    question = Question(
        key=f"{root}:{name}",
        kind=PendingKind.ENVELOPE,
        part=Part.RIGS,
        origin=f"rig {turn.sender}",
        title=(
            f'{turn.type} {turn.thread_id} "{turn.tldr or turn.status}" '
            f"({verification.state}{due})"
        ),
        prompt=rig.repository.read_file(turn.path).decode("utf-8", "replace"),
        project=root,
        context={
            **debtor,
            "thread": turn.thread_id,
            "file": turn.filename,
            "from": turn.sender,
            "commit": turn.commit_sha,
            "verification": verification.json_object(),
        },
    )
    opened_at = iso_timestamp((envelope.committed_at or 0) * 1000)
    return PendingItem(
        id=envelope_item_id(root, name),
        question=question,
        state=PendingState.OPEN,
        opened_at=opened_at,
    )


def _due(owed: Obligation, now_ms: int) -> str:
    """Return how an obligation stands, as the end of a title."""
    due = ""
    if owed.due:
        since = "overdue since" if owed.is_overdue(now_ms) else "due"
        due = f", {since} {owed.due}"
    if owed.state is DebtState.TAKEN:
        return f", taken on{due}"
    return due
