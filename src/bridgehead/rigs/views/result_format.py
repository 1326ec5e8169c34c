"""Format what all printed results share (rigs §7).

This is apart from results.py, whose records a listing does not need.
"""

from __future__ import annotations

SCHEMA_VERSION = "1.0"
LINE_PREFIX = "rig-bridge: "  # of data on stdout, under either program name


def stamped(op: str, **fields: object) -> dict[str, object]:
    """Return a JSON object, version and operation first, without None fields."""
    return {
        "schema_version": SCHEMA_VERSION,
        "op": op,
        **{k: v for k, v in fields.items() if v is not None},
    }


def short(commit_sha: str) -> str:
    """Return a commit id as lines show it."""
    return commit_sha[:7]


def word(value: bool) -> str:
    """Spell a truth as lines do."""
    return "true" if value else "false"
