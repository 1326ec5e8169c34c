"""Checks of settings files and of who may read the user's files."""

from __future__ import annotations

import stat
import sys
from functools import partial
from pathlib import Path
from shlex import quote

from bridgehead.config.files import MAX_SETTINGS_BYTES, TrustedFiles
from bridgehead.config.places import Places
from bridgehead.config.resolve import Settings
from bridgehead.doctor.diagnosis import Diagnosis, Group, State
from bridgehead.host.files import read_bounded

OTHERS = stat.S_IRWXG | stat.S_IRWXO


def check_python() -> Diagnosis:
    version = ".".join(map(str, sys.version_info[:3]))
    return Diagnosis(Group.MACHINE, "python.found", State.FINE, f"Python {version}")


def check_settings(places: Places, settings: Settings) -> list[Diagnosis]:
    """One line per warning about the settings files, or one that says they are fine."""
    if not settings.warnings:
        return [Diagnosis(Group.MACHINE, "settings.fine", State.FINE, "settings are in order")]
    return [_settings_warning(places, warning) for warning in settings.warnings]


def check_trust(places: Places) -> list[Diagnosis]:
    """Trusted files that have changed or gone since they were trusted."""
    found: list[Diagnosis] = []
    trust = TrustedFiles(places.trust_file)
    for name in trust.all():
        path = Path(name)
        if not path.is_file():
            found.append(
                Diagnosis(
                    Group.MACHINE,
                    "trust.gone",
                    State.LOOK,
                    f"{name} is trusted but no longer there",
                    fix=f"bridgehead config trust --remove {quote(name)}",
                    mend=partial(trust.remove, path),
                )
            )
        elif not trust.holds(path, read_bounded(path, MAX_SETTINGS_BYTES)):
            message = f"{name} has changed since it was trusted, so it is not trusted now"
            fix = f"read it, then: bridgehead config trust {quote(name)}"
            found.append(Diagnosis(Group.MACHINE, "trust.changed", State.LOOK, message, fix=fix))
    return found


def check_private(places: Places) -> list[Diagnosis]:
    """Files of the user's that others on this machine could read."""
    private = [places.config, places.data, places.record, places.trust_file]
    return [diagnosis for path in private if (diagnosis := check_mode(path)) is not None]


def check_mode(path: Path) -> Diagnosis | None:
    """None when `path` is absent or closed to others."""
    try:
        mode = path.lstat().st_mode
    except OSError:  # absent, or out of our reach
        return None
    if stat.S_ISLNK(mode) or not mode & OTHERS:
        return None
    wanted = 0o700 if stat.S_ISDIR(mode) else 0o600
    return Diagnosis(
        Group.MACHINE,
        "permissions.open",
        State.LOOK,
        f"{path} can be read by others (mode {stat.S_IMODE(mode):04o})",
        fix=f"chmod {wanted:04o} {quote(str(path))}",
        mend=lambda: path.chmod(wanted),
    )


def _settings_warning(places: Places, warning: str) -> Diagnosis:
    untrusted = "not trusted" in warning
    kind = "settings.untrusted" if untrusted else "settings.ignored"
    fix = (
        f"bridgehead config trust {quote(str(places.project_file))}"
        if untrusted
        else "correct the file it names"
    )
    return Diagnosis(Group.MACHINE, kind, State.LOOK, warning, fix=fix)
