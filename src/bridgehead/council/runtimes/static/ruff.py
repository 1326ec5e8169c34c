"""ruff: mistakes and holes in Python that are seen without running it. Style is nobody's finding."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar, Final

from bridgehead.contract.words import Severity
from bridgehead.council.runtimes.static.base import Analyser, Message, UnreadableAnswer, by_longest_prefix

# The longest prefix of a rule decides; what is not here is not asked for.
SEVERITY: Final[dict[str, Severity]] = {
    "invalid-syntax": Severity.HIGH,
    "F5": Severity.MEDIUM,
    "F63": Severity.MEDIUM,
    "F70": Severity.HIGH,
    "F811": Severity.LOW,
    "F821": Severity.HIGH,
    "F822": Severity.MEDIUM,
    "F823": Severity.HIGH,
    "PLE": Severity.MEDIUM,
    "PLE0": Severity.HIGH,
    "PLE25": Severity.LOW,
    "E722": Severity.LOW,
    "B002": Severity.MEDIUM,
    "B003": Severity.MEDIUM,
    "B005": Severity.MEDIUM,
    "B006": Severity.MEDIUM,
    "B012": Severity.MEDIUM,
    "B015": Severity.MEDIUM,
    "B016": Severity.MEDIUM,
    "B020": Severity.LOW,
    "B023": Severity.LOW,
    "B025": Severity.MEDIUM,
    "B029": Severity.MEDIUM,
    "B031": Severity.MEDIUM,
    "B032": Severity.MEDIUM,
    "B035": Severity.MEDIUM,
    "B039": Severity.MEDIUM,
    "ASYNC2": Severity.MEDIUM,
    "RUF006": Severity.MEDIUM,
    "C901": Severity.INFO,
    "S102": Severity.LOW,
    "S110": Severity.LOW,
    "S112": Severity.LOW,
    "S113": Severity.LOW,
    "S201": Severity.HIGH,
    "S301": Severity.LOW,
    "S302": Severity.LOW,
    "S306": Severity.MEDIUM,
    "S307": Severity.LOW,
    "S308": Severity.LOW,
    "S323": Severity.HIGH,
    "S324": Severity.LOW,
    "S501": Severity.HIGH,
    "S502": Severity.MEDIUM,
    "S503": Severity.MEDIUM,
    "S505": Severity.MEDIUM,
    "S506": Severity.HIGH,
    "S507": Severity.HIGH,
    "S602": Severity.HIGH,
    "S604": Severity.LOW,
    "S605": Severity.HIGH,
    "S608": Severity.LOW,
    "S610": Severity.LOW,
    "S611": Severity.LOW,
    "S612": Severity.HIGH,
    "S701": Severity.MEDIUM,
    "S702": Severity.MEDIUM,
    "S704": Severity.LOW,
}
# A bare `raise` in a helper of a handler is fine, a dunder list may name what a module makes at run time, and what is
# reported of files, sleeping and `input` in coroutines is mostly start-up code.
NOT_ASKED: Final = "PLE0604,PLE0605,PLE0704,ASYNC230,ASYNC240,ASYNC250,F502,F503,F504"
CWE: Final = {
    "S102": 95,
    "S110": 390,
    "S112": 390,
    "E722": 396,
    "S201": 489,
    "S301": 502,
    "S302": 502,
    "S306": 377,
    "S307": 95,
    "S308": 79,
    "S323": 295,
    "S324": 327,
    "S501": 295,
    "S502": 327,
    "S503": 327,
    "S505": 326,
    "S506": 502,
    "S507": 295,
    "S60": 78,
    "S608": 89,
    "S61": 89,
    "S612": 94,
    "S70": 79,
    "RUF006": 772,
}
_ABOUT_SAFE: Final = "seems safe"
MOST_PATHS: Final = 40
"""Independent paths through a function above which it is remarked upon."""
_DOMAINS: Final = {
    "ASYNC": "concurrency",
    "RUF006": "concurrency",
    "E722": "error-handling",
    "S110": "error-handling",
    "S112": "error-handling",
    "S113": "error-handling",
    "S324": "cryptographic",
    "S5": "cryptographic",
    "S506": "security",
    "S": "security",
}


class Ruff(Analyser):
    name = "ruff"
    module = "ruff"
    domains: ClassVar = ("code-quality", "concurrency", "cryptographic", "error-handling", "security")

    def wants(self, path: str) -> bool:
        return path.endswith((".py", ".pyi"))

    def arguments(self) -> Sequence[str]:
        # Isolated: a configuration in the tree could switch everything off.
        asked = ",".join(rule for rule in SEVERITY if rule.isupper())
        paths = f"lint.mccabe.max-complexity={MOST_PATHS}"
        told = [
            "check",
            "--isolated",
            "--no-cache",
            "--exit-zero",
            "--output-format",
            "json",
            "--config",
            paths,
        ]
        return [*told, "--select", asked, "--ignore", NOT_ASKED]

    def read(self, printed: str) -> list[Message]:
        try:
            entries = json.loads(printed or "[]")
            return [message for entry in entries if (message := _message(entry)) is not None]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UnreadableAnswer("ruff did not print the JSON list it promises") from error


def _message(entry: dict[str, object]) -> Message | None:
    rule = str(entry.get("code") or entry.get("name") or "invalid-syntax")
    location, text = entry["location"], str(entry["message"])
    if not isinstance(location, dict):
        raise TypeError("location")
    if _ABOUT_SAFE in text:
        return None
    return Message(
        path=str(entry["filename"]),
        line=int(location["row"]),
        rule=rule,
        text=text,
        severity=by_longest_prefix(rule, SEVERITY, Severity.LOW),
        domain=by_longest_prefix(rule, _DOMAINS, "code-quality"),
        action=_action(entry.get("fix")),
        cwe=by_longest_prefix(rule, CWE, None),
    )


def _action(fix: object) -> str | None:
    return str(fix["message"]) if isinstance(fix, dict) and fix.get("message") else None
