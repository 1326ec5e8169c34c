"""Every check of `doctor`: files and their modes, settings, optional parts, the record, programs.

The parts are imported by the check that needs them: most machines have neither a bus nor a paused flow.
"""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final

from bridgehead.assembly.application import Assembly, event_now
from bridgehead.assembly.council.refusals import refusals_in
from bridgehead.assembly.pending import grouped, pending_list
from bridgehead.config.files import MAX_SETTINGS_BYTES, TrustedFiles
from bridgehead.config.places import Places
from bridgehead.config.resolve import Origin, Settings
from bridgehead.control_plane.records import OPEN_ITEMS
from bridgehead.control_plane.stores.failures import RecordDamaged
from bridgehead.doctor.diagnosis import Checkup, Diagnosis, Group, State
from bridgehead.doctor.programs import check_programs
from bridgehead.errors import (
    BridgeheadError,
    FileError,
    StoreError,
    for_this_installation,
)
from bridgehead.flows.files.root import FlowRoot
from bridgehead.host.clock import SystemClock
from bridgehead.host.extras import Extra, can_import, missing_extras
from bridgehead.host.files import read_bounded

if TYPE_CHECKING:
    from bridgehead.assembly.bus.views import BusView
    from bridgehead.control_plane.stores.base import Store
    from bridgehead.flows.operations.inspect import StatusResult

OTHERS = stat.S_IRWXG | stat.S_IRWXO
MOST_COUNTED = 1000
_UNDATED = ("file_missing", "updated_")  # nobody has to date a file written by hand


def check_settings(places: Places, settings: Settings) -> list[Diagnosis]:
    """One line per warning about the settings files, or one that says they are fine."""
    found = []
    for warning in settings.warnings:
        kind = "settings.ignored"
        fix = "correct the file it names, then: bridgehead config show"
        if "not trusted" in warning:
            kind = "settings.untrusted"
            fix = f"bridgehead config trust {quote(str(places.project_file))}"
        found.append(Diagnosis(Group.MACHINE, kind, State.LOOK, warning, fix=fix))
    return found or [
        Diagnosis(Group.MACHINE, "settings.fine", State.FINE, "settings are in order")
    ]


def check_trust(places: Places) -> list[Diagnosis]:
    """Trusted files that have changed or gone since they were trusted."""
    found: list[Diagnosis] = []
    trust = TrustedFiles(places.trust_file)
    for name in trust.all():
        path = Path(name)
        mend = None
        if not path.is_file():
            kind = "trust.gone"
            message = f"{name} is trusted but no longer exists"
            mend = partial(trust.remove, path)
            fix = f"bridgehead config trust --remove {quote(name)}"
        elif trust.holds(path, read_bounded(path, MAX_SETTINGS_BYTES)):
            continue
        else:
            kind = "trust.changed"
            message = (
                f"{name} has changed since it was trusted, so it is not trusted now"
            )
            fix = f"read it, then: bridgehead config trust {quote(name)}"
        found.append(
            Diagnosis(Group.MACHINE, kind, State.LOOK, message, fix=fix, mend=mend)
        )
    return found


def check_private(places: Places) -> list[Diagnosis]:
    """Files of the user's that others on this machine could read."""
    private = [places.config, places.data, places.record, places.trust_file]
    diagnoses = map(check_mode, private)
    return [diagnosis for diagnosis in diagnoses if diagnosis is not None]


def check_mode(path: Path) -> Diagnosis | None:
    """None when `path` is absent or closed to others."""
    try:
        mode = path.lstat().st_mode
    except OSError:  # absent, or out of our reach
        return None
    if stat.S_ISLNK(mode) or not mode & OTHERS:
        return None
    wanted = 0o700 if stat.S_ISDIR(mode) else 0o600
    return Diagnosis(
        Group.MACHINE,
        "permissions.open",
        State.LOOK,
        f"{path} is readable by other users (mode {stat.S_IMODE(mode):04o})",
        fix=f"chmod {wanted:04o} {quote(str(path))}",
        mend=lambda: path.chmod(wanted),
    )


def check_seats_file(assembly: Assembly) -> list[Diagnosis]:
    """What of .bridge-settings.json is wrong, and what nobody has trusted."""
    if (
        not (assembly.places.project / ".bridge-settings.json").exists()
        and not assembly.settings.agents
    ):
        return []
    from bridgehead.assembly.council.files import SEATS_FILE, read_seats_file
    from bridgehead.council.request.settings import UNTRUSTED

    warnings = read_seats_file(assembly).settings(SystemClock().now()).warnings
    untrusted = [
        warning.partition(":")[2]
        for warning in warnings
        if warning.startswith(UNTRUSTED)
    ]
    wrong = [
        one.replace(":", " ").replace("_", " ")
        for one in warnings
        if not one.startswith((UNTRUSTED, *_UNDATED))
    ]
    found = []
    if wrong:
        fix = "correct it; docs/guides/council.md lists its keys"
        found.append(
            _look(
                "seats.broken", f"{SEATS_FILE} is not usable: {', '.join(wrong)}", fix
            )
        )
    if untrusted:
        fix = f"read it, then: bridgehead config trust {SEATS_FILE}"
        found.append(
            _look(
                "seats.untrusted",
                f"{SEATS_FILE} is not trusted, so ignored: {', '.join(untrusted)}",
                fix,
            )
        )
    return found


def _look(kind: str, message: str, fix: str) -> Diagnosis:
    return Diagnosis(Group.RUNTIMES, kind, State.LOOK, message, fix=fix)


def check_refusals(store: Store) -> list[Diagnosis]:
    """Runtimes whose last call was refused; one that succeeds ends it (council §19)."""
    refused = refusals_in(store)
    if not refused:
        return []
    from bridgehead.council.reporting.render.sentences import reason_in_words

    return [
        _look(
            f"{bridge}.refused",
            f"{bridge} refused its last call, {last.at}: "
            f"{reason_in_words(last.reason)} ({last.error_class})",
            "bridgehead runtimes",
        )
        for bridge, last in sorted(refused.items())
    ]


def check_confinement(assembly: Assembly) -> list[Diagnosis]:
    """What keeps the tools of AI programs to the private copy; without it they are asked without tools."""
    from bridgehead.assembly.council.seats import held_programs
    from bridgehead.host.confinement import holds_ports

    held = held_programs(assembly)
    loose = [name for name, by in held.items() if not by]
    found = []
    if by := ", ".join(f"{name} ({by})" for name, by in held.items() if by):
        message = f"see only their private copy, no home directory: {by}"
        found.append(Diagnosis(Group.RUNTIMES, "confinement.held", State.FINE, message))
    if loose:
        message = (
            "cannot be confined to the private copy here, so asked without tools: "
            f"{', '.join(loose)}"
        )
        fix = (
            "a Linux kernel with Landlock (5.13 or newer), or install bubblewrap and "
            "allow user namespaces"
        )
        found.append(_look("confinement.missing", message, fix))
    if any(held.values()):
        found.append(judge_ports(is_held=holds_ports()))
    return found


def check_analysers(assembly: Assembly) -> list[Diagnosis]:
    """Return whether the analysers of the static seat find what they have to find."""
    from bridgehead.assembly.council.seats import probe_analysers

    probed = probe_analysers(assembly)
    advice = for_this_installation("pip install 'bridgehead[static]'")
    found = []
    if probed.able:
        message = f"find what they have to find: {', '.join(probed.able)}"
        found.append(Diagnosis(Group.RUNTIMES, "analysers.able", State.FINE, message))
    if probed.unable:
        message = (
            f"analysers that miss what they have to find: {'; '.join(probed.unable)}"
        )
        found.append(_look("analysers.unable", message, advice))
    return found


def judge_ports(*, is_held: bool) -> Diagnosis:
    """Whether confined programs reach the servers of this machine, our hub among them."""
    if is_held:
        message = "connect only to the ports of their own endpoints, not to our hub"
        return Diagnosis(Group.RUNTIMES, "confinement.ports", State.FINE, message)
    return _look(
        "confinement.ports",
        "can connect to every server on this machine, our hub included: this system cannot hold programs to ports",
        "use Linux 6.7 or newer, or set bus.hub_token",
    )


def check_flows(assembly: Assembly) -> list[Diagnosis]:
    """Whether a flow of this project waits for somebody; a journal that came with the repository is refused."""
    if FlowRoot.open(assembly.places.project).journal.exists():
        from bridgehead.flows.operations.inspect import ListRequest, list_runs

        unfinished = list_runs(ListRequest(assembly.places.project)).unfinished
        if unfinished is not None:
            return [_unfinished(unfinished)]
    return [
        Diagnosis(
            Group.FLOWS, "flows.fine", State.FINE, "no flow is waiting in this project"
        )
    ]


def check_bus(assembly: Assembly) -> list[Diagnosis]:
    """The bus of this machine, where one was set up."""
    given = (
        name
        for name, one in assembly.settings.values.items()
        if one.origin is not Origin.DEFAULT
    )
    if not (assembly.places.data / "bus").exists() and not any(
        name.startswith("bus.") for name in given
    ):
        return [
            Diagnosis(
                Group.BUS,
                "bus.off",
                State.FINE,
                "no bus is running on this machine; 0 enrolled",
            )
        ]
    from bridgehead.assembly.bus.views import bus_view

    return [judge_bus(bus_view(assembly))]


def judge_bus(view: BusView) -> Diagnosis:
    """Whether a bus serves here and who is enrolled; `bus check` looks at a hub more closely."""
    status = view.status
    if status is None:
        return Diagnosis(
            Group.BUS,
            "bus.off",
            State.FINE,
            f"{view.note}; {len(view.enrolled)} enrolled",
        )
    if status.problem is not None:
        fix = f"correct it in {view.state}, then: bridgehead bus participant list"
        return Diagnosis(
            Group.BUS, "bus.records_refused", State.LOOK, status.problem, fix=fix
        )
    ending = next((link for link in status.links if link.link == "certificate"), None)
    if ending is not None:
        message = f"the certificate of the bus {ending.state}, {ending.reason}"
        fix = "renew the files of tls_cert and tls_key; a running bus reloads them"
        return Diagnosis(Group.BUS, "bus.certificate", State.LOOK, message, fix=fix)
    return Diagnosis(
        Group.BUS, "bus.running", State.FINE, f"a bus is running at {status.gateway}"
    )


def _unfinished(flow: StatusResult) -> Diagnosis:
    message = f"flow {flow.run.name} ({flow.run.id}) is {flow.run.status.value}"
    fix = "bridgehead pending" if flow.outstanding else "bridgehead flow resume"
    return Diagnosis(Group.FLOWS, "flows.unfinished", State.LOOK, message, fix=fix)


def check_record(
    assembly: Assembly, found_so_far: Sequence[Diagnosis]
) -> list[Diagnosis]:
    """Check the record and what it remembers; an intact one gets `doctor.checked` with the counts of all checks."""
    from bridgehead.control_plane.stores.inspection import check

    try:
        looked = check(assembly.record_url, quick=True)
        if looked.damage:
            raise RecordDamaged(looked.where, looked.damage[0])
        with assembly.store() as store:
            items = pending_list(assembly, store, lambda _warning: None).items(
                OPEN_ITEMS, limit=MOST_COUNTED
            )
            waiting = len(grouped(items))
            found = [*check_refusals(store), *([_waiting(waiting)] if waiting else [])]
            counts = Checkup.of([*found_so_far, *found]).counts
            facts = {**counts, State.FINE.value: counts[State.FINE] + 1}
            seq = store.append([event_now(assembly.project, "doctor.checked", facts)])[
                0
            ].seq
            where = store.where
    except (StoreError, FileError) as error:
        return [
            Diagnosis(
                Group.RECORD,
                "record.unusable",
                State.BROKEN,
                error.message,
                fix=error.hint,
            )
        ]
    extent = (
        f"; {looked.note}, `bridgehead record check` reads all"
        if looked.counts and looked.note
        else ""
    )
    message = f"record {where} is intact and writable; last event {seq}{extent}"
    return [Diagnosis(Group.RECORD, "record.fine", State.FINE, message), *found]


def _waiting(count: int) -> Diagnosis:
    many = f"{MOST_COUNTED} or more" if count == MOST_COUNTED else str(count)
    return Diagnosis(
        Group.RECORD,
        "record.pending",
        State.LOOK,
        f"{many} waiting for an answer",
        fix="bridgehead pending",
    )


def check_extras(missing: Sequence[Extra]) -> list[Diagnosis]:
    """One line per optional part that is not installed; nobody has to have any."""
    found = []
    for extra in missing:
        fix = for_this_installation(f"pip install 'bridgehead[{extra.name}]'")
        message = f"not installed: {extra.name}, which adds {extra.adds}"
        found.append(
            Diagnosis(Group.MACHINE, "extra.absent", State.FINE, message, fix=fix)
        )
    return found


Check = Callable[[Assembly], list[Diagnosis]]

CHECKS: Final[tuple[tuple[Group, str, Check], ...]] = (
    (Group.MACHINE, "trust", lambda assembly: check_trust(assembly.places)),
    (Group.MACHINE, "permissions", lambda assembly: check_private(assembly.places)),
    (Group.FLOWS, "flows", check_flows),
    (
        Group.MACHINE,
        "settings",
        lambda assembly: check_settings(assembly.places, assembly.settings),
    ),
    (
        Group.MACHINE,
        "extras",
        lambda _assembly: check_extras(missing_extras(can_import)),
    ),
)


SYSTEMS: Final = {
    "linux": ("Linux", ""),
    "darwin": ("macOS", "is supported, but only Linux is tested"),
}


def check_system(platform: str) -> Diagnosis:
    name, tried = SYSTEMS.get(
        platform, (platform, "is not supported; on Windows use it inside WSL 2")
    )
    state = State.LOOK if tried else State.FINE
    return Diagnosis(Group.MACHINE, "system", state, f"{name} {tried}".rstrip())


def check_everything(assembly: Assembly) -> Checkup:
    """Look at the machine, the settings and the parts, and write one event to the record."""
    version = ".".join(map(str, sys.version_info[:3]))
    python = Diagnosis(Group.MACHINE, "python.found", State.FINE, f"Python {version}")
    diagnoses = [check_system(sys.platform), python, *check_programs(assembly.environ)]
    for group, kind, check in CHECKS:
        diagnoses += _run_check(group, kind, check, assembly)
    if any(found.kind == "settings.broken" for found in diagnoses):
        return Checkup.of(diagnoses)  # they say where the record and the bus are
    diagnoses += _run_check(Group.RUNTIMES, "seats", check_seats_file, assembly)
    if any(
        found.group is Group.RUNTIMES and not found.kind.endswith(".missing")
        for found in diagnoses
    ):
        diagnoses += _run_check(
            Group.RUNTIMES, "confinement", check_confinement, assembly
        )
    diagnoses += _run_check(Group.RUNTIMES, "analysers", check_analysers, assembly)
    diagnoses += _run_check(Group.BUS, "bus", check_bus, assembly)
    return Checkup.of([*diagnoses, *check_record(assembly, diagnoses)])


def mend(checkup: Checkup) -> list[Diagnosis]:
    """Carry out every fix that is safe to do without asking; return what was mended."""
    mended = []
    for diagnosis in checkup.diagnoses:
        if diagnosis.mend is not None:
            diagnosis.mend()
            mended.append(diagnosis)
    return mended


def _run_check(
    group: Group, kind: str, check: Check, assembly: Assembly
) -> list[Diagnosis]:
    """A check that cannot be made is a finding too; the others are still to be made."""
    try:
        return check(assembly)
    except BridgeheadError as error:
        return [
            Diagnosis(
                group,
                f"{kind}.broken",
                State.BROKEN,
                error.message,
                fix=error.hint or "fix the cause",
            )
        ]
