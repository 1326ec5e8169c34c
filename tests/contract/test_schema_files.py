"""The committed JSON Schemas are what the types say today."""

from __future__ import annotations

from importlib.resources import files

import jsonschema
import pytest

from tools.schema_files import as_text, schemas


@pytest.mark.parametrize("name", schemas())
def test_the_committed_schema_is_current(name: str) -> None:
    committed = (
        files("bridgehead.contract")
        .joinpath("schemas", name)
        .read_text(encoding="utf-8")
    )

    assert committed == as_text(schemas()[name]), "run: make generate"


def test_no_schema_file_is_left_over() -> None:
    committed = {
        path.name for path in files("bridgehead.contract").joinpath("schemas").iterdir()
    }

    assert committed == set(schemas())


@pytest.mark.parametrize("name", schemas())
def test_a_published_schema_is_a_valid_schema(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schemas()[name])
