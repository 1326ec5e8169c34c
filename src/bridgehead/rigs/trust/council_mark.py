"""Read and write the mark of a reviewed hand-off (design §1).

It names the council that reviewed a result, its verdict and the hash of its report. It
is a fenced block in the body of a RESULT, so that people see it, every tool keeps it
and the body hash covers it:

    ```json bridgehead-council
    {"council": "…", "verdict": "PASS", "report_sha256": "…"}
    ```

By itself it is only the sender's word. The record of the machine that held the council
confirms it, and elsewhere so does a good signature of somebody who is trusted there.
Without either it is not believed.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeGuard

from bridgehead.contract.words import Verdict
from bridgehead.errors import UserError
from bridgehead.rigs.envelope.fields import REVIEWED_TYPE
from bridgehead.rigs.trust.verification_kinds import Kind

_OPENING = "```json bridgehead-council"
_OPENED = re.compile(rf"^{_OPENING}[ \t\r]*$", re.MULTILINE)
_BLOCK = re.compile(rf"^{_OPENING}\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
_MOST_CHARACTERS = 4096
_FIELDS = frozenset({"council", "verdict", "report_sha256"})
_COUNCIL_ID = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_SHA256 = re.compile("[0-9a-f]{64}")


class CouncilMark(NamedTuple):
    """What a block says."""

    council: str
    verdict: Verdict
    report_sha256: str

    def block(self) -> str:
        fields = {
            "council": self.council,
            "verdict": str(self.verdict),
            "report_sha256": self.report_sha256,
        }
        return f"{_OPENING}\n{json.dumps(fields)}\n```\n"


class MarkUnreadable(NamedTuple):
    """Why the block in a body cannot be read."""

    reason: str


def with_mark(body: str, mark: CouncilMark) -> str:
    """Return the body with the block at its end."""
    if _OPENED.search(body):
        raise UserError(
            "the body already contains a council block, so --council was refused",
            hint="remove the block from the body, or send it without --council",
        )
    return f"{body.rstrip()}\n\n{mark.block()}"


def read_mark(body: str) -> CouncilMark | MarkUnreadable | None:
    """Return what the block in a body says; None if there is none."""
    openings = len(_OPENED.findall(body))
    if not openings:
        return None
    blocks = _BLOCK.findall(body)
    if openings > 1 or len(blocks) != 1:
        return MarkUnreadable("there must be one block, closed by its own fence")
    text = blocks[0]
    if len(text) > _MOST_CHARACTERS:
        return MarkUnreadable(f"the block is longer than {_MOST_CHARACTERS} characters")
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return MarkUnreadable("the block is not JSON")
    return _mark(fields)


def _mark(fields: object) -> CouncilMark | MarkUnreadable:
    if not _has_expected_texts(fields):
        return MarkUnreadable(
            f"the block must have the texts {', '.join(sorted(_FIELDS))}, and nothing "
            "else"
        )
    if not _COUNCIL_ID.fullmatch(fields["council"]):
        return MarkUnreadable("council is not the id of one")
    if fields["verdict"] not in {str(verdict) for verdict in Verdict}:
        return MarkUnreadable(f"verdict must be one of {', '.join(Verdict)}")
    if not _SHA256.fullmatch(fields["report_sha256"]):
        return MarkUnreadable("report_sha256 must be 64 hexadecimal digits")
    verdict = Verdict(fields["verdict"])
    return CouncilMark(fields["council"], verdict, fields["report_sha256"])


def _has_expected_texts(fields: object) -> TypeGuard[dict[str, str]]:
    if not isinstance(fields, dict) or set(fields) != _FIELDS:
        return False
    return all(isinstance(value, str) for value in fields.values())


def council_findings(
    message_type: str, body: str, known_mark: Callable[[str], CouncilMark | None]
) -> Iterator[Kind]:
    """Yield what keeps a result from being a reviewed hand-off.

    `known_mark` returns what the record of this machine says about a council.
    """
    if message_type != REVIEWED_TYPE:
        return
    mark = read_mark(body)
    if mark is None:
        yield Kind.COUNCIL_ABSENT
        return
    if isinstance(mark, MarkUnreadable):
        yield Kind.COUNCIL_UNREADABLE
        return
    known = known_mark(mark.council)
    if known is None:
        yield Kind.COUNCIL_UNCONFIRMED
    elif known != mark:
        yield Kind.COUNCIL_MISMATCH
