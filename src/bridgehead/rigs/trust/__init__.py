"""Decide who wrote an envelope and what may be pulled (rigs §9, §10)."""
