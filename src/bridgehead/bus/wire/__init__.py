"""Messages, sessions, topics and frames as they are on the wire. Pure."""
