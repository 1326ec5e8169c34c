"""Whether a value was drawn at random, or is a placeholder, a reference or an ordinary word."""

from __future__ import annotations

import math
import re

# Patterns are kept as text here and compiled when first used: commands that scan nothing should not pay for them.
_PLACEHOLDER = (
    rb"(?i)x{5}|\*{3}|\.{3}|<|>|\{\{|\$\{|\$\(|%\(|%s|example|placeholder|changeme|change[-_]me|replace[-_]?me|redacted"
    rb"|dummy|sample|insert[-_]|your[-_]|[-_]your|[-_]here\Z|not[-_]?a[-_]?(?:real[-_]?)?(?:key|secret|token)"
    rb"|1234567890|abcdefghij|deadbeef"
)
_COMMON = frozenset(
    (b"password", b"passwd", b"pass", b"pwd", b"secret", b"token", b"key", b"pw", b"xxx", b"x")
)
_UUID = rb"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
_HEX = rb"(?i)(?:0x)?[0-9a-f]{1,512}"
_TOKEN_CHARACTERS = rb"[A-Za-z0-9+/_.~=-]{1,512}"
_IDENTIFIER_CHARACTERS = rb"[A-Za-z0-9_.:/=-]{1,512}"
_CHECKSUM = rb"(?i)(?:sha[0-9]{1,3}|md5|h1)[-:]"
# How the usual encodings of a public key begin: EC, RSA, Ed25519, and the two of OpenSSH.
_PUBLIC_KEY = (
    rb"MF[kY]wEwYHKoZIzj0C|MHYwEAYHKoZIzj0C|MI[A-Za-z]{2}I?jANBgkqhkiG9w0BAQEF|MCowBQYDK2Vw|AAAA[BC]3NzaC1"
)
_CLASSES = (rb"[a-z]", rb"[A-Z]", rb"[0-9]", rb"[^A-Za-z0-9]")
_KINDS = bytes.maketrans(
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", b"a" * 26 + b"A" * 26 + b"0" * 10
)

MIN_DISTINCT = 8
MIN_RANDOM_LENGTH = 16
MIN_HEX_LENGTH = 32


def stands_for_secret(value: bytes) -> bool:
    """Tell whether `value` is a common stand-in or a reference such as `password` or `$PASSWORD`."""
    return value.lower() in _COMMON or value[:1] in b"$%{[" or re.search(_PLACEHOLDER, value) is not None


def is_placeholder(value: bytes) -> bool:
    """Tell whether `value` only stands in for a secret."""
    return len(set(value)) < MIN_DISTINCT or re.search(_PLACEHOLDER, value) is not None


def is_random(value: bytes) -> bool:
    """Tell whether `value` looks drawn at random: long, of mixed characters, without the rhythm of words."""
    if len(value) < MIN_RANDOM_LENGTH or is_placeholder(value) or not re.fullmatch(_TOKEN_CHARACTERS, value):
        return False
    if re.fullmatch(_UUID, value) or re.match(_CHECKSUM, value) or re.match(_PUBLIC_KEY, value):
        return False
    if re.fullmatch(_HEX, value):
        return len(value) >= MIN_HEX_LENGTH and _entropy(value) >= 3.0 and not value.isdigit()
    if not re.search(rb"[0-9]", value):
        return False
    enough = min(3.5, 0.8 * math.log2(len(value)))
    return _entropy(value) >= enough and _changes(value) / len(value) >= 0.25


def is_strong_password(value: bytes, *, quoted: bool) -> bool:
    """Tell whether `value` mixes characters the way passwords do; unquoted it needs one no identifier has."""
    if len(value) < 8 or len(set(value)) < 6 or re.search(_PLACEHOLDER, value) or value[:1] in b"$%@&/.{[(":
        return False
    if not quoted and re.fullmatch(_IDENTIFIER_CHARACTERS, value):
        return False
    return sum(re.search(pattern, value) is not None for pattern in _CLASSES) >= 3


def _entropy(value: bytes) -> float:
    """Return Shannon's entropy in bits per character."""
    length = len(value)
    counts = [value.count(char) for char in set(value)]
    return -sum(count / length * math.log2(count / length) for count in counts)


def _changes(value: bytes) -> int:
    """Count changes between digits, small and capital letters; a capital before a small one is just a word."""
    kinds = value.translate(_KINDS)
    return sum(kinds.count(change) for change in (b"a0", b"0a", b"A0", b"0A", b"aA"))
