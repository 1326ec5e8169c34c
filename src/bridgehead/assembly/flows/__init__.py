"""Flows connected to the record, and handlers made of the other parts."""
