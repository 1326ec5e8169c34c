"""Prompts, replies, logs and reports of old councils are deleted; what is open, pinned or the last stays."""

from __future__ import annotations

import datetime as dt
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.council.councils import Councils
from bridgehead.assembly.council.journal import CouncilJournal
from bridgehead.assembly.council.request import CouncilRequest
from bridgehead.assembly.council.retention import (
    KeptCouncil,
    Limits,
    councils_to_forget,
    files_of_councils,
)
from bridgehead.assembly.council.run import Audience
from bridgehead.contract.words import Intensity
from bridgehead.council.request.plan import CouncilOptions
from bridgehead.council.runtimes.cli import CliConnection
from bridgehead.council.scope.scope import ScopeRequest
from bridgehead.host.clock import ManualClock
from council.cli.conftest import StandIn
from support.installed import Machine

pytestmark = pytest.mark.xdist_group("council_cli")

NEWEST_FIRST = [
    KeptCouncil("running", None, 10),
    KeptCouncil("last", "2026-11-10", 10),
    KeptCouncil("middle", "2026-11-05", 10),
    KeptCouncil("waiting", None, 10),
    KeptCouncil("old", "2026-01-05", 10),
    KeptCouncil("oldest", "2026-01-01", 10),
]


@pytest.mark.parametrize(
    ("limits", "forgotten"),
    [
        (Limits(None, None), []),
        (Limits("2026-06-01", None), ["old", "oldest"]),
        (Limits("2026-01-03", None), ["oldest"]),
        (Limits("2027-01-01", None), ["middle", "old", "oldest"]),
        (Limits(None, 50), ["oldest"]),
        (Limits(None, 1), ["middle", "old", "oldest"]),
        (Limits("2026-06-01", 30), ["old", "oldest"]),
        (Limits("2026-06-01", 1, frozenset({"old"})), ["middle", "oldest"]),
    ],
)
def test_what_is_too_old_or_too_much_goes_but_nothing_open_pinned_or_last(
    limits: Limits, forgotten: list[str]
) -> None:
    assert councils_to_forget(NEWEST_FIRST, limits) == forgotten


def test_a_file_belongs_to_the_council_whose_whole_id_ends_its_name(
    tmp_path: Path,
) -> None:
    folder = tmp_path / ".outputs" / "council"
    folder.mkdir(parents=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x-abc.md").write_text("not ours\n")
    for name in ("1-council-abc.md", "1-council-abc-2.json", "1-council-xabc.md"):
        (folder / name).write_text("x\n")
    (folder / "9-council-abc.md").symlink_to(elsewhere / "x-abc.md")
    (tmp_path / ".outputs" / "linked").symlink_to(elsewhere)

    found = files_of_councils(tmp_path, ["abc", "other"])

    assert {name: [path.name for path in paths] for name, paths in found.items()} == {
        "abc": ["1-council-abc-2.json", "1-council-abc.md"]
    }


class Hall:
    """Councils of the example project in this process, at whatever time it is."""

    def __init__(self, assembly: Assembly) -> None:
        self.assembly = assembly
        self.clock = ManualClock(dt.datetime(2026, 11, 15, 10, 15, tzinfo=dt.UTC))

    def hold(
        self, runtime: str = "codex", host: str | None = None, task: str = "is it safe?"
    ) -> str:
        request = CouncilRequest(
            scope=ScopeRequest(paths=("orders/store.py",)),
            domains=("security",),
            task=task,
            options=CouncilOptions(
                intensity=Intensity.QUICK, runtimes=(runtime,), host_seat=host
            ),
        )
        self.clock.advance(60)
        finished = Councils(self.assembly, self.clock).call(request, Audience())
        return finished.council.review_id

    def after_days(self, days: float) -> None:
        self.clock.advance(days * 86_400)

    @property
    def kept(self) -> list[str]:
        journal = CouncilJournal(self.assembly.places.project, self.clock)
        ids = journal.ids()
        journal.close()
        return ids

    def files_of(self, review_id: str) -> list[str]:
        project = self.assembly.places.project
        return [
            str(path.relative_to(project))
            for path in (project / ".outputs").rglob("*")
            if path.is_file()
            and (
                review_id in path.name
                or (path.parent.name == "context" and review_id in path.read_text())
            )
        ]


@pytest.fixture
def hall(orders: Machine, codex: StandIn, monkeypatch: pytest.MonkeyPatch) -> Hall:
    monkeypatch.setattr(CliConnection, "hold", lambda self, machine: None)
    codex.log_in()
    return Hall(Assembly(orders.project, orders.environ(PATH=codex.path)))


def test_a_council_that_ends_deletes_those_that_ended_long_ago(hall: Hall) -> None:
    old = hall.hold()
    waiting = hall.hold("claude", host="claude")
    assert hall.files_of(old)
    hall.after_days(179)
    young = hall.hold()
    assert set(hall.kept) == {old, waiting, young}

    hall.after_days(2)
    newest = hall.hold()

    assert set(hall.kept) == {waiting, young, newest}
    assert hall.files_of(old) == []
    assert hall.files_of(young) and hall.files_of(waiting)
    with hall.assembly.store(read_only=True) as store:
        pruned = [
            found.event.data
            for found in store.events()
            if found.event.kind == "record.pruned"
        ]
    assert pruned == [{"councils": [old]}]


def test_it_looks_once_a_day(hall: Hall) -> None:
    old = hall.hold()
    hall.after_days(180 - 0.5)
    hall.hold()
    hall.after_days(0.9)
    hall.hold()
    assert old in hall.kept, "it was looked for less than a day ago"

    hall.after_days(0.2)
    hall.hold()

    assert old not in hall.kept


def test_a_limit_of_space_keeps_the_newest_and_the_pinned(
    orders: Machine, codex: StandIn, hall: Hall
) -> None:
    first, second, third = hall.hold(), hall.hold(), hall.hold()
    environment = orders.environ(
        PATH=codex.path,
        BRIDGEHEAD_COUNCIL_KEEP_MIB="0.001",
        BRIDGEHEAD_COUNCIL_PINNED=first,
    )
    hall.assembly = Assembly(orders.project, environment)
    hall.after_days(1.1)

    newest = hall.hold()

    assert set(hall.kept) == {first, newest}
    assert hall.files_of(second) == hall.files_of(third) == []


def test_nothing_is_deleted_by_itself_where_both_limits_are_zero(
    orders: Machine, codex: StandIn, hall: Hall
) -> None:
    environment = orders.environ(
        PATH=codex.path,
        BRIDGEHEAD_COUNCIL_KEEP_DAYS="0",
        BRIDGEHEAD_COUNCIL_KEEP_MIB="0",
    )
    hall.assembly = Assembly(orders.project, environment)
    old = hall.hold()
    hall.after_days(10_000)

    newest = hall.hold()

    assert hall.kept == [newest, old]


def test_record_prune_deletes_councils_too_and_says_which(
    orders: Machine, hall: Hall
) -> None:
    old, newest = hall.hold(task="look with great care"), hall.hold()
    journal = orders.project / ".bridgehead" / "flows" / "councils.db"

    stored = [path.read_bytes() for path in journal.parent.glob("councils.db*")]
    assert any(b"great care" in content for content in stored)

    would = orders.run("record", "prune", "--days", "0", "--dry-run", "--json")
    assert would.json["councils"] == [old] and set(hall.kept) == {old, newest}
    done = orders.run("record", "prune", "--days", "0")

    assert done.code == 0, done.err
    assert "1 council" in done.out
    assert hall.kept == [newest]
    assert hall.files_of(old) == []
    with closing(sqlite3.connect(journal)) as connection:
        [[free_pages]] = connection.execute("PRAGMA freelist_count").fetchall()
    assert free_pages == 0, "the file gives the space back"
    assert b"great care" not in journal.read_bytes(), "it is gone from the file itself"
    gone = orders.run("council", "show", old)
    assert gone.code == 1, gone.err
    assert f"no report of council {old!r}" in gone.err
