"""Decide which TCP ports a confined program may connect to: those of the addresses it
was given, and what every program needs.

Pure but for `ephemeral_ports`. confinement.py has the kernel rule that enforces this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

WEB_PORTS: Final = (53, 80, 443)
"""DNS over TCP, and the web."""
ALL_PORTS: Final = range(1, 65536)
_EPHEMERAL: Final = range(32768, 61000)
_EPHEMERAL_FILE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_HOST: Final = r"(?:\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+)"
_IN_URL: Final = re.compile(rf"://(?:[^\s/@\"'<>]*@)?{_HOST}:(\d{{1,5}})(?!\d)")
_ADDRESS: Final = re.compile(rf"{_HOST}:(\d{{1,5}})/?")


@dataclass(frozen=True, slots=True)
class PortRules:
    """What the user and our own servers say about the ports of confined programs."""

    chosen: tuple[range, ...] = ()
    """Always open (`[council] ports`)."""
    closed: frozenset[int] = frozenset()
    """The ports of our own servers."""


def ports_in_urls(text: str) -> frozenset[int]:
    """Return the ports that URLs in a text name."""
    return _valid(_IN_URL.findall(text))


def ports_in_value(value: str) -> frozenset[int]:
    """Return the ports that a variable's value names, in URLs or as `host:port`."""
    address = _ADDRESS.fullmatch(value.strip())
    return ports_in_urls(value) | _valid([address[1]] if address else [])


def reachable_ports(
    named: Iterable[int],
    *,
    own_servers: range | None,
    rules: PortRules,
) -> tuple[range, ...]:
    """Return the ports a program may connect to, as sorted spans.

    `named` are the ports of its endpoints, `own_servers` the range in which servers
    listen that it starts itself. Our own servers are not among its endpoints, whatever
    a settings file says, unless the user chose their port.
    """
    allowed = {*WEB_PORTS, *named, *(own_servers or ())}
    allowed -= rules.closed
    for span in rules.chosen:
        allowed.update(span)
    return _spans(allowed)


def parse_span(text: str) -> range:
    """Return the ports of `8123`, `3000-3999` or `all`; raise ValueError otherwise."""
    if text.strip() == "all":
        return ALL_PORTS
    low, _, high = text.partition("-")
    span = range(int(low), int(high or low) + 1)
    if not span or span[0] not in ALL_PORTS or span[-1] not in ALL_PORTS:
        raise ValueError(f"{text!r} is not a port")
    return span


def port_of(address: str) -> int | None:
    """Return the port of `host:port`.

    Return None for port 0, which means any, and for anything else.
    """
    ports = ports_in_value(address)
    return next(iter(ports), None)


def ephemeral_ports() -> range:
    """Return the range from which the system chooses a port for a server."""
    with suppress(OSError, ValueError):
        low, high = map(int, _EPHEMERAL_FILE.read_text().split())
        if low in ALL_PORTS and high in ALL_PORTS:
            return range(low, high + 1)
    return _EPHEMERAL


def _valid(found: Iterable[str]) -> frozenset[int]:
    return frozenset(port for port in map(int, found) if port in ALL_PORTS)


def _spans(ports: Iterable[int]) -> tuple[range, ...]:
    spans: list[range] = []
    for port in sorted(ports):
        if spans and spans[-1].stop == port:
            spans[-1] = range(spans[-1].start, port + 1)
        else:
            spans.append(range(port, port + 1))
    return tuple(spans)
