"""Structured answers from a model's prose (council §10): never raises, never invents. flows/engine/answers.py has
the rules of flows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, Generic, TypeAlias, TypeVar

from bridgehead.contract.task import normalise_domain
from bridgehead.council.findings.tree import ReadingStopped, look_up
from bridgehead.council.replies.declined import declines
from bridgehead.council.replies.json_repair import (
    TOO_DEEP,
    Read,
    balanced_end,
    read_json,
    tokens,
)
from bridgehead.council.reporting.seat_report import excerpt

# Colour and cursor sequences that a terminal program may leave in its output.
_TERMINAL_CODES: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])"
)
_MOST_EVENT_LINES: Final = 200_000
# An object with one of these lists is a model's answer, whatever else it says.
_ANSWER_LISTS: Final = [
    "outputs",
    "findings",
    "sections",
    "rulings",
    "challenges",
    "responses",
    "challenge_notes",
    "messages",
    "positions",
]
PARSE_FAILURE: Final = "parse_failure"
STOPPED: Final = "stopped"
WRAPPERS: Final = ("result", "response", "data", "output")

_ITEM_WORDS: Final = ("type", "severity")
_DEBATE_WORDS: Final = (
    *_ITEM_WORDS,
    "ruling",
    "mechanism",
    "status",
    "outcome",
    "kind",
    "position",
)

_FENCED: Final = re.compile(r"^```[^\n]*\n(.*?)(?:^```|\Z)", re.DOTALL | re.MULTILINE)
_OPENING: Final = re.compile(r"[{\[]")
# Looking again behind a bracket that is never closed costs a scan each; prose has few of those.
_MOST_FALSE_STARTS: Final = 16
# No reply has so many blocks or spans.
_MOST_CANDIDATES: Final = 5_000
LONGEST_SEARCH: Final = 65_536
# The beginning of JSON proper, as opposed to a bracket in prose.
_CUT_OFF: Final = re.compile(r'[{\[]\s*(?:"|[{\[]\s*")')


@dataclass(frozen=True, slots=True)
class Opened:
    """The text inside, and the program's own word that it failed."""

    text: str
    error: str | None = None


def open_envelope(printed: str) -> Opened:
    """The model's text; `error` is set when the program says that the call failed."""
    plain = _TERMINAL_CODES.sub("", printed)
    document = object_from(plain)
    opened = _open_document(document) if document is not None else None
    return opened or _open_events(plain) or Opened(plain)


def _open_document(document: Mapping[str, Any]) -> Opened | None:
    said = (document.get("result"), document.get("response"))  # by claude, by gemini
    text = next((one for one in said if isinstance(one, str)), None)
    if document.get("is_error") is True:  # claude
        return Opened(text or "", error=text or "the runtime reported an error")
    if _is_answer(document):
        return None
    if text is not None:
        return Opened(text, error=_error_text(document.get("error")))
    if isinstance(document.get("parts"), list):  # opencode over HTTP
        info = document.get("info")
        return Opened(
            _joined_text(document["parts"]),
            _error_text(info.get("error")) if isinstance(info, dict) else None,
        )
    if document.get("error"):
        return Opened("", error=_error_text(document["error"]))
    return None


def _is_answer(document: Mapping[str, Any]) -> bool:
    """Whether the object is what a model wrote, not what its program wrapped around it."""
    holds_list = any(isinstance(document.get(name), list) for name in _ANSWER_LISTS)
    return holds_list or ("title" in document and "description" in document)


def _open_events(printed: str) -> Opened | None:
    """The JSON lines of codex and opencode; other lines between them are noise."""
    # Only a line feed ends a line: U+2028 and its like may stand inside a JSON string.
    lines = printed.split("\n")[:_MOST_EVENT_LINES]
    events = [
        event
        for event in map(object_from, lines)
        if event is not None and isinstance(event.get("type"), str)
    ]
    # A top-level `error` of codex is a retry notice; only `turn.failed` is its last word.
    failure = next(
        (
            _error_text(event.get("error"))
            for event in events
            if event["type"] == "turn.failed"
        ),
        None,
    )
    messages = [event["item"].get("text") for event in events if _is_message(event)]
    if failure is not None or (messages and isinstance(messages[-1], str)):
        return Opened(messages[-1] if messages else "", failure)
    parts = [
        event["part"]
        for event in events
        if event["type"] == "text" and isinstance(event.get("part"), dict)
    ]
    error = next(
        (
            _error_text(event.get("error") or event)
            for event in events
            if event["type"] == "error"
        ),
        None,
    )
    return Opened(_joined_text(parts), error) if parts or error is not None else None


def _is_message(event: Mapping[str, Any]) -> bool:
    item = event.get("item")
    return (
        event["type"] == "item.completed"
        and isinstance(item, dict)
        and item.get("type") == "agent_message"
    )


def _joined_text(parts: list[Any]) -> str:
    texts = [
        part.get("text")
        for part in parts
        if isinstance(part, dict) and part.get("type", "text") == "text"
    ]
    return "".join(text for text in texts if isinstance(text, str))


def _error_text(error: object) -> str | None:
    if not error:
        return None
    if isinstance(error, dict):
        inner = error.get("message") or error.get("data") or error
        return inner if isinstance(inner, str) else json.dumps(inner)[:500]
    return str(error)[:500]


def object_from(text: str) -> dict[str, Any] | None:
    """The JSON object that `text` is, or None."""
    stripped = text.strip().removeprefix("\ufeff")
    if not stripped.startswith("{"):
        return None
    look_up()
    try:
        document = json.loads(stripped, strict=False)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """What a reader saw in one candidate, perhaps cut off; `entries` valid ones decide between candidates."""

    value: T
    entries: int
    partial: bool = False
    silent: bool = False
    """Whether one of several lists is empty while others are not."""


Reader: TypeAlias = Callable[[Any], "Found[T] | None"]


@dataclass(frozen=True, slots=True)
class Answered(Generic[T]):
    """A reply that could be read; `partial` when it was cut off and incomplete entries were left out."""

    value: T
    partial: bool = False
    declined: str | None = None
    """The words with which the model lists nothing because it did not look."""


@dataclass(frozen=True, slots=True)
class NotAnswered:
    """Why a reply is of no use: `parse_failure`, `stopped`, or the runtime's own word that it failed."""

    reason: str


def read_reply(printed: str, read: Reader[T]) -> Answered[T] | NotAnswered:
    """The best candidate in a reply: most valid entries, the last one on ties."""
    try:
        opened = open_envelope(printed)
        if opened.error is not None:
            return NotAnswered(f"cli_error: {excerpt(opened.error)}")
        for group in (_whole, _fenced, _spans):
            candidates = islice(group(opened.text, read), _MOST_CANDIDATES)
            answers = [answer for answer in candidates if answer is not None]
            if answers:
                _, best = max(
                    enumerate(answers), key=lambda pair: (pair[1].entries, pair[0])
                )
                declined = None
                if _says_it_did_not_look(opened.text, best):
                    declined = excerpt(opened.text)
                return Answered(best.value, best.partial, declined)
        return NotAnswered(PARSE_FAILURE)
    except ReadingStopped:
        return NotAnswered(STOPPED)


def _says_it_did_not_look(text: str, found: Found[Any]) -> bool:
    if not found.entries:
        return declines(text)
    # Findings may quote such a sentence, so only what stands around the JSON is read.
    before, _, rest = text.partition("{")
    after = rest.rpartition("}")[2]
    return found.silent and declines(f"{before}\n{after}")


@dataclass(frozen=True, slots=True)
class Items:
    """Entries of the common schema, each with its place in the reply's list, and the object around them."""

    document: Mapping[str, Any]
    entries: tuple[tuple[int, Mapping[str, Any]], ...]


def read_items(value: Any) -> Found[Items] | None:
    """A reader for the common schema. An explicit empty list is an answer, a list of nothing valid is none."""
    document, entries = _locate_items(value)
    if entries is None:
        return None
    valid = tuple(
        (place, entry) for place, entry in enumerate(entries) if is_item(entry)
    )
    if entries and not valid:
        return None
    return Found(Items(document, valid), len(valid))


@dataclass(frozen=True, slots=True)
class Sections:
    """What each role says of those that answered in a shared call, by domain."""

    by_domain: Mapping[str, Items]
    refused: frozenset[str] = frozenset()
    """Domains whose section is empty and says that nobody looked."""


def read_sections(
    domains: Sequence[str], *, alone: str | None = None
) -> Reader[Sections]:
    """Return a reader for one list of items per domain.

    A section that is missing, or that holds nothing valid, is left out. An answer
    without a section is none; a plain list of items is that of `alone`, where given.
    """

    def read(value: Any) -> Found[Sections] | None:
        listed = next(
            (
                document["sections"]
                for document in _unwrapped(value)
                if isinstance(document.get("sections"), list)
            ),
            None,
        )
        if listed is None:
            return _only_section(value, alone)
        sections = [section for section in listed if isinstance(section, dict)]
        return _found_sections(sections, domains)

    return read


def _only_section(value: Any, domain: str | None) -> Found[Sections] | None:
    found = read_items(value)
    if domain is None or found is None:
        return None
    return Found(Sections({domain: found.value}), found.entries)


def _found_sections(
    sections: Sequence[Mapping[str, Any]], domains: Sequence[str]
) -> Found[Sections] | None:
    read: dict[str, Items] = {}
    refused: set[str] = set()
    for section in sections:
        domain = normalise_domain(str(section.get("domain") or ""))
        found = read_items(section)
        # A second section of the same name would hide the first.
        if found is None or domain not in domains or domain in read:
            continue
        read[domain] = found.value
        if not found.entries and declines(_words_of(section)):
            refused.add(domain)
    if not read:
        return None
    counts = [len(items.entries) for items in read.values()]
    return Found(Sections(read, frozenset(refused)), sum(counts), silent=0 in counts)


def _words_of(section: Mapping[str, Any]) -> str:
    """Return what a section says besides its lists."""
    return "\n".join(value for value in section.values() if isinstance(value, str))


def read_lists(*names: str, optional: Sequence[str] = ()) -> Reader[dict[str, Any]]:
    """A reader for objects that hold at least one of the named lists of objects; all of them are lists afterwards.

    As with items, empty lists are an answer and lists of nothing valid are none.
    """

    def read(value: Any) -> Found[dict[str, Any]] | None:
        for document in _unwrapped(value):
            if any(isinstance(document.get(name), list) for name in names):
                lists = {
                    name: _objects(document.get(name)) for name in (*names, *optional)
                }
                valid = sum(map(len, lists.values()))
                if not valid and any(document.get(name) for name in names):
                    return None
                return Found({**document, **lists}, valid)
        return None

    return read


def _accept(read_value: Read | None, read: Reader[T]) -> Found[T] | None:
    if read_value is None or (read_value.partial and _is_bare_item(read_value.value)):
        return None  # of an item that was cut off nobody knows what it would have said
    found = read(read_value.value)
    return None if found is None else replace(found, partial=read_value.partial)


def _whole(text: str, read: Reader[T]) -> Iterator[Found[T] | None]:
    yield _accept(read_json(text), read)


def _fenced(text: str, read: Reader[T]) -> Iterator[Found[T] | None]:
    # Backticks inside a line close nothing; the language tag does not matter.
    for block in tokens(_FENCED, text):
        look_up()
        yield _accept(read_json(block[1]), read)


def _spans(text: str, read: Reader[T]) -> Iterator[Found[T] | None]:
    """Outermost balanced spans, and an unbalanced one that reaches to the end."""
    position = 0
    false_starts = 0
    last_word = _last_word(text)
    while false_starts <= _MOST_FALSE_STARTS and (
        opening := _OPENING.search(text, position)
    ):
        look_up()
        start = opening.start()
        end = balanced_end(text, start)
        if end == TOO_DEEP:
            return
        closed = end is not None and end > 0
        span = text[start:end] if closed else text[start:]
        accepted = None if end == -1 else _accept(read_json(span), read)
        # `[]` in the middle of prose is about code; at the end of a reply it is an answer.
        is_empty_list = span.startswith("[") and not span.strip("[] \n\t")
        in_prose = closed and end is not None and end <= last_word
        yield None if in_prose and is_empty_list else accepted
        if closed and end is not None:
            position = end
        elif accepted is not None or (end is None and _CUT_OFF.match(span)):
            return  # what stands inside a reply that was cut off is not an answer of its own
        else:
            position = start + 1
            false_starts = false_starts + 1


def _last_word(text: str) -> int:
    """Where the last character of a word stands, -1 for none; looked up once, or each bracket would cost a search."""
    for end in range(len(text), 0, -LONGEST_SEARCH):
        look_up()
        start = max(0, end - LONGEST_SEARCH)
        for place in range(end - 1, start - 1, -1):
            if text[place].isalnum() or text[place] == "_":
                return place
    return -1


def _locate_items(value: Any) -> tuple[Mapping[str, Any], list[Any] | None]:
    if isinstance(value, list):
        return {}, value
    for document in _unwrapped(value):
        for name in ("outputs", "findings"):
            if isinstance(document.get(name), list):
                return document, document[name]
        if "title" in document and "description" in document:
            return {}, [document]
    for name in WRAPPERS:
        if isinstance(value, dict) and isinstance(value.get(name), list):
            return value, value[name]
    return {}, None


def _is_bare_item(value: Any) -> bool:
    """Whether a value is one item by itself instead of a list of them."""
    return any(
        "title" in document
        and not any(
            isinstance(document.get(name), list) for name in ("outputs", "findings")
        )
        for document in _unwrapped(value)
    )


def _unwrapped(value: Any) -> Iterator[Mapping[str, Any]]:
    """The object itself, then what one level of wrapping holds."""
    if not isinstance(value, dict):
        return
    yield value
    yield from (value[name] for name in WRAPPERS if isinstance(value.get(name), dict))


def is_item(entry: Any) -> bool:
    """Whether an entry can become an output: an object with a title that is not the prompt's own template."""
    if not isinstance(entry, dict):
        return False
    title = entry.get("title")
    return (
        isinstance(title, str)
        and bool(title.strip())
        and not _is_echo(entry, _ITEM_WORDS)
    )


def _is_echo(entry: Mapping[str, Any], words: Sequence[str]) -> bool:
    """Whether an entry is the prompt's own template: a choice is still open where a word should stand."""
    return any("|" in str(entry.get(name) or "") for name in words)


def _objects(value: Any) -> list[dict[str, Any]]:
    entries = value if isinstance(value, list) else []
    return [
        entry
        for entry in entries
        if isinstance(entry, dict) and not _is_echo(entry, _DEBATE_WORDS)
    ]
