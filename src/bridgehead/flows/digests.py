"""SHA-256 without OpenSSL: loading that library would take a twentieth of the time a pause may use (design §8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

sha256: Callable[[bytes], Any]
try:
    from _sha256 import sha256  # type: ignore[import-not-found, no-redef]
except ImportError:  # CPython 3.12 gave the module another name; other implementations have neither
    try:
        from _sha2 import sha256  # type: ignore[import-not-found, no-redef]
    except ImportError:
        from hashlib import sha256


def sha256_hex(data: bytes) -> str:
    """The digest of `data` in lower-case hexadecimal."""
    digest: str = sha256(data).hexdigest()
    return digest
