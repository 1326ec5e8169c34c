"""`bridgehead council` and what it shows."""
