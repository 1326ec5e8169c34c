"""Where things are on this machine: the project's root, the user's configuration and data directories."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

PROJECT_FILE = "bridgehead.toml"
_ROOT_MARKS = (PROJECT_FILE, ".bridgehead", ".git")


class Places:
    """The directories of one command, and the files we keep in them."""

    def __init__(
        self, project: Path, config: Path, data: Path, cache: Path | None = None
    ) -> None:
        self.project = project
        """Root of the project the command runs in: the nearest directory with a mark, else the working directory."""
        self.config = config
        self.data = data
        self.cache = cache or data / "cache"
        """What can be made again: nothing is lost when it is emptied."""

    @property
    def project_file(self) -> Path:
        return self.project / PROJECT_FILE

    @property
    def user_file(self) -> Path:
        return self.config / "config.toml"

    @property
    def trust_file(self) -> Path:
        return self.config / "trusted.json"

    @property
    def record(self) -> Path:
        return self.data / "record.db"


def find_places(cwd: Path, environ: Mapping[str, str]) -> Places:
    """The directories for a command run in `cwd`. BRIDGEHEAD_HOME puts configuration and data under one roof."""
    home = environ.get("BRIDGEHEAD_HOME")
    if home:
        return Places(
            project_root(cwd),
            Path(home) / "config",
            Path(home) / "data",
            Path(home) / "cache",
        )
    # Two variables; the library would cost every command 10 ms.
    if "linux" in sys.platform:
        config = _xdg(environ.get("XDG_CONFIG_HOME"), "~/.config")
        data = _xdg(environ.get("XDG_DATA_HOME"), "~/.local/share")
        return Places(
            project_root(cwd),
            config,
            data,
            _xdg(environ.get("XDG_CACHE_HOME"), "~/.cache"),
        )
    from platformdirs import PlatformDirs

    user = PlatformDirs("bridgehead", appauthor=False)
    return Places(
        project_root(cwd),
        user.user_config_path,
        user.user_data_path,
        user.user_cache_path,
    )


def _xdg(named: str | None, default: str) -> Path:
    """Our directory in one of the XDG ones; a relative path counts as none (XDG base directory specification)."""
    base = Path(named or "")
    return (base if base.is_absolute() else Path(default).expanduser()) / "bridgehead"


def project_root(cwd: Path) -> Path:
    """The nearest directory upwards that marks a project; `cwd` itself when there is none."""
    for directory in (cwd, *cwd.parents):
        if any((directory / mark).exists() for mark in _ROOT_MARKS):
            return directory
    return cwd
