"""The static seat: analysers that run on this machine, without a model and without a key (council §23)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
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
    NotAble,
    RunCommand,
    UnreadableAnswer,
)
from bridgehead.council.runtimes.static.canaries import (
    Canary,
    canaries_for,
    is_canary,
)
from bridgehead.council.runtimes.static.copies import (
    Copy,
    Obeyed,
    copies_of,
    with_variants,
)
from bridgehead.council.runtimes.static.due import (
    hidden_looks,
    is_documentation,
    is_due,
)
from bridgehead.council.runtimes.static.places import is_worth_reading
from bridgehead.council.runtimes.static.silenced import hear, told
from bridgehead.council.runtimes.static.suppression import directive_lines
from bridgehead.council.runtimes.static.weighing import Weighed, weigh
from bridgehead.council.scope.scope import Scope, touched_lines
from bridgehead.errors import plural
from bridgehead.host import process
from bridgehead.host.command import Cancel, Command, CommandResult
from bridgehead.host.secrets_scan import without_secrets

_MOST_PLACES: Final = 40
_LONGEST_QUOTE: Final = 300
MOST_OUTPUTS: Final = 500
_SHORTEST_SECONDS: Final = 0.1


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
    only_our_own = all(analyser.in_process for analyser in here)
    if only_our_own and not setup.text_options("tools"):
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
    if analyser.in_process:
        return analyser
    if analyser.module and machine.can_import(analyser.module):
        return analyser
    program = machine.beside_python(analyser.name) or machine.which(analyser.name)
    return type(analyser)(program) if program else None


@dataclass(frozen=True, slots=True)
class _Inquiry:
    """What one analyser is asked, and what it answered before."""

    analyser: Analyser
    keys: Mapping[str, bytes | None]
    """The copies it looks at, and the key its answer about each is kept under."""
    known: Mapping[str, list[Message]]
    """Its kept answers, by the name of the copy."""
    unread: Mapping[str, str]
    """The text of the copies it has no kept answer about."""
    canaries: Sequence[Canary] = ()
    """What it has to find before it is believed; they are among the copies."""


@dataclass(frozen=True, slots=True)
class AnalyserAnswer:
    """What one analyser says about its copies, and about which it says nothing."""

    analyser: Analyser
    messages: Mapping[str, list[Message]]
    """By the name of every copy it was asked about and has answered for."""
    missed: Mapping[str, UnreadableAnswer] = field(default_factory=dict)
    """By the name of the copy."""

    @property
    def failures(self) -> list[UnreadableAnswer]:
        """Return why it did not do its work; a file that it cannot parse is no such reason."""
        return [
            why for why in self.missed.values() if why.reason is not Unlooked.UNREADABLE
        ]

    @property
    def has_answered(self) -> bool:
        about_files = [name for name in self.messages if not is_canary(name)]
        return bool(about_files) or not self.failures


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
    is_change = scope.diff is not None
    readable = {
        path: text
        for path, text in texts.items()
        if is_change or path in scope.described or is_worth_reading(path, text)
    }
    borrowed = [
        path
        for path, text in texts.items()
        if path not in readable and is_due(path, text)
    ]
    touched = _touched_lines(scope)
    copies: list[Copy] = []
    for path, text in readable.items():
        for copy in copies_of(path, text):
            copies += with_variants(copy, touched.get(path, ()))
    answer_cache = AnswerCache(cache)
    inquiries = _inquiries(analysers, copies, answer_cache)
    ends_at = monotonic() + timeout_seconds

    def run(command: Command) -> CommandResult:
        """Run a command in what is left of the time for all of them."""
        left = max(ends_at - monotonic(), _SHORTEST_SECONDS)
        return process.run(
            command, timeout_seconds=left, idle_seconds=None, cancel=cancel
        )

    answers = _ask_all(inquiries, environment, run)
    _keep_answers(inquiries, answers, answer_cache)
    examined = _examined(answers, copies, texts, scope, touched)
    missed = [
        f"analyser_absent:{analyser.name}"
        for analyser in absent
        if any(_looks_at(analyser, copy) for copy in copies)
    ]
    if borrowed:
        missed.append(f"borrowed_code:{plural(len(borrowed), 'file')}")
    shown = looks_at(copies, readable, answers, absent, in_change=is_change)
    unshown = hidden_looks(scope.left_out, in_change=is_change)
    hidden = [look for look in unshown if look.on not in texts]
    return replace(
        examined,
        warnings=(*examined.warnings, *missed),
        looks=(*shown, *hidden),
    )


def _touched_lines(scope: Scope) -> dict[str, frozenset[int]]:
    """Return the lines that a change brings, by file; none in a review of a tree.

    Of a file that is kept back the diff is not known, and every line counts.
    """
    if scope.diff is None:
        return {}
    lines: dict[str, frozenset[int]] = {
        path: frozenset(range(1, text.count("\n") + 2))
        for path, text in scope.withheld_texts.items()
    }
    for path, blocks in touched_lines(scope.diff).items():
        numbers = [range(first, last + 1) for first, last in blocks]
        lines[path] = frozenset(chain.from_iterable(numbers))
    return lines


def looks_at(
    copies: Sequence[Copy],
    texts: Mapping[str, str],
    answers: Sequence[AnalyserAnswer],
    absent: Sequence[Analyser],
    *,
    in_change: bool = False,
) -> list[Look]:
    """Return the looks that were due on these files, one of nobody where none was able."""
    taken: dict[str, list[Look]] = {}
    for copy in copies:
        if copy.obeyed is Obeyed.NONE:
            continue
        so_far = taken.get(copy.of, [])
        of_copy = _looks_of(copy, answers, absent)
        # What a page holds is looked at only if each of its parts is.
        if of_copy and (not so_far or not _has_end(of_copy)):
            taken[copy.of] = of_copy
    looks: list[Look] = []
    for path, text in texts.items():
        found = taken.get(path, [])
        if not text.strip():
            continue
        due = is_due(path, text)
        excused = is_documentation(path) and not in_change
        if found and (due or _has_end(found)):
            looks += found
        elif due and not excused:
            looks.append(not_looked("", path, Unlooked.NOBODY_ABLE))
    return looks


def _has_end(looks: Sequence[Look]) -> bool:
    return any(look.outcome is Looked.TO_THE_END for look in looks)


def _looks_of(
    copy: Copy, answers: Sequence[AnalyserAnswer], absent: Sequence[Analyser]
) -> list[Look]:
    """Return the looks of those who can judge a copy."""
    looks = []
    for answer in answers:
        name = answer.analyser.name
        if not _can_judge(answer.analyser, copy):
            continue
        if copy.name in answer.missed:
            looks.append(not_looked(name, copy.of, answer.missed[copy.name].reason))
        else:
            looks.append(Look(by=name, on=copy.of, outcome=Looked.TO_THE_END))
    missing = [analyser for analyser in absent if _can_judge(analyser, copy)]
    return looks + [
        not_looked(analyser.name, copy.of, Unlooked.MISSING) for analyser in missing
    ]


def _can_judge(analyser: Analyser, copy: Copy) -> bool:
    return analyser.judges(copy.name) and _looks_at(analyser, copy)


def _looks_at(analyser: Analyser, copy: Copy) -> bool:
    """Return whether an analyser is shown a copy."""
    is_itself = copy.name == copy.of
    return analyser.wants(copy.name) and (is_itself or not analyser.in_process)


def _inquiries(
    analysers: Sequence[Analyser], copies: Sequence[Copy], cache: AnswerCache
) -> list[_Inquiry]:
    """Return what each analyser is to be asked, after a look into the cache."""
    texts = {copy.name: copy.text for copy in copies}
    asked = []
    for analyser in analysers:
        names = [copy.name for copy in copies if _looks_at(analyser, copy)]
        canaries = canaries_for(analyser.name, names)
        shown = {name: texts[name] for name in names}
        shown |= {canary.name: canary.text for canary in canaries}
        asked.append((analyser, shown, canaries))
    return _after_the_cache(asked, cache)


def _after_the_cache(
    asked: Sequence[tuple[Analyser, Mapping[str, str], Sequence[Canary]]],
    cache: AnswerCache,
) -> list[_Inquiry]:
    """Return what is left to ask of analysers about texts and canaries."""
    keys_of = [_keys(analyser, shown) for analyser, shown, _ in asked]
    wanted: dict[bytes, str] = {}
    for keys in keys_of:
        wanted.update((key, name) for name, key in keys.items() if key is not None)
    kept = cache.read(wanted)
    inquiries = []
    for (analyser, shown, canaries), keys in zip(asked, keys_of, strict=True):
        known = {
            name: kept[key]
            for name, key in keys.items()
            if key is not None and key in kept
        }
        unread = {name: text for name, text in shown.items() if name not in known}
        inquiries.append(_Inquiry(analyser, keys, known, unread, canaries))
    return inquiries


def _keys(analyser: Analyser, texts: Mapping[str, str]) -> dict[str, bytes | None]:
    digest = analyser.digest()
    return {
        name: key_of(digest, name, text) if digest else None
        for name, text in texts.items()
    }


def _ask_all(
    inquiries: Sequence[_Inquiry], environment: Mapping[str, str], run: RunCommand
) -> list[AnalyserAnswer]:
    """Run the analysers at the same time, over the copies that are still unread."""
    with TemporaryDirectory(prefix="bridgehead-static-") as name:
        folder = Path(name).resolve()
        for inquiry in inquiries:
            if not inquiry.analyser.in_process:
                _write_texts(folder, inquiry.unread)
        ask = partial(_ask, folder=folder, environment=environment, run=run)
        with ThreadPoolExecutor(max_workers=len(inquiries) or 1) as pool:
            return list(pool.map(ask, inquiries))


def _ask(
    inquiry: _Inquiry, folder: Path, environment: Mapping[str, str], run: RunCommand
) -> AnalyserAnswer:
    """Return what an analyser says about every copy it was asked about, now or before."""
    analyser = inquiry.analyser
    if not inquiry.unread:
        return AnalyserAnswer(analyser, inquiry.known)
    answer = analyser.answer(inquiry.unread, folder, environment, run)
    messages = {
        name: list(inquiry.known.get(name, ()))
        for name in inquiry.keys
        if name not in answer.missed
    }
    for message in answer.messages:
        if message.path in messages:
            messages[message.path].append(message)
    return _believed(inquiry, AnalyserAnswer(analyser, messages, answer.missed))


def _believed(inquiry: _Inquiry, answer: AnalyserAnswer) -> AnalyserAnswer:
    """Return an answer without what was said of languages whose canary was not found."""
    name = inquiry.analyser.name
    missed = dict(answer.missed)
    for canary in inquiry.canaries:
        if canary.is_found(answer.messages):
            continue
        why = NotAble(f"{name} does not find what is wrong in {canary.language}")
        for path in filter(canary.speaks_for, inquiry.unread):
            missed.setdefault(path, why)
    messages = {
        path: said for path, said in answer.messages.items() if path not in missed
    }
    return AnalyserAnswer(inquiry.analyser, messages, missed)


def unable_analysers(
    analysers: Sequence[Analyser],
    environment: Mapping[str, str],
    *,
    timeout_seconds: float,
    cache: Path | None = None,
) -> dict[str, tuple[str, ...]]:
    """Return the analysers that do not find their canaries, and in which languages."""
    asked = []
    for analyser in analysers:
        canaries = canaries_for(analyser.name)
        shown = {canary.name: canary.text for canary in canaries}
        asked.append((analyser, shown, canaries))
    answer_cache = AnswerCache(cache)
    inquiries = _after_the_cache(asked, answer_cache)
    run = partial(process.run, timeout_seconds=timeout_seconds, idle_seconds=None)
    answers = _ask_all(inquiries, environment, run)
    _keep_answers(inquiries, answers, answer_cache)
    unable: dict[str, tuple[str, ...]] = {}
    for inquiry, answer in zip(inquiries, answers, strict=True):
        languages = [
            canary.language
            for canary in inquiry.canaries
            if not canary.is_found(answer.messages)
        ]
        if languages:
            unable[inquiry.analyser.name] = tuple(languages)
    return unable


def _keep_answers(
    inquiries: Sequence[_Inquiry],
    answers: Sequence[AnalyserAnswer],
    cache: AnswerCache,
) -> None:
    """Keep the answers that are complete."""
    new: dict[bytes, list[Message]] = {}
    used: list[bytes] = []
    for inquiry, answer in zip(inquiries, answers, strict=True):
        keys = {name: key for name, key in inquiry.keys.items() if key is not None}
        used.extend(keys[name] for name in inquiry.known)
        for name in inquiry.unread:
            if name in keys and name not in answer.missed:
                new[keys[name]] = answer.messages[name]
    cache.write(new, used)


def _examined(
    answers: Sequence[AnalyserAnswer],
    copies: Sequence[Copy],
    texts: Mapping[str, str],
    scope: Scope,
    touched: Mapping[str, frozenset[int]],
) -> Examined:
    failed = [answer for answer in answers if answer.failures]
    answered = [answer for answer in answers if answer.has_answered]
    if not answered:
        reasons = "; ".join(str(answer.failures[0]) for answer in failed)
        failure = f"cli_error: {reasons or 'no analyser is installed'}"
        return Examined((), (), (), failure=failure)
    by_tool: list[tuple[str, Message]] = []
    suppressed: list[Message] = []
    domains: set[str] = set()
    for answer in answered:
        domains.update(answer.analyser.domains)
        heard = hear(answer.messages, copies, touched)
        by_tool += [(answer.analyser.name, message) for message in heard.messages]
        suppressed += heard.suppressed
    found = weigh(
        by_tool,
        texts,
        _MOST_PLACES,
        trusts_marks=scope.diff is None,
        named=scope.described,
    )
    warnings = [f"analyser_failed:{answer.analyser.name}" for answer in failed]
    if suppressed:
        places = [(message.path, message.line) for message in suppressed]
        warnings.append(f"suppressed_by_comment:{told(places)}")
    brought = _brought_comments(copies, touched)
    if brought:
        warnings.append(f"comment_not_obeyed:{told(brought)}")
    if len(found) > MOST_OUTPUTS:
        warnings.append(f"static_truncated:{len(found) - MOST_OUTPUTS}")
    return Examined(
        outputs=tuple(_outputs(found[:MOST_OUTPUTS], texts, scope.withheld_texts)),
        analysers=tuple(answer.analyser.name for answer in answered),
        domains=tuple(sorted(domains)),
        warnings=tuple(warnings),
    )


def _brought_comments(
    copies: Sequence[Copy], touched: Mapping[str, frozenset[int]]
) -> set[tuple[str, int]]:
    """Return where a change brings comments that would silence an analyser."""
    changed = {copy.part for copy in copies if copy.obeyed is Obeyed.OLD}
    return {
        (copy.of, line)
        for copy in copies
        if copy.name in changed
        for line in directive_lines(copy.text)
        if line in touched[copy.of]
    }


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
