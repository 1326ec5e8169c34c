"""Looks at the machine and says what is fine, what to look at, what is broken, and the command that mends it."""
