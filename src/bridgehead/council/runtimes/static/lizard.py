"""lizard: functions too tangled to be followed, in many languages."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import ClassVar, Final

from bridgehead.contract.words import Severity
from bridgehead.council.runtimes.static.base import Analyser, Message, UnreadableAnswer

# Paths through a function; above the first it is worth a remark, above the second a finding.
REMARKABLE_PATHS: Final = 15
TANGLED_PATHS: Final = 30
_EXTENSIONS: Final = (
    *(".c", ".cc", ".cpp", ".cs", ".cxx", ".go", ".h", ".hpp", ".java", ".js", ".jsx", ".kt", ".lua", ".m"),
    *(".php", ".py", ".rb", ".rs", ".scala", ".swift", ".ts", ".tsx"),
)
_COLUMNS: Final = 11


class Lizard(Analyser):
    name = "lizard"
    module = "lizard"
    domains: ClassVar = ("code-quality",)

    def wants(self, path: str) -> bool:
        return path.endswith(_EXTENSIONS)

    def arguments(self) -> Sequence[str]:
        return ["--csv"]

    def read(self, printed: str) -> list[Message]:
        try:
            rows = [row for row in csv.reader(io.StringIO(printed)) if row]
            return [_message(row) for row in rows if int(row[1]) > REMARKABLE_PATHS]
        except (ValueError, IndexError, csv.Error) as error:
            raise UnreadableAnswer("lizard did not print the table it promises") from error


def _message(row: list[str]) -> Message:
    if len(row) != _COLUMNS:
        raise ValueError("a row has another number of columns")
    paths, name = int(row[1]), row[7]
    return Message(
        path=row[6],
        line=int(row[9]),
        rule="complexity",
        text=f"{name} has {paths} independent paths and is hard to follow and to test",
        severity=Severity.MEDIUM if paths > TANGLED_PATHS else Severity.LOW,
        domain="code-quality",
        action="split the function so that each part decides one thing",
    )
