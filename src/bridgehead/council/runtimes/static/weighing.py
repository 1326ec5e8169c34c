"""What messages of analysers are worth: by the kind of place they are about, several of a kind together, worst first.

Tests, examples, documentation, vendored and generated code are not what a project runs: what is found there counts for
less and is told once for the whole tree.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from bridgehead.contract.words import Severity
from bridgehead.council.findings.weaknesses import weaknesses
from bridgehead.council.runtimes.static.base import Message
from bridgehead.council.runtimes.static.places import BORROWED, place_of

LOWERED_BY: Final = {"tests": 3, "benchmarks": 3}
_LOWERED: Final = 2
# From here on a finding is about one file; smaller remarks of one kind are one finding of the whole tree.
OF_ONE_FILE: Final = Severity.MEDIUM
_SECURITY: Final = frozenset({"security", "cryptographic"})
MARKED: Final = "code marked as reviewed"
_MARK: Final = re.compile(
    r"#\s*noqa:[^#]*\bS\d|#\s*nosec\b|\bnosemgrep\b|\bNOSONAR\b|//\s*nolint:.*\bgosec\b"
    r"|(?:es|ox)lint-disable-(?:next-)?line\b.*(?:eval|security/|no-danger|new-func|unsanitized)"
)


@dataclass(frozen=True, slots=True)
class Weighed:
    """Messages that are one finding; `count` of them in `files` files, and what kind of place that is."""

    tool: str
    messages: tuple[Message, ...]
    count: int
    files: int
    place: str | None = None

    @property
    def first(self) -> Message:
        return self.messages[0]


def _is_marked(message: Message, text: str) -> bool:
    """Whether a comment tells a security analyser to be silent about this line."""
    before, own = ["", *text.split("\n", message.line)][
        message.line - 1 : message.line + 1
    ]
    return bool(
        _MARK.search(own)
        or (before.lstrip().startswith(("#", "//")) and _MARK.search(before))
    )


def weigh(
    said: Iterable[tuple[str, Message]],
    texts: Mapping[str, str],
    most_places: int,
    *,
    trusts_marks: bool = False,
    named: Container[str] = (),
) -> list[Weighed]:
    """Return the findings, what is worth most first.

    In a change, and in a file that was `named`, nothing is trusted that marks itself as
    generated or reviewed.
    """
    placed = []
    for tool, message in dict.fromkeys(said):
        place = place_of(message.path, texts[message.path])
        if (
            place is None
            and trusts_marks
            and tool == "ast-grep"
            and _is_marked(message, texts[message.path])
        ):
            place = MARKED
        is_answered_for = not trusts_marks or message.path in named
        if is_answered_for and place in BORROWED and message.domain in _SECURITY:
            place = None
        if (lowered := _lowered(tool, message, place)) is not None:
            placed.append((tool, lowered, place))
    groups: dict[tuple[object, ...], list[tuple[str, Message, str | None]]] = {}
    for tool, message, place in _once(sorted(placed, key=_order)):
        home = (
            message.path
            if place is None and message.severity.rank >= OF_ONE_FILE.rank
            else place
        )
        groups.setdefault((tool, message.rule, message.severity, home), []).append(
            (tool, message, place)
        )
    return [_group(members, most_places) for members in groups.values()]


def _lowered(tool: str, message: Message, place: str | None) -> Message | None:
    """The message as far as it counts at such a place; None when it does not."""
    if place is None:
        return message
    rank = message.severity.rank - LOWERED_BY.get(place, _LOWERED)
    severity = next((one for one in Severity if one.rank == rank), None)
    # A key in a test, and a password in an example, are there to be seen.
    if severity is None or tool == "secrets":
        return None
    return replace(message, severity=severity)


def _once(
    ordered: list[tuple[str, Message, str | None]],
) -> list[tuple[str, Message, str | None]]:
    """Without those that say of one line what a worse one said of it already."""
    seen: dict[tuple[str, int, frozenset[str]], str] = {}
    kept = []
    for tool, message, place in ordered:
        about = weaknesses(f"CWE-{message.cwe}") if message.cwe else frozenset()
        if (
            not about
            or seen.setdefault((message.path, message.line, about), message.rule)
            == message.rule
        ):
            kept.append((tool, message, place))
    return kept


def _group(members: list[tuple[str, Message, str | None]], most_places: int) -> Weighed:
    tool, _, place = members[0]
    messages = tuple(message for _, message, _ in members)
    files = len({message.path for message in messages})
    return Weighed(tool, messages[:most_places], len(messages), files, place)


def _order(entry: tuple[str, Message, str | None]) -> tuple[object, ...]:
    tool, message, place = entry
    other = message.domain not in _SECURITY
    return (
        -message.severity.rank,
        place is not None,
        other,
        message.path,
        message.line,
        tool,
        message.rule,
    )
