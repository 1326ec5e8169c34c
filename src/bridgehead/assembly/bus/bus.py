"""The bus put together with the rest: its settings, its events in the record, approvals, and a model that answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.bus.notices import RecordNotices
from bridgehead.assembly.event_writer import EventWriter
from bridgehead.assembly.pending import pending_list
from bridgehead.bus.access.state_folder import StateFolder
from bridgehead.bus.assistant.agents import ChatCompletionsAgent, ModelFailed, ScriptedAgent
from bridgehead.bus.interfaces import Agent, AgentAnswer, AgentQuestion, ApprovalRequest, BusServices
from bridgehead.bus.settings import BusSettings
from bridgehead.config.resolve import Origin
from bridgehead.contract.events import Event
from bridgehead.contract.pending import Answer, Question
from bridgehead.contract.record_words import Part, PendingKind, PendingState
from bridgehead.control_plane.records import QuestionKey
from bridgehead.errors import ConfigError, UserError
from bridgehead.host.clock import SystemClock, iso_ms

_log: Final = logging.getLogger("bridgehead.bus")


def bus_settings(assembly: Assembly, flags: Mapping[str, Any]) -> BusSettings:
    """The [bus] table from files and environment, with what was given on the command line on top."""
    configured = {
        name.removeprefix("bus."): _plain(resolved.value)
        for name, resolved in assembly.settings.values.items()
        if name.startswith("bus.") and resolved.origin is not Origin.DEFAULT
    }
    given = {key: value for key, value in flags.items() if value is not None}
    return BusSettings.parse({**configured, **given})


def state_folder(assembly: Assembly, settings: BusSettings) -> StateFolder:
    """The folder of this bridge: configured, or `bus/` in the user's data directory."""
    chosen = settings.serving.state
    return StateFolder(Path(chosen).expanduser() if chosen else assembly.places.data / "bus")


def outside(assembly: Assembly, settings: BusSettings) -> tuple[BusServices, Callable[[], None]]:
    """What a running bus borrows, and what ends the borrowing."""
    announcer = RecordAnnouncer(assembly)
    agent = agent_for(assembly, settings.serving.assistant, settings.serving.assistant_timeout_s)
    lent = BusServices(announcer, RecordApprovals(assembly), agent, RecordNotices(assembly))
    return lent, announcer.close


def agent_for(assembly: Assembly, name: str | None, timeout_s: float = 30) -> Agent | None:
    """The agent behind the assistant: `scripted`, `openai` as .bridge-settings.json describes it, or a handler."""
    if name is None:
        return None
    if name == "scripted":
        return ScriptedAgent()
    if name == "openai":
        return _chat_completions(assembly)
    return HandlerAgent(assembly, name, timeout_s)


class HandlerAgent:
    """Somebody who also answers flows: a runtime of this machine, a command, a rig elsewhere."""

    def __init__(self, assembly: Assembly, name: str, timeout_s: float) -> None:
        from bridgehead.assembly.flows.handlers import handler_makers
        from bridgehead.flows.files.checkpoint_files import CheckpointFiles
        from bridgehead.flows.files.root import FlowRoot
        from bridgehead.flows.handlers import make_handler

        handler = name if ":" in name and not name.startswith("acp:") else f"runtime:{name}"
        self._name = name
        self._make = partial(make_handler, handler, handler_makers(assembly, _log.info))
        self._files = CheckpointFiles(FlowRoot(assembly.places.project))
        self._timeout_s = max(1, int(timeout_s))
        try:
            self._make()
        except UserError as error:
            raise ConfigError(
                f"the assistant cannot be {name!r}: {error.message}",
                hint="use openai (a chat endpoint), a runtime such as claude, cmd:WORDS, rig:ID, or scripted (an echo)",
            ) from error

    async def ask(self, question: AgentQuestion) -> AgentAnswer:
        from bridgehead.flows.files.agent_files import AgentRequest

        handler = self._make()
        request = AgentRequest(1, "assistant", "assistant", question.prompt, timeout_seconds=self._timeout_s)
        try:
            reply = await asyncio.to_thread(handler.answer, request, self._files)
        except asyncio.CancelledError:
            handler.cancel.cancel()
            raise
        if reply is None or reply.text is None:
            raise ModelFailed(self._name, (reply and reply.message) or "it said nothing")
        return AgentAnswer(reply.text.strip())


def _chat_completions(assembly: Assembly) -> Agent:
    from bridgehead.assembly.council.files import SEATS_FILE, read_seats_file

    seats = read_seats_file(assembly).settings(SystemClock().now())
    entry = seats.runtimes.get("openai")
    base_url = entry.options.get("base_url") if entry is not None else None
    if entry is None or not isinstance(base_url, str):
        path = assembly.places.project / SEATS_FILE
        raise ConfigError(
            f"{path} names no base_url for openai that may be used", hint="write one, then: bridgehead config trust"
        )
    variable = entry.options.get("api_key_env")
    key = assembly.environ.get(variable) if isinstance(variable, str) else None
    return ChatCompletionsAgent(base_url, model=entry.models[0], key=key)


class RecordAnnouncer:
    """What happens on the bus, as events of the record."""

    def __init__(self, assembly: Assembly) -> None:
        self._project = assembly.project
        self._writer = EventWriter(assembly, part="bus", logger=_log)

    def announce(self, kind: str, data: dict[str, Any]) -> None:
        self._writer.put(
            Event(
                id=str(uuid4()),
                kind=kind,
                part=Part.BUS,
                at=iso_ms(SystemClock().now()),
                project=self._project,
                data=data,
            )
        )

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
            store.withdraw_pending(self._key(key), reason="the device is gone")

    def settle(self, key: str, text: str, by: str) -> None:
        with self._assembly.store(read_only=True) as store:
            item = store.pending_item(self._key(key))
        self.answer(item.id, text, by)

    def answer(self, item_id: str, text: str, by: str) -> None:
        answer = Answer(text=text, by=by, at=iso_ms(SystemClock().now()))
        with self._assembly.store() as store:
            pending_list(self._assembly, store, _log.warning).answer(item_id, answer)

    def _key(self, key: str) -> QuestionKey:
        return QuestionKey(part=Part.BUS, key=key, project=self._assembly.project)


def _plain(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return list(value) if isinstance(value, tuple) else value
