"""Opening a listener on an address or a Unix socket, with or without TLS, and closing it again."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Final

from bridgehead.bus.sockets.base import Site
from bridgehead.bus.sockets.door import Doors
from bridgehead.bus.sockets.libraries import LibraryName, library
from bridgehead.errors import BridgeheadError

BACKLOG: Final = 1024


class Listener:
    """One open listener."""

    def __init__(self, server: asyncio.AbstractServer, doors: Doors, address: str) -> None:
        self._server = server
        self._doors = doors
        self.address = address

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    async def close(self) -> None:
        """No new connections; open WebSockets belong to the site and are closed by it."""
        self._server.close()
        self._doors.close()


async def listen(
    site: Site,
    host: str,
    port: int,
    *,
    tls: ssl.SSLContext | None = None,
    library_name: LibraryName | None = None,
    strangers: int = 512,
) -> Listener:
    """Serve `site` on a TCP address; port 0 takes a free one."""
    doors = Doors(site, library(library_name).take_over, limit=strangers)
    try:
        server = await asyncio.get_running_loop().create_server(
            doors, host, port, ssl=tls, backlog=BACKLOG, ssl_handshake_timeout=5 if tls else None
        )
    except OSError as error:
        raise AddressInUse(f"{host}:{port}", error) from error
    bound = server.sockets[0].getsockname()
    return Listener(server, doors, f"{bound[0]}:{bound[1]}")


async def listen_unix(site: Site, path: Path) -> Listener:
    """Serve `site` on a Unix socket that only its owner can reach."""
    # picows sets TCP options on every socket, so Unix sockets are served by the other library.
    doors = Doors(site, library("websockets").take_over)
    try:
        server = await asyncio.get_running_loop().create_unix_server(doors, str(path))
        path.chmod(0o600)
    except OSError as error:
        raise AddressInUse(str(path), error) from error
    return Listener(server, doors, str(path))


class AddressInUse(BridgeheadError):
    """A listener could not be opened."""

    def __init__(self, address: str, error: OSError) -> None:
        super().__init__(
            f"cannot listen on {address}: {error.strerror or error}",
            hint="if a bus already answers there, reach it with --hub URL; otherwise choose another address",
        )
        self.address = address
