"""The git repository does what every repository has to do."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bridgehead.rigs.repositories.git.repository import GitRepository
from bridgehead.rigs.trust.signers import public_key_fingerprint
from rigs.repositories.repository_suite import RepositorySuite
from rigs.support.git_world import World


class GitPair:
    def __init__(self, world: World, make_key: Callable[[str], Path]) -> None:
        self.world = world
        self.here = world.repository(world.base / "a")
        self.there = world.repository(world.base / "b")
        world.git("init", "-q", "alone")
        self.alone = world.repository(world.base / "alone")
        self._key = make_key("signer")
        self.signer = public_key_fingerprint(self._key.read_text()) or ""

    def put(self, repository: GitRepository, path: str, content: bytes) -> None:
        target = Path(repository.root) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)

    def link(self, repository: GitRepository, path: str, target: str) -> None:
        place = Path(repository.root) / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)

    def stage(self, repository: GitRepository, path: str) -> None:
        self.world.git("add", "--", path, at=Path(repository.root))

    def commit_by_hand(
        self, repository: GitRepository, files: dict[str, bytes | None]
    ) -> str:
        root = Path(repository.root)
        for path in [path for path, content in files.items() if content is None]:
            (root / path).unlink()
            self.world.git("rm", "-q", "--cached", "--", path, at=root)
        kept = {path: content for path, content in files.items() if content is not None}
        push = repository is self.there
        return self.world.commit(root, kept, "by hand", push=push)

    def refuse_commits(self, repository: GitRepository, says: str) -> None:
        repository.install_commit_msg_hook(
            f"#!/bin/sh\necho '{says}'\nexit 1\n".encode()
        )

    def cut_the_line(self) -> None:
        shutil.move(self.world.remote, self.world.base / "gone.git")

    def refuse_freezes(self) -> None:
        hook = self.world.remote / "hooks/update"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text('#!/bin/sh\ncase "$1" in refs/bridge/*) exit 1;; esac\n')
        hook.chmod(0o755)

    def signers_file(self) -> Path:
        path = self.world.base / "signers"
        path.write_text(f'op1@example.com namespaces="git" {self._key.read_text()}')
        return path

    def add_signing_key(self, repository: GitRepository) -> None:
        root = Path(repository.root)
        self.world.git("config", "gpg.format", "ssh", at=root)
        self.world.git("config", "user.signingkey", str(self._key), at=root)
        self.here = GitRepository(root)


class TestGitRepository(RepositorySuite):
    @pytest.fixture
    def pair(self, world: World, make_key: Callable[[str], Path]) -> GitPair:
        return GitPair(world, make_key)
