"""Running one flow: open, replay, ask, pause, end."""
