"""Reads the conformance vectors. The folder is $BRIDGEHEAD_VECTORS, or tests/vectors.

Nothing about the number or names of cases is assumed; a folder or file that is absent is a visible skip.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = Path(
    os.environ.get("BRIDGEHEAD_VECTORS") or REPOSITORY / "tests" / "vectors"
).resolve()


def absent(part: str, name: str = "", *, values: int = 1) -> Any:
    """A parameter set of so many values that skips, saying which file or, without a name, which folder is not there."""
    missing = f"file {part}/{name}" if name else f"folder {part}"
    skip = pytest.mark.skip(reason=f"no vector {missing} in {FOLDER.name}")
    label = "-".join([part, *name.split("/"), "absent"] if name else [part, "absent"])
    return pytest.param(*[None] * values, id=label, marks=skip)


def is_there(part: str, name: str) -> bool:
    return (FOLDER / part / name).is_file()


def load(part: str, name: str) -> Any | None:
    """The parsed JSON file, or None when it is absent."""
    if not is_there(part, name):
        return None
    return json.loads((FOLDER / part / name).read_text(encoding="utf-8"))


def cases(part: str, name: str) -> list[Any]:
    """One parameter per case of `<part>/<name>.json`, with ids that start with the part's name."""
    document = load(part, f"{name}.json")
    if document is None:
        return [absent(part, f"{name}.json")]
    return [
        pytest.param(case, id=f"{part}-{name}-{case.get('id', number)}")
        for number, case in enumerate(document["cases"])
    ]


def unread_files(part: str, read: set[str]) -> list[Any]:
    """One skipping parameter per vector file of `part` that no test reads yet."""
    if not (FOLDER / part).is_dir():
        return [absent(part)]
    names = sorted(path.stem for path in (FOLDER / part).glob("*.json"))
    return [
        pytest.param(
            name,
            id=f"{part}-{name}",
            marks=pytest.mark.skip(
                reason=f"{part}/{name}.json: this part is not built yet"
            ),
        )
        for name in names
        if name not in read
    ]
