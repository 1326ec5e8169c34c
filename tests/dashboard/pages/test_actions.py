"""What pages start: the command that was shown, where it belongs, with nothing in a form read as an option."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridgehead.contract.events import Event
from bridgehead.contract.record_words import Part, RunState
from bridgehead.control_plane.records import Run, RunFilter
from bridgehead.dashboard.background import StartedCommand
from bridgehead.dashboard.pages.actions import ACTIONS
from bridgehead.errors import UserError
from dashboard.support.rig_worlds import Member, at_home, make_world
from dashboard.support.served import ORIGIN, OpenDashboard, open_dashboard
from support.rig_bridges import needs_ssh_keygen, with_signing_key

AT = "2026-11-15T10:15:02.000Z"
FLOW = """
from pathlib import Path

from bridgehead.flows import Context, flow


@flow("build", version="1")
def build(ctx: Context) -> str:
    ctx.step("prepare", lambda: "ready")
    return ctx.step("compile", lambda: Path("input.txt").read_text())
"""


@pytest.fixture
def web(tmp_path: Path) -> Iterator[OpenDashboard]:
    home = tmp_path / "user"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[user]\n name = Ann\n email = ann@example.com\n[init]\n defaultBranch = main\n"
    )
    with open_dashboard(
        tmp_path / "web",
        PATH=os.environ["PATH"],
        HOME=str(home),
        GIT_CONFIG_NOSYSTEM="1",
    ) as opened:
        yield opened


def ended(web: OpenDashboard) -> StartedCommand:
    """The command that was started last, once it has ended."""
    for thread in list(web.dashboard.context.commands._running):
        thread.join()
    return web.dashboard.context.commands.started[0]


def text_of(answer: object) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", answer.text))  # type: ignore[attr-defined]


def test_a_council_is_estimated_first_and_then_started(web: OpenDashboard) -> None:
    (web.project / "store.py").write_text(
        "import pickle\n\n\ndef load(blob):\n    return pickle.loads(blob)\n"
    )
    asked = {"seats": "static", "intensity": "quick", "scope": "store.py"}

    estimate = web.post("/do/council-review", **asked)
    assert estimate.status_code == 200 and "0 calls" in text_of(estimate)
    assert web.store.runs() == []
    planned = "council review --non-interactive --intensity=quick --runtime=static -- store.py"
    assert f"The same as bridgehead {planned}" in text_of(estimate)

    changed = web.post(
        "/do/council-review", **{**asked, "scope": "other.py"}, planned=planned
    )
    assert changed.status_code == 422 and "other.py" in text_of(changed)
    assert web.store.runs() == []
    started = web.post("/do/council-review", **asked, planned=planned)
    assert (started.status_code, started.headers["location"]) == (303, "/councils")
    assert ended(web).exit_code == 0
    [council] = web.store.runs(RunFilter(parts=(Part.COUNCIL,)))
    assert council.state is RunState.COMPLETED and council.project == str(web.project)
    assert f"bridgehead {planned}" in text_of(web.client.get("/"))
    assert "Resume" in web.client.get(f"/councils/{council.id}").text


def test_a_council_that_does_not_run_cannot_be_stopped(web: OpenDashboard) -> None:
    facts = {
        "part": Part.COUNCIL,
        "kind": "review",
        "title": "review",
        "started_at": AT,
        "updated_at": AT,
    }
    run = Run(
        id="20261115-101502", state=RunState.RUNNING, project=str(web.project), **facts
    )  # type: ignore[arg-type]
    web.store.save_run(run)

    page = web.client.get("/do/council-stop?id=20261115-101502")
    assert page.status_code == 200 and "bridgehead council stop" in text_of(page)
    refused = web.post("/do/council-stop", id="20261115-101502")
    assert (
        refused.status_code == 422
        and "no council '20261115-101502' in this project" in text_of(refused)
    )


def test_a_failed_flow_is_retried_and_forked(web: OpenDashboard) -> None:
    (web.project / "build.py").write_text(FLOW)
    runner = web.dashboard.context.commands
    first = runner.run(["flow", "run", "build.py:build"], web.project, wait_seconds=120)
    assert first.exit_code == 1, first.error
    [flow] = web.store.runs(RunFilter(parts=(Part.FLOWS,)))
    assert "Retry" in web.client.get(f"/flows/{flow.id}").text
    (web.project / "input.txt").write_text("built")

    assert (
        web.post("/do/flow-retry", id=flow.id).headers["location"]
        == f"/flows/{flow.id}"
    )
    assert ended(web).exit_code == 0
    assert (
        web.post("/do/flow-fork", id=flow.id, **{"from": "compile"}).status_code == 303
    )
    assert ended(web).exit_code == 0
    states = [run.state for run in web.store.runs(RunFilter(parts=(Part.FLOWS,)))]
    assert states == [RunState.COMPLETED] * 2
    missing = web.post("/do/flow-fork", id=flow.id)
    assert missing.status_code == 422 and "From step is missing" in text_of(missing)


@needs_ssh_keygen
def test_a_rig_is_synced_and_a_quarantine_lifted(
    web: OpenDashboard, tmp_path: Path
) -> None:
    with at_home(
        Path(web.assembly.environ["HOME"]),
        Path(web.assembly.environ["BRIDGEHEAD_HOME"]),
    ):
        world = make_world(tmp_path / "rigs")
        world.mac.open("demo-01")
        world.mac.send("REQUEST", "demo-01", "win-5080", "please build")
        relay = Member(world.bridge.clone("operator", "mike-relay"))
        world.win.pull()
        head = "from: win-5080\nto: mac-m5max\ndate: 2026-11-15\nstatus: sent\ntype: VERIFY\nthread: other-01"
        world.win.commit_file("demo-01/VERIFY.md", f"---\n{head}\n---\nodd\n")
        world.win.clone.git("push", "-q")
        for member in (world.mac, relay):
            web.store.append(
                [
                    Event(
                        id=member.root,
                        kind="rig.pulled",
                        part=Part.RIGS,
                        at=AT,
                        project=member.root,
                    )
                ]
            )
    given = {
        "clone": relay.address.rpartition("/")[2],
        "path": "demo-01/VERIFY.md",
        "reason": "I looked at it.",
    }

    for member in (world.mac, relay):
        synced = web.post("/do/rig-sync", clone=member.address.rpartition("/")[2])
        assert (synced.status_code, synced.headers["location"]) == (303, member.address)
    other = web.client.get(world.mac.address).text
    assert "demo-01/VERIFY.md" in other and "/do/rig-relay-decisions" not in other
    assert "/do/rig-relay-decisions" in web.client.get(relay.address).text
    unsigned = web.post("/do/rig-relay-decisions", **given)
    assert unsigned.status_code == 422 and "a git signing key is required" in text_of(
        unsigned
    )
    key = with_signing_key(relay.clone, tmp_path)
    assert (
        web.post("/do/rig-relay-decisions", **given).headers["location"]
        == relay.address
    )
    world.mac.clone.rig("trust", "add", "mike@example.com", str(key)).ok()
    assert (
        web.post("/do/rig-sync", clone=world.mac.address.rpartition("/")[2]).status_code
        == 303
    )
    assert "state=lifted" in world.mac.clone.rig("quarantine", "list").out


def test_a_participant_is_enrolled_and_revoked(web: OpenDashboard) -> None:
    assert (
        web.post("/do/bus-participant-add", id="kitchen").headers["location"] == "/bus"
    )
    join = web.assembly.places.data / "bus" / "join" / "kitchen.join.json"
    assert join.exists()
    assert "kitchen enrolled" in text_of(web.client.get("/bus"))
    assert web.post("/do/bus-participant-revoke", id="kitchen").status_code == 303
    again = web.post("/do/bus-participant-revoke", id="kitchen")
    assert again.status_code == 422 and "kitchen" in text_of(again)


@pytest.mark.parametrize("name", sorted(ACTIONS))
def test_no_value_of_a_form_is_read_as_an_option(name: str) -> None:
    action = ACTIONS[name]
    given = {
        one.name: one.choices[0] if one.choices else "--help" for one in action.fields
    }

    words = action.words(given)

    own = action.command.split()
    behind = words[words.index("--") :] if "--" in words else []
    options = words[len(own) : len(words) - len(behind)]
    assert words[: len(own)] == own
    assert all(re.fullmatch(r"--[a-z-]+=.*", word) for word in options)


def test_choices_and_quotation_marks_are_checked() -> None:
    with pytest.raises(UserError, match="Intensity cannot be 'most'"):
        ACTIONS["council-review"].words({"intensity": "most"})
    with pytest.raises(UserError, match="a quotation mark is not closed"):
        ACTIONS["council-review"].words({"scope": "src/'"})
    with pytest.raises(UserError, match="Id is missing"):
        ACTIONS["council-stop"].words({})


def test_only_a_form_of_this_session_starts_something(web: OpenDashboard) -> None:
    foreign = web.client.post(
        "/do/bus-participant-add",
        data={"id": "den"},
        headers={"Origin": "http://evil.example"},
    )
    forged = web.client.post(
        "/do/bus-participant-add",
        data={"id": "den", "csrf": "x"},
        headers={"Origin": ORIGIN},
    )

    assert (foreign.status_code, forged.status_code) == (403, 422)
    assert web.dashboard.context.commands.started == []
    assert web.client.get("/do/rm").status_code == 404


def test_a_module_of_the_project_is_not_imported(web: OpenDashboard) -> None:
    (web.project / "bridgehead.py").write_text("raise SystemExit('foreign code')\n")
    (web.project / "click.py").write_text("raise SystemExit('foreign code')\n")

    done = web.dashboard.context.commands.run(
        ["--version"], web.project, wait_seconds=120
    )

    assert done.exit_code == 0 and "foreign" not in done.error


@pytest.mark.parametrize("part", [Part.COUNCIL, Part.FLOWS])
def test_in_a_shared_record_only_this_project_is_acted_in(
    web: OpenDashboard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, part: Part
) -> None:
    elsewhere = tmp_path / "elsewhere"  # it exists, and belongs to the same user
    elsewhere.mkdir()
    action = {Part.COUNCIL: "council-resume", Part.FLOWS: "flow-retry"}[part]
    for run_id, project in (("theirs", elsewhere), ("ours", web.project)):
        run = Run(
            id=run_id,
            part=part,
            kind="review",
            title="review",
            state=RunState.WAITING,
            project=str(project),
            started_at=AT,
            updated_at=AT,
        )
        web.store.save_run(run)
    monkeypatch.setattr(type(web.assembly), "record_url", "postgresql://team@db/x")

    refused = web.post(f"/do/{action}", id="theirs")

    assert refused.status_code == 422 and "this record is shared" in text_of(refused)
    assert web.dashboard.context.commands.started == []
    assert "this record is shared" not in text_of(web.post(f"/do/{action}", id="ours"))


def test_in_a_shared_record_only_the_clone_of_this_project_is_acted_in(
    web: OpenDashboard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with at_home(
        Path(web.assembly.environ["HOME"]),
        Path(web.assembly.environ["BRIDGEHEAD_HOME"]),
    ):
        world = make_world(tmp_path / "rigs")
        world.mac.open("demo-01")
        world.mac.send("REQUEST", "demo-01", "win-5080", "please build")
    pulled = Event(
        id="e",
        kind="rig.pulled",
        part=Part.RIGS,
        at=AT,
        project=world.mac.root,
    )
    web.store.append([pulled])
    monkeypatch.setattr(type(web.assembly), "record_url", "postgresql://team@db/x")
    head = world.mac.clone.git("rev-parse", "HEAD")

    synced = web.post("/do/rig-sync", clone=world.mac.address.rpartition("/")[2])
    replied = web.post(
        f"{world.mac.address}/demo-01", type="STATE", to="win-5080", text="hello"
    )

    for refused in (synced, replied):
        assert refused.status_code == 422
        assert "this record is shared" in text_of(refused)
    assert web.dashboard.context.commands.started == []
    assert world.mac.clone.git("rev-parse", "HEAD") == head


def test_what_was_started_ends_with_the_dashboard(web: OpenDashboard) -> None:
    commands = web.dashboard.context.commands
    waiting = commands.run(["events", "--follow"], web.project, wait_seconds=0)
    assert waiting.exit_code is None

    commands.close()

    assert waiting.exit_code not in (None, 0)
