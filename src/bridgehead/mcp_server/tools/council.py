"""The council tools: hold one with progress, show one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from bridgehead.assembly.council.councils import Councils
from bridgehead.assembly.council.request import CouncilRequest
from bridgehead.assembly.council.run import Audience
from bridgehead.assembly.council.views import council_now, list_councils
from bridgehead.assembly.pending import pending_list
from bridgehead.contract.doors import Door
from bridgehead.contract.pending import Answer, PendingItem
from bridgehead.contract.record_words import Part, PendingKind, PendingState
from bridgehead.control_plane.records import PendingFilter
from bridgehead.council.calls import CallFailed
from bridgehead.council.interfaces import Observer
from bridgehead.council.request.plan import CouncilOptions
from bridgehead.council.scope.scope import ScopeRequest
from bridgehead.council.seating.preflight import executor_type, host_bridge
from bridgehead.errors import AlreadyAnswered, NotFound, UserError, plural
from bridgehead.host.clock import SystemClock, iso_ms
from bridgehead.mcp_server.jsonrpc import Progress
from bridgehead.mcp_server.tools.call import Caller, ForeignText, NeededInput, ToolReply
from bridgehead.mcp_server.tools.council_text import (
    finished_text,
    listed_text,
    standing_text,
)
from bridgehead.mcp_server.tools.schemas import (
    CouncilArguments,
    CouncilStatusArguments,
    CouncilStatusResult,
    HostAnswer,
)

COUNCIL: Final = "council"
AUTO = "auto"
NONE = "none"
HOST_UNKNOWN: Final = "host_unknown"
MOST_REQUESTS: Final = 1_000
LONGEST_REPLY_TOKENS: Final = 16_000


def hold(caller: Caller, wanted: CouncilArguments) -> ToolReply:
    """Start a council, or go on with one.

    Ends with a report, or with what somebody has to answer first.
    """
    councils = Councils(caller.assembly)
    audience = Audience(
        watchers=(ProgressMessages(caller.progress),), stop=caller.cancel
    )
    if wanted.resume is None:
        finished = councils.call(_request(caller, wanted), audience)
    else:
        review_id = _council_here(caller, wanted.resume)
        _give_answers(caller, review_id, wanted.answers)
        finished = councils.resume(
            review_id, audience, retry=wanted.retry, close=wanted.close
        )
    waiting = (
        _open_requests(caller, finished.council.review_id)
        if finished.pause is not None
        else []
    )
    result, text = finished_text(finished, waiting, caller.foreign)
    if caller.warnings:
        result = msgspec.structs.replace(
            result, warnings=[*result.warnings, *caller.notes()]
        )
    prompts = {item.id: _sample(item.question.prompt) for item in waiting}
    needed = (
        NeededInput(finished.council.review_id, "sampling/createMessage", prompts)
        if prompts
        else None
    )
    return ToolReply(result, text, needed)


def status(caller: Caller, wanted: CouncilStatusArguments) -> ToolReply:
    """Return the councils of this project, or one of them."""
    if wanted.review_id is None:
        page = list_councils(
            caller.assembly, limit=wanted.limit, project=caller.assembly.project
        )
        text, councils = listed_text(page.councils, caller.foreign)
        return ToolReply(CouncilStatusResult(councils=councils), text)
    now = council_now(caller.assembly, _council_here(caller, wanted.review_id))
    requests = _open_requests(caller, now.council.id)
    result, text = standing_text(caller.assembly, now, requests, caller.foreign)
    return ToolReply(CouncilStatusResult(note=result.note, council=result), text)


def _council_here(caller: Caller, reference: str) -> str:
    """Return the id of a council of this project, given by it or its beginning or end."""
    with caller.assembly.store(read_only=True) as store:
        run = store.find_run(reference)
    if run.part is not Part.COUNCIL or run.project != caller.assembly.project:
        raise NotFound(
            f"{run.id} is not a council of this project",
            hint="the tool `council_status` lists them",
        )
    return run.id


def _request(caller: Caller, wanted: CouncilArguments) -> CouncilRequest:
    for name, given in (
        ("answers", wanted.answers),
        ("retry", wanted.retry),
        ("close", wanted.close),
    ):
        if given:
            raise UserError(f"{name} needs resume with the council's ID")
    return CouncilRequest(
        verb=wanted.verb,
        scope=ScopeRequest(
            paths=tuple(wanted.paths),
            diff_base=wanted.diff_base,
            staged=wanted.staged,
            commit_range=wanted.commit_range,
        ),
        task=wanted.task,
        domains=tuple(wanted.domains),
        add_domains=tuple(wanted.add_domains),
        options=msgspec.structs.replace(
            # An argument named like an option is that option.
            msgspec.convert(wanted, CouncilOptions, from_attributes=True),
            host_seat=_host_seat(caller, wanted),
        ),
    )


def _host_seat(caller: Caller, wanted: CouncilArguments) -> str | None:
    """Return the seat of the calling agent: on over MCP, unless it is declined or
    others were named (council §4).
    """
    if wanted.host_seat != AUTO:
        return None if wanted.host_seat == NONE else wanted.host_seat
    family = host_bridge(executor_type(caller.assembly.environ, caller.client.name))
    if family is None:
        caller.warn(HOST_UNKNOWN)
        return None
    return family if not wanted.runtimes or family in wanted.runtimes else None


def _give_answers(
    caller: Caller, review_id: str, answers: Sequence[HostAnswer]
) -> None:
    """Answer each request once.

    Nothing is answered when one of them is not this council's or not open.
    """
    if not answers:
        return
    now = iso_ms(SystemClock().now())
    with caller.assembly.store() as store:
        waiting = pending_list(caller.assembly, store, caller.warn)
        for one in answers:
            item = waiting.find(one.id)
            if item.question.run_id != f"council-{review_id}":
                raise UserError(
                    f"{item.id} is not a request of council {review_id}; nothing was "
                    "answered"
                )
            if item.state is PendingState.ANSWERED:
                by, at = (
                    (item.answer.by, item.answer.at) if item.answer else (None, None)
                )
                raise AlreadyAnswered(item.id, by=by, at=at)
        for one in answers:
            waiting.answer(
                one.id,
                Answer(text=one.text, by=f"{caller.client.name} (MCP)", at=now),
                Door.TOOL,
            )


def _open_requests(caller: Caller, review_id: str) -> list[PendingItem]:
    where = PendingFilter(
        kinds=(PendingKind.FLOW_REQUEST,), run_id=f"council-{review_id}"
    )
    with caller.assembly.store(read_only=True) as store:
        return sorted(
            store.pending(where, limit=MOST_REQUESTS), key=lambda item: item.opened_at
        )


def _sample(prompt: str) -> dict[str, Any]:
    """Return a prompt for the client's model, as the council wrote it."""
    messages = [{"role": "user", "content": {"type": "text", "text": prompt}}]
    return {"messages": messages, "maxTokens": LONGEST_REPLY_TOKENS}


class ProgressMessages(Observer):
    """A watcher that reports each thing worth a line, with the seats that are done and
    all there are.

    What models wrote is made harmless first.
    """

    def __init__(self, report: Progress) -> None:
        self._report_with = report
        self._foreign = ForeignText()
        self._done = 0
        self._seats = 0

    def _report(self, message: str) -> None:
        # One more than the seats: the report comes after the last of them.
        total = self._seats + 1 if self._seats else 0
        self._report_with(message, self._done, total)

    def happened(self, bridge: str, line: Mapping[str, Any]) -> None:
        event = line["event"]
        if event == "council_start":
            self._seats = len(line.get("bridges") or ())
        if event in ("bridge_complete", "bridge_converted"):
            self._done += 1
        message = _council_line(line) if bridge == COUNCIL else self._seat_line(line)
        if message:
            self._report(f"{bridge}: {message}")

    def refused(self, bridge: str, failed: CallFailed) -> None:
        self._report(f"{bridge}: refused, {self._foreign.line(failed.reason)}")

    def _seat_line(self, line: Mapping[str, Any]) -> str | None:
        match line["event"]:
            case "dispatch":
                agents = len(line.get("domains") or ()) or 1
                return f"round {line.get('round') or 1}, {plural(agents, 'agent')}"
            case "output":
                name = line.get("title") or line.get("id") or "a finding"
                title = self._foreign.line(str(name))
                severity = line.get("severity")
                return f"{severity} {title}" if severity else title
            case "challenge":
                return f"challenges {line.get('target_finding_id') or 'a finding'}"
            case "progress":
                return f"round {line.get('round')}, {line.get('elapsed_s')} s"
            case "bridge_complete":
                return (
                    f"{str(line.get('status')).lower()}, "
                    f"{plural(line.get('output_count') or 0, 'finding')}"
                )
        return None


def _council_line(line: Mapping[str, Any]) -> str | None:
    match line["event"]:
        case "council_start":
            return (
                f"{line.get('review_id')} begins with "
                f"{', '.join(line.get('bridges') or ())}"
            )
        case "bridge_converted":
            return f"{line.get('bridge')} was skipped ({line.get('halt_reason')})"
    return None
