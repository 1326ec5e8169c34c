"""Probes remembered between commands, in one JSON file of the user; a broken or missing file is an empty memory."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.council.runtimes.machine import Probe
from bridgehead.errors import FileError
from bridgehead.host.files import make_private_dir, read_bounded, write_atomic

MOST_PROBES: Final = 64
_MOST_BYTES: Final = 1024 * 1024


class ProbeFile(MutableMapping[str, Probe]):
    """Reads the file when first asked, writes it whenever a probe is added. Losing it only costs seconds."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._probes: dict[str, Probe] | None = None

    def __getitem__(self, key: str) -> Probe:
        return self._loaded()[key]

    def __setitem__(self, key: str, probe: Probe) -> None:
        probes = self._loaded()
        probes.pop(key, None)
        probes[key] = probe
        while len(probes) > MOST_PROBES:
            del probes[next(iter(probes))]
        self._save(probes)

    def __delitem__(self, key: str) -> None:
        probes = self._loaded()
        del probes[key]
        self._save(probes)

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded())

    def __len__(self) -> int:
        return len(self._loaded())

    def _loaded(self) -> dict[str, Probe]:
        if self._probes is None:
            self._probes = self._read()
        return self._probes

    def _read(self) -> dict[str, Probe]:
        try:
            return msgspec.json.decode(read_bounded(self._path, _MOST_BYTES), type=dict[str, Probe])
        except (FileError, OSError, msgspec.DecodeError):
            return {}

    def _save(self, probes: dict[str, Probe]) -> None:
        try:
            make_private_dir(self._path.parent)
            write_atomic(self._path, msgspec.json.encode(probes), private=True)
        except (FileError, OSError):
            return
