"""Attack 2: whoever can write a row of the fleet's database runs code on workers and on clients that list runs."""

from __future__ import annotations

import base64
import pickle
from pathlib import Path
from typing import Any

import psycopg
import pytest

from assembly.fleet.conftest import Submit, TestFleet
from bridgehead.assembly.flows.stored_values import (
    CONSTRAINT,
    RefusedEncoding,
    only_portable_json,
)
from bridgehead.flows.words import RunStatus

pytestmark = pytest.mark.slow

ENCODED = "flow-20250101-000000-aaaa/1"
GARBLED = "flow-20250101-000000-bbbb/1"
MISSHAPEN = "flow-20250101-000000-cccc/not-a-number"


class Touch:
    """An object whose pickle creates a file where it is read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self._path,))


def pickle_that_touches(marker: Path) -> str:
    return base64.b64encode(pickle.dumps(Touch(marker))).decode()


def plant_row(
    fleet: TestFleet, job_id: str, *, inputs: str, encoding: str, status: str
) -> None:
    """Write a row as a client with access to the database can, past every constraint."""
    schema = fleet.fleet.address.schema
    with fleet.store_connection() as connection:
        connection.execute(
            f"ALTER TABLE {schema}.workflow_status DROP CONSTRAINT IF EXISTS {CONSTRAINT}"
        )
        connection.execute(
            f"INSERT INTO {schema}.workflow_status"
            " (workflow_uuid, status, name, inputs, output, error, queue_name, serialization,"
            "  created_at, updated_at, priority)"
            " VALUES (%s, %s, 'bridgehead.flow', %s, %s, %s, 'default', %s, %s, %s, 0)",
            [job_id, status, inputs, inputs, inputs, encoding, 2**62, 2**62],
        )


def test_no_worker_and_no_client_runs_what_a_row_brings(
    fleet: TestFleet, submit: Submit, tmp_path: Path
) -> None:
    marker = tmp_path / "ran"
    touches = pickle_that_touches(marker)
    first = submit("note", settings={"line": "before"})
    plant_row(fleet, ENCODED, inputs=touches, encoding="py_pickle", status="ENQUEUED")
    plant_row(fleet, GARBLED, inputs="{", encoding="portable_json", status="ENQUEUED")
    plant_row(fleet, MISSHAPEN, inputs="[]", encoding="py_pickle", status="DELAYED")

    listed = fleet.json("flow", "list")["flows"]
    fleet.run("flow", "status", ENCODED.removesuffix("/1"))
    worker = fleet.worker()
    assert fleet.result(first) == "before"
    plant_row(
        fleet,
        ENCODED.replace("aaaa", "dddd"),
        inputs=touches,
        encoding="py_pickle",
        status="ENQUEUED",
    )
    second = submit("note", settings={"line": "after"})
    assert fleet.result(second) == "after"
    fleet.run("flow", "prune", "--days", "1")

    shown = {one["flow_id"]: one["status"] for one in listed}
    assert shown.pop(first) == "queued"
    assert set(shown.values()) == {RunStatus.DAMAGED.value}
    assert len(shown) == 3
    assert "damaged" in fleet.run("flow", "list")
    assert worker.poll() is None
    assert not marker.exists()


def test_the_recorded_step_of_a_run_is_never_unpickled(
    fleet: TestFleet, submit: Submit, tmp_path: Path
) -> None:
    marker = tmp_path / "ran"
    schema = fleet.fleet.address.schema
    fleet.worker()
    run = submit("release", settings={"tag": "v1"})
    fleet.asked(run)
    fleet.until_state(run, RunStatus.WAITING)
    with fleet.store_connection() as connection:
        connection.execute(
            f"ALTER TABLE {schema}.operation_outputs DROP CONSTRAINT {CONSTRAINT}"
        )
        connection.execute(
            f"UPDATE {schema}.operation_outputs SET output = %s, serialization = 'py_pickle'",
            [pickle_that_touches(marker)],
        )

    fleet.run("flow", "status", run)

    assert not marker.exists()


def test_the_tables_take_no_other_encoding(fleet: TestFleet, submit: Submit) -> None:
    run = submit("note", settings={"line": "ours"})
    schema = fleet.fleet.address.schema
    tables = [
        "workflow_status",
        "operation_outputs",
        "notifications",
        "workflow_events",
        "workflow_events_history",
        "streams",
    ]
    with fleet.store_connection() as connection:
        held = connection.execute(
            "SELECT conrelid::regclass::text FROM pg_constraint WHERE conname = %s"
            " AND connamespace = %s::regnamespace",
            [CONSTRAINT, schema],
        ).fetchall()
    assert {name for (name,) in held} == {f"{schema}.{table}" for table in tables}

    with (
        pytest.raises(psycopg.errors.CheckViolation),
        fleet.store_connection() as connection,
    ):
        connection.execute(
            f"UPDATE {schema}.workflow_status SET serialization = 'py_pickle'"
            " WHERE workflow_uuid = %s",
            [f"{run}/1"],
        )


def test_a_row_written_before_the_constraint_is_marked_and_holds_nobody_up(
    fleet: TestFleet, submit: Submit, tmp_path: Path
) -> None:
    marker = tmp_path / "ran"
    submit("note", settings={"line": "first"})
    touches = pickle_that_touches(marker)
    plant_row(fleet, ENCODED, inputs=touches, encoding="py_pickle", status="ENQUEUED")

    fleet.worker()  # holds the tables to JSON again
    second = submit("note", settings={"line": "second"})

    assert fleet.result(second) == "second"
    with fleet.store_connection() as connection:
        encodings = connection.execute(
            f"SELECT DISTINCT serialization FROM {fleet.fleet.address.schema}.workflow_status"
        ).fetchall()
    assert encodings == [("portable_json",)]
    assert not marker.exists()


def test_the_decoder_of_pickles_is_refused_in_this_process(tmp_path: Path) -> None:
    from dbos._serialization import deserialize_args, deserialize_exception

    serializer = only_portable_json()
    touches = pickle_that_touches(tmp_path / "ran")

    with pytest.raises(RefusedEncoding):
        deserialize_args(touches, "py_pickle", serializer)
    with pytest.raises(RefusedEncoding):
        deserialize_exception(touches, "py_pickle", serializer)
    assert not (tmp_path / "ran").exists()
