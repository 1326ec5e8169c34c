"""The bus put together with the rest: its settings, its events in the record,
approvals, an assistant.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from bridgehead.assembly.application import Assembly, event_now
from bridgehead.assembly.bus.assistants import agent_for
from bridgehead.assembly.bus.notices import RecordNotices, question_notice
from bridgehead.assembly.event_writer import EventWriter
from bridgehead.assembly.pending import UnfitAnswer, pending_list
from bridgehead.bus.access.state_folder import StateFolder
from bridgehead.bus.interfaces import AnswerRefused, ApprovalRequest, BusServices
from bridgehead.bus.settings import BusSettings
from bridgehead.config.resolve import Origin
from bridgehead.contract.doors import Door
from bridgehead.contract.pending import Answer, Question
from bridgehead.contract.record_words import Part, PendingKind, PendingState
from bridgehead.control_plane.records import QuestionKey
from bridgehead.host.clock import SystemClock, iso_ms

_log: Final = logging.getLogger("bridgehead.bus")


def bus_settings(assembly: Assembly, flags: Mapping[str, Any]) -> BusSettings:
    """Return the [bus] table from files and environment, with what was given on the
    command line on top.
    """
    configured = {
        name.removeprefix("bus."): _plain(resolved.value)
        for name, resolved in assembly.settings.values.items()
        if name.startswith("bus.") and resolved.origin is not Origin.DEFAULT
    }
    return BusSettings.parse(
        {
            **configured,
            **{key: value for key, value in flags.items() if value is not None},
        }
    )


def state_folder(assembly: Assembly, settings: BusSettings) -> StateFolder:
    """Return the folder of this bridge: configured, or `bus/` in the user's data
    directory.
    """
    chosen = settings.serving.state
    return StateFolder(
        Path(chosen).expanduser() if chosen else assembly.places.data / "bus"
    )


def outside(
    assembly: Assembly, settings: BusSettings
) -> tuple[BusServices, Callable[[], None]]:
    """Return what a running bus borrows, and what ends the borrowing."""
    announcer = RecordAnnouncer(assembly)
    serving = settings.serving
    longest_s = serving.assistant_timeout_s + serving.assistant_later_s
    agent = agent_for(assembly, serving.assistant, longest_s, serving.assistant_tools)
    return BusServices(
        announcer, RecordApprovals(assembly), agent, RecordNotices(assembly)
    ), announcer.close


class RecordAnnouncer:
    """What happens on the bus, as events of the record."""

    def __init__(self, assembly: Assembly) -> None:
        self._project = assembly.project
        self._writer = EventWriter(assembly, part="bus", logger=_log)

    def announce(self, kind: str, data: dict[str, Any]) -> None:
        self._writer.put(event_now(self._project, kind, data))

    def close(self) -> None:
        self._writer.close()


class RecordApprovals:
    """Questions of the bus as pending items of the record."""

    def __init__(self, assembly: Assembly) -> None:
        self._assembly = assembly

    def ask(self, request: ApprovalRequest) -> None:
        expires = SystemClock().now() + timedelta(seconds=request.expires_in_s)
        question = Question(
            key=request.key,
            kind=PendingKind.BUS_APPROVAL,
            part=Part.BUS,
            origin="bus",
            title=request.title,
            prompt=request.prompt,
            choices=request.choices,
            project=self._assembly.project,
            expires_at=iso_ms(expires),
        )
        with self._assembly.store() as store:
            store.open_pending(question)

    def answer_to(self, key: str) -> str | None:
        with self._assembly.store(read_only=True) as store:
            item = store.pending_item(self._key(key))
        if item.state is PendingState.WITHDRAWN:
            return "no"
        if item.answer is None:
            return None
        said = (item.answer.text or "").strip()
        return said if not item.question.choices or said == "yes" else "no"

    def withdraw(self, key: str) -> None:
        with self._assembly.store() as store:
            store.withdraw_pending(self._key(key), reason="the device disconnected")

    def settle(self, key: str, text: str, by: str) -> None:
        with self._assembly.store(read_only=True) as store:
            item = store.pending_item(self._key(key))
        with self._assembly.store() as store:
            pending_list(self._assembly, store, _log.warning).answer(
                item.id, _given(text, by), Door.DEVICE
            )

    def answer(self, item_id: str, text: str, by: str, shown: str) -> None:
        with self._assembly.store() as store:
            pending = pending_list(self._assembly, store, _log.warning)
            item = pending.find(item_id)
            question = question_notice(item)
            if item.state is PendingState.OPEN and question.digest != shown:
                reason = "you were not shown this question as it is now"
                raise AnswerRefused(f"{item.id} was not answered: {reason}", question)
            try:
                pending.answer(
                    item.id, _given(text, by), Door.DEVICE, asked=item.question
                )
            except UnfitAnswer as unfit:
                raise AnswerRefused(unfit.message, question) from unfit

    def _key(self, key: str) -> QuestionKey:
        return QuestionKey(part=Part.BUS, key=key, project=self._assembly.project)


def _given(text: str, by: str) -> Answer:
    return Answer(text=text, by=by, at=iso_ms(SystemClock().now()))


def _plain(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return list(value) if isinstance(value, tuple) else value
