"""The running bus as plain data, read through its status site: for the dashboard and
whoever else shows it.

The state folder names the status site of the bridge that serves from it. Without one,
or with one that no longer answers, what is left is who is enrolled; nothing is guessed.
"""

from __future__ import annotations

import http.client
from typing import Final, TypeVar
from urllib.parse import urlencode

import msgspec

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.bus.bus import bus_settings, state_folder
from bridgehead.bus.access.state_folder import StateFolder
from bridgehead.bus.gateway.running import (
    ChatLink,
    RunningBridge,
    SpeakRequest,
    read_running,
    running_url,
)
from bridgehead.bus.gateway.status import (
    BusStatus,
    MessageContent,
    MessageHead,
    ParticipantStatus,
    absent,
)
from bridgehead.errors import ConfigError, NotFound

Shape = TypeVar("Shape", bound=msgspec.Struct)

PATIENCE_S: Final = 2.0
MAX_BYTES: Final = 16 * 1024 * 1024


class BusView(msgspec.Struct, frozen=True, kw_only=True):
    """The bus of one state folder: its status while it runs, otherwise why there is
    none and who is enrolled.
    """

    state: str
    """The folder."""
    running: bool
    note: str | None = None
    """Why nothing is running, as a sentence."""
    status: BusStatus | None = None
    enrolled: tuple[ParticipantStatus, ...] = ()


def bus_address(assembly: Assembly) -> str | None:
    """Return where participants connect while a bus runs on this machine.

    The bus itself is not asked.
    """
    return running_url(_folder(assembly).path)


def bus_view(
    assembly: Assembly, *, after: int = 0, participant: str = "", topic: str = ""
) -> BusView:
    """Return how the bus stands now.

    `after` is the last head already seen; the other two narrow the tail.
    """
    folder = _folder(assembly)
    bridge = read_running(folder.path)
    if bridge is None:
        return _not_running(folder, "no bus is running on this machine")
    status = _ask(bridge, "/status", BusStatus, after=after)
    if status is None:
        return _not_running(folder, "the bus that ran here no longer answers")
    narrowed = msgspec.structs.replace(
        status, tail=_narrowed(status, participant, topic)
    )
    return BusView(state=str(folder.path), running=True, status=narrowed)


def message_content(assembly: Assembly, number: int) -> MessageContent | None:
    """Return what the message with this number carries.

    None when it is gone or was too large to be kept.
    """
    bridge = read_running(_folder(assembly).path)
    return (
        None
        if bridge is None
        else _ask(bridge, "/message", MessageContent, number=number)
    )


def running_status(folder: StateFolder) -> BusStatus | None:
    """Return how the bridge stands that serves from this folder, None if none answers."""
    bridge = read_running(folder.path)
    return None if bridge is None else _ask(bridge, "/status", BusStatus)


def participant_source(folder: StateFolder, participant_id: str) -> str | None:
    """Return the source that a participant has now, else its name.

    None if the bridge that runs does not know it.
    """
    status = running_status(folder)
    if status is None:
        return participant_id
    # The bridge may not have read it yet.
    enrolled = participant_id if participant_id in folder.records() else None
    return next(
        (
            p.source or p.id
            for p in status.participants
            if participant_id in (p.id, p.source)
        ),
        enrolled,
    )


def new_chat_link(folder: StateFolder) -> str:
    """Return a link that opens the chat page of the bridge that runs, once."""
    return _ask_running(folder, "/link/chat", ChatLink, b"").url


def speak(folder: StateFolder, request: SpeakRequest, kind: type[Shape]) -> Shape:
    """Let the bridge that runs say something; a question is waited for."""
    return _ask_running(
        folder, "/speak", kind, msgspec.json.encode(request), request.wait_s
    )


def _ask_running(
    folder: StateFolder, path: str, kind: type[Shape], body: bytes, wait_s: float = 0
) -> Shape:
    bridge = read_running(folder.path)
    told = (
        None
        if bridge is None
        else _ask(bridge, path, kind, body=body, patience_s=PATIENCE_S + wait_s)
    )
    if told is None:
        raise NotFound(
            f"no bus is running from {folder.path}",
            hint="`bridgehead bus serve` starts one",
        )
    return told


def _folder(assembly: Assembly) -> StateFolder:
    return state_folder(assembly, bus_settings(assembly, {}))


def _narrowed(
    status: BusStatus, participant: str, topic: str
) -> tuple[MessageHead, ...]:
    sources = {
        p.source
        for p in status.participants
        if p.id == participant and p.source is not None
    }
    return tuple(
        head
        for head in status.tail
        if head.topic.startswith(topic)
        and (
            not participant
            or head.source in sources
            or sources.intersection(head.destination)
        )
    )


def _not_running(folder: StateFolder, note: str) -> BusView:
    try:
        enrolled = tuple(absent(record) for record in folder.records().values())
    except ConfigError as error:
        return BusView(
            state=str(folder.path), running=False, note=f"{note}; {error.message}"
        )
    return BusView(state=str(folder.path), running=False, note=note, enrolled=enrolled)


def _ask(
    bridge: RunningBridge,
    path: str,
    kind: type[Shape],
    *,
    body: bytes | None = None,
    patience_s: float = PATIENCE_S,
    **query: int,
) -> Shape | None:
    """One answer of the bridge, to a body if there is one.

    None when nobody answers as that bridge would.
    """
    connection = http.client.HTTPConnection(
        "127.0.0.1", bridge.port, timeout=patience_s
    )
    token = {"Authorization": f"Bearer {bridge.token}"}
    try:
        connection.request(
            "GET" if body is None else "POST", f"{path}?{urlencode(query)}", body, token
        )
        answer = connection.getresponse()
        return (
            msgspec.json.decode(answer.read(MAX_BYTES), type=kind)
            if answer.status == http.client.OK
            else None
        )
    except (OSError, http.client.HTTPException, msgspec.DecodeError):
        return None
    finally:
        connection.close()
