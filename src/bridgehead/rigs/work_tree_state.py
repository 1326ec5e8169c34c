"""What the listings of a bridge depend on, in one digest: equal states give equal answers.

A tracked file is known by its blob while git calls it unchanged, any other by its stamp, history by HEAD.
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
    """Return the digest; None while some file is too fresh to be known without reading it."""
    from hashlib import sha256

    parts = [survey.head or "", survey.digest, *(file.line for file in survey.dirty)]
    for thread, names in survey.names().items():
        parts += ["", thread, *names]
    for path in _not_vouched_for(survey):
        found = stamp(path)
        if found is not None and not is_settled(found, now_ns):
            return None
        parts += ["", path, str(found)]
    return sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def _not_vouched_for(survey: Survey) -> Iterator[str]:
    """Yield the files whose content git does not answer for: untracked, ignored, changed, in conflict."""
    dirty = {file.path for file in survey.dirty}
    vouched_for = survey.tracked_paths() - dirty
    for thread, names in survey.names().items():
        for name in names:
            if is_envelope_name(name) and (path := f"{thread}/{name}") not in vouched_for:
                yield path
