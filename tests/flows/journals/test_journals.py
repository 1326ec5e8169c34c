"""What every journal must do; a new store is added to the list at the top."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bridgehead.flows.calls import Attempt
from bridgehead.flows.errors import JournalUnusable
from bridgehead.flows.journals.base import Record, Run
from bridgehead.flows.journals.sqlite import (
    INLINE_LIMIT,
    MIGRATIONS,
    MemoryJournal,
    SqliteJournal,
)
from bridgehead.flows.words import AttemptStatus, RunStatus

AT = "2026-11-15T10:15:02Z"


@pytest.fixture(params=["sqlite", "memory"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqliteJournal]:
    makers: dict[str, Callable[[], SqliteJournal]] = {
        "sqlite": lambda: SqliteJournal(tmp_path / "journal.db"),
        "memory": MemoryJournal,
    }
    with makers[request.param]() as made:
        yield made


def run(flow_id: str = "flow-1", **changes: Any) -> Run:
    fresh = Run(
        flow_id,
        "demo",
        "1",
        "demo.py:demo",
        "/srv/app",
        RunStatus.RUNNING,
        {"a": "ü", "b": [1]},
        AT,
        AT,
    )
    return fresh._replace(**changes)


def record(path: str, result: str | None = '"x"', **changes: Any) -> Record:
    return Record(path, "step", "sha", "completed", result, None, AT, AT)._replace(
        **changes
    )


def attempt(request_id: str, path: str = "ask#0", **changes: Any) -> Attempt:
    document = {
        "request_id": request_id,
        "agent_name": "reviewer",
        "prompt": "p" * 20,
        "retry_count": 0,
    }
    return Attempt(path, document, AttemptStatus.PENDING)._replace(**changes)


def test_a_run_comes_back_as_it_was_begun(journal: SqliteJournal) -> None:
    journal.begin(run())
    assert journal.run("flow-1") == run()
    assert journal.run("flow-2") is None


def test_runs_are_listed_newest_first_and_one_of_them_may_be_unfinished(
    journal: SqliteJournal,
) -> None:
    journal.begin(run("flow-1"))
    journal.end("flow-1", RunStatus.COMPLETED, at=AT, result='"done"')
    assert journal.unfinished() is None
    journal.begin(run("flow-2"))
    assert [known.id for known in journal.runs()] == ["flow-2", "flow-1"]
    unfinished = journal.unfinished()
    assert unfinished is not None and unfinished.id == "flow-2"
    ended = journal.run("flow-1")
    assert ended is not None and (ended.status, ended.result) == (
        RunStatus.COMPLETED,
        '"done"',
    )


def test_records_come_back_in_the_order_they_were_made(journal: SqliteJournal) -> None:
    journal.begin(run("flow-1"))
    journal.begin(run("flow-2"))
    for path in ("z#0", "a#0", "m#0/b#1"):
        journal.append("flow-1", record(path))
    journal.append("flow-2", record("z#0", '"other"'))
    assert list(journal.lookup("flow-1").values()) == [
        record("z#0"),
        record("a#0"),
        record("m#0/b#1"),
    ]


@pytest.mark.parametrize("size", [INLINE_LIMIT - 2, INLINE_LIMIT - 1, 10_000_000])
def test_a_value_of_any_size_comes_back(journal: SqliteJournal, size: int) -> None:
    journal.begin(run())
    text = '"' + "x" * size + '"'
    journal.append("flow-1", record("a#0", text))
    journal.append("flow-1", record("b#0", text))
    assert [kept.result for kept in journal.lookup("flow-1").values()] == [text, text]


def test_a_call_and_its_requests_are_completed_together(journal: SqliteJournal) -> None:
    journal.begin(run())
    waiting = attempt(
        "AAAA", document={**attempt("AAAA").document, "prompt": "p" * 20_000}
    )
    journal.hold("flow-1", [waiting], at=AT)
    held = journal.run("flow-1")
    assert held is not None and held.status is RunStatus.WAITING
    assert journal.attempts("flow-1") == [waiting]

    done = waiting._replace(
        status=AttemptStatus.COMPLETED, response={"response": "r" * 20_000}
    )
    journal.complete("flow-1", record("ask#0"), [done])
    assert journal.attempts("flow-1") == [done]
    assert journal.lookup("flow-1") == {"ask#0": record("ask#0")}


def test_a_request_is_found_without_regard_to_case(journal: SqliteJournal) -> None:
    journal.begin(run())
    journal.hold("flow-1", [attempt("Ab-1"), attempt("ab-2", "other#0")], at=AT)
    owner = journal.owner("aB-1")
    assert owner is not None and (owner[0].id, owner[1].request_id) == (
        "flow-1",
        "Ab-1",
    )
    assert journal.owner("ab-3") is None


def test_changed_requests_keep_their_place(journal: SqliteJournal) -> None:
    journal.begin(run())
    journal.hold("flow-1", [attempt("a"), attempt("b")], at=AT)
    journal.hold(
        "flow-1",
        [attempt("a", status=AttemptStatus.SUPERSEDED, error_type="TIMEOUT")],
        at=AT,
    )
    assert [
        (a.request_id, a.status, a.error_type) for a in journal.attempts("flow-1")
    ] == [
        ("a", AttemptStatus.SUPERSEDED, "TIMEOUT"),
        ("b", AttemptStatus.PENDING, None),
    ]


def test_forgetting_drops_everything_from_a_step_on(journal: SqliteJournal) -> None:
    journal.begin(run())
    for path in ("a#0", "ask#0", "b#0", "c#0"):
        journal.append("flow-1", record(path))
    journal.hold("flow-1", [attempt("kept"), attempt("dropped", "later#0")], at=AT)
    journal.forget_from("flow-1", "b#0")
    assert list(journal.lookup("flow-1")) == ["a#0", "ask#0"]
    assert [a.request_id for a in journal.attempts("flow-1")] == ["kept"]


def test_forgetting_leaves_other_runs_alone(journal: SqliteJournal) -> None:
    for flow_id in ("flow-1", "flow-2"):
        journal.begin(run(flow_id))
        for path in ("a", "b"):
            journal.append(flow_id, record(path))
    journal.forget_from("flow-1", "b")
    assert (list(journal.lookup("flow-1")), list(journal.lookup("flow-2"))) == (
        ["a"],
        ["a", "b"],
    )
    journal.forget_from("flow-1", "a")
    assert list(journal.lookup("flow-2")) == ["a", "b"]


def test_the_moment_an_answer_was_taken_is_kept(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "journal.db") as journal:
        journal.begin(run())
        answered = attempt("r-1", response={"status": "success"})
        for at in (AT, "2026-11-16T00:00:00Z"):
            journal.hold("flow-1", [answered], at=at)
        assert journal._db.execute("SELECT consumed_at FROM request").fetchall() == [
            (AT,)
        ]


def test_a_run_is_taken_up_as_the_version_that_resumes_it(
    journal: SqliteJournal,
) -> None:
    journal.begin(run(status=RunStatus.WAITING))
    journal.claim("flow-1", version="2", at=AT)
    claimed = journal.run("flow-1")
    assert claimed is not None and (claimed.status, claimed.version) == (
        RunStatus.RUNNING,
        "2",
    )


def test_the_journal_file_is_private_and_survives_its_process(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    with SqliteJournal(path) as first:
        first.begin(run())
        first.append("flow-1", record("a#0"))
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with SqliteJournal(path) as second:
        assert second.lookup("flow-1") == {"a#0": record("a#0")}


def test_the_journal_is_written_through_to_the_disk(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "journal.db") as journal:
        pragmas = [
            journal._db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous")
        ]
    assert pragmas == ["wal", 2]


@pytest.mark.parametrize(
    "content",
    [b"not a database, certainly not one" * 40, b"SQLite format 3\0" + b"\0" * 200],
)
def test_a_file_that_is_no_journal_is_refused_and_left_alone(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(content)
    with pytest.raises(JournalUnusable, match=r"journal\.db"):
        SqliteJournal(path)
    assert path.read_bytes() == content


def test_a_journal_of_a_newer_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    SqliteJournal(path).close()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    db.close()
    with pytest.raises(JournalUnusable, match="newer than this program"):
        SqliteJournal(path)


def test_a_journal_behind_a_link_is_refused(tmp_path: Path) -> None:
    SqliteJournal(tmp_path / "real.db").close()
    (tmp_path / "journal.db").symlink_to(tmp_path / "real.db")
    with pytest.raises(JournalUnusable):
        SqliteJournal(tmp_path / "journal.db")


def test_a_failed_transaction_leaves_nothing_behind(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "journal.db") as journal:
        journal.begin(run())
        with pytest.raises(JournalUnusable):
            journal.complete(
                "flow-1", record("a#0")._replace(kind=None), [attempt("x")]
            )
        assert journal.attempts("flow-1") == []
        journal.append("flow-1", record("a#0"))
        assert list(journal.lookup("flow-1")) == ["a#0"]


def test_a_run_that_is_reopened_waits_without_what_is_to_be_done_again(
    journal: SqliteJournal,
) -> None:
    journal.begin(run())
    for path in ("a#0", "ask#0", "later#0"):
        journal.append("flow-1", record(path))
    ended = {"status": AttemptStatus.COMPLETED}
    journal.hold(
        "flow-1", [attempt("r1", **ended), attempt("r2", "later#0", **ended)], at=AT
    )
    journal.hold("flow-1", [attempt("r3", "open#0")], at=AT)
    journal.end("flow-1", RunStatus.FAILED, at=AT, error="boom")
    journal.reopen("flow-1", at=AT, path="ask#0", attempts=[attempt("r4")])
    assert list(journal.lookup("flow-1")) == ["a#0"]
    assert {made.request_id for made in journal.attempts("flow-1")} == {
        "r1",
        "r3",
        "r4",
    }
    waiting = journal.unfinished()
    assert waiting is not None and (waiting.status, waiting.error) == (
        RunStatus.WAITING,
        None,
    )
    journal.reopen("flow-1", at=AT, drop_open=True)
    assert [made.request_id for made in journal.attempts("flow-1")] == ["r1"]
    assert list(journal.lookup("flow-1")) == ["a#0"]
