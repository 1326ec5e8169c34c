"""What is done while a system call fails, and what must be true afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bridgehead.contract.events import Event
from bridgehead.contract.pending import Question
from bridgehead.contract.record_words import Part, PendingKind, PendingState
from bridgehead.control_plane.records import EventFilter, PendingFilter
from bridgehead.control_plane.stores import open_store
from bridgehead.control_plane.stores.inspection import inspect
from bridgehead.control_plane.stores.sqlite import SqliteStore
from faults.injection import Done, Injector

AT = "2026-11-15T10:15:02.123Z"
SENT = EventFilter(kinds=("rig.sent",))
FLOW = """\
from bridgehead.flows import flow, main

@flow("release", version="1")
def release(ctx, tag: str):
    words = ctx.step("count", lambda: len(tag))
    notes = ctx.ask("notes", agent="writer", prompt=f"Write release notes for {tag}.")
    return f"{tag} ({words} characters): {notes}"
"""


class Place:
    """A home, a project and what runs in them, all below the folder that is watched."""

    def __init__(self, injector: Injector) -> None:
        self.injector = injector
        self.folder = injector.folder
        self.project = self.folder / "project"
        self.home = self.folder / "home"
        self.record = self.home / "data" / "record.db"

    @property
    def environ(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in ("PATH", "LD_PRELOAD", "FAULT_STATE")
        }
        return {
            **kept,
            "HOME": str(self.home),
            "BRIDGEHEAD_HOME": str(self.home),
            "GIT_CONFIG_NOSYSTEM": "1",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
        }

    def make(self) -> None:
        self.project.mkdir(parents=True)
        self.home.mkdir()

    def command(self, *arguments: str, cwd: Path | None = None) -> Done:
        """One bridgehead command, as its own process would run it."""

        def work() -> None:
            from bridgehead.cli import main

            sys.argv = ["bridgehead", *arguments]
            main()

        return self.injector.run(work, self.environ, cwd or self.project)

    def call(self, work: Callable[[], object]) -> Done:
        """A function, ended as a command would be."""

        def command() -> int:
            work()
            return 0

        def guarded() -> None:
            from bridgehead.cli.running import run_guarded

            run_guarded(command, program="bridgehead", debug=False)

        return self.injector.run(guarded, self.environ, self.project)

    def git(self, *arguments: str, cwd: Path | None = None) -> str:
        environ = {
            name: value
            for name, value in self.environ.items()
            if not name.startswith(("LD_", "FAULT"))
        }
        done = subprocess.run(
            ["git", *arguments],
            cwd=cwd or self.project,
            env=environ,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"git {arguments}: {done.stderr}"
        return done.stdout


@dataclass(frozen=True)
class Scenario:
    name: str
    prepare: Callable[[Place], object]
    act: Callable[[Place], Done]
    verify: Callable[[Place, Done], object]
    quick: bool = True
    """Whether the default suite takes points of it."""


def ok(done: Done, code: int = 0) -> Done:
    assert done.code == code, f"exit {done.code}, not {code}:\n{done.out}{done.err}"
    return done


# The record


def sent(name: str) -> Event:
    return Event(
        id=name, kind="rig.sent", part=Part.RIGS, at=AT, data={"text": "x" * 3000}
    )


def append_three(place: Place) -> Done:
    def work() -> None:
        with open_store(str(place.record)) as store:
            for n in range(3):
                store.append([sent(f"new-{n}")])
                print(f"new-{n}", flush=True)

    return place.call(work)


def old_record(place: Place, version: int = 3) -> None:
    place.make()
    place.record.parent.mkdir()
    with SqliteStore(place.record, up_to=version) as store:
        store.append([sent(f"old-{n}") for n in range(5)])
        store.open_pending(
            Question(
                key="k",
                kind=PendingKind.HALTED_RUNTIME,
                part=Part.COUNCIL,
                origin="runtime codex",
                title="Sure?",
            )
        )


def record_is_as_acknowledged(place: Place, done: Done, old: int = 5) -> None:
    assert inspect(place.record).damage == (), inspect(place.record).damage
    acknowledged = done.out.split()
    with open_store(str(place.record)) as store:
        names = [one.event.id for one in store.events(SENT)]
        expected = [f"old-{n}" for n in range(old)] + [f"new-{n}" for n in range(3)]
        assert names == expected[: len(names)] and len(names) - old - len(
            acknowledged
        ) in (0, 1), names
        assert acknowledged == expected[old : old + len(acknowledged)]
        assert store.append([sent("after")])[0].seq > 0
    if done.code == 0:
        assert len(acknowledged) == 3
    beside = {
        entry.name
        for entry in place.record.parent.iterdir()
        if ".tmp" not in entry.name
    }
    assert beside == {"record.db"}, beside


def answered_once(place: Place, done: Done) -> None:
    assert inspect(place.record).damage == ()
    with open_store(str(place.record), read_only=True) as store:
        (item,) = store.pending(PendingFilter(states=()))
    if done.code == 0:
        assert item.state is PendingState.ANSWERED
    again = place.command("answer", item.id, "yes")
    assert again.code == (1 if item.state is PendingState.ANSWERED else 0), again
    ok(place.command("pending", "--json"))


def backed_up(place: Place, done: Done) -> None:
    copy = place.project / "copy.db"
    assert inspect(place.record).damage == ()
    if done.code == 0 or copy.exists():
        assert inspect(copy).damage == () and inspect(copy).counts["events"] == 7
    else:
        ok(place.command("record", "backup", "copy.db"))


# Flows


def flow_script(place: Place) -> None:
    place.make()
    (place.project / "release.py").write_text(FLOW)


def run_flow(place: Place) -> Done:
    return place.command("flow", "run", "release.py", "--tag", "v1")


def paused_flow(place: Place) -> None:
    flow_script(place)
    ok(run_flow(place), 42)


def respond(place: Place) -> Done:
    return place.command("flow", "respond", "--response", "Faster.")


def answered_flow(place: Place) -> None:
    paused_flow(place)
    ok(respond(place))


def resume(place: Place) -> Done:
    return place.command("flow", "resume")


def flow_ends_well(place: Place, done: Done) -> None:
    """Whatever was interrupted: the same commands again bring the run to its end, with the answer that was given."""
    assert done.code != 0, "a flow that asks ends with 42"
    if done.code != 42:
        ok(run_flow(place), 42)
    ok(respond(place))
    assert "v1 (2 characters): Faster." in ok(resume(place)).out
    ok(place.command("events", "--json"))


def answer_is_kept(place: Place, done: Done) -> None:
    if done.code != 0:
        again = respond(place)
        assert again.code in (0, 1) and (again.code == 0 or "answered" in again.err), (
            again
        )
    assert "v1 (2 characters): Faster." in ok(resume(place)).out


def run_is_over(place: Place, done: Done) -> None:
    listed = ok(place.command("flow", "list", "--json")).out
    if done.code == 0:
        assert "v1 (2 characters): Faster." in done.out
        assert "waiting" not in json.dumps(json.loads(listed).get("runs", ""))
        return
    again = resume(place)
    if again.code != 0:  # it was over, and only the last word was lost
        assert "completed" in listed, (again, listed)
    else:
        assert "v1 (2 characters): Faster." in again.out


# Rigs


def bridge(place: Place) -> None:
    place.make()
    (place.home / ".gitconfig").write_text(
        "[user]\n\tname = Op One\n\temail = op1@example.com\n[init]\n\tdefaultBranch = main\n[gc]\n\tauto = 0\n"
    )
    for name in ("body.md", "another.md"):
        (place.folder / name).write_text(f"This is {name}.\n")
    place.git("init", "-q", "--bare", "-b", "main", "remote.git", cwd=place.folder)
    place.git("clone", "-q", str(place.folder / "remote.git"), "seed", cwd=place.folder)
    place.git("commit", "-q", "--allow-empty", "-m", "root", cwd=place.folder / "seed")
    place.git("push", "-q", "origin", "HEAD", cwd=place.folder / "seed")
    for name in ("one", "two"):
        place.git(
            "clone", "-q", str(place.folder / "remote.git"), name, cwd=place.folder
        )
        ok(place.command("rig", "init", "--rig-id", name, cwd=place.folder / name))
    ok(place.command("rig", "new", "t1", cwd=place.folder / "one"))


def send(place: Place, body: str = "body.md") -> Done:
    return place.command(
        "rig", "send", "RESULT", "--thread", "t1", "--to", "two", "--body-file", str(place.folder / body),
        cwd=place.folder / "one",
    )  # fmt: skip


def envelopes(place: Place, where: str) -> list[str]:
    names = place.git(
        "ls-tree", "-r", "--name-only", "main", cwd=place.folder / where
    ).splitlines()
    return [name for name in names if "RESULT" in name]


def remove_git_locks(place: Place) -> None:
    """What a killed git leaves, here or in the remote, and asks its user to remove."""
    for lock in place.folder.rglob("*.lock"):
        if {".git", "remote.git"} & {*lock.parts}:
            lock.unlink()


def envelope_is_sent_once(place: Place, done: Done) -> None:
    one = place.folder / "one"
    if done.code == 0:
        assert len(envelopes(place, "remote.git")) == 1
    remove_git_locks(place)
    place.git("fsck", "--strict", cwd=one)
    ok(send(place, "another.md"))
    found = envelopes(place, "remote.git")
    assert 1 <= len(found) <= 2 and (done.code != 0 or len(found) == 2), found
    ok(place.command("rig", "verify", cwd=one))
    assert "RESULT" not in place.git("status", "--porcelain", cwd=one)


def waiting_envelope(place: Place) -> None:
    bridge(place)
    ok(send(place))


def sync(place: Place) -> Done:
    return place.command("rig", "sync", "--auto", cwd=place.folder / "two")


def envelope_arrives(place: Place, done: Done) -> None:
    two = place.folder / "two"
    remove_git_locks(place)
    place.git("fsck", "--strict", cwd=two)
    ok(sync(place))
    assert len(envelopes(place, "two")) == 1
    ok(place.command("rig", "verify", cwd=two))
    assert "RESULT" in ok(place.command("rig", "thread", "t1", cwd=two)).out


# The bus, settings


def enrol(place: Place) -> Done:
    return place.command("bus", "participant", "add", "kitchen", "--token")


def enrolled(place: Place, done: Done) -> None:
    listed = ok(place.command("bus", "participant", "list", "--json"))
    there = "kitchen" in listed.out
    if done.code == 0:
        assert (
            there
            and (place.home / "data" / "bus" / "join" / "kitchen.join.json").exists()
        )
    again = place.command("bus", "participant", "add", "study", "--token")
    ok(again)
    if there:
        ok(place.command("bus", "participant", "revoke", "kitchen"))


def with_kitchen(place: Place) -> None:
    place.make()
    ok(
        place.command(
            "bus", "participant", "add", "kitchen", "--token", "--grant", "notices"
        )
    )


def revoke(place: Place) -> Done:
    return place.command("bus", "participant", "revoke", "kitchen")


def revoked(place: Place, done: Done) -> None:
    """Revoking again ends what was cut off: the credential and the rights are gone."""
    if done.code != 0:
        again = revoke(place)
        assert again.code == 0 or "is already revoked" in again.err, again
    listed = json.loads(ok(place.command("bus", "participant", "list", "--json")).out)
    assert [one["credential"] for one in listed["participants"]] == ["revoked"]
    tables = tomllib.loads(
        (place.home / "data" / "bus" / "participants.toml").read_text()
    )
    assert '"notices"' not in json.dumps(tables), tables


def trustable(place: Place) -> None:
    place.make()
    (place.project / "bridgehead.toml").write_text("[council]\n")


def trust(place: Place) -> Done:
    return place.command("config", "trust", "bridgehead.toml")


def trusted(place: Place, done: Done) -> None:
    ok(place.command("config", "show"))
    ok(trust(place))


def reviewable(place: Place) -> None:
    place.make()
    place.git("init", "-q", ".")
    (place.project / "a.py").write_text("import pickle\npickle.loads(b'')\n")


def review(place: Place) -> Done:
    return place.command("council", "review", "a.py", "--runtime", "static")


def reviewed(place: Place, done: Done) -> None:
    ok(place.command("council", "list"))
    again = review(place)
    assert again.code in (0, 3), again
    assert inspect(place.record).damage == ()


SCENARIOS = (
    Scenario(
        "a new record",
        Place.make,
        append_three,
        lambda place, done: record_is_as_acknowledged(place, done, 0),
    ),
    Scenario("a record", old_record, append_three, record_is_as_acknowledged),
    Scenario(
        "an old record",
        lambda place: old_record(place, 2),
        append_three,
        record_is_as_acknowledged,
    ),
    Scenario(
        "an answer",
        old_record,
        lambda place: place.command("answer", "q-1", "yes"),
        answered_once,
    ),
    Scenario(
        "a backup",
        old_record,
        lambda place: place.command("record", "backup", "copy.db"),
        backed_up,
    ),
    Scenario("flow run", flow_script, run_flow, flow_ends_well),
    Scenario("flow respond", paused_flow, respond, answer_is_kept),
    Scenario("flow resume", answered_flow, resume, run_is_over),
    Scenario("rig send", bridge, send, envelope_is_sent_once),
    Scenario("rig sync", waiting_envelope, sync, envelope_arrives),
    Scenario("bus participant add", Place.make, enrol, enrolled),
    Scenario("bus participant revoke", with_kitchen, revoke, revoked),
    Scenario("config trust", trustable, trust, trusted),
    Scenario("council review", reviewable, review, reviewed, quick=False),
)
