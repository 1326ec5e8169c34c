"""The generated reference pages are current."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.reference_pages import pages

FOLDER = Path(__file__).resolve().parent.parent.parent / "docs" / "reference"
PAGES = pages()


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_what_the_code_says(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name], (
        "run: make generate"
    )
