"""Names of signing keys that mean the same on every machine (rigs §10).

`user.signingkey` is often a local path, which says nothing elsewhere; what travels in `attested_by`, and what git
reports about a signature, is the fingerprint.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from bridgehead.host.child import run_child

_LITERAL_KEY = re.compile(r"(?:key::)?((?:ssh|ecdsa|sk)-\S+ .+)", re.DOTALL)
_SSH_FINGERPRINT = re.compile(r"^\d+ (SHA256:[A-Za-z0-9+/=]+) ", re.MULTILINE)
_COLON_FINGERPRINT = re.compile(r"^fpr:(?:[^:\n]*:){8}([0-9A-F]+):", re.MULTILINE)
_TIMEOUT_SECONDS = 20.0


def key_name(
    key: str, *, key_format: str, program: str | None = None, environment: Mapping[str, str] | None = None
) -> str:
    """Return the fingerprint of the key that `user.signingkey` names, or that text itself where none can be found."""
    if key_format == "ssh":
        found = _ssh_key_fingerprint(key, environment)
    else:
        tool = program or ("gpgsm" if key_format == "x509" else "gpg")
        found = _colon_fingerprint(tool, key, environment)
    return found or key


def public_key_fingerprint(public_key: str, environment: Mapping[str, str] | None = None) -> str | None:
    """Return the fingerprint of an SSH public key given as text; None if ssh-keygen does not take it for one."""
    return _first(
        _SSH_FINGERPRINT, _output(["ssh-keygen", "-l", "-f", "-"], public_key.strip() + "\n", environment)
    )


def _ssh_key_fingerprint(key: str, environment: Mapping[str, str] | None) -> str | None:
    literal = _LITERAL_KEY.fullmatch(key.strip())
    if literal:
        return public_key_fingerprint(literal[1], environment)
    path = str(Path(key).expanduser())
    return _first(_SSH_FINGERPRINT, _output(["ssh-keygen", "-l", "-f", path], "", environment))


def _colon_fingerprint(program: str, key: str, environment: Mapping[str, str] | None) -> str | None:
    command = [program, "--batch", "--with-colons", "--list-secret-keys", "--", key.rstrip("!")]
    return _first(_COLON_FINGERPRINT, _output(command, "", environment))


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return found[1] if found else None


def _output(command: Sequence[str], stdin: str, environment: Mapping[str, str] | None) -> str:
    """Return what a program prints; nothing if it is missing, fails or does not come back."""
    try:
        finished = run_child(
            command,
            stdin_bytes=stdin.encode("utf-8", "surrogateescape"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment) if environment is not None else None,
            timeout=_TIMEOUT_SECONDS,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""
    return finished.stdout.decode("utf-8", "replace") if finished.returncode == 0 else ""
