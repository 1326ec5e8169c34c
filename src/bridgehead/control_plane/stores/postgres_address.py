"""Where a Postgres record is: a libpq URL, plus `?schema=` for the schema its tables are in.

The password is kept apart from everything that is shown: `where` and `repr` never hold it, nor does any error here.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
import psycopg
from psycopg.conninfo import conninfo_to_dict

from bridgehead.errors import ConfigError

DEFAULT_SCHEMA: Final = "bridgehead"
CONNECT_TIMEOUT_SECONDS: Final = 10
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_PORTS: Final = re.compile(r"[0-9,]*")


class UnusableAddress(ConfigError):
    """A Postgres URL that cannot be understood."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the record's postgresql:// address is not usable: {why}",
            hint="it looks like postgresql://USER:PASSWORD@HOST:PORT/DATABASE?schema=NAME; "
            "special characters in a password are percent-encoded",
        )


class PostgresAddress(msgspec.Struct, frozen=True):
    """What is needed to connect, and what of it may be shown."""

    parameters: dict[str, str]
    schema: str
    where: str

    def __repr__(self) -> str:
        return f"PostgresAddress({self.where!r})"

    @classmethod
    def parse(cls, url: str) -> PostgresAddress:
        """Read a `postgresql://` URL."""
        parameters, schema = _split(url)
        parameters.setdefault("connect_timeout", str(CONNECT_TIMEOUT_SECONDS))
        parameters.setdefault("application_name", "bridgehead")
        return cls(parameters, schema, _shown(parameters))


def _split(url: str) -> tuple[dict[str, str], str]:
    try:
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        schema = query.pop("schema", DEFAULT_SCHEMA)
        found = conninfo_to_dict(parts._replace(scheme="postgresql", query=urlencode(query)).geturl())
    except (psycopg.Error, ValueError):
        # Not chained: what the driver says may quote a piece of the password.
        raise UnusableAddress("it cannot be read") from None
    parameters = {name: str(value) for name, value in found.items() if value is not None}
    if "@" in parameters.get("host", "") + parameters.get("dbname", "") or "\0" in url:
        raise UnusableAddress("it has more than one '@'")
    if not _PORTS.fullmatch(parameters.get("port", "")):
        raise UnusableAddress("its port is not a number")
    if not _SCHEMA.fullmatch(schema):
        raise UnusableAddress("a schema is named with lower-case letters, digits and '_'")
    return parameters, schema


def _shown(parameters: dict[str, str]) -> str:
    user = f"{parameters['user']}@" if "user" in parameters else ""
    port = f":{parameters['port']}" if "port" in parameters else ""
    return f"postgresql://{user}{parameters.get('host', 'localhost')}{port}/{parameters.get('dbname', '')}"
