"""Flows connected to the record: what happens in them becomes events, what they ask
becomes pending items.

The flow's own journal and files decide; the record is told afterwards and is never
needed for a flow to go on.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from bridgehead.errors import BridgeheadError, ConfigError, NotFound
from bridgehead.flows.interfaces import Announcer, FlowEvent, OpenRequest
from bridgehead.flows.words import RunStatus

if TYPE_CHECKING:
    from bridgehead.assembly.application import Assembly
    from bridgehead.config.resolve import Settings
    from bridgehead.contract.pending import Answer, PendingItem
    from bridgehead.control_plane.records import QuestionKey, Run
    from bridgehead.control_plane.stores.base import Store

_STATUS_AFTER = {
    "flow.started": RunStatus.RUNNING,
    "flow.resumed": RunStatus.RUNNING,
    "flow.paused": RunStatus.WAITING,
    "flow.completed": RunStatus.COMPLETED,
    "flow.failed": RunStatus.FAILED,
    "flow.cancelled": RunStatus.CANCELLED,
}
LONGEST_KEPT_DAYS = 36_500.0
_RECORDED_FACTS = ("error", "waits_for", "phase", "phase_name", "steps_made")


class RecordingAnnouncer(Announcer):
    """Opens the record when there is something to say, once.

    Trouble with it is one warning, never an error.
    """

    def __init__(
        self, root: Path, warn: Callable[[str], None], assembly: Assembly | None = None
    ) -> None:
        """`assembly`: the one of `root`, where the caller has it already."""
        self._root = root
        self._warn = warn
        self._assembly = assembly
        self._store: Store | None = None
        self._gave_up = False

    def happened(self, event: FlowEvent) -> None:
        self._write(lambda store: record_event(store, event))
        if event.kind == "flow.responded":
            self.settled(
                str(event.data["request_id"]),
                event.run.root,
                "answered by flow respond",
            )

    def asked(self, request: OpenRequest) -> None:
        from bridgehead.flows.operations.pending_items import question_of

        self._write(lambda store: store.open_pending(question_of(request)))

    def knows(self, request_id: str, root: str) -> bool:
        known: list[PendingItem | None] = []
        self._write(lambda store: known.append(item_of(store, request_id, root)))
        return any(known)

    def settled(self, request_id: str, root: str, status: str) -> None:
        self._write(
            lambda store: withdraw_request(
                store, request_id, root, f"the flow's request is settled: {status}"
            )
        )

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, work: Callable[[Store], object]) -> None:
        if self._gave_up:
            return
        try:
            work(self._opened())
        except BridgeheadError as error:
            self._gave_up = True
            self._warn(f"not recorded: {error.message}")

    def _opened(self) -> Store:
        if self._store is None:
            from bridgehead.assembly.application import Assembly

            assembly = self._assembly or Assembly(self._root)
            for warning in assembly.settings.warnings:
                self._warn(warning)
            self._store = assembly.store()
        return self._store


def template_directories(root: Path) -> tuple[Path, ...]:
    """Return where packages go that no --output places: the setting flows.templates, a
    relative one below the root.
    """
    from bridgehead.assembly.application import Assembly

    named = Assembly(root).settings.text("flows.templates")
    return (Path(root, Path(named).expanduser()).absolute(),) if named else ()


def size_limits(settings: Settings) -> dict[str, int]:
    """Return the bytes that the files of a flow may have, as the settings
    flows.request_mib and so on say (flows §10).
    """
    from bridgehead.flows.files.checkpoint_files import MIB
    from bridgehead.flows.words import REQUEST_FILE, RESPONSE_FILE, STATE_FILE

    named = {
        REQUEST_FILE: "flows.request_mib",
        RESPONSE_FILE: "flows.response_mib",
        STATE_FILE: "flows.state_mib",
    }
    limits = {
        file: int((settings.number(name) or 0) * MIB) for file, name in named.items()
    }
    for file, limit in limits.items():
        if limit <= 0:
            raise ConfigError(f"{named[file]} must be more than 0")
    return limits


def keep_days(settings: Settings) -> float:
    """Return how long runs that have ended stay in the journal, as the setting
    flows.keep_days says.
    """
    days = float(settings.number("flows.keep_days") or 0)
    if not 0 <= days <= LONGEST_KEPT_DAYS:
        raise ConfigError(
            f"flows.keep_days must be a number from 0 to {LONGEST_KEPT_DAYS:g}"
        )
    return days


def answer_flow(item: PendingItem, answer: Answer) -> None:
    """Write the response of a flow's request.

    The flow's own rule of one answer decides.
    """
    from bridgehead.assembly.application import Assembly
    from bridgehead.flows.engine.run_request import RunInputs
    from bridgehead.flows.operations.pending_items import response_to
    from bridgehead.flows.operations.respond import refuse_unfit, respond
    from bridgehead.flows.words import ANSWER_SCHEMA, FLEET

    request = response_to(item.question, answer)
    if item.question.project.startswith(FLEET):
        # A worker reads it from the record; no file is written.
        refuse_unfit(request.reply, {"context": {ANSWER_SCHEMA: item.question.schema}})
        return
    respond(
        request, RunInputs(size_limits=size_limits(Assembly(request.root).settings))
    )


def record_event(store: Store, event: FlowEvent) -> None:
    """Append an event; one after which the run stands elsewhere together with that."""
    from bridgehead.flows.operations.pending_items import event_of

    status = _STATUS_AFTER.get(event.kind)
    recorded = event_of(event)
    if status is None:
        store.append([recorded])
    else:
        store.save_run(_run_after(event, status, recorded.at), events=[recorded])


def _run_after(event: FlowEvent, status: RunStatus, at: str) -> Run:
    """Return the run as the record keeps it: where it stands, and whom it waits for."""
    from bridgehead.contract.record_words import Part, RunState
    from bridgehead.control_plane.records import Run
    from bridgehead.host.clock import iso_ms, parse_iso

    run = event.run
    return Run(
        id=run.id,
        part=Part.FLOWS,
        kind=run.name,
        title=run.name,
        state=RunState(status.value),
        started_at=iso_ms(parse_iso(run.created)),
        updated_at=at,
        project=run.root,
        ended_at=at if status.ended else None,
        data={
            "version": run.version,
            "input": {
                key: value
                for key, value in run.input.items()
                if not key.startswith("_")
            },
            **{
                key: event.data[key]
                for key in _RECORDED_FACTS
                if event.data.get(key) is not None
            },
        },
    )


def withdraw_request(store: Store, request_id: str, root: str, reason: str) -> None:
    """Close the item of a request that wants no answer any more.

    An answered one stays as it is.
    """
    with suppress(NotFound):  # it was asked by a program that told the record nothing
        store.withdraw_pending(key_of(request_id, root), reason=reason)


def item_of(store: Store, request_id: str, root: str) -> PendingItem | None:
    """Return the item of a request.

    None where the program that asks told the record nothing.
    """
    with suppress(NotFound):
        return store.pending_item(key_of(request_id, root))
    return None


def key_of(request_id: str, root: str) -> QuestionKey:
    from bridgehead.contract.record_words import Part
    from bridgehead.control_plane.records import QuestionKey

    return QuestionKey(part=Part.FLOWS, key=request_id, project=root)
