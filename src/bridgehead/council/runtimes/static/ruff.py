"""ruff: mistakes in Python that are seen without running it. Style is nobody's finding."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar, Final

from bridgehead.contract.words import Severity
from bridgehead.council.runtimes.static.base import (
    Analyser,
    Message,
    UnreadableAnswer,
    by_longest_prefix,
    is_python,
)

SELECTED: Final = "F,B,PLE,ASYNC,E722,BLE001,RUF006"
# The longest prefix of a rule decides; a rule without one is low.
SEVERITY: Final[dict[str, Severity]] = {
    "invalid-syntax": Severity.HIGH,
    "F821": Severity.HIGH,
    "F823": Severity.HIGH,
    "F70": Severity.HIGH,
    "PLE": Severity.HIGH,
    "F5": Severity.MEDIUM,
    "F6": Severity.MEDIUM,
    "F822": Severity.MEDIUM,
    "B002": Severity.MEDIUM,
    "B006": Severity.MEDIUM,
    "B012": Severity.MEDIUM,
    "B015": Severity.MEDIUM,
    "B016": Severity.MEDIUM,
    "B020": Severity.MEDIUM,
    "B023": Severity.MEDIUM,
    "ASYNC": Severity.MEDIUM,
    "RUF006": Severity.MEDIUM,
    "F401": Severity.INFO,
    "F541": Severity.INFO,
    "B904": Severity.INFO,
    "B905": Severity.INFO,
}
_DOMAINS: Final = {
    "ASYNC": "concurrency",
    "RUF006": "concurrency",
    "E722": "error-handling",
    "BLE": "error-handling",
}


class Ruff(Analyser):
    name = "ruff"
    module = "ruff"
    domains: ClassVar = ("code-quality", "concurrency", "error-handling")

    def wants(self, path: str) -> bool:
        return is_python(path)

    def arguments(self) -> Sequence[str]:
        # Isolated: a configuration in the tree could switch everything off.
        return [
            "check",
            "--isolated",
            "--no-cache",
            "--exit-zero",
            "--output-format",
            "json",
            "--select",
            SELECTED,
        ]

    def read(self, printed: str) -> list[Message]:
        try:
            entries = json.loads(printed or "[]")
            return [_message(entry) for entry in entries]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UnreadableAnswer("ruff did not print the JSON list it promises") from error


def _message(entry: dict[str, object]) -> Message:
    rule = str(entry.get("code") or entry.get("name") or "invalid-syntax")
    location, fix = entry["location"], entry.get("fix")
    if not isinstance(location, dict):
        raise TypeError("location")
    action = str(fix["message"]) if isinstance(fix, dict) and fix.get("message") else None
    return Message(
        path=str(entry["filename"]),
        line=int(location["row"]),
        rule=rule,
        text=str(entry["message"]),
        severity=by_longest_prefix(rule, SEVERITY, Severity.LOW),
        domain=by_longest_prefix(rule, _DOMAINS, "code-quality"),
        action=action,
    )
