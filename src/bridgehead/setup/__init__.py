"""Make bridgehead known to agents' hosts and to git, visibly and undoably."""
