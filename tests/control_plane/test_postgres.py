"""What is particular to a record in Postgres: addresses, refusals, broken connections, several machines."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridgehead.control_plane.stores import open_store
from bridgehead.control_plane.stores.failures import (
    NotARecord,
    RecordFailed,
    RecordLocked,
    RecordReadOnly,
    RecordTooNew,
    ServerRefused,
    ServerUnreachable,
)
from bridgehead.control_plane.stores.migrations import LATEST
from bridgehead.errors import ConfigError
from control_plane.store_suite import SENT, event, ids
from support.forked_child import in_child

psycopg = pytest.importorskip(
    "psycopg", reason="no Postgres to test with: psycopg is not installed"
)

SECRET = "hunter2-sesame"


def schema_of(place: Any) -> str:
    return str(place.address.rpartition("schema=")[2])


@pytest.fixture
def guarded_role(postgres_server: Any) -> Iterator[str]:
    """A role that must give its password, on a server that otherwise trusts everybody."""
    rules: Path = postgres_server.data / "pg_hba.conf"
    trusting = rules.read_text()
    with postgres_server.admin() as admin:
        admin.execute(f"CREATE ROLE guarded LOGIN PASSWORD '{SECRET}'")
        rules.write_text(f"local all guarded scram-sha-256\n{trusting}")
        admin.execute("SELECT pg_reload_conf()")
        url = postgres_server.url.replace("postgres:@", "guarded:{password}@")
        _until_asked_for_a_password(admin, url.format(password=""))
        yield url
        rules.write_text(trusting)
        admin.execute("SELECT pg_reload_conf()")
        admin.execute("DROP ROLE guarded")


def _until_asked_for_a_password(admin: Any, url: str) -> None:
    """The server reads its rules again some time after it was told to."""
    for _ in range(1000):
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            return
        admin.execute("SELECT pg_sleep(0.01)")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


# Addresses


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://ann:{SECRET}@host:port/db",
        f"postgresql://ann:{SECRET}@x@host/db",
        f"postgresql://ann:{SECRET}/x@host/db",
        f"postgresql://ann:{SECRET}@host/db?schema=No%20Such",
        f"postgresql://ann:{SECRET}@host/db?schema=" + "x" * 64,
        f"postgresql://ann:{SECRET}@host/db?schema=",
        f"postgresql://ann:{SECRET}@host/db?no_such_option=1",
        f"postgresql://ann:{SECRET}@[::1/db",
        f"postgresql://ann:{SECRET}@host/d\0b",
    ],
)
def test_an_address_that_cannot_be_read_is_refused_without_showing_the_password(
    address: str,
) -> None:
    with pytest.raises(ConfigError) as refused:
        open_store(address)

    shown = f"{refused.value} {refused.value.hint} {refused.value.__cause__}"
    assert SECRET not in shown and "percent-encoded" in shown


def test_the_address_shows_everything_but_the_password() -> None:
    from bridgehead.control_plane.stores.postgres import PostgresAddress

    address = PostgresAddress.parse(
        f"postgres://ann:{SECRET}@db.example:5433/records?schema=mine&sslmode=require"
    )

    assert address.where == "postgresql://ann@db.example:5433/records"
    assert address.schema == "mine"
    assert (
        address.parameters["password"] == SECRET
        and address.parameters["sslmode"] == "require"
    )
    assert SECRET not in repr(address)


# Servers that do not let us in


def test_wrong_and_missing_passwords_are_refusals(guarded_role: str) -> None:
    for password, words in (
        ("wrong-" + SECRET, "password authentication failed"),
        ("", "asks for a password"),
    ):
        with pytest.raises(ServerRefused, match=words) as refused:
            open_store(guarded_role.format(password=password))
        assert SECRET not in str(refused.value)
        assert refused.value.__cause__ is None and refused.value.__suppress_context__


@pytest.mark.parametrize(
    ("user", "database"),
    [("nobody_here", "postgres"), ("postgres", "no_such_database")],
)
def test_unknown_users_and_databases_are_refusals(
    postgres_server: Any, user: str, database: str
) -> None:
    url = postgres_server.url.replace("postgres:@/postgres", f"{user}@/{database}")

    with pytest.raises(ServerRefused, match="does not exist"):
        open_store(url)


def test_a_role_that_may_not_create_the_schema_is_told_so(guarded_role: str) -> None:
    with pytest.raises(ServerRefused, match="permission denied"):
        open_store(guarded_role.format(password=SECRET) + "&schema=not_for_guarded")


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("postgresql://ann:{secret}@127.0.0.1:{port}/db", "nothing listens there"),
        ("postgresql://ann:{secret}@no-such-host.invalid/db", "no such host"),
        ("postgresql://ann:{secret}@/db?host=/no/such/folder", "no such socket"),
    ],
)
def test_a_server_that_is_not_there_is_unreachable(address: str, words: str) -> None:
    with pytest.raises(ServerUnreachable, match=words) as unreachable:
        open_store(address.format(secret=SECRET, port=free_port()))

    assert SECRET not in str(unreachable.value) and "ann@" in str(unreachable.value)
    assert unreachable.value.hint


def test_a_server_that_accepts_and_says_nothing_is_given_up_on() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]

        # libpq rounds anything below two seconds up to two
        with pytest.raises(ServerUnreachable, match="did not answer in time"):
            open_store(f"postgresql://ann@127.0.0.1:{port}/db?connect_timeout=2")


# What is in the schema


def test_a_record_of_a_newer_version_is_refused_and_left_alone(
    postgres_place: Any, postgres_server: Any
) -> None:
    postgres_place.open().append([event("e1")])
    with postgres_server.admin() as admin:
        table = f"{schema_of(postgres_place)}.bridgehead_schema"
        admin.execute(f"INSERT INTO {table} (version, at) VALUES ({LATEST + 7}, '')")

    for read_only in (False, True):
        with pytest.raises(RecordTooNew, match=f"version {LATEST + 7}"):
            postgres_place.open(read_only=read_only)


def test_a_record_that_a_newer_program_upgraded_meanwhile_is_not_written_any_more(
    postgres_place: Any, postgres_server: Any
) -> None:
    store = postgres_place.open()
    with postgres_server.admin() as admin:
        table = f"{schema_of(postgres_place)}.bridgehead_schema"
        admin.execute(f"INSERT INTO {table} (version, at) VALUES ({LATEST + 1}, '')")

    with pytest.raises(RecordTooNew):
        store.append([event("e1")])

    assert store.events(SENT) == []


def test_a_schema_of_another_program_is_refused_and_left_alone(
    postgres_place: Any, postgres_server: Any
) -> None:
    schema = schema_of(postgres_place)
    with postgres_server.admin() as admin:
        admin.execute(
            f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.events (mine text)"
        )

        with pytest.raises(NotARecord, match=f"schema {schema}"):
            postgres_place.open()

        tables = admin.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s", [schema]
        ).fetchall()
        assert tables == [("events",)]


def test_an_empty_schema_prepared_by_an_administrator_is_used(
    postgres_place: Any, postgres_server: Any
) -> None:
    with postgres_server.admin() as admin:
        admin.execute(f"CREATE SCHEMA {schema_of(postgres_place)}")

    assert ids(postgres_place.open().append([event("e1")])) == ["e1"]


def test_reading_where_there_is_no_record_creates_nothing_and_sees_an_empty_one(
    postgres_place: Any, postgres_server: Any
) -> None:
    reader = postgres_place.open(read_only=True)

    assert (reader.events(), reader.runs(), reader.pending(), reader.last_seq()) == (
        [],
        [],
        [],
        0,
    )
    with postgres_server.admin() as admin:
        schemas = admin.execute("SELECT nspname FROM pg_namespace").fetchall()
    assert (schema_of(postgres_place),) not in schemas

    postgres_place.open().append([event("e1")])
    assert ids(reader.events(SENT)) == ["e1"]


def test_two_schemas_of_one_database_are_two_records(postgres_server: Any) -> None:
    with (
        open_store(postgres_server.fresh_url()) as one,
        open_store(postgres_server.fresh_url()) as other,
    ):
        one.append([event("e1")])

        assert (ids(one.events(SENT)), other.events(SENT)) == (["e1"], [])


def test_without_a_name_the_schema_is_bridgehead(postgres_server: Any) -> None:
    with open_store(postgres_server.url) as store, postgres_server.admin() as admin:
        store.append([event("default-schema")])
        count = admin.execute(
            "SELECT count(*) FROM bridgehead.events WHERE id = 'default-schema'"
        ).fetchone()
        assert count == (1,)


# A server that goes away, or stands in the way


def cut_off(postgres_server: Any) -> None:
    """End every connection but our own."""
    with postgres_server.admin() as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )


def test_a_connection_that_broke_while_idle_is_replaced(
    postgres_place: Any, postgres_server: Any
) -> None:
    store = postgres_place.open()
    store.append([event("e1")])

    cut_off(postgres_server)
    assert ids(store.events(SENT)) == ["e1"]
    cut_off(postgres_server)
    assert ids(store.append([event("e2")])) == ["e2"]
    assert ids(store.events(SENT)) == ["e1", "e2"]


def test_a_forked_child_uses_the_record_without_harming_its_parent(
    postgres_place: Any,
) -> None:
    store = postgres_place.open()
    store.append([event("before")])

    in_child(lambda: store.append([event("child")]))

    store.append([event("after")])
    assert ids(store.events(SENT)) == ["before", "child", "after"]


def test_a_follower_survives_a_broken_connection(
    postgres_place: Any, postgres_server: Any
) -> None:
    store = postgres_place.open()
    following = store.follow(0, stop=threading.Event(), where=SENT, poll_seconds=0.05)
    store.append([event("e1")])
    assert next(following).event.id == "e1"

    cut_off(postgres_server)
    store.append([event("e2")])

    assert next(following).event.id == "e2"
    following.close()


def test_a_transaction_that_breaks_midway_says_that_it_is_not_known_what_happened(
    postgres_place: Any, postgres_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = postgres_place.open()
    begin = store._begin

    def begin_and_break(connection: Any) -> None:
        begin(connection)
        cut_off(postgres_server)

    monkeypatch.setattr(store, "_begin", begin_and_break)
    with pytest.raises(ServerUnreachable, match="may or may not be recorded"):
        store.append([event("e1")])

    monkeypatch.undo()
    assert store.events(SENT) == []
    assert ids(store.append([event("e1")])) == ["e1"]


def test_a_writer_that_does_not_end_locks_others_out_for_a_bounded_time(
    postgres_place: Any, postgres_server: Any
) -> None:
    store = postgres_place.open(lock_timeout_seconds=0.1)
    with postgres_server.admin() as admin:
        admin.execute("BEGIN")
        admin.execute(
            f"SELECT pg_advisory_xact_lock(hashtextextended('bridgehead {schema_of(postgres_place)}', 0))"
        )
        with pytest.raises(RecordLocked, match=r"gave up after 0\.1 s"):
            store.append([event("e1")])
        assert store.events(SENT) == []
        admin.execute("ROLLBACK")

    assert ids(store.append([event("e1")])) == ["e1"]


def test_a_statement_that_takes_too_long_is_given_up_on(postgres_place: Any) -> None:
    store = postgres_place.open(statement_timeout_seconds=2.0)

    with pytest.raises(ServerUnreachable, match="timed out"):
        store._read(lambda transaction: transaction.rows("SELECT pg_sleep(30)"))

    assert store.last_seq() == 1


def test_a_server_that_takes_no_writes_is_read_only(postgres_place: Any) -> None:
    store = postgres_place.open()
    store._slot.connection.execute("SET default_transaction_read_only = on")

    with pytest.raises(RecordReadOnly, match="the server accepts no writes"):
        store.append([event("e1")])

    assert store.events(SENT) == []


def test_what_has_no_class_of_its_own_is_reported_in_the_server_s_words(
    postgres_place: Any,
) -> None:
    with pytest.raises(RecordFailed, match="no_such_table"):
        postgres_place.open()._read(
            lambda transaction: transaction.rows("SELECT * FROM no_such_table")
        )


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("53100", "RecordFull"),
        ("40P01", "RecordLocked"),
        ("57P01", "ServerUnreachable"),
        ("08006", "ServerUnreachable"),
        ("28000", "ServerRefused"),
        ("XX000", "RecordFailed"),
    ],
)
def test_every_class_of_server_error_has_its_own(code: str, error: str) -> None:
    from bridgehead.control_plane.stores.postgres import statement_failure

    from_server = type("FromServer", (psycopg.DatabaseError,), {"sqlstate": code})(
        "said"
    )

    failure = statement_failure("postgresql://host/db", from_server, waited_seconds=1)

    assert type(failure).__name__ == error


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("SSL error: certificate verify failed", "encrypted"),
        ("connection timeout expired", "in time"),
        (f"something with {SECRET} in it", "no connection could be made"),
    ],
)
def test_the_driver_s_words_about_a_connection_are_never_repeated(
    said: str, words: str
) -> None:
    from bridgehead.control_plane.stores.postgres import connection_failure

    failure = connection_failure("postgresql://host/db", said)

    assert words in str(failure) and SECRET not in str(failure)


def test_a_server_configured_to_acknowledge_early_still_syncs_our_commits(
    postgres_place: Any, postgres_server: Any
) -> None:
    with postgres_server.admin() as admin:
        admin.execute("ALTER DATABASE postgres SET synchronous_commit = off")
        try:
            store = postgres_place.open()
            assert store._read(lambda t: t.rows("SHOW synchronous_commit")) == [("on",)]
        finally:
            admin.execute("ALTER DATABASE postgres RESET synchronous_commit")
