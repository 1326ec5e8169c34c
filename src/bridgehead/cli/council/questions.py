"""Questions a council puts to the person at the terminal.

Ctrl-C ends the waiting at once.
"""

from __future__ import annotations

import os
import select
import sys
from typing import TYPE_CHECKING

from bridgehead.cli.output import App
from bridgehead.host.command import Cancel
from bridgehead.host.terminal import escape_controls

if TYPE_CHECKING:
    from bridgehead.cli.council.display import LiveDisplay
    from bridgehead.council.calls import UserQuestion
    from bridgehead.council.request.clarify import ClarifyingQuestion
    from bridgehead.council.running.conductor import AskUser


def ask_before(app: App, question: ClarifyingQuestion) -> str | None:
    """Ask what is meant, before anything begins."""
    choices = f"  [{' / '.join(question.choices)}]" if question.choices else ""
    _prompt(app, f"{question.text}{choices}  (Enter: decide for me) ")
    line = sys.stdin.readline()
    return line.strip() if line else None


def ask_about_halted(app: App, question: UserQuestion, cancel: Cancel) -> str | None:
    """Ask what to do about a bridge that needs somebody; None when nobody answers."""
    app.insist(f"{question.seat} is not available: {question.message}")
    _prompt(app, f"{' / '.join(question.choices)}? ")
    return _typed_unless(cancel)


def ask_beside(display: LiveDisplay, ask: AskUser) -> AskUser:
    """Ask while the table stands aside."""

    def asked(question: UserQuestion, cancel: Cancel) -> str | None:
        with display.paused():
            return ask(question, cancel)

    return asked


def _prompt(app: App, text: str) -> None:
    app.stderr.write(escape_controls(text))
    app.stderr.flush()


def _typed_unless(cancel: Cancel) -> str | None:
    """Return one line from standard input.

    A thread that waits in `readline` could not be called off.
    """
    reader, writer = os.pipe()
    try:
        with cancel.waking(lambda: os.write(writer, b"!")):
            ready, _, _ = (
                select.select([sys.stdin, reader], [], [])
                if not cancel.cancelled
                else ([], [], [])
            )
    finally:
        os.close(reader)
        os.close(writer)
    line = sys.stdin.readline() if sys.stdin in ready else ""
    return line.strip() if line else None
