"""The control plane of rigs §14: an index of messages in SQLite, shared with other tools, rebuilt from git at will.

Off unless SWARM_DB or the configuration names a file. Git is the wire and the archive; bodies are never stored.
"""
