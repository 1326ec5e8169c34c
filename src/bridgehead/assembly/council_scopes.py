"""Scopes of councils that are under way: a resumed run looks at what the first process looked at (council §4)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.council_kept import KeptCouncil, KeptScope
from bridgehead.council.scope import MOST_TEXT_BYTES, Scope
from bridgehead.council.scope_resolution import resolve_scope
from bridgehead.errors import BridgeheadError, FileError
from bridgehead.host.files import make_private_dir, read_bounded, write_atomic

# Texts, a diff of them, and what JSON adds.
MOST_BYTES: Final = 4 * MOST_TEXT_BYTES


class ScopeShelf:
    """One private file per open council, in the user's data directory."""

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly

    def keep(self, review_id: str, scope: Scope) -> None:
        path = self._path(review_id)
        make_private_dir(path.parent)
        write_atomic(path, msgspec.json.encode(KeptScope.of(scope)), private=True)

    def kept(self, review_id: str) -> Scope | None:
        """The scope as it was kept; None when the council was closed, or the file cannot be read."""
        try:
            content = read_bounded(self._path(review_id), MOST_BYTES)
            return msgspec.json.decode(content, type=KeptScope).scope()
        except (FileError, OSError, msgspec.DecodeError):
            return None

    def forget(self, review_id: str) -> None:
        with suppress(FileNotFoundError):
            self._path(review_id).unlink()

    def resolve(self, kept: KeptCouncil) -> Scope | None:
        """What the council looked at, as it is on disk now; None when there is nothing of it any more."""
        project = self._assembly.places.project
        try:
            return resolve_scope(
                kept.scope_request,
                project=project,
                cwd=project,
                environment=self._assembly.environ,
                allow_words=kept.request.meaning.takes_words,
            )
        except BridgeheadError:
            return None

    def _path(self, review_id: str) -> Path:
        return self._assembly.places.data / "scopes" / f"{review_id}.json"
