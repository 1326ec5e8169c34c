"""Send one envelope, or the last one of a thread (rigs §8 send, close)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from bridgehead.errors import UserError
from bridgehead.rigs.envelope.envelope import Envelope, parse_envelope
from bridgehead.rigs.envelope.fields import (
    REVIEWED_TYPE,
    StatusClass,
    listed_status_class,
    parse_message_type,
    parse_status,
    status_class,
)
from bridgehead.rigs.envelope.names import (
    REQUEST_FILE,
    RESOLUTION_FILE,
    next_filename,
    parse_recipients,
)
from bridgehead.rigs.envelope.text import iso_timestamp, timestamp_ms
from bridgehead.rigs.envelope.yaml_core import Value
from bridgehead.rigs.operations import drafts
from bridgehead.rigs.operations.posting import (
    Landed,
    Post,
    post,
    record_landed,
    require_thread,
)
from bridgehead.rigs.repositories.index import mentions
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.threads.obligations import (
    ASKING_TYPES,
    UNNAMED_ANSWERS,
    obligations,
    with_due,
)
from bridgehead.rigs.threads.thread import Turn, closing_recipient
from bridgehead.rigs.views.results import Closed, Sent

if TYPE_CHECKING:
    from bridgehead.rigs.operations.catalogue import Catalogue
    from bridgehead.rigs.trust.council_mark import CouncilMark

AUTO = "auto"
_UNATTESTED = (
    "warning: this is not signed by the human; every rig quarantines it, "
    "except those with require_signed: none, where it shows as relay_unattested"
)


class SendRequest(NamedTuple):
    """What was asked for, as typed; `body` reads the body when the checks get to it."""

    message_type: str | None
    thread_id: str | None
    recipients: Sequence[str] = ()
    status: str | None = None
    tldr: str | None = None
    body: Callable[[], str] | None = None
    references: Sequence[str] = ()
    push: bool = True
    retry: bool = True
    despite_freeze: bool = False
    unattested: bool = False
    allow_secret: bool = False
    by: str | None = None  # when it is to be done or, of an ACK, when it will be
    # Looks up the council that reviewed a result.
    council: "Callable[[], CouncilMark] | None" = None
    # Refuse an unknown recipient whose name is like a known one.
    refuse_typos: bool = False


def send(rig: Rig, request: SendRequest) -> Sent:
    """Check everything, then write; nothing is written before all checks pass."""
    if not request.message_type:
        raise UserError("send: <type> is required")
    if not request.thread_id:
        raise UserError("send: --thread <id> is required")
    message_type = parse_message_type(request.message_type)
    if request.council:
        _require_reviewed_type(message_type)
    recipients = parse_recipients(request.recipients)
    if not request.unattested:
        _refuse_relay_rig(
            rig,
            "it may send only with --unattested",
            "rig-bridge relay DECISIONS|RESPONSE|ACK …",
        )
    thread_id = require_thread(rig, request.thread_id)
    status = _status(rig, request, message_type)
    body = request.body() if request.body else None
    mark = request.council() if request.council else None
    drafts.warn_of_long_tldr(rig, request.tldr)

    with rig.repository.lock():
        rig.repository.recover()
        rig.ledger.catch_up()
        scaffold = _scaffold(rig, thread_id) if message_type == "REQUEST" else None
        if body is None and scaffold is not None:
            body = drafts.edited_scaffold_body(scaffold, thread_id)
        references = _references(rig, thread_id, request, status, recipients)
        draft = drafts.draft_send(
            rig.author,
            message_type,
            thread_id,
            recipients,
            rig.today,
            status=status,
            tldr=request.tldr,
            references=references.commits,
            body=body,
            mark=mark,
        )
        if not request.allow_secret:
            drafts.refuse_secrets(draft)
        _warn_of_strangers(rig, recipients, refuse_typos=request.refuse_typos)
        if request.unattested:
            rig.tell(_UNATTESTED)
        landed = post(
            rig,
            Post(
                thread_id,
                draft,
                name=lambda taken: (
                    REQUEST_FILE if scaffold else next_filename(message_type, taken)
                ),
                subject=lambda path: drafts.send_subject(
                    message_type, path, request.tldr
                ),
                push=request.push,
                retry=request.retry,
                replaces_draft=scaffold is not None,
                heeds_freeze=not request.despite_freeze,
            ),
        )
    concurrent = _concurrent_with(rig, landed) if references.automatic else None
    row_id = record_landed(rig, "rig.sent", thread_id, landed)
    return Sent(
        type=message_type,
        thread_id=thread_id,
        file_path=landed.path,
        commit_sha=landed.commit,
        body_hash=draft.body_hash,
        status_class=listed_status_class(draft.frontmatter["status"]),
        pushed=landed.pushed,
        to=recipients,
        references=references.commits,
        concurrent_with=concurrent,
        row_id=row_id,
    )


def _require_reviewed_type(message_type: str) -> None:
    if message_type != REVIEWED_TYPE:
        raise UserError(
            f"send: --council goes with {REVIEWED_TYPE} only (got {message_type})",
            hint=f"rig-bridge send {REVIEWED_TYPE} … --council <id>",
        )


def _scaffold(rig: Rig, thread_id: str) -> Envelope | None:
    """Return the untracked request that `new` wrote, if it is unsent (rigs §6)."""
    path = f"{thread_id}/{REQUEST_FILE}"
    if not rig.repository.has_file(path) or rig.repository.is_tracked(path):
        return None
    found = parse_envelope(rig.repository.read_file(path))
    return found if isinstance(found, Envelope) and drafts.is_scaffold(found) else None


def _status(rig: Rig, request: SendRequest, message_type: str) -> str | None:
    status = None if request.status is None else parse_status(request.status)
    if request.by is None:
        return status
    if message_type not in (*ASKING_TYPES, "ACK"):
        raise UserError(
            f"send: --by goes with a question or an ACK (got {message_type})"
        )
    moment = iso_timestamp(parse_moment(request.by, rig.now_ms()))
    return with_due(
        f"▶ {message_type} sent" if status is None else status, f"{moment[:19]}Z"
    )


def parse_moment(typed: str, now_ms: int) -> int:
    """Return a time given as a date with a time, or as `30m`, `2h`, `3d` from now."""
    units = {"m": 60_000, "h": 3_600_000, "d": 86_400_000}
    number = typed[:-1]
    unit = typed[-1:]
    if number.isdecimal() and number.isascii() and unit in units and len(number) < 6:
        return now_ms + int(number) * units[unit]
    moment = timestamp_ms(typed)
    if moment is None:
        raise UserError(
            "--by must be a time like 2026-05-15T10:30Z, or 30m, 2h, 3d from now "
            f'(got "{typed}")'
        )
    return moment


class _References(NamedTuple):
    """The commits an envelope names, and whether the heads of its thread are named."""

    commits: list[str]
    automatic: bool


def _references(
    rig: Rig,
    thread_id: str,
    request: SendRequest,
    status: str | None,
    recipients: Sequence[str],
) -> _References:
    """Return the commits to reference (rigs §9.6).

    `auto`, or the configuration, stands for the heads of the thread. An answer names
    the question it answers, so that all clones agree on which one that is.
    """
    typed = request.references
    given = [reference for reference in typed if reference != AUTO]
    automatic = AUTO in typed or (rig.config.auto_references and not typed)
    names_question = _is_answer(request, status) and (automatic or not typed)
    if not automatic and not names_question:
        return _References(given, automatic=False)
    from bridgehead.rigs.operations.catalogue import catalogue

    known = catalogue(rig, thread_id)
    # A push retry rewrites unpushed commits, so their ids must not be named.
    unpushed = {record.commit for record in rig.repository.unpushed()}
    question = _open_question(rig, known, recipients) if names_question else None
    can_name_question = question is not None and question.commit_sha not in unpushed
    if not automatic and not can_name_question:
        return _References(given, automatic=False)
    named = known.causality(thread_id).heads()
    if question is not None:
        named = [question, *named]
    shared = [
        turn.commit_sha
        for turn in named
        if turn.commit_sha and turn.commit_sha not in unpushed
    ]
    return _References(list(dict.fromkeys([*given, *shared])), automatic)


def _is_answer(request: SendRequest, status: str | None) -> bool:
    """Return whether an envelope answers a question without naming it."""
    if request.message_type in UNNAMED_ANSWERS:
        return True
    return status_class(status) is StatusClass.CANCELLED


def _open_question(
    rig: Rig, known: "Catalogue", recipients: Sequence[str]
) -> Turn | None:
    """Return the newest open question of a recipient to this rig."""
    own = str(rig.config.rig_id)
    owed = obligations(
        known.turns(),
        concerns=lambda debtor, creditor: debtor == own and creditor in recipients,
    )
    questions = [obligation.asked for obligation in owed if obligation.is_open]
    return questions[-1] if questions else None


def _warn_of_strangers(
    rig: Rig, recipients: Sequence[str], *, refuse_typos: bool
) -> None:
    """Warn of recipients that were never heard of in this bridge.

    With `refuse_typos`, raise UserError for one whose name is like a known name.
    """
    others = set(recipients) - {str(rig.config.rig_id)}
    unknown = [
        name for name in others if not mentions(rig.repository.private_dir, name)
    ]
    if not unknown:
        return
    from difflib import get_close_matches

    known = _known_rigs(rig)
    for name in sorted(set(unknown) - known):
        near = get_close_matches(name, sorted(known), 1)
        stranger = f"no rig named {name} has sent or received anything in this bridge"
        if not near:
            rig.tell(f"warning: {stranger}")
        elif refuse_typos:
            raise UserError(
                f"{stranger}; nothing was sent", hint=f'did you mean "{near[0]}"?'
            )
        else:
            rig.tell(f'warning: {stranger}. Did you mean "{near[0]}"?')


def _known_rigs(rig: Rig) -> set[str]:
    from bridgehead.rigs.operations.catalogue import catalogue

    names: set[str] = set()
    for turn in catalogue(rig).turns():
        names.update((turn.sender, *turn.recipients))
    return names


def _concurrent_with(rig: Rig, landed: Landed) -> list[str]:
    from bridgehead.rigs.operations.catalogue import catalogue

    thread_id, _, filename = landed.path.partition("/")
    turns = catalogue(rig, thread_id).causality(thread_id).concurrent_with(filename)
    for turn in turns:
        rig.tell(f"concurrent with {turn.path} by {turn.sender}")
    return [turn.path for turn in turns]


def _refuse_relay_rig(rig: Rig, why: str, hint: str) -> None:
    if rig.config.rig_id.is_relay:
        raise UserError(
            f"rig '{rig.config.rig_id}' speaks for a human and relays signed turns; "
            f"{why}",
            hint=hint,
        )


class CloseRequest(NamedTuple):
    thread_id: str | None
    status: str | None
    note: str | None = None
    push: bool = True
    retry: bool = True
    despite_freeze: bool = False
    allow_secret: bool = False


def close(rig: Rig, request: CloseRequest) -> Closed:
    """Write, commit and push the resolution of a thread.

    It is addressed to the rig that is named most often in the thread.
    """
    if not request.thread_id:
        raise UserError("close: <thread-id> is required")
    if request.status is None:
        raise UserError("close: --status <cancelled|completed> is required")
    outcome = drafts.parse_outcome(request.status)
    own = rig.config.rig_id
    _refuse_relay_rig(
        rig,
        "others would quarantine its RESOLUTION",
        "rig-bridge relay DECISIONS … asks a rig to close it",
    )
    thread_id = require_thread(rig, request.thread_id)
    path = f"{thread_id}/{RESOLUTION_FILE}"

    with rig.repository.lock():
        rig.repository.recover()
        if rig.repository.has_file(path) or rig.repository.has_directory(path):
            raise UserError(
                f"{thread_id}/{RESOLUTION_FILE} already exists — a thread may only be "
                "closed once"
            )
        rig.ledger.catch_up()
        recipient = closing_recipient(
            own, _named_in(rig, thread_id), _named_in(rig, None)
        )
        draft = drafts.draft_close(
            rig.author, thread_id, outcome, recipient, rig.today, note=request.note
        )
        if not request.allow_secret:
            drafts.refuse_secrets(draft)
        landed = post(
            rig,
            Post(
                thread_id,
                draft,
                name=lambda _taken: RESOLUTION_FILE,
                subject=lambda _path: drafts.close_subject(thread_id, outcome),
                push=request.push,
                retry=request.retry,
                heeds_freeze=not request.despite_freeze,
            ),
        )
    row_id = record_landed(rig, "rig.closed", thread_id, landed, outcome=str(outcome))
    return Closed(
        thread_id,
        outcome,
        landed.path,
        landed.commit,
        draft.body_hash,
        landed.pushed,
        row_id,
    )


def _named_in(rig: Rig, thread_id: str | None) -> Iterator[Mapping[str, Value]]:
    """Yield the sender and recipients of each envelope of a thread, or of all."""
    from bridgehead.rigs.operations.catalogue import catalogue

    for turn in catalogue(rig, thread_id).turns():
        yield {
            "from": turn.sender,
            "to": turn.to if isinstance(turn.to, str) else list(turn.to),
        }
