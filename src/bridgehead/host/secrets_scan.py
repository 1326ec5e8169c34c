"""Find secrets in a text: by shape, and by assignment to a telling name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from bridgehead.errors import FileError
from bridgehead.host import secret_shapes
from bridgehead.host.files import read_bounded, write_private
from bridgehead.host.secret_shapes import (
    Found,
    find_shapes,
    is_placeholder,
    is_random,
    is_strong_password,
    matches,
    positions,
    stands_for_secret,
)

_STEMS = (
    b"secret",
    b"token",
    b"passw",
    b"passphrase",
    b"pwd",
    b"key",
    b"credential",
    b"auth",
)
_PASSWORDS = frozenset(
    {"password", "passwords", "passwd", "passphrase", "pwd", "passwort"}
)
_SECRETS = _PASSWORDS | {
    *(
        "secret",
        "secrets",
        "token",
        "tokens",
        "key",
        "keys",
        "credential",
        "credentials",
    ),
    *("auth", "authorization", "secretkey", "accesskey", "authkey", "privatekey"),
}
_JOINED_ENDINGS = ("apikey", "token", "secret", "password", "passwd")
# One of these anywhere in the name: whatever it is, it may be shown.
_HARMLESS = frozenset(
    {
        *(
            "public",
            "pub",
            "publishable",
            "recv",
            "hash",
            "hashed",
            "sha",
            "sha1",
            "sha256",
            "sha512",
        ),
        *(
            "digest",
            "checksum",
            "fingerprint",
            "commit",
            "integrity",
            "primary",
            "foreign",
            "unique",
        ),
        *(
            "cache",
            "sort",
            "partition",
            "idempotency",
            "row",
            "lookup",
            "dedupe",
            "group",
        ),
        *("i18n", "translation", "page", "continuation", "sync"),
    }
)
# One of these at its end: the name is about the secret, not the secret.
_ABOUT = frozenset(
    {
        *(
            "id",
            "ids",
            "name",
            "names",
            "type",
            "kind",
            "class",
            "label",
            "hint",
            "usage",
            "version",
        ),
        *(
            "url",
            "uri",
            "path",
            "file",
            "env",
            "var",
            "variable",
            "field",
            "index",
            "format",
        ),
        *("length", "size", "count", "limit", "expiry", "expires", "at", "ttl"),
        *("algorithm", "alg", "prefix", "suffix", "pattern", "regex"),
    }
)
_WORDS = r"[A-Z]{1,64}(?![a-z])|[A-Z]?[a-z0-9]{1,64}|[A-Z]"
_NAME_CHARACTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_NAME_BYTES = 64
# From inside the name on: its rest, closing quote or bracket, separator, opening quote,
# value, and what ends it. Every repetition is bounded, and possessive where giving back
# could not help.
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
_PEM_HEADER = rb"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
_PEM_BODY = rb"[A-Za-z0-9+/]{32}"
_PEM_WINDOW = 400
_PEM_REST = rb"(?s).{0,16384}?-----END [A-Z0-9 ]{1,60}-----|(?:[^A-Za-z0-9]{1,8}[A-Za-z0-9+/=]{16,200}){0,90}+"
_JWT = rb"(?P<header>eyJ[A-Za-z0-9_-]{8,1024}+)[.][A-Za-z0-9_-]{4,8192}+[.][A-Za-z0-9_-]{0,2048}+"
_URL = rb"://(?P<user>[^\s/?#:@\"'<>`]{0,128}+):(?P<password>[^\s/?#@\"'<>`]{1,256}+)@(?P<host>[A-Za-z0-9.\[_-]{1,255}+)"
_LOCAL_DEFAULTS = frozenset(
    (
        b"postgres",
        b"root",
        b"admin",
        b"guest",
        b"test",
        b"mysql",
        b"redis",
        b"minio",
        b"user",
    )
)


_ESCAPED = r"\\{1,8}(?:u00([2-7][0-9a-fA-F])|/)"
# Digests of texts in which nothing was found.
_CLEAN: set[bytes] = set()
_MOST_CLEAN = 100_000
_DIGEST_BYTES = 16
_MASKABLE = frozenset({"password", "high-entropy-value", "url-password"})
MASK = b"********"


class SecretHit(NamedTuple):
    """Where something that looks like a secret stands.

    Line and column count from 1, columns in characters.
    """

    kind: str
    line: int
    column: int


def scan(text: str | bytes) -> list[SecretHit]:
    """List what looks like a secret in `text`, in order."""
    content = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return list(_located(content, _found(content)))


def without_secrets(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the text with a note in the place of each secret, and the kinds that were
    left out.
    """
    return _replaced(text, _note)


def with_secrets_masked(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the text as a review may show it, and the kinds of secrets that stood in
    it: values that are given to telling names masked, keys and tokens left out.

    The text may be JSON, or hold some: escapes are undone if they spell a secret.
    """
    shown, kinds = _replaced(text, _mark)
    plain = unescaped(text)
    if plain == text:
        return shown, kinds
    shown_plain, kinds_plain = _replaced(plain, _mark)
    return (shown_plain, kinds_plain) if kinds_plain else (shown, kinds)


def unescaped(text: str) -> str:
    """Return JSON with its characters written plainly, as far as they may be.

    A key that is spelled with an escape for one of its letters, or for a slash, is
    whole again once it is read; inside an envelope escapes are escaped again.
    """
    return re.sub(_ESCAPED, _plain, text)


def _plain(found: re.Match[str]) -> str:
    if found[1] is None:
        return "/"
    character = chr(int(found[1], 16))
    return found[0] if character in '"\\' else character


def _note(kind: str) -> bytes:
    return f"[left out: {kind}]".encode()


def _mark(kind: str) -> bytes:
    return MASK if kind in _MASKABLE else _note(kind)


def _replaced(
    text: str, replacement: Callable[[str], bytes]
) -> tuple[str, tuple[str, ...]]:
    content = text.encode("utf-8", "surrogatepass")
    pieces = []
    kinds = []
    end = 0
    for item in _found(content):
        if item.start < end:  # inside a key that is left out already
            continue
        pieces += [content[end : item.start], replacement(item.kind)]
        kinds.append(item.kind)
        end = item.end
        if item.kind == "private-key" and (
            rest := re.compile(_PEM_REST).match(content, end)
        ):
            # Behind the last line of the key, or without one where other text begins.
            end = rest.end()
    shown = b"".join([*pieces, content[end:]]).decode("utf-8", "surrogatepass")
    return shown, tuple(dict.fromkeys(kinds))


def with_values_masked(text: bytes) -> bytes:
    """Return `text` with the values that are given to telling names masked: a password
    in an example, or a real one.

    Keys and tokens that are known by their own shape stay: a text that holds one is not
    to be shown at all.
    """
    pieces = []
    end = 0
    for item in _found(text):
        if item.kind in _MASKABLE:
            pieces += [text[end : item.start], MASK]
            end = item.end
    return b"".join([*pieces, text[end:]])


def _found(content: bytes) -> Iterator[Found]:
    """Yield what looks like a secret, in order.

    A review asks about the same text more than once.
    """
    name = _digest(content)
    if name in _CLEAN:
        return
    found = [
        *find_shapes(content),
        *_find_private_keys(content),
        *_find_web_tokens(content),
        *_find_url_passwords(content),
        *find_assignments(content),
    ]
    if not found:
        if len(_CLEAN) >= _MOST_CLEAN:
            _CLEAN.clear()
        _CLEAN.add(name)
    # Keep the first of several that share characters; of those that start together, the
    # one found first.
    end = 0
    for item in sorted(found, key=lambda item: item.start):
        if item.start >= end:
            yield item
            end = item.end


@contextmanager
def remembered(file: Path) -> Iterator[None]:
    """Keep the digests of clean texts in `file`: who looks through a large tree again
    need not search all of it.

    What cannot be read, or was written by another version of this search, is as good as
    nothing.
    """
    version = _digest(
        b"".join(
            Path(source).read_bytes() for source in (__file__, secret_shapes.__file__)
        )
    )
    with suppress(FileError):
        kept = read_bounded(file, (_MOST_CLEAN + 1) * _DIGEST_BYTES)
        if kept.startswith(version) and len(kept) % _DIGEST_BYTES == 0:
            _CLEAN.update(
                kept[at : at + _DIGEST_BYTES]
                for at in range(_DIGEST_BYTES, len(kept), _DIGEST_BYTES)
            )
    before = len(_CLEAN)
    yield
    if len(_CLEAN) != before:
        with suppress(FileError):
            write_private(file, version + b"".join(_CLEAN))


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()


def _find_private_keys(text: bytes) -> Iterator[Found]:
    """Yield private keys: a header followed by a line of key material.

    A header alone is only talk about keys.
    """
    for position in positions(text, b"-----BEGIN "):
        header = re.compile(_PEM_HEADER).match(text, position)
        if header is None:
            continue
        window = text[header.end() : header.end() + _PEM_WINDOW].partition(b"-----END")[
            0
        ]
        body = re.search(_PEM_BODY, window)
        if body and not is_placeholder(body[0]):
            yield Found(position, header.end(), "private-key")


def _find_web_tokens(text: bytes) -> Iterator[Found]:
    for matched in matches(text, b"eyJ", _JWT):
        if _is_token_header(matched["header"]):
            yield Found(matched.start(), matched.end(), "jwt")


def _is_token_header(encoded: bytes) -> bool:
    """Return whether this is the header of a JSON Web Token.

    That is a JSON object that names an algorithm; other things start with eyJ too.
    """
    import base64
    import json

    try:
        header = json.loads(
            base64.urlsafe_b64decode(encoded + b"=" * (-len(encoded) % 4))
        )
    except (ValueError, RecursionError):
        return False
    return isinstance(header, dict) and "alg" in header


def _find_url_passwords(text: bytes) -> Iterator[Found]:
    for position in positions(text, b"://"):
        url = re.compile(_URL).match(text, position)
        if (
            url
            and not stands_for_secret(url["password"])
            and not _is_local_default(url)
        ):
            yield Found(url.start("password"), url.end("password"), "url-password")


def _is_local_default(url: re.Match[bytes]) -> bool:
    """Return whether this is a default such as `postgres:postgres@localhost`.

    It opens nothing that is worth protecting.
    """
    is_local = b"." not in url["host"] or url["host"] == b"127.0.0.1"
    return is_local and (
        url["password"] == url["user"] or url["password"].lower() in _LOCAL_DEFAULTS
    )


def find_assignments(text: bytes) -> Iterator[Found]:
    """Yield the values in `text` that are given to the name of a secret."""
    folded = text.lower()
    pattern = re.compile(_ASSIGNED)
    for stem in _STEMS:
        for position in positions(folded, stem):
            assigned = pattern.match(text, position + len(stem))
            if assigned is None:
                continue
            name = _name_before(text, assigned.end("rest"))
            kind = _judge(name, assigned)
            if kind is not None:
                yield Found(assigned.start("value"), assigned.end("value"), kind)


def _name_before(text: bytes, end: int) -> str:
    window = text[max(0, end - _NAME_BYTES) : end]
    return window[len(window.rstrip(_NAME_CHARACTERS)) :].decode("ascii")


def _judge(name: str, assigned: re.Match[bytes]) -> str | None:
    """Return the kind of secret, or None if the name or the value is harmless."""
    # Only options take a value after a blank.
    if assigned["blank"] is not None and not name.startswith("--"):
        return None
    words = [word.lower() for word in re.findall(_WORDS, name.rpartition(".")[2])]
    if not _names_secret(words):
        return None
    quoted = assigned["quote"] is not None
    if quoted and assigned["end"].lstrip(b"\\") != assigned["quote"].lstrip(b"\\"):
        return None
    names_password = any(
        word in _PASSWORDS or word.endswith(("password", "passwd")) for word in words
    )
    if names_password and is_strong_password(assigned["value"], quoted=quoted):
        return "password"
    value = assigned["value"].partition(b"&")[0]  # in a query another parameter follows
    return "high-entropy-value" if is_random(value) else None


def _names_secret(words: list[str]) -> bool:
    if not words or words[-1] in _ABOUT or not _HARMLESS.isdisjoint(words):
        return False
    return any(word in _SECRETS or word.endswith(_JOINED_ENDINGS) for word in words)


def _located(text: bytes, found: Iterable[Found]) -> Iterator[SecretHit]:
    line = 1
    column = 1
    seen = 0
    for item in found:
        passed = text[seen : item.start]
        line += passed.count(b"\n")
        last_break = passed.rfind(b"\n")
        if last_break >= 0:
            column = 1
        column += len(passed[last_break + 1 :].decode("utf-8", "replace"))
        seen = item.start
        yield SecretHit(item.kind, line, column)
