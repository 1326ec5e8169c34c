"""What `git config` says for this clone, read in one call and asked many times."""

from __future__ import annotations

import re
from pathlib import Path

from bridgehead.rigs.repositories.git_command import Git, demand

_REMOTE = re.compile(r"remote\..+\.url", re.DOTALL)
_TRUE = frozenset({"true", "yes", "on", "1"})


class GitSettings:
    """The effective configuration; keys are spelled `section.name` in lower case, `section.Sub.name` with one."""

    def __init__(self, values: dict[str, str]) -> None:
        self._values = values

    @classmethod
    def read(cls, git: Git) -> GitSettings:
        """Ask git; later files override earlier ones, as they do for git itself."""
        values = {}
        answer = demand("config", git.ask("config", "--list", "-z", hooks_path_shown=True))
        for entry in answer.fields:
            key, separator, value = entry.partition("\n")
            values[key] = value if separator else "true"
        return cls(values)

    def get(self, key: str) -> str | None:
        """Return the value, None where it is unset or empty."""
        return self._values.get(key) or None

    def flag(self, key: str) -> bool:
        """Return a yes/no value, False where it is unset."""
        return self._values.get(key, "").strip().lower() in _TRUE

    def path(self, key: str) -> Path | None:
        """Return a path with `~` expanded."""
        value = self.get(key)
        return Path(value).expanduser() if value else None

    def remotes(self) -> set[str]:
        """Return the names of the remotes that have an address."""
        return {key[len("remote.") : -len(".url")] for key in self._values if _REMOTE.fullmatch(key)}

    def switched_off_drivers(self) -> tuple[str, ...]:
        """Return the settings that keep every configured filter from running (see git_command.py)."""
        drivers = {
            key[: key.rindex(".")] for key in self._values if key.startswith("filter.") and key.count(".") > 1
        }
        return tuple(
            f"{driver}.{what}"
            for driver in sorted(drivers)
            for what in ("clean=", "smudge=", "process=", "required=false")
        )
