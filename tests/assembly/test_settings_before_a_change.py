"""A change is reviewed with the settings before it, and with what the user trusts (council §13)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.council.before_change import (
    before_change,
    changed_settings,
)
from bridgehead.assembly.council.files import read_seats_file, splits_for
from bridgehead.errors import ConfigError

BASE = """[council]
require = ["ruff"]
timeout = 300
"""


@pytest.fixture
def here(tmp_path: Path) -> Assembly:
    project = tmp_path / "project"
    project.mkdir()
    environ = {"BRIDGEHEAD_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]}
    git(project, "init", "-q")
    (project / "bridgehead.toml").write_text(BASE)
    (project / ".bridge-settings.json").write_text('{"max_concurrency": 2}')
    (project / ".bridgehead").mkdir()
    splits = '[[split]]\napart = ["v1:a", "v1:b"]\n'
    (project / ".bridgehead" / "splits.toml").write_text(splits)
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "base")
    return Assembly(project, environ)


def git(project: Path, *words: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    done = subprocess.run(
        ["git", *identity, *words],
        cwd=project,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def head(assembly: Assembly) -> str:
    return git(assembly.places.project, "rev-parse", "HEAD")


def change(assembly: Assembly, name: str, text: str) -> None:
    (assembly.places.project / name).write_text(text)


def test_a_change_cannot_drop_what_the_base_requires(here: Assembly) -> None:
    change(here, "bridgehead.toml", "")

    assert here.settings.texts("council.require") == ()
    assert before_change(here, head(here)).settings.texts("council.require") == (
        "ruff",
    )
    assert changed_settings(here, head(here)) == (
        "settings_of_change_ignored:bridgehead.toml",
    )


def test_the_base_is_trusted_as_little_as_the_tree(here: Assembly) -> None:
    change(here, "bridgehead.toml", "")

    assert before_change(here, head(here)).settings.number("council.timeout") == 120


def test_what_the_user_trusted_before_the_change_stays_trusted(here: Assembly) -> None:
    here.trusted_files.add(here.places.project_file)
    change(here, "bridgehead.toml", "[council]\ntimeout = 1\n")

    assert before_change(here, head(here)).settings.number("council.timeout") == 300


def test_settings_that_the_user_trusts_count_although_the_change_brings_them(
    here: Assembly,
) -> None:
    change(here, "bridgehead.toml", "[council]\ntimeout = 7\n")
    here.trusted_files.add(here.places.project_file)

    assert before_change(here, head(here)).settings.number("council.timeout") == 7
    assert changed_settings(here, head(here)) == ()


def test_a_change_without_settings_is_reviewed_with_those_of_the_tree(
    here: Assembly,
) -> None:
    change(here, "new.py", "x = 1\n")

    assert before_change(here, head(here)) is here
    assert changed_settings(here, head(here)) == ()


def test_seats_and_splits_are_those_before_the_change(here: Assembly) -> None:
    change(here, ".bridge-settings.json", '{"max_concurrency": 1}')
    change(here, ".bridgehead/splits.toml", "")

    assert read_seats_file(here, head(here)).text == '{"max_concurrency": 2}'
    assert read_seats_file(here).text == '{"max_concurrency": 1}'
    assert splits_for(here, head(here)) == (("v1:a", "v1:b"),)
    assert splits_for(here, None) == ()


def test_settings_that_the_change_adds_are_none(here: Assembly) -> None:
    git(here.places.project, "rm", "-q", "bridgehead.toml", ".bridge-settings.json")
    git(here.places.project, "commit", "-q", "-m", "without")
    change(here, "bridgehead.toml", BASE)
    change(here, ".bridge-settings.json", "{}")

    assert before_change(here, head(here)).settings.texts("council.require") == ()
    assert read_seats_file(here, head(here)).text is None


def test_settings_before_the_change_that_nobody_can_read_are_named(
    here: Assembly,
) -> None:
    change(here, "bridgehead.toml", "[council")
    git(here.places.project, "commit", "-qam", "broken")
    change(here, "bridgehead.toml", "")

    with pytest.raises(ConfigError, match=r"bridgehead\.toml of [0-9a-f]{12} is not"):
        before_change(here, head(here))
