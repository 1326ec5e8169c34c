"""A peer that cannot run here is a skip that tells why: not installed, or no build for this processor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support import peer_clis


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An npm folder in which every peer was installed and no package of the platform was found."""
    folder = tmp_path / "node_modules" / ".bin"
    folder.mkdir(parents=True)
    for cli, name in peer_clis._PACKAGES.items():
        package = folder.parent / name
        package.mkdir(parents=True)
        (package / "package.json").write_text(json.dumps({"version": "1.2.3"}))
        (folder / cli).write_text("a launcher or a stand-in\n")
    monkeypatch.setattr(peer_clis, "FOLDER", folder)
    return folder


@pytest.mark.parametrize("cli", ["claude", "codex", "opencode"])
def test_a_peer_without_a_build_for_this_processor_is_skipped_for_that(
    installed: Path, tmp_path: Path, cli: str
) -> None:
    with pytest.raises(
        pytest.skip.Exception,
        match=r" 1\.2\.3 has no build for this processor \(\w+-\w+\)",
    ):
        peer_clis.link_programs(tmp_path / "bin", (cli,))


def test_a_peer_that_needs_no_build_is_there(installed: Path) -> None:
    assert peer_clis.executable("gemini") == installed / "gemini"


def test_a_peer_that_was_not_installed_is_skipped_for_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_clis, "FOLDER", tmp_path / ".bin")
    with pytest.raises(pytest.skip.Exception, match="codex is not installed"):
        peer_clis.link_programs(tmp_path / "bin", ("codex",))
