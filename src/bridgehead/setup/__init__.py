"""Make bridgehead known to agents' hosts and to git, visibly, without harm to what was there, and undoable."""
