"""Why a seat did not take part, in words, and whether trying again makes sense (the codes of council §3)."""

from __future__ import annotations

import re
from typing import Final

MOST_SHOWN: Final = 60

_WORDS: Final = {
    "no_connection": "nothing to connect to",
    "cli_not_found": "not installed",
    "cli_not_installed": "not installed",
    "not_authenticated": "not logged in",
    "auth_probe_failed": "not logged in",
    "no_provider_configured": "no provider configured",
    "parse_failure": "unreadable replies",
    "disabled_in_settings": "switched off",
    "user_chose_skip": "you skipped it",
    "no_answer": "no answer",
    "budget_exhausted": "beyond the budget",
}
_NOT_WORTH_TRYING: Final = (
    "no_connection",
    "cli_not_found",
    "cli_not_installed",
    "disabled_in_settings",
    "budget_exhausted",
)
_TIMEOUT: Final = re.compile(r"timeout_after_(\d+)s")


def reason_in_words(reason: str) -> str:
    """`halted:not_authenticated` is `not logged in`; what has no words of its own is shown as it is, shortened."""
    code = reason.removeprefix("halted:")
    if late := _TIMEOUT.fullmatch(code):
        return f"no answer within {late[1]} s"
    name, _, detail = code.partition(":")
    if name in _WORDS:
        return _WORDS[name]
    told = detail.strip() if name == "cli_error" else code
    return told if len(told) <= MOST_SHOWN else told[: MOST_SHOWN - 1] + "…"


def can_be_tried_again(reason: str) -> bool:
    """Whether the same council could seat it once somebody has acted, or luck has changed."""
    return not reason.removeprefix("halted:").startswith(_NOT_WORTH_TRYING)
