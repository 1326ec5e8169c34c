"""`bridgehead bus`: serve a bus, bridge to one, enrol participants, talk and listen.

Each command is its own import.
"""

from __future__ import annotations

import click

from bridgehead.cli.click_classes import LazyGroup

COMMANDS = {
    "serve": (
        "bridgehead.cli.bus.serve:serve",
        "Serve a bus: hub, gateway, chat page, assistant.",
    ),
    "bridge": (
        "bridgehead.cli.bus.serve:bridge",
        "Put a gateway in front of a hub that runs elsewhere.",
    ),
    "participant": (
        "bridgehead.cli.bus.participants:participant",
        "Manage participants.",
    ),
    "policy": (
        "bridgehead.cli.bus.participants:policy",
        "Show, change and test participants' rights.",
    ),
    "send": (
        "bridgehead.cli.bus.talk:send",
        "Send one message, or say something and hear the answer.",
    ),
    "tail": ("bridgehead.cli.bus.talk:tail", "Show messages as they pass."),
    "chat": ("bridgehead.cli.bus.talk:chat", "Talk to the assistant line by line."),
    "announce": (
        "bridgehead.cli.bus.talk:announce",
        "Speak to all participants, or to those of one site.",
    ),
    "ask": ("bridgehead.cli.bus.talk:ask", "Ask one participant and print its answer."),
    "link": ("bridgehead.cli.bus.serve:link", "Print links to a running bus."),
    "check": ("bridgehead.cli.bus.serve:check", "Check a hub."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def bus() -> None:
    """Connect satellites, chat rooms and scripts to one assistant, each privately."""
