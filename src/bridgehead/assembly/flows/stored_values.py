"""Values in the fleet's database are portable JSON, whatever a row says about itself.

DBOS decodes a value as the row's column `serialization` names it, also as a pickle,
which runs code of whoever wrote the row. No setting of DBOS turns that off, so the
decoder itself is replaced before anything is read; and the tables get a constraint that
takes no other encoding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bridgehead.errors import BridgeheadError

if TYPE_CHECKING:
    from dbos import Serializer

    from bridgehead.control_plane.stores.postgres import PostgresAddress

PORTABLE_JSON: Final = "portable_json"
PICKLE: Final = "py_pickle"
CONSTRAINT: Final = "bridgehead_portable_json"
_NONE_AS_PICKLE: Final = "gAROLg=="

_TABLES: Final = """
SELECT c.relname FROM pg_class c
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'serialization' AND NOT a.attisdropped
WHERE c.relnamespace = to_regnamespace(%s) AND c.relkind = 'r'
  AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conrelid = c.oid AND k.conname = %s)
"""
_IS_HELD: Final = """
SELECT 1 FROM pg_constraint WHERE conname = %s AND conrelid = to_regclass(%s)
"""


class RefusedEncoding(ValueError):
    """A stored value in an encoding that can carry code."""

    def __init__(self) -> None:
        super().__init__("the row is damaged: its values are not portable JSON")


def only_portable_json() -> Serializer:
    """Return DBOS' serializer for portable JSON, with every other decoder of this
    process refused.
    """
    from dbos import DBOSPortableJSONSerializer
    from dbos._serialization import DefaultSerializer, deserialize_value

    DefaultSerializer.deserialize = _refuse  # type: ignore[method-assign,assignment]
    serializer = DBOSPortableJSONSerializer()
    try:
        deserialize_value(_NONE_AS_PICKLE, PICKLE, serializer)
    except RefusedEncoding:
        return serializer
    raise BridgeheadError(
        "this version of DBOS decodes pickles in a way that bridgehead cannot refuse",
        hint="pip install 'bridgehead[fleet]' installs a version that it can",
    )


def _refuse(_self: Any, _text: str) -> Any:
    raise RefusedEncoding


def hold_to_portable_json(address: PostgresAddress, schema: str) -> None:
    """Let the tables of DBOS take portable JSON only.

    Rows that claim another encoding are marked as if they had it.

    They cannot be read then, and are shown as damaged. Whoever does not own the tables
    leaves them as they are.
    """
    import psycopg
    from psycopg.errors import InsufficientPrivilege
    from psycopg.sql import SQL, Identifier, Literal

    with psycopg.connect(**address.parameters, autocommit=True) as connection:  # type: ignore[arg-type]
        for (name,) in connection.execute(_TABLES, [schema, CONSTRAINT]).fetchall():
            table = Identifier(schema, name)
            encoding = Literal(PORTABLE_JSON)
            path = table.as_string(connection)
            try:
                # One table at a time: whoever holds the lock of one waits for no other.
                with connection.transaction():
                    connection.execute(SQL("LOCK TABLE {}").format(table))
                    if connection.execute(_IS_HELD, [CONSTRAINT, path]).fetchone():
                        continue
                    connection.execute(
                        SQL(
                            "UPDATE {} SET serialization = {} WHERE serialization <> {}"
                        ).format(table, encoding, encoding)
                    )
                    connection.execute(
                        SQL(
                            "ALTER TABLE {} ADD CONSTRAINT {} CHECK (serialization = "
                            "{})"
                        ).format(table, Identifier(CONSTRAINT), encoding)
                    )
            except InsufficientPrivilege:
                return
