"""Describe an ask: who is asked what, and what counts as an answer.

Also defines the exceptions that leave a flow function to wait or to stop.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from bridgehead.flows.calls import Attempt, Call, Failed
from bridgehead.flows.engine.settlement import Action, Judge, Rules
from bridgehead.flows.errors import FlowMistake
from bridgehead.flows.files.documents import Contract, validate
from bridgehead.flows.words import DEFAULT_TIMEOUT_SECONDS, NOTHING, DocumentKind

SCHEMA_INTRO: Final = (
    "\n\nAnswer with one JSON document and nothing else. It must obey this JSON "
    "Schema:\n"
)

Fallback = Callable[[Failed], Any]


class Ask(NamedTuple):
    """One question to an agent.

    With `result` or `schema` the answer must be JSON of that shape.
    """

    name: str
    agent: str
    prompt: str
    result: Any = None
    schema: Mapping[str, Any] | None = None
    timeout: int = DEFAULT_TIMEOUT_SECONDS
    fallback: Fallback | None = None
    judge: Judge | None = None
    """Judges the text of the answer instead of checking its type or schema."""
    context: Mapping[str, Any] = NOTHING
    max_retries: int | None = None
    expires: float | None = None
    """Seconds after which the ask ends without an answer; None waits forever."""

    @property
    def verdict_on(self) -> Judge:
        """Return the judge of this ask's answers."""
        if self.judge is not None:
            return self.judge
        from bridgehead.flows.engine.answers import judge_for

        return judge_for(self.result, self.schema)

    def rules(self, rules: Rules) -> Rules:
        """Return the run's rules with this ask's own number of retries."""
        if self.max_retries is None:
            return rules
        return rules._replace(max_retries=self.max_retries)

    @property
    def answer_schema(self) -> Mapping[str, Any] | None:
        """Return the schema of answers: the one given, or that of the result type."""
        if self.schema is not None:
            return self.schema
        if self.judge is not None or self.result is None or self.result is str:
            return None
        from bridgehead.flows.values.schemas import schema_of

        return schema_of(self.result)

    @property
    def full_prompt(self) -> str:
        """Return the prompt as sent, including the schema of the answer if any."""
        return _with_schema(self.prompt, self.answer_schema)

    @property
    def identity(self) -> list[Any]:
        """Return what must not change between a pause and its resume.

        The result type may change; the agent, prompt and schema may not.
        """
        return [self.agent, _with_schema(self.prompt, self.schema)]

    def is_asked_by(self, call: Call) -> bool:
        """Return whether the request of an outstanding call asks this question."""
        request = call.current.document
        prompt = str(request["prompt"])
        may_have_other_schema = self.schema is None and self.result is not None
        if may_have_other_schema and prompt.startswith(self.prompt + SCHEMA_INTRO):
            prompt = self.prompt
        return self.identity == [request["agent_name"], prompt]

    def phase_name(self, contract: Contract) -> str:
        if contract is Contract.SEED:
            return self.name
        return re.sub(r"[^a-z0-9_]", "_", self.name.lower())[:64]


def _with_schema(prompt: str, schema: Mapping[str, Any] | None) -> str:
    if schema is None:
        return prompt
    return f"{prompt}{SCHEMA_INTRO}{json.dumps(schema, indent=2, sort_keys=True)}\n"


def refuse_unwritable(document: Mapping[str, Any], contract: Contract) -> None:
    """Raise FlowMistake if a request does not obey its own schema."""
    problems = validate(dict(document), DocumentKind.REQUEST, contract=contract)
    if problems:
        raise FlowMistake(
            f"an ask of {document['agent_name']!r} cannot be sent: "
            f"{'; '.join(map(str, problems))}"
        )


class OpenCall:
    """A call that a branch is waiting for, in its state after this pass."""

    def __init__(self, call: Call, action: Action | None) -> None:
        self.call = call
        self.action = action
        """What this pass decided about the call; None if the call is new."""


class Blocked(BaseException):
    """The flow cannot go on without answers."""

    def __init__(self, calls: Sequence[OpenCall]) -> None:
        super().__init__(f"waiting for {len(calls)} answers")
        self.calls = tuple(calls)


class Stopped(BaseException):
    """The flow was cancelled by an answer, or the agent it asked does not exist."""

    def __init__(
        self, failure: Failed, agent: str, attempts: Sequence[Attempt]
    ) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.agent = agent
        self.attempts = tuple(attempts)
