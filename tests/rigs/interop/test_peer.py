"""Side by side with the real reference: what one writes into a bridge the other reads, also when they race."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bridgehead.rigs.config import new_config, parse_config, write_config
from bridgehead.rigs.envelope.names import RigId
from bridgehead.rigs.operations.drafts import draft_send
from bridgehead.rigs.repositories.git.repository import GitRepository
from bridgehead.rigs.repositories.records import FreezeNote, Pushed, Raced, Wire
from bridgehead.rigs.rig import Author
from bridgehead.rigs.threads.index import EnvelopeIndex

WIRE = Wire("origin", "main", "refs/remotes/origin/main")
REPOSITORY = Path(__file__).resolve().parents[3]
PEERS = Path(
    os.environ.get("BRIDGEHEAD_PEERS") or REPOSITORY / ".venv/npm/node_modules/.bin"
)

pytestmark = pytest.mark.peer


class Reference:
    """The npm tool, run in a clone."""

    def __init__(self, clone: Path) -> None:
        script = PEERS / "rig-bridge"
        if not script.exists() or shutil.which("node") is None:
            pytest.skip(f"the npm reference is not installed ({script})")
        self._clone = clone
        self._command = [str(script)]

    def __call__(self, *arguments: str) -> str:
        finished = subprocess.run(
            [*self._command, *arguments],
            cwd=self._clone,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr.decode()
        return finished.stdout.decode()


@pytest.fixture
def reference(other_clone: Path) -> Reference:
    """The reference lives in clone `b` and has made itself known there."""
    tool = Reference(other_clone)
    tool("init", "--rig-id", "windows-5080")
    (other_clone / ".git/info/exclude").write_text(".bridge/\n")
    return tool


def send(repository: GitRepository, path: str, body: str) -> str:
    draft = draft_send(
        Author("mac-m5max"), "ACK", "demo-01", ["windows-5080"], "2026-05-15", body=body
    )
    (Path(repository.root) / "demo-01").mkdir(exist_ok=True)
    with (
        repository.lock(),
        repository.begin_posting(path, draft.text.encode()) as posting,
    ):
        return posting.land(f"ACK: {path}")


def test_the_reference_pulls_lists_and_shows_what_we_posted(repository, reference):
    commit = send(repository, "demo-01/ACK.md", "from us: é ▶\n")
    assert repository.push(WIRE, commit) == Pushed(commit)
    assert "pulled=true" in reference("sync", "--auto")
    [listed] = json.loads(reference("status", "--json"))["threads"]
    assert (listed["thread_id"], listed["envelope_count"]) == ("demo-01", 1)
    [shown] = json.loads(reference("thread", "demo-01", "--json"))["envelopes"]
    assert shown["body"] == "from us: é ▶\n"


def test_we_list_what_the_reference_sent_with_nothing_against_it(
    world, clone, other_clone, repository, reference
):
    (other_clone / "demo-01").mkdir()
    reference(
        "send",
        "REQUEST",
        "--thread",
        "demo-01",
        "--to",
        "mac-m5max",
        "--tldr",
        "first: contact #1",
    )
    assert repository.fast_forward(repository.fetch(WIRE)) is None
    [listing] = EnvelopeIndex(GitRepository(clone)).threads()
    [listed] = listing.envelopes
    assert listed.findings == ()
    assert (listed.turn.sender, listed.turn.tldr) == (
        "windows-5080",
        "first: contact #1",
    )
    assert listed.turn.commit_sha == world.head(other_clone)


def test_a_race_with_the_reference_ends_with_both_turns_in_one_line(
    world, clone, other_clone, repository, reference
):
    (other_clone / "demo-01").mkdir()
    reference("send", "ACK", "--thread", "demo-01", "--to", "mac-m5max")
    commit = send(repository, "demo-01/ACK.md", "ours\n")
    assert isinstance(repository.push(WIRE, commit), Raced)
    with repository.lock():
        [turn] = repository.rebuild(repository.fetch(WIRE)) or []
    assert turn.path == "demo-01/ACK-2.md"
    assert repository.push(WIRE, turn.commit) == Pushed(turn.commit)
    assert "pulled=true" in reference("sync", "--auto")
    assert world.head(clone) == world.head(other_clone)
    assert world.porcelain(clone) == world.porcelain(other_clone) == []


def test_freezes_are_invisible_to_the_reference(repository, reference):
    assert repository.freeze(WIRE, "demo-01", "note")._replace(
        object_id=""
    ) == FreezeNote("note")
    commit = send(repository, "demo-01/ACK.md", "x\n")
    repository.push(WIRE, commit)
    assert "pulled=true" in reference("sync", "--auto")


def test_each_reads_the_others_configuration(other_clone, reference):
    config = other_clone / ".bridge/config.yaml"
    assert parse_config(config.read_bytes()).rig_id == "windows-5080"
    ours = {
        **new_config(RigId("mac-m5max"), "Mac: #1"),
        "auto_references": True,
        "freeze_minutes": 5,
    }
    config.write_text(write_config(ours))
    reference("new", "demo-09")
    scaffold = (other_clone / "demo-09/REQUEST.md").read_text()
    assert "from: mac-m5max\n" in scaffold
    assert 'display_name: "Mac: #1"\n' in scaffold
