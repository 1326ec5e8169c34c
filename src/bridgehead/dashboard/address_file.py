"""Where the running dashboard is: a private file, so that other commands of the same user find it and its token."""

from __future__ import annotations

import http.client
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from bridgehead.config.places import Places
from bridgehead.errors import FileError
from bridgehead.host.file_errors import FileMissing
from bridgehead.host.files import make_private_dir, read_bounded, write_atomic

FILE: Final = "web.json"
MOST_BYTES: Final = 64 * 1024
ANSWER_SECONDS: Final = 2.0


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """A dashboard as others reach it."""

    host: str
    port: int
    token: str
    pid: int

    @property
    def base(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}"

    @property
    def url(self) -> str:
        """The link that opens it; whoever has it is let in."""
        return f"{self.base}/?token={self.token}"


def note_address(places: Places, address: Address) -> Path:
    make_private_dir(places.data)
    path = places.data / FILE
    write_atomic(path, msgspec.json.encode(address) + b"\n", private=True)
    return path


def forget_address(places: Places, address: Address) -> None:
    """Take the file away, unless it speaks of another dashboard by now."""
    if read_address(places) == address:
        (places.data / FILE).unlink(missing_ok=True)


def read_address(places: Places) -> Address | None:
    """What the file says; None when there is none or it says nothing usable."""
    try:
        return msgspec.json.decode(read_bounded(places.data / FILE, MOST_BYTES), type=Address)
    except (FileMissing, msgspec.DecodeError, UnicodeDecodeError):
        return None


class Running(NamedTuple):
    """A dashboard that answers, and a link that opens it once."""

    address: Address
    link: str


def running_dashboard(places: Places) -> Running | None:
    """The dashboard that answers at the noted address to the noted token."""
    try:
        address = read_address(places)
    except FileError:
        return None
    path = _new_link(address) if address is not None else None
    return Running(address, address.base + path) if address is not None and path is not None else None


def _new_link(address: Address) -> str | None:
    connection = http.client.HTTPConnection(address.host, address.port, timeout=ANSWER_SECONDS)
    try:
        connection.request("POST", "/link", headers={"Authorization": f"Bearer {address.token}"})
        answer = connection.getresponse()
        return answer.read(MOST_BYTES).decode("ascii") if answer.status == 200 else None
    except (OSError, http.client.HTTPException, UnicodeDecodeError):
        return None
    finally:
        connection.close()
