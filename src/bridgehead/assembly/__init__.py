"""Settings in, working objects out: the one place where the parts are wired together."""
