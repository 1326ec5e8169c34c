"""Where flows say what they forgave or noticed: the standard library's log, under the name `bridgehead.flows`."""

from __future__ import annotations


def log_warning(message: str) -> None:
    # Imported when there is something to say: logging alone would take a quarter of a pause's time budget.
    import logging

    logging.getLogger("bridgehead.flows").warning("%s", message)
