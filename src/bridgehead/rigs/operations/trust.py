"""Who may sign: list, add and remove entries of the allowed-signers file (rigs §8 trust)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from bridgehead.errors import ConfigError, UserError
from bridgehead.host.files import read_bounded, write_atomic
from bridgehead.rigs.config import read_values, write_config
from bridgehead.rigs.envelope.names import CONFIG_PATH
from bridgehead.rigs.operations.verification import tracked_path
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.trust.signers import (
    KeyInvalid,
    Signer,
    parse_public_key,
    public_key_fingerprint,
    signers,
    with_signer,
    without_signer,
)
from bridgehead.rigs.views.result_format import LINE_PREFIX, stamped

DEFAULT_FILE = ".bridge/allowed_signers"
MAX_BYTES = 1 << 20


class Trusted(NamedTuple):
    """The signers of a file, after whatever was done to it."""

    file: str | None
    signers: tuple[tuple[str, str, str], ...]  # principals, key type, fingerprint

    def lines(self) -> list[str]:
        head = f"{LINE_PREFIX}trust signers={len(self.signers)}"
        return [head, *(f"principal={who} type={kind} key={mark}" for who, kind, mark in self.signers)]

    def json_object(self) -> dict[str, object]:
        listed = [{"principal": who, "type": kind, "fingerprint": mark} for who, kind, mark in self.signers]
        return stamped("trust", signers=listed)


def list_signers(rig: Rig) -> Trusted:
    """Whoever is trusted here, from whichever file is in force."""
    path = _configured(rig) or rig.repository.allowed_signers()
    if path is not None and (tracked := tracked_path(rig, path)):
        rig.tell(f"warning: {tracked} is tracked; none of these signers is trusted")
    return _shown(path)


def add_signer(rig: Rig, principal: str | None, key: str | None) -> Trusted:
    """Trust a key, given as text or as a .pub file; makes the file and names it in the configuration if need be."""
    if not principal or not key:
        raise UserError("trust add: <principal> and <key or .pub file> are required")
    public_key = parse_public_key(_key_text(key))
    if public_key_fingerprint(str(public_key)) is None:
        raise KeyInvalid("ssh-keygen does not read it")
    with rig.repository.lock():
        path = _configured(rig) or _name_default_file(rig)
        _refuse_tracked(rig, path)
        write_atomic(path, with_signer(_text(path), principal, public_key))
    return _shown(path)


def remove_signer(rig: Rig, principal: str | None) -> Trusted:
    """Stop trusting every key of a signer."""
    if not principal:
        raise UserError("trust remove: <principal> is required")
    with rig.repository.lock():
        path = _configured(rig)
        if path is None:
            raise ConfigError(
                f"trust: {CONFIG_PATH} names no allowed_signers file, so there is nothing of ours to edit",
                hint="a file that only git's configuration names is edited by hand",
            )
        write_atomic(path, without_signer(_text(path), principal))
    return _shown(path)


def _refuse_tracked(rig: Rig, path: Path) -> None:
    if tracked := tracked_path(rig, path):
        raise ConfigError(
            f"trust: {tracked} is tracked, so the others can change it, and it is not used; nothing was added",
            hint=f"git rm --cached {tracked}, look at what it holds, then repeat",
        )


def _configured(rig: Rig) -> Path | None:
    named = rig.config.allowed_signers
    return Path(rig.repository.root, named).expanduser() if named else None


def _name_default_file(rig: Rig) -> Path:
    values = read_values(rig.repository.read_file(CONFIG_PATH))
    text = write_config({**values, "allowed_signers": DEFAULT_FILE})
    rig.repository.write_file(CONFIG_PATH, text.encode(), replace=True)
    return Path(rig.repository.root, DEFAULT_FILE)


def _key_text(given: str) -> str:
    path = Path(given).expanduser()
    if path.is_file():
        return read_bounded(path, MAX_BYTES).decode("utf-8", "replace")
    return given


def _text(path: Path) -> str:
    return read_bounded(path, MAX_BYTES).decode("utf-8", "surrogateescape") if path.exists() else ""


def _shown(path: Path | None) -> Trusted:
    if path is None or not path.exists():
        return Trusted(None, ())
    return Trusted(str(path), tuple(_described(signer) for signer in signers(_text(path))))


def _described(signer: Signer) -> tuple[str, str, str]:
    fingerprint = public_key_fingerprint(str(signer.key)) or "unreadable"
    return signer.principals, signer.key.key_type, fingerprint
