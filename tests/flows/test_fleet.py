"""One pass after the other, over checkpoints in memory: what a worker of a fleet does, without a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bridgehead.flows import (
    AskFailed,
    AsyncContext,
    Context,
    Failed,
    Flow,
    asking,
    flow,
)
from bridgehead.flows.fleet import Job, PassEnd, records_of, run_pass
from bridgehead.flows.operations.inspect import steps_of
from bridgehead.flows.words import RunStatus
from bridgehead.host.clock import ManualClock


class Died(BaseException):
    """The worker was killed."""


class Passes:
    """Runs the passes of one flow as a queue would; `dies_at` kills the worker at that checkpoint, once."""

    def __init__(
        self,
        flow: Flow,
        *,
        dies_at: int | None = None,
        after: bool = False,
        **settings: Any,
    ) -> None:
        self.flow = flow
        self.clock = ManualClock()
        self.job = Job(
            "flow-1",
            flow.name,
            settings,
            "default",
            "2026-11-15T10:00:00Z",
            version=flow.version,
        )
        self.kept: list[list[tuple[str, Any]]] = [[]]
        self.answers: dict[str, str | tuple[str, str]] = {}
        self.asked: dict[str, str] = {}
        self.made = 0
        self._dies_at, self._after = dies_at, after

    def answer(self, prompt: str, text: str) -> None:
        self.answers[prompt] = text

    def refuse(self, prompt: str, reason: str) -> None:
        self.answers[prompt] = ("error", reason)

    def next(self) -> PassEnd:
        """The present pass to its end, again from its checkpoints when its worker died."""
        while True:
            try:
                ended = self._once()
                break
            except Died:
                continue
        if ended.status is RunStatus.WAITING:
            for attempt in ended.open_requests:
                self.asked[str(attempt.document["prompt"])] = attempt.request_id
            self.job = self.job.next(ended)
            self.kept.append([])
        return ended

    def to_end(self) -> PassEnd:
        while (ended := self.next()).status is RunStatus.WAITING:
            if ended.wake is not None:
                self.clock.advance(
                    max(0.0, (ended.wake - self.clock.now()).total_seconds() + 1)
                )
            assert len(self.kept) < 20
        return ended

    def _once(self) -> PassEnd:
        before = [[value for _, value in kept] for kept in self.kept[:-1]]
        present, place = self.kept[-1], iter(range(1000))

        def checkpoint(name: str, work: Callable[[], Any]) -> Any:
            number = next(place)
            if number < len(present):
                assert present[number][0] == name, "a repeated pass took another way"
                return present[number][1]
            self.made += 1
            dies = self.made == self._dies_at
            if dies and not self._after:
                raise Died
            present.append((name, work()))
            if dies:
                raise Died
            return present[number][1]

        return run_pass(
            self.flow,
            self.job,
            records_of(before, self.job.forgets),
            checkpoint,
            self._look,
            self.clock,
        )

    def _look(self, request_ids: Any) -> dict[str, dict[str, Any]]:
        found = {}
        for prompt, given in self.answers.items():
            request_id = self.asked.get(prompt)
            if request_id in request_ids:
                base = {
                    "request_id": request_id,
                    "version": "1.0",
                    "created_at": "2026-11-15T10:00:00Z",
                }
                if isinstance(given, str):
                    found[request_id] = {**base, "status": "success", "response": given}
                else:
                    found[request_id] = {
                        **base, "status": "error", "error_type": "UNKNOWN", "error_message": given[1]
                    }  # fmt: skip
        return found


EFFECTS: list[str] = []


def effect(name: str) -> str:
    EFFECTS.append(name)
    return name


@pytest.fixture(autouse=True)
def _no_effects() -> None:
    EFFECTS.clear()


@flow("branches")
def branches(ctx: Context) -> list[Any]:
    def branch(ctx: Context, name: str) -> str:
        begun = ctx.step("begin", effect, f"begin {name}")
        said = ctx.ask("say", agent="a", prompt=f"say {name}")
        if name == "left":
            said += ctx.ask("more", agent="a", prompt="more")
        return ctx.step("end", effect, f"{begun} {said}")

    return [*ctx.map("both", branch, ["left", "right"]), ctx.uuid()]


@flow("async-branches")
async def async_branches(ctx: AsyncContext) -> list[Any]:
    async def branch(ctx: AsyncContext, name: str) -> str:
        begun = await ctx.step("begin", effect, f"begin {name}")
        said = await ctx.ask("say", agent="a", prompt=f"say {name}")
        if name == "left":
            said += await ctx.ask("more", agent="a", prompt="more")
        return str(await ctx.step("end", effect, f"{begun} {said}"))

    return [*await ctx.map("both", branch, ["left", "right"]), ctx.uuid()]


def drive_branches(of: Flow, **how: Any) -> PassEnd:
    """Answers come in an order of their own, each brings the run back."""
    passes = Passes(of, **how)
    passes.next()
    assert set(passes.asked) == {"say left", "say right"}
    passes.answer("say right", "R")
    passes.next()
    passes.answer("say left", "L")
    passes.next()
    passes.answer("more", "+")
    return passes.next()


@pytest.mark.parametrize("of", [branches, async_branches], ids=["plain", "async"])
def test_branches_go_on_as_their_answers_come(of: Flow) -> None:
    ended = drive_branches(of)

    assert ended.status is RunStatus.COMPLETED
    assert ended.result[:2] == ["begin left L+", "begin right R"]
    assert EFFECTS == ["begin left", "begin right", "begin right R", "begin left L+"]


@pytest.mark.parametrize("after", [False, True], ids=["before it is kept", "after"])
@pytest.mark.parametrize("of", [branches, async_branches], ids=["plain", "async"])
def test_a_worker_may_die_at_any_checkpoint(of: Flow, after: bool) -> None:
    counted = Passes(of)
    counted.next()
    for dies_at in range(1, 20):
        EFFECTS.clear()
        ended = drive_branches(of, dies_at=dies_at, after=after)

        assert ended.result[:2] == ["begin left L+", "begin right R"]
        assert set(EFFECTS) == {
            "begin left",
            "begin right",
            "begin right R",
            "begin left L+",
        }
        assert len(EFFECTS) == 4


def test_an_answer_that_is_no_use_opens_the_question_again() -> None:
    @flow("needs")
    def needs(ctx: Context) -> str:
        ctx.step("first", effect, "first")
        return str(ctx.ask("it", agent="a", prompt="what?"))

    passes = Passes(needs)
    passes.next()
    first = passes.asked["what?"]
    passes.refuse("what?", "quota")
    ended = passes.next()

    assert (ended.status, ended.error) == (
        RunStatus.WAITING,
        "no usable answer at it#0: UNKNOWN: quota",
    )
    assert passes.asked["what?"] != first
    passes.answer("what?", "this")
    assert passes.next().result == "this"
    assert EFFECTS == ["first"]


def test_a_sleep_leaves_the_worker_and_an_ask_expires() -> None:
    @flow("slow")
    def slow(ctx: Context) -> str:
        ctx.sleep(3600)
        ctx.sleep(0.5)
        try:
            return str(ctx.ask("it", agent="a", prompt="what?", expires=60))
        except AskFailed as error:
            return error.failure.reason

    passes = Passes(slow)
    begun = passes.clock.now()
    asleep = passes.next()

    assert asleep.wake is not None and (asleep.wake - begun).total_seconds() == 3600
    assert passes.to_end().result == "expired"
    assert (passes.clock.now() - begun).total_seconds() >= 3660


def test_a_sleeping_branch_does_not_hold_up_a_question() -> None:
    @flow("both")
    def both(ctx: Context) -> list[Any]:
        def rest(ctx: Context) -> str:
            ctx.sleep(100)
            return "rested"

        return ctx.gather(rest, asking("it", agent="a", prompt="what?"))

    passes = Passes(both)
    waiting = passes.next()

    assert waiting.wake is not None and [made.path for made in waiting.open_requests]
    passes.answer("what?", "this")
    assert passes.to_end().result == ["rested", "this"]


def test_a_failed_step_is_kept_and_made_again_when_the_run_is_retried() -> None:
    broken = True

    def build() -> str:
        effect("build")
        if broken:
            raise OSError("disk full")
        return "built"

    @flow("build")
    def building(ctx: Context) -> str:
        ctx.step("first", effect, "first")
        return ctx.step("build", build)

    passes = Passes(building)
    failed = passes.next()
    assert failed.error == "StepFailed: step build#0 raised OSError: disk full"
    step = steps_of(
        records_of([[value for _, value in kept] for kept in passes.kept], ()).values(),
        (),
    )[-1]
    assert (
        step.traceback
        and step.traceback.startswith("Traceback")
        and 'raise OSError("disk full")' in step.traceback
    )

    broken = False
    passes.job = passes.job.next(forget="build#0")
    passes.kept.append([])

    assert passes.next().result == "built"
    assert EFFECTS == ["first", "build", "build"]


def test_a_fallback_and_an_answer_of_another_branch_survive_a_failure() -> None:
    broken = True

    @flow("pair")
    def pair(ctx: Context) -> list[Any]:
        def first(ctx: Context) -> str:
            said = ctx.ask(
                "x",
                agent="a",
                prompt="x?",
                fallback=lambda failure: f"without: {failure.reason}",
            )
            if broken:
                raise ValueError(said)
            return str(said)

        return ctx.gather(first, asking("y", agent="a", prompt="y?"))

    passes = Passes(pair)
    passes.next()
    passes.refuse("x?", "gone")
    failed = passes.next()
    assert failed.error == "ValueError: without: UNKNOWN"
    assert [request for request, _ in failed.settled if request == passes.asked["y?"]]

    broken = False
    passes.job = passes.job.next()
    passes.kept.append([])
    passes.answer("y?", "Y")

    assert passes.next().result == ["without: UNKNOWN", "Y"]


def test_code_that_takes_another_way_is_refused_before_it_acts() -> None:
    @flow("same")
    def old(ctx: Context) -> None:
        ctx.step("one", effect, "one")
        ctx.ask("it", agent="a", prompt="what?")

    @flow("same")
    def new(ctx: Context) -> None:
        ctx.step("two", effect, "two")
        ctx.ask("it", agent="a", prompt="what?")

    @flow("same", version="2")
    def newer(ctx: Context) -> None: ...

    passes = Passes(old)
    passes.next()
    passes.flow = new
    refused = passes._once()
    passes.flow = newer

    assert refused.status is RunStatus.FAILED and "took a different path" in str(
        refused.error
    )
    assert EFFECTS == ["one"]
    assert "version 1" in str(passes._once().error)


def test_a_job_is_the_same_after_its_journey_as_json() -> None:
    import json

    passes = Passes(branches)
    passes.next()
    job = passes.job.next(forget="x#0")

    assert Job.read(json.loads(json.dumps(job.document()))) == job
    assert Failed("x") != job.attempts[0]
