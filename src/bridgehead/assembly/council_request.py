"""What a user asks of a council, as plain data: every surface builds the same request (council §24)."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from bridgehead.contract.task import Requirement
from bridgehead.contract.words import Mode, TaskType
from bridgehead.council.plan import CouncilOptions
from bridgehead.council.routing import DEBATE_PROTOCOL, DEEP_COUNCIL
from bridgehead.council.scope import ScopeRequest
from bridgehead.errors import UserError


class Verb(msgspec.Struct, frozen=True):
    """A command word: the task it stands for, and what it does in one sentence."""

    task_type: TaskType
    mode: Mode | None
    sentence: str
    route: str | None = DEEP_COUNCIL
    takes_words: bool = False
    """Whether a scope entry may be words that name no path."""


VERBS: Final[dict[str, Verb]] = {
    "review": Verb(TaskType.REVIEW, Mode.REVIEW, "Let several agents look for problems, argue, and report."),
    "audit": Verb(TaskType.AUDIT, Mode.AUDIT, "Check against requirements; unmet ones are gaps."),
    "analyze": Verb(TaskType.ANALYSIS, Mode.SYNTHESIS, "Understand something from several points of view."),
    "plan": Verb(TaskType.PLANNING, None, "Plan a change; the result is a list of steps.", takes_words=True),
    "implement": Verb(
        TaskType.IMPLEMENTATION, None, "Let one agent make a change on a branch of its own.", takes_words=True
    ),
    "research": Verb(
        TaskType.RESEARCH, Mode.RESEARCH, "Gather what is known, with contradictions shown.", takes_words=True
    ),
    "brainstorm": Verb(
        TaskType.PLANNING, Mode.BRAINSTORM, "Collect proposals and what they rest on.", takes_words=True
    ),
    "design": Verb(TaskType.PLANNING, Mode.DESIGN, "Weigh designs and recommend one.", takes_words=True),
    "synthesize": Verb(TaskType.ANALYSIS, Mode.SYNTHESIS, "Bring several views together.", takes_words=True),
    "debate": Verb(
        TaskType.REVIEW,
        Mode.REVIEW,
        "One runtime argues with itself in five phases.",
        route=DEBATE_PROTOCOL,
    ),
    "ask": Verb(
        TaskType.REVIEW, Mode.REVIEW, "Say what you want; the words decide who looks and how.", route=None
    ),
}
ASK: Final = "ask"
_ID: Final = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class CouncilRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One council as it was asked for: what it is about, and how it is to be held."""

    verb: str = "review"
    task_type: TaskType | None = None
    scope: ScopeRequest = ScopeRequest()
    task: str = ""
    context_summary: str = ""
    domains: tuple[str, ...] = ()
    requirements: tuple[Requirement, ...] = ()
    review_id: str | None = None
    options: CouncilOptions = CouncilOptions()

    @property
    def meaning(self) -> Verb:
        return VERBS[self.verb]

    @property
    def names_a_change(self) -> bool:
        """Whether a change is looked at rather than files; its own dismissals are then watched (council §24)."""
        return bool(self.scope.kinds) and self.scope.kinds != ["paths"]


class OneRuntimeNeeded(UserError):
    """`implement` without exactly one `--runtime`."""

    def __init__(self, given: int) -> None:
        super().__init__(
            f"implement takes exactly one --runtime, not {given}",
            hint="bridgehead runtimes shows who could do it",
        )


class TaskNeeded(UserError):
    """A command that makes something was not told what."""

    def __init__(self, verb: str) -> None:
        super().__init__(f"{verb} needs to know what: give --task TEXT")


def refuse_contradictions(request: CouncilRequest) -> None:
    """Mistakes that can be seen in the request alone."""
    if request.verb == "implement":
        if len(request.options.runtimes) != 1:
            raise OneRuntimeNeeded(len(request.options.runtimes))
        if not request.task.strip():
            raise TaskNeeded(request.verb)
    task_type = request.task_type or request.meaning.task_type
    if request.requirements and task_type is not TaskType.AUDIT and request.verb != ASK:
        raise UserError(f"--requirements belongs to an audit, not to {request.verb}")
    # Files, branches and folders are called after the id, so it must not mean another folder.
    if request.review_id is not None and not _ID.fullmatch(request.review_id):
        raise UserError(
            f"--id {request.review_id!r} cannot name a council",
            hint="letters, digits, . _ - (at most 128), beginning with a letter or digit, no two dots in a row",
        )
    if request.options.fallback and request.options.runtimes not in ((), ("claude",)):
        raise UserError("--fallback seats claude alone; leave --runtime out")
