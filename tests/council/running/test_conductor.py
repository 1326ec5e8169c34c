"""The conductor: seats side by side, deadlines, stopping, and resuming from any prefix of the journal."""

from __future__ import annotations

import datetime as dt
import errno
import json
import signal
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from bridgehead.contract.task import BridgeInput
from bridgehead.contract.words import ErrorClass, Intensity, Status
from bridgehead.council.calls import (
    Answer,
    Call,
    CallFailed,
    GivenUp,
    Reply,
    Result,
    Retried,
    SeatEvent,
    UserQuestion,
)
from bridgehead.council.council import CouncilRun
from bridgehead.council.interfaces import MemoryJournal, RunInputs
from bridgehead.council.replies import reply
from bridgehead.council.reporting.report import AbortedReport, CouncilReport
from bridgehead.council.reporting.seat_report import (
    SeatFacts,
    halted_report,
    skipped_report,
)
from bridgehead.council.request.domains import load_registry
from bridgehead.council.request.plan import CouncilOptions, CouncilPlan
from bridgehead.council.running import conductor
from bridgehead.council.running.artifacts import OutputFolder, RunLog
from bridgehead.council.running.call_runner import CallRunner
from bridgehead.council.running.conductor import (
    Ending,
    Means,
    Reported,
    Waiting,
    conduct,
)
from bridgehead.council.runtimes.base import (
    Connection,
    HostSeat,
    InProcess,
    Missing,
    SeatSetup,
)
from bridgehead.council.runtimes.exchange import (
    CallOutcome,
    RuntimeAnswer,
    RuntimeRefusal,
    RuntimeRequest,
)
from bridgehead.council.runtimes.machine import Machine
from bridgehead.council.runtimes.scripted import Script, ScriptedConnection
from bridgehead.council.seating.preflight import Ready
from bridgehead.council.seating.seating import OwnReport, Posted, SeatOutcome
from bridgehead.host.clock import ManualClock
from bridgehead.host.command import Cancel
from council.support.scripted_seats import ScriptedSeats, scripted_seat

TASK = BridgeInput(
    session_id="k3v9qa",
    scope="src/",
    task_description="look",
    domains=("security", "testing"),
    intensity=Intensity.QUICK,
)
FINDING = {
    "type": "finding",
    "severity": "HIGH",
    "title": "Order id reaches the SQL text",
    "description": "It is put into the statement as it came.",
    "evidence": "src/orders.py:42",
}


def answer_for(call: Call) -> str:
    """A usable answer to whatever is asked."""
    document: dict[str, Any] = {
        Answer.ITEMS: {"outputs": [FINDING] if call.key.domain == "security" else []},
        Answer.CHALLENGES: {"rulings": [], "challenges": [], "outputs": []},
        Answer.RESPONSES: {"responses": [], "outputs": []},
        Answer.RULINGS: {"rulings": []},
        Answer.NOTES: {"challenge_notes": []},
        Answer.POSITIONS: {"positions": []},
    }[call.answer]
    return json.dumps(document)


def council(*bridges: str, task: BridgeInput = TASK, **plan: Any) -> CouncilRun:
    return CouncilRun(
        CouncilPlan(task, bridges, dt.date(2026, 11, 15), **plan),
        RunInputs(load_registry(), b"s" * 32),
    )


def run(
    council_run: CouncilRun,
    seats: ScriptedSeats,
    means: Means | None = None,
    wishes: Sequence[Any] = (),
) -> Ending:
    return anyio.run(conduct, council_run, seats, means or Means(), wishes)


def report_of(ending: Ending) -> CouncilReport:
    assert isinstance(ending, Reported), ending
    assert isinstance(ending.report, CouncilReport), ending.report
    return ending.report


def scripts(*bridges: str, **outcomes: CallOutcome) -> dict[str, Connection]:
    """A connection per bridge that answers everything, or always has the outcome given for it."""

    def script_of(bridge: str) -> Script:
        return lambda call: outcomes.get(bridge) or answer_for(call)

    return {bridge: ScriptedConnection(script_of(bridge)) for bridge in bridges}


class Watcher:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, Mapping[str, Any]]] = []
        self.refusals: list[tuple[str, ErrorClass]] = []
        self.acceptances: list[str] = []

    def happened(self, bridge: str, line: Mapping[str, Any]) -> None:
        self.lines.append((bridge, line))

    def refused(self, bridge: str, failed: CallFailed) -> None:
        self.refusals.append((bridge, failed.error_class))

    def accepted(self, bridge: str) -> None:
        self.acceptances.append(bridge)

    def events(self, bridge: str) -> list[str]:
        return [str(line["event"]) for name, line in self.lines if name == bridge]


def test_every_live_seat_is_heard_of_while_its_model_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert conductor.PROGRESS_SECONDS <= 15, "council §18"
    monkeypatch.setattr(conductor, "PROGRESS_SECONDS", 0.01)
    watcher = Watcher()
    slow: dict[str, Connection] = {
        bridge: ScriptedConnection(answer_for, latency_seconds=0.05)
        for bridge in ("claude", "codex")
    }

    report_of(
        run(council(*slow), ScriptedSeats(slow), Means(RunLog(observers=[watcher])))
    )

    for bridge in slow:
        first, *_ = [
            line
            for name, line in watcher.lines
            if (name, line["event"]) == (bridge, "progress")
        ]
        assert first["round"] == 1 and first["elapsed_s"] >= 0


def test_a_disk_that_is_full_is_said_by_its_own_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    watcher = Watcher()
    monkeypatch.setattr(watcher, "happened", full)

    with pytest.raises(OSError, match="No space left"):
        run(
            council("claude"),
            ScriptedSeats(scripts("claude")),
            Means(RunLog(observers=[watcher])),
        )


def test_a_council_of_two_ends_in_one_report() -> None:
    watcher = Watcher()
    ending = run(
        council("claude", "codex"),
        ScriptedSeats(scripts("claude", "codex")),
        Means(RunLog(observers=[watcher])),
    )

    report = report_of(ending)
    assert report.bridges_available == ("claude", "codex")
    assert [finding.confirmed_by for finding in report.multi_source_confirmed] == [
        ("claude", "codex")
    ]
    assert watcher.events("claude")[0] == "bridge_start"
    assert watcher.events("claude")[-1] == "bridge_complete"
    assert set(watcher.acceptances) == {"claude", "codex"}


def test_prompts_are_kept_without_the_secrets_in_them() -> None:
    journal, key = MemoryJournal(), "AKIA" + "IOSFODNN7EXAMPLQ"
    asked = msgspec.structs.replace(
        TASK, context_summary=f"the key is {key}, the password hunter-two"
    )
    means = Means(
        journal=journal, mask=lambda text: text.replace("hunter-two", "[masked]")
    )

    run(council("claude", task=asked), ScriptedSeats(scripts("claude")), means)

    kept = "".join(call.prompt for call in journal.calls)
    assert "[masked]" in kept and "hunter-two" not in kept and key not in kept


def test_every_prefix_of_a_journal_leads_to_the_same_report_and_no_finished_call_is_made_again() -> (
    None
):
    clock = ManualClock()
    whole = MemoryJournal()
    first = report_of(
        run(
            council("claude"),
            ScriptedSeats(scripts("claude")),
            Means(journal=whole, clock=clock),
        )
    )
    finished = {
        happened.key
        for happened in whole.recorded
        if isinstance(happened, Reply | CallFailed)
    }
    assert len(finished) >= 4

    for length in range(1, len(whole.recorded) + 1):
        known = whole.recorded[:length]
        journal = MemoryJournal(known)
        again = report_of(
            run(
                council("claude"),
                ScriptedSeats(scripts("claude")),
                Means(journal=journal, clock=clock),
            )
        )

        assert again == first
        done = {
            happened.key
            for happened in known
            if isinstance(happened, Reply | CallFailed)
        }
        assert not done & {call.key for call in journal.calls}
        assert done | {call.key for call in journal.calls} == finished


def test_a_seat_that_does_not_answer_in_time_does_not_hold_the_others_up() -> None:
    slow = ScriptedConnection(answer_for, latency_seconds=3600)
    seats = ScriptedSeats(
        {"claude": slow, **scripts("codex")},
        seats={"claude": scripted_seat("claude", deadline_seconds=0)},
    )

    report = report_of(run(council("claude", "codex"), seats))

    assert report.bridges_available == ("codex",)
    assert report.skip_reasons == {"claude": "timeout_after_60s"}


def test_a_call_over_its_limit_is_a_timeout_of_that_call() -> None:
    def script(call: Call) -> str | CallOutcome:
        if call.key.domain == "testing":
            return RuntimeRefusal(ErrorClass.TIMEOUT, "too slow")
        return answer_for(call)

    watcher = Watcher()
    report = report_of(
        run(
            council("claude"),
            ScriptedSeats({"claude": ScriptedConnection(script)}),
            Means(RunLog(observers=[watcher])),
        )
    )

    assert report.domains_covered == ("security",)
    (failed,) = [line for _, line in watcher.lines if line["event"] == "agent_failed"]
    assert (failed["reason"], failed["error_class"]) == ("timeout_after_60s", "timeout")
    assert watcher.refusals == [("claude", ErrorClass.TIMEOUT)]


class CountingRuntime(InProcess):
    """Counts how many calls are under way at once."""

    kind = "cli"
    runtime_name = "counting"

    def __init__(self) -> None:
        self.now = self.most = 0

    @classmethod
    def locate(cls, setup: SeatSetup, machine: Machine) -> Missing:
        return Missing("no_connection")

    def latency_seconds(self, call: Call) -> float:
        self.now += 1
        self.most = max(self.most, self.now)
        return 0.001

    def answer(self, call: Call) -> CallOutcome:
        self.now -= 1
        return RuntimeAnswer(answer_for(call))


def test_a_seat_makes_no_more_calls_at_once_than_it_may() -> None:
    counting = CountingRuntime()
    task = BridgeInput(
        session_id="a",
        scope="x",
        task_description="y",
        domains=tuple(f"d{n}" for n in range(9)),
    )

    run(
        council("claude", task=task),
        ScriptedSeats({"claude": counting}),
        Means(max_concurrency=3),
    )

    assert counting.most == 3


def test_a_guest_that_breaks_ends_its_call_and_not_the_council(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def breaks(call: Call) -> str:
        raise LookupError("a bug of a plug-in")

    seats = ScriptedSeats({"claude": ScriptedConnection(breaks), **scripts("codex")})
    report = report_of(run(council("claude", "codex"), seats))

    assert report.bridges_available == ("codex",)
    assert "a bug of a plug-in" in report.skip_reasons["claude"]
    assert "scripted failed" in caplog.text


# -- a seat that is shut out before it began


def test_a_refused_login_is_tried_over_the_next_connection() -> None:
    refused = RuntimeRefusal(ErrorClass.AUTH, "Not logged in")
    other = ScriptedConnection(answer_for)
    seat = scripted_seat("claude", connection="api", reads_files=False)
    seats = ScriptedSeats(
        scripts("claude", claude=refused), again={"claude": Ready(seat, other, ())}
    )
    watcher = Watcher()

    report = report_of(
        run(council("claude"), seats, Means(RunLog(observers=[watcher])))
    )

    assert [participant.connection for participant in report.participants] == ["api"]
    assert len(other.calls) >= 4
    assert watcher.refusals == [("claude", ErrorClass.AUTH)]


def test_a_call_that_is_called_off_with_its_seat_is_no_refusal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def carry(
        self: CallRunner, connection: Connection, call: Call, ask: RuntimeRequest
    ) -> CallOutcome:
        if call.key.domain == "security":
            await others_ask.wait()
            return RuntimeRefusal(ErrorClass.AUTH, "Not logged in")
        others_ask.set()
        with anyio.CancelScope(
            shield=True
        ):  # as a program that is killed: it ends a moment later
            for _ in range(100):
                await anyio.sleep(0)
        return RuntimeRefusal(ErrorClass.OTHER, "ended with code 130")

    others_ask = anyio.Event()
    monkeypatch.setattr(CallRunner, "carry", carry)
    halted = OwnReport(
        halted_report(
            TASK, facts("claude"), "not_authenticated", "run claude and log in"
        )
    )
    watcher = Watcher()
    run(
        council("claude"),
        ScriptedSeats(scripts("claude"), again={"claude": halted}),
        Means(RunLog(observers=[watcher])),
    )

    assert watcher.refusals == [("claude", ErrorClass.AUTH)]


def test_a_refused_login_without_another_connection_halts_the_bridge() -> None:
    halted = halted_report(
        TASK, facts("claude"), "not_authenticated", "run claude and log in"
    )
    seats = ScriptedSeats(
        scripts(
            "claude", "codex", claude=RuntimeRefusal(ErrorClass.AUTH, "Not logged in")
        ),
        again={"claude": OwnReport(halted)},
    )

    report = report_of(run(council("claude", "codex"), seats))

    assert report.auto_skipped_halted_bridges == (
        {"bridge": "claude", "halt_reason": "not_authenticated"},
    )
    assert report.partial_coverage


def test_a_login_that_is_lost_later_fails_only_its_call() -> None:
    def script(call: Call) -> str | CallOutcome:
        if call.key.domain == "testing":
            return RuntimeRefusal(ErrorClass.AUTH, "expired")
        return answer_for(call)

    seats = ScriptedSeats({"claude": ScriptedConnection(script)})
    report = report_of(run(council("claude"), seats, Means(max_concurrency=1)))

    assert report.bridges_available == ("claude",)
    assert report.domains_covered == ("security",)


def facts(bridge: str) -> SeatFacts:
    return SeatFacts(name=bridge, timeout_seconds=60, started_at="x", finished_at="y")


# -- people


def test_a_halted_bridge_is_put_to_the_user_and_seated_again_on_retry() -> None:
    asked: list[UserQuestion] = []
    halted = OwnReport(
        halted_report(TASK, facts("codex"), "not_authenticated", "run codex login")
    )
    seats = ScriptedSeats(scripts("claude", "codex"), others={"codex": halted})

    def ask(question: UserQuestion, cancel: Cancel) -> str:
        asked.append(question)
        seats._others.clear()
        return "retry"

    report = report_of(
        run(
            council("claude", "codex", options=CouncilOptions(interactive=True)),
            seats,
            Means(ask_user=ask),
        )
    )

    assert [question.message for question in asked] == ["run codex login"]
    assert report.bridges_available == ("claude", "codex")


def test_without_anybody_to_ask_a_halted_bridge_is_skipped() -> None:
    halted = OwnReport(
        halted_report(TASK, facts("codex"), "not_authenticated", "run codex login")
    )
    seats = ScriptedSeats(scripts("claude"), others={"codex": halted})

    report = report_of(
        run(council("claude", "codex", options=CouncilOptions(interactive=True)), seats)
    )

    assert report.skip_reasons == {"codex": "halted:not_authenticated"}


@pytest.mark.parametrize("by", ["a signal", "another thread"])
def test_an_interrupt_stops_the_calls_and_reports_what_is_there(by: str) -> None:
    started = threading.Event()
    stop = Cancel()

    class Slow(ScriptedConnection):
        def latency_seconds(self, call: Call) -> float:
            if not started.is_set():
                started.set()
                if by == "a signal":
                    signal.raise_signal(signal.SIGINT)
                else:
                    threading.Thread(target=stop.cancel).start()
            return 3600.0

    seat = scripted_seat("claude", timeout_seconds=7200, deadline_seconds=7200)
    seats = ScriptedSeats({"claude": Slow(answer_for)}, seats={"claude": seat})

    ending = run(council("claude"), seats, Means(handle_signals=True, stop=stop))

    assert isinstance(ending, Reported)
    assert isinstance(ending.report, AbortedReport)
    assert ending.report.skip_reasons == {"claude": "interrupted"}


@pytest.mark.parametrize("by", ["SIGINT", "SIGTERM", "another thread"])
def test_a_stop_is_heard_while_a_huge_reply_is_read(
    by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted by the spans that are looked at: without it all 5000 are."""
    stop, looked_at = Cancel(), 0
    balanced_end = reply.balanced_end

    def watched(text: str, start: int) -> int | None:
        nonlocal looked_at
        looked_at += 1
        if looked_at == 3:
            stop.cancel() if by == "another thread" else signal.raise_signal(
                signal.Signals[by]
            )
        return balanced_end(text, start)

    monkeypatch.setattr(reply, "balanced_end", watched)
    hostile = ScriptedConnection(lambda call: "[]" * 100_000 + " word")
    ending = run(
        council("claude"),
        ScriptedSeats({"claude": hostile}),
        Means(handle_signals=True, stop=stop),
    )

    assert looked_at == 3
    assert isinstance(ending, Reported) and isinstance(ending.report, AbortedReport)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_second_signal_ends_work_that_has_not_heeded_the_first(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def busy(text: str, start: int) -> int | None:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("it goes on")

    monkeypatch.setattr(reply, "balanced_end", busy)
    hostile = ScriptedConnection(lambda call: "[]" * 100 + " word")
    with pytest.raises(KeyboardInterrupt):
        run(
            council("claude"),
            ScriptedSeats({"claude": hostile}),
            Means(handle_signals=True),
        )
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert caplog.messages == []


# -- the host seat


class HostAnswers:
    """Answers that are there when they are looked for."""

    def __init__(self) -> None:
        self.posted: list[Call] = []
        self.answered: dict[str, str] = {}

    def post(self, call: Call) -> None:
        self.posted.append(call)

    def answers(self, outstanding: Sequence[Call]) -> Sequence[Result]:
        found = [call for call in outstanding if str(call.key) in self.answered]
        return [
            Reply(
                key=call.key,
                text=self.answered[str(call.key)],
                at="2026-11-15T10:15:03.000Z",
            )
            for call in found
        ]


def host_seats() -> ScriptedSeats:
    seat = scripted_seat(
        "claude", connection="native-dispatch", exchange_mode="coordinator-mediated"
    )
    return ScriptedSeats(
        {"claude": HostSeat(), **scripts("codex")}, seats={"claude": seat}
    )


def test_the_host_seat_pauses_the_run_after_everybody_else_has_spoken_and_goes_on_with_its_answers() -> (
    None
):
    journal, desk = MemoryJournal(), HostAnswers()
    ending = run(
        council("claude", "codex"), host_seats(), Means(journal=journal, desk=desk)
    )

    assert isinstance(ending, Waiting)
    assert ending.seats == ("claude",)
    assert {call.key.agent for call in ending.calls} == {
        "security",
        "testing",
        "challenger",
        "integration",
    }
    assert {call.key.seat for call in journal.calls} == {"codex"}

    for _ in range(6):
        desk.answered |= {str(call.key): answer_for(call) for call in desk.posted}
        journal = MemoryJournal(journal.recorded)
        ending = run(
            council("claude", "codex"), host_seats(), Means(journal=journal, desk=desk)
        )
        assert all(call.key.seat == "codex" for call in journal.calls)
        if isinstance(ending, Reported):
            break

    report = report_of(ending)
    assert report.bridges_available == ("claude", "codex")
    assert len({str(call.key) for call in desk.posted}) >= 4


def test_giving_the_host_up_ends_the_wait() -> None:
    journal, desk = MemoryJournal(), HostAnswers()
    run(council("claude", "codex"), host_seats(), Means(journal=journal, desk=desk))

    wishes = [GivenUp(seat="claude", at="2026-11-15T11:00:00.000Z")]
    means = Means(journal=MemoryJournal(journal.recorded), desk=desk)
    report = report_of(run(council("claude", "codex"), host_seats(), means, wishes))

    assert report.skip_reasons == {"claude": "no_answer"}


def test_giving_everybody_up_still_makes_the_call_that_was_cut_off_and_folds_in_what_was_answered() -> (
    None
):
    journal, desk = MemoryJournal(), HostAnswers()
    run(council("claude", "codex"), host_seats(), Means(journal=journal, desk=desk))
    cut_off = [one for one in journal.recorded if not isinstance(one, Reply)]
    desk.answered = {
        str(call.key): answer_for(call)
        for call in desk.posted
        if call.key.agent == "security"
    }

    again = MemoryJournal(cut_off)
    wishes = [
        GivenUp(seat=bridge, at="2026-11-15T11:00:00.000Z")
        for bridge in ("claude", "codex")
    ]
    report = report_of(
        run(
            council("claude", "codex"),
            host_seats(),
            Means(journal=again, desk=desk),
            wishes,
        )
    )

    assert {call.key.seat for call in again.calls} == {"codex"}
    assert report.bridges_available == ("claude", "codex")
    assert [one.seat for one in again.recorded if isinstance(one, GivenUp)] == [
        "claude"
    ]


def test_without_a_desk_the_host_seat_fails_with_a_reason() -> None:
    report = report_of(run(council("claude", "codex"), host_seats()))

    assert "no handler takes the host seat's requests" in report.skip_reasons["claude"]


# -- rigs and retries


def test_a_rig_is_asked_and_not_waited_for_and_its_answer_is_folded_in_later() -> None:
    journal = MemoryJournal()
    seats = ScriptedSeats(
        scripts("claude"), others={"rig:win-5080": Posted("request-1")}
    )
    first = report_of(
        run(council("claude", "rig:win-5080"), seats, Means(journal=journal))
    )
    assert [pending["request"] for pending in first.bridges_pending] == ["request-1"]

    answer = skipped_report(TASK, facts("rig:win-5080"), "remote: no runtime there")
    seats = ScriptedSeats(scripts("claude"), again={"rig:win-5080": OwnReport(answer)})
    means = Means(journal=MemoryJournal(journal.recorded))
    second = report_of(run(council("claude", "rig:win-5080"), seats, means))

    assert second.bridges_pending == ()
    assert second.skip_reasons == {"rig:win-5080": "remote: no runtime there"}
    assert seats.checked == []


def test_a_council_of_a_silent_rig_alone_waits() -> None:
    seats = ScriptedSeats({}, others={"rig:far": Posted("request-1")})

    ending = run(council("rig:far"), seats)

    assert ending == Waiting((), ("rig:far",))


def test_a_bridge_without_a_usable_reply_can_be_seated_again() -> None:
    journal = MemoryJournal()
    missing = OwnReport(skipped_report(TASK, facts("codex"), "cli_not_found"))
    seats = ScriptedSeats(scripts("claude"), others={"codex": missing})
    run(council("claude", "codex"), seats, Means(journal=journal))

    wishes = [Retried(seat="codex", at="2026-11-15T11:00:00.000Z")]
    means = Means(journal=MemoryJournal(journal.recorded))
    report = report_of(
        run(
            council("claude", "codex"),
            ScriptedSeats(scripts("claude", "codex")),
            means,
            wishes,
        )
    )

    assert report.bridges_available == ("claude", "codex")


# -- files


def test_logs_are_written_in_order_with_preflight_after_the_first_line(
    tmp_path: Path,
) -> None:
    seat = Ready(
        scripted_seat("claude"),
        ScriptedConnection(answer_for),
        (SeatEvent("claude", "preflight", {"step": "settings", "result": "enabled"}),),
    )
    missing = OwnReport(
        skipped_report(TASK, facts("codex"), "cli_not_found"),
        (
            SeatEvent(
                "codex", "preflight", {"step": "availability_check", "result": "absent"}
            ),
        ),
    )
    outputs = OutputFolder(tmp_path, "k3v9qa", ManualClock())
    seats = ScriptedSeats({}, others={"claude": seat, "codex": missing})

    run(council("claude", "codex"), seats, Means(RunLog(outputs)))

    written = read_log(tmp_path, "claude")
    assert [line["event"] for line in written[:3]] == [
        "bridge_start",
        "preflight",
        "dispatch",
    ]
    assert written[-1]["event"] == "bridge_complete"
    assert [line["seq"] for line in written] == list(range(1, len(written) + 1))
    assert [line["event"] for line in read_log(tmp_path, "codex")] == [
        "bridge_start",
        "preflight",
        "bridge_complete",
    ]
    assert not list((tmp_path / ".outputs/bridges").glob("council*"))
    summary = next((tmp_path / ".outputs/bridges").glob("codex-*.md")).read_text()
    assert "# codex: SKIPPED, cli\\_not\\_found" in summary


def read_log(project: Path, bridge: str) -> list[dict[str, Any]]:
    (log,) = (project / ".outputs/bridges").glob(f"{bridge}-*.jsonl")
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_secrets_in_what_a_program_says_reach_neither_report_nor_log(
    tmp_path: Path,
) -> None:
    refused = RuntimeRefusal(
        ErrorClass.OTHER,
        "bad key sk-very-secret-value",
        detail="stderr: sk-very-secret-value",
    )
    outputs = OutputFolder(tmp_path, "k3v9qa", ManualClock())
    means = Means(
        RunLog(outputs),
        mask=lambda text: text.replace("sk-very-secret-value", "[masked]"),
    )

    ending = run(
        council("claude"), ScriptedSeats(scripts("claude", claude=refused)), means
    )

    assert isinstance(ending, Reported)
    assert "[masked]" in str(ending.report)
    everything = "".join(
        path.read_text()
        for path in (tmp_path / ".outputs").rglob("*")
        if path.is_file()
    )
    assert "[masked]" in everything
    assert "sk-very-secret-value" not in everything


KEY = "ghp_" + "x7Kq2LmZ9vTnR4sWb8YcD1fGh5JkP3uQeA6i"


def said_by_a_check() -> dict[str, SeatOutcome]:
    """What seats come to before they are asked anything, each with a key in its words."""
    preflight = {"step": "availability_check", "result": f"found {KEY}"}
    ready = Ready(
        scripted_seat("claude"),
        ScriptedConnection(answer_for),
        (SeatEvent("claude", "preflight", preflight),),
    )
    absent = OwnReport(
        skipped_report(TASK, facts("codex"), f"cli_error: {KEY}"),
        (SeatEvent("codex", "preflight", preflight),),
    )
    return {"claude": ready, "codex": absent}


@pytest.mark.parametrize(
    "seats",
    [
        ScriptedSeats(scripts("claude", claude=RuntimeAnswer(f"no JSON but {KEY}"))),
        ScriptedSeats(
            scripts("claude", claude=RuntimeAnswer("nothing", refused=(f"rm {KEY}",)))
        ),
        ScriptedSeats(
            scripts(
                "claude", claude=RuntimeRefusal(ErrorClass.OTHER, KEY, f"stderr {KEY}")
            )
        ),
        ScriptedSeats({}, others=said_by_a_check()),
    ],
    ids=["reply", "request", "refusal", "check"],
)
def test_no_key_that_a_seat_repeats_comes_in_by_any_way(
    tmp_path: Path, seats: ScriptedSeats
) -> None:
    outputs = OutputFolder(tmp_path, "k3v9qa", ManualClock())
    watcher = Watcher()
    journal = MemoryJournal()

    ending = run(
        council("claude", "codex") if "codex" in seats._others else council("claude"),
        seats,
        Means(RunLog(outputs, (watcher,)), journal),
    )

    kept = "".join(
        path.read_text()
        for path in (tmp_path / ".outputs").rglob("*")
        if path.is_file()
    )
    everything = (kept, str(ending), str(watcher.lines), str(journal.recorded))
    assert [text for text in everything if KEY in text] == []
    assert "github-token" in kept


def test_no_key_that_the_host_repeats_comes_in() -> None:
    journal, desk = MemoryJournal(), HostAnswers()
    run(council("claude", "codex"), host_seats(), Means(journal=journal, desk=desk))
    desk.answered = {str(call.key): f"no JSON but {KEY}" for call in desk.posted}

    again = MemoryJournal(journal.recorded)
    run(council("claude", "codex"), host_seats(), Means(journal=again, desk=desk))

    assert "[left out: github-token]" in str(again.recorded)
    assert KEY not in str(again.recorded)


def test_what_an_agent_asked_for_and_did_not_get_is_in_the_log(tmp_path: Path) -> None:
    answered = RuntimeAnswer(
        "nothing to report", refused=("rm -rf sk-very-secret-value",)
    )
    outputs = OutputFolder(tmp_path, "k3v9qa", ManualClock())
    means = Means(
        RunLog(outputs),
        mask=lambda text: text.replace("sk-very-secret-value", "[masked]"),
    )

    run(council("claude"), ScriptedSeats(scripts("claude", claude=answered)), means)

    everything = "".join(
        path.read_text()
        for path in (tmp_path / ".outputs").rglob("*")
        if path.is_file()
    )
    assert "request_refused:rm -rf [masked]" in everything


def test_all_statuses_have_their_report_written(tmp_path: Path) -> None:
    statuses = {"codex": Status.SKIPPED, "gemini": Status.HALTED}
    others = {
        "codex": OwnReport(skipped_report(TASK, facts("codex"), "cli_not_found")),
        "gemini": OwnReport(
            halted_report(TASK, facts("gemini"), "not_authenticated", "log in")
        ),
    }
    outputs = OutputFolder(tmp_path, "k3v9qa", ManualClock())
    run(
        council("claude", *others),
        ScriptedSeats(scripts("claude"), others=others),
        Means(RunLog(outputs)),
    )

    for bridge, status in statuses.items():
        assert read_log(tmp_path, bridge)[-1]["status"] == status
