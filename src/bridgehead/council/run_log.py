"""The log of a run, told once to everybody: the seats' files as things occur, and whoever watches (council §18)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import to_builtins

from bridgehead.contract.report import BridgeReport
from bridgehead.council.artifacts import OutputFolder
from bridgehead.council.calls import CallFailed, Result, SeatEvent
from bridgehead.council.council_run import COUNCIL_LOG
from bridgehead.council.partners import NoObserver, Observer
from bridgehead.host.clock import Clock, SystemClock, iso_ms

BRIDGE_START = "bridge_start"
BRIDGE_COMPLETE = "bridge_complete"


class RunLog:
    """Writes to the output folder, where there is one, and tells the observer."""

    def __init__(
        self,
        outputs: OutputFolder | None = None,
        observer: Observer | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._outputs = outputs
        self._observer = observer or NoObserver()
        self._clock = clock or SystemClock()
        self._held: dict[str, tuple[SeatEvent, ...]] = {}

    def write(self, event: SeatEvent) -> None:
        """One line. What pre-flight said about a seat comes right after the line that opens its log."""
        # The council's own events belong to no seat, so no seat's file has them.
        if self._outputs is None or event.bridge == COUNCIL_LOG:
            line = {"event": event.event, "ts": iso_ms(self._clock.now()), **to_builtins(event.fields)}
        else:
            line = self._outputs.write_event(event)
        self._observer.happened(event.bridge, line)
        if event.event == BRIDGE_START:
            for held in self._held.pop(event.bridge, ()):
                self.write(held)

    def hold(self, bridge: str, events: Sequence[SeatEvent]) -> None:
        """Keep what was found out about a seat until its log begins."""
        self._held[bridge] = tuple(events)

    def write_own_report(self, report: BridgeReport, events: Sequence[SeatEvent]) -> None:
        """The log of a seat that never ran with us: opened, what was found out, closed."""
        bridge, at = report.bridge, iso_ms(self._clock.now())
        self.hold(bridge, (*self._held.get(bridge, ()), *events))
        self.write(
            SeatEvent(
                bridge, BRIDGE_START, {"bridge": bridge, "session_id": report.session_id, "timestamp": at}
            )
        )
        for output in report.outputs:
            facts = {
                "id": output.id,
                "type": output.type,
                "severity": output.severity,
                "title": output.title,
                "domain": output.domain,
                "agent": output.agent,
            }
            self.write(SeatEvent(bridge, "output", {**facts, "round": 1}))
        closing = {
            "status": report.status.value,
            "verdict": report.verdict,
            "output_count": len(report.outputs),
            "reason": report.skip_reason or report.halt_reason,
        }
        self.write(SeatEvent(bridge, BRIDGE_COMPLETE, {**closing, "timestamp": at}))

    def write_seat(self, report: BridgeReport) -> None:
        """The summary beside a seat's log."""
        if self._outputs is not None:
            self._outputs.write_seat(report)

    def new_seating(self, bridge: str) -> None:
        """The bridge sits down once more, with a log of its own."""
        if self._outputs is not None:
            self._outputs.new_seating(bridge)

    def told(self, result: Result) -> None:
        """A runtime answered or refused; the last refusal is remembered until it answers again (council §19)."""
        if isinstance(result, CallFailed):
            self._observer.refused(result.key.bridge, result)
        else:
            self._observer.accepted(result.key.bridge)
