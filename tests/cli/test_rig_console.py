"""What a rig command puts out arrives the same, whether it was made now or kept in UTF-8."""

from __future__ import annotations

import io
import sys

import pytest

from bridgehead.cli.rigs.arguments import Flags, parse_arguments
from bridgehead.cli.rigs.handlers import RigConsole
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.views.terminal import EncodedText

TEXT = "rig-bridge: ▶ né\n"


def no_rig() -> Rig:
    raise AssertionError("putting out text needs no rig")


CONSOLE = RigConsole(parse_arguments([], Flags()), no_rig, lambda text: None, {})


@pytest.mark.parametrize("encoding", ["utf-8", "UTF-8", "utf-16-le"])
@pytest.mark.parametrize("kept", [True, False], ids=["kept", "made now"])
def test_text_reaches_a_pipe_in_its_encoding_and_in_order(monkeypatch, encoding, kept):
    pipe = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(pipe, encoding=encoding))
    sys.stdout.write("before\n")

    CONSOLE.page(EncodedText(TEXT.encode()) if kept else [TEXT])

    assert pipe.getvalue() == f"before\n{TEXT}".encode(encoding)


def test_kept_text_reaches_a_stream_without_bytes(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    CONSOLE.page(EncodedText(TEXT.encode()))
    assert sys.stdout.getvalue() == TEXT
