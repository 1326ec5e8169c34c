"""`python -m tools.generate`: write the JSON Schemas, the generated reference pages and the drawing of the imports."""

from __future__ import annotations

from pathlib import Path

from tools.import_graph import write_drawings
from tools.reference_pages import pages
from tools.schema_files import as_text, schemas

REPOSITORY = Path(__file__).resolve().parent.parent


def main() -> None:
    for name, document in schemas().items():
        (REPOSITORY / "src/bridgehead/contract/schemas" / name).write_text(
            as_text(document), encoding="utf-8"
        )
    for name, text in pages().items():
        (REPOSITORY / "docs/reference" / name).write_text(text, encoding="utf-8")
    write_drawings()


if __name__ == "__main__":
    main()
