"""An envelope on its way into a commit in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridgehead.rigs.repositories.base import Posting
from bridgehead.rigs.repositories.errors import CommitFailed, SigningFailed
from bridgehead.rigs.repositories.records import Identity, TrackedFile

if TYPE_CHECKING:
    from bridgehead.rigs.repositories.memory import MemoryRepository


class MemoryPosting(Posting):
    """Written into the work tree, not committed yet."""

    def __init__(self, repository: MemoryRepository, path: str, content: bytes) -> None:
        self.path = path
        self.warnings: list[str] = []
        self._repository = repository
        self._draft = repository.files.get(path)
        self._open = True
        repository.files[path] = content

    def land(self, subject: str, *, identity: Identity | None = None, must_sign: bool = False) -> str:
        repository = self._repository
        author = identity or repository.identity()
        if repository.refused_message is not None or author is None:
            raise CommitFailed(repository.refused_message or "Please tell me who you are.")
        if must_sign and repository.signing_key() is None:
            raise SigningFailed("no signing key")
        file = TrackedFile(repository.objects.add_blob(repository.files[self.path]), is_symlink=False)
        tree = {**repository.objects.tree(repository.commit), self.path: file}
        key = repository.signing_key() if must_sign else None
        self.commit = repository.commit = repository.make_commit(tree, subject, author, key)
        repository.index[self.path] = file
        self._open = False
        return self.commit

    def undo(self) -> None:
        if not self._open:
            return
        self._open = False
        if self._draft is None:
            self._repository.files.pop(self.path, None)
        else:
            self._repository.files[self.path] = self._draft
