"""Attack 10: a clock that goes back, and a gate that speaks for what no council saw."""

from __future__ import annotations

import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from bridgehead.assembly.application import Assembly
from bridgehead.contract.events import Event
from bridgehead.contract.record_words import Part
from council.cli.conftest import committed_orders
from support.installed import Done, Machine

BARE = "/usr/local/bin:/usr/bin:/bin"
LATER = "2999-01-01T00:00:00.000Z"


@pytest.fixture
def orders(tmp_path: Path) -> Machine:
    return committed_orders(tmp_path)


def council(machine: Machine, *words: str) -> Done:
    return machine.run("council", *words, PATH=BARE)


def review(machine: Machine, *words: str) -> Done:
    done = council(machine, "review", "--runtime", "static", *words)
    assert done.code == 0, done.err
    return done


def git(machine: Machine, *words: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(
        ["git", *identity, *words],
        cwd=machine.project,
        env=machine.environ(),
        check=True,
        capture_output=True,
    )


def commit(machine: Machine, **files: str) -> None:
    for name, text in files.items():
        (machine.project / f"{name}.py").write_text(text)
    git(machine, "add", "--all")
    git(machine, "commit", "--quiet", "-m", "more")


def record(machine: Machine, kind: str, at: str, **data: str) -> None:
    assembly = Assembly(machine.project, machine.environ(PATH=BARE))
    event = Event(
        id=str(uuid4()),
        kind=kind,
        part=Part.COUNCIL,
        at=at,
        project=assembly.project,
        data=data,
    )
    with assembly.store() as store:
        store.append([event])


def break_outputs(machine: Machine) -> None:
    """Make the next council fail after it has begun: its folder of contexts is a file."""
    folder = machine.project / ".outputs"
    folder.rename(machine.project.parent / "outputs-before")
    folder.mkdir()
    (folder / "context").write_text("")


@pytest.mark.parametrize("kind", ["timeout", "quota", "retired", "no such class"])
def test_a_refusal_from_the_future_keeps_no_council_from_its_end(
    orders: Machine, kind: str
) -> None:
    record(
        orders,
        "council.refused",
        LATER,
        bridge="codex",
        reason="a colleague's clock",
        error_class=kind,
    )

    done = council(orders, "review", "--intensity", "quick")

    assert (done.code, done.err.count("Traceback")) == (0, 0), done.err
    assert "still_refused" not in done.out


def test_a_council_that_breaks_off_is_not_answered_for_by_the_one_before(
    orders: Machine,
) -> None:
    review(orders)
    assert council(orders, "gate").code == 0
    break_outputs(orders)

    broken = council(orders, "review", "--runtime", "static", "--id", "second")
    refused = council(orders, "gate", "--json")

    assert broken.code not in (0, 3)
    assert refused.code == 3
    assert refused.json["review_id"] == "second"
    assert refused.json["verdict"] is None
    (reason,) = refused.json["refused_because"]
    assert reason.startswith("council second ")
    assert "council resume second" in refused.json["next_step"]


def test_the_council_that_was_begun_last_counts_whatever_the_clock_said(
    orders: Machine,
) -> None:
    review(orders, "--id", "early")
    with closing(sqlite3.connect(orders.record)) as database, database:
        database.execute("UPDATE runs SET started_at = ?, updated_at = ?", [LATER] * 2)

    review(orders, "--id", "late")

    assert council(orders, "gate", "--json").json["review_id"] == "late"


def test_a_review_of_one_file_does_not_pass_a_later_commit_of_others(
    orders: Machine,
) -> None:
    review(orders, "orders/store.py")
    assert council(orders, "gate").code == 0
    assert council(orders, "gate", "--commit", "HEAD").code == 0
    commit(orders, evil="import os\nos.system('id')\n")

    for words in ((), ("--commit", "HEAD")):
        refused = council(orders, "gate", *words)
        assert refused.code == 3
        assert "evil.py" in refused.out
        assert "next: bridgehead council review --diff " in refused.out


def test_what_was_pushed_meanwhile_still_has_to_be_seen(
    orders: Machine, tmp_path: Path
) -> None:
    git(orders, "init", "-q", "--bare", str(tmp_path / "far.git"))
    git(orders, "remote", "add", "origin", str(tmp_path / "far.git"))
    review(orders, "orders/store.py")
    commit(orders, evil="import os\n")
    git(orders, "push", "-q", "-u", "origin", "HEAD:main")

    assert council(orders, "gate").code == 3
    assert council(orders, "gate", "--commit", "HEAD").code == 3


def test_a_link_a_removal_and_a_rename_that_nobody_saw_are_refused(
    orders: Machine,
) -> None:
    (orders.project / "keep.py").write_text("x = 1\n")
    (orders.project / "guard.py").write_text("x = 2\n")
    commit(orders)
    attacks = {
        "link.py": lambda: (orders.project / "link.py").symlink_to("/etc/passwd"),
        "guard.py": (orders.project / "guard.py").unlink,
        "keep.py": lambda: git(orders, "mv", "keep.py", "kept.py"),
    }
    for path, attack in attacks.items():
        review(orders, "orders/store.py")
        attack()
        commit(orders)
        refused = council(orders, "gate", "--commit", "HEAD", "--json")
        assert refused.code == 3
        assert path in refused.json["refused_because"][0]


def test_a_gate_names_the_commit_and_the_scope_it_speaks_for(orders: Machine) -> None:
    review(orders, "orders/store.py")

    decision = council(orders, "gate", "--json").json
    text = council(orders, "gate").out

    assert decision["commit"] in subprocess.check_output(
        ["git", "rev-parse", "HEAD"], cwd=orders.project, text=True
    )
    assert decision["scope"] == "orders/store.py"
    assert decision["state"] == "the working tree"
    assert f"for the working tree at {decision['commit'][:12]}" in text
    assert "reviewed: orders/store.py" in text


@pytest.mark.parametrize(
    ("words", "gated"),
    [
        ((), ()),
        (("--diff", "HEAD"), ()),
        (("--diff", "HEAD"), ("--commit", "HEAD")),
        (("--staged",), ("--commit", "HEAD")),
        ((".",), ()),
        ((".",), ("--commit", "HEAD")),
    ],
)
def test_ordinary_use_passes_before_and_after_the_commit(
    orders: Machine, words: tuple[str, ...], gated: tuple[str, ...]
) -> None:
    """A change that adds, changes, removes and renames files, with a binary and a link among them."""
    for name in ("old", "gone"):
        (orders.project / f"{name}.py").write_text(f"{name} = 1\n")
    (orders.project / "gone.bin").write_bytes(b"\0\1")
    commit(orders)
    (orders.project / "new.py").write_text("x = 1\n")
    (orders.project / "logo.bin").write_bytes(b"\0\1\2")
    (orders.project / "here.py").symlink_to("new.py")
    (orders.project / "gone.py").unlink()
    (orders.project / "gone.bin").unlink()
    git(orders, "mv", "old.py", "moved.py")
    git(orders, "add", "--all")

    review(orders, *words)
    before = council(orders, "gate")
    git(orders, "commit", "--quiet", "-m", "the change")
    after = council(orders, "gate", *gated)

    assert (before.code, after.code) == (0, 0), before.out + after.out


def test_a_range_passes_and_a_commit_on_top_of_it_does_not(orders: Machine) -> None:
    commit(orders, one="x = 1\n")
    review(orders, "--range", "HEAD~1..HEAD")
    assert council(orders, "gate", "--commit", "HEAD").code == 0
    commit(orders, two="x = 2\n")

    assert council(orders, "gate", "--commit", "HEAD").code == 3


def test_without_git_a_new_file_of_the_reviewed_folder_is_refused(
    tmp_path: Path,
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "plain").mkdir()
    machine = Machine(tmp_path / "home", tmp_path / "plain")
    (machine.project / "bridgehead.toml").write_text("")
    (machine.project / "one.py").write_text("x = 1\n")
    review(machine)
    assert council(machine, "gate").code == 0
    (machine.project / "two.py").write_text("x = 2\n")

    assert council(machine, "gate").code == 3
