"""Turn a request into a council that can begin (council §13, §16).

Scope, context, questions, seats and route are settled here. Everything that can be
refused is refused here, before anything is written or called.
"""

from __future__ import annotations

import json
import os
import secrets
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.council.before_change import (
    before_change,
    changed_settings,
    required,
    unread_passes,
)
from bridgehead.assembly.council.files import (
    SeatsFile,
    dismissals_at,
    read_dismissals,
    read_history,
    read_own_domains,
    read_seats_file,
    records_in_scope,
    review_rules,
    splits_for,
)
from bridgehead.assembly.council.journal import StoredCouncil, registry_with
from bridgehead.assembly.council.renames import with_renames
from bridgehead.assembly.council.request import (
    ASK,
    CouncilRequest,
    refuse_contradictions,
)
from bridgehead.contract.task import BridgeInput, usual_context_policy, usual_mode
from bridgehead.contract.words import CouncilProtocol, Intensity, Mode, TaskType
from bridgehead.council.findings.references import find_references
from bridgehead.council.reporting.render.markdown import escaped
from bridgehead.council.request.clarify import (
    Clarifier,
    ClarifyingQuestion,
    Request,
    ScopeClarification,
    read_context,
)
from bridgehead.council.request.domains import Code
from bridgehead.council.request.plan import (
    DEBATE_PROTOCOL,
    DEEP_COUNCIL,
    CouncilOptions,
    CouncilPlan,
    Dismissals,
    Routed,
    is_judged,
    route_request,
)
from bridgehead.council.request.settings import Settings, seats_by_default
from bridgehead.council.running.artifacts import free_stem
from bridgehead.council.runtimes import find_runtime
from bridgehead.council.runtimes.machine import Machine
from bridgehead.council.runtimes.static.places import place_of
from bridgehead.council.scope.git import GitFailed, repository_at
from bridgehead.council.scope.resolve import resolve_scope
from bridgehead.council.scope.scope import (
    EmptyScope,
    Scope,
    ScopeRequest,
    changed_lines,
    is_text,
)
from bridgehead.council.seating.preflight import (
    discovery_manifest,
    executor_type,
    host_bridge,
)
from bridgehead.council.synthesis.cross_challenge import PREFERENCE
from bridgehead.errors import ConfigError, UserError
from bridgehead.host.clock import Clock, iso_ms
from bridgehead.host.files import write_atomic
from bridgehead.host.secrets_scan import remembered

_CLARIFIED: Final = [
    "artifact",
    "intent",
    "domains",
    "constraints",
    "confidence",
    "questions_asked",
    "assumptions",
]
CROCKFORD: Final = "0123456789abcdefghjkmnpqrstvwxyz"
ID_LENGTH: Final = 6
# Names of files say what a request is about; beyond these nothing new is learned from
# them.
MOST_NAMES: Final = 500
MOST_DRAWS: Final = 100
MOST_OUTSIDE: Final = 50_000

AskQuestion = Callable[[ClarifyingQuestion], str | None]


@dataclass(frozen=True, slots=True)
class Opened:
    """A council ready to begin, and what was settled on the way."""

    council: StoredCouncil
    scope: Scope
    settled: ScopeClarification
    seats: SeatsFile
    """As it is in the working tree, where it may be written again."""


def open_council(
    assembly: Assembly,
    request: CouncilRequest,
    *,
    machine: Machine,
    clock: Clock,
    is_taken: Callable[[str], bool],
    ask: AskQuestion | None = None,
) -> Opened:
    """Settle everything about a council.

    `ask` puts the questions of §16 to the user; None asks nobody.
    """
    _refuse_early(request, is_taken)
    now = clock.now()
    domains_text, domain_warnings = read_own_domains(assembly)
    opening = _Opening(assembly, request, domains_text)
    settled = opening.clarify(ask)
    scope_request = opening.scope_request(settled.artifact)
    scope = opening.resolved(scope_request)
    project = assembly.places.project
    dismissals = _dismissals(project, request, scope, machine)
    scope = with_renames(assembly, scope, dismissals.tables)
    scope = replace(scope, outside=_outside(assembly, scope))
    base = scope.base_commit if request.names_a_change else None
    project_settings = before_change(assembly, base).settings
    seats = read_seats_file(assembly, base)
    settings = seats.settings(now)
    written_seats = read_seats_file(assembly)
    if request.options.rewrites_settings:
        written_seats.refuse_loss()
    executor = executor_type(machine.environment)
    options = msgspec.structs.replace(
        request.options, host_seat=_host_seat(request.options, executor)
    )
    request = msgspec.structs.replace(request, options=options)
    routed = _route(request, settled)
    debate_by_words = routed.route == DEBATE_PROTOCOL and request.meaning.route is None
    seating_route = DEEP_COUNCIL if debate_by_words else routed.route
    rules, rules_from = review_rules(assembly, scope.base_commit or scope.commit)
    task = _task(
        request,
        settled,
        scope,
        review_id=request.review_id or new_id(is_taken),
        intensity=routed.intensity,
        rules=rules,
    )
    history = read_history(assembly)
    plan = CouncilPlan(
        task=task,
        seats=_seats(options, settings, task.task_type, seating_route),
        today=now.date(),
        route=routed.route,
        everybody=debate_by_words,
        protocol=_protocol(options, assembly),
        options=options,
        coordinator=settings.coordinator,
        dismissals=dismissals,
        records=records_in_scope(history, scope, project),
        splits=splits_for(assembly, base),
        previous_review_id=history.review_id,
        notes=_notes(settled, scope, rules_from if rules else None),
        domain_reasons=settled.domain_reasons,
        require=required(project_settings, options.require),
        unread_passes=unread_passes(project_settings),
        warnings=(
            *domain_warnings,
            *changed_settings(assembly, base),
            *_warnings(settings, scope, options, task),
        ),
    )
    council = StoredCouncil(
        request=request,
        plan=plan,
        secret=secrets.token_bytes(32),
        started_at=iso_ms(now),
        scope_request=opening.from_root(scope_request),
        scope_fingerprint=scope.fingerprint,
        settings_text=seats.text,
        settings_trusted=seats.trusted,
        withdrawal_guard=settings.withdrawal_guard,
        domains_text=domains_text,
        discovery=discovery_manifest(machine, executor),
    )
    return Opened(council, scope, settled, written_seats)


def _outside(assembly: Assembly, scope: Scope) -> tuple[str, ...]:
    """Return the tracked files that are not looked at; none where they are too many."""
    git = repository_at(assembly.places.project, assembly.environ)
    if git is None:
        return ()
    try:
        tracked = git.fields("ls-files", "-z", "--cached")
    except GitFailed:
        return ()
    if len(tracked) > MOST_OUTSIDE:
        return ()
    return tuple(path for path in tracked if path not in scope.texts and is_text(path))


def _protocol(options: CouncilOptions, assembly: Assembly) -> CouncilProtocol | None:
    """Return how many roles are to share a call; None where nobody said."""
    if options.protocol is not None:
        return options.protocol
    named = assembly.settings.text("council.protocol")
    if not named:
        return None
    try:
        return CouncilProtocol(named)
    except ValueError:
        words = " or ".join(CouncilProtocol)
        raise ConfigError(f"council.protocol is {named!r}; it takes {words}") from None


def _route(request: CouncilRequest, settled: ScopeClarification) -> Routed:
    """Return the route and the intensity of a council."""
    return route_request(
        " ".join([request.task, *request.scope.paths]),
        domains=settled.spoken,
        explicit_route=request.meaning.route,
        explicit_intensity=request.options.intensity,
    )


def _task(
    request: CouncilRequest,
    settled: ScopeClarification,
    scope: Scope,
    *,
    review_id: str,
    intensity: Intensity,
    rules: str,
) -> BridgeInput:
    """Return what every seat is asked to do."""
    task_type, mode = _kind_of_task(request, settled)
    description = request.task.strip()
    if not description:
        description = f"{request.verb} of {', '.join(scope.described)}"
    return BridgeInput(
        session_id=review_id,
        scope=scope.described,
        task_description=description,
        task_type=task_type,
        domains=settled.domains,
        context_summary=request.context_summary,
        intensity=intensity,
        mode=mode,
        context_policy=request.options.context_policy or usual_context_policy(mode),
        files=scope.files,
        loc=scope.loc,
        requirements=request.requirements,
        review_rules=rules,
    )


def _dismissals(
    project: Path, request: CouncilRequest, scope: Scope, machine: Machine
) -> Dismissals:
    """Return what is dismissed now and, for a change, what was before it."""
    now = read_dismissals(project)
    if not request.names_a_change:
        return Dismissals(now, None)
    before = dismissals_at(project, machine.environment, scope.base_commit)
    return Dismissals(now, before)


def _notes(
    settled: ScopeClarification, scope: Scope, rules_from: str | None
) -> tuple[str, ...]:
    """Return what the reader of a plan should know about it."""
    notes = [f"assumed: {assumption}" for assumption in settled.assumptions]
    if settled.deferred:
        deferred = ", ".join(settled.deferred)
        notes.append(f"not chosen; add with --add-domain: {deferred}")
    if rules_from is not None:
        notes.append(f"review rules of the project, in every prompt: {rules_from}")
    return (*notes, *scope.notes)


def _refuse_early(request: CouncilRequest, is_taken: Callable[[str], bool]) -> None:
    """What can be refused before anything is looked at."""
    refuse_contradictions(request)
    for name in request.options.runtimes:
        find_runtime(name)
    if request.review_id is not None and is_taken(request.review_id):
        taken = request.review_id
        raise UserError(
            f"council {taken!r} already exists",
            hint=f"bridgehead council resume {taken}",
        )


class _Opening:
    """What the request is about."""

    def __init__(
        self, assembly: Assembly, request: CouncilRequest, own_domains: str | None
    ) -> None:
        self._assembly = assembly
        self._registry = registry_with(own_domains)
        self._resolved: dict[ScopeRequest, Scope] = {}
        self._request = request
        self._project = assembly.places.project
        self._given = self._named_in_words() if request.verb == ASK else request.scope

    def clarify(self, ask: AskQuestion | None) -> ScopeClarification:
        """Ask at most three questions about what is open, or nobody.

        The rest is assumed.
        """
        scope = self.resolved(self._given) if self._given.kinds else None
        request = self._request
        verb = request.meaning
        context = read_context(
            Request(
                text=request.task,
                paths=tuple(scope.texts)[:MOST_NAMES] if scope else (),
                has_diff=scope is not None and scope.diff is not None,
                code=self._code(scope),
                is_judged=is_judged(request.task_type or verb.task_type, verb.mode),
                explicit_domains=request.domains,
                added_domains=request.add_domains,
                never_domains=self._assembly.settings.texts("council.never_domains"),
                explicit_intent=None if request.verb == ASK else request.verb,
                scope_given=scope is not None,
            ),
            self._registry,
        )
        clarifier = Clarifier(context, self._registry, has_changes=self._has_changes())
        while ask is not None and (question := clarifier.question()) is not None:
            clarifier.answered(ask(question))
        return clarifier.result()

    def _code(self, scope: Scope | None) -> Code:
        """Return what the files are, of a scope that nobody named as well."""
        if scope is None:
            with suppress(EmptyScope):
                scope = self.resolved(self.scope_request(None))
        if scope is None:
            return Code()
        places = {path: place_of(path, text) for path, text in scope.texts.items()}
        run = {path: text for path, text in scope.texts.items() if places[path] is None}
        changed = None if scope.diff is None else changed_lines(scope.diff)
        return Code(run, changed, tests=list(places.values()).count("tests"))

    def scope_request(self, artifact: str | None) -> ScopeRequest:
        """Return the scope that was named, else what was answered, else the changed
        files, else everything.
        """
        if self._given.kinds:
            return self._given
        if artifact is not None and (self._assembly.cwd / artifact).exists():
            return ScopeRequest(paths=(artifact,))
        changes = ScopeRequest(diff_base="HEAD")
        if self._has_changes():
            with suppress(EmptyScope):  # what changed is nothing that may be looked at
                self.resolved(changes)
                return changes
        return ScopeRequest()

    def from_root(self, wanted: ScopeRequest) -> ScopeRequest:
        """Return the same request for somebody who stands at the project's root."""
        cwd = self._assembly.cwd
        root = self._project
        paths = tuple(
            os.path.relpath(cwd / entry, root)
            if os.path.lexists(cwd / entry)
            else entry
            for entry in wanted.paths
        )
        return replace(wanted, paths=paths)

    def resolved(self, wanted: ScopeRequest) -> Scope:
        if wanted not in self._resolved:
            with remembered(self._assembly.places.cache / "clean-texts"):
                self._resolved[wanted] = resolve_scope(
                    wanted,
                    project=self._project,
                    cwd=self._assembly.cwd,
                    environment=self._assembly.environ,
                    allow_words=self._request.meaning.takes_words,
                    no_secrets=self._assembly.settings.texts("council.no_secrets"),
                )
        return self._resolved[wanted]

    def _named_in_words(self) -> ScopeRequest:
        """Return files and directories that a free request mentions."""
        scope = self._request.scope
        text = self._request.task
        if scope.kinds:
            return scope
        words = [reference.path for reference in find_references(text)]
        words += [word.strip(".,;:!?\"'`()") for word in text.split() if "/" in word]
        paths = [
            word for word in dict.fromkeys(words) if word and self._is_inside(word)
        ]
        return ScopeRequest(paths=tuple(paths))

    def _is_inside(self, word: str) -> bool:
        try:
            path = (self._assembly.cwd / word).resolve()
            return path.exists() and path.is_relative_to(self._project.resolve())
        except (OSError, ValueError):
            return False

    def _has_changes(self) -> bool:
        git = repository_at(self._project, self._assembly.environ)
        return git is not None and git.head() is not None and git.is_dirty()


def _host_seat(options: CouncilOptions, executor: str) -> str | None:
    """Return the bridge the calling agent sits for.

    An empty name asks us to find out.
    """
    if options.host_seat is None:
        return None
    seat = options.host_seat or host_bridge(executor)
    if seat is None:
        raise UserError(
            "--host-seat: cannot tell which agent runs this command",
            hint="name it: --host-seat claude|codex|gemini|opencode",
        )
    find_runtime(seat)
    return seat


def _seats(
    options: CouncilOptions, settings: Settings, task_type: TaskType, route: str
) -> tuple[str, ...]:
    """Return who sits, in dispatch order."""
    if options.fallback:
        return ("claude",)
    if options.runtimes:
        chosen = options.runtimes
    else:
        chosen = seats_by_default(settings, task_type)
        if route != DEEP_COUNCIL:
            order = {name: place for place, name in enumerate(PREFERENCE)}
            chosen = tuple(sorted(chosen, key=lambda name: order.get(name, len(order))))
        if route == DEBATE_PROTOCOL:
            chosen = tuple(name for name in chosen if name != "static")
    host = [options.host_seat] if options.host_seat else []
    return tuple(dict.fromkeys([*host, *chosen]))


def _kind_of_task(
    request: CouncilRequest, settled: ScopeClarification
) -> tuple[TaskType, Mode | None]:
    """Return what the verb stands for.

    A free request is what its words and answers settled.
    """
    verb = request.meaning
    if request.verb == ASK:
        task_type = settled.task_type
    else:
        task_type = request.task_type or verb.task_type
    if request.verb in (ASK, "debate"):
        return task_type, usual_mode(task_type)
    return task_type, verb.mode


def _warnings(
    settings: Settings, scope: Scope, options: CouncilOptions, task: BridgeInput
) -> tuple[str, ...]:
    """Return the codes of everything to warn of before a council begins."""
    # A project without a settings file is the ordinary case, not one to warn about.
    has_file = "file_missing" not in settings.warnings
    codes = [code for code in settings.warnings if code != "file_missing"]
    if settings.stale and has_file and not options.rewrites_settings:
        codes.append("settings_stale")
    if task.task_type is TaskType.IMPLEMENTATION and scope.dirty:
        codes.append("uncommitted_left_out")
    codes += scope.warnings
    reasons = Counter(entry.reason.value for entry in scope.left_out)
    for reason, count in sorted(reasons.items()):
        if reason != "ignored":
            codes.append(f"left_out:{reason}:{count}")
    return tuple(codes)


def new_id(is_taken: Callable[[str], bool]) -> str:
    for _ in range(MOST_DRAWS):
        drawn = "".join(secrets.choice(CROCKFORD) for _ in range(ID_LENGTH))
        if not is_taken(drawn):
            return drawn
    raise RuntimeError("no unused review id was found")


def write_context(project: Path, opened: Opened, clock: Clock) -> None:
    """What was understood of the request, for people and for programs (council §16)."""
    task = opened.council.task
    settled = opened.settled
    clarified = {name: getattr(settled, name) for name in _CLARIFIED}
    document = {
        "review_id": task.session_id,
        "request": task.task_description,
        "scope": list(opened.scope.described),
        "files": opened.scope.files,
        "lines": opened.scope.loc,
        "left_out": [
            f"{entry.path} ({entry.reason})"
            for entry in opened.scope.left_out
            if entry.reason != "ignored"
        ],
        "task_type": task.task_type.value,
        "domains": list(task.domains),
        "intensity": task.intensity.value,
        "route": opened.council.plan.route,
        "domain_reasons": dict(settled.domain_reasons),
    }
    stem = free_stem(
        project, "context", f"{clock.now():%Y%m%d-%H%M%S}-context", ".json"
    )
    text = json.dumps(
        {**document, "scope_clarification": clarified}, indent=2, ensure_ascii=False
    )
    lines = [
        f"- {name}: {escaped(_as_text(value))}"
        for name, value in (document | clarified).items()
    ]
    write_atomic(project / f"{stem}.json", text + "\n", root=project)
    write_atomic(
        project / f"{stem}.md",
        "\n".join(["# Context", "", *lines]) + "\n",
        root=project,
    )


def _as_text(value: object) -> str:
    if isinstance(value, dict):
        value = [f"{name} ({why})" for name, why in value.items()]
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)
