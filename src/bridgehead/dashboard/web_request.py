"""What `bridgehead web` is asked for, and the token that goes with it."""

from __future__ import annotations

import ipaddress
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bridgehead.errors import ConfigError, UserError
from bridgehead.host.files import opened_regular, read_bounded

SHORTEST_TOKEN: Final = 16
MOST_TOKEN_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class WebRequest:
    """What `bridgehead web` was asked for."""

    host: str
    port: int
    token_file: Path | None = None
    hosts: tuple[str, ...] = ()
    """Further names under which the dashboard may be reached."""
    open_browser: bool = False

    def names(self, hostname: str) -> tuple[str, ...]:
        """Names it may be reached under; the machine's own only where other machines can come."""
        machine = () if self.is_loopback else (self.host, hostname, f"{hostname}.local")
        return tuple(dict.fromkeys(name.lower() for name in (*machine, *self.hosts)))

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


class NeedsToken(UserError):
    """Beyond loopback a token must be chosen on purpose."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"--host {host} is reachable from other machines, so the dashboard needs a token of your choosing",
            hint="umask 077; openssl rand -hex 32 > web-token; bridgehead web --host … --token-file web-token",
        )


class WeakToken(ConfigError):
    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{path} holds no usable token: {why}", hint=f"openssl rand -hex 32 > {path}; chmod 600 {path}"
        )


def choose_token(request: WebRequest) -> str:
    """The token of the file, or a random one where nobody but this machine can come."""
    if request.token_file is not None:
        return _token_of(request.token_file)
    if not request.is_loopback:
        raise NeedsToken(request.host)
    return secrets.token_urlsafe(32)


def _token_of(path: Path) -> str:
    with opened_regular(path) as handle:
        mode = os.fstat(handle).st_mode
    if mode & 0o077:
        raise WeakToken(path, "others on this machine can read it")
    token = read_bounded(path, MOST_TOKEN_BYTES).decode("utf-8", "replace").strip()
    if len(token) < SHORTEST_TOKEN:
        raise WeakToken(path, f"it is shorter than {SHORTEST_TOKEN} characters")
    if not token.isascii() or not token.replace("-", "").replace("_", "").isalnum():
        raise WeakToken(path, "only letters, digits, - and _ go into a link")
    return token
