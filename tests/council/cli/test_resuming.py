"""Taking a council up again: by one process at a time, and knowing whether what it looked at has changed."""

from __future__ import annotations

import os
import subprocess
import threading
from contextlib import closing

import msgspec
import pytest

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.council.files import hold_council
from bridgehead.assembly.council.journal import CouncilJournal, StoredCouncil
from bridgehead.assembly.council.views import CouncilStatus, council_now, list_councils
from bridgehead.contract.record_words import RunState
from bridgehead.council.reporting.report import CouncilReport
from bridgehead.council.scope.scope import ScopeRequest
from bridgehead.errors import UserError
from bridgehead.host.clock import SystemClock
from council.cli.conftest import Hall, StandIn

CHANGED = "scope_changed_since_start"


def retried(hall: Hall, review_id: str) -> CouncilReport:
    report = hall.resume(review_id, retry=("codex",)).report
    assert isinstance(report, CouncilReport)
    return report


def test_options_are_stored_among_the_fields_of_the_request_as_they_always_were(
    hall: Hall,
) -> None:
    council = hall.call(runtimes=("codex",), max_calls=3).council
    with closing(
        CouncilJournal(hall.assembly.places.project, SystemClock())
    ) as journal:
        read = journal.council(council.review_id)
    stored = council.stored()

    assert read == council
    assert "options" not in stored["request"]
    assert (stored["request"]["max_calls"], stored["request"]["intensity"]) == (
        3,
        "quick",
    )
    # Councils stored before there was an option are held without it.
    del stored["request"]["preset"]
    assert StoredCouncil.read(stored) == council


def test_a_council_that_another_process_holds_is_refused_and_left_as_it_is(
    hall: Hall,
) -> None:
    review_id = hall.call(runtimes=("codex",)).council.review_id
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with hold_council(hall.assembly, review_id):
            held.set()
            done.wait()

    other = threading.Thread(target=hold)
    other.start()
    held.wait()
    try:
        with pytest.raises(
            UserError, match=f"council {review_id} is running in another process"
        ):
            hall.resume(review_id, retry=("codex",))
    finally:
        done.set()
        other.join()

    assert list_councils(hall.assembly).councils[0].status is CouncilStatus.HALTED


def test_a_council_whose_process_died_is_shown_as_stopped(hall: Hall) -> None:
    review_id = hall.call(runtimes=("codex",)).council.review_id
    with hall.assembly.store() as store:
        run = store.run(review_id)
        assert run is not None
        late = msgspec.structs.replace(
            run, state=RunState.RUNNING, updated_at="2999-01-01T00:00:00.000Z"
        )
        store.save_run(late)
    assert council_now(hall.assembly, review_id).council.status is CouncilStatus.RUNNING

    with pytest.raises(ZeroDivisionError), hold_council(hall.assembly, review_id):
        raise ZeroDivisionError

    assert council_now(hall.assembly, review_id).council.status is CouncilStatus.STOPPED


@pytest.mark.parametrize(
    "asked",
    [{}, {"verb": "ask", "task": "look at orders/store.py", "scope": ScopeRequest()}],
)
def test_what_leaves_the_files_in_scope_alone_is_no_change(
    hall: Hall, codex: StandIn, asked: dict[str, object]
) -> None:
    project = hall.assembly.places.project
    review_id = hall.call(runtimes=("codex",), **asked).council.review_id
    codex.log_in()
    os.utime(project / "orders" / "store.py", (0, 0))
    (project / ".bridgehead" / "notes").write_text("ours")
    (project / "orders" / "unrelated.py").write_text("x = 1\n")
    environ = dict(hall.assembly.environ)
    git = ("git", "-c", "user.name=t", "-c", "user.email=t@localhost")
    subprocess.run([*git, "add", "-A"], cwd=project, env=environ, check=True)
    subprocess.run(
        [*git, "commit", "-q", "-m", "unrelated"], cwd=project, env=environ, check=True
    )
    elsewhere = Hall(Assembly(project / "orders", environ))

    assert CHANGED not in retried(elsewhere, review_id).warnings


def test_a_changed_line_in_scope_is_said_in_the_report(
    hall: Hall, codex: StandIn
) -> None:
    source = hall.assembly.places.project / "orders" / "store.py"
    review_id = hall.call(runtimes=("codex",)).council.review_id
    codex.log_in()
    source.write_text(source.read_text() + "\nMORE = 1\n")

    assert CHANGED in retried(hall, review_id).warnings
