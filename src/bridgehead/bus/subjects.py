"""NATS subjects of the fabric between hubs (bus §13). Pure.

Identifiers of participants may hold characters that are not legal in subjects, so they travel as base32 tokens.
"""

from __future__ import annotations

import base64
import binascii

import msgspec


def token(identifier: str) -> str:
    """An identifier as one token of a subject or one key of a bucket."""
    return (
        base64.b32encode(identifier.encode("utf-8", "surrogatepass")).decode("ascii").rstrip("=").lower()
        or "0"
    )


def untoken(text: str) -> str:
    """The identifier a token stands for."""
    if text == "0":
        return ""
    padded = text.upper() + "=" * (-len(text) % 8)
    try:
        return base64.b32decode(padded).decode("utf-8", "surrogatepass")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError(f"not a token: {text!r}") from error


class Subjects(msgspec.Struct, frozen=True):
    """The subjects of one deployment."""

    deployment: str
    """Stands in them as it is, so that permissions of a server can name it."""

    def said_by(self, source: str) -> str:
        """Messages from one participant."""
        return f"bh.{self.deployment}.in.{token(source)}"

    @property
    def said_by_anybody(self) -> str:
        return f"bh.{self.deployment}.in.*"

    def for_source(self, source: str) -> str:
        """Deliveries to one participant."""
        return f"bh.{self.deployment}.out.{token(source)}"

    def for_site(self, site: str) -> str:
        """Deliveries to one group."""
        return f"bh.{self.deployment}.site.{token(site)}"

    def bucket(self, name: str) -> str:
        """A key-value bucket of the registry."""
        return f"bh-{self.deployment}-{name}"
