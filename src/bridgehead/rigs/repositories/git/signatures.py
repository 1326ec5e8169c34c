"""Judge the signatures of commits with git (rigs §10).

The allowed-signers file is always named explicitly.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from bridgehead.rigs.repositories.git.clone import Clone
from bridgehead.rigs.repositories.git.history import read_objects
from bridgehead.rigs.repositories.records import UNSIGNED, SignatureCheck
from bridgehead.rigs.trust.attestation import Signature

_FORMAT = "--format=%H%x00%G?%x00%GS%x00%GF%x00%GP%x00%GK%x00"
_FIELDS = 6
# git's U is a good signature by somebody nobody vouches for; X and Y are past their
# time; E and N could not be checked.
_BAD = SignatureCheck(Signature.BAD)
_SIGNATURE = re.compile(rb"\ngpgsig(?:-sha256)? ([^\n]*)")
_KNOWN_FORMS = frozenset(
    f"-----BEGIN {form}-----".encode()
    for form in ("SSH SIGNATURE", "PGP SIGNATURE", "PGP MESSAGE", "SIGNED MESSAGE")
)
_JUDGEMENTS = {"G": Signature.KNOWN, "B": Signature.BAD, "R": Signature.BAD}
_GOOD = frozenset("GU")


def check_signatures(
    clone: Clone, commits: Sequence[str], allowed_signers: Path | None
) -> dict[str, SignatureCheck]:
    """Return the judgement on every commit, signed or not."""
    checks = dict.fromkeys(commits, UNSIGNED)
    readable = []
    for commit, raw in read_objects(clone.git, commits).items():
        headers = (raw or b"").partition(b"\n\n")[0]
        signature = _SIGNATURE.search(headers)
        if signature and signature[1] in _KNOWN_FORMS:
            readable.append(commit)
        elif signature:
            checks[commit] = _BAD
    checks.update(_judge(clone, readable, allowed_signers))
    return checks


def _judge(
    clone: Clone, commits: Sequence[str], allowed_signers: Path | None
) -> dict[str, SignatureCheck]:
    """Let git check all of them at once.

    If it chokes, check one by one, so that only the one it chokes on is bad.
    """
    if not commits:
        return {}
    lines = "".join(f"{commit}\n" for commit in commits)
    answer = clone.git.ask(
        "log",
        "--no-walk=unsorted",
        "--stdin",
        "--no-color",
        "--no-notes",
        _FORMAT,
        stdin=lines.encode(),
        settings=(f"gpg.ssh.allowedSignersFile={allowed_signers or '/dev/null'}",),
    )
    if answer.code != 0:
        if len(commits) == 1:
            return {commits[0]: _BAD}
        checks: dict[str, SignatureCheck] = {}
        for commit in commits:
            checks.update(_judge(clone, [commit], allowed_signers))
        return checks
    return _read_checks(answer.fields)


def _read_checks(fields: Sequence[str]) -> dict[str, SignatureCheck]:
    checks: dict[str, SignatureCheck] = {}
    for start in range(0, len(fields), _FIELDS):
        row = fields[start : start + _FIELDS]
        commit = row[0].lstrip("\n")
        checks[commit] = _read_check(row)
    return checks


def _read_check(row: Sequence[str]) -> SignatureCheck:
    _, code, principal, fingerprint, primary, key = row
    spellings = dict.fromkeys([fingerprint, primary, key])
    names = tuple(name for name in spellings if name)
    return SignatureCheck(
        _JUDGEMENTS.get(code, Signature.STRANGER),
        _address(principal),
        names,
        holds=code in _GOOD,
    )


def _address(signer: str) -> str | None:
    """Return the address of an OpenPGP user id, or the principals of an SSH signer."""
    _, bracket, rest = signer.rpartition("<")
    is_user_id = bracket and rest.endswith(">")
    address = rest.rstrip(">") if is_user_id else signer
    return address or None
