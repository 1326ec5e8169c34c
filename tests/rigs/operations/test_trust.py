"""Whose signatures count is decided here, in a file that nobody else can change (rigs §8 trust)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bridgehead.errors import ConfigError
from bridgehead.rigs.operations.trust import add_signer, list_signers, remove_signer
from bridgehead.rigs.trust.signers import KeyInvalid
from rigs.operations.test_sending import rig_called
from rigs.support.git_world import World


def test_a_key_that_ssh_keygen_cannot_read_is_not_trusted(clone: Path) -> None:
    with pytest.raises(KeyInvalid, match="ssh-keygen does not read it"):
        add_signer(rig_called("rig-a", clone), "mike@example.com", "ssh-ed25519 AAAA")
    assert not (clone / ".bridge" / "allowed_signers").exists()


def test_a_signer_comes_and_goes(clone: Path, make_key: Callable[[str], Path]) -> None:
    key = str(make_key("mike"))
    assert (
        len(add_signer(rig_called("rig-a", clone), "mike@example.com", key).signers)
        == 1
    )
    file = clone / ".bridge" / "config.yaml"
    named = file.read_text()
    rig = rig_called("rig-a", clone)
    file.write_text(named)
    assert [who for who, _, _ in list_signers(rig).signers] == ["mike@example.com"]
    assert remove_signer(rig, "mike@example.com").signers == ()


def test_nothing_is_added_to_a_file_that_came_with_the_repository(
    world: World, clone: Path, make_key: Callable[[str], Path]
) -> None:
    key = make_key("mike")
    world.commit(clone, {".bridge/allowed_signers": b"# theirs\n"})
    with pytest.raises(ConfigError, match="is tracked"):
        add_signer(rig_called("rig-a", clone), "mike@example.com", str(key))
    assert (clone / ".bridge" / "allowed_signers").read_bytes() == b"# theirs\n"
