"""Where flows are recorded: SQLite in a file or in memory."""
