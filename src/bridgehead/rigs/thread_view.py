"""What `thread` prints: the same block for every envelope, or one object (rigs §7, §8, §11)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from bridgehead.rigs.result_format import LINE_PREFIX, stamped
from bridgehead.rigs.terminal import PLAIN, Style

if TYPE_CHECKING:
    from bridgehead.rigs.causality import Divergence
    from bridgehead.rigs.verification_kinds import Verification
    from bridgehead.rigs.yaml_core import Value

SEPARATOR = "=" * 27
UNKNOWN_TYPE = "(unknown)"  # the reference's word for a type that is missing or no text
_SHOWN_FIELDS = ("from", "to", "date", "type", "status", "body_hash")


class ShownEnvelope(NamedTuple):
    """An envelope as a reader sees it."""

    filename: str
    frontmatter: Mapping[str, Value]
    body: str
    commit_sha: str | None
    verification: Verification

    def json_object(self) -> dict[str, object]:
        return {
            "frontmatter": dict(self.frontmatter),
            "body": self.body,
            "filename": self.filename,
            "commit_sha": self.commit_sha,
            "verification": self.verification.json_object(),
        }


def thread_blocks(
    thread_id: str, envelopes: Iterable[ShownEnvelope], total: int, *, style: Style = PLAIN
) -> Iterator[str]:
    """Yield one block of text per envelope, given oldest first; they can be printed as they come."""
    show = style.text if style.escape_controls else str  # of ten thousand, most are piped
    for number, (filename, frontmatter, body, _, _) in enumerate(envelopes, 1):
        kind = style.message_type(_text("type", frontmatter.get("type")))
        file = style.value(filename)
        yield (
            f"{LINE_PREFIX}thread {thread_id} envelope={number} of {total} type={kind} file={file}\n"
            f"---\n{_shown_fields(frontmatter, show)}---\n{show(body)}{SEPARATOR}\n"
        )


def thread_object(
    thread_id: str, envelopes: Iterable[ShownEnvelope], divergences: Sequence[Divergence]
) -> dict[str, object]:
    """Return the object of `thread --json`."""
    items = [envelope.json_object() for envelope in envelopes]
    return stamped(
        "thread",
        thread_id=thread_id,
        envelope_count=len(items),
        envelopes=items,
        divergences=[divergence.json_object() for divergence in divergences],
    )


def _shown_fields(frontmatter: Mapping[str, Value], show: Callable[[str], str]) -> str:
    return "".join(
        [f"{name}: {show(text)}\n" for name in _SHOWN_FIELDS if (text := _text(name, frontmatter.get(name)))]
    )


def _text(name: str, value: Value) -> str:
    if isinstance(value, str):
        return value
    if name == "to" and isinstance(value, list):
        return ",".join(item for item in value if isinstance(item, str))
    return UNKNOWN_TYPE if name == "type" else ""
