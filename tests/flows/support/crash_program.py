"""Kills a process at every one of its writes, one after another, and reports how the next command goes on.

Run as a program of its own, because it forks: `python crash_program.py SCENARIO FOLDER` prints one JSON line.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bridgehead.errors import AlreadyAnswered, BridgeheadError
from bridgehead.flows import Context, Flow, RunRequest, RunResult, run_flow
from bridgehead.flows.calls import Reply
from bridgehead.flows.engine.context import PhasedContext
from bridgehead.flows.errors import NoCheckpoint
from bridgehead.flows.operations.cancel import cancel
from bridgehead.flows.operations.inspect import status
from bridgehead.flows.operations.respond import RespondRequest, respond
from bridgehead.flows.words import RequestStatus

MOST_CRASHES = 400
WRITES = (
    "write",
    "fsync",
    "rename",
    "link",
    "unlink",
    "mkdir",
    "ftruncate",
    "pwrite",
    "fchmod",
)
PAID = "paid for"
FREE = "free of charge"


class QuickConnection(sqlite3.Connection):
    """Does not wait for the disk; a killed process loses nothing that the kernel has already."""

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:  # type: ignore[override]
        hurried = (
            "PRAGMA synchronous=OFF" if sql.startswith("PRAGMA synchronous") else sql
        )
        return super().execute(hurried, *values)


def spare_the_disk() -> None:
    real_connect = sqlite3.connect
    sqlite3.connect = lambda *a, **k: real_connect(
        *a, **{"factory": QuickConnection, **k}
    )
    os.fsync = lambda handle: None


class Crash:
    """Counts writes, and dies by SIGKILL at one of them: just before it, or just after."""

    def __init__(self, point: int) -> None:
        self.left = point

    def here(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def install(self) -> None:
        for name in WRITES:
            setattr(os, name, self.around(getattr(os, name)))
        real_open = os.open
        opening = self.around(real_open)

        def open_(path: Any, flags: int, *rest: Any, **more: Any) -> int:
            handle: int = (opening if flags & os.O_CREAT else real_open)(
                path, flags, *rest, **more
            )
            return handle

        os.open = open_  # type: ignore[assignment]
        crash = self

        class Connection(QuickConnection):
            def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:  # type: ignore[override]
                if sql.lstrip().startswith("SELECT"):
                    return super().execute(sql, *values)
                return crash.around(super().execute)(sql, *values)  # type: ignore[no-any-return]

        real_connect = sqlite3.connect
        sqlite3.connect = lambda *a, **k: real_connect(*a, factory=Connection, **k)  # type: ignore[assignment]

    def around(self, operate: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **keywords: Any) -> Any:
            self.here()
            done = operate(*arguments, **keywords)
            self.here()
            return done

        return counted


def conversation(ctx: Context) -> list[Any]:
    first = ctx.step("first", lambda: "step")
    return [
        first,
        ctx.ask("one", agent="a", prompt="1"),
        ctx.ask("two", agent="a", prompt="2" * 10_000),
    ]


def phases(ctx: PhasedContext, output_path: str, **_: Any) -> list[Any]:
    prompt = "Describe the project. " * 10

    def analyse(inner: PhasedContext) -> Any:
        return inner.ask(
            "codebase_analysis", agent="architectural-reviewer", prompt=prompt
        )

    def create(inner: PhasedContext) -> Any:
        return inner.ask(
            "agent_creation", agent="architectural-reviewer", prompt=prompt
        )

    analysis = ctx.phase(1, "codebase_analysis", analyse, key="codebase_analysis")
    ctx.phase(2, "manifest_generation", lambda _: {"m": 1}, key="manifest")
    return [
        "step",
        analysis,
        ctx.phase(5, "agent_recommendation", create, key="agents"),
    ]


PLAIN = Flow("conversation", "1", conversation)
PHASED = Flow("template-create", "1", phases, keeps_state_file=True)


@dataclass
class CrashRoot:
    """One root in which one crash happens."""

    root: Path
    flow: Flow

    def run(self, **flags: Any) -> RunResult:
        given = (
            {"output_path": str(self.root / "out")}
            if self.flow.keeps_state_file
            else {}
        )
        return run_flow(self.flow, RunRequest(root=self.root, given=given, **flags))

    def answer(self, text: str) -> None:
        respond(RespondRequest(self.root, Reply(text=text)))

    def fail(self) -> None:
        respond(RespondRequest(self.root, Reply(RequestStatus.TIMEOUT)))

    def finish(self) -> Any:
        """What a handler does after a crash: resume, or start if nothing is there; answer; until it is done."""
        for _ in range(10):
            try:
                result = self.run(resume=True)
            except NoCheckpoint:
                result = self.run()
            if result.pause is None:
                return result.result
            if not (self.root / ".agent-response.json").exists():
                self.answer(FREE)
        raise AssertionError("the flow does not come to its end")


def prepare_second(place: CrashRoot) -> None:
    place.run()
    place.answer(PAID)


def prepare_last(place: CrashRoot) -> None:
    prepare_second(place)
    place.run()
    place.answer(PAID)


def prepare_failure(place: CrashRoot) -> None:
    place.run()
    place.fail()


def cancel_it(place: CrashRoot) -> None:
    cancel(place.root, status(place.root).run.id)


@dataclass(frozen=True)
class Scenario:
    """What was there before, what is interrupted, and the answers that must not be lost."""

    flow: Flow
    before: Callable[[CrashRoot], object]
    interrupted: Callable[[CrashRoot], object]
    expected: tuple[str, ...]


SCENARIOS = {
    "start": Scenario(
        PLAIN, lambda place: None, lambda place: place.run(), (FREE, FREE)
    ),
    "resume": Scenario(
        PLAIN, prepare_second, lambda place: place.run(resume=True), (PAID, FREE)
    ),
    "end": Scenario(
        PLAIN, prepare_last, lambda place: place.run(resume=True), (PAID, PAID)
    ),
    "retry": Scenario(
        PLAIN, prepare_failure, lambda place: place.run(resume=True), (FREE, FREE)
    ),
    "respond": Scenario(
        PLAIN, lambda place: place.run(), lambda place: place.answer(FREE), (FREE, FREE)
    ),
    "fresh": Scenario(PLAIN, prepare_second, lambda place: place.run(fresh=True), ()),
    "cancel": Scenario(PLAIN, prepare_second, cancel_it, ()),
    "phased-start": Scenario(
        PHASED, lambda place: None, lambda place: place.run(), (FREE, FREE)
    ),
    "phased-resume": Scenario(
        PHASED, prepare_second, lambda place: place.run(resume=True), (PAID, FREE)
    ),
    "phased-end": Scenario(
        PHASED, prepare_last, lambda place: place.run(resume=True), (PAID, PAID)
    ),
}


def crash_at(point: int, place: CrashRoot, scenario: Scenario) -> bool:
    """Interrupt the scenario at that write; False when it has fewer."""
    child = os.fork()
    if child == 0:
        try:
            Crash(point).install()
            scenario.interrupted(place)
        except BridgeheadError:
            os._exit(3)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, f"the scenario itself fails: {status}"
    return False


def verdict(place: CrashRoot, scenario: Scenario) -> str:
    """`fine`, or what went wrong after the crash."""
    try:
        result = place.finish()
    except (BridgeheadError, AlreadyAnswered, AssertionError) as error:
        return f"{type(error).__name__}: {error}"
    if scenario.expected and result[1:] != list(scenario.expected):
        return f"another result: {result}"
    allowed = {".bridgehead"}
    left = {
        path.name for path in place.root.iterdir() if not path.name.endswith(".tmp")
    } - allowed
    return f"left behind: {sorted(left)}" if left else "fine"


def main(name: str, folder: Path) -> None:
    spare_the_disk()
    scenario = SCENARIOS[name]
    prepared = folder / "prepared"
    place = CrashRoot(folder / "root", scenario.flow)
    place.root.mkdir(parents=True)
    scenario.before(place)
    place.root.rename(prepared)
    verdicts: list[str] = []
    for point in range(1, MOST_CRASHES):
        # Always in the same place, because a run knows where it is.
        shutil.copytree(prepared, place.root)
        if not crash_at(point, place, scenario):
            break
        verdicts.append(verdict(place, scenario))
        shutil.rmtree(place.root)
    else:
        verdicts.append(f"more than {MOST_CRASHES} writes")
    sys.stdout.write(json.dumps(verdicts) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
