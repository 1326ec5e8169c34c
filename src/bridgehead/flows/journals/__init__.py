"""Where flows are recorded: the interface, and SQLite in a file or in memory."""

from bridgehead.flows.journals.base import Journal, Record, Run

__all__ = ["Journal", "Record", "Run"]
