"""detect-secrets: keys and passwords in the tree. The line is named and never quoted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar, Final

from bridgehead.contract.words import Severity
from bridgehead.council.runtimes.static.base import Analyser, Message, UnreadableAnswer

# Every hash and lock file is full of entropy.
_NOT_USED: Final = ("Base64HighEntropyString", "HexHighEntropyString")
SEVERITY: Final = {"Secret Keyword": Severity.MEDIUM}


class Secrets(Analyser):
    name = "detect-secrets"
    module = "detect_secrets"
    domains: ClassVar = ("security",)

    def wants(self, path: str) -> bool:
        return True

    def arguments(self) -> Sequence[str]:
        # Verification would send what was found to the service it belongs to.
        disabled = [word for name in _NOT_USED for word in ("--disable-plugin", name)]
        return ["scan", "--no-verify", "--all-files", *disabled]

    def read(self, printed: str) -> list[Message]:
        try:
            results = json.loads(printed)["results"]
            return [_message(path, entry) for path, entries in results.items() for entry in entries]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UnreadableAnswer("detect-secrets did not print the JSON object it promises") from error


def _message(path: str, entry: dict[str, object]) -> Message:
    kind = str(entry["type"])
    return Message(
        path=path,
        line=int(str(entry["line_number"])),
        rule=kind,
        text=f"A secret is kept in the tree ({kind})",
        severity=SEVERITY.get(kind, Severity.HIGH),
        domain="security",
        action="take it out, revoke it, and read it from the environment or a secret store",
        quotable=False,
    )
