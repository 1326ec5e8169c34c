"""Checks of the parts as they stand here: refusals that are remembered, flows of this project, the bus."""

from __future__ import annotations

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.bus_views import BusView, bus_view
from bridgehead.assembly.remembered_refusals import LastRefusal, last_refusals
from bridgehead.council.render.reasons import reason_in_words
from bridgehead.doctor.diagnosis import Diagnosis, Group, State
from bridgehead.flows.operations.inspect import ListRequest, StatusResult, list_runs


def check_refusals(assembly: Assembly) -> list[Diagnosis]:
    """Runtimes whose last call was refused; one that succeeds ends it (council §19)."""
    return [_refused(bridge, last) for bridge, last in sorted(last_refusals(assembly).items())]


def check_flows(assembly: Assembly) -> list[Diagnosis]:
    """Whether a flow of this project waits for somebody; a journal that came with the repository is refused."""
    listed = list_runs(ListRequest(assembly.places.project))
    if listed.unfinished is not None:
        return [_unfinished(listed.unfinished)]
    message = "no flow waits in this project"
    return [Diagnosis(Group.FLOWS, "flows.fine", State.FINE, message)]


def check_bus(assembly: Assembly) -> list[Diagnosis]:
    """Whether a bus serves here and who is enrolled; `bus check` looks at a hub more closely."""
    return [judge_bus(bus_view(assembly))]


def judge_bus(view: BusView) -> Diagnosis:
    """What the bus of this machine, or its absence, means."""
    status = view.status
    if status is None:
        message = f"{view.note}; {len(view.enrolled)} enrolled"
        return Diagnosis(Group.BUS, "bus.off", State.FINE, message)
    if status.problem is not None:
        fix = f"correct it in {view.state}"
        return Diagnosis(Group.BUS, "bus.records_refused", State.LOOK, status.problem, fix=fix)
    return Diagnosis(Group.BUS, "bus.running", State.FINE, f"a bus serves at {status.gateway}")


def _refused(bridge: str, last: LastRefusal) -> Diagnosis:
    message = (
        f"{bridge} refused its last call, {last.at}: {reason_in_words(last.reason)} ({last.error_class})"
    )
    return Diagnosis(
        Group.RUNTIMES, f"{bridge}.refused", State.LOOK, message, fix="bridgehead runtimes says what it needs"
    )


def _unfinished(flow: StatusResult) -> Diagnosis:
    message = f"flow {flow.run.name} ({flow.run.id}) is {flow.run.status.value}"
    fix = "bridgehead pending" if flow.outstanding else "bridgehead flow resume"
    return Diagnosis(Group.FLOWS, "flows.unfinished", State.LOOK, message, fix=fix)
