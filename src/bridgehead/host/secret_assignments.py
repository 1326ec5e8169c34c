"""Secrets known by the name they are given: `api_key = "..."`, `"password": "..."`, `Authorization: Bearer ...`.

The name has to say key, secret, token or password, and the value has to look drawn at random (passwords: mixed).
Names that merely contain such a word (`public_key`, `token_hash`, `cache_key`, `keyboard`) do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bridgehead.host.secret_shapes import Found, positions
from bridgehead.host.secret_values import is_random, is_strong_password

_STEMS = (b"secret", b"token", b"passw", b"passphrase", b"pwd", b"key", b"credential", b"auth")
_PASSWORDS = frozenset({"password", "passwords", "passwd", "passphrase", "pwd", "passwort"})
_SECRETS = _PASSWORDS | {
    *("secret", "secrets", "token", "tokens", "key", "keys", "credential", "credentials"),
    *("auth", "authorization", "secretkey", "accesskey", "authkey", "privatekey"),
}
_JOINED_ENDINGS = ("apikey", "token", "secret", "password", "passwd")
# One of these anywhere in the name: whatever it is, it may be shown.
_HARMLESS = frozenset(
    {
        *("public", "pub", "publishable", "recv", "hash", "hashed", "sha", "sha1", "sha256", "sha512"),
        *("digest", "checksum", "fingerprint", "commit", "integrity", "primary", "foreign", "unique"),
        *("cache", "sort", "partition", "idempotency", "row", "lookup", "dedupe", "group"),
        *("i18n", "translation", "page", "continuation", "sync"),
    }
)
# One of these at its end: the name is about the secret, not the secret.
_ABOUT = frozenset(
    {
        *("id", "ids", "name", "names", "type", "kind", "class", "label", "hint", "usage", "version"),
        *("url", "uri", "path", "file", "env", "var", "variable", "field", "index", "format"),
        *("length", "size", "count", "limit", "expiry", "expires", "at", "ttl"),
        *("algorithm", "alg", "prefix", "suffix", "pattern", "regex"),
    }
)

_WORDS = r"[A-Z]{1,64}(?![a-z])|[A-Z]?[a-z0-9]{1,64}|[A-Z]"
_NAME_CHARACTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_NAME_BYTES = 64

# From inside the name on: its rest, closing quote or bracket, separator, opening quote, value, and what ends it.
# Every repetition is bounded, and possessive where giving back could not help.
_ASSIGNED = rb"""(?x)
    (?P<rest> [A-Za-z0-9_.-]{0,40}+ )
    (?: \\{0,2} ["'`] )? \]? [ \t]{0,16}+
    (?: : [ \t]{0,4} [A-Za-z_] [A-Za-z0-9_.\[\]|\ ]{0,40} = (?!=)
      | (?: := | => | ={1,3} | : ) >?
      | (?<= ["'`] ) ,
      | (?<= [A-Za-z] ) >
      | (?P<blank> (?<= [ ] ) )
    )
    [ \t]{0,16}+
    (?: [bBrRuUfF]{0,2} (?P<quote> \\{0,2} ["'`] ) )?
    (?: (?: [Bb]earer | [Bb]asic | [Tt]oken ) [ ]{1,4} )?
    (?P<value> [^\s"'`\\<,;:=(){}\[\]]{8,256}+ ={0,2} )
    (?P<end> \\{0,2} ["'`] | [\s,;<=)}\]] | \\[nrt] | \Z )
"""


def find_assignments(text: bytes) -> Iterator[Found]:
    """Yield the values in `text` that are given to the name of a secret."""
    folded = text.lower()
    pattern = re.compile(_ASSIGNED)
    for stem in _STEMS:
        for position in positions(folded, stem):
            assigned = pattern.match(text, position + len(stem))
            if assigned and (kind := _judge(_name_before(text, assigned.end("rest")), assigned)):
                yield Found(assigned.start("value"), assigned.end("value"), kind)


def _name_before(text: bytes, end: int) -> str:
    window = text[max(0, end - _NAME_BYTES) : end]
    return window[len(window.rstrip(_NAME_CHARACTERS)) :].decode("ascii")


def _judge(name: str, assigned: re.Match[bytes]) -> str | None:
    """Return the kind of secret, or None if the name or the value is harmless."""
    if assigned["blank"] is not None and not name.startswith("--"):  # only options take a value after a blank
        return None
    words = [word.lower() for word in re.findall(_WORDS, name.rpartition(".")[2])]
    if not _names_secret(words):
        return None
    quoted = assigned["quote"] is not None
    if quoted and assigned["end"].lstrip(b"\\") != assigned["quote"].lstrip(b"\\"):
        return None
    if _names_password(words) and is_strong_password(assigned["value"], quoted=quoted):
        return "password"
    value = assigned["value"].partition(b"&")[0]  # in a query another parameter follows
    return "high-entropy-value" if is_random(value) else None


def _names_secret(words: list[str]) -> bool:
    if not words or words[-1] in _ABOUT or not _HARMLESS.isdisjoint(words):
        return False
    return any(word in _SECRETS or word.endswith(_JOINED_ENDINGS) for word in words)


def _names_password(words: list[str]) -> bool:
    return any(word in _PASSWORDS or word.endswith(("password", "passwd")) for word in words)
