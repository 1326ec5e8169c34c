"""`python -m tools.word_weights`: count how many docstrings hold each word, for joining findings (council §8).

The texts are the docstrings of Python's standard library: English about programs, at hand wherever Python is, and by
nobody who reviews code with us. Only counts of word stems are kept, none of the texts.
"""

from __future__ import annotations

import ast
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bridgehead.council.findings.wording import WHOLE_NAME, stems

TABLE: Final = (
    Path(__file__).parent.parent / "src/bridgehead/council/findings/word_weights.txt"
)
SHORTEST_TEXT: Final = 60
LONGEST_TEXT: Final = 1_500
FEWEST_TEXTS: Final = 3
LEFT_OUT: Final = frozenset({"site-packages", "test", "tests", "idlelib"})

_DOCUMENTED: Final = (
    ast.Module,
    ast.ClassDef,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
)


def main() -> None:
    """Write the table."""
    counts: Counter[str] = Counter()
    number = 0
    for text in _texts(Path(sysconfig.get_paths()["stdlib"])):
        number += 1
        counts.update(word for word in stems(text) if not word.startswith(WHOLE_NAME))
    kept = [
        f"{word} {count}"
        for word, count in sorted(counts.items())
        if count >= FEWEST_TEXTS and word.isascii()
    ]
    head = "# made by `python -m tools.word_weights`: number of texts, then each stem and how many of them hold it"
    TABLE.write_text("\n".join([head, str(number), *kept]) + "\n", "utf-8")


def _texts(library: Path) -> Iterator[str]:
    """Yield the docstrings of the library, in the order of their files."""
    warnings.simplefilter("ignore")
    for path in sorted(library.rglob("*.py")):
        if LEFT_OUT.intersection(path.relative_to(library).parts):
            continue
        try:
            tree = ast.parse(path.read_text("utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, _DOCUMENTED):
                text = ast.get_docstring(node) or ""
                if len(text) >= SHORTEST_TEXT:
                    yield text[:LONGEST_TEXT]


if __name__ == "__main__":
    main()
