"""An ask: who is asked what, what counts as an answer, and how a flow function is left to wait or to stop."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from bridgehead.flows.calls import Attempt, Call, Failed
from bridgehead.flows.engine.settlement import Action, Judge, Rules
from bridgehead.flows.errors import FlowMistake
from bridgehead.flows.files.documents import Contract, validate
from bridgehead.flows.words import DEFAULT_TIMEOUT_SECONDS, NOTHING, DocumentKind

Fallback = Callable[[Failed], Any]


class Ask(NamedTuple):
    """One question to an agent. With `result` or `schema` the answer must be JSON of that shape."""

    name: str
    agent: str
    prompt: str
    result: Any = None
    schema: Mapping[str, Any] | None = None
    timeout: int = DEFAULT_TIMEOUT_SECONDS
    fallback: Fallback | None = None
    judge: Judge | None = None
    """Judges the answer's text itself, for answers with thresholds of their own."""
    context: Mapping[str, Any] = NOTHING
    max_retries: int | None = None
    expires: float | None = None
    """Seconds after which the ask ends without an answer; without it, it waits for one as long as it takes."""

    @property
    def verdict_on(self) -> Judge:
        if self.judge is not None:
            return self.judge
        from bridgehead.flows.engine.answers import judge_for

        return judge_for(self.result, self.schema)

    def rules(self, rules: Rules) -> Rules:
        """The run's rules with this ask's own number of retries."""
        return rules if self.max_retries is None else rules._replace(max_retries=self.max_retries)

    @property
    def full_prompt(self) -> str:
        """The prompt as it is sent: with the schema an answer has to obey, if there is one."""
        if self.schema is None:
            return self.prompt
        return (
            f"{self.prompt}\n\nAnswer with one JSON document and nothing else. It must obey this JSON Schema:\n"
            f"{json.dumps(self.schema, indent=2, sort_keys=True)}\n"
        )

    @property
    def identity(self) -> list[Any]:
        """What makes this the same question as before the pause."""
        return [self.agent, self.full_prompt]

    def is_put_by(self, call: Call) -> bool:
        """Whether the request of an outstanding call asks this."""
        asked = call.current.document
        return self.identity == [asked["agent_name"], asked["prompt"]]

    def phase_name(self, contract: Contract) -> str:
        if contract is Contract.SEED:
            return self.name
        return re.sub(r"[^a-z0-9_]", "_", self.name.lower())[:64]


def refuse_unwritable(document: Mapping[str, Any], contract: Contract) -> None:
    """A request that its own schema refuses is a mistake in the flow, found before anything is written."""
    problems = validate(dict(document), DocumentKind.REQUEST, contract=contract)
    if problems:
        raise FlowMistake(
            f"an ask of {document['agent_name']!r} cannot be sent: {'; '.join(map(str, problems))}"
        )


def refuse_senseless_expiry(ask: Ask) -> None:
    if ask.expires is not None and not ask.expires > 0:
        raise FlowMistake(f"ask {ask.name!r} expires after {ask.expires} s; it must be more than 0")


class OpenCall:
    """A call a branch is waiting for, as it stands after this pass."""

    def __init__(self, call: Call, action: Action | None) -> None:
        self.call = call
        self.action = action
        """What this pass decided about it; None for one that is new."""


class Blocked(BaseException):
    """The flow cannot go on without answers."""

    def __init__(self, calls: Sequence[OpenCall]) -> None:
        super().__init__(f"waiting for {len(calls)} answers")
        self.calls = tuple(calls)


class Stopped(BaseException):
    """An answer ended the flow: it was cancelled, or there is no such agent."""

    def __init__(self, failure: Failed, agent: str, attempts: Sequence[Attempt]) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.agent = agent
        self.attempts = tuple(attempts)
