"""Rigs put together with git, the record and the pages that show them."""
