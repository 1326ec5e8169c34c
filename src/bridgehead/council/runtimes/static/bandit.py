"""bandit: patterns in Python that tend to be security holes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from bridgehead.contract.words import Severity
from bridgehead.council.runtimes.static.base import (
    Analyser,
    Message,
    UnreadableAnswer,
    by_longest_prefix,
    is_python,
)

# Asserts, imports and harmless calls say nothing by themselves; passwords are the business of `secrets`.
NOT_ASKED: Final = "B101,B105,B106,B107,B311,B403,B404,B405,B406,B407,B408,B409,B411,B603,B606,B607"
SEVERITY: Final[dict[str, Severity]] = {
    "B102": Severity.HIGH,
    "B104": Severity.MEDIUM,
    "B110": Severity.LOW,
    "B112": Severity.LOW,
    "B113": Severity.LOW,
    "B201": Severity.HIGH,
    "B202": Severity.HIGH,
    "B301": Severity.HIGH,
    "B307": Severity.HIGH,
    "B324": Severity.MEDIUM,
    "B501": Severity.HIGH,
    "B506": Severity.HIGH,
    "B602": Severity.HIGH,
    "B605": Severity.HIGH,
    "B608": Severity.HIGH,
}
_OWN_WORDS: Final = {"LOW": Severity.LOW, "MEDIUM": Severity.MEDIUM, "HIGH": Severity.HIGH}
_DOMAINS: Final = {
    "B324": "cryptographic",
    "B303": "cryptographic",
    "B304": "cryptographic",
    "B110": "error-handling",
}


class Bandit(Analyser):
    name = "bandit"
    module = "bandit"
    domains: ClassVar = ("security", "cryptographic", "error-handling")

    def wants(self, path: str) -> bool:
        return is_python(path)

    def arguments(self) -> Sequence[str]:
        # Files are named one by one; for a directory bandit would read a `.bandit` file of the tree.
        return ["--format", "json", "--quiet", "--exit-zero", "--skip", NOT_ASKED]

    def read(self, printed: str) -> list[Message]:
        try:
            return [_message(entry) for entry in json.loads(printed)["results"]]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UnreadableAnswer("bandit did not print the JSON object it promises") from error


def _message(entry: dict[str, Any]) -> Message:
    rule = str(entry["test_id"])
    said = _OWN_WORDS.get(str(entry["issue_severity"]), Severity.LOW)
    weakness = entry.get("issue_cwe")
    number = weakness.get("id") if isinstance(weakness, dict) else None
    text = str(entry["issue_text"]).strip()
    return Message(
        path=str(entry["filename"]),
        line=int(entry["line_number"]),
        rule=f"{rule}, CWE-{number}" if number else rule,
        text=text,
        severity=by_longest_prefix(rule, SEVERITY, said),
        domain=by_longest_prefix(rule, _DOMAINS, "security"),
    )
