"""Councils put together with this machine, the record and the other parts."""
