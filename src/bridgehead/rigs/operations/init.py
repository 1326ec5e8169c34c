"""Give a clone its identity (rigs §8 init)."""

from __future__ import annotations

from typing import NamedTuple

from bridgehead.errors import UserError
from bridgehead.rigs.config import new_config, write_config
from bridgehead.rigs.envelope.fields import DISPLAY_NAME_CAP
from bridgehead.rigs.envelope.names import CONFIG_PATH, RigId
from bridgehead.rigs.repositories.base import Repository
from bridgehead.rigs.views.results import Initialised

HOOK = b"#!/bin/sh\n# Your own checks of envelope commit messages go here.\nexit 0\n"
EXCLUDED = ".bridge/"


class InitRequest(NamedTuple):
    """Who this clone is to be; `rig_id` as typed."""

    rig_id: str | None
    display_name: str | None = None
    force: bool = False


class NewIdentity(NamedTuple):
    """A request whose values are good, before anything is known about the clone."""

    rig_id: RigId
    display_name: str | None


class AlreadyThere(UserError):
    """Something would be overwritten without having been asked for."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} already exists — pass --force to overwrite")


class DisplayNameTooLong(UserError):
    def __init__(self, length: int) -> None:
        super().__init__(f"--display-name exceeds {DISPLAY_NAME_CAP}-char cap (it has {length})")


def check_identity(request: InitRequest) -> NewIdentity:
    """The checks that need no repository, in the order of the contract."""
    if not request.rig_id:
        raise UserError("init: --rig-id <id> is required")
    rig_id = RigId.parse(request.rig_id, where="--rig-id")
    name = request.display_name
    if name is not None and len(name) > DISPLAY_NAME_CAP:
        raise DisplayNameTooLong(len(name))
    return NewIdentity(rig_id, name or None)


class Placed(NamedTuple):
    """What was written, for the narrative."""

    result: Initialised
    hook_path: str


def init(repository: Repository, identity: NewIdentity, *, force: bool) -> Placed:
    """Write the configuration and the placeholder hook; commit nothing."""
    with repository.lock():
        if repository.has_file(CONFIG_PATH) and not force:
            raise AlreadyThere(CONFIG_PATH)
        if repository.has_commit_msg_hook() and not force:
            raise AlreadyThere("the commit-msg hook")
        text = write_config(new_config(identity.rig_id, identity.display_name))
        repository.write_file(CONFIG_PATH, text.encode(), replace=True)
        repository.exclude(EXCLUDED)
        hook_path = repository.install_commit_msg_hook(HOOK)
    return Placed(Initialised(identity.rig_id, repository.name, identity.display_name), hook_path)
