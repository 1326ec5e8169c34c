"""What a user asks of a council, as plain data every surface builds the same way
(council §24), with seed findings (§14.7).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from bridgehead.contract.ids import numbered_id
from bridgehead.contract.report import Output
from bridgehead.contract.task import BridgeInput, Requirement
from bridgehead.contract.words import CouncilProtocol, Mode, TaskType
from bridgehead.council.replies.items import Intake, parse_severity
from bridgehead.council.request.domains import CROSS_DOMAIN
from bridgehead.council.request.plan import (
    DEBATE_PROTOCOL,
    DEEP_COUNCIL,
    CouncilOptions,
    is_judged,
)
from bridgehead.council.scope.scope import ScopeRequest
from bridgehead.council.synthesis.finding import CALLER
from bridgehead.errors import UserError

ASK: Final = "ask"
_ID: Final = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
PREFIX: Final = "U"
_LISTS: Final = (
    "outputs",
    "findings",
    "multi_source_confirmed",
    "single_source_findings",
    "disputed_findings",
    "integration_findings",
)
_ANY_TASK: Final = BridgeInput(
    session_id="seed", scope=".", task_description="seed", domains=(CROSS_DOMAIN,)
)


class Verb(msgspec.Struct, frozen=True):
    """A command word: the task it stands for, and what it does in one sentence."""

    task_type: TaskType
    mode: Mode | None
    sentence: str
    route: str | None = DEEP_COUNCIL
    takes_words: bool = False
    """Whether a scope entry may be words that name no path."""


VERBS: Final[dict[str, Verb]] = {
    "review": Verb(
        TaskType.REVIEW,
        Mode.REVIEW,
        "Find problems with several agents that debate them.",
    ),
    "audit": Verb(
        TaskType.AUDIT,
        Mode.AUDIT,
        "Check code against requirements and report the gaps.",
    ),
    "analyze": Verb(
        TaskType.ANALYSIS,
        Mode.SYNTHESIS,
        "Analyse something from several points of view.",
    ),
    "plan": Verb(
        TaskType.PLANNING, None, "Plan a change as a list of steps.", takes_words=True
    ),
    "implement": Verb(
        TaskType.IMPLEMENTATION,
        None,
        "Let one agent make a change on its own branch.",
        takes_words=True,
    ),
    "research": Verb(
        TaskType.RESEARCH,
        Mode.RESEARCH,
        "Research a question and show where sources disagree.",
        takes_words=True,
    ),
    "brainstorm": Verb(
        TaskType.PLANNING,
        Mode.BRAINSTORM,
        "Collect ideas, with the reasoning behind each.",
        takes_words=True,
    ),
    "design": Verb(
        TaskType.PLANNING,
        Mode.DESIGN,
        "Compare designs and recommend one.",
        takes_words=True,
    ),
    "synthesize": Verb(
        TaskType.ANALYSIS,
        Mode.SYNTHESIS,
        "Combine several views into one.",
        takes_words=True,
    ),
    "debate": Verb(
        TaskType.REVIEW,
        Mode.REVIEW,
        "Have one runtime debate itself in five phases.",
        route=DEBATE_PROTOCOL,
    ),
    "ask": Verb(
        TaskType.REVIEW,
        Mode.REVIEW,
        "Describe what you want in plain words.",
        route=None,
    ),
}


class CouncilRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One council as it was asked for: what it is about, and how it is to be held."""

    verb: str = "review"
    task_type: TaskType | None = None
    scope: ScopeRequest = ScopeRequest()
    task: str = ""
    context_summary: str = ""
    domains: tuple[str, ...] = ()
    """Exactly these; empty lets the code and the words choose."""
    add_domains: tuple[str, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    review_id: str | None = None
    options: CouncilOptions = CouncilOptions()

    @property
    def meaning(self) -> Verb:
        return VERBS[self.verb]

    @property
    def names_a_change(self) -> bool:
        """Whether a change is looked at rather than files.

        Its own dismissals are then watched (council §24).
        """
        return bool(self.scope.kinds) and self.scope.kinds != ["paths"]


def refuse_contradictions(request: CouncilRequest) -> None:
    """Raise for mistakes that can be seen in the request alone."""
    if request.verb == "implement":
        if len(request.options.runtimes) != 1:
            raise UserError(
                "implement takes exactly one --runtime, not "
                f"{len(request.options.runtimes)}",
                hint="`bridgehead runtimes` lists those available",
            )
        if not request.task.strip():
            raise UserError(f"{request.verb} needs a task: give --task TEXT")
    task_type = request.task_type or request.meaning.task_type
    if request.requirements and task_type is not TaskType.AUDIT and request.verb != ASK:
        raise UserError(
            f"--requirements works with audit only, not with {request.verb}"
        )
    is_shared = request.options.protocol is CouncilProtocol.SHARED
    if is_shared and request.verb != ASK and not _may_share(request, task_type):
        raise UserError(
            f"--protocol shared does not work with {request.verb}",
            hint="review, audit and analyze can share calls",
        )
    # Files, branches and folders are called after the id, so it must not mean another
    # folder.
    if request.review_id is not None and not _ID.fullmatch(request.review_id):
        raise UserError(
            f"--id {request.review_id!r} is not a valid council ID",
            hint=(
                "letters, digits, . _ - (at most 128), beginning with a letter or "
                "digit, no two dots in a row"
            ),
        )
    if request.options.fallback and request.options.runtimes not in ((), ("claude",)):
        raise UserError("--fallback uses claude alone; omit --runtime")


def _may_share(request: CouncilRequest, task_type: TaskType) -> bool:
    verb = request.meaning
    return verb.route != DEBATE_PROTOCOL and is_judged(task_type, verb.mode)


class NoFindings(UserError):
    """A file of findings that holds something else."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(
            f"{name} is not a list of findings: {problem}",
            hint='a JSON list of objects with "title", and where known "severity '
            'description evidence action domain"; '
            "a bridgehead report also works",
        )


def read_seed_findings(text: str, name: str) -> tuple[Output, ...]:
    """Return the findings in `text`, in our words and with ids of their own."""
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NoFindings(name, str(error)) from error
    return tuple(
        _output(entry, number, name)
        for number, entry in enumerate(_entries(document, name), start=1)
    )


def _entries(document: Any, name: str) -> Iterator[Any]:
    if isinstance(document, list):
        yield from document
        return
    lists = []
    if isinstance(document, dict):
        lists = [document[key] for key in _LISTS if key in document]
    if not lists or not all(isinstance(entries, list) for entries in lists):
        raise NoFindings(name, "neither a list nor a report")
    for entries in lists:
        yield from entries


def _output(entry: Any, number: int, name: str) -> Output:
    title = entry.get("title") if isinstance(entry, dict) else None
    if not isinstance(title, str) or not title.strip():
        raise NoFindings(name, f"entry {number} has no title")
    severity = entry.get("severity")
    if severity is not None and parse_severity(severity) is None:
        raise NoFindings(name, f"entry {number} has the severity {severity!r}")
    return (
        Intake(_ANY_TASK)
        .draft(entry)
        .output(numbered_id(PREFIX, number), domain=_domain(entry), agent=CALLER)
    )


def _domain(entry: Mapping[str, Any]) -> str:
    listed = entry.get("domains")
    first = listed[0] if isinstance(listed, list) and listed else entry.get("domain")
    return first if isinstance(first, str) and first.strip() else CROSS_DOMAIN
