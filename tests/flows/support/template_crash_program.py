"""Kills template-create with SIGKILL in every phase, resumes it, and compares the package with one made undisturbed.

Run as a program of its own, because it forks: `python template_crash_program.py FOLDER` prints one JSON line.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from bridgehead.errors import BridgeheadError
from bridgehead.flows import RunInputs, RunRequest, RunResult, run_flow
from bridgehead.flows.calls import Reply
from bridgehead.flows.engine.context import PhasedContext
from bridgehead.flows.errors import NoCheckpoint
from bridgehead.flows.operations.respond import RespondRequest, respond
from bridgehead.flows.template_create import template_create
from bridgehead.host.clock import ManualClock
from flows.support.crash_program import Crash

NOW = datetime(2026, 11, 15, 10, 15, 2, tzinfo=UTC)
PHASES = 9
CRASHES_PER_PHASE = 4
SOURCE = (
    "class OrderRepository:\n    def find_order(self) -> None:\n        return None\n"
)
AGENT = {
    "name": "orders-specialist",
    "priority": 8,
    "rationale": "orders",
    "key_patterns": ["Repository"],
    "capabilities": ["stores orders"],
    "content_outline": {"purpose": "Works on orders."},
}
ANSWERS = {
    1: {"technology_stack": {"primary_language": "Python"}, "overall_confidence": 0.9},
    5: {"use_existing": [], "create_new": [AGENT], "confidence": 0.9},
    7: {
        "enhanced_agents": [
            {
                "name": "orders-specialist",
                "enhanced_content": "---\nname: orders-specialist\ndescription: d\n---\n"
                + "It works on orders.\n" * 60,
            }
        ],
        "confidence": 0.9,
    },
}


class TemplateProject(NamedTuple):
    """One project, and the place its package is for."""

    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / "orderbook"

    @property
    def output(self) -> Path:
        return self.folder / "made" / "package"

    def set_up(self) -> None:
        source = (
            self.root / "src" / "orderbook" / "repositories" / "order_repository.py"
        )
        source.parent.mkdir(parents=True)
        source.write_text(SOURCE * 4)
        self.output.mkdir(
            parents=True
        )  # there already, so that --force has something to replace
        (self.output / "old.txt").write_text("the package of before")

    def run(self, **flags: Any) -> RunResult:
        given = {
            "output_path": str(self.output),
            "validate": True,
            "force": True,
            **flags.pop("given", {}),
        }
        request = RunRequest(
            root=self.root, source="template-create", given=given, **flags
        )
        return run_flow(template_create, request, RunInputs(clock=ManualClock(NOW)))

    def answer(self) -> None:
        phase = json.loads((self.root / ".agent-request.json").read_bytes())["phase"]
        respond(RespondRequest(self.root, Reply(text=json.dumps(ANSWERS[phase]))))

    def to_the_end(self) -> None:
        """What a handler does, however it finds the project: resume or start, answer, until it is done."""
        for _ in range(10):
            try:
                result = self.run(resume=True)
            except NoCheckpoint:
                result = self.run()
            if result.pause is None:
                return
            if not (self.root / ".agent-response.json").exists():
                self.answer()
        raise AssertionError("it does not come to its end")

    def package(self) -> dict[str, str]:
        files = sorted(path for path in self.output.rglob("*") if path.is_file())
        return {str(path.relative_to(self.output)): path.read_text() for path in files}

    def leftovers(self) -> list[str]:
        beside = [
            path.name for path in self.output.parent.iterdir() if path != self.output
        ]
        inside = [
            path.name
            for path in self.root.iterdir()
            if path.name not in ("src", ".bridgehead")
        ]
        return sorted((*beside, *inside))


class Write(NamedTuple):
    """One write of an undisturbed command: which it is, and the phase it belongs to."""

    number: int
    phase: int


class Watched(Crash):
    """A crash that knows which phase it comes in; at point 0 it never comes and only counts."""

    def __init__(self, point: int) -> None:
        super().__init__(point or sys.maxsize)
        self.phase = 1
        self.writes: list[Write] = []
        self._follow_phases()

    def here(self) -> None:
        self.writes.append(Write(len(self.writes) + 1, self.phase))
        super().here()

    def _follow_phases(self) -> None:
        watched, real = self, PhasedContext.phase

        def phase(ctx: PhasedContext, number: int, *rest: Any, **more: Any) -> Any:
            watched.phase = number
            return real(ctx, number, *rest, **more)

        PhasedContext.phase = phase  # type: ignore[method-assign]


def writes_of(project: TemplateProject) -> list[Write]:
    """The writes of the project's next command, counted in a child that is not killed."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        watched = Watched(0)
        write = os.write
        watched.install()
        project.run()
        found = json.dumps(watched.writes).encode()
        for start in range(0, len(found), 4096):
            write(write_end, found[start : start + 4096])
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as told:
        writes = [Write(*entry) for entry in json.load(told)]
    os.waitpid(child, 0)
    return writes


def killed_at(project: TemplateProject, point: int) -> bool:
    child = os.fork()
    if child == 0:
        try:
            Watched(point).install()
            project.run()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def chosen(writes: list[Write]) -> Iterator[Write]:
    """Of each phase some writes evenly over it, its first and its last among them."""
    for phase in range(1, PHASES + 1):
        inside = [write for write in writes if write.phase == phase]
        picked = {
            round(step * (len(inside) - 1) / (CRASHES_PER_PHASE - 1))
            for step in range(CRASHES_PER_PHASE)
        }
        yield from (inside[place] for place in sorted(picked) if inside)


def verdict(project: TemplateProject, point: int, expected: dict[str, str]) -> str:
    if not killed_at(project, point):
        return "it was not killed"
    try:
        project.to_the_end()
    except (BridgeheadError, AssertionError) as error:
        return f"{type(error).__name__}: {error}"
    if project.package() != expected:
        return f"another package: {sorted(project.package())}"
    left = project.leftovers()
    return f"left behind: {left}" if left else "fine"


def undisturbed(folder: Path) -> dict[str, str]:
    project = TemplateProject(folder)
    project.set_up()
    project.to_the_end()
    return project.package()


def main(folder: Path) -> None:
    expected = undisturbed(folder / "undisturbed")
    verdicts: dict[int, list[str]] = {}
    stage, place = folder / "stage", folder / "here"
    TemplateProject(stage).set_up()
    for _ in range(4):  # the commands: to phase 1, to 5, to 7, and to the end
        # The state file names its root, so every attempt is made at the same place.
        _copied(stage, place)
        writes = writes_of(TemplateProject(place))
        for write in chosen(writes):
            _copied(stage, place)
            verdicts.setdefault(write.phase, []).append(
                verdict(TemplateProject(place), write.number, expected)
            )
        _copied(stage, place)
        if TemplateProject(place).run().pause is not None:
            TemplateProject(place).answer()
        _copied(place, stage)
    sys.stdout.write(
        json.dumps({"files": sorted(expected), "verdicts": verdicts}) + "\n"
    )


def _copied(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
