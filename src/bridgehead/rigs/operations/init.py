"""Give a clone its identity and a key, a thread its first draft (rigs §8 init, new)."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bridgehead.errors import ConfigError, FileError, UserError
from bridgehead.host.directories import make_dir
from bridgehead.rigs.config import new_config, parse_config, read_values, write_config
from bridgehead.rigs.envelope.fields import DISPLAY_NAME_CAP, parse_new_thread_id
from bridgehead.rigs.envelope.names import CONFIG_PATH, REQUEST_FILE, RigId
from bridgehead.rigs.views.results import Initialised, Scaffolded

if TYPE_CHECKING:
    from bridgehead.rigs.envelope.yaml_core import Value
    from bridgehead.rigs.repositories.git.repository import GitRepository
    from bridgehead.rigs.rig import Rig

HOOK = b"#!/bin/sh\n# Your own checks of envelope commit messages go here.\nexit 0\n"
EXCLUDED = ".bridge/"


class InitRequest(NamedTuple):
    """Who this clone is to be; `rig_id` as typed."""

    rig_id: str | None
    display_name: str | None = None
    force: bool = False
    sign: bool = False
    signing_key: str | None = None  # names one instead of making it


class NewIdentity(NamedTuple):
    """A request whose values are good, before anything is known about the clone."""

    rig_id: RigId
    display_name: str | None


class AlreadyThere(UserError):
    """Something would be overwritten without having been asked for."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} already exists — pass --force to overwrite")


def check_identity(request: InitRequest) -> NewIdentity:
    """Check a request as far as that needs no repository, and return its values."""
    if not request.rig_id:
        raise UserError("init: --rig-id <id> is required")
    rig_id = RigId.parse(request.rig_id, where="--rig-id")
    name = request.display_name
    if name is not None and len(name) > DISPLAY_NAME_CAP:
        raise UserError(
            f"--display-name exceeds {DISPLAY_NAME_CAP}-char cap (it has {len(name)})"
        )
    return NewIdentity(rig_id, name or None)


def init(
    repository: "GitRepository", identity: NewIdentity, request: InitRequest
) -> tuple[Initialised, str]:
    """Write the configuration and the placeholder hook, and set up a key if wanted.

    Return what was done and the path of the hook. Nothing is committed.
    """
    with repository.lock():
        if repository.has_file(CONFIG_PATH) and not request.force:
            raise AlreadyThere(CONFIG_PATH)
        if repository.has_commit_msg_hook() and not request.force:
            raise AlreadyThere("the commit-msg hook")
        key = None
        if request.sign or request.signing_key is not None:
            key = _set_up_key(repository, identity.rig_id, request.signing_key)
        kept = _usable_values(repository)
        kept.pop("display_name", None)
        values = kept | new_config(identity.rig_id, identity.display_name)
        text = write_config(values)
        repository.write_file(CONFIG_PATH, text.encode(), replace=True)
        repository.exclude(EXCLUDED)
        hook_path = repository.install_commit_msg_hook(HOOK)
    return Initialised(
        identity.rig_id, repository.name, identity.display_name, key
    ), hook_path


def _usable_values(repository: "GitRepository") -> "dict[str, Value]":
    """Return the configuration's values, unless it is broken or came from others."""
    try:
        content = repository.read_file(CONFIG_PATH)
        parse_config(content)
        if repository.is_tracked(CONFIG_PATH):
            return {}
        return dict(read_values(content))
    except (FileError, ConfigError):
        return {}


def _set_up_key(
    repository: "GitRepository", rig_id: RigId, named: str | None
) -> str | None:
    """Make git sign with the key that is named, or with a new one.

    A relay rig goes on with the key of the human it speaks for, if there is one.
    """
    if named is not None:
        sign_with(repository, named_key(named))
    elif not rig_id.is_relay or repository.signing_key_text() is None:
        sign_with(repository, new_key(repository, rig_id))
    repository.configure({"commit.gpgsign": "true"})
    return repository.signing_key()


def named_key(named: str) -> Path:
    """Return the absolute path of a key somebody named, or raise KeyInvalid."""
    from bridgehead.rigs.trust.signers import KeyInvalid, ssh_key_text

    path = Path(named).expanduser().absolute()
    if ssh_key_text(str(path)) is None:
        raise KeyInvalid(f"{named} does not exist or is not a key file")
    return path


def new_key(repository: "GitRepository", rig_id: str) -> Path:
    """Make a key pair outside the work tree, where no commit can include it."""
    from bridgehead.rigs.trust.signers import make_ssh_key

    directory = repository.private_dir / "keys"
    make_dir(directory)
    taken = {path.name for path in directory.iterdir()}
    number = 1
    while f"{rig_id}-{number}" in taken:
        number += 1
    name = f"{rig_id}-{number}"
    make_ssh_key(directory / name, rig_id)
    return directory / f"{name}.pub"


def sign_with(repository: "GitRepository", key: Path) -> None:
    """Make git sign with a key, in this clone."""
    repository.configure({"gpg.format": "ssh", "user.signingkey": str(key)})


class NewRequest(NamedTuple):
    thread_id: str | None
    force: bool = False


def new(rig: "Rig", request: NewRequest) -> Scaffolded:
    """Write REQUEST.md of a new thread; it is neither tracked nor sent."""
    from bridgehead.rigs.operations.drafts import draft_scaffold

    if not request.thread_id:
        raise UserError("new: <thread-id> is required")
    thread_id = parse_new_thread_id(request.thread_id)
    draft = draft_scaffold(rig.author, thread_id, rig.today)
    path = f"{thread_id}/{REQUEST_FILE}"
    with rig.repository.lock():
        exists = rig.repository.has_file(path) or rig.repository.has_directory(path)
        if exists and not request.force:
            raise AlreadyThere(path)
        rig.repository.write_file(path, draft.text.encode(), replace=True)
    return Scaffolded(thread_id, path)
