"""A file with frontmatter that is no envelope's is shown as the reference shows it (rigs §8 thread)."""

from __future__ import annotations

from bridgehead.rigs.trust.verification_kinds import Kind, Verification, VerificationState
from bridgehead.rigs.views.listings import ShownEnvelope, thread_blocks

BROKEN = Verification(VerificationState.BROKEN, (Kind.SCHEMA_INVALID,))


def test_fields_that_are_no_text_are_left_out_and_a_type_that_is_none_is_unknown() -> None:
    odd = ShownEnvelope("README.md", {"from": 5, "to": ["ops", 5], "status": ["x"]}, "x\n", None, BROKEN)
    assert "".join(thread_blocks("demo-02", [odd], 1)) == (
        "rig-bridge: thread demo-02 envelope=1 of 1 type=(unknown) file=README.md\n"
        "---\nto: ops\ntype: (unknown)\n---\nx\n===========================\n"
    )
