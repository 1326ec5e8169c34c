from __future__ import annotations

import pytest

from bridgehead.rigs.envelope.text import headline, trim, utf8


@pytest.mark.parametrize("blank", ["\t", "\u00a0", "\ufeff", "\u2028", "\u3000"])
def test_ecmascript_whitespace_is_trimmed(blank: str) -> None:
    assert trim(f"{blank}rig{blank}") == "rig"


@pytest.mark.parametrize("kept", ["\x1c", "\x85", "\u200b"])
def test_what_only_python_calls_whitespace_is_kept(kept: str) -> None:
    assert trim(f"{kept}rig") == f"{kept}rig"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one", "one"),
        ("one\ntwo", "one"),
        ("one\r\ntwo", "one"),
        ("one\u2028two", "one"),
        ("\n  \ntwo\nthree", "two"),
        ("one\x0btwo", "one\x0btwo"),
        (" \n\t", ""),
        ("", ""),
    ],
)
def test_a_headline_is_the_first_line_with_something_on_it(text: str, expected: str) -> None:
    assert headline(text) == expected


def test_lone_surrogates_are_replaced_and_pairs_joined() -> None:
    assert utf8("a\ud800b") == "a\ufffdb".encode()
    assert utf8("\ud83c\udfaf") == "🎯".encode()
