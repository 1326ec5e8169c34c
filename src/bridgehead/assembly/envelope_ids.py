"""The id under which a waiting envelope is answered: derived from where it lies, never stored (rigs §8)."""

from __future__ import annotations

from hashlib import sha256

ID_PREFIX = "r-"


def envelope_item_id(root: str, path: str) -> str:
    """Return the same id for the same envelope in the same clone, whoever asks."""
    digest = sha256(f"{root}\0{path}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{ID_PREFIX}{digest}"
