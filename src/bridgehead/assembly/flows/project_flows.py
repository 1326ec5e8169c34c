"""Which flows a client that is no person may start: those of the project that git
tracks or the user trusts, by name.

`flow_refusal` decides; the rest collects what it decides by.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final, NamedTuple

from bridgehead.errors import UserError
from bridgehead.host.command import Command
from bridgehead.host.files import read_bounded
from bridgehead.host.process import run

if TYPE_CHECKING:
    from bridgehead.assembly.application import Assembly

_GIT_SECONDS: Final = 30.0
_MOST_BYTES: Final = 1 << 20
_INSTALLED: Final = re.compile(r"[A-Za-z][\w-]{0,99}", re.ASCII)
_QUIET_GIT: Final = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")


class FlowFile(NamedTuple):
    """What is known of a file that a flow is named by."""

    name: str
    is_plain: bool
    """A path below the folder: not absolute, without `..`."""
    is_inside: bool
    """It lies in the project, and no part of its path is a link."""
    is_tracked: bool = False
    is_trusted: bool = False


class FlowNotOffered(UserError):
    """A flow that may not be started from here."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(
            f"flow {name!r} was not started: {reason}",
            hint=(
                "a person runs it in a shell, or trusts it with: bridgehead config "
                "trust FILE"
            ),
        )


def flow_refusal(file: FlowFile) -> str | None:
    """Return why the flow in a file may not be started; None if it may."""
    if not file.is_plain:
        return "a flow is named by a path below the project, without `..`"
    if not file.is_inside:
        return "it does not exist, or is outside of the project or behind a link"
    if not file.is_tracked and not file.is_trusted:
        return "its file is neither tracked by git nor trusted"
    return None


def refuse_foreign_flow(assembly: Assembly, source: str) -> None:
    """Raise FlowNotOffered unless `source` names a flow of the project, or an installed
    one.
    """
    path, _, attribute = source.rpartition(":")
    named = path if path.endswith(".py") else source
    if not named.endswith(".py"):
        if not _INSTALLED.fullmatch(source):
            raise FlowNotOffered(source, "this is not the name of a flow")
        return
    reason = flow_refusal(_look_at(assembly, named))
    if reason is None and attribute and path.endswith(".py"):
        reason = (
            None if attribute.isidentifier() else f"{attribute!r} is not a function"
        )
    if reason is not None:
        raise FlowNotOffered(source, reason)


def relative_source(assembly: Assembly, source: str) -> str:
    """Return a source that a journal recorded as it is named from the present folder,
    where it lies below it.
    """
    path, separator, attribute = source.rpartition(":")
    is_function = path.endswith(".py")
    named = path if is_function else source
    try:
        below = Path(named).relative_to(assembly.cwd)
    except ValueError:
        return source
    return f"{below}{separator}{attribute}" if is_function else str(below)


def _look_at(assembly: Assembly, named: str) -> FlowFile:
    pure = PurePath(named)
    is_plain = not pure.is_absolute() and ".." not in pure.parts and "\0" not in named
    if not is_plain:
        return FlowFile(named, False, False)
    file = assembly.cwd / named
    project = assembly.places.project
    if not _lies_inside(file, project):
        return FlowFile(named, True, False)
    trusted = assembly.trusted_files.holds(file, read_bounded(file, _MOST_BYTES))
    return FlowFile(named, True, True, _is_tracked(file, project), trusted)


def _lies_inside(file: Path, project: Path) -> bool:
    """Return whether a regular file is in the project, with no link in its path."""
    real = Path(os.path.realpath(project))
    expected = real / os.path.relpath(file, project)
    return file.is_file() and Path(os.path.realpath(file)) == expected


def _is_tracked(file: Path, project: Path) -> bool:
    below = os.path.relpath(file, project)
    words = ("ls-files", "-z", "--error-unmatch", "--", f":(literal){below}")
    command = Command(("git", *_QUIET_GIT, "-C", str(project), *words))
    listed = run(command, timeout_seconds=_GIT_SECONDS, idle_seconds=None)
    return listed.exit_code == 0 and below in listed.text().split("\0")
