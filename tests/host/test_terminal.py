"""Colour, width and paging follow the terminal, and foreign text cannot drive it."""

from __future__ import annotations

import fcntl
import io
import os
import struct
import termios
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.host import terminal

COLUMNS, ROWS = 100, 10


@pytest.fixture
def tty() -> Iterator[tuple[TextIO, Callable[[], str]]]:
    """A real terminal of 100 x 10, and what has been shown on it since the last look."""
    screen, line = os.openpty()
    fcntl.ioctl(line, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    settings = termios.tcgetattr(line)
    settings[1] &= ~termios.OPOST  # line ends as they were written
    termios.tcsetattr(line, termios.TCSANOW, settings)
    os.set_blocking(screen, False)
    stream = os.fdopen(line, "w", encoding="utf-8")

    def shown() -> str:
        stream.flush()
        parts = []
        try:
            while part := os.read(screen, 65536):
                parts.append(part)
        except BlockingIOError:
            return b"".join(parts).decode()
        return b"".join(parts).decode()

    yield stream, shown
    stream.close()
    os.close(screen)


Tty = tuple[TextIO, Callable[[], str]]


# --- colour and size


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"TERM": "xterm"}, True),
        ({}, True),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, False),
        ({"TERM": "dumb"}, False),
    ],
)
def test_on_a_terminal_colour_follows_the_environment(
    tty: Tty, environ: dict[str, str], expected: bool
) -> None:
    assert terminal.use_color(tty[0], environ) is expected


def test_piped_output_has_no_colour() -> None:
    assert not terminal.use_color(io.StringIO(), {"TERM": "xterm"})


@pytest.mark.parametrize(
    ("codes", "expected"),
    [((), "x"), ((31,), "\x1b[31mx\x1b[0m"), ((1, 31), "\x1b[1;31mx\x1b[0m")],
)
def test_style_wraps_text_in_codes(codes: tuple[int, ...], expected: str) -> None:
    assert terminal.style("x", *codes) == expected
    assert terminal.style("", *codes) == ""


def test_the_size_comes_from_the_terminal(tty: Tty) -> None:
    assert (terminal.width(tty[0], {}), terminal.height(tty[0], {})) == (COLUMNS, ROWS)


def test_the_environment_can_overrule_the_size_unless_it_is_nonsense(tty: Tty) -> None:
    environ = {"COLUMNS": "66", "LINES": "-3"}
    assert (terminal.width(tty[0], environ), terminal.height(tty[0], environ)) == (
        66,
        ROWS,
    )


def test_without_a_terminal_the_size_is_80_by_24() -> None:
    assert (
        terminal.width(io.StringIO(), {}),
        terminal.height(io.StringIO(), {"LINES": "0"}),
    ) == (80, 24)


# --- foreign text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("over\rwritten\b", r"over\x0dwritten\x08"),
        ("\x9b31m \x7f \x00", r"\x9b31m \x7f \x00"),
        ("user\u202etxt.exe", r"user\u202etxt.exe"),
        ("\u2066iso\u2069 \u200emark\u061c", r"\u2066iso\u2069 \u200emark\u061c"),
        ("zero\u200bwidth\u200d\ufeff\u2060", r"zero\u200bwidth\u200d\ufeff\u2060"),
        ("tag \U000e0041", r"tag \U000e0041"),
        ("sep\u2028\u2029", r"sep\u2028\u2029"),
        ("half \udcff", r"half \udcff"),
        ("größe 漢字 🎉 ا", "größe 漢字 🎉 ا"),
    ],
)
def test_what_could_drive_the_terminal_is_shown_escaped(text: str, shown: str) -> None:
    assert terminal.escape_controls(text) == shown


def test_only_the_characters_named_are_kept() -> None:
    assert terminal.escape_controls("a\nb\tc", keep="") == r"a\x0ab\x09c"
    assert terminal.escape_controls("a\r\nb", keep="\r\n") == "a\r\nb"


@given(st.text())
def test_property_escaped_text_holds_no_control_and_can_be_printed(text: str) -> None:
    escaped = terminal.escape_controls(text)
    escaped.encode()
    assert not [
        char
        for char in escaped
        if unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t"
    ]
    assert not [
        char
        for char in escaped
        if unicodedata.bidirectional(char) in ("RLO", "LRO", "RLE", "LRE", "PDF")
    ]
    assert terminal.escape_controls(escaped) == escaped


# --- columns


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("", 0),
        ("abc", 3),
        ("漢字", 4),
        ("ﾊﾝ", 2),
        ("🎉!", 3),
        ("e\u0301", 1),
        ("\u200b", 0),
        ("한", 2),
        ("\u1112\u1161\u11ab", 2),
        ("a\x1bb", 2),
    ],
)
def test_the_width_of_text_counts_columns(text: str, columns: int) -> None:
    assert terminal.display_width(text) == columns


@pytest.mark.parametrize(
    ("text", "columns", "cut"),
    [
        ("short", 5, "short"),
        ("longer", 5, "long…"),
        ("漢字漢字", 5, "漢字…"),
        ("漢字漢字", 4, "漢…"),
        ("abc", 1, "…"),
        ("abc", 0, ""),
        ("e\u0301e\u0301e\u0301", 2, "e\u0301…"),
    ],
)
def test_text_is_cut_to_columns_with_an_ellipsis(
    text: str, columns: int, cut: str
) -> None:
    assert terminal.truncate(text, columns) == cut


@given(st.text(), st.integers(0, 40))
def test_property_cut_text_fits_and_is_a_beginning(text: str, columns: int) -> None:
    cut = terminal.truncate(text, columns)
    assert terminal.display_width(cut) <= columns
    assert text.startswith(cut.removesuffix("…"))


def test_padding_fills_up_to_the_column() -> None:
    assert [terminal.pad(text, 5) + "|" for text in ("ab", "漢字", "longer")] == [
        "ab   |",
        "漢字 |",
        "longer|",
    ]


# --- paging


@pytest.fixture
def pager(tmp_path: Path) -> Callable[[str, str], Path]:
    """Make a pager of the given name that notes its arguments and what it was given, then ends as told."""

    def make(name: str, ending: str = "exit 0") -> Path:
        program = tmp_path / name
        program.write_text(
            f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\ncat > {tmp_path}/text\n{ending}\n'
        )
        program.chmod(0o755)
        return program

    return make


LONG = "".join(f"line {number}\n" for number in range(ROWS + 1))
SHORT = "".join(f"line {number}\n" for number in range(ROWS))


def page(text: str, stream: TextIO, **environ: str) -> None:
    environment = {"PATH": os.environ["PATH"], **environ}
    terminal.page(
        text,
        stream=stream,
        environ=environment,
        no_pager_variable="RIG_BRIDGE_NO_PAGER",
    )


def test_text_longer_than_the_terminal_goes_to_the_pager(
    tty: Tty, tmp_path: Path, pager: Callable[..., Path]
) -> None:
    page(LONG, tty[0], PAGER=str(pager("mypager")))
    assert tty[1]() == ""
    assert ((tmp_path / "text").read_text(), (tmp_path / "arguments").read_text()) == (
        LONG,
        "\n",
    )


@pytest.mark.parametrize(
    ("setting", "arguments"),
    [("less", "-FIRX"), ("less -S", "-S"), ("mypager", ""), ("mypager -a b", "-a b")],
)
def test_only_less_without_arguments_gets_some_of_ours(
    tty: Tty, tmp_path: Path, pager: Callable[..., Path], setting: str, arguments: str
) -> None:
    pager("less")
    pager("mypager")
    page(LONG, tty[0], PAGER=f"{tmp_path}/{setting}")
    assert (tmp_path / "arguments").read_text() == arguments + "\n"


def test_less_is_the_pager_when_none_is_named(
    tty: Tty, tmp_path: Path, pager: Callable[..., Path]
) -> None:
    pager("less")
    page(LONG, tty[0], PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert (tmp_path / "arguments").read_text() == "-FIRX\n"


@pytest.mark.parametrize(
    "environ", [{"RIG_BRIDGE_NO_PAGER": "1"}, {"PAGER": ""}, {"PAGER": "cat"}]
)
def test_the_user_can_have_no_pager(
    tty: Tty, tmp_path: Path, pager: Callable[..., Path], environ: dict[str, str]
) -> None:
    pager("less")
    page(LONG, tty[0], **{"PATH": str(tmp_path), **environ})
    assert tty[1]() == LONG
    assert not (tmp_path / "text").exists()


def test_text_that_fits_or_is_piped_is_written_directly(
    tty: Tty, tmp_path: Path, pager: Callable[..., Path]
) -> None:
    program = str(pager("mypager"))
    page(SHORT, tty[0], PAGER=program)
    assert tty[1]() == SHORT
    piped = io.StringIO()
    page(LONG, piped, PAGER=program)
    assert piped.getvalue() == LONG
    assert not (tmp_path / "text").exists()


@pytest.mark.parametrize(
    "setting", ["no-such-pager", "failing", "/dev/null", "nul\0inside"]
)
def test_when_the_pager_fails_the_text_is_shown_directly(
    tty: Tty, tmp_path: Path, pager: Callable[..., Path], setting: str
) -> None:
    pager("failing", "exit 1")
    page(LONG, tty[0], PAGER=setting, PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert tty[1]() == LONG


def test_a_pager_left_early_has_shown_what_the_user_wanted(
    tty: Tty, pager: Callable[..., Path]
) -> None:
    page("x" * 1_000_000 + LONG, tty[0], PAGER="head -n 1 --bytes=3")
    assert tty[1]() == "xxx"
    page(LONG, tty[0], PAGER=str(pager("killed", "kill -INT $$")))
    assert tty[1]() == ""


def test_an_interrupt_while_paging_is_left_to_the_pager(
    tty: Tty, tmp_path: Path, pager: Callable[..., Path]
) -> None:
    program = pager(
        "interrupting", f"kill -INT {os.getpid()}; echo on > {tmp_path}/went"
    )
    page(LONG, tty[0], PAGER=str(program))
    assert (tmp_path / "went").read_text() == "on\n"
    assert tty[1]() == ""
