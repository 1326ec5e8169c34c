"""The static seat: analysers that run on this machine, without a model and without a key (council §23)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bridgehead.contract.ids import numbered_id
from bridgehead.contract.looks import Look, Looked, Unlooked
from bridgehead.contract.report import Output
from bridgehead.contract.words import OutputType
from bridgehead.council.findings.tree import FileText
from bridgehead.council.runtimes.base import NO_CONNECTION, Runtime, SeatSetup, runtime
from bridgehead.council.runtimes.machine import Machine
from bridgehead.council.runtimes.static import ANALYSERS
from bridgehead.council.runtimes.static.answer_cache import AnswerCache, key_of
from bridgehead.council.runtimes.static.base import (
    Analyser,
    Message,
    RunCommand,
    UnreadableAnswer,
)
from bridgehead.council.runtimes.static.due import (
    hidden_looks,
    is_documentation,
    is_due,
    not_looked,
)
from bridgehead.council.runtimes.static.programs import Secrets
from bridgehead.council.runtimes.static.weighing import Weighed, is_worth_reading, weigh
from bridgehead.council.scope.scope import Scope
from bridgehead.errors import plural
from bridgehead.host import process
from bridgehead.host.command import Cancel, Command, CommandResult
from bridgehead.host.secrets_scan import without_secrets

_MOST_PLACES: Final = 40
_LONGEST_QUOTE: Final = 300
MOST_OUTPUTS: Final = 500


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
    looks: tuple[Look, ...] = ()
    """Of every file that is due: who should have looked at it, and how far it came."""


def available_analysers(setup: SeatSetup, machine: Machine) -> tuple[Analyser, ...]:
    """Those that can run here, of those the settings ask for."""
    wanted = setup.text_options("tools")
    asked = [
        analyser for analyser in ANALYSERS if not wanted or analyser.name in wanted
    ]
    here = tuple(
        found for analyser in asked if (found := _found(analyser, machine)) is not None
    )
    # Looking for secrets needs no program; by itself it is no review.
    return here if wanted or any(not isinstance(one, Secrets) for one in here) else ()


def absent_analysers(setup: SeatSetup, machine: Machine) -> tuple[Analyser, ...]:
    """Those that cannot, of those the settings ask for."""
    here = {analyser.name for analyser in available_analysers(setup, machine)}
    wanted = setup.text_options("tools")
    return tuple(
        one
        for one in ANALYSERS
        if one.name not in here and (not wanted or one.name in wanted)
    )


def _found(analyser: Analyser, machine: Machine) -> Analyser | None:
    """The analyser as it can be run here: in this process, importable, beside this Python, or on PATH (council §23)."""
    if isinstance(analyser, Secrets) or (
        analyser.module and machine.can_import(analyser.module)
    ):
        return analyser
    program = machine.beside_python(analyser.name) or machine.which(analyser.name)
    return type(analyser)(program) if program else None


def examine(
    scope: Scope,
    analysers: Sequence[Analyser],
    environment: Mapping[str, str],
    *,
    timeout_seconds: float,
    cancel: Cancel | None = None,
    cache: Path | None = None,
    absent: Sequence[Analyser] = (),
) -> Examined:
    """Run the analysers over the scope in a copy of their own; secret-bearing files are looked at too, here only.

    What they said before about the same content is not asked again. Those `absent` that would have had something to
    look at are named in the warnings.
    """
    texts = {**scope.texts, **scope.withheld_texts}
    readable = {
        path: text for path, text in texts.items() if is_worth_reading(path, text)
    }

    def run(command: Command) -> CommandResult:
        return process.run(
            command, timeout_seconds=timeout_seconds, idle_seconds=None, cancel=cancel
        )

    answers = AnswerCache(cache)
    asked = [_asked(one, readable) for one in analysers]
    known = answers.read({key: path for keys in asked for path, key in keys.items()})
    missing = [
        {path: readable[path] for path, key in keys.items() if key not in known}
        for keys in asked
    ]
    with TemporaryDirectory(prefix="bridgehead-static-") as name:
        folder = Path(name).resolve()
        for one, unread in zip(analysers, missing, strict=True):
            if not isinstance(one, Secrets):
                _write_texts(folder, unread)
        with ThreadPoolExecutor(max_workers=len(analysers) or 1) as pool:
            replies = list(
                pool.map(
                    lambda one, unread: _answer_of(
                        one, unread, folder, environment, run
                    ),
                    analysers,
                    missing,
                )
            )
    said = [
        _by_path(reply, keys, known) for reply, keys in zip(replies, asked, strict=True)
    ]
    new = {
        keys[path]: messages
        for found, keys, unread in zip(said, asked, missing, strict=True)
        if not isinstance(found, UnreadableAnswer)
        for path, messages in found.items()
        if path in unread
    }
    answers.write(new, known)
    examined = _examined(analysers, said, texts, scope)
    missed = [
        f"analyser_absent:{one.name}" for one in absent if any(map(one.wants, readable))
    ]
    attempts = [
        Attempt(one, frozenset(keys), reply)
        for one, keys, reply in zip(analysers, asked, replies, strict=True)
        if isinstance(reply, UnreadableAnswer)
    ]
    return replace(
        examined,
        warnings=(*examined.warnings, *missed),
        looks=(
            *looks_at(readable, analysers, attempts, absent),
            *(look for look in hidden_looks(scope.left_out) if look.on not in texts),
        ),
    )


@dataclass(frozen=True, slots=True)
class Attempt:
    """An analyser that gave no answer about some files."""

    analyser: Analyser
    paths: frozenset[str]
    failure: UnreadableAnswer


def looks_at(
    texts: Mapping[str, str],
    analysers: Sequence[Analyser],
    failed: Sequence[Attempt],
    absent: Sequence[Analyser],
) -> tuple[Look, ...]:
    """Return the looks that were due on these files, one of nobody where none was able."""
    looks: list[Look] = []
    for path, text in texts.items():
        taken = [
            _look(one, path, failed)
            for one in analysers
            if one.finds_defects and one.wants(path)
        ]
        taken += [
            not_looked(one.name, path, Unlooked.MISSING)
            for one in absent
            if one.finds_defects and one.wants(path)
        ]
        if taken and text.strip():
            looks += taken
        elif is_due(path, text) and not is_documentation(path):
            looks.append(not_looked("", path, Unlooked.NOBODY_ABLE))
    return tuple(looks)


def _look(analyser: Analyser, path: str, failed: Sequence[Attempt]) -> Look:
    for attempt in failed:
        if attempt.analyser is analyser and path in attempt.paths:
            return not_looked(analyser.name, path, attempt.failure.reason)
    return Look(by=analyser.name, on=path, outcome=Looked.TO_THE_END)


def _asked(analyser: Analyser, texts: Mapping[str, str]) -> dict[str, bytes]:
    """The files an analyser looks at, and the name its answer is kept under."""
    digest = analyser.digest()
    return {
        path: key_of(digest, path, text)
        for path, text in texts.items()
        if analyser.wants(path)
    }


def _answer_of(
    analyser: Analyser,
    texts: Mapping[str, str],
    folder: Path,
    environment: Mapping[str, str],
    run: RunCommand,
) -> list[Message] | UnreadableAnswer:
    if not texts:
        return []
    try:
        return [
            _placed(message, folder)
            for message in analyser.answer(texts, folder, environment, run)
        ]
    except UnreadableAnswer as error:
        return error


def _by_path(
    reply: list[Message] | UnreadableAnswer,
    keys: Mapping[str, bytes],
    known: Mapping[bytes, list[Message]],
) -> dict[str, list[Message]] | UnreadableAnswer:
    """Of every file that was asked about what was said now or before."""
    if isinstance(reply, UnreadableAnswer):
        return reply
    said = {path: list(known.get(key, ())) for path, key in keys.items()}
    for message in reply:
        if message.path in said:
            said[message.path].append(message)
    return said


def _placed(message: Message, folder: Path) -> Message:
    """The message with its file named as the tree names it."""
    path = Path(message.path)
    named = path.relative_to(folder) if path.is_relative_to(folder) else path
    return replace(message, path=named.as_posix())


def _examined(
    analysers: Sequence[Analyser],
    replies: Sequence[dict[str, list[Message]] | UnreadableAnswer],
    texts: Mapping[str, str],
    scope: Scope,
) -> Examined:
    pairs = list(zip(analysers, replies, strict=True))
    answered = [
        (one, said) for one, said in pairs if not isinstance(said, UnreadableAnswer)
    ]
    failures = [
        f"analyser_failed:{one.name}"
        for one, said in pairs
        if isinstance(said, UnreadableAnswer)
    ]
    if not answered:
        says = "; ".join(
            str(said) for said in replies if isinstance(said, UnreadableAnswer)
        )
        return Examined(
            (), (), (), failure=f"cli_error: {says or 'no analyser is installed'}"
        )
    by_tool = [
        (one.name, message)
        for one, said in answered
        for found in said.values()
        for message in found
    ]
    found = weigh(by_tool, texts, _MOST_PLACES, trusts_marks=scope.diff is None)
    if len(found) > MOST_OUTPUTS:
        failures.append(f"static_truncated:{len(found) - MOST_OUTPUTS}")
    domains = tuple(sorted({domain for one, _ in answered for domain in one.domains}))
    names = tuple(one.name for one, _ in answered)
    return Examined(
        tuple(_outputs(found[:MOST_OUTPUTS], texts, scope.withheld_texts)),
        names,
        domains,
        tuple(failures),
    )


def _outputs(
    found: Sequence[Weighed], texts: Mapping[str, str], withheld: Mapping[str, str]
) -> list[Output]:
    return [
        Output(
            id=numbered_id("S", number),
            type=OutputType.FINDING,
            severity=one.first.severity,
            status=None,
            title=titled(one),
            description=described(one),
            evidence=", ".join(
                quoted(said, texts, quote=is_quotable(said, withheld))
                for said in one.messages
            ),
            action=one.first.action,
            domain=one.first.domain,
            agent=one.tool,
            origin_round=1,
        )
        for number, one in enumerate(
            (_without_secrets(one, withheld) for one in found), start=1
        )
    ]


def _without_secrets(found: Weighed, withheld: Mapping[str, str]) -> Weighed:
    """What an analyser says about a file that is kept back must not repeat what it is kept back for."""
    if found.first.path not in withheld:
        return found
    first = replace(found.first, text=without_secrets(found.first.text)[0])
    return replace(found, messages=(first, *found.messages[1:]))


def titled(found: Weighed) -> str:
    """What was found, how often, and at what kind of place where that matters."""
    title = found.first.text.splitlines()[0]
    where = f" in {found.place}" if found.place else ""
    if found.count == 1:
        return f"{title} ({found.place})" if found.place else title
    spread = f" of {found.files} files" if found.files > 1 else ""
    return f"{title} ({found.count} places{where or spread})"


def described(found: Weighed) -> str:
    """Who says it, by which rule, about which weakness."""
    first = found.first
    rule = f"{first.rule}, CWE-{first.cwe}" if first.cwe else first.rule
    more = found.count - len(found.messages)
    rest = f" {plural(more, 'more place')} not listed." if more else ""
    return f"{found.tool} ({rule}): {first.text}{rest}"


def _write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    for path, text in texts.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        target.write_bytes(text.encode("utf-8", "replace"))
