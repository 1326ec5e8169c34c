"""What the listings of a bridge depend on, in one text: equal states give equal answers.

A tracked file is known by its blob while git calls it unchanged, any other by its stamp, history by HEAD. The text is
long, but comparing two of them takes less time than a digest of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from bridgehead.rigs.filenames import is_envelope_name

if TYPE_CHECKING:
    from bridgehead.rigs.repositories.base import Survey
    from bridgehead.rigs.repositories.records import Stamp

_RACY_NS = 2_000_000_000  # a file may change twice within one tick of the clock that stamps it


def is_settled(stamp: Stamp, now_ns: int) -> bool:
    """Tell whether a stamp is old enough to tell this content from a later one."""
    return stamp.changed_ns < now_ns - _RACY_NS


def state_of(survey: Survey, stamp: Callable[[str], Stamp | None], now_ns: int) -> str | None:
    """Return the state; None while some file is too fresh to be known without reading it."""
    parts = [survey.head or "", survey.index_text, "", *(file.line for file in survey.dirty)]
    for thread, names in survey.names().items():
        parts += ["", thread, *names]
    for path in _not_vouched_for(survey):
        found = stamp(path)
        if found is not None and not is_settled(found, now_ns):
            return None
        parts += ["", path, str(found)]
    return "\0".join(parts)


def _not_vouched_for(survey: Survey) -> Iterator[str]:
    """Yield the files whose content git does not answer for: untracked, ignored, changed, in conflict."""
    vouched_for = survey.tracked_paths() - {file.path for file in survey.dirty}
    for thread, names in survey.names().items():
        loose = {f"{thread}/{name}" for name in names} - vouched_for
        yield from sorted(filter(is_envelope_name, loose))
