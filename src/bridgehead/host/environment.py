"""The environment a child program gets: an allow-list, never what we happened to be started with (runtimes §2.5)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

ALWAYS = {"TERM": "dumb", "NO_COLOR": "1"}
INHERITED = frozenset(
    (
        *("HOME", "PATH", "LANG", "TMPDIR", "CODEX_HOME"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
    )
)


def child_environment(
    extra: Mapping[str, str], *, keep: Iterable[str] = (), base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the complete environment of a child.

    `extra` (this runtime's key and settings) wins over everything; `keep` names further variables to pass on; `base`
    is where inherited values come from, our own environment unless given.
    """
    source = os.environ if base is None else base
    kept = frozenset(keep)
    inherited = {
        name: value
        for name, value in source.items()
        if name in INHERITED or name in kept or _is_xdg_home(name)
    }
    return {**inherited, **ALWAYS, **extra}


def _is_xdg_home(name: str) -> bool:
    return name.startswith("XDG_") and name.endswith("_HOME")
