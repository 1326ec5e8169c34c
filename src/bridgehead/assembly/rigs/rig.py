"""A rig at work in a clone: git, the clock, the record and the control plane put
together.

Imports little, because rig commands consist of start-up for the most part.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bridgehead.rigs.repositories.git.repository import GitRepository
    from bridgehead.rigs.rig import Announcer, Ledger, Reviews, Rig


def _no_reviews(root: str) -> Reviews:
    raise AssertionError(
        "this rig was made without `reviews`: it can neither sync nor verify"
    )


def make_rig(
    directory: str,
    say: Callable[[str], None],
    reviews: Callable[[str], Reviews] = _no_reviews,
) -> Rig:
    """Return the rig of the clone around `directory`, or a UserError.

    `say` gets the conversation.

    `reviews` makes, from the clone's root, what `sync` and `verify` ask about councils;
    without it they raise.
    """
    from bridgehead.rigs.repositories.git.repository import GitRepository

    repository = GitRepository(directory)
    return _rig(lambda: repository, say, reviews)


def make_rig_here(say: Callable[[str], None], reviews: Callable[[str], Reviews]) -> Rig:
    """Return the rig of the clone around the current directory, which is looked for
    when a command needs it.
    """

    @cache
    def find_repository() -> GitRepository:
        from bridgehead.rigs.envelope.names import CONFIG_PATH
        from bridgehead.rigs.repositories.git.repository import GitRepository

        repository = GitRepository()
        if repository.is_tracked(CONFIG_PATH):
            say(
                f"warning: {CONFIG_PATH} is tracked by git, so other clones use the "
                "identity of this rig; "
                f"run: git rm --cached {CONFIG_PATH}"
            )
        return repository

    return _rig(find_repository, say, reviews)


def _rig(
    find_repository: Callable[[], GitRepository],
    say: Callable[[str], None],
    reviews: Callable[[str], Reviews],
) -> Rig:
    import time

    from bridgehead.rigs.rig import Rig

    return Rig(
        find_repository,
        now_ms=lambda: time.time_ns() // 1_000_000,
        random_bits=_random_bits,
        sleep=time.sleep,
        tell=say,
        announcer=_announcer(find_repository, say),
        ledger=_make_ledger,
        reviews=reviews,
    )


def _random_bits(count: int) -> int:
    from secrets import randbits

    return randbits(count)


def _announcer(
    find_repository: Callable[[], GitRepository], say: Callable[[str], None]
) -> Announcer:
    """Opens the record only when there is something to say.

    It is never needed (rigs §14.6).
    """

    def announce(kind: str, facts: Mapping[str, object]) -> None:
        from bridgehead.errors import BridgeheadError

        try:
            from bridgehead.assembly.application import append_event

            append_event(find_repository().root, kind, facts)
        except BridgeheadError as error:
            say(f"warning: not recorded: {error.message}")

    return announce


def _make_ledger(rig: Rig) -> Ledger:
    """Return the control plane where one is configured.

    Importing SQLite is not worth it otherwise.
    """
    from bridgehead.rigs.rig import Silent

    swarm_db = os.environ.get("SWARM_DB")
    if not swarm_db and not (rig.settings and rig.settings.control_plane):
        return Silent()
    from bridgehead.rigs.ledger.rig_ledger import RigLedger, ledger_path

    path = ledger_path(rig, swarm_db)
    return RigLedger(rig, path) if path else Silent()
