"""Find what looks like a secret in a text, and say where and of what kind; the value itself is never passed on.

Pure, and linear in the size of the text. Lines of a diff, quotes, lists and code need no care: nothing is anchored to
the start of a line. Where it is wrong the user can say so (`--allow-secret`), so it leans towards refusing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from bridgehead.host.secret_assignments import find_assignments
from bridgehead.host.secret_shapes import Found, find_shapes, matches, positions
from bridgehead.host.secret_values import is_placeholder, stands_for_secret

_PEM_HEADER = rb"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
_PEM_BODY = rb"[A-Za-z0-9+/]{32}"
_PEM_WINDOW = 400
_JWT = rb"(?P<header>eyJ[A-Za-z0-9_-]{8,1024}+)[.][A-Za-z0-9_-]{4,8192}+[.][A-Za-z0-9_-]{0,2048}+"
_URL = rb"://(?P<user>[^\s/?#:@\"'<>`]{0,128}+):(?P<password>[^\s/?#@\"'<>`]{1,256}+)@(?P<host>[A-Za-z0-9.\[_-]{1,255}+)"
_LOCAL_DEFAULTS = frozenset(
    (b"postgres", b"root", b"admin", b"guest", b"test", b"mysql", b"redis", b"minio", b"user")
)


class SecretHit(NamedTuple):
    """Where something that looks like a secret stands; line and column count from 1, columns in characters."""

    kind: str
    line: int
    column: int


def scan(text: str | bytes) -> list[SecretHit]:
    """List what looks like a secret in `text`, in order."""
    content = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    found = [
        *find_shapes(content),
        *_find_private_keys(content),
        *_find_web_tokens(content),
        *_find_url_passwords(content),
        *find_assignments(content),
    ]
    return list(_located(content, _without_overlaps(found)))


def _find_private_keys(text: bytes) -> Iterator[Found]:
    """A header alone is only talk about keys; it takes a line of key material as well."""
    for position in positions(text, b"-----BEGIN "):
        header = re.compile(_PEM_HEADER).match(text, position)
        if header is None:
            continue
        window = text[header.end() : header.end() + _PEM_WINDOW].partition(b"-----END")[0]
        body = re.search(_PEM_BODY, window)
        if body and not is_placeholder(body[0]):
            yield Found(position, header.end(), "private-key")


def _find_web_tokens(text: bytes) -> Iterator[Found]:
    for matched in matches(text, b"eyJ", _JWT):
        if _is_token_header(matched["header"]):
            yield Found(matched.start(), matched.end(), "jwt")


def _is_token_header(encoded: bytes) -> bool:
    """A JSON Web Token opens with a JSON object that names its algorithm; other things start with eyJ too."""
    import base64
    import json

    try:
        header = json.loads(base64.urlsafe_b64decode(encoded + b"=" * (-len(encoded) % 4)))
    except (ValueError, RecursionError):
        return False
    return isinstance(header, dict) and "alg" in header


def _find_url_passwords(text: bytes) -> Iterator[Found]:
    for position in positions(text, b"://"):
        url = re.compile(_URL).match(text, position)
        if url and not stands_for_secret(url["password"]) and not _is_local_default(url):
            yield Found(url.start("password"), url.end("password"), "url-password")


def _is_local_default(url: re.Match[bytes]) -> bool:
    """`postgres:postgres@localhost` and its like open nothing that is worth protecting."""
    is_local = b"." not in url["host"] or url["host"] == b"127.0.0.1"
    return is_local and (url["password"] == url["user"] or url["password"].lower() in _LOCAL_DEFAULTS)


def _without_overlaps(found: Iterable[Found]) -> Iterator[Found]:
    """Keep the first of several that share characters; of those that start together, the one found first."""
    end = 0
    for item in sorted(found, key=lambda item: item.start):
        if item.start >= end:
            yield item
            end = item.end


def _located(text: bytes, found: Iterable[Found]) -> Iterator[SecretHit]:
    line, column, seen = 1, 1, 0
    for item in found:
        passed = text[seen : item.start]
        line += passed.count(b"\n")
        last_break = passed.rfind(b"\n")
        if last_break >= 0:
            column = 1
        column += len(passed[last_break + 1 :].decode("utf-8", "replace"))
        seen = item.start
        yield SecretHit(item.kind, line, column)
