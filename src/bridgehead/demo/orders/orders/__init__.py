"""A tiny order service."""
