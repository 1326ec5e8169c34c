"""A council's files: the report in its forms, its context, the patch of an implementation (council §18)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bridgehead.assembly.council_kept import KeptCouncil
from bridgehead.assembly.council_opening import Opened
from bridgehead.contract.report import BridgeReport
from bridgehead.council.artifacts import COUNCIL, DEBATE, FOLDER, OutputFolder
from bridgehead.council.render.html import render_html
from bridgehead.council.render.markdown import render_markdown
from bridgehead.council.report import AbortedReport, CouncilReport
from bridgehead.council.routing import DEBATE_PROTOCOL
from bridgehead.council.worktree import Implementation
from bridgehead.host.clock import Clock
from bridgehead.host.files import make_dir, write_atomic


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """Where a report is, from the project's root."""

    markdown: str
    json: str
    html: str
    patch: str | None = None
    branch: str | None = None

    @classmethod
    def of(cls, files: Mapping[str, Any]) -> Written:
        return msgspec.convert(files, cls)

    @property
    def files(self) -> dict[str, str]:
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not None}


def write_report(
    project: Path,
    outputs: OutputFolder,
    report: CouncilReport | AbortedReport,
    seats: Sequence[BridgeReport],
    kept: KeptCouncil,
    made: Implementation | None,
) -> Written:
    """Write the report in all its forms; an implementation's patch lies beside them."""
    written = outputs.write_council(
        markdown=render_markdown(report, context_summary=kept.task.context_summary),
        document=msgspec.to_builtins(report),
        html=render_html(report, seats),
        kind=DEBATE if kept.route == DEBATE_PROTOCOL else COUNCIL,
    )
    patch = None
    if made is not None and made.files:
        patch = written.json.removesuffix(".json") + ".patch"
        write_atomic(project / patch, made.patch, root=project)
    return Written(
        markdown=written.markdown,
        json=written.json,
        html=written.html,
        patch=patch,
        branch=made.branch if made else None,
    )


def write_context(project: Path, opened: Opened, clock: Clock) -> None:
    """What was understood of the request, for people and for programs (council §16)."""
    folder = project / FOLDER / "context"
    make_dir(folder, root=project)
    ignore = project / FOLDER / ".gitignore"
    if not ignore.exists():
        write_atomic(ignore, "*\n", root=project)
    document = _context(opened)
    stem = _free_stem(folder, f"{clock.now():%Y%m%d-%H%M%S}-context")
    text = json.dumps(document, indent=2, ensure_ascii=False)
    clarified = document.pop("scope_clarification")
    lines = [f"- {name}: {_told(value)}" for name, value in (document | clarified).items()]
    write_atomic(folder / f"{stem}.json", text + "\n", root=project)
    write_atomic(folder / f"{stem}.md", "\n".join(["# Context", "", *lines]) + "\n", root=project)


def _free_stem(folder: Path, name: str) -> str:
    """A name no earlier council has used; seconds collide (K36)."""
    stems = (name, *(f"{name}-{number}" for number in range(2, 10_000)))
    return next(stem for stem in stems if not (folder / f"{stem}.json").exists())


def _context(opened: Opened) -> dict[str, Any]:
    task, settled = opened.kept.task, opened.settled
    return {
        "review_id": task.session_id,
        "request": task.task_description,
        "scope": list(opened.scope.described),
        "files": opened.scope.files,
        "lines": opened.scope.loc,
        "left_out": [
            f"{entry.path} ({entry.reason})" for entry in opened.scope.left_out if entry.reason != "ignored"
        ],
        "task_type": task.task_type.value,
        "domains": list(task.domains),
        "intensity": task.intensity.value,
        "route": opened.kept.route,
        "scope_clarification": {
            "artifact": settled.artifact,
            "intent": settled.intent,
            "domains": list(settled.domains),
            "constraints": list(settled.constraints),
            "confidence": settled.confidence.value,
            "questions_asked": settled.questions_asked,
            "assumptions": list(settled.assumptions),
        },
    }


def _told(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)
