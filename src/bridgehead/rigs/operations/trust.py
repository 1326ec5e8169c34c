"""Manage who may sign: pinned keys, and the shared membership (rigs §8 trust, §10)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from bridgehead.errors import ConfigError, UserError
from bridgehead.host.directories import make_dir
from bridgehead.host.files import read_bounded, write_atomic
from bridgehead.rigs.config import read_values, write_config
from bridgehead.rigs.envelope.fields import MEMBERS_THREAD, TLDR_SOFT_CAP
from bridgehead.rigs.envelope.names import (
    CONFIG_PATH,
    RELAY_SUFFIX,
    SIGNERS_PATH,
    RigId,
    next_filename,
)
from bridgehead.rigs.envelope.text import iso_timestamp, timestamp_ms
from bridgehead.rigs.operations.catalogue import catalogue
from bridgehead.rigs.operations.drafts import draft_send, send_subject
from bridgehead.rigs.operations.identities import Identities, tracked_path
from bridgehead.rigs.operations.inbox import last_heard
from bridgehead.rigs.operations.init import named_key, new_key, sign_with
from bridgehead.rigs.operations.posting import Landed, Post, post
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.trust.membership import (
    MOST_FREEZE_MINUTES,
    Act,
    ActKind,
    Member,
    MemberKey,
    Membership,
    Role,
    acts_block,
    fingerprint_of,
)
from bridgehead.rigs.trust.signers import (
    KeyInvalid,
    parse_public_key,
    public_key_fingerprint,
    signers,
    ssh_key_text,
    with_signer,
    without_signer,
)
from bridgehead.rigs.views.result_format import LINE_PREFIX, short, stamped

MAX_BYTES = 1 << 20


class Trusted(NamedTuple):
    """The signers of a file, after whatever was done to it."""

    file: str | None
    signers: tuple[tuple[str, str, str], ...]  # principals, key type, fingerprint

    def lines(self) -> list[str]:
        head = f"{LINE_PREFIX}trust signers={len(self.signers)}"
        rows = [
            f"principal={principal} type={key_type} key={fingerprint}"
            for principal, key_type, fingerprint in self.signers
        ]
        return [head, *rows]

    def json_object(self) -> dict[str, object]:
        listed = [
            {"principal": principal, "type": key_type, "fingerprint": fingerprint}
            for principal, key_type, fingerprint in self.signers
        ]
        return stamped("trust", signers=listed)


def list_signers(rig: Rig) -> Trusted:
    """Return who is trusted here, from the file that is in force."""
    path = _configured(rig) or rig.repository.allowed_signers()
    tracked = tracked_path(rig, path) if path is not None else None
    if tracked:
        rig.tell(
            f"warning: {tracked} is tracked by git; none of these signers is trusted"
        )
    return _shown(path)


def add_signer(rig: Rig, principal: str | None, key: str | None) -> Trusted:
    """Trust a key, given as text or as a .pub file.

    If there is no file of signers yet, it is created and named in the configuration.
    """
    if not principal or not key:
        raise UserError("trust add: <principal> and <key or .pub file> are required")
    public_key = parse_public_key(_key_text(key))
    if public_key_fingerprint(str(public_key)) is None:
        raise KeyInvalid("ssh-keygen does not read it")
    with rig.repository.lock():
        path = _configured(rig) or _name_default_file(rig)
        if tracked := tracked_path(rig, path):
            raise ConfigError(
                f"trust: {tracked} is tracked, so other rigs can change it, and it is "
                "not used; nothing was added",
                hint=f"git rm --cached {tracked}, check its content, then retry",
            )
        commits = catalogue(rig).commits
        write_atomic(path, with_signer(_text(path), principal, public_key, commits))
    return _shown(path)


def remove_signer(rig: Rig, principal: str | None) -> Trusted:
    """Stop trusting every key of a signer."""
    if not principal:
        raise UserError("trust remove: <principal> is required")
    with rig.repository.lock():
        path = _configured(rig)
        if path is None:
            raise ConfigError(
                f"trust: {CONFIG_PATH} sets no allowed_signers file, so there is no "
                "file to edit",
                hint=(
                    "edit by hand the file that git config gpg.ssh.allowedSignersFile "
                    "names"
                ),
            )
        write_atomic(path, without_signer(_text(path), principal))
    return _shown(path)


def _configured(rig: Rig) -> Path | None:
    named = rig.config.allowed_signers
    return Path(rig.repository.root, named).expanduser() if named else None


def _name_default_file(rig: Rig) -> Path:
    values = read_values(rig.repository.read_file(CONFIG_PATH))
    text = write_config({**values, "allowed_signers": SIGNERS_PATH})
    rig.repository.write_file(CONFIG_PATH, text.encode(), replace=True)
    return Path(rig.repository.root, SIGNERS_PATH)


def _key_text(given: str) -> str:
    path = Path(given).expanduser()
    if path.is_file():
        return read_bounded(path, MAX_BYTES).decode("utf-8", "replace")
    return given


def _text(path: Path) -> str:
    if not path.exists():
        return ""
    return read_bounded(path, MAX_BYTES).decode("utf-8", "surrogateescape")


def _shown(path: Path | None) -> Trusted:
    if path is None or not path.exists():
        return Trusted(None, ())
    rows: list[tuple[str, str, str]] = []
    for signer in signers(_text(path)):
        fingerprint = public_key_fingerprint(str(signer.key)) or "unreadable"
        rows.append((signer.principals, signer.key.key_type, fingerprint))
    return Trusted(str(path), tuple(rows))


class MemberRequest(NamedTuple):
    """What was asked for, as typed; `verb` is list, add, rotate, remove or leave."""

    verb: str | None
    rig_id: str | None = None
    key: str | None = None
    role: str | None = None
    human: str | None = None
    freeze_minutes: str | None = None
    since: str | None = None
    push: bool = True
    retry: bool = True


class Members(NamedTuple):
    """Who takes part, who asks to, and what was put on record, if anything was."""

    founder: str | None
    # Each with the fingerprints that count now.
    members: tuple[tuple[Member, tuple[str, ...]], ...]
    requests: tuple[tuple[str, str], ...] = ()  # rig, fingerprint
    last_heard: Mapping[str, str] = MappingProxyType({})  # by rig
    landed: Landed | None = None

    def lines(self) -> list[str]:
        head = (
            f"{LINE_PREFIX}member members={len(self.members)} "
            f"asking={len(self.requests)}"
        )
        if self.landed:
            head += f" file={self.landed.path} commit={short(self.landed.commit)}"
        rows = [
            f"rig={member.rig} role={member.role} keys={','.join(keys) or '-'} "
            f"human={member.human or '-'} "
            f"freeze_minutes={member.freeze_minutes} "
            f"last={self.last_heard.get(member.rig, '-')}"
            for member, keys in self.members
        ]
        rows += [f"asks rig={rig} key={key}" for rig, key in self.requests]
        return [head, *rows]

    def json_object(self) -> dict[str, object]:
        members = [
            {
                "rig_id": member.rig,
                "role": str(member.role),
                "keys": list(keys),
                "human": member.human or None,
                "freeze_minutes": member.freeze_minutes,
                "last_heard": self.last_heard.get(member.rig),
            }
            for member, keys in self.members
        ]
        asking = [{"rig_id": rig, "key": key} for rig, key in self.requests]
        landed = self.landed
        return stamped(
            "member",
            founder=self.founder,
            members=members,
            asking=asking,
            file_path=landed.path if landed else None,
            commit_sha=landed.commit if landed else None,
            pushed=landed.pushed if landed else None,
        )


def member(rig: Rig, request: MemberRequest) -> Members:
    """List who takes part, or change that by a signed envelope."""
    if request.verb == "list":
        return _members(rig)
    key = rig.repository.signing_key_text()
    if key is None:
        raise UserError(
            f"member {request.verb}: rig '{rig.config.rig_id}' has no SSH key to sign "
            "with; nothing was written",
            hint=(
                f"rig-bridge init --rig-id {rig.config.rig_id} --force --sign creates "
                "one (--signing-key: yours)"
            ),
        )
    signs_with = fingerprint_of(key) or ""
    with rig.repository.lock():
        rig.repository.recover()
        identities = Identities(rig)
        acts, next_key = _acts(rig, request, key, identities.membership)
        own = str(rig.config.rig_id)
        if reason := identities.objection(own, signs_with, acts):
            raise UserError(
                f"member {request.verb}: refused, because {reason}; nothing was written"
            )
        landed = _put_on_record(rig, request, acts, identities.membership)
        if next_key is not None:
            _change_key(rig, next_key, is_pushed=landed.pushed)
    rig.announce(
        "rig.sent",
        thread=MEMBERS_THREAD,
        path=landed.path,
        commit=landed.commit,
        pushed=landed.pushed,
    )
    listed = _members(rig)._replace(landed=landed)
    if own in dict(listed.requests):
        rig.tell(
            f"{own} asks to join and is not a member yet; a member admits it: "
            f"rig-bridge member add {own}"
        )
    return listed


def _change_key(rig: Rig, key: Path, *, is_pushed: bool) -> None:
    """Sign with another key as soon as others know it.

    If a turn were rebuilt before they do, its signature would not hold.
    """
    if is_pushed:
        sign_with(rig.repository, key)
    else:
        rig.tell(
            f"once it is pushed (rig-bridge push): git config user.signingkey {key}"
        )


def _members(rig: Rig) -> Members:
    membership = Identities(rig).membership
    for path, reason in membership.refused.items():
        rig.tell(f"! {path} changes nothing: {reason}")
    members = [
        (member, _valid_fingerprints(membership, member.rig))
        for member in membership.members
    ]
    requests = [
        (act.rig, fingerprint_of(act.key) or "") for act in membership.requests.values()
    ]
    return Members(
        membership.founded.sender if membership.founded else None,
        tuple(members),
        tuple(requests),
        last_heard(catalogue(rig)),
    )


def _valid_keys(membership: Membership, rig_id: str) -> list[MemberKey]:
    return [key for key in membership.keys_of(rig_id) if key.retired is None]


def _valid_fingerprints(membership: Membership, rig_id: str) -> tuple[str, ...]:
    return tuple(key.fingerprint for key in _valid_keys(membership, rig_id))


def _acts(
    rig: Rig, request: MemberRequest, own_key: str, membership: Membership
) -> tuple[list[Act], Path | None]:
    """Return the acts to record, and the key to sign with afterwards if it changes."""
    own = str(rig.config.rig_id)
    subject = str(RigId.parse(request.rig_id)) if request.rig_id else own
    since = _moment(request.since)
    if request.verb == "add":
        key = _key_to_add(request, subject, own, own_key, membership)
        return [_join(request, subject, key)], None
    if request.verb == "rotate":
        return _rotation(rig, request, subject, since, membership)
    if request.verb in ("leave", "remove"):
        removes_another = request.verb == "remove"
        if removes_another != (subject != own):
            raise UserError("member: leave is for this rig, remove <rig> for another")
        return [Act(ActKind.LEAVE, subject, since=since)], None
    raise UserError(
        "member: list, add, rotate, remove <rig> or leave",
        hint="rig-bridge member --help",
    )


def _join(request: MemberRequest, subject: str, key: str) -> Act:
    role = _role(request, subject)
    minutes = _freeze_minutes(request)
    human = str(RigId.parse(request.human)) if request.human else ""
    return Act(ActKind.JOIN, subject, key, role, human, minutes)


def _role(request: MemberRequest, subject: str) -> Role | None:
    if request.role is not None and request.role not in set(Role):
        raise UserError(f"member add: --role must be one of {', '.join(Role)}")
    if not request.role:
        return None
    role = Role(request.role)
    is_relay = subject.endswith(RELAY_SUFFIX)
    if is_relay != (role is Role.HUMAN):
        raise UserError(
            "member add: a human speaks through a rig whose name ends in "
            f"{RELAY_SUFFIX}"
        )
    return role


def _freeze_minutes(request: MemberRequest) -> int | None:
    typed = request.freeze_minutes
    if typed is None:
        return None
    if not typed.isdecimal() or int(typed) > MOST_FREEZE_MINUTES:
        raise UserError(
            f"member add: --freeze-minutes must be a number up to {MOST_FREEZE_MINUTES}"
        )
    return int(typed)


def _key_to_add(
    request: MemberRequest, subject: str, own: str, own_key: str, membership: Membership
) -> str:
    """Return the key that was typed, asked for, is this rig's own, or counts now."""
    if request.key is not None:
        return _typed_key(request.key)
    if subject in membership.requests:
        return membership.requests[subject].key
    if subject == own:
        return own_key
    keys = _valid_keys(membership, subject)
    if keys:
        return keys[-1].key
    raise UserError(
        f"member add: {subject} has not asked to join, so its key is not known; "
        "nothing was written",
        hint=(
            f"rig-bridge member add {subject} <key or .pub file>, or `rig-bridge "
            "member add` on that rig first"
        ),
    )


def _typed_key(typed: str) -> str:
    key = parse_public_key(_key_text(typed))
    return f"{key.key_type} {key.blob}"


def _rotation(
    rig: Rig, request: MemberRequest, subject: str, since: str, membership: Membership
) -> tuple[list[Act], Path | None]:
    """Return the acts that replace a rig's keys, and the new key if it is our own."""
    path: Path | None = None
    if subject == rig.config.rig_id:
        if request.key:
            path = named_key(request.key)
        else:
            path = new_key(rig.repository, subject)
        new = ssh_key_text(str(path)) or ""
    elif request.key is None:
        raise UserError("member rotate: <rig> needs its new key; nothing was written")
    else:
        new = _typed_key(request.key)
    retired = [
        Act(ActKind.RETIRE_KEY, subject, key.fingerprint, since=since)
        for key in _valid_keys(membership, subject)
        if key.key != new
    ]
    return [Act(ActKind.ADD_KEY, subject, new), *retired], path


def _put_on_record(
    rig: Rig, request: MemberRequest, acts: Sequence[Act], membership: Membership
) -> Landed:
    own = str(rig.config.rig_id)
    others = [member.rig for member in membership.members if member.rig != own]
    summary = "; ".join(f"{act.kind.replace('_', ' ')} {act.rig}" for act in acts)
    tldr = summary[:TLDR_SOFT_CAP]
    body = f"# Membership: {summary}\n\n{acts_block(acts)}"
    draft = draft_send(
        rig.author,
        "STATE",
        MEMBERS_THREAD,
        others or [own],
        rig.today,
        tldr=tldr,
        body=body,
    )
    make_dir(Path(rig.repository.root, MEMBERS_THREAD), root=Path(rig.repository.root))
    return post(
        rig,
        Post(
            MEMBERS_THREAD,
            draft,
            name=lambda taken: next_filename("STATE", taken),
            subject=lambda path: send_subject("STATE", path, tldr),
            push=request.push,
            retry=request.retry,
            must_sign=True,
        ),
    )


def _moment(typed: str | None) -> str:
    if typed is None:
        return ""
    moment = timestamp_ms(typed)
    if moment is None:
        raise UserError(f'--since must be a date, alone or with a time (got "{typed}")')
    return iso_timestamp(moment)
