"""What counts as a file reference in an evidence text (council §8)."""

from __future__ import annotations

import pytest

from bridgehead.council.findings.references import find_references


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("the secret in .env:3", [".env"]),
        ("deploy/.npmrc has a token", ["deploy/.npmrc"]),
        ("./Dockerfile.dev runs as root", ["Dockerfile.dev"]),
        ("all .py files", []),
        ("every .js/.ts file", []),
    ],
)
def test_a_dotfile_with_a_place_is_a_reference_and_talk_of_kinds_of_files_is_none(
    text: str, paths: list[str]
) -> None:
    assert [reference.path for reference in find_references(text)] == paths
