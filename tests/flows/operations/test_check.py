"""`flow check` says which paused runs go on with changed code and runs nothing; `flow prune` forgets old runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridgehead.flows import Context, Flow, RunInputs, RunRequest, asking, run_flow
from bridgehead.flows.journals.sqlite import SqliteJournal
from bridgehead.flows.operations.cancel import prune
from bridgehead.flows.operations.inspect import CheckedRun, check
from flows.support.flow_processes import shell_in

Count = Callable[[str], int]


def release(ctx: Context, tag: str) -> str:
    ctx.step("build", lambda: "built")
    notes, review = ctx.gather(
        asking("notes", agent="writer", prompt=f"Notes for {tag}?"),
        lambda branch: (
            branch.step("lint", lambda: 1)
            and branch.ask("review", agent="b", prompt="Fine?")
        ),
    )
    return f"{notes} {review}"


FLOW = Flow("release", "1", release)


def checked(
    flow_project: Any, function: Callable[..., Any], version: str = "1", **details: Any
) -> CheckedRun:
    [one] = check(Flow("release", version, function, **details), (flow_project.root,))
    return one


@pytest.fixture
def paused(flow_project: Any) -> Any:
    flow_project.run(FLOW, given={"tag": "v1"})
    return flow_project


def test_the_code_that_paused_it_goes_on(paused: Any) -> None:
    assert checked(paused, release)[1:] == (True, "waits at gather#0/branch#0/notes#0")


def test_nothing_is_run_asked_or_written_by_a_check(
    paused: Any, counter: Count
) -> None:
    before = {
        path: path.read_bytes() for path in paused.root.rglob("*") if path.is_file()
    }

    def changed(ctx: Context, tag: str) -> str:
        notes = release(ctx, tag)
        ctx.step("push", counter, "pushed")
        return notes

    paused.answer("a late answer lies there and is not taken")
    before[paused.response_path] = paused.response_path.read_bytes()
    assert checked(paused, changed).goes_on
    assert counter("pushed") == 1
    assert {
        path: path.read_bytes() for path in paused.root.rglob("*") if path.is_file()
    } == before


def renamed(ctx: Context, tag: str) -> Any:
    ctx.step("compile", lambda: "built")
    return release(ctx, tag)


def asks_otherwise(ctx: Context, tag: str) -> Any:
    ctx.step("build", lambda: "built")
    return ctx.gather(asking("notes", agent="writer", prompt=f"Short notes for {tag}?"))


def needs_more(ctx: Context, tag: str, channel: str) -> Any:
    return release(ctx, tag)


def removed(ctx: Context, tag: str) -> str:
    return "nothing to do"


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (
            renamed,
            r"the code now has the step compile#0, recorded is the step at build#0",
        ),
        (asks_otherwise, "another question is waiting"),
        (needs_more, "missing 1 required positional argument: 'channel'"),
        (removed, "not reached again"),
    ],
)
def test_a_run_that_would_be_refused_is_named_with_the_difference(
    paused: Any, function: Callable[..., Any], why: str
) -> None:
    found = checked(paused, function)
    assert not found.goes_on
    assert why in found.detail


def test_another_version_goes_on_only_where_it_says_so(paused: Any) -> None:
    assert "paused by version 1, this is 2" in checked(paused, release, "2").detail
    assert checked(paused, release, "2", compatible_with=("1",)).goes_on


def test_an_interrupted_run_goes_on_where_it_stopped(flow_project: Any) -> None:
    def dies(ctx: Context, tag: str) -> None:
        ctx.step("build", lambda: "built")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        flow_project.run(Flow("release", "1", dies), given={"tag": "v1"})
    assert checked(flow_project, release).detail == "waits at gather#0/branch#0/notes#0"


def test_other_flows_and_roots_without_any_are_none_of_its_business(
    paused: Any, tmp_path: Path
) -> None:
    assert check(Flow("other", "1", release), (paused.root, tmp_path)) == ()


PROGRAM = """
from bridgehead.flows import flow, main

@flow("release")
def release(ctx, tag: str):
    {body}
    return ctx.ask("notes", agent="writer", prompt=f"Notes for {{tag}}?")

if __name__ == "__main__":
    raise SystemExit(main(release))
"""


def test_the_command_looks_wherever_the_record_knows_a_paused_run(
    tmp_path: Path,
) -> None:
    shell = shell_in(tmp_path)
    shell.write("release.py", PROGRAM.format(body='ctx.step("build", lambda: 1)'))
    other = tmp_path / "other"
    other.mkdir()
    assert shell.flow("run", "release.py", "--tag", "v1").code == 42
    assert (
        shell.flow("run", "release.py", "--tag", "v2", "--dir", str(other)).code == 42
    )
    fine = shell.flow("check", "release.py")
    assert (fine.code, fine.out.splitlines()[-1]) == (
        0,
        "2 of 2 paused runs can be resumed",
    ), fine.err
    shell.write("release.py", PROGRAM.format(body='ctx.step("compile", lambda: 1)'))
    refused = shell.flow("check", "release.py")
    assert (refused.code, refused.out.count("refused  flow-")) == (1, 2)
    assert "recorded is the step at build#0" in refused.out
    assert (
        shell.flow("check", "release.py", "--dir", str(tmp_path)).out
        == "no run of release is paused\n"
    )


def finish(flow_project: Any, *, fails: bool = False, size: int = 1) -> str:
    def work(ctx: Context) -> str:
        ctx.step("load", lambda: "x" * size)
        if fails:
            raise ValueError("broken")
        return "done"

    inputs = RunInputs(clock=flow_project.clock)
    try:
        return run_flow(
            Flow("demo", "1", work), RunRequest(root=flow_project.root), inputs
        ).flow_id
    except Exception:
        with SqliteJournal(flow_project.private / "journal.db") as journal:
            return journal.runs()[0].id


def known(flow_project: Any) -> list[str]:
    with SqliteJournal(flow_project.private / "journal.db") as journal:
        return [run.id for run in reversed(journal.runs())]


def test_pruning_forgets_what_ended_long_ago_and_keeps_what_can_go_on(
    flow_project: Any,
) -> None:
    inputs = RunInputs(clock=flow_project.clock)
    old, failed = finish(flow_project, size=20_000), finish(flow_project, fails=True)
    paused = flow_project.run(FLOW, given={"tag": "v1"}).flow_id
    flow_project.clock.advance(31 * 86_400)
    would = prune(flow_project.root, 30, inputs, dry_run=True)
    assert ([run.id for run in would], known(flow_project)) == (
        [old],
        [old, failed, paused],
    )
    assert [run.id for run in prune(flow_project.root, 30, inputs)] == [old]
    assert known(flow_project) == [failed, paused]
    with SqliteJournal(flow_project.private / "journal.db") as journal:
        assert journal.lookup(old) == {} and journal.attempts(paused)
        assert journal._db.execute("SELECT count(*) FROM blob").fetchone() == (0,)
    prune(flow_project.root, 30, inputs, failed=True)
    assert known(flow_project) == [paused]


def test_with_keep_days_a_run_that_ends_forgets_the_old_ones(flow_project: Any) -> None:
    old = finish(flow_project)
    flow_project.clock.advance(8 * 86_400)
    inputs = RunInputs(clock=flow_project.clock, keep_days=7)
    new = run_flow(
        Flow("demo", "1", lambda ctx: "done"),
        RunRequest(root=flow_project.root),
        inputs,
    ).flow_id
    assert old not in known(flow_project) and new in known(flow_project)


def test_status_shows_a_page_of_the_steps(tmp_path: Path) -> None:
    shell = shell_in(tmp_path)
    steps = '[ctx.step("count", abs, n) for n in range(120)]'
    shell.write("release.py", PROGRAM.format(body=steps))
    assert shell.flow("run", "release.py", "--tag", "v1").code == 42
    last = shell.flow("status").out.splitlines()
    assert len(last) == 1 + 21 + 1
    assert "notes#0" in last[-2] and "steps 101 to 121 of 121" in last[-1]
    assert "count#49" in shell.flow("status", "--page", "1").out
    assert len(shell.flow("status", "--all").out.splitlines()) == 122
    assert "take 3 pages" in shell.flow("status", "--page", "4").err
    assert shell.flow("prune").code == 1
    assert shell.flow("prune", "--days", "0").out == "0 deleted\n"
