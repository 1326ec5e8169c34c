"""The static seat: analysers that run on this machine, without a model and without a key (council §23)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bridgehead.contract.ids import numbered_id
from bridgehead.contract.looks import Look, Looked, Unlooked, not_looked
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
)
from bridgehead.council.runtimes.static.programs import Secrets
from bridgehead.council.runtimes.static.weighing import Weighed, is_worth_reading, weigh
from bridgehead.council.scope.scope import Scope
from bridgehead.errors import plural
from bridgehead.host import process
from bridgehead.host.command import Cancel
from bridgehead.host.secrets_scan import without_secrets

_MOST_PLACES: Final = 40
_LONGEST_QUOTE: Final = 300
MOST_OUTPUTS: Final = 500


def is_quotable(message: Message, withheld: Mapping[str, str]) -> bool:
    """Tell if a report may repeat the line; it travels further than a file with secrets."""
    return message.quotable and message.path not in withheld


def quoted(message: Message, texts: Mapping[str, str], *, quote: bool) -> str:
    """Return `path:line` and the line in backticks (council §25.1).

    If the line itself has backticks, a longer run of them stands around it.
    """
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
    """Return the analysers that can run here, of those the settings ask for."""
    found = [_located(analyser, machine) for analyser in _wanted_analysers(setup)]
    here = tuple(analyser for analyser in found if analyser is not None)
    # Looking for secrets needs no program; by itself it is no review.
    only_secrets = all(isinstance(analyser, Secrets) for analyser in here)
    if only_secrets and not setup.text_options("tools"):
        return ()
    return here


def absent_analysers(setup: SeatSetup, machine: Machine) -> tuple[Analyser, ...]:
    """Return the analysers that cannot run here, of those the settings ask for."""
    here = {analyser.name for analyser in available_analysers(setup, machine)}
    wanted = _wanted_analysers(setup)
    return tuple(analyser for analyser in wanted if analyser.name not in here)


def _wanted_analysers(setup: SeatSetup) -> list[Analyser]:
    names = setup.text_options("tools")
    return [analyser for analyser in ANALYSERS if not names or analyser.name in names]


def _located(analyser: Analyser, machine: Machine) -> Analyser | None:
    """Return the analyser as it can be run here, or None (council §23).

    It may run in this process, as a module, beside this Python or from PATH.
    """
    if isinstance(analyser, Secrets):
        return analyser
    if analyser.module and machine.can_import(analyser.module):
        return analyser
    program = machine.beside_python(analyser.name) or machine.which(analyser.name)
    return type(analyser)(program) if program else None


@dataclass(frozen=True, slots=True)
class _Inquiry:
    """What one analyser is asked, and what it answered before."""

    analyser: Analyser
    keys: Mapping[str, bytes]
    """The files it looks at, and the key its answer about each is kept under."""
    known: Mapping[str, list[Message]]
    """Its kept answers, by path."""
    unread: Mapping[str, str]
    """The text of the files it has no kept answer about."""


@dataclass(frozen=True, slots=True)
class AnalyserAnswer:
    """What one analyser says about its files, or why it says nothing."""

    analyser: Analyser
    messages: Mapping[str, list[Message]]
    """By the path of every file it was asked about."""
    failure: UnreadableAnswer | None = None


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
    """Run the analysers over a copy of the scope, and return what they found.

    They look at secret-bearing files too, on this machine only. Answers about the same
    content are taken from the cache. Analysers in `absent` that would have had
    something to look at are named in the warnings.
    """
    texts = {**scope.texts, **scope.withheld_texts}
    readable = {
        path: text for path, text in texts.items() if is_worth_reading(path, text)
    }
    answer_cache = AnswerCache(cache)
    inquiries = _inquiries(analysers, readable, answer_cache)
    run = partial(
        process.run, timeout_seconds=timeout_seconds, idle_seconds=None, cancel=cancel
    )
    answers = _ask_all(inquiries, environment, run)
    _keep_answers(inquiries, answers, answer_cache)
    examined = _examined(answers, texts, scope)
    missed = [
        f"analyser_absent:{analyser.name}"
        for analyser in absent
        if any(map(analyser.wants, readable))
    ]
    shown = looks_at(readable, answers, absent)
    hidden = [look for look in hidden_looks(scope.left_out) if look.on not in texts]
    return replace(
        examined,
        warnings=(*examined.warnings, *missed),
        looks=(*shown, *hidden),
    )


def looks_at(
    texts: Mapping[str, str],
    answers: Sequence[AnalyserAnswer],
    absent: Sequence[Analyser],
) -> list[Look]:
    """Return the looks that were due on these files, one of nobody where none was able."""
    looks: list[Look] = []
    for path, text in texts.items():
        taken = [
            _look(answer, path)
            for answer in answers
            if _can_judge(answer.analyser, path)
        ]
        taken += [
            not_looked(analyser.name, path, Unlooked.MISSING)
            for analyser in absent
            if _can_judge(analyser, path)
        ]
        if taken and text.strip():
            looks += taken
        elif is_due(path, text) and not is_documentation(path):
            looks.append(not_looked("", path, Unlooked.NOBODY_ABLE))
    return looks


def _can_judge(analyser: Analyser, path: str) -> bool:
    return analyser.finds_defects and analyser.wants(path)


def _look(answer: AnalyserAnswer, path: str) -> Look:
    name = answer.analyser.name
    if answer.failure is not None:
        return not_looked(name, path, answer.failure.reason)
    return Look(by=name, on=path, outcome=Looked.TO_THE_END)


def _inquiries(
    analysers: Sequence[Analyser], texts: Mapping[str, str], cache: AnswerCache
) -> list[_Inquiry]:
    """Return what each analyser is to be asked, after a look into the cache."""
    keys_of = [_keys(analyser, texts) for analyser in analysers]
    wanted: dict[bytes, str] = {}
    for keys in keys_of:
        wanted.update((key, path) for path, key in keys.items())
    kept = cache.read(wanted)
    return [
        _Inquiry(
            analyser,
            keys,
            known={path: kept[key] for path, key in keys.items() if key in kept},
            unread={path: texts[path] for path, key in keys.items() if key not in kept},
        )
        for analyser, keys in zip(analysers, keys_of, strict=True)
    ]


def _keys(analyser: Analyser, texts: Mapping[str, str]) -> dict[str, bytes]:
    digest = analyser.digest()
    return {
        path: key_of(digest, path, text)
        for path, text in texts.items()
        if analyser.wants(path)
    }


def _ask_all(
    inquiries: Sequence[_Inquiry], environment: Mapping[str, str], run: RunCommand
) -> list[AnalyserAnswer]:
    """Run the analysers at the same time, over a copy of the files that are still unread."""
    with TemporaryDirectory(prefix="bridgehead-static-") as name:
        folder = Path(name).resolve()
        for inquiry in inquiries:
            if not isinstance(inquiry.analyser, Secrets):
                _write_texts(folder, inquiry.unread)
        ask = partial(_ask, folder=folder, environment=environment, run=run)
        with ThreadPoolExecutor(max_workers=len(inquiries) or 1) as pool:
            return list(pool.map(ask, inquiries))


def _ask(
    inquiry: _Inquiry, folder: Path, environment: Mapping[str, str], run: RunCommand
) -> AnalyserAnswer:
    """Return what an analyser says about every file it was asked about, now or before."""
    analyser = inquiry.analyser
    messages = {path: list(inquiry.known.get(path, ())) for path in inquiry.keys}
    if not inquiry.unread:
        return AnalyserAnswer(analyser, messages)
    try:
        printed = analyser.answer(inquiry.unread, folder, environment, run)
    except UnreadableAnswer as error:
        return AnalyserAnswer(analyser, {}, failure=error)
    for message in printed:
        placed = _placed(message, folder)
        if placed.path in messages:
            messages[placed.path].append(placed)
    return AnalyserAnswer(analyser, messages)


def _keep_answers(
    inquiries: Sequence[_Inquiry],
    answers: Sequence[AnalyserAnswer],
    cache: AnswerCache,
) -> None:
    new: dict[bytes, list[Message]] = {}
    used: list[bytes] = []
    for inquiry, answer in zip(inquiries, answers, strict=True):
        used.extend(inquiry.keys[path] for path in inquiry.known)
        if answer.failure is None:
            for path in inquiry.unread:
                new[inquiry.keys[path]] = answer.messages[path]
    cache.write(new, used)


def _placed(message: Message, folder: Path) -> Message:
    """Return the message with its file named as the tree names it."""
    path = Path(message.path)
    named = path.relative_to(folder) if path.is_relative_to(folder) else path
    return replace(message, path=named.as_posix())


def _examined(
    answers: Sequence[AnalyserAnswer], texts: Mapping[str, str], scope: Scope
) -> Examined:
    failed = [answer for answer in answers if answer.failure is not None]
    answered = [answer for answer in answers if answer.failure is None]
    if not answered:
        reasons = "; ".join(str(answer.failure) for answer in failed)
        failure = f"cli_error: {reasons or 'no analyser is installed'}"
        return Examined((), (), (), failure=failure)
    by_tool: list[tuple[str, Message]] = []
    domains: set[str] = set()
    for answer in answered:
        domains.update(answer.analyser.domains)
        for messages in answer.messages.values():
            by_tool.extend((answer.analyser.name, message) for message in messages)
    found = weigh(by_tool, texts, _MOST_PLACES, trusts_marks=scope.diff is None)
    warnings = [f"analyser_failed:{answer.analyser.name}" for answer in failed]
    if len(found) > MOST_OUTPUTS:
        warnings.append(f"static_truncated:{len(found) - MOST_OUTPUTS}")
    return Examined(
        outputs=tuple(_outputs(found[:MOST_OUTPUTS], texts, scope.withheld_texts)),
        analysers=tuple(answer.analyser.name for answer in answered),
        domains=tuple(sorted(domains)),
        warnings=tuple(warnings),
    )


def _outputs(
    found: Sequence[Weighed], texts: Mapping[str, str], withheld: Mapping[str, str]
) -> list[Output]:
    outputs = []
    for number, weighed in enumerate(found, start=1):
        problem = _without_secrets(weighed, withheld)
        evidence = [
            quoted(message, texts, quote=is_quotable(message, withheld))
            for message in problem.messages
        ]
        output = Output(
            id=numbered_id("S", number),
            type=OutputType.FINDING,
            severity=problem.first.severity,
            status=None,
            title=titled(problem),
            description=described(problem),
            evidence=", ".join(evidence),
            action=problem.first.action,
            domain=problem.first.domain,
            agent=problem.tool,
            origin_round=1,
        )
        outputs.append(output)
    return outputs


def _without_secrets(found: Weighed, withheld: Mapping[str, str]) -> Weighed:
    """Return the finding without the secret for which its file is withheld."""
    if found.first.path not in withheld:
        return found
    first = replace(found.first, text=without_secrets(found.first.text)[0])
    return replace(found, messages=(first, *found.messages[1:]))


def titled(found: Weighed) -> str:
    """Return what was found, how often, and at what kind of place if that matters."""
    title = found.first.text.splitlines()[0]
    if found.count == 1:
        return f"{title} ({found.place})" if found.place else title
    where = ""
    if found.place:
        where = f" in {found.place}"
    elif found.files > 1:
        where = f" of {found.files} files"
    return f"{title} ({found.count} places{where})"


def described(found: Weighed) -> str:
    """Return who says it, by which rule, about which weakness."""
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
