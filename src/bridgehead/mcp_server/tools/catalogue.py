"""The tools by name: what they are for, what they take and return, and where they are carried out.

Listing them imports nothing of what they do; a handler's module is imported when its tool is first called.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from bridgehead.mcp_server.tools import schemas

HANDLERS: Final = "bridgehead.mcp_server.tools"


class Tool(NamedTuple):
    """One tool. `handler` is `module:function` below HANDLERS."""

    name: str
    title: str
    description: str
    takes: type[schemas.Arguments]
    returns: type[schemas.Result]
    handler: str
    reads_only: bool = False
    reaches_out: bool = False

    def listed(self) -> dict[str, Any]:
        """The tool as `tools/list` shows it."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": schema_of(self.takes),
            "outputSchema": schema_of(self.returns),
            "annotations": {
                "destructiveHint": False,
                **({"readOnlyHint": True, "idempotentHint": True} if self.reads_only else {}),
                **({} if self.reaches_out else {"openWorldHint": False}),
            },
        }


TOOLS: Final = (
    Tool(
        "council",
        "Hold a council",
        "Let several AI agents review files or a change, argue, and end in one report with a verdict. Takes minutes; "
        "progress is reported per seat. You may hold a seat yourself: the result is then `input_required` with your "
        "prompts; answer each one and call again with `resume` and `answers` until it is `reported`.",
        schemas.CouncilArguments,
        schemas.CouncilResult,
        "council:hold",
        reaches_out=True,
    ),
    Tool(
        "council_status",
        "Councils and their reports",
        "List this project's councils, or show one: its report with all findings, or whom it waits for.",
        schemas.CouncilStatusArguments,
        schemas.CouncilStatusResult,
        "council:status",
        reads_only=True,
    ),
    Tool(
        "pending",
        "What waits for someone",
        "List what waits for an answer: requests of flows and councils, envelopes from other rigs, halted runtimes. "
        "With `id`: one item with its whole prompt.",
        schemas.PendingArguments,
        schemas.PendingResult,
        "pending:pending",
        reads_only=True,
    ),
    Tool(
        "answer",
        "Answer a pending item",
        "Answer one pending item, once. Nothing goes on by itself: resume the flow or council afterwards. "
        "Approvals of the bus are for a person and refused here.",
        schemas.AnswerArguments,
        schemas.AnswerResult,
        "pending:answer",
    ),
    Tool(
        "rig_inbox",
        "Envelopes from other machines",
        "Show the envelopes that wait for this rig, each with its verification (signature, hash, sender).",
        schemas.RigInboxArguments,
        schemas.RigInboxResult,
        "rigs:inbox",
        reads_only=True,
    ),
    Tool(
        "rig_send",
        "Send an envelope",
        "Hand something to the agent on another machine: writes, commits and pushes one envelope. "
        "Text that looks like a secret is refused.",
        schemas.RigSendArguments,
        schemas.RigSendResult,
        "rigs:send",
        reaches_out=True,
    ),
    Tool(
        "rig_open",
        "Open a thread",
        "Open a thread for a new matter with other machines; the first envelope sent there is the REQUEST.",
        schemas.RigOpenArguments,
        schemas.RigOpenResult,
        "rigs:open_thread",
    ),
    Tool(
        "rig_sync",
        "Fetch envelopes",
        "Take in what other machines have sent. Everything is verified first; what is bad is kept apart or refused.",
        schemas.RigSyncArguments,
        schemas.RigSyncResult,
        "rigs:sync_clone",
        reaches_out=True,
    ),
    Tool(
        "rig_wait",
        "Wait for an envelope",
        "Fetch again and again until something is there for this rig or the time is over, then show what waits.",
        schemas.RigWaitArguments,
        schemas.RigInboxResult,
        "rigs:wait_for_envelope",
        reaches_out=True,
    ),
    Tool(
        "flow_respond",
        "Answer a flow's request",
        "Give the response to a paused flow of this project by its request_id, once; then resume the flow.",
        schemas.FlowRespondArguments,
        schemas.FlowRespondResult,
        "flows:respond",
    ),
    Tool(
        "doctor",
        "Check this machine",
        "Check programs, AI runtimes, settings and the record, and say what to do about what is wrong.",
        schemas.DoctorArguments,
        schemas.DoctorResult,
        "doctor:doctor",
        reads_only=True,
    ),
)

BY_NAME: Final[Mapping[str, Tool]] = {tool.name: tool for tool in TOOLS}


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of a type, written out in place: some hosts do not follow references.

    Of arguments it says nothing about null, which is the same as leaving one out.
    """
    nulls = not issubclass(kind, schemas.Arguments)
    _, components = msgspec.json.schema_components([kind], ref_template="{name}")
    schema = _written_out(components[kind.__name__], components, nulls)
    assert isinstance(schema, dict)
    return schema


def _written_out(node: Any, components: Mapping[str, Any], nulls: bool) -> Any:
    if isinstance(node, list):
        return [_written_out(one, components, nulls) for one in node]
    if not isinstance(node, dict):
        return node
    if isinstance(node.get("$ref"), str):
        rest = {key: value for key, value in node.items() if key != "$ref"}
        return {**_written_out(components[node["$ref"]], components, nulls), **rest}
    # Titles repeat our class names, docstrings speak to readers of the code, limits are checked all the same, an empty
    # default is what is not given, results are always whole: a model pays for every word of a schema.
    hidden = ("title", "description", *(["required"] if nulls else [])) if "properties" in node else ()
    shown = {
        key: _written_out(value, components, nulls)
        for key, value in node.items()
        if key not in (*hidden, "minLength", "maxLength", "maxItems") and (value or key not in ("default", "required"))
    }
    match shown.pop("anyOf", None):
        case [{"type": str(kind), **rest}, {"type": "null"}]:
            shown = {"type": [kind, "null"] if nulls else kind, **rest, **shown}
        case list(choices):
            shown["anyOf"] = choices
    return {"type": "string", **shown} if "enum" in node else shown
