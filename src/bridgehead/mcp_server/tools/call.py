"""Call a tool by name: read its arguments, run its handler for a caller, and write what
came back as the protocol wants it.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final, NamedTuple

import msgspec

from bridgehead.assembly.application import Assembly
from bridgehead.contract.fencing import Fence, neutralise
from bridgehead.contract.words import Trust
from bridgehead.errors import BridgeheadError, UserError, shortened
from bridgehead.host.command import Cancel
from bridgehead.host.terminal import escape_controls
from bridgehead.mcp_server.jsonrpc import (
    ELICIT,
    AskPerson,
    Client,
    Code,
    OnceAnswered,
    Progress,
    RpcError,
)
from bridgehead.mcp_server.tools.catalogue import BY_NAME, HANDLERS, Tool
from bridgehead.mcp_server.tools.schemas import Arguments, CouncilArguments, Result

MOST_CHARACTERS: Final = 200_000
LONGEST_LINE: Final = 300
OUR_WORDS: Final = frozenset(
    {
        *("yes", "no", "retry", "skip", "flow", "council", "bus"),
        *("host_unknown", "no_model_took_part"),
        *("claude", "codex", "gemini", "opencode", "openai", "agy", "static"),
        *("review", "audit", "analyze", "plan", "research", "brainstorm"),
        *("design", "synthesize", "debate", "ask"),
        *("REQUEST", "RESPONSE", "RESULT", "ACK", "STATE", "HANDOFF", "VERIFY"),
        *("RECOVERY", "RESOLUTION", "DECISIONS", "PASS", "CONCERNS", "FAIL"),
    }
)
"""Choices, parts, runtimes, verbs and types of envelopes: words of ours that stand
bare.
"""
HARMLESS: Final = re.compile(
    r"[0-9a-f]{7,64}|[0-9a-f-]{36}|[0-9]{4}-[0-9:.TZ+-]{6,30}"
    r"|([0-9]{8}-)?[a-z0-9]{4,6}"
    r"|\.outputs/council/[0-9]{8}-[0-9]{6}-council-[a-z0-9]{4,8}\.[a-z]{2,5}|",
    re.ASCII,
)
"""Digests, request ids, times, ids of councils, files of reports."""
RIG_TOOLS: Final = {
    "new": "rig_open",
    "inbox": "rig_inbox",
    "sync": "rig_sync",
    "push": 'command {"action": "rig push"}',
}
TYPED: Final = re.compile(
    rf"rig-bridge ({'|'.join(RIG_TOOLS)})(?: --auto| --owed)?(?! --)(?![\w-])"
)
STILL_WAITS: Final = "the council is still waiting; see the tool `pending`"

logger = logging.getLogger(__name__)


class ForeignText:
    """Foreign text on its way to the calling agent: fenced, whole or as one line."""

    def __init__(self) -> None:
        self._fence = Fence(secrets.choice)
        self.used = False
        """Whether anything was fenced, so that the marker has to be explained."""

    @property
    def note(self) -> str:
        """What explains the marker; stands before the first fenced text."""
        return f"{self._fence.preamble} {self._fence.line_preamble}"

    def block(self, text: str, *, origin: str, trust: Trust = Trust.UNTRUSTED) -> str:
        """Return a text of any length between marker lines."""
        shown = text
        if len(text) > MOST_CHARACTERS:
            shown = (
                f"{text[:MOST_CHARACTERS]}\n[cut here: {len(text) - MOST_CHARACTERS} "
                "more characters]"
            )
        self.used = True
        return self._fence.wrap(shown, origin=origin, trust=trust)

    def line(self, text: str) -> str:
        """Return a title, name or path: one line between marks.

        Words and times that cannot be anything else stay bare.
        """
        if text in OUR_WORDS or HARMLESS.fullmatch(text):
            return text
        self.used = True
        return self._fence.wrap_line(self.plain_line(text))

    def plain_line(self, text: str) -> str:
        """Return the same for a person: nothing hidden in it, nothing that looks like a
        marker line; not for a model.
        """
        return shortened(
            " ".join(neutralise(text, self._fence.marker).split()), LONGEST_LINE
        )


def without_columns(text: str) -> str:
    """Columns are for eyes, a model pays for every blank.

    Code stays as it is: its lines begin with their numbers.
    """
    return re.sub(
        r"(?m)^(?![> ] *\d+  ).+$",
        lambda line: re.sub(r"(?<=\S) {3,}", "  ", line[0]),
        text,
    )


def for_agents(text: str) -> str:
    """Advice for whoever types commands, with the tools of the agent in their place,
    where it has them.
    """
    text = re.sub(r"`bridgehead (pending|answer)\b[^`]*`", r"the tool `\1`", text)
    return TYPED.sub(lambda found: RIG_TOOLS[found[1]], text).replace(
        "rig-bridge ", "bridgehead rig "
    )


@dataclass
class Caller:
    """One request of one client.

    `progress` reports while it is carried out; `warnings` end up in the result.

    `once_answered` takes what is to be done when the client has the answer, and is left
    undone if it never gets it.
    """

    assembly: Assembly
    client: Client
    cancel: Cancel = field(default_factory=Cancel)
    progress: Progress = lambda _message, _done, _total: None
    ask: AskPerson = lambda _params: {}
    once_answered: OnceAnswered = lambda done: done()
    warnings: list[str] = field(default_factory=list)
    foreign: ForeignText = field(default_factory=ForeignText)
    """All foreign text of this call has one marker."""

    def warn(self, message: str) -> None:
        """Take a warning of an operation."""
        self.warnings.append(for_agents(message))

    def notes(self) -> list[str]:
        """Return the warnings as lines; what they quote is foreign."""
        return list(map(self.foreign.line, self.warnings))


class NeededInput(NamedTuple):
    """What the client must bring before the call can go on.

    `state` is what it hands back.
    """

    state: str
    method: str
    params: Mapping[str, Mapping[str, Any]]
    """By the id of the pending item: a prompt for the client's model, or a form for the
    person at it (ELICIT).
    """


class ToolReply(NamedTuple):
    """What a tool returns: data for programs, text for readers, and what it needs to go
    on.
    """

    result: Result
    text: str
    needed: NeededInput | None = None


def call_tool(caller: Caller, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a call; RpcError when there is no such tool."""
    tool = BY_NAME.get(str(params.get("name")))
    if tool is None:
        raise RpcError(
            Code.INVALID_PARAMS,
            f"unknown tool {params.get('name')!r}; known: {', '.join(BY_NAME)}",
        )
    try:
        reply = _reply_of(caller, tool, params)
    except msgspec.ValidationError as error:
        return refused(caller, f"{tool.name}: {error}")
    except BridgeheadError as error:
        lines = [for_agents(error.message)]
        if error.hint:
            lines.append(for_agents(f"hint: {error.hint}"))
        return refused(caller, "\n".join([*lines, *caller.warnings]))
    except Exception as error:  # one call must not end the server for all others
        logger.exception("%s failed", tool.name)
        return refused(caller, f"internal error: {type(error).__name__}: {error}")
    needed = reply.needed
    if needed is None:
        return _finished(caller, reply)
    if needed.method == ELICIT or caller.client.can_be_asked:
        return _input_required(needed)
    return _finished(caller, reply)


def _reply_of(caller: Caller, tool: Tool, params: Mapping[str, Any]) -> ToolReply:
    """Return a tool's reply, after the person has seen its forms.

    A client of 2026-07-28 brings the form with its next call instead.
    """
    reply = _returned(caller, tool, params)
    if reply is None:
        reply = _handler(tool.handler)(caller, _arguments(tool, params))
    if caller.client.sends_envelopes:
        return reply
    while reply.needed is not None and reply.needed.method == ELICIT:
        item_id = reply.needed.state
        form = caller.ask(reply.needed.params[item_id])
        reply = _handler(tool.takes_form)(caller, item_id, _content(form))
    return reply


def _input_required(needed: NeededInput) -> dict[str, Any]:
    """Return the pending requests in the protocol's own way (2026-07-28), by their ids."""
    requests = {
        key: {"method": needed.method, "params": params}
        for key, params in needed.params.items()
    }
    return {
        "resultType": "input_required",
        "requestState": needed.state,
        "inputRequests": requests,
    }


def _finished(caller: Caller, reply: ToolReply) -> dict[str, Any]:
    """Return a tool's reply; a note explains the foreign text in it."""
    result = reply.result
    text = reply.text
    note = caller.foreign.note
    if caller.foreign.used and not result.note:
        result = msgspec.structs.replace(result, note=note)
    if caller.foreign.used and note not in text:
        text = f"{note}\n\n{text}"
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": msgspec.to_builtins(result),
        "isError": False,
    }


def refused(caller: Caller, message: str) -> dict[str, Any]:
    """Return a result that says what went wrong.

    What is refused, and why, may quote anybody.
    """
    block = caller.foreign.block(escape_lines(message), origin="bridgehead")
    text = f"The call was refused.\n\n{caller.foreign.note}\n\n{block}"
    return {"content": [{"type": "text", "text": text}], "isError": True}


def escape_lines(text: str) -> str:
    return "\n".join(map(escape_controls, text.splitlines()))


def _returned(
    caller: Caller, tool: Tool, params: Mapping[str, Any]
) -> ToolReply | None:
    """Return what becomes of the form that a client of 2026-07-28 brings with its
    retry.

    None for a first call.
    """
    item_id = params.get("requestState")
    responses = params.get("inputResponses")
    if not tool.takes_form or not isinstance(item_id, str):
        return None
    response = responses.get(item_id) if isinstance(responses, dict) else None
    return _handler(tool.takes_form)(caller, item_id, _content(response))


def _content(response: object) -> Mapping[str, Any]:
    """Return what a person entered; nothing where the form was declined or closed."""
    match response:
        case {"action": "accept", "content": dict(content)}:
            return content
    return {}


def _handler(name: str) -> Callable[..., ToolReply]:
    module, _, function = name.partition(":")
    handler: Callable[..., ToolReply] = getattr(
        import_module(f"{HANDLERS}.{module}"), function
    )
    return handler


def _arguments(tool: Tool, params: Mapping[str, Any]) -> Arguments:
    """Return what the call was given.

    `schemas.Arguments` refuses what a tool does not take.
    """
    state = params.get("requestState")
    if state is not None and tool.takes is CouncilArguments:
        # The client retries its first call; the state says which council that became.
        return msgspec.convert(
            {"resume": state, "answers": _response_texts(params)}, tool.takes
        )
    given = params.get("arguments")
    return msgspec.convert({} if given is None else given, tool.takes)


def _response_texts(params: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the texts in `inputResponses`, each by the id it answers."""
    responses = params.get("inputResponses") or {}
    if not isinstance(responses, dict):
        raise UserError("inputResponses must be an object", hint=STILL_WAITS)
    return [{"id": key, "text": _text(one)} for key, one in responses.items()]


def _text(response: object) -> str:
    content = response.get("content") if isinstance(response, dict) else None
    blocks = content if isinstance(content, list) else [content]
    texts = [
        one.get("text")
        for one in blocks
        if isinstance(one, dict) and one.get("type") == "text"
    ]
    joined = "\n".join(text for text in texts if isinstance(text, str))
    if not joined.strip():
        raise UserError("inputResponses: a response has no text", hint=STILL_WAITS)
    return joined
