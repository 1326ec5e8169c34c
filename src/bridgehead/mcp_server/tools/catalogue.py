"""The tools by name: what they are for, what they take and return, and where they are
carried out.

Listing them imports nothing of what they do; a handler's module is imported when its
tool is first called.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from bridgehead.mcp_server.tools import schemas

HANDLERS: Final = "bridgehead.mcp_server.tools"


class Tool(NamedTuple):
    """One tool.

    `handler` is `module:function` below HANDLERS, `takes_form` what a person's form is
    given to.
    """

    name: str
    title: str
    description: str
    takes: type[schemas.Arguments]
    returns: type[schemas.Result]
    handler: str
    reads_only: bool = False
    reaches_out: bool = False
    destroys: bool = False
    takes_form: str = ""

    def listed(self) -> dict[str, Any]:
        """Return the tool as `tools/list` shows it."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": schema_of(self.takes),
            "outputSchema": schema_of(self.returns),
            "annotations": {
                "destructiveHint": self.destroys,
                **(
                    {"readOnlyHint": True, "idempotentHint": True}
                    if self.reads_only
                    else {}
                ),
                **({} if self.reaches_out else {"openWorldHint": False}),
                **({"openWorldHint": True} if self.destroys else {}),
            },
        }


TOOLS: Final = (
    Tool(
        "council",
        "Hold a council",
        "Code review, audit, plan, research or a second opinion by several AI agents: "
        "they look for bugs and "
        "security vulnerabilities in files or a change, debate and end in one report "
        "with a consensus verdict. Takes "
        "minutes. You may hold a seat yourself: the result is then `input_required` "
        "with your prompts; answer each one "
        "and call again with `resume` and `answers` until it is `reported`.",
        schemas.CouncilArguments,
        schemas.CouncilResult,
        "council:hold",
        reaches_out=True,
    ),
    Tool(
        "council_status",
        "Councils and their reports",
        "List this project's councils (reviews, audits), or show one: the report with "
        "all findings, or its progress.",
        schemas.CouncilStatusArguments,
        schemas.CouncilStatusResult,
        "council:status",
        reads_only=True,
    ),
    Tool(
        "pending",
        "Pending questions",
        "List open questions waiting for an answer or approval: requests of flows and "
        "councils, messages from other "
        "machines, halted runtimes. With `id`: one question with its whole prompt.",
        schemas.PendingArguments,
        schemas.PendingResult,
        "pending:pending",
        reads_only=True,
    ),
    Tool(
        "answer",
        "Answer a pending question",
        "Answer one pending question, or the request of a paused flow. This resumes nothing. Without `text`, and for "
        "what asks for a person, the person is asked, if your host can show a form.",
        schemas.AnswerArguments,
        schemas.AnswerResult,
        "pending:answer",
        takes_form="pending:answered_by_person",
    ),
    Tool(
        "rig_inbox",
        "Inbox of messages from other machines",
        "Read the messages (envelopes) that agents on other machines sent to this "
        "one, each with its verification "
        "(signature, hash, sender).",
        schemas.RigInboxArguments,
        schemas.RigInboxResult,
        "rigs:inbox",
        reads_only=True,
    ),
    Tool(
        "rig_send",
        "Send a message to another machine",
        "Send a message or hand off work to an agent on another machine: writes, "
        "commits and pushes one "
        "envelope. Text that looks like a secret is refused.",
        schemas.RigSendArguments,
        schemas.RigSendResult,
        "rigs:send",
        reaches_out=True,
    ),
    Tool(
        "rig_open",
        "Open a thread",
        "Start a new thread (conversation) with agents on other machines; its first "
        "message is the REQUEST.",
        schemas.RigOpenArguments,
        schemas.RigOpenResult,
        "rigs:open_thread",
    ),
    Tool(
        "rig_sync",
        "Fetch new messages",
        "Pull new messages from other machines. Each is verified; bad ones are "
        "quarantined or refused.",
        schemas.Arguments,
        schemas.RigSyncResult,
        "rigs:sync_clone",
        reaches_out=True,
    ),
    Tool(
        "rig_wait",
        "Wait for a message",
        "Wait until a message or reply from another machine arrives or the time is "
        "up, then show the inbox.",
        schemas.RigWaitArguments,
        schemas.RigInboxResult,
        "rigs:wait_for_envelope",
        reaches_out=True,
    ),
    Tool(
        "command",
        "Other commands",
        "Inspect, list or cancel flows. Stop a council, challenge or dismiss a "
        "finding, show domains or templates.",
        schemas.CommandArguments,
        schemas.CommandResult,
        "commands:run_command",
        reaches_out=True,
    ),
    Tool(
        "flow_run",
        "Run a flow",
        "Run, resume or retry a flow (workflow): a program of this project that git tracks or the user trusts. "
        "Exit 42: it paused for an answer.",
        schemas.FlowRunArguments,
        schemas.CommandResult,
        "commands:run_flow",
        reaches_out=True,
        destroys=True,
        takes_form="commands:answered_by_person",
    ),
    Tool(
        "doctor",
        "Check this machine",
        "Diagnose the installation: programs, available AI runtimes (models), "
        "settings, the record, with fixes.",
        schemas.Arguments,
        schemas.DoctorResult,
        "doctor:doctor",
        reads_only=True,
    ),
)

BY_NAME: Final[Mapping[str, Tool]] = {tool.name: tool for tool in TOOLS}


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema of a type, written out in place: some hosts do not follow
    references.

    Of arguments it says nothing about null, which is the same as leaving one out.
    """
    nulls = not issubclass(kind, schemas.Arguments)
    _, components = msgspec.json.schema_components([kind], ref_template="{name}")
    schema = _written_out(components[kind.__name__], components, nulls)
    assert isinstance(schema, dict)
    return schema


def _written_out(node: Any, components: Mapping[str, Any], nulls: bool) -> Any:
    """Return a schema without references, and without what a model need not read.

    Titles repeat our class names, docstrings speak to readers of the code, limits are
    checked all the same, an empty default is what is not given, results are always
    whole: a model pays for every word of a schema.
    """
    if isinstance(node, list):
        return [_written_out(entry, components, nulls) for entry in node]
    if not isinstance(node, dict):
        return node
    if isinstance(node.get("$ref"), str):
        rest = {key: value for key, value in node.items() if key != "$ref"}
        return {**_written_out(components[node["$ref"]], components, nulls), **rest}
    hidden = {"minLength", "maxLength", "maxItems"}
    if "properties" in node:
        hidden |= {"title", "description"}
        if nulls:
            hidden.add("required")
    shown: dict[Any, Any] = {}
    for key, value in node.items():
        is_empty = not value and key in ("default", "required")
        if key not in hidden and not is_empty:
            shown[key] = _written_out(value, components, nulls)
    match shown.pop("anyOf", None):
        case [{"type": str(kind), **rest}, {"type": "null"}]:
            shown = {"type": [kind, "null"] if nulls else kind, **rest, **shown}
        case list(choices):
            shown["anyOf"] = choices
    return {"type": "string", **shown} if "enum" in node else shown
