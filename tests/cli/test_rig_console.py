"""What a rig command puts out arrives as it is, and a watch gives back the memory it needed."""

from __future__ import annotations

import ctypes
import gc
import io
import sys
from types import SimpleNamespace

import pytest

from bridgehead.cli.rigs import handlers
from bridgehead.cli.rigs.arguments import ArgumentRefused, Flags, parse_arguments
from bridgehead.cli.rigs.commands import COMMANDS
from bridgehead.cli.rigs.handlers import RigConsole
from bridgehead.rigs.operations import watch
from bridgehead.rigs.rig import Rig

TEXT = "rig-bridge: ▶ né\n"


def no_rig() -> Rig:
    raise AssertionError("putting out text needs no rig")


CONSOLE = RigConsole(parse_arguments([], Flags()), no_rig, lambda text: None, {})


@pytest.mark.parametrize("encoding", ["utf-8", "UTF-8", "utf-16-le"])
def test_text_reaches_a_pipe_in_its_encoding_and_in_order(monkeypatch, encoding):
    pipe = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(pipe, encoding=encoding))
    sys.stdout.write("before\n")

    CONSOLE.page([TEXT])

    assert pipe.getvalue() == f"before\n{TEXT}".encode(encoding)


@pytest.mark.parametrize("c_library", ["that can", "that cannot"])
def test_a_watch_gives_back_once_what_its_first_look_needed(monkeypatch, c_library):
    """The memory is freed by then; only the C library can hand it to the system."""
    happened = []
    monkeypatch.setattr(
        watch,
        "watch",
        lambda rig, request: iter([{"event": "snapshot"}, {"event": "heartbeat"}]),
    )
    monkeypatch.setattr(
        RigConsole,
        "put_object",
        lambda console, document: happened.append(document["event"]),
    )
    library = SimpleNamespace(
        malloc_trim=lambda kept: happened.append(f"trimmed to {kept}")
    )
    libraries = {None: library if c_library == "that can" else SimpleNamespace()}
    monkeypatch.setattr(ctypes, "CDLL", libraries.__getitem__)
    monkeypatch.setattr(gc, "enable", lambda: None)
    arguments = parse_arguments([], COMMANDS["watch"].flags)

    assert (
        handlers.watch(RigConsole(arguments, SimpleNamespace, lambda text: None, {}))
        == 0
    )

    trimmed = ["trimmed to 0"] if c_library == "that can" else []
    assert happened == ["snapshot", *trimmed, "heartbeat"]


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("--body", "did you mean --body-file?"),
        ("--tread", "did you mean --thread?"),
        ("--frob", None),
    ],
)
def test_an_unknown_flag_is_refused_with_the_one_that_may_be_meant(typed, hint):
    with pytest.raises(ArgumentRefused, match=f"unknown flag {typed}") as refused:
        parse_arguments([typed, "x"], COMMANDS["send"].flags)
    assert refused.value.hint == hint
