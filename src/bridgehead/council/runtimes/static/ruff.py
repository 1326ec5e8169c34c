"""ruff: mistakes and holes in Python that are seen without running it. Style is nobody's finding."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar, Final

from bridgehead.contract.words import Severity
from bridgehead.council.runtimes.static.base import (
    Analyser,
    Message,
    UnreadableAnswer,
    Weight,
    by_longest_prefix,
    weights,
)

# A bare `raise` in a helper of a handler is fine, a dunder list may name what a module makes at run time, and what is
# reported of files, sleeping and `input` in coroutines is mostly start-up code.
NOT_ASKED: Final = "PLE0604,PLE0605,PLE0704,ASYNC230,ASYNC240,ASYNC250,F502,F503,F504"
_UNKNOWN: Final = Weight(Severity.LOW, None, "code-quality")
_ABOUT_SAFE: Final = "seems safe"
MOST_PATHS: Final = 40
"""Independent paths through a function above which it is remarked upon."""


class Ruff(Analyser):
    name = "ruff"
    module = "ruff"
    domains: ClassVar = ("code-quality", "concurrency", "cryptographic", "error-handling", "security")

    def wants(self, path: str) -> bool:
        return path.endswith((".py", ".pyi"))

    def arguments(self) -> Sequence[str]:
        # Isolated: a configuration in the tree could switch everything off.
        asked = ",".join(rule for rule in weights("ruff") if rule.isupper())
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
    weight = by_longest_prefix(rule, weights("ruff"), _UNKNOWN)
    return Message(
        path=str(entry["filename"]),
        line=int(location["row"]),
        rule=rule,
        text=text,
        severity=weight.severity,
        domain=weight.domain,
        action=_action(entry.get("fix")),
        cwe=weight.cwe,
    )


def _action(fix: object) -> str | None:
    return str(fix["message"]) if isinstance(fix, dict) and fix.get("message") else None
