"""Judge an answer: find its JSON (flows §12), check it, make it a typed value.

council/replies/reply.py reads JSON in prose too, by the rules of council §10.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from bridgehead.flows.calls import Accepted, Failed, Verdict
from bridgehead.flows.engine.settlement import Judge
from bridgehead.flows.errors import FlowMistake
from bridgehead.flows.files.json_bytes import Unreadable, parse_json, strict_hooks
from bridgehead.flows.values.codec import Unfit, from_plain
from bridgehead.flows.words import ErrorType

# A text full of brackets must not take quadratic time, so failed attempts to decode
# share a budget of steps per character. A decoder that fails also counts the lines up
# to that point for its message, which is faster than decoding but not free.
STEPS_PER_CHARACTER: Final = 64
LEAST_BUDGET: Final = 1_000_000
LINES_COUNTED_PER_STEP: Final = 256
RECURSION_COST: Final = 5_000

_FENCE_OPEN: Final = re.compile(r"[ \t]*(`{3,})[ \t]*[^\s`]*[ \t]*")
_FENCE_CLOSE: Final = re.compile(r"[ \t]*(`{3,})[ \t]*")
# Unlike `splitlines`, does not break at U+2028, which a JSON string may contain.
_LINE_END: Final = re.compile(r"\r\n?|\n")
# Where an object or an array can start. Most braces in prose do not match.
_START: Final = re.compile(r"""\{(?=[ \t\r\n]*["}])|\[(?=[ \t\r\n]*[\[\]{"0-9tfn-])""")
_NOTHING: Final = object()

Fit = Callable[[Any], Accepted]
"""Turns a JSON candidate into a value; raises Unfit if it is not what was asked for."""


def json_candidates(text: str) -> Iterator[Any]:
    """Yield the JSON values found in `text`, best guess first."""
    value = _parsed(text.strip())
    if value is not _NOTHING:
        yield value
        return
    for block in _fenced_blocks(text):
        value = _parsed(block)
        if value is not _NOTHING:
            yield value
    yield from _values_in_prose(text)


def _parsed(text: str) -> Any:
    try:
        return parse_json(text)
    except Unreadable:
        return _NOTHING


def _fenced_blocks(text: str) -> Iterator[str]:
    """Yield the content of each block fenced by three or more backticks.

    The closing fence has at least as many backticks as the opening one.
    """
    fence = 0
    inside: list[str] = []
    for line in _LINE_END.split(text):
        if not fence:
            opening = _FENCE_OPEN.fullmatch(line)
            fence = len(opening[1]) if opening else 0
            inside = []
            continue
        closing = _FENCE_CLOSE.fullmatch(line)
        if closing and len(closing[1]) >= fence:
            yield "\n".join(inside)
            fence = 0
        else:
            inside.append(line)


def _values_in_prose(text: str) -> Iterator[Any]:
    decoder = json.JSONDecoder(**strict_hooks())
    position = 0
    budget = LEAST_BUDGET + STEPS_PER_CHARACTER * len(text)
    while budget > 0 and (found := _START.search(text, position)):
        start = found.start()
        try:
            value, position = decoder.raw_decode(text, start)
        except RecursionError:
            position = start + 1
            budget -= RECURSION_COST
        except ValueError as error:
            failed_at = getattr(error, "pos", start)
            position = start + 1
            budget -= 1 + failed_at - start + failed_at // LINES_COUNTED_PER_STEP
        else:
            yield value


def judge_text(text: str) -> Verdict:
    """Accept any text."""
    return Accepted(text)


def judge_json(fit: Fit) -> Judge:
    """Return a judge that accepts the first JSON value `fit` accepts (flows §12)."""

    def judge(text: str) -> Verdict:
        complaint: str | None = None
        for candidate in json_candidates(text):
            try:
                return fit(candidate)
            except Unfit as error:
                complaint = complaint or str(error)
        if complaint is None:
            try:
                return fit(text.strip())  # a choice may come without quotes
            except Unfit:
                return Failed(
                    ErrorType.PARSE_ERROR.value, "the answer contains no JSON"
                )
        return Failed(ErrorType.VALIDATION_ERROR.value, complaint)

    return judge


def judge_for(result: Any, schema: Mapping[str, Any] | None) -> Judge:
    """Return the judge for an ask with this result type and JSON schema.

    Without either, any text is accepted.
    """
    if schema is None and (result is None or result is str):
        return judge_text
    check_schema = _schema_check(schema) if schema is not None else None

    def fit(candidate: Any) -> Accepted:
        if check_schema is not None:
            check_schema(candidate)
        return Accepted(from_plain(candidate, Any if result is None else result))

    return judge_json(fit)


def _schema_check(schema: Mapping[str, Any]) -> Callable[[Any], None]:
    """Return a function that raises Unfit for a value the schema refuses."""
    # Imported only when an ask has a schema: the library is larger than the engine.
    import jsonschema_rs

    try:
        validator = jsonschema_rs.validator_for(dict(schema))
    except (ValueError, jsonschema_rs.ValidationError) as error:
        raise FlowMistake(
            f"the schema of an ask is not a JSON Schema: {error}"
        ) from error

    def check(candidate: Any) -> None:
        for problem in validator.iter_errors(candidate):
            raise Unfit(problem.message)

    return check
