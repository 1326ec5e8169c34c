"""`.bridge-settings.json` as the product reads and writes it: trust is given by a person, never by a write."""

from __future__ import annotations

from pathlib import Path

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.council.files import (
    SEATS_FILE,
    read_seats_file,
    write_seats_file,
)
from bridgehead.host.clock import SystemClock


def test_an_untrusted_file_decides_nothing_and_is_not_trusted_by_being_written(
    tmp_path: Path,
) -> None:
    assembly = Assembly(tmp_path, {"BRIDGEHEAD_HOME": str(tmp_path / "home")})
    path, now = assembly.places.project / SEATS_FILE, SystemClock().now()
    path.write_text('{"bridges": {"codex": {"path": "/tmp/evil"}}}')

    read = read_seats_file(assembly)
    assert not read.trusted and not read.settings(now).runtimes["codex"].options

    write_seats_file(assembly, read, now)
    assert not read_seats_file(assembly).trusted

    assembly.trusted_files.add(path)
    trusted = read_seats_file(assembly)
    assert trusted.settings(now).runtimes["codex"].options == {"path": "/tmp/evil"}
    write_seats_file(assembly, trusted, now)
    assert read_seats_file(assembly).trusted
