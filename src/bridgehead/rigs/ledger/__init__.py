"""Keep an index of messages in SQLite, shared with other tools (rigs §14).

It is off unless SWARM_DB or the configuration names a file, and can be rebuilt from git
at any time. Git is the wire and the archive; bodies are never stored.
"""
