"""Which characters at the end of a commit message's line are blanks: git's, not Python's (rigs §8)."""

from __future__ import annotations

from bridgehead.rigs.repositories.git.envelope_commit import tidy_message


def test_only_what_git_calls_blanks_is_cut_off_the_end_of_a_line() -> None:
    assert tidy_message("ACK: a \t\r\n") == "ACK: a\n"
    assert tidy_message("ACK: a\u00a0\n") == "ACK: a\u00a0\n"
