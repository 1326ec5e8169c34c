"""ruff: mistakes and holes in Python that are seen without running it. Style is nobody's finding."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

from bridgehead.contract.words import Severity
from bridgehead.council.runtimes.static.base import (
    Analyser,
    Message,
    NotAble,
    UnreadableAnswer,
    Weight,
    by_longest_prefix,
    weights,
)
from bridgehead.host.command import CommandResult

# A bare `raise` in a helper of a handler is fine, a dunder list may name what a module makes at run time, and what is
# reported of files, sleeping and `input` in coroutines is mostly start-up code.
NOT_ASKED: Final = "PLE0604,PLE0605,PLE0704,ASYNC230,ASYNC240,ASYNC250,F502,F503,F504"
_UNKNOWN: Final = Weight(Severity.LOW, None, "code-quality")
_RULES_REJECTED: Final = re.compile(
    r"[Uu]nknown rule|have been removed|has been removed|has no effect because"
)
_ABOUT_SAFE: Final = "seems safe"
MOST_PATHS: Final = 40
"""Independent paths through a function above which it is remarked upon."""


class Ruff(Analyser):
    name = "ruff"
    module = "ruff"
    domains: ClassVar = (
        "code-quality",
        "concurrency",
        "cryptographic",
        "error-handling",
        "security",
    )
    suffixes = (".py", ".pyi")

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

    def objection(
        self, result: CommandResult, asked: Sequence[str]
    ) -> UnreadableAnswer | None:
        said = result.error_text()
        if _RULES_REJECTED.search(said):
            return NotAble("ruff does not know all of our rules")
        if "Failed to lint" in said:
            return UnreadableAnswer("ruff passed over a file")
        return None

    def messages(self, printed: Any) -> Iterator[Message]:
        for entry in printed:
            rule = str(entry.get("code") or entry.get("name") or "invalid-syntax")
            text = str(entry["message"])
            weight = by_longest_prefix(rule, weights(self.name), _UNKNOWN)
            fix = entry.get("fix") or {}
            found = weight.message(
                entry["filename"],
                int(entry["location"]["row"]),
                rule,
                text,
                fix.get("message"),
            )
            if _ABOUT_SAFE not in text:
                yield found
