"""`bridgehead flow`."""
