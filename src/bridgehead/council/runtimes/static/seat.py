"""The static seat: analysers that run on this machine, without a model and without a key (council §23)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bridgehead.contract.ids import numbered_id
from bridgehead.contract.report import Output
from bridgehead.contract.words import OutputType, Severity
from bridgehead.council.findings.tree import FileText
from bridgehead.council.runtimes.base import NO_CONNECTION, Runtime, SeatSetup, runtime
from bridgehead.council.runtimes.machine import Machine
from bridgehead.council.runtimes.static import ANALYSERS
from bridgehead.council.runtimes.static.base import Analyser, Message, UnreadableAnswer
from bridgehead.council.scope.scope import Scope
from bridgehead.host import process
from bridgehead.host.command import Cancel, Command, CommandResult
from bridgehead.host.secrets_scan import without_secrets

# Small remarks of one kind in one file are one finding; nobody reads forty unused imports one by one.
_JOINED_BELOW: Final = Severity.MEDIUM
_MOST_PLACES: Final = 10
_LONGEST_QUOTE: Final = 300
MOST_OUTPUTS: Final = 500


def grouped(messages: Sequence[tuple[str, Message]]) -> list[tuple[str, list[Message]]]:
    """(tool, messages) of each finding: the worst first, then by place."""
    groups: dict[tuple[str, ...], tuple[str, list[Message]]] = {}
    for tool, message in sorted(set(messages), key=_order):
        key: tuple[str, ...] = (tool, message.rule, message.path)
        if message.severity.rank >= _JOINED_BELOW.rank:
            key = (*key, str(message.line), message.text)
        groups.setdefault(key, (tool, []))[1].append(message)
    return [(tool, group[:_MOST_PLACES]) for tool, group in groups.values()]


def is_quotable(message: Message, withheld: Mapping[str, str]) -> bool:
    """Lines of files that bear a secret are named, not repeated: reports travel further than files."""
    return message.quotable and message.path not in withheld


def quoted(message: Message, texts: Mapping[str, str], *, quote: bool) -> str:
    """`path:line` and the line in backticks, in a longer run of them where the line has some (council §25.1)."""
    place = f"{message.path}:{message.line}"
    lines = FileText(texts[message.path]).lines
    if not quote or not 1 <= message.line <= len(lines):
        return place
    line = lines[message.line - 1].strip()[:_LONGEST_QUOTE]
    if not line:
        return place
    longest = max((len(run) for run in re.findall(r"`+", line)), default=0)
    fence = "`" * (longest + 1)
    padding = " " if longest else ""
    return f"{place} {fence}{padding}{line}{padding}{fence}"


def _order(entry: tuple[str, Message]) -> tuple[int, str, int, str, str]:
    tool, message = entry
    return -message.severity.rank, message.path, message.line, tool, message.rule


RunCommand = Callable[[Command], CommandResult]


@runtime("static")
class StaticAnalysisRuntime(Runtime):
    model_family = "static-analysis"
    id_prefix = "S"
    missing = NO_CONNECTION
    missing_halt = NO_CONNECTION
    install_hint = "pip install 'bridgehead[static]'"


@dataclass(frozen=True, slots=True)
class Examined:
    """What the analysers found, and who they were."""

    outputs: tuple[Output, ...]
    analysers: tuple[str, ...]
    domains: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    failure: str | None = None
    """Set when no analyser gave an answer."""


def available_analysers(setup: SeatSetup, machine: Machine) -> tuple[Analyser, ...]:
    """Those that can run here, of those the settings ask for."""
    wanted = setup.text_options("tools")
    asked = [analyser for analyser in ANALYSERS if not wanted or analyser.name in wanted]
    return tuple(found for analyser in asked if (found := _found(analyser, machine)) is not None)


def _found(analyser: Analyser, machine: Machine) -> Analyser | None:
    """The analyser as it can be run here: importable, or else on PATH (council §23)."""
    if machine.can_import(analyser.module):
        return analyser
    program = machine.which(analyser.name)
    return type(analyser)(program) if program else None


def examine(
    scope: Scope,
    analysers: Sequence[Analyser],
    environment: Mapping[str, str],
    *,
    timeout_seconds: float,
    cancel: Cancel | None = None,
) -> Examined:
    """Run the analysers over the scope in a copy of their own; secret-bearing files are looked at too, here only."""
    texts = {**scope.texts, **scope.withheld_texts}

    def run(command: Command) -> CommandResult:
        return process.run(command, timeout_seconds=timeout_seconds, idle_seconds=None, cancel=cancel)

    with TemporaryDirectory(prefix="bridgehead-static-") as name:
        folder = Path(name).resolve()
        _write_texts(folder, texts)
        with ThreadPoolExecutor(max_workers=len(analysers) or 1) as pool:
            replies = list(
                pool.map(lambda one: _answer_of(one, sorted(texts), folder, environment, run), analysers)
            )
    return _examined(analysers, replies, texts, withheld=scope.withheld_texts)


def _answer_of(
    analyser: Analyser, paths: Sequence[str], folder: Path, environment: Mapping[str, str], run: RunCommand
) -> list[Message] | UnreadableAnswer:
    messages: list[Message] = []
    for command in analyser.commands(paths, folder, environment):
        try:
            found = analyser.read_result(run(command))
        except UnreadableAnswer as error:
            return error
        messages += [_placed(message, folder) for message in found]
    return messages


def _placed(message: Message, folder: Path) -> Message:
    """The message with its file named as the tree names it."""
    path = Path(message.path)
    named = path.relative_to(folder) if path.is_relative_to(folder) else path
    return replace(message, path=named.as_posix())


def _examined(
    analysers: Sequence[Analyser],
    replies: Sequence[list[Message] | UnreadableAnswer],
    texts: Mapping[str, str],
    withheld: Mapping[str, str],
) -> Examined:
    answered = [one for one, said in zip(analysers, replies, strict=True) if isinstance(said, list)]
    failures = [
        f"analyser_failed:{one.name}"
        for one, said in zip(analysers, replies, strict=True)
        if not isinstance(said, list)
    ]
    if not answered:
        says = "; ".join(str(said) for said in replies if not isinstance(said, list))
        return Examined((), (), (), failure=f"cli_error: {says or 'no analyser is installed'}")
    by_tool = [
        (one.name, message)
        for one, said in zip(analysers, replies, strict=True)
        if isinstance(said, list)
        for message in said
        if message.path in texts
    ]
    outputs = _outputs(by_tool, texts, withheld)
    if len(outputs) > MOST_OUTPUTS:
        failures.append(f"static_truncated:{len(outputs) - MOST_OUTPUTS}")
    domains = tuple(sorted({domain for one in answered for domain in one.domains}))
    return Examined(
        tuple(outputs[:MOST_OUTPUTS]), tuple(one.name for one in answered), domains, tuple(failures)
    )


def _outputs(
    messages: Sequence[tuple[str, Message]], texts: Mapping[str, str], withheld: Mapping[str, str]
) -> list[Output]:
    outputs = []
    for number, (tool, group) in enumerate(grouped(messages), start=1):
        first = group[0]
        quotable = is_quotable(first, withheld)
        text = first.text if first.path not in withheld else without_secrets(first.text)[0]
        outputs.append(
            Output(
                id=numbered_id("S", number),
                type=OutputType.FINDING,
                severity=first.severity,
                status=None,
                title=text.splitlines()[0],
                description=f"{tool} ({first.rule}): {text}",
                evidence=", ".join(quoted(message, texts, quote=quotable) for message in group),
                action=first.action,
                domain=first.domain,
                agent=tool,
                origin_round=1,
            )
        )
    return outputs


def _write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    for path, text in texts.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        target.write_bytes(text.encode("utf-8", "replace"))
