"""Who gets a seat, and the report of a runtime that gets none."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bridgehead.contract.task import BridgeInput
from bridgehead.contract.words import (
    CapabilityProfile,
    ErrorClass,
    LocalCouncilType,
    Status,
)
from bridgehead.council.calls import Answer, Call, CallKey, Role, Step
from bridgehead.council.request.settings import RuntimeSettings, Settings
from bridgehead.council.runtimes.base import (
    Connection,
    Missing,
    Runtime,
    SeatSetup,
    runtime,
)
from bridgehead.council.runtimes.claude import ClaudeApi, ClaudeCli
from bridgehead.council.runtimes.exchange import HttpReply, RuntimeRefusal
from bridgehead.council.runtimes.gemini import GeminiCli
from bridgehead.council.runtimes.machine import Machine, Probe, ProbeFile
from bridgehead.council.runtimes.rig import RigAnswer, RigRejected
from bridgehead.council.scope.scope import Scope
from bridgehead.council.scope.working_copies import take_snapshot
from bridgehead.council.seating.preflight import Ready
from bridgehead.council.seating.seating import (
    LocalSeats,
    OwnReport,
    Posted,
    SeatOutcome,
)
from bridgehead.host.clock import ManualClock
from bridgehead.host.command import Cancel, Command
from tools.schema_files import violations

TASK = BridgeInput(
    session_id="k3v9qa", scope="src/", task_description="look", domains=("security",)
)
SCOPE = Scope(
    ("src",), {"src/app.py": "import os\nprint(undefined_name)\n"}, commit="c" * 40
)
StandIn = Callable[..., Any]


@pytest.fixture
def seats(tmp_path: Path, machine: StandIn) -> Callable[..., LocalSeats]:
    def make(here: Machine | None = None, **facts: Any) -> LocalSeats:
        snapshot = take_snapshot(
            SCOPE, folder=tmp_path / "snapshots", review_id="k3v9qa"
        )
        usual = {"settings": Settings(runtimes={})}
        return LocalSeats(
            TASK,
            SCOPE,
            machine=here or machine(),
            snapshot=snapshot,
            clock=ManualClock(),
            **(usual | facts),
        )

    return make


def own(outcome: SeatOutcome) -> OwnReport:
    assert isinstance(outcome, OwnReport), outcome
    assert violations(outcome.report) == []
    return outcome


def test_a_bridge_that_cannot_sit_has_a_report_that_says_why(
    seats: Callable[..., LocalSeats],
) -> None:
    report = own(seats().check("codex", Cancel())).report

    assert (report.status, report.skip_reason) == (Status.SKIPPED, "cli_not_found")
    assert (report.bridge, report.model_family, report.timeout_s) == (
        "codex",
        "openai/codex",
        180,
    )


def test_the_static_seat_makes_its_own_report_and_is_no_model(
    seats: Callable[..., LocalSeats],
) -> None:
    report = own(
        seats(Machine({"PATH": os.environ["PATH"]})).check("static", Cancel())
    ).report

    assert (report.status, report.connection_used, report.usage.calls) == (
        Status.COMPLETED,
        "embedded",
        0,
    )
    assert (report.debate_rounds, report.local_council_type) == (
        0,
        LocalCouncilType.NONE,
    )
    assert str(report.toolchain).startswith(
        "ruff, ast-grep, oxlint, lizard, hadolint, zizmor"
    )
    assert any("undefined_name" in output.title for output in report.outputs)


def test_without_an_analyser_the_static_seat_is_empty(
    seats: Callable[..., LocalSeats],
) -> None:
    assert own(seats().check("static", Cancel())).report.skip_reason == "no_connection"


@pytest.mark.parametrize("bridge", ["static", "rig:far", "claude"])
def test_a_disabled_seat_stays_empty(
    seats: Callable[..., LocalSeats], bridge: str
) -> None:
    settings = Settings(runtimes={bridge: RuntimeSettings(enabled=False)})

    assert (
        own(seats(settings=settings).check(bridge, Cancel())).report.skip_reason
        == "disabled_in_settings"
    )


# -- where connections work


def test_each_connection_works_where_it_may_see_what_it_may_see(
    seats: Callable[..., LocalSeats], tmp_path: Path
) -> None:
    table = seats(worktree=tmp_path / "worktree")
    cli = ClaudeCli(SeatSetup("claude"), "/bin/claude", Probe("1"))
    api = ClaudeApi("https://x", "k")

    assert table.workspace(cli, looking(Step.ANALYSIS)) == table.snapshot.tree
    assert (
        table.workspace(cli, looking(Step.ANALYSIS, CapabilityProfile.MODIFY))
        == tmp_path / "worktree"
    )
    assert table.workspace(cli, looking(Step.CHALLENGE)) == tmp_path / "worktree"
    assert table.workspace(api, looking(Step.ANALYSIS)) == table.snapshot.empty


def looking(step: Step, profile: CapabilityProfile = CapabilityProfile.INSPECT) -> Call:
    key = CallKey(
        seat="claude", round=1, step=step, role=Role.EXPERT, domain="security"
    )
    return Call(key, "look", 60, Answer.ITEMS, profile)


# -- a refused first call


def test_a_refused_login_goes_on_over_the_api_when_there_is_one(
    seats: Callable[..., LocalSeats], machine: StandIn, stand_in: StandIn
) -> None:
    here = machine(
        {"claude": stand_in("claude")},
        environment={"ANTHROPIC_API_KEY": "k"},
        pages={
            "https://api.anthropic.com/v1/models": HttpReply(
                200, '{"data": [{"id": "m"}]}'
            )
        },
    )
    cli = ClaudeCli(SeatSetup("claude"), "/bin/claude", Probe("1"))

    again = seats(here).check_again(
        "claude", RuntimeRefusal(ErrorClass.AUTH, "Not logged in"), cli
    )

    assert isinstance(again, Ready)
    assert again.seat.connection == "api"


@pytest.mark.parametrize(
    ("bridge", "kind", "refused", "status", "reason"),
    [
        (
            "claude",
            ClaudeCli,
            RuntimeRefusal(ErrorClass.AUTH, "Not logged in"),
            Status.HALTED,
            "not_authenticated",
        ),
        (
            "gemini",
            GeminiCli,
            RuntimeRefusal(ErrorClass.AUTH, "no key"),
            Status.SKIPPED,
            "auth_probe_failed: no key",
        ),
        (
            "gemini",
            GeminiCli,
            RuntimeRefusal(ErrorClass.RETIRED, "gone"),
            Status.SKIPPED,
            "cli_error: gone",
        ),
    ],
)
def test_a_refused_login_without_another_way_ends_the_seat(
    seats: Callable[..., LocalSeats],
    machine: StandIn,
    stand_in: StandIn,
    bridge: str,
    kind: Any,
    refused: RuntimeRefusal,
    status: Status,
    reason: str,
) -> None:
    here = machine({bridge: stand_in(bridge)})
    connection = kind(SeatSetup(bridge), f"/bin/{bridge}", Probe("1"))

    report = own(seats(here).check_again(bridge, refused, connection)).report

    assert (report.status, report.halt_reason or report.skip_reason) == (status, reason)


def test_what_has_refused_a_seat_is_not_asked_again(
    seats: Callable[..., LocalSeats], machine: StandIn, stand_in: StandIn
) -> None:
    here = machine(
        {"claude": stand_in("claude")},
        environment={"ANTHROPIC_API_KEY": "k"},
        pages={
            "https://api.anthropic.com/v1/models": HttpReply(
                200, '{"data": [{"id": "m"}]}'
            )
        },
    )
    council = seats(here)
    refused = RuntimeRefusal(ErrorClass.AUTH, "Not logged in")
    first = council.check("claude", Cancel())
    assert isinstance(first, Ready)
    second = council.check_again("claude", refused, first.connection)
    assert isinstance(second, Ready)

    third = council.check_again("claude", refused, second.connection)

    assert (first.seat.connection, second.seat.connection) == ("cli", "api")
    assert own(third).report.status is Status.HALTED


def test_a_retired_gemini_is_followed_by_its_successor(
    seats: Callable[..., LocalSeats], machine: StandIn, stand_in: StandIn
) -> None:
    here = machine({"gemini": stand_in("gemini"), "agy": stand_in("agy")})
    gemini = GeminiCli(SeatSetup("gemini"), "/bin/gemini", Probe("1"))

    again = seats(here).check_again(
        "gemini", RuntimeRefusal(ErrorClass.RETIRED, "IneligibleTierError"), gemini
    )

    assert isinstance(again, Ready)
    assert again.seat.runtime == "agy"


# -- guests


def test_a_plug_in_that_breaks_is_that_bridges_report(
    seats: Callable[..., LocalSeats], caplog: pytest.LogCaptureFixture
) -> None:
    class Breaking(ClaudeCli):
        @classmethod
        def locate(cls, setup: SeatSetup, machine: Machine) -> Missing:
            raise LookupError("a bug of a plug-in")

    @runtime("breaking")
    class BreakingRuntime(Runtime):
        model_family = "x/y"
        id_prefix = "N"
        connections: tuple[type[Connection], ...] = (Breaking,)

    report = own(seats().check("breaking", Cancel())).report

    assert report.skip_reason == "cli_error: a bug of a plug-in"
    assert "the check of breaking failed" in caplog.text


def test_two_runtimes_of_one_name_are_refused() -> None:
    @runtime("twice")
    class One(Runtime):
        model_family = "x/y"

    with pytest.raises(ValueError, match="two runtimes are called 'twice'"):

        @runtime("twice")
        class Other(Runtime):
            model_family = "x/y"


# -- rigs


class Post:
    """A rig that answers with what a test gives it."""

    def __init__(self, reply: RigAnswer | RigRejected | None = None) -> None:
        self.sent: list[dict[str, Any]] = []
        self._reply = reply

    def knows(self, rig_id: str) -> bool:
        return rig_id == "win-5080"

    def ask(self, rig_id: str, *, thread: str | None, title: str, body: str) -> str:
        self.sent.append(
            {"rig": rig_id, "thread": thread, "title": title, "body": body}
        )
        return "request-1"

    def answer(self, rig_id: str, request: str) -> RigAnswer | RigRejected | None:
        return self._reply


def test_a_known_rig_is_sent_the_request_in_its_thread(
    seats: Callable[..., LocalSeats],
) -> None:
    post = Post()
    settings = Settings(
        runtimes={"rig:win-5080": RuntimeSettings(options={"thread": "cuda"})}
    )

    assert seats(settings=settings, transport=post).check(
        "rig:win-5080", Cancel()
    ) == Posted("request-1")
    assert (post.sent[0]["rig"], post.sent[0]["thread"]) == ("win-5080", "cuda")
    assert "c" * 40 in post.sent[0]["body"]


@pytest.mark.parametrize("transport", [None, Post()])
def test_an_unknown_rig_is_skipped(
    seats: Callable[..., LocalSeats], transport: Post | None
) -> None:
    assert (
        own(seats(transport=transport).check("rig:nobody", Cancel())).report.skip_reason
        == "no_connection"
    )


def test_a_rigs_answer_is_read_or_rejected_or_still_to_come(
    seats: Callable[..., LocalSeats],
) -> None:
    body = (
        '{"session_id": "k3v9qa", "status": "COMPLETED", "outputs": [], "commit": "'
        + "c" * 40
        + '"}'
    )
    read = seats(transport=Post(RigAnswer(body, verified=False))).rig_answer(
        "rig:win-5080", "request-1"
    )

    assert isinstance(read, OwnReport)
    assert (read.report.bridge, read.verified) == ("rig:win-5080", False)
    assert seats(transport=Post(RigRejected("bad_hash"))).rig_answer(
        "rig:win-5080", "r"
    ) == RigRejected("bad_hash")
    assert seats(transport=Post()).rig_answer("rig:win-5080", "r") is None


# -- the machine


def test_relative_entries_of_path_are_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = tmp_path / "claude"
    trap.write_text("#!/bin/sh\n")
    trap.chmod(0o755)
    monkeypatch.chdir(tmp_path)

    assert Machine({"PATH": ".:"}).which("claude") is None
    assert Machine({"PATH": str(tmp_path)}).which("claude") == str(trap)


def test_a_probe_is_remembered_between_commands_until_the_program_changes(
    tmp_path: Path,
) -> None:
    program = tmp_path / "agent"
    program.write_text('#!/bin/sh\necho called >> "$0.log"\necho agent 1.2.3 --print\n')
    program.chmod(0o755)
    memory = tmp_path / "cache" / "probes.json"

    def probe() -> Probe:
        here = Machine({"PATH": os.environ["PATH"]}, memory=ProbeFile(memory))
        return here.probe(
            Command([str(program), "--version"]), Command([str(program), "--help"])
        )

    first, second = probe(), probe()
    assert first == second == Probe("1.2.3", frozenset({"--print"}))
    assert (tmp_path / "agent.log").read_text().count("called") == 2

    program.write_text(program.read_text().replace("1.2.3", "1.2.10"))
    assert probe().version == "1.2.10"


@pytest.mark.parametrize("content", ["", "nonsense", "[]", '{"x": 1}'])
def test_a_broken_memory_is_an_empty_one(tmp_path: Path, content: str) -> None:
    file = tmp_path / "probes.json"
    file.write_text(content)
    memory = ProbeFile(file)

    assert len(memory) == 0
    memory["a"] = Probe("1")
    assert dict(ProbeFile(file)) == {"a": Probe("1")}


def test_a_program_that_does_not_run_is_not_remembered(tmp_path: Path) -> None:
    memory: dict[str, Probe] = {}
    missing = str(tmp_path / "gone")
    found = Machine({}, memory=memory).probe(
        Command([missing, "--version"]), Command([missing, "--help"])
    )

    assert found.version is None
    assert found.problem
    assert memory == {}
