"""Edit the allowed-signers file, and name signing keys (rigs §8 trust, §10)."""

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
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
        key = f"{self.key_type} {self.blob}"
        return f"{key} {self.comment}" if self.comment else key


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
    """Return the public key in a text, or raise KeyInvalid.

    Whether its blob is sound is for ssh-keygen to check.
    """
    if "PRIVATE KEY" in text:
        raise KeyInvalid("it is a private key")
    read = _PUBLIC_KEY.fullmatch(text)
    if read is None:
        raise KeyInvalid("expected one line: type, key and an optional comment")
    return PublicKey(read[1], read[2], (read[3] or "").strip())


def signers(text: str) -> Iterator[Signer]:
    """Yield the signers in a file; lines that make no sense are left out."""
    for line in text.splitlines():
        signer = _read_line(line)
        if signer is not None:
            yield signer


def with_signer(
    text: str, principal: str, key: PublicKey, since: int | None = None
) -> str:
    """Return the file with one more signer.

    Raise UserError for a name the file cannot hold, and for a key that is in it.
    `since` is how many commits there were already: unsigned ones are not held
    against a signer.
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
    """Return the file without the keys of a signer; other names on a line keep theirs.

    Raise NotFound if the signer is not in the file.
    """
    lines = text.splitlines(keepends=True)
    remaining = "".join(_line_without(line, principal) for line in lines)
    if remaining == text:
        raise NotFound(f'trust: no signer "{principal}" in the allowed-signers file')
    return remaining


def pins(text: str) -> list[Pin]:
    """Return the keys a file trusts, each with everybody it is trusted for."""
    found: dict[str, Pin] = {}
    for signer in signers(text):
        fingerprint = fingerprint_of(f"{signer.key.key_type} {signer.key.blob}")
        if fingerprint is None:
            continue
        dated = _SINCE.search(signer.key.comment)
        since = int(dated[1]) if dated else ARRIVING
        before = found.get(fingerprint, Pin(fingerprint, ()))
        principals = (*before.principals, *signer.principals.split(","))
        found[fingerprint] = Pin(fingerprint, principals, min(before.since, since))
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
    if signer is None:
        return line
    names = signer.principals.split(",")
    if principal not in names:
        return line
    others = [name for name in names if name != principal]
    if not others:
        return ""
    return line.replace(signer.principals, ",".join(others), 1)


def key_name(
    key: str,
    *,
    key_format: str,
    program: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Return the fingerprint of the key that `user.signingkey` names.

    If there is none, return the text itself.
    """
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
    """Return the fingerprint of an SSH public key; None if ssh-keygen refuses it."""
    command = ["ssh-keygen", "-l", "-f", "-"]
    output = _output(command, public_key.strip() + "\n", environment)
    return _first(_SSH_FINGERPRINT, output)


def ssh_key_text(key: str) -> str | None:
    """Return the public key that `user.signingkey` names, as `type blob`.

    Return None if it names none.
    """
    literal = _LITERAL_KEY.fullmatch(key.strip())
    text = literal[1] if literal else _key_file_text(key)
    try:
        public_key = parse_public_key(text)
    except KeyInvalid:
        return None
    return f"{public_key.key_type} {public_key.blob}"


def _key_file_text(key: str) -> str:
    """Return the text of a public key file, which may be named without its `.pub`."""
    path = Path(key).expanduser()
    for file in (path.with_name(path.name + ".pub"), path):
        try:
            return read_bounded(file, _MAX_KEY_BYTES).decode("utf-8", "replace")
        except FileError:
            continue
    return ""


def make_ssh_key(path: Path, comment: str) -> None:
    """Make an Ed25519 key pair without a passphrase, or raise KeyInvalid.

    The files are `path` and `path`.pub.
    """
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
    command = ["ssh-keygen", "-l", "-f", str(Path(key).expanduser())]
    return _first(_SSH_FINGERPRINT, _output(command, "", environment))


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return found[1] if found else None


def _output(
    command: Sequence[str], stdin: str, environment: Mapping[str, str] | None
) -> str:
    """Return what a program prints; nothing if it is missing, fails or hangs."""
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
    if finished.returncode != 0:
        return ""
    return finished.stdout.decode("utf-8", "replace")
