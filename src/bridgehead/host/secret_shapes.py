"""What keys and passwords look like, and which values only look like them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

# Patterns are kept as text here and compiled when first used: commands that scan
# nothing should not pay for them.
_PLACEHOLDER = (
    rb"(?i)x{5}|\*{3}|\.{3}|<|>|\{\{|\$\{|\$\(|%\(|%s|example|placeholder|changeme|change[-_]me|replace[-_]?me|redacted"
    rb"|dummy|sample|insert[-_]|your[-_]|[-_]your|[-_]here\Z|not[-_]?a[-_]?(?:real[-_]?)?(?:key|secret|token)"
    rb"|1234567890|abcdefghij|deadbeef"
)
_COMMON = frozenset(
    (
        b"password",
        b"passwd",
        b"pass",
        b"pwd",
        b"secret",
        b"token",
        b"key",
        b"pw",
        b"xxx",
        b"x",
    )
)
_UUID = rb"(?i)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
_HEX = rb"(?i)(?:0x)?[0-9a-f]{1,512}"
_TOKEN_CHARACTERS = rb"[A-Za-z0-9+/_.~=-]{1,512}"
_IDENTIFIER_CHARACTERS = rb"[A-Za-z0-9_.:/=-]{1,512}"
_CHECKSUM = rb"(?i)(?:sha[0-9]{1,3}|md5|h1)[-:]"
# How the usual encodings of a public key begin: EC, RSA, Ed25519, and the two of
# OpenSSH.
_PUBLIC_KEY = rb"MF[kY]wEwYHKoZIzj0C|MHYwEAYHKoZIzj0C|MI[A-Za-z]{2}I?jANBgkqhkiG9w0BAQEF|MCowBQYDK2Vw|AAAA[BC]3NzaC1"
_CLASSES = (rb"[a-z]", rb"[A-Z]", rb"[0-9]", rb"[^A-Za-z0-9]")
_KINDS = bytes.maketrans(
    b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
    b"a" * 26 + b"A" * 26 + b"0" * 10,
)
MIN_DISTINCT = 8
MIN_RANDOM_LENGTH = 16
MIN_HEX_LENGTH = 32
_DISCORD_HOOK = "[0-9]{16,20}/[A-Za-z0-9_-]{50,90}"
# A Telegram token is known by what stands in its middle.
_TELEGRAM_MIDDLE = b":AA"
_TELEGRAM = rb"[0-9]{8,10}:AA[A-Za-z0-9_-]{32,33}(?![A-Za-z0-9])"
# A token starts a word; after an escape (\n in JSON, %20 in a URL) it does so as well,
# though a letter precedes it.
_WORD_START = rb"(?:\A|[^A-Za-z0-9_]|\\[a-z]|%[0-9A-Fa-f]{2})\Z"


class Found(NamedTuple):
    """Where in the text something of `kind` stands."""

    start: int
    end: int
    kind: str


class Shape(NamedTuple):
    """`begins` is fixed text; `pattern` matches the whole, beginning included."""

    kind: str
    begins: bytes
    pattern: bytes


def _shape(kind: str, begins: str, rest: str, *, bounded: bool = True) -> Shape:
    end = r"(?![A-Za-z0-9])" if bounded else ""
    return Shape(kind, begins.encode(), (re.escape(begins) + rest + end).encode())


def _shapes(kind: str, beginnings: str, rest: str) -> Iterator[Shape]:
    return (_shape(kind, begins, rest) for begins in beginnings.split())


SHAPES: tuple[Shape, ...] = (
    *_shapes("aws-access-key", "AKIA ASIA ABIA ACCA", "[A-Z0-9]{16}"),
    _shape("google-api-key", "AIza", "[A-Za-z0-9_-]{35}"),
    _shape("google-oauth-secret", "GOCSPX-", "[A-Za-z0-9_-]{20,40}"),
    _shape("google-oauth-token", "ya29.", "[A-Za-z0-9_-]{20,1024}"),
    _shape("anthropic-key", "sk-ant-", "[A-Za-z0-9_-]{20,200}"),
    _shape("openrouter-key", "sk-or-", "[A-Za-z0-9_-]{20,200}"),
    *_shapes("openai-key", "sk-proj- sk-svcacct- sk-admin-", "[A-Za-z0-9_-]{20,300}"),
    _shape("openai-key", "sk-", "(?=[A-Za-z]{0,63}[0-9])[A-Za-z0-9]{32,64}"),
    _shape("groq-key", "gsk_", "[A-Za-z0-9]{40,80}"),
    _shape("xai-key", "xai-", "[A-Za-z0-9]{60,120}"),
    _shape("perplexity-key", "pplx-", "[A-Za-z0-9]{40,80}"),
    _shape("replicate-token", "r8_", "[A-Za-z0-9]{37,40}"),
    _shape("huggingface-token", "hf_", "[A-Za-z0-9]{30,60}"),
    *_shapes("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", "[A-Za-z0-9_]{36,255}"),
    _shape("github-token", "github_pat_", "[A-Za-z0-9]{22}_[A-Za-z0-9]{40,90}"),
    *_shapes(
        "gitlab-token",
        "glpat- gldt- glft- glsoat- glrt- glcbt- glimt- glptt- gloas-",
        "[A-Za-z0-9_-]{20,200}",
    ),
    _shape("gitlab-token", "glagent-", "[A-Za-z0-9_-]{50,1024}"),
    _shape("slack-token", "xox", "[abeoprs]-(?:[0-9]{1,20}-){0,4}[A-Za-z0-9-]{10,250}"),
    _shape(
        "slack-token",
        "xapp-",
        "[0-9]-[A-Za-z0-9]{8,20}-[0-9]{8,20}-[A-Za-z0-9]{30,100}",
    ),
    _shape(
        "slack-webhook",
        "hooks.slack.com/services/",
        "T[A-Za-z0-9_]{6,20}/B[A-Za-z0-9_]{6,20}/[A-Za-z0-9_]{16,40}",
    ),
    _shape("discord-webhook", "discord.com/api/webhooks/", _DISCORD_HOOK),
    _shape("discord-webhook", "discordapp.com/api/webhooks/", _DISCORD_HOOK),
    *_shapes(
        "stripe-key", "sk_live_ rk_live_ sk_test_ rk_test_", "[A-Za-z0-9]{16,200}"
    ),
    _shape("stripe-webhook-secret", "whsec_", "[A-Za-z0-9+/]{24,64}"),
    _shape("npm-token", "npm_", "[A-Za-z0-9]{36}"),
    _shape("pypi-token", "pypi-AgE", "[A-Za-z0-9_-]{50,1024}"),
    _shape("sendgrid-key", "SG.", "[A-Za-z0-9_-]{16,32}[.][A-Za-z0-9_-]{16,64}"),
    _shape("twilio-key", "SK", "[0-9a-f]{32}"),
    *_shapes("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", "[0-9a-f]{64}"),
    _shape("docker-token", "dckr_pat_", "[A-Za-z0-9_-]{20,60}"),
    _shape("grafana-token", "glsa_", "[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}"),
    _shape("vault-token", "hvs.", "[A-Za-z0-9_-]{20,200}"),
    _shape(
        "tailscale-key", "tskey-", "[a-z]{2,12}-[A-Za-z0-9]{5,30}-[A-Za-z0-9]{10,80}"
    ),
    *_shapes("shopify-token", "shpat_ shpca_ shppa_ shpss_", "[0-9a-fA-F]{32}"),
    _shape("linear-key", "lin_api_", "[A-Za-z0-9]{32,64}"),
    _shape("azure-storage-key", "AccountKey=", "[A-Za-z0-9+/]{86}==", bounded=False),
    _shape("age-key", "AGE-SECRET-KEY-1", "[AC-HJ-NP-Z02-9]{58}"),
)


def find_shapes(text: bytes) -> Iterator[Found]:
    """Yield everything in `text` that has the shape of a provider's key."""
    for shape in SHAPES:
        for matched in matches(text, shape.begins, shape.pattern):
            if not is_placeholder(matched[0]):
                yield Found(matched.start(), matched.end(), shape.kind)
    yield from _find_telegram(text)


def _find_telegram(text: bytes) -> Iterator[Found]:
    for position in positions(text, _TELEGRAM_MIDDLE):
        number = text[max(0, position - 11) : position]
        digits = len(number) - len(number.rstrip(b"0123456789"))
        matched = re.compile(_TELEGRAM).match(text, position - digits)
        if matched and not is_placeholder(matched[0]):
            yield Found(matched.start(), matched.end(), "telegram-bot-token")


def matches(text: bytes, begins: bytes, pattern: bytes) -> Iterator[re.Match[bytes]]:
    """Yield the matches of `pattern` that start a word, looking only where its fixed
    beginning stands.
    """
    position = text.find(begins)
    while position >= 0:
        starts_word = re.search(_WORD_START, text[max(0, position - 3) : position])
        matched = re.compile(pattern).match(text, position) if starts_word else None
        if matched:
            yield matched
        position = text.find(begins, matched.end() if matched else position + 1)


def positions(text: bytes, wanted: bytes) -> Iterator[int]:
    """Yield where `wanted` stands in `text`."""
    position = text.find(wanted)
    while position >= 0:
        yield position
        position = text.find(wanted, position + 1)


def stands_for_secret(value: bytes) -> bool:
    """Return whether `value` is a common stand-in or a reference, such as `password`
    or `$PASSWORD`.
    """
    return (
        value.lower() in _COMMON
        or value[:1] in b"$%{["
        or re.search(_PLACEHOLDER, value) is not None
    )


def is_placeholder(value: bytes) -> bool:
    """Return whether `value` only stands in for a secret."""
    return len(set(value)) < MIN_DISTINCT or re.search(_PLACEHOLDER, value) is not None


def is_random(value: bytes) -> bool:
    """Return whether `value` looks drawn at random.

    Such a value is long, of mixed characters, and without the rhythm of words.
    """
    if len(value) < MIN_RANDOM_LENGTH or is_placeholder(value):
        return False
    if not re.fullmatch(_TOKEN_CHARACTERS, value):
        return False
    if _is_public(value):
        return False
    if re.fullmatch(_HEX, value):
        return (
            len(value) >= MIN_HEX_LENGTH
            and _entropy(value) >= 3.0
            and not value.isdigit()
        )
    if not re.search(rb"[0-9]", value):
        return False
    enough = min(3.5, 0.8 * math.log2(len(value)))
    return _entropy(value) >= enough and _changes(value) / len(value) >= 0.25


def _is_public(value: bytes) -> bool:
    """Return whether `value` is random but no secret, such as an id or a public key."""
    if re.fullmatch(_UUID, value):
        return True
    return bool(re.match(_CHECKSUM, value) or re.match(_PUBLIC_KEY, value))


def is_strong_password(value: bytes, *, quoted: bool) -> bool:
    """Return whether `value` mixes characters the way passwords do.

    Unquoted it needs one no identifier has.
    """
    if len(value) < 8 or len(set(value)) < 6:
        return False
    if re.search(_PLACEHOLDER, value) or value[:1] in b"$%@&/.{[(":
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
    """Count changes between digits, small and capital letters.

    A capital before a small one is just a word.
    """
    kinds = value.translate(_KINDS)
    return sum(kinds.count(change) for change in (b"a0", b"0a", b"A0", b"0A", b"aA"))
