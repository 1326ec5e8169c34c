"""The operations on flows, one per file: each takes a request, returns a result."""
