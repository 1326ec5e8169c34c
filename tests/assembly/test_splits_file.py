"""The file of split joins: written by `council split`, committed, read by every later council."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.assembly.council.files import (
    SPLITS_FILE,
    append_splits,
    read_splits,
)
from bridgehead.errors import ConfigError


def test_what_is_appended_is_read_again_and_what_was_there_stays(
    tmp_path: Path,
) -> None:
    assert read_splits(tmp_path) == ()

    append_splits(tmp_path, [{"apart": ["v1:a", "v1:b"], "title": "One"}])
    file = tmp_path / SPLITS_FILE
    file.write_text("# kept by hand\n" + file.read_text())
    append_splits(tmp_path, [{"apart": ["v1:c", "v1:d"], "title": "Two"}])

    assert read_splits(tmp_path) == (("v1:a", "v1:b"), ("v1:c", "v1:d"))
    assert file.read_text().startswith("# kept by hand\n")
    assert "!splits.toml" in (tmp_path / ".bridgehead/.gitignore").read_text()


def test_a_file_that_cannot_be_understood_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".bridgehead").mkdir()
    (tmp_path / SPLITS_FILE).write_text('split = "v1:a"\n')

    with pytest.raises(ConfigError, match="list of tables"):
        read_splits(tmp_path)
