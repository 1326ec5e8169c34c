"""A glance into git's index that spares the asking of git: nearly always the answer is no."""

from __future__ import annotations

from pathlib import Path

_WHOLE_NAMES = (2, 3)  # versions of the format that do not shorten names
_ENTRIES_ELSEWHERE = (b"link", b"sdir")  # a split index; directories that stand for their files


def may_list(index_file: Path, path: str) -> bool:
    """Tell whether an index could list `path`; only a no is certain."""
    try:
        content = index_file.read_bytes()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    whole = int.from_bytes(content[4:8], "big") in _WHOLE_NAMES
    return not whole or any(
        name in content for name in (path.encode("utf-8", "surrogateescape"), *_ENTRIES_ELSEWHERE)
    )
