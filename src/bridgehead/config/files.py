"""Reads the settings files and remembers which of the project's files the user has trusted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bridgehead.config.declared import Value
from bridgehead.config.places import Places
from bridgehead.config.resolve import Settings, SettingsFile, resolve
from bridgehead.errors import ConfigError, NotFound
from bridgehead.host.files import read_bounded, write_private

MAX_SETTINGS_BYTES = 1 << 20


class TrustedFiles:
    """Files the user has read and trusts, by path and content: one changed byte ends the trust."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def all(self) -> dict[str, str]:
        """Trusted paths with the SHA-256 of the content that was trusted."""
        if not self._path.exists():
            return {}
        try:
            document = json.loads(read_bounded(self._path, MAX_SETTINGS_BYTES))
        except ValueError as error:
            raise ConfigError(
                f"{self._path} is not valid JSON",
                hint="delete it, then trust your files again",
            ) from error
        if not isinstance(document, dict):
            raise ConfigError(
                f"{self._path} does not contain an object",
                hint="delete it and trust your files again",
            )
        return {str(path): str(digest) for path, digest in document.items()}

    def holds(self, path: Path, content: bytes) -> bool:
        """Whether exactly this content of this file is trusted."""
        return self.all().get(str(path)) == _digest(content)

    def add(self, path: Path) -> str:
        """Trust the file as it is now; return its digest."""
        if not path.is_file():
            raise NotFound(
                f"{path} does not exist and cannot be trusted",
                hint="`bridgehead config show` lists the files that are read",
            )
        digest = _digest(read_bounded(path, MAX_SETTINGS_BYTES))
        self._write({**self.all(), str(path): digest})
        return digest

    def remove(self, path: Path) -> None:
        """Stop trusting the file."""
        trusted = self.all()
        if trusted.pop(str(path), None) is None:
            raise NotFound(
                f"{path} is not trusted",
                hint="`bridgehead config trust --list` lists the trusted files",
            )
        self._write(trusted)

    def _write(self, trusted: Mapping[str, str]) -> None:
        write_private(self._path, json.dumps(trusted, indent=1, sort_keys=True) + "\n")


def _digest(content: bytes) -> str:
    from hashlib import sha256  # loads OpenSSL, and most commands have no file to trust

    return sha256(content).hexdigest()


def load_settings(
    places: Places, *, environ: Mapping[str, str], flags: Mapping[str, Value]
) -> Settings:
    """Every setting from flags, environment and the two files."""
    project = _read(places.project_file, TrustedFiles(places.trust_file))
    return settings_with(project, places, environ=environ, flags=flags)


def settings_with(
    project: SettingsFile | None,
    places: Places,
    *,
    environ: Mapping[str, str],
    flags: Mapping[str, Value],
) -> Settings:
    """Return every setting, with this file in place of the project's."""
    user = _read(places.user_file, None)
    return resolve(flags=flags, environ=environ, project=project, user=user)


def parse_toml(content: bytes, name: str) -> dict[str, Any]:
    """The tables of a TOML file; whatever is wrong with it names the file."""
    from bridgehead.contract.fencing import read_toml

    try:
        return read_toml(content.decode("utf-8"))
    except (
        ValueError,
        RecursionError,
    ) as error:  # also numbers too long and nesting too deep
        raise ConfigError(
            f"{name} is not valid TOML: {error}", hint="correct that line"
        ) from error


def _read(path: Path, trust: TrustedFiles | None) -> SettingsFile | None:
    if not path.exists():
        return None
    content = read_bounded(path, MAX_SETTINGS_BYTES)
    trusted = trust is None or trust.holds(path, content)
    return SettingsFile(str(path), parse_toml(content, str(path)), trusted)
