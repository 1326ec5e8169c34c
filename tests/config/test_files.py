"""Settings files on disk, and trust in a project's file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bridgehead.config.files import TrustedFiles, load_settings
from bridgehead.config.places import Places, find_places, project_root
from bridgehead.errors import ConfigError, FileError, NotFound


@pytest.fixture
def places(tmp_path: Path) -> Places:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    return find_places(project, {"BRIDGEHEAD_HOME": str(tmp_path / "home")})


def write_user_file(places: Places, text: str) -> None:
    places.config.mkdir(parents=True)
    places.user_file.write_text(text)


def test_the_root_is_the_nearest_directory_with_a_mark(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert project_root(inner) in (inner, *inner.parents)
    (tmp_path / "a" / "bridgehead.toml").touch()
    assert project_root(inner) == tmp_path / "a"


def test_a_trusted_file_may_choose_the_store_until_it_changes(places: Places) -> None:
    places.project_file.write_text('[store]\nurl = "a.db"\n')
    assert load_settings(places, environ={}, flags={}).text("store.url") is None

    TrustedFiles(places.trust_file).add(places.project_file)
    assert load_settings(places, environ={}, flags={}).text("store.url") == "a.db"

    places.project_file.write_text('[store]\nurl = "b.db"\n')
    assert load_settings(places, environ={}, flags={}).text("store.url") is None


def test_trust_is_kept_private(places: Places) -> None:
    places.project_file.touch()
    TrustedFiles(places.trust_file).add(places.project_file)

    assert places.trust_file.stat().st_mode & 0o777 == 0o600


def test_trust_can_be_taken_back(places: Places) -> None:
    trust = TrustedFiles(places.trust_file)
    places.project_file.touch()
    trust.add(places.project_file)
    trust.remove(places.project_file)

    assert trust.all() == {}
    with pytest.raises(NotFound):
        trust.remove(places.project_file)


def test_a_file_that_is_not_there_cannot_be_trusted(places: Places) -> None:
    with pytest.raises(NotFound):
        TrustedFiles(places.trust_file).add(places.project_file)


@pytest.mark.parametrize("text", ["[store", "url = ", "\x00"])
def test_a_file_that_is_not_toml_is_named(places: Places, text: str) -> None:
    write_user_file(places, text)

    with pytest.raises(ConfigError, match=r"config\.toml is not valid TOML"):
        load_settings(places, environ={}, flags={})


def test_a_settings_file_that_is_a_link_is_refused(
    places: Places, tmp_path: Path
) -> None:
    target = tmp_path / "elsewhere.toml"
    target.write_text('[store]\nurl = "a.db"\n')
    places.project_file.symlink_to(target)

    with pytest.raises(FileError):
        load_settings(places, environ={}, flags={})


@pytest.mark.parametrize("content", ["{", "[]", "\xff"])
def test_a_damaged_trust_file_trusts_nothing_and_says_so(
    places: Places, content: str
) -> None:
    places.config.mkdir(parents=True)
    places.trust_file.write_text(content, encoding="latin-1")

    with pytest.raises(ConfigError):
        TrustedFiles(places.trust_file).all()


@pytest.mark.skipif(
    sys.platform != "linux",
    reason="other systems have other rules, and a library that knows them",
)
def test_the_users_directories_are_those_of_the_xdg_specification(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    usual = find_places(tmp_path, {"XDG_DATA_HOME": "relative/is/ignored"})
    assert (usual.config, usual.data) == (
        Path("/home/ada/.config/bridgehead"),
        Path("/home/ada/.local/share/bridgehead"),
    )
    moved = find_places(
        tmp_path, {"XDG_CONFIG_HOME": "/etc/ada", "XDG_DATA_HOME": "/srv/ada"}
    )
    assert (moved.config, moved.data) == (
        Path("/etc/ada/bridgehead"),
        Path("/srv/ada/bridgehead"),
    )


@pytest.mark.parametrize(
    "text", ["x = " + "[" * 3000, "x = " + "1" * 5000, "x = 1\n[x"]
)
def test_a_file_made_to_break_the_reader_is_not_valid_toml(
    places: Places, text: str
) -> None:
    places.project_file.write_text(text)

    with pytest.raises(ConfigError, match="is not valid TOML"):
        load_settings(places, environ={}, flags={})
