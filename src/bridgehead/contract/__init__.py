"""The words all parts share: enums, inputs, reports, events, pending items.

Plain data, no I/O.
"""

from __future__ import annotations

import sys


def _import_msgspec() -> None:
    """Import msgspec without `typing_extensions`, which it prefers where installed and
    does without on our Pythons.

    That module imports `inspect` and a compiler's worth of others: 10 ms of every
    command.
    """
    if "msgspec" in sys.modules or "typing_extensions" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    try:
        import msgspec  # noqa: F401
    finally:
        del sys.modules["typing_extensions"]


_import_msgspec()
