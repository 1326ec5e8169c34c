"""The seats of a council on this machine: who could sit and why not, where agents work,
how rigs are reached (council §23, §24).
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.council.before_change import before_change
from bridgehead.assembly.council.files import SeatsFile, read_seats_file
from bridgehead.assembly.council.journal import StoredCouncil
from bridgehead.assembly.council.refusals import (
    believed_refusals,
    last_refusals,
    retired_runtimes,
)
from bridgehead.assembly.council.reviews import CouncilReviews
from bridgehead.assembly.rigs.rig import make_rig
from bridgehead.contract.task import BridgeInput
from bridgehead.contract.words import Status, TaskType
from bridgehead.council.attendance import DISABLED
from bridgehead.council.reporting.report import STATIC
from bridgehead.council.request.settings import (
    ACP_MARK,
    RuntimeSettings,
    Settings,
    is_acp,
    is_rig,
)
from bridgehead.council.runtimes import find_runtime, runtime_names
from bridgehead.council.runtimes.base import NO_CONNECTION, SeatSetup
from bridgehead.council.runtimes.cli import CliConnection
from bridgehead.council.runtimes.machine import (
    PROBE_SECONDS,
    Machine,
    Probe,
    ProbeFile,
)
from bridgehead.council.runtimes.rig import RigAnswer, RigRejected
from bridgehead.council.runtimes.static.base import Analyser
from bridgehead.council.runtimes.static.seat import (
    absent_analysers,
    available_analysers,
    unable_analysers,
)
from bridgehead.council.scope.git import Git, repository_at
from bridgehead.council.scope.resolve import NoRepository
from bridgehead.council.scope.scope import Scope
from bridgehead.council.scope.working_copies import (
    BRANCH_PREFIX,
    Implementation,
    Snapshot,
    Worktree,
    make_worktree,
    take_snapshot,
)
from bridgehead.council.seating.preflight import NotSeated, Ready, Wishes, check_seat
from bridgehead.council.seating.seating import LocalSeats
from bridgehead.errors import (
    BridgeheadError,
    ConfigError,
    NotFound,
    for_this_installation,
)
from bridgehead.host.clock import Clock, SystemClock, parse_iso
from bridgehead.host.ports import PortRules, parse_span, port_of
from bridgehead.rigs.operations.catalogue import catalogue
from bridgehead.rigs.operations.init import NewRequest, new
from bridgehead.rigs.operations.send import SendRequest, send
from bridgehead.rigs.operations.sync import SyncRequest, sync
from bridgehead.rigs.operations.thread import thread
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.trust.verification_kinds import VerificationState, is_broken
from bridgehead.rigs.views.listings import ShownEnvelope

RESPONSE: Final = "RESPONSE"

logger = logging.getLogger(__name__)
_NOTHING_TO_DO: Final = BridgeInput(
    session_id="look",
    scope=".",
    task_description="look around",
    domains=("architecture",),
)


class RigTransport:
    """`SeatTransport` over the rigs part.

    A request is remembered as `thread/file@commit`.
    """

    def __init__(self, project: Path, review_id: str) -> None:
        self._project = str(project)
        self._review_id = review_id

    def knows(self, rig_id: str) -> bool:
        """Return whether the rig has spoken or been spoken to in this repository.

        The remote may know more than we do.
        """
        try:
            rig = self._rig()
            return _is_known(rig, rig_id) or (
                self._synchronised(rig) and _is_known(rig, rig_id)
            )
        except BridgeheadError as error:
            logger.warning("rigs cannot be reached: %s", error.message)
            return False

    def threads(self) -> frozenset[str]:
        """Every thread of the repository; each is a folder of its root."""
        try:
            return frozenset(catalogue(self._rig()).thread_ids())
        except BridgeheadError as error:
            logger.warning("rigs cannot be reached: %s", error.message)
            return frozenset()

    def ask(self, rig_id: str, *, thread: str | None, title: str, body: str) -> str:
        rig = self._rig()
        thread_id = thread or f"council-{self._review_id}"
        if not rig.repository.has_directory(thread_id):
            new(rig, NewRequest(thread_id))
        sent = send(
            rig,
            SendRequest("REQUEST", thread_id, [rig_id], tldr=title, body=lambda: body),
        )
        return f"{sent.file_path}@{sent.commit_sha}"

    def answer(self, rig_id: str, request: str) -> RigAnswer | RigRejected | None:
        """Return the newest RESPONSE that names our request.

        One that must not be used says why.
        """
        rig = self._rig()
        self._synchronised(rig)
        path, _, commit = request.partition("@")
        thread_id, _, filename = path.partition("/")
        try:
            envelopes = list(thread(rig, thread_id).envelopes)
        except NotFound:
            return None
        responses = [
            envelope
            for envelope in envelopes
            if envelope.frontmatter.get("type") == RESPONSE
        ]
        answers = [
            response for response in responses if _names(response, filename, commit)
        ]
        if not answers:
            return (
                RigRejected("request_not_named")
                if _sent_by(rig_id, responses)
                else None
            )
        own = _sent_by(rig_id, answers)
        return _judged(own[-1]) if own else RigRejected("other_rig")

    def _synchronised(self, rig: Rig) -> bool:
        """Take in what the remote has, as far as it may be taken in."""
        try:
            sync(rig, SyncRequest(auto=True))
        except BridgeheadError as error:
            logger.warning("not synchronised: %s", error.message)
            return False
        return True

    def _rig(self) -> Rig:
        return make_rig(self._project, logger.info, CouncilReviews)


def _is_known(rig: Rig, rig_id: str) -> bool:
    return any(
        rig_id in (turn.sender, *turn.recipients) for turn in catalogue(rig).turns()
    )


def _sent_by(rig_id: str, envelopes: Sequence[ShownEnvelope]) -> list[ShownEnvelope]:
    return [
        envelope for envelope in envelopes if envelope.frontmatter.get("from") == rig_id
    ]


def _names(envelope: ShownEnvelope, filename: str, commit: str) -> bool:
    """Return whether an envelope says that it answers this request (rigs §9.6)."""
    reply_to = str(envelope.frontmatter.get("in_reply_to") or "")
    if reply_to in (filename, commit):
        return True
    references = envelope.frontmatter.get("references")
    if not isinstance(references, list | tuple):
        return False
    commits = [str(reference) for reference in references]
    return any(named and commit.startswith(named) for named in commits)


def _judged(envelope: ShownEnvelope) -> RigAnswer | RigRejected:
    found = envelope.verification
    if is_broken(found.kinds):
        return RigRejected(",".join(str(kind) for kind in found.kinds))
    return RigAnswer(envelope.body, verified=found.state is VerificationState.VERIFIED)


def make_machine(assembly: Assembly) -> Machine:
    """Return the machine as pre-flight sees it, with what earlier commands found out
    about its programs.
    """
    return Machine(dict(assembly.environ), memory=ProbeFile(_probes(assembly)))


def forget_probes(assembly: Assembly) -> None:
    """Have every program asked again what it can do."""
    _probes(assembly).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Workplace:
    """Where seats work: the private copy, and for an implementation a checkout of its
    own.
    """

    snapshot: Snapshot
    worktree: Worktree | None = None

    @classmethod
    def prepare(
        cls, assembly: Assembly, council: StoredCouncil, scope: Scope
    ) -> Workplace:
        if council.seats == ("static",):  # which looks at what is in memory
            return cls(Snapshot(_snapshots(assembly) / council.review_id))
        snapshot = take_snapshot(
            scope, folder=_snapshots(assembly), review_id=council.review_id
        )
        if council.task.task_type is not TaskType.IMPLEMENTATION:
            return cls(snapshot)
        git = repository_at(assembly.places.project, assembly.environ)
        if git is None:
            raise NoRepository(
                "implement", hint="git init, commit what you have, then repeat"
            )
        return cls(snapshot, _worktree(git, assembly.places.project, council.review_id))

    @classmethod
    def imagined(cls) -> Workplace:
        """For a dry run: nothing is copied, because nobody will look."""
        return cls(Snapshot(Path(tempfile.gettempdir()) / "bridgehead-dry-run"))

    @staticmethod
    def clear(assembly: Assembly, review_id: str) -> None:
        """Take the copy away; the council is closed."""
        Snapshot(_snapshots(assembly) / review_id).remove()

    def finish(self, council: StoredCouncil) -> Implementation | None:
        """Commit what an implementation changed to its branch."""
        if self.worktree is None or not self.worktree.path.exists():
            return None
        return self.worktree.finish(
            f"{council.task.task_description}\n\nMade in council {council.review_id}.\n"
        )


def local_seats(
    assembly: Assembly,
    council: StoredCouncil,
    scope: Scope,
    machine: Machine,
    clock: Clock,
    workplace: Workplace,
    *,
    resumed: bool = False,
) -> LocalSeats:
    """Return the seats of a stored council.

    Who is named, or called for again, is asked whatever it refused before.
    """
    now = clock.now()
    refused = believed_refusals(assembly, now)
    is_change = council.request.names_a_change
    assembly = before_change(assembly, scope.base_commit if is_change else None)
    named = council.seats if resumed else council.request.options.runtimes
    settings = SeatsFile(
        council.settings_text, council.settings_trusted, assembly.settings.agents
    ).settings(parse_iso(council.started_at))
    worktree = workplace.worktree
    return LocalSeats(
        task=council.task,
        scope=scope,
        settings=settings,
        machine=machine,
        snapshot=workplace.snapshot,
        clock=clock,
        wishes=Wishes(
            reasoning_cap=settings.reasoning_level,
            max_concurrency=settings.max_concurrency,
            debates=council.plan.is_debate,
            timeout_seconds=council.request.options.timeout_seconds,
            shortest_timeout=int(assembly.settings.number("council.timeout") or 0),
            discovery=council.discovery,
        ),
        analyser_timeout=council.request.options.timeout_seconds,
        worktree=worktree.path if worktree else None,
        pass_env=assembly.settings.texts("council.pass_env"),
        readable=assembly.settings.texts("council.readable"),
        ports=port_rules(assembly),
        host_seat=council.request.options.host_seat,
        project=assembly.places.project,
        cache=assembly.places.cache,
        transport=_transport(assembly.places.project, council),
        retired=retired_runtimes(refused),
        refused={
            name: last.skip_reason(now)
            for name, last in refused.items()
            if name not in named
        },
    )


def rig_threads(project: Path, council: StoredCouncil) -> frozenset[str]:
    """Folders of the project that hold envelopes, where the council has a seat on
    another machine.
    """
    transport = _transport(project, council)
    return transport.threads() if transport else frozenset()


def _transport(project: Path, council: StoredCouncil) -> RigTransport | None:
    asked = any(is_rig(seat) for seat in council.seats)
    return RigTransport(project, council.review_id) if asked else None


def _worktree(git: Git, project: Path, review_id: str) -> Worktree:
    """Return the checkout of this council: the one an earlier process made, or a new
    one.
    """
    path = project / ".bridgehead" / "worktrees" / review_id
    if path.exists():
        branch = f"{BRANCH_PREFIX}{review_id}"
        return Worktree(git, path, branch, git.commit(branch))
    return make_worktree(git, project, review_id)


def _snapshots(assembly: Assembly) -> Path:
    return assembly.places.data / "snapshots"


def _probes(assembly: Assembly) -> Path:
    return assembly.places.data / "probes.json"


@dataclass(frozen=True, slots=True)
class Availability:
    """One runtime: whether it could sit, how, and what keeps it out."""

    bridge: str
    can_sit: bool
    connection: str | None = None
    version: str | None = None
    models: tuple[str | None, ...] = ()
    status: str | None = None
    reason: str = ""
    advice: str = ""
    last_refusal: str | None = None
    """Why its last call was refused, until one succeeds (council §19)."""
    held_by: str | None = None
    """What keeps its tools to the private copy; None where it has no tools."""

    def document(self) -> dict[str, Any]:
        return asdict(self)


def list_availability(assembly: Assembly) -> list[Availability]:
    """Return every runtime in the order of dispatch, then the rigs that the settings
    name.
    """
    settings, machine, retired = _looked_at(assembly)
    rigs = [name for name in settings.runtimes if is_rig(name)]
    names = [*runtime_names(), *_acp_agents(settings, machine)]
    # Some programs take seconds to say their version; they are asked side by side.
    with ThreadPoolExecutor(max_workers=len(names)) as threads:
        found = list(
            threads.map(
                lambda name: _availability(name, assembly, settings, machine, retired),
                names,
            )
        )
    refused = last_refusals(assembly)
    found = [
        replace(seat, last_refusal=refused[seat.bridge].reason)
        if seat.bridge in refused
        else seat
        for seat in found
    ]
    return [
        *found,
        *(
            Availability(
                name, settings.runtimes[name].enabled, "rig", reason="asked by envelope"
            )
            for name in rigs
        ),
    ]


def _looked_at(assembly: Assembly) -> tuple[Settings, Machine, frozenset[str]]:
    """Return the settings of the seats, the machine, and the runtimes that are refused
    for good.
    """
    now = SystemClock().now()
    retired = retired_runtimes(believed_refusals(assembly, now))
    return read_seats_file(assembly).settings(now), make_machine(assembly), retired


def _acp_agents(settings: Settings, machine: Machine) -> list[str]:
    """Return the agents that speak ACP: those that are installed, and those that the
    settings name.
    """
    from bridgehead.council.runtimes.acp import KNOWN

    installed = [
        f"{ACP_MARK}{name}"
        for name, program in KNOWN.items()
        if machine.which(program.words[0])
    ]
    return list(dict.fromkeys((*installed, *filter(is_acp, settings.runtimes))))


def address_of_running_hub(assembly: Assembly) -> str | None:
    """Return where the embedded hub of this user listens now, whatever it was told at
    its start.
    """
    from bridgehead.bus.gateway.running import running_bridge

    chosen = assembly.settings.text("bus.state")
    folder = Path(chosen).expanduser() if chosen else assembly.places.data / "bus"
    running = running_bridge(folder)
    return running.hub_address if running is not None else None


def port_rules(assembly: Assembly) -> PortRules:
    """Return which ports the user opened for confined programs, and on which our own
    servers listen.
    """
    settings = assembly.settings
    try:
        chosen = tuple(map(parse_span, settings.texts("council.ports")))
    except ValueError as error:
        raise ConfigError(
            f"council.ports: {error}",
            hint='write ports as "8123", "3000-3999" or "all"',
        ) from error
    addresses = [settings.text("bus.hub_listen"), settings.text("bus.listen")]
    addresses += [settings.text("bus.hub"), f"web:{settings.number('web.port')}"]
    addresses.append(address_of_running_hub(assembly))
    closed = {port_of(address) for address in addresses if address} - {None}
    return PortRules(chosen, frozenset(filter(None, closed)))


def held_programs(assembly: Assembly) -> dict[str, str]:
    """Return the AI programs that are installed and what confines each here.

    Empty text where nothing does.
    """
    machine = make_machine(assembly)
    found: dict[str, str] = {}
    for name in runtime_names():
        for kind in find_runtime(name).connections:
            if issubclass(kind, CliConnection) and (
                path := machine.which(kind.program)
            ):
                seat = kind(
                    SeatSetup(name, environment=machine.environment), path, Probe(None)
                )
                seat.hold(machine)
                found[kind.program] = seat.held_by
    return found


def seat_of(assembly: Assembly, bridge: str) -> Ready | NotSeated:
    """Return one runtime outside a council: how it would be reached here, or why not."""
    settings, machine, retired = _looked_at(assembly)
    setup = _setup(bridge, assembly, settings, machine, retired)
    return check_seat(
        find_runtime(bridge),
        setup,
        _NOTHING_TO_DO,
        machine,
        Wishes(settings.reasoning_level),
    )


def _setup(
    bridge: str,
    assembly: Assembly,
    settings: Settings,
    machine: Machine,
    retired: frozenset[str],
) -> SeatSetup:
    return SeatSetup(
        runtime=bridge,
        settings=settings.runtimes.get(bridge) or RuntimeSettings(),
        environment=machine.environment,
        pass_env=assembly.settings.texts("council.pass_env"),
        readable=assembly.settings.texts("council.readable"),
        ports=port_rules(assembly),
        project=assembly.places.project,
        retired=bridge in retired,
    )


def _availability(
    bridge: str,
    assembly: Assembly,
    settings: Settings,
    machine: Machine,
    retired: frozenset[str],
) -> Availability:
    setup = _setup(bridge, assembly, settings, machine, retired)
    if bridge == STATIC:
        return _static_availability(setup, machine, assembly.places.cache)
    try:
        found = check_seat(
            find_runtime(bridge),
            setup,
            _NOTHING_TO_DO,
            machine,
            Wishes(settings.reasoning_level),
        )
    except Exception as error:
        # an adapter from outside is a guest, and the others are still to be looked at
        logger.warning("the check of %s failed", bridge, exc_info=True)
        return Availability(
            bridge,
            False,
            status=Status.SKIPPED.value,
            reason=f"its adapter failed: {error}",
        )
    if isinstance(found, Ready):
        seat = found.seat
        held_by = found.connection.held_by or None
        reason = seat.runtime or ""
        told = (seat.connection, found.connection.version, seat.models)
        return Availability(bridge, True, *told, reason=reason, held_by=held_by)
    return Availability(
        bridge,
        False,
        found.connection,
        status=found.status.value,
        reason=found.reason,
        advice=for_this_installation(found.message),
    )


def _static_availability(
    setup: SeatSetup, machine: Machine, cache: Path
) -> Availability:
    if not setup.settings.enabled:
        return Availability(STATIC, False, status=Status.SKIPPED.value, reason=DISABLED)
    analysers = available_analysers(setup, machine)
    if not analysers:
        advice = for_this_installation(find_runtime(STATIC).install_hint)
        return Availability(
            STATIC,
            False,
            status=Status.SKIPPED.value,
            reason=NO_CONNECTION,
            advice=advice,
        )
    found = _probed(setup, machine, analysers, cache)
    parts = [", ".join(found.able)]
    if found.absent:
        parts.append(f"not installed: {', '.join(found.absent)}")
    if found.unable:
        parts.append(f"not able: {', '.join(found.unable)}")
    return Availability(STATIC, True, "embedded", reason="; ".join(parts))


@dataclass(frozen=True, slots=True)
class ProbedAnalysers:
    """Which analysers find what they have to find, which do not, which are missing."""

    able: tuple[str, ...]
    unable: tuple[str, ...]
    """With the languages in which they do not."""
    absent: tuple[str, ...]


def probe_analysers(assembly: Assembly) -> ProbedAnalysers:
    """Return what the analysers of the static seat can do here."""
    settings, machine, retired = _looked_at(assembly)
    setup = _setup(STATIC, assembly, settings, machine, retired)
    analysers = available_analysers(setup, machine)
    return _probed(setup, machine, analysers, assembly.places.cache)


def _probed(
    setup: SeatSetup, machine: Machine, analysers: Sequence[Analyser], cache: Path
) -> ProbedAnalysers:
    languages = unable_analysers(
        analysers, machine.environment, timeout_seconds=PROBE_SECONDS, cache=cache
    )
    return ProbedAnalysers(
        able=tuple(one.name for one in analysers if one.name not in languages),
        unable=tuple(
            f"{name} ({', '.join(which)})" for name, which in languages.items()
        ),
        absent=tuple(one.name for one in absent_analysers(setup, machine)),
    )
