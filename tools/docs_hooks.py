"""The README is the first page of the documentation; links to files that are no pages become plain words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

README = Path(__file__).resolve().parent.parent / "README.md"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    if page.file.src_uri == "index.md":
        markdown = README.read_text(encoding="utf-8").replace("](docs/", "](")
        return re.sub(r"\[([^\]]+)\]\([A-Z]+\.md\)", r"\1", markdown)
    return re.sub(r"\[([^\]]+)\]\((?:\.\./)+[A-Z]+\.md\)", r"\1", markdown)
