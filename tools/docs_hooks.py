"""The README is the first page of the documentation; links to files that are no pages become plain words.

Words behind the language of a block (`console no-run`) are for our tests; the site takes such a block for prose.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

README = Path(__file__).resolve().parent.parent / "README.md"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    above = r"(?:\.\./)+"
    if page.file.src_uri == "index.md":
        markdown, above = (
            README.read_text(encoding="utf-8").replace("](docs/", "]("),
            "",
        )
    markdown = re.sub(r"(?m)^```(\w+) .*$", r"```\1", markdown)
    return re.sub(rf"\[([^\]]+)\]\({above}[A-Z]+\.md\)", r"\1", markdown)
