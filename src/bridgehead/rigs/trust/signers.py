"""The allowed-signers file, and names of signing keys that mean the same on every machine (rigs §8 trust, §10)."""

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from bridgehead.errors import FileError, NotFound, UserError
from bridgehead.host.child import run_child
from bridgehead.host.files import read_bounded
from bridgehead.rigs.trust.membership import ARRIVING, Pin, fingerprint_of

NAMESPACES = 'namespaces="git"'
_FIELD = re.compile(r'(?:[^\s"]|"[^"]*")+')
_PRINCIPAL = re.compile(r'[^\s",#][^\s",]*')
_KEY_TYPE = re.compile(r"(?:ssh|ecdsa|sk)-[a-z0-9@.-]+")
_PUBLIC_KEY = re.compile(
    rf"\s*({_KEY_TYPE.pattern})[ \t]+([A-Za-z0-9+/]+=*)(?:[ \t]+([^\r\n]*))?\s*"
)
_LITERAL_KEY = re.compile(r"(?:key::)?((?:ssh|ecdsa|sk)-\S+ .+)", re.DOTALL)
_SSH_FINGERPRINT = re.compile(r"^\d+ (SHA256:[A-Za-z0-9+/=]+) ", re.MULTILINE)
_COLON_FINGERPRINT = re.compile(r"^fpr:(?:[^:\n]*:){8}([0-9A-F]+):", re.MULTILINE)
_TIMEOUT_SECONDS = 20.0
_MAX_KEY_BYTES = 1 << 20
# Commits that were here when a key was pinned.
_SINCE = re.compile(r"(?:^|\s)since=(\d{1,15})$")


class PublicKey(NamedTuple):
    """An SSH public key as it stands in a `.pub` file."""

    key_type: str
    blob: str
    comment: str = ""

    def __str__(self) -> str:
        return f"{self.key_type} {self.blob}" + (
            f" {self.comment}" if self.comment else ""
        )


class Signer(NamedTuple):
    """One line of the file: whose key it is and what it is good for."""

    principals: str
    options: str
    key: PublicKey


class KeyInvalid(UserError):
    """What was given is not a public key."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"that is not an SSH public key ({reason})",
            hint="give a .pub file or its text; a private key is never needed",
        )


def parse_public_key(text: str) -> PublicKey:
    """Read one public key, or raise KeyInvalid. Whether its blob is sound is for ssh-keygen to say."""
    if "PRIVATE KEY" in text:
        raise KeyInvalid("it is a private key")
    read = _PUBLIC_KEY.fullmatch(text)
    if read is None:
        raise KeyInvalid("expected one line: type, key and an optional comment")
    return PublicKey(read[1], read[2], (read[3] or "").strip())


def signers(text: str) -> Iterator[Signer]:
    """Yield what the file says, leaving out comments and lines that make no sense."""
    yield from filter(None, map(_read_line, text.splitlines()))


def with_signer(
    text: str, principal: str, key: PublicKey, since: int | None = None
) -> str:
    """Return the file with one more signer; a name it cannot hold and a key that is in it are refused.

    `since` is how many commits were there already: those it did not sign are not held against it.
    """
    if not _PRINCIPAL.fullmatch(principal):
        raise UserError(
            f'trust: "{principal}" is not a valid principal; give one e-mail address '
            "or rig id without blanks or quotes"
        )
    for known in signers(text):
        if known.key.blob == key.blob and principal in known.principals.split(","):
            raise UserError(
                f'trust: this key of "{principal}" is already in the allowed-signers '
                "file"
            )
    before = text if not text or text.endswith("\n") else text + "\n"
    dated = "" if since is None else f" since={since}"
    return f"{before}{principal} {NAMESPACES} {key}{dated}\n"


def without_signer(text: str, principal: str) -> str:
    """Return the file without any key of a signer that is in it; other names on a line keep theirs."""
    kept = "".join(
        _line_without(line, principal) for line in text.splitlines(keepends=True)
    )
    if kept == text:
        raise NotFound(f'trust: no signer "{principal}" in the allowed-signers file')
    return kept


def pins(text: str) -> list[Pin]:
    """Return the keys the file trusts, each with everybody it is trusted for and since when they must sign."""
    found: dict[str, Pin] = {}
    for signer in signers(text):
        name = fingerprint_of(f"{signer.key.key_type} {signer.key.blob}")
        if name is not None:
            dated = _SINCE.search(signer.key.comment)
            since = int(dated[1]) if dated else ARRIVING
            before = found.get(name, Pin(name, ()))
            principals = (*before.principals, *signer.principals.split(","))
            found[name] = Pin(name, principals, min(before.since, since))
    return list(found.values())


def _read_line(line: str) -> Signer | None:
    if line.lstrip().startswith("#"):
        return None
    fields = _FIELD.findall(line)
    for at in (1, 2):
        if len(fields) > at + 1 and _KEY_TYPE.fullmatch(fields[at]):
            options = fields[1] if at == 2 else ""
            key = PublicKey(fields[at], fields[at + 1], " ".join(fields[at + 2 :]))
            return Signer(fields[0].strip('"'), options, key)
    return None


def _line_without(line: str, principal: str) -> str:
    signer = _read_line(line)
    if signer is None or principal not in signer.principals.split(","):
        return line
    others = ",".join(
        name for name in signer.principals.split(",") if name != principal
    )
    return line.replace(signer.principals, others, 1) if others else ""


def key_name(
    key: str,
    *,
    key_format: str,
    program: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Return the fingerprint of the key that `user.signingkey` names, or that text itself where none can be found."""
    if key_format == "ssh":
        return _ssh_key_fingerprint(key, environment) or key
    tool = program or ("gpgsm" if key_format == "x509" else "gpg")
    command = [
        tool,
        "--batch",
        "--with-colons",
        "--list-secret-keys",
        "--",
        key.rstrip("!"),
    ]
    return _first(_COLON_FINGERPRINT, _output(command, "", environment)) or key


def public_key_fingerprint(
    public_key: str, environment: Mapping[str, str] | None = None
) -> str | None:
    """Return the fingerprint of an SSH public key given as text; None if ssh-keygen does not take it for one."""
    return _first(
        _SSH_FINGERPRINT,
        _output(
            ["ssh-keygen", "-l", "-f", "-"], public_key.strip() + "\n", environment
        ),
    )


def ssh_key_text(key: str) -> str | None:
    """Return the public key that `user.signingkey` names, as `type blob`; None if there is no such text."""
    literal = _LITERAL_KEY.fullmatch(key.strip())
    text = literal[1] if literal else None
    path = Path(key).expanduser()
    for place in (path.with_name(path.name + ".pub"), path) if text is None else ():
        with suppress(FileError):
            text = read_bounded(place, _MAX_KEY_BYTES).decode("utf-8", "replace")
            break
    try:
        read = parse_public_key(text or "")
    except KeyInvalid:
        return None
    return f"{read.key_type} {read.blob}"


def make_ssh_key(path: Path, comment: str) -> None:
    """Make an Ed25519 key pair without a passphrase at `path` and `path`.pub, or raise KeyInvalid."""
    command = [
        "ssh-keygen",
        "-q",
        "-t",
        "ed25519",
        "-N",
        "",
        "-C",
        comment,
        "-f",
        str(path),
    ]
    _output(command, "", None)
    if not path.with_name(path.name + ".pub").is_file():
        raise KeyInvalid("ssh-keygen failed; is OpenSSH installed?")


def _ssh_key_fingerprint(key: str, environment: Mapping[str, str] | None) -> str | None:
    literal = _LITERAL_KEY.fullmatch(key.strip())
    if literal:
        return public_key_fingerprint(literal[1], environment)
    path = str(Path(key).expanduser())
    return _first(
        _SSH_FINGERPRINT, _output(["ssh-keygen", "-l", "-f", path], "", environment)
    )


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return found[1] if found else None


def _output(
    command: Sequence[str], stdin: str, environment: Mapping[str, str] | None
) -> str:
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
    return (
        finished.stdout.decode("utf-8", "replace") if finished.returncode == 0 else ""
    )
