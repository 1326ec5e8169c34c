"""Flows in the browser's eyes: steps with times, what is asked, and answers that are judged before they are sent."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from bridgehead.assembly.flows.recording import RecordingAnnouncer
from bridgehead.assembly.flows.views import FlowSummary, FlowView, OpenFlowRequest
from bridgehead.assembly.pending import pending_list
from bridgehead.contract.doors import Door
from bridgehead.contract.pending import Answer
from bridgehead.contract.record_words import Part, PendingState, RunState
from bridgehead.control_plane.records import PendingFilter, Run
from bridgehead.dashboard.pages.flows import PAGE_LENGTH, shown_steps
from bridgehead.flows import (
    Context,
    Flow,
    RunInputs,
    RunRequest,
    RunResult,
    asking,
    run_flow,
)
from bridgehead.flows.calls import StepFailed
from bridgehead.flows.errors import FlowFailed
from bridgehead.flows.operations.inspect import Step
from bridgehead.host.clock import ManualClock
from dashboard.support.rig_worlds import HOSTILE, HOSTILE_LINE, MARKUP, at_home
from dashboard.support.served import OpenDashboard, open_dashboard

SCHEMA = {
    "type": "object",
    "required": ["score"],
    "properties": {"score": {"type": "integer"}},
}


def review(ctx: Context, file: str = "notes.txt") -> Any:
    ctx.step("read", lambda name: name, file)
    return ctx.gather(
        asking("careful", agent="reviewer", prompt="How good is it?", schema=SCHEMA),
        asking("quick", agent="linter", prompt="Quickly?"),
    )


def hostile_view() -> FlowView:
    """A run of which every text is an attack, whatever a journal would have let through."""
    text, at = HOSTILE_LINE, "2026-11-14T10:15:02.000Z"
    summary = FlowSummary(
        text, text, RunState.WAITING, text, at, text, text, text, (text,)
    )
    steps = (Step(f"{text}/{text}#0", text, text, text, text, text, text),)
    asked = OpenFlowRequest(
        text, text, text, text, 1, text, text, {text: text}, text, text, 2, queued=False
    )
    return FlowView(summary, {text: text}, steps, (asked,), traceback=text)


@dataclass
class FlowsAndPages:
    web: OpenDashboard
    base: Path

    def run(self, name: str, flow: Flow, **given: Any) -> RunResult:
        """Run a flow in a project of its own, as a program that tells the record."""
        root = self.base / name
        root.mkdir(exist_ok=True)
        with RecordingAnnouncer(root, pytest.fail) as announcer:
            around = RunInputs(clock=ManualClock(), announcer=announcer)
            return run_flow(flow, RunRequest(root=root, given=given), around)

    def page(self, path: str, status: int = 200) -> str:
        answer = self.web.client.get(path)
        assert answer.status_code == status, answer.text
        return answer.text


@pytest.fixture
def flows(tmp_path: Path) -> Iterator[FlowsAndPages]:
    with (
        at_home(tmp_path, tmp_path / "web" / "home"),
        open_dashboard(tmp_path / "web") as web,
    ):
        yield FlowsAndPages(web, tmp_path)


def test_without_flows_the_page_says_how_to_run_one_and_unknown_ones_are_not_found(
    flows: FlowsAndPages,
) -> None:
    assert "bridgehead flow run template-create" in flows.page("/flows")
    for reference in ("no-such-flow", "..%2f..%2fetc", "%00", "flow-"):
        flows.page(f"/flows/{reference}", 404 if reference != "%00" else 422)
    assert "is not a state of a flow" in flows.page("/flows?state=odd", 422)


def test_what_the_fleet_has_under_way_is_shown_by_queue_and_worker(
    flows: FlowsAndPages, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Fleet" not in flows.page("/flows")
    load = {("default", "<b>den</b>"): 1, ("default", "queued"): 1200}
    monkeypatch.setattr(
        "bridgehead.dashboard.pages.flows.fleet_load", lambda _assembly: load
    )

    shown = flows.page("/flows")

    assert (
        "&lt;b&gt;den&lt;/b&gt;" in shown
        and ">1 run<" in shown
        and ">1,200 runs<" in shown
    )


def test_a_run_that_failed_shows_its_traceback_while_its_files_are_there(
    flows: FlowsAndPages,
) -> None:
    def broken(ctx: Context) -> Any:
        return ctx.step("build", lambda: {}["<missing>"])

    with pytest.raises(FlowFailed) as failed:
        flows.run("one", Flow("release", "1", broken))
    assert failed.value.post_mortem is not None
    flow_id = failed.value.post_mortem.name.partition("-")[2]

    shown = html.unescape(flows.page(f"/flows/{flow_id}"))

    assert (
        "Traceback (most recent call last)" in shown
        and "KeyError: '<missing>'" in shown
    )
    assert 'lambda: {}["<missing>"]' in shown and "<missing>" not in flows.page(
        f"/flows/{flow_id}"
    )
    (failed.value.post_mortem / "traceback.txt").unlink()
    kept = flows.page(f"/flows/{flow_id}")
    assert 'id="traceback"' not in kept and kept.count("most recent call last") == 1, (
        "that of the step is in the journal"
    )


def test_a_step_that_failed_shows_its_traceback_though_its_flow_went_on(
    flows: FlowsAndPages,
) -> None:
    def missing() -> Any:
        return {}["<missing>"]

    def careful(ctx: Context) -> Any:
        with suppress(StepFailed):
            ctx.step("build", missing)
        return ctx.step("other", lambda: "other")

    flow_id = flows.run("one", Flow("release", "1", careful)).flow_id

    shown = html.unescape(flows.page(f"/flows/{flow_id}"))

    assert (
        shown.count("Traceback of ") == 1
        and "Traceback of build" in shown
        and "in missing" in shown
    )
    assert 'return {}["<missing>"]' in shown and "<missing>" not in flows.page(
        f"/flows/{flow_id}"
    )


def test_flows_of_all_projects_are_listed_and_filtered_by_state(
    flows: FlowsAndPages,
) -> None:
    waiting = flows.run("one", Flow("review", "3", review)).flow_id
    done = flows.run(
        "two", Flow("sweep", "1", lambda ctx: ctx.step("sweep", lambda: 1))
    ).flow_id

    shown = flows.page("/flows")
    assert f"/flows/{waiting}" in shown and f"/flows/{done}" in shown
    assert "waits for reviewer, linter" in shown
    only = flows.page("/flows?state=completed")
    assert f"/flows/{done}" in only and f"/flows/{waiting}" not in only
    assert "No flow is failed" in flows.page("/flows?state=failed")


def test_a_flow_shows_its_steps_with_times_and_what_it_asks(
    flows: FlowsAndPages,
) -> None:
    flow_id = flows.run("one", Flow("review", "3", review), file="a.txt").flow_id

    shown = flows.page(f"/flows/{flow_id}")

    steps = re.findall(
        r'class="step-name" title="([^"]+)".*?class="label small (\w+)">(\w+)<',
        shown,
        re.S,
    )
    assert ("read#0", "completed", "completed") in steps
    assert ("gather#0/branch#0/careful#0", "waiting", "pending") in steps
    for words in (
        "How good is it?",
        "Schema of the answer",
        "reviewer",
        "q-1",
        "<dd>a.txt</dd>",
    ):
        assert words in shown
    assert (
        shown.count('class="card request"') == 2
        and '<span class="tag">queued</span>' in shown
    )


def test_an_answer_is_judged_before_it_is_sent_and_taken_once(
    flows: FlowsAndPages,
) -> None:
    flow_id = flows.run("one", Flow("review", "3", review)).flow_id
    here = f"/flows/{flow_id}"

    assert 'name="field.score"' in flows.web.client.get(here).text
    typed = flows.web.post(f"{here}/answer/q-1", **{"field.score": "nine"})
    assert (
        typed.status_code == 422
        and 'value="nine"' in typed.text
        and "could not use" in typed.text
    )
    unfit = flows.web.post(f"{here}/answer/q-1", text='{"score": "<nine>"}')
    assert (
        unfit.status_code == 422 and "The flow could not use this answer." in unfit.text
    )
    assert (
        '{"score": "<nine>"}</textarea>' in html.unescape(unfit.text)
        and "<nine>" not in unfit.text
    )
    assert flows.web.store.find_pending("q-1").state is PendingState.OPEN
    assert not (flows.base / "one" / ".agent-response.json").exists()
    for fields in (
        {"text": " "},
        {"status": "error", "message": ""},
        {"status": "odd", "text": "x"},
    ):
        assert flows.web.post(f"{here}/answer/q-1", **fields).status_code == 422

    taken = flows.web.post(f"{here}/answer/q-1", text='{"score": 9}')
    assert (taken.status_code, taken.headers["location"]) == (303, here)
    item = flows.web.store.find_pending("q-1")
    assert item.answer is not None and (item.answer.by, item.answer.text) == (
        "ann (web)",
        '{"score": 9}',
    )
    assert (flows.base / "one" / ".agent-response.json").exists()
    shown = flows.page(here)
    assert "Answered by ann (web)" in shown and "flow resume --dir" in shown

    second = flows.web.post(f"{here}/answer/q-1", text='{"score": 1}')
    assert second.status_code == 303
    assert "was already answered by ann (web)" in flows.page(here)
    assert flows.web.store.find_pending("q-1") == item


def test_whoever_answered_elsewhere_first_is_named(flows: FlowsAndPages) -> None:
    flow_id = flows.run("one", Flow("review", "3", review)).flow_id
    at = "2026-11-15T10:16:32.000Z"
    waiting = pending_list(flows.web.assembly, flows.web.store, pytest.fail)
    waiting.answer("q-1", Answer(text='{"score": 9}', by="ada (cli)", at=at), Door.PAGE)

    flows.web.post(f"/flows/{flow_id}/answer/q-1", text='{"score": 1}')

    assert "already answered by ada (cli)" in flows.page(f"/flows/{flow_id}")


def test_a_flow_can_be_told_that_there_is_no_result(flows: FlowsAndPages) -> None:
    flow_id = flows.run("one", Flow("review", "3", review)).flow_id

    answer = flows.web.post(
        f"/flows/{flow_id}/answer/q-1", status="cancelled", message="not today"
    )

    assert answer.status_code == 303
    answered = flows.web.store.pending(PendingFilter(states=(PendingState.ANSWERED,)))
    assert [item.answer.message for item in answered if item.answer] == ["not today"]


def test_what_flows_say_never_becomes_markup(
    flows: FlowsAndPages, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = recorded(
        flows, "<b>", kind=HOSTILE_LINE, error=HOSTILE_LINE, project=HOSTILE_LINE
    )
    paths = ("/flows", f"/flows/{quote(lost, safe='')}", "/flows/%3Ci%3E", "/")
    pages = [flows.web.client.get(path).text for path in paths]
    monkeypatch.setattr(
        "bridgehead.dashboard.pages.flows.view_flow", lambda *_: hostile_view()
    )
    pages += [
        flows.page("/flows/any"),
        flows.web.post("/flows/any/answer/q-1", text=HOSTILE_LINE).text,
    ]

    for shown in pages:
        for attack in (*MARKUP, "<b>", "<i>"):
            assert attack not in shown
    assert "journal cannot be read" in pages[1]
    assert HOSTILE[1] in html.unescape(pages[4]) and "[U+202E]" in pages[4]


def recorded(
    flows: FlowsAndPages,
    flow_id: str,
    *,
    kind: str = "count",
    project: str = "",
    part: Part = Part.FLOWS,
    **data: str,
) -> str:
    """A run of which only the record knows."""
    at = "2026-11-14T10:15:02.000Z"
    state = RunState.FAILED if "error" in data else RunState.COMPLETED
    flows.web.store.save_run(
        Run(id=flow_id, part=part, kind=kind, title=kind, state=state, started_at=at, updated_at=at,
            project=project, data=dict(data))
    )  # fmt: skip
    return flow_id


def test_long_lists_come_in_pages(flows: FlowsAndPages) -> None:
    flow = Flow(
        "count",
        "1",
        lambda ctx: [ctx.step("one", lambda number=n: number) for n in range(230)],
    )
    flow_id = flows.run("many", flow).flow_id
    for number in range(PAGE_LENGTH):
        recorded(flows, f"flow-{number}")

    shown = flows.page(f"/flows/{flow_id}")
    assert shown.count('<li class="step ') == 200 and "Later steps" in shown
    assert flows.page(f"/flows/{flow_id}?start=200").count('<li class="step ') == 30
    first = flows.page("/flows")
    assert first.count('class="flow-row"') == PAGE_LENGTH and "Older" in first
    assert flows.page(f"/flows?start={PAGE_LENGTH}").count('class="flow-row"') == 1


def test_a_council_is_no_flow(flows: FlowsAndPages) -> None:
    recorded(flows, "a-council", part=Part.COUNCIL)

    assert "is not a flow" in flows.page("/flows/a-council", 404)


def test_bars_lie_within_the_run_whatever_the_clocks_say() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)

    def at(seconds: float) -> str:
        return (start + timedelta(seconds=seconds)).isoformat()

    steps = [
        Step("a", "step", "completed", at(0), at(10)),
        Step("b", "step", "completed", at(10), at(10)),
        Step("c", "ask", "pending", at(10)),
        Step("d", "step", "odd", at(40), at(5)),
        Step("e", "step", "failed", "no moment", at(5)),
    ]
    shown = shown_steps(steps, now=start + timedelta(seconds=40))

    assert [one.seconds for one in shown] == [10, 0, 30, 0, None]
    assert all(one.begin >= 0 and one.begin + one.length <= 100.01 for one in shown)
    assert (shown[0].begin, shown[0].length, shown[2].begin) == (0, 25, 25)
