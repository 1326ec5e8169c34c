"""Judge the text of a successful answer: as it is, as JSON of a schema, as a typed value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bridgehead.flows.answer_text import json_candidates
from bridgehead.flows.codec import Unfit, from_plain
from bridgehead.flows.errors import FlowMistake
from bridgehead.flows.outcomes import Accepted, Failed, Verdict
from bridgehead.flows.settlement import Judge
from bridgehead.flows.words import ErrorType

Fit = Callable[[Any], Accepted]
"""Makes a value of one JSON candidate; Unfit when the candidate is not what was asked for."""


def judge_text(text: str) -> Verdict:
    """Any text will do."""
    return Accepted(text)


def judge_json(fit: Fit) -> Judge:
    """The first JSON value of the answer that fits wins (flows §12)."""

    def judge(text: str) -> Verdict:
        complaint: str | None = None
        for candidate in json_candidates(text):
            try:
                return fit(candidate)
            except Unfit as error:
                complaint = complaint or str(error)
        if complaint is None:
            return Failed(ErrorType.PARSE_ERROR.value, "the answer holds no JSON")
        return Failed(ErrorType.VALIDATION_ERROR.value, complaint)

    return judge


def judge_for(result: Any, schema: Mapping[str, Any] | None) -> Judge:
    """The judge an ask gets from its `result` type and JSON schema; the plain text when it has neither."""
    if schema is None and (result is None or result is str):
        return judge_text
    obeys = _schema_check(schema) if schema is not None else None

    def fit(candidate: Any) -> Accepted:
        if obeys is not None:
            obeys(candidate)
        return Accepted(from_plain(candidate, Any if result is None else result))

    return judge_json(fit)


def _schema_check(schema: Mapping[str, Any]) -> Callable[[Any], None]:
    # Imported only for asks that bring a schema: the library is larger than the engine.
    import jsonschema_rs

    try:
        validator = jsonschema_rs.validator_for(dict(schema))
    except (ValueError, jsonschema_rs.ValidationError) as error:
        raise FlowMistake(f"the schema of an ask is not a JSON Schema: {error}") from error

    def obeys(candidate: Any) -> None:
        for problem in validator.iter_errors(candidate):
            raise Unfit(problem.message)

    return obeys
