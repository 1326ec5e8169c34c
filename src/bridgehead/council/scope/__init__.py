"""What a council looks at: resolving it, what is withheld, and the copies runtimes work in."""
