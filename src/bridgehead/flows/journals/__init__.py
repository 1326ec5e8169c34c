"""Where flows are recorded: the interface, SQLite for real use, memory for tests."""

from bridgehead.flows.journals.base import Journal, Record, Run

__all__ = ["Journal", "Record", "Run"]
