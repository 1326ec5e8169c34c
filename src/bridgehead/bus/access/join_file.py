"""The join file: all a participant needs to find its bridge and prove who it is (bus
§17). Mode 0600.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.bus.access.credentials import KEY_BYTES
from bridgehead.bus.participants.record import PARTICIPANT_ID, check_participant_id
from bridgehead.bus.settings import check_bridge_url, url_problem
from bridgehead.bus.wire.frames import from_base64
from bridgehead.errors import FileError, UserError
from bridgehead.host.files import read_bounded, write_atomic

MAX_BYTES: Final = 16 * 1024
LEAVES_OUT_ALL: Final = "*\n"
"""The `.gitignore` of a folder from which nothing is committed."""
_FINGERPRINT: Final = re.compile(r"[0-9A-Fa-f]{64}")


class Pin(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a bridge is recognised by: its key or an authority, which stay when a
    certificate is renewed.
    """

    key_sha256: str | None = None
    """Of the public key (SubjectPublicKeyInfo, DER)."""
    ca: str | None = None
    """Certificate (PEM) of the authority that vouches for the bridge under the name in
    the URL.
    """
    cert_sha256: str | None = None
    """Of one certificate, as join files used to say it."""

    @property
    def is_exact(self) -> bool:
        """Return whether it identifies the bridge itself, under whatever name."""
        return self.key_sha256 is not None or self.cert_sha256 is not None


class JoinFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `bus participant add` writes and every client reads."""

    v: int
    url: str
    participant: str
    key: str | None = None
    token: str | None = None
    cert_sha256: str | None = None
    key_sha256: str | None = None
    ca: str | None = None
    alternatives: tuple[str, ...] = ()
    """Other bridges of the deployment that know this participant, tried where the first
    does not answer.
    """

    @property
    def urls(self) -> tuple[str, ...]:
        return (self.url, *self.alternatives)

    @property
    def pin(self) -> Pin:
        return Pin(self.key_sha256, self.ca, self.cert_sha256)


def read_join_file(path: Path) -> JoinFile:
    """Read and check a join file."""
    try:
        join = msgspec.json.decode(read_bounded(path, MAX_BYTES), type=JoinFile)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadJoinFile(path, str(error)) from error
    if problem := _problem(join):
        raise BadJoinFile(path, problem)
    return join


def write_join_file(path: Path, join: JoinFile) -> None:
    """Write it for its owner only.

    Another participant's or some other file is not replaced.
    """
    check_participant_id(join.participant)
    for url in join.urls:
        check_bridge_url(url)
    refuse_work_tree(path)
    if path.exists():
        try:
            owner = read_join_file(path).participant
        except BadJoinFile:
            owner = None
        if owner != join.participant:
            raise UserError(
                f"{path} exists and is not a join file of this participant; nothing "
                "was added",
                hint="choose another with --join",
            )
    write_atomic(
        path,
        msgspec.json.format(msgspec.json.encode(join), indent=2) + b"\n",
        private=True,
    )


def refuse_work_tree(path: Path) -> None:
    """Refuse a place in a git work tree, where the next `git add` would publish the
    key.
    """
    folder = path.absolute().parent
    try:
        if read_bounded(folder / ".gitignore", MAX_BYTES) == LEAVES_OUT_ALL.encode():
            return
    except FileError:
        pass  # there is none, so nothing keeps the file out of a commit
    for parent in (folder, *folder.parents):
        if (parent / ".git").exists():
            raise UserError(
                f"{path} is in the git work tree {parent}, and a join file holds a key; "
                "nothing was written",
                hint=(
                    "omit --join to keep it beside the bridge's state, or choose a "
                    "place outside"
                ),
            )


def _problem(join: JoinFile) -> str | None:
    if join.v != 1:
        return f"version {join.v} is not known here"
    for url in join.urls:
        if problem := url_problem(url):
            return f"url {problem}"
    if PARTICIPANT_ID.fullmatch(join.participant) is None:
        return "participant is not a valid participant ID"
    if (join.key is None) == (join.token is None):
        return "it needs either a key or a token"
    if join.key is not None and from_base64(join.key, KEY_BYTES) is None:
        return "key is not a device key"
    for name in ("cert_sha256", "key_sha256"):
        if _FINGERPRINT.fullmatch(getattr(join, name) or "0" * 64) is None:
            return f"{name} is not a fingerprint"
    return None


class BadJoinFile(UserError):
    """A file given as join file is none."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"{path} is not a usable join file: {problem}",
            hint=(
                "create one with `bridgehead bus participant add ID` on the bridge's "
                "machine"
            ),
        )
