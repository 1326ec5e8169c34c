"""The setting store.keep_days: who writes to the record also keeps it small."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.event_writer import EventWriter, kept_since
from bridgehead.contract.events import Event
from bridgehead.contract.record_words import Part
from bridgehead.errors import ConfigError
from bridgehead.host.clock import SystemClock, iso_ms


def checked(event_id: str, at: str) -> Event:
    return Event(id=event_id, kind="doctor.checked", part=Part.RECORD, at=at)


def at_home(home: Path, **settings: str) -> Assembly:
    return Assembly(
        home,
        {"HOME": str(home), "BRIDGEHEAD_HOME": str(home / "bridgehead"), **settings},
    )


@pytest.mark.parametrize(("days", "kept"), [("365", ["new"]), ("0", ["old", "new"])])
def test_a_writer_prunes_before_it_writes(
    tmp_path: Path, days: str, kept: list[str]
) -> None:
    assembly = at_home(tmp_path, BRIDGEHEAD_STORE_KEEP_DAYS=days)
    with assembly.store() as store:
        store.append([checked("old", "2020-01-01T00:00:00.000Z")])

    writer = EventWriter(assembly, part="bus", logger=logging.getLogger("test"))
    writer.put(checked("new", iso_ms(SystemClock().now())))
    writer.close()

    with assembly.store(read_only=True) as store:
        assert [
            one.event.id for one in store.events() if one.event.kind == "doctor.checked"
        ] == kept


def test_a_setting_that_is_no_number_of_days_deletes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assembly = at_home(tmp_path, BRIDGEHEAD_STORE_KEEP_DAYS="-1")
    with pytest.raises(
        ConfigError, match=r"store\.keep_days must be a number from 0 to 36500"
    ):
        kept_since(assembly.settings)

    writer = EventWriter(assembly, part="bus", logger=logging.getLogger("test"))
    writer.put(checked("new", iso_ms(SystemClock().now())))
    writer.close()

    assert "the record was not pruned: store.keep_days" in caplog.text
    with assembly.store(read_only=True) as store:
        assert store.events()[-1].event.id == "new"
