"""What the tools take and return, as types.

The JSON Schemas of `tools/list` are made from them.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

Text = Annotated[str, Meta(max_length=50_000_000)]
Sentence = Annotated[str, Meta(max_length=10_000)]
Name = Annotated[str, Meta(min_length=1, max_length=500)]
Names = Annotated[list[Name], Meta(max_length=1_000)]
ACTIONS: Final = (
    "flow status",
    "flow list",
    "flow cancel",
    "council stop",
    "council dismiss",
    "council challenge",
    "domains",
    "template list",
    "rig push",
)
"""What the tool `command` runs; it says what to use instead of the others."""
Action = Annotated[str, Meta(max_length=100, extra_json_schema={"enum": list(ACTIONS)})]


class Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of a tool; anything not named here is refused."""


class HostAnswer(Arguments, frozen=True, kw_only=True):
    """One answer for the seat of the calling agent."""

    id: Annotated[
        Name, Meta(description="The request's id, as the council gave it (q-12).")
    ]
    text: Annotated[Text, Meta(description="The whole answer to its prompt.")]


class CouncilArguments(Arguments, frozen=True, kw_only=True):
    """A council to hold, or one to go on with."""

    verb: Annotated[
        Literal[
            "review",
            "audit",
            "analyze",
            "plan",
            "research",
            "brainstorm",
            "design",
            "synthesize",
            "debate",
            "ask",
        ],
        Meta(
            description="What the council does; `ask` decides from the words of `task`."
        ),
    ] = "review"
    paths: Annotated[
        Names,
        Meta(
            description=(
                "Files or directories of the project. Without any scope: what "
                "changed, else everything."
            )
        ),
    ] = []
    diff_base: Annotated[
        Name | None, Meta(description="Or what changed since this commit or branch.")
    ] = None
    staged: Annotated[bool, Meta(description="Or what is staged.")] = False
    commit_range: Annotated[
        Name | None, Meta(description="Or a range A..B of commits.")
    ] = None
    task: Annotated[
        str, Meta(max_length=100_000, description="What to look for, in plain words.")
    ] = ""
    domains: Annotated[
        Names,
        Meta(
            description=(
                "Only these domains, such as security or testing; default: chosen "
                "from the code."
            )
        ),
    ] = []
    add_domains: Annotated[
        Names, Meta(description="Domains besides those chosen from the code.")
    ] = []
    intensity: Annotated[
        Literal["quick", "standard", "thorough"] | None,
        Meta(description="How thorough."),
    ] = None
    protocol: Annotated[
        Literal["shared", "full"] | None,
        Meta(
            description=(
                "One model call for all roles of a runtime (shared), or one a role "
                "(full); default: shared for a quick or standard review by several."
            )
        ),
    ] = None
    runtimes: Annotated[
        Names,
        Meta(
            description=(
                "Runtimes: claude, codex, gemini, opencode, openai, static; default: "
                "all available."
            )
        ),
    ] = []
    host_seat: Annotated[
        Name,
        Meta(
            description="Whether you take a seat: `auto` (default), `none`, "
            "or the family you answer for (claude, codex, gemini, opencode)."
        ),
    ] = "auto"
    max_calls: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="Make at most this many model calls."),
    ] = None
    resume: Annotated[
        Name | None,
        Meta(description="Resume this council; only the fields below apply."),
    ] = None
    answers: Annotated[
        list[HostAnswer],
        Meta(
            max_length=200,
            description="With resume: your answers to the council's requests.",
        ),
    ] = []
    retry: Annotated[
        Names, Meta(description="With resume: runtimes to ask again.")
    ] = []
    close: Annotated[
        bool, Meta(description="With resume: stop waiting and report.")
    ] = False


class CouncilStatusArguments(Arguments, frozen=True, kw_only=True):
    review_id: Annotated[
        Name | None, Meta(description="Which council; without it they are listed.")
    ] = None
    limit: Annotated[int, Meta(ge=1, le=100, description="How many are listed.")] = 10


class PendingArguments(Arguments, frozen=True, kw_only=True):
    id: Annotated[
        Name | None, Meta(description="Show this item with its whole prompt.")
    ] = None
    everywhere: Annotated[
        bool, Meta(description="Of all projects, not only this one.")
    ] = False
    limit: Annotated[int, Meta(ge=1, le=200, description="At most this many.")] = 20


class AnswerArguments(Arguments, frozen=True, kw_only=True):
    id: Annotated[
        Name, Meta(description="The pending item (q-12), or a flow's request_id.")
    ]
    text: Annotated[
        Text | None,
        Meta(
            description="The answer: the response text, or one of the item's choices."
        ),
    ] = None
    status: Annotated[
        Literal["success", "error", "cancelled"],
        Meta(description="error and cancelled need a message."),
    ] = "success"
    message: Annotated[Sentence | None, Meta(description="Why there is no answer.")] = (
        None
    )


class RigInboxArguments(Arguments, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=50, description="At most this many.")] = 10


class RigSendArguments(Arguments, frozen=True, kw_only=True):
    type: Annotated[
        Name,
        Meta(
            description="REQUEST, RESPONSE, RESULT, ACK, STATE, HANDOFF, VERIFY or RECOVERY."
        ),
    ]
    thread: Annotated[Name, Meta(description="The thread to post in.")]
    to: Annotated[Names, Meta(min_length=1, description="Recipient rigs.")]
    body: Annotated[Text, Meta(description="The message, Markdown.")]
    status: Annotated[
        Name | None, Meta(description="Status marker, where the type has one.")
    ] = None
    tldr: Annotated[Name | None, Meta(description="One sentence for the listing.")] = (
        None
    )
    references: Annotated[
        Names, Meta(description="Commits it answers; `auto` finds them.")
    ] = []
    by: Annotated[
        Name | None,
        Meta(description="Deadline of a question or ACK: a time, or 30m, 2h, 3d."),
    ] = None
    push: Annotated[bool, Meta(description="Also push it.")] = True
    new_recipients: Annotated[
        bool, Meta(description="Allow names similar to known ones.")
    ] = False


class RigOpenArguments(Arguments, frozen=True, kw_only=True):
    thread: Annotated[Name, Meta(description="Lower-case letters, digits, hyphens.")]


class RigWaitArguments(Arguments, frozen=True, kw_only=True):
    seconds: Annotated[
        int, Meta(ge=1, le=600, description="How long to wait at most.")
    ] = 60
    thread: Annotated[Name | None, Meta(description="Wait for this thread only.")] = (
        None
    )


class CommandArguments(Arguments, frozen=True, kw_only=True):
    action: Annotated[Action, Meta(description="The command.")]
    target: Annotated[
        Name | None,
        Meta(description="Its run, council, finding, domain or directory."),
    ] = None
    reason: Annotated[
        Sentence | None,
        Meta(description="council dismiss: why; council challenge: question."),
    ] = None


class FlowRunArguments(Arguments, frozen=True, kw_only=True):
    action: Annotated[
        Literal["run", "resume", "retry"],
        Meta(description="The command."),
    ] = "run"
    flow: Annotated[
        Name | None,
        Meta(
            description="run: file.py or file.py:function of this project, or a name."
        ),
    ] = None
    run_id: Annotated[Name | None, Meta(description="resume, retry: which run.")] = None
    step: Annotated[Name | None, Meta(description="retry: from this step on.")] = None
    options: Annotated[Names, Meta(description="run: the flow's own options.")] = []


class Result(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """Structured content of a tool's result."""

    note: str = ""


class Finding(Struct, frozen=True, kw_only=True):
    id: str
    severity: str
    title: str
    location: str
    seats: list[str]
    confirmation: str
    evidence: str
    remedy: str


class SeatRequest(Struct, frozen=True, kw_only=True):
    """A prompt that the calling agent answers for its seat."""

    id: str
    request_id: str
    title: str
    prompt: str


class CouncilResult(Result, frozen=True, kw_only=True):
    review_id: str
    status: Literal[
        "reported", "input_required", "waiting", "running", "stopped", "aborted"
    ]
    exit_code: int
    """The code the command would end with; 42 waits for an agent."""
    summary: str
    next: str = ""
    verdict: str | None = None
    findings: list[Finding] = []
    report: str = ""
    report_files: dict[str, str] = {}
    requests: list[SeatRequest] = []
    waiting_for: list[str] = []
    skipped: dict[str, str] = {}
    warnings: list[str] = []
    not_looked_at: list[str] = []
    """What nobody able has looked at to the end, why, and what to do."""


class CouncilListed(Struct, frozen=True, kw_only=True):
    review_id: str
    verb: str
    title: str
    state: str
    started_at: str
    verdict: str | None
    waiting_for: list[str]


class CouncilStatusResult(Result, frozen=True, kw_only=True):
    councils: list[CouncilListed] = []
    council: CouncilResult | None = None


class PendingEntry(Struct, frozen=True, kw_only=True):
    id: str
    kind: str
    state: str
    origin: str
    title: str
    since: str
    project: str
    choices: list[str]
    advice: str | None
    expires_at: str | None
    prompt: str = ""
    schema: str = ""
    """The JSON Schema an answer has to obey, as fenced text."""
    parts: list[dict[str, Any]] = []
    """What a council asks, where that is more than one question: items as this one;
    `id` is the council's.
    """


class PendingResult(Result, frozen=True, kw_only=True):
    items: list[PendingEntry]
    next: str = ""


class AnswerResult(Result, frozen=True, kw_only=True):
    id: str
    state: str
    title: str
    next: str


class InboxEntry(Struct, frozen=True, kw_only=True):
    id: str
    thread: str
    type: str
    sender: str
    commit: str | None
    verification: str
    due: str | None = None
    text: str


class RigInboxResult(Result, frozen=True, kw_only=True):
    rig: str
    envelopes: list[InboxEntry]
    delivered: list[InboxEntry] = []
    owed: list[str] = []
    left_out: int
    next: str = ""


class RigSendResult(Result, frozen=True, kw_only=True):
    type: str
    thread: str
    file: str
    commit: str
    pushed: bool
    to: list[str]


class RigOpenResult(Result, frozen=True, kw_only=True):
    thread: str
    next: str


class RigSyncResult(Result, frozen=True, kw_only=True):
    pulled: bool
    new_envelopes: int
    refused: str | None = None


class CommandResult(Result, frozen=True, kw_only=True):
    exit_code: int
    output: str


class Check(Struct, frozen=True, kw_only=True):
    group: str
    kind: str
    state: str
    message: str
    fix: str | None


class DoctorResult(Result, frozen=True, kw_only=True):
    summary: str
    checks: list[Check]
