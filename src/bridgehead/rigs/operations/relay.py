"""Post signed turns for a human operator, and freeze threads meanwhile (rigs §10)."""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from bridgehead.errors import UserError
from bridgehead.rigs.envelope.fields import (
    is_body_hash,
    parse_relay_type,
    parse_thread_id,
    tidy_status,
)
from bridgehead.rigs.envelope.names import (
    RELAY_SUFFIX,
    RigId,
    parse_recipients,
    relay_filename,
)
from bridgehead.rigs.envelope.text import iso_timestamp
from bridgehead.rigs.envelope.yaml_core import Value
from bridgehead.rigs.operations.catalogue import catalogue
from bridgehead.rigs.operations.drafts import (
    draft_relay,
    refuse_secrets,
    relay_subject,
    warn_of_long_tldr,
)
from bridgehead.rigs.operations.identities import Identities, in_force
from bridgehead.rigs.operations.posting import (
    Post,
    post,
    record_landed,
    require_thread,
)
from bridgehead.rigs.repositories.records import FreezeNote, Identity, Raced, Wire
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.threads.freeze import Freeze, ThreadFrozen, read_freeze
from bridgehead.rigs.threads.quarantine import (
    HumanVerdict,
    Quarantine,
    read_verdicts,
)
from bridgehead.rigs.threads.thread import Turn, latest, relay_recipient
from bridgehead.rigs.trust.attestation import RANDOM_BITS, Attestation, make_nonce
from bridgehead.rigs.views.results import Frozen, Relayed, Thawed


class RelayRequest(NamedTuple):
    """What was asked for, as typed; `body` reads the body when the checks get to it."""

    message_type: str | None
    thread_id: str | None
    in_reply_to: str | None
    recipients: Sequence[str] = ()
    status: str | None = None
    tldr: str | None = None
    body: Callable[[], str] | None = None
    references: Sequence[str] = ()
    push: bool = True
    retry: bool = True
    allow_unknown_parent: bool = False
    allow_secret: bool = False


def require_relay_rig(rig: Rig) -> RigId:
    """Return this rig's id; raise UserError if it is not a relay rig (L5)."""
    if not rig.config.rig_id.is_relay:
        raise UserError(
            f"relay: rig '{rig.config.rig_id}' is not a relay rig. Relay rig-ids MUST "
            f"end in '{RELAY_SUFFIX}'",
            hint=(
                f"rig-bridge init --force --rig-id <name>{RELAY_SUFFIX} in the "
                "operator's own clone"
            ),
        )
    return rig.config.rig_id


def relay(rig: Rig, request: RelayRequest) -> Relayed:
    """Check everything in the order of the contract, then sign, commit and push."""
    if not request.message_type:
        raise UserError("relay: <type> is required")
    if not request.thread_id:
        raise UserError("relay: --thread <id> is required")
    message_type = parse_relay_type(request.message_type)
    own = require_relay_rig(rig)
    operator, key = _operator(rig)
    in_reply_to = parse_parent(request.in_reply_to)
    thread_id = require_thread(rig, request.thread_id)
    body = request.body() if request.body else None
    warn_of_long_tldr(rig, request.tldr)

    with rig.repository.lock():
        rig.repository.recover()
        rig.ledger.catch_up()
        turns = catalogue(rig, thread_id).turns()
        recipients = _recipients(request, own, turns)
        _check_parent(
            rig,
            thread_id,
            in_reply_to,
            turns,
            allow_unknown=request.allow_unknown_parent,
        )
        attestation = _attest(rig, key, rig.repository.filenames(thread_id))
        draft = draft_relay(
            rig.author,
            operator.name,
            message_type,
            thread_id,
            recipients,
            in_reply_to,
            attestation,
            status=None if request.status is None else tidy_status(request.status),
            tldr=request.tldr,
            references=request.references,
            body=body,
        )
        if not request.allow_secret:
            refuse_secrets(draft)
        landed = post(
            rig,
            Post(
                thread_id,
                draft,
                name=lambda _taken: relay_filename(attestation.nonce),
                subject=lambda _path: relay_subject(
                    message_type, thread_id, attestation.nonce
                ),
                push=request.push,
                retry=request.retry,
                identity=operator,
                must_sign=True,
            ),
        )
        _thaw_own(rig, thread_id)
    verdicts = read_verdicts(draft.text, landed.path)
    if verdicts:
        _apply_verdicts(rig, thread_id, verdicts, landed.path)
    row_id = record_landed(rig, "rig.relayed", thread_id, landed)
    return Relayed(
        type=message_type,
        thread_id=thread_id,
        file_path=landed.path,
        commit_sha=landed.commit,
        attestation=attestation,
        in_reply_to=in_reply_to,
        body_hash=draft.body_hash,
        pushed=landed.pushed,
        row_id=row_id,
    )


def _recipients(
    request: RelayRequest, own: RigId, turns: Sequence[Turn]
) -> Sequence[str]:
    """Return the recipients that were named, or whom the thread suggests."""
    if request.recipients:
        return parse_recipients(request.recipients)
    named: list[dict[str, Value]] = [
        {"from": turn.sender, "to": list(turn.recipients)} for turn in turns
    ]
    return (relay_recipient(own, named),)


def _apply_verdicts(
    rig: Rig, thread_id: str, verdicts: Sequence[HumanVerdict], path: str
) -> None:
    """Apply what a relayed turn decides to the clone it comes from, and tell it."""
    from bridgehead.rigs.operations.verification import verify

    verify(rig, thread_id, quiet=True)
    applied = {
        entry.path
        for entry in Quarantine(rig.repository.private_dir).entries
        if entry.verdict == path
    }
    for verdict in verdicts:
        if verdict.path in applied:
            rig.tell(str(verdict))
        else:
            rig.tell(f"warning: {verdict}, but not in this clone")


def _operator(rig: Rig) -> tuple[Identity, str]:
    """Return in whose name the turn is committed, and the key that signs it."""
    operator = rig.repository.identity()
    if operator is None:
        raise UserError(
            "relay: git user.name and user.email must be set, because the turn is "
            "committed in the operator's name",
            hint="git config user.name NAME; git config user.email ADDRESS",
        )
    key = rig.repository.signing_key()
    if key is None:
        raise UserError(
            "relay: a git signing key is required (user.signingkey); rig "
            f"'{rig.config.rig_id}' relayed nothing",
            hint="git config user.signingkey ~/.ssh/id_ed25519.pub   "
            "(or post without attestation: rig-bridge send --unattested)",
        )
    return operator, key


def parse_parent(typed: str | None) -> str:
    """Return the hash of the turn that is answered (L8)."""
    if not typed:
        raise UserError("relay: --in-reply-to <body_hash> is required")
    if not is_body_hash(typed):
        raise UserError(
            f'relay: --in-reply-to "{typed}" is not a valid body_hash (64 lowercase '
            "hex digits)"
        )
    return typed


def _check_parent(
    rig: Rig,
    thread_id: str,
    in_reply_to: str,
    turns: Sequence[Turn],
    *,
    allow_unknown: bool,
) -> None:
    if any(turn.body_hash == in_reply_to for turn in turns):
        newest = latest(turns)
        if newest.body_hash != in_reply_to:
            rig.tell(f"warning: {newest.path} is newer than the turn you answer")
        return
    if not allow_unknown:
        raise UserError(
            f'relay: parent unknown: no envelope of thread "{thread_id}" has '
            f"body_hash {in_reply_to}",
            hint=(
                "`rig-bridge thread` shows the hashes; --allow-unknown-parent "
                "relays anyway"
            ),
        )
    rig.tell(f"warning: no envelope of this thread has body_hash {in_reply_to}")


def _attest(rig: Rig, key: str, taken: Collection[str]) -> Attestation:
    """Return an attestation for now, with a nonce whose file name is free."""
    while True:
        now = rig.now_ms()
        nonce = make_nonce(now, rig.random_bits(RANDOM_BITS))
        if relay_filename(nonce) not in taken:
            return Attestation(key, iso_timestamp(now), nonce)
        rig.sleep(0.001)


def _thaw_own(rig: Rig, thread_id: str) -> None:
    """Remove this rig's own freeze, now that its turn has landed; others' stay."""
    note = rig.repository.freezes().get(thread_id)
    standing = read_freeze(note.text) if note else None
    if standing is not None and standing.rig == rig.config.rig_id:
        rig.repository.thaw(_wire(rig), thread_id)
        rig.announce("rig.thawed", thread=thread_id)


def freeze(rig: Rig, typed: str | None, in_reply_to: str | None) -> Frozen:
    """Freeze a thread on the remote; if the remote refuses, only in this clone."""
    if not typed:
        raise UserError("relay: --thread <id> is required")
    own = require_relay_rig(rig)
    parent = parse_parent(in_reply_to) if in_reply_to is not None else None
    thread_id = require_thread(rig, parse_thread_id(typed))
    since = rig.now_ms()
    until = since + int(rig.config.freeze_minutes * 60_000)
    asked = Freeze(own, iso_timestamp(since), iso_timestamp(until), parent, thread_id)
    sign = rig.repository.signing_key_text() is not None
    wanted = _allowed(rig, asked, thread_id)
    with rig.repository.lock():
        wire = _wire(rig)
        for _ in range(2):
            note = _standing(rig, wire, thread_id, own, since)
            outcome = rig.repository.freeze(
                wire, thread_id, wanted.stored_text(), replaces=note, sign=sign
            )
            if not isinstance(outcome, Raced):
                break
        if isinstance(outcome, Raced):
            raise UserError(
                f'thread "{thread_id}" was frozen by another rig at the same moment: '
                f"{outcome.reason}"
            )
    if outcome.only_here:
        rig.tell(
            "warning: the remote did not accept the freeze; it applies in this clone "
            "only"
        )
    rig.announce("rig.frozen", thread=thread_id, outcome=wanted.expires)
    return Frozen(thread_id, wanted.expires)


def thaw(rig: Rig, typed: str | None) -> Thawed:
    """Remove the freeze of a thread, here and on the remote."""
    if not typed:
        raise UserError("relay: --thread <id> is required")
    own = require_relay_rig(rig)
    thread_id = require_thread(rig, parse_thread_id(typed))
    with rig.repository.lock():
        note = rig.repository.freezes().get(thread_id)
        standing = in_force(rig, thread_id, note) if note else None
        if standing is not None:
            _allowed(rig, standing._replace(rig=own, thread=thread_id), thread_id)
        if not rig.repository.thaw(_wire(rig), thread_id):
            rig.tell(f'thread "{thread_id}" was not frozen')
    rig.announce("rig.thawed", thread=thread_id)
    return Thawed(thread_id)


def _wire(rig: Rig) -> Wire | None:
    return rig.repository.wire(rig.config.remote, rig.config.branch, pushing=False)


def _standing(
    rig: Rig, wire: Wire | None, thread_id: str, own: str, now_ms: int
) -> FreezeNote | None:
    """Return the note that a new freeze replaces, if there is one.

    Raise ThreadFrozen if it is another rig's, and in force.
    """
    if wire:
        note = rig.repository.ask_freeze(wire, thread_id)
    else:
        note = rig.repository.freezes().get(thread_id)
    standing = in_force(rig, thread_id, note) if note else None
    if standing is not None and standing.holds(now_ms) and standing.rig != own:
        raise ThreadFrozen(thread_id, standing)
    return note


def _allowed(rig: Rig, freeze: Freeze, thread_id: str) -> Freeze:
    """Return the freeze as far as the membership lets this rig set or remove it."""
    identities = Identities(rig)
    allowed = freeze.as_allowed(
        thread_id, identities.membership, identities.own_names()
    )
    if allowed is None:
        raise UserError(
            f"relay: the membership does not let {freeze.rig} freeze or thaw threads "
            "of others; nothing was changed",
            hint=(
                "rig-bridge member list shows who may; a human member adds it: member "
                "add <rig> --freeze-minutes <n>"
            ),
        )
    return allowed
