"""Which lines of a change count (council §24)."""

from __future__ import annotations

import pytest

from bridgehead.council.scope.scope import LeftOut, Scope
from bridgehead.council.scope.withheld import Reason

RENAMED = {"old.py": "new.py"}
SECRET = LeftOut("keys.py", Reason.SECRET)
IGNORED = LeftOut("junk.py", Reason.IGNORED)


@pytest.mark.parametrize(
    ("diff", "texts", "left_out", "touched"),
    [
        ("", {"new.py": "x"}, (), {}),
        ("", {"new.py": "x"}, (IGNORED,), {}),
        ("", {"new.py": "x"}, (SECRET,), None),
        ("", {"new.py": "x", "more.py": "y"}, (), None),
        ("", {}, (), None),
        (None, {"new.py": "x"}, (), None),
    ],
)
def test_only_a_change_that_is_all_rename_touches_nothing(
    diff: str | None,
    texts: dict[str, str],
    left_out: tuple[LeftOut, ...],
    touched: object,
) -> None:
    scope = Scope(("it",), texts, left_out, diff=diff, renames=RENAMED)

    assert scope.touched == touched
