"""The state of a work tree tells every difference that an answer could show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from bridgehead.rigs.repositories.base import Survey
from bridgehead.rigs.repositories.records import DirtyFile, Stamp, TrackedFile
from bridgehead.rigs.threads.output_cache import state_of

LONG_AGO = Stamp(1, 100, 1, 1, False)
NOW = 10_000_000_000


class Seen(Survey):
    branch = "main"
    ahead = 0

    def __init__(
        self,
        head: str = "c0ffee",
        index_text: str = "i1",
        dirty: Sequence[DirtyFile] = (),
        names: Sequence[str] = ("ACK.md",),
    ) -> None:
        self.head, self.index_text, self.dirty = head, index_text, tuple(dirty)
        self._names = names

    def tracked(self) -> Mapping[str, TrackedFile]:
        return {"demo-01/ACK.md": TrackedFile("b10b", is_symlink=False)}

    def tracked_paths(self) -> set[str]:
        return set(self.tracked())

    def names(self) -> Mapping[str, Sequence[str]]:
        return {"demo-01": self._names}


def state(survey: Survey, stamp: Stamp | None = LONG_AGO) -> str | None:
    return state_of(survey, lambda path: stamp, NOW)


@pytest.mark.parametrize(
    "other",
    [
        Seen(head="beef"),
        Seen(index_text="i2"),
        Seen(dirty=[DirtyFile(" M", "demo-01/ACK.md")]),
        Seen(names=["ACK.md", "LOOSE.md"]),
        Seen(names=[]),
    ],
)
def test_every_difference_is_another_state(other):
    assert state(other) not in (None, state(Seen()))


def test_a_file_git_vouches_for_is_not_even_looked_at():
    assert state_of(Seen(), lambda path: pytest.fail(path), NOW)


@pytest.mark.parametrize(
    "survey",
    [Seen(names=["LOOSE.md"]), Seen(dirty=[DirtyFile(" M", "demo-01/ACK.md")])],
    ids=["loose", "changed"],
)
def test_any_other_file_is_known_by_its_stamp(survey):
    assert state(survey) == state(survey, LONG_AGO)
    assert state(survey) != state(survey, LONG_AGO._replace(modified_ns=2))
    assert state(survey) != state(survey, LONG_AGO._replace(inode=2))


def test_a_file_that_was_just_written_leaves_the_state_open():
    assert state(Seen(names=["LOOSE.md"]), LONG_AGO._replace(changed_ns=NOW - 1)) is None
