"""Every error a bridgehead command can end with.

    BridgeheadError            exit 2   ours, or the world's
      UserError                exit 1   the request cannot be honoured as it was made
        ConfigError            a settings file or value is unusable
        NotFound               the named thing is not there
        AlreadyAnswered        a pending item takes one answer
        SecretRefused          text that looks like it holds a secret was kept back
      ProtocolError            the far side broke its contract
      ProcessError             a program could not be run
      FileError                a file could not be read or written safely
      LockTimeout              another process holds the lock
      StoreError               the record could not be used (kinds: control_plane/stores/failures.py)

The raiser passes facts, the class writes the sentence; `hint` is something one can do. Parts add their own
classes below these. Only the surfaces (cli, mcp_server, dashboard) turn them into codes, tool errors, pages.
"""

from __future__ import annotations

from bridgehead.exit_codes import ExitCode


def plural(number: int, noun: str) -> str:
    """`1 file`, `2 files`: how every message counts."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def shortened(text: str, most: int) -> str:
    """`text`, or as much of it as fits into `most` characters with a sign that there is more."""
    return text if len(text) <= most else text[: most - 1] + "…"


class BridgeheadError(Exception):
    """Something that ends a command: one sentence, and a hint to act on where there is one."""

    exit_code = ExitCode.FAILURE

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UserError(BridgeheadError):
    """The request cannot be honoured as it was made; nothing was changed."""

    exit_code = ExitCode.USER


class ConfigError(UserError):
    """A settings file or value is unusable."""


class NotFound(UserError):
    """The named thing does not exist."""


class AlreadyAnswered(UserError):
    """A pending item was answered before; answers are taken once."""

    def __init__(self, item_id: str, *, by: str | None, at: str | None) -> None:
        who = f" by {by}" if by else ""
        when = f" at {at}" if at else ""
        super().__init__(
            f"{item_id} was already answered{who}{when}; the first answer counts",
            hint=f"`bridgehead pending show {item_id}` shows the answer",
        )
        self.item_id = item_id


class SecretRefused(UserError):
    """Text that looks like it holds a secret was kept back."""

    def __init__(self, where: str, kind: str, line: int) -> None:
        super().__init__(
            f"{where}: line {line} looks like a secret ({kind}); nothing was sent",
            hint="remove it, or repeat with --allow-secret if it is not one",
        )
        self.kind = kind
        self.line = line


class ProtocolError(BridgeheadError):
    """The far side broke its contract."""


class ProcessError(BridgeheadError):
    """A program could not be started or talked to."""


class FileError(BridgeheadError):
    """A file could not be read or written safely."""


class LockTimeout(BridgeheadError):
    """Another process holds a lock for longer than we were ready to wait."""

    def __init__(
        self, path: str, waited_seconds: float, holder: str | None = None
    ) -> None:
        held = f" (held by {holder})" if holder else ""
        super().__init__(
            f"{path} is locked by another process{held}; gave up after {waited_seconds:g} s",
            hint="wait for the other command to end, then retry",
        )


class StoreError(BridgeheadError):
    """The record could not be used."""


def for_this_installation(hint: str) -> str:
    """The hint with `pip install 'bridgehead[…]'` as the installer and the source of this installation want it."""
    if "pip install 'bridgehead[" not in hint:
        return hint
    import json
    import sys
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        found = distribution("bridgehead")
        url = json.loads(found.read_text("direct_url.json") or "{}").get("url", "")
        usual = (
            "uv pip install"
            if (found.read_text("INSTALLER") or "").strip() == "uv"
            else "pip install"
        )
    except (PackageNotFoundError, ValueError):
        url, usual = "", "pip install"
    tools = {
        "/uv/tools/": "uv tool install",
        "/uv/archive-": "uv tool install",
        "/pipx/": "pipx install --force",
    }
    tool = next((words for mark, words in tools.items() if mark in sys.prefix), usual)
    source = url.removeprefix("file://") if url.startswith("file://") else "bridgehead"
    return hint.replace("pip install 'bridgehead[", f"{tool} '{source}[")
