"""Settings: what exists, which source wins, which files are trusted. Read by assembly and the surfaces only."""
