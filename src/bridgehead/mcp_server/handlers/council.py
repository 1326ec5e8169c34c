"""The tools `council` and `council_status`: hold a council, go on with one, look at one."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bridgehead.assembly.council import Company, Councils, Finished
from bridgehead.assembly.council_request import CouncilRequest
from bridgehead.assembly.council_views import council_now, list_councils
from bridgehead.assembly.waiting import waiting_list
from bridgehead.contract.pending import Answer, PendingItem
from bridgehead.contract.words import Part, PendingKind, PendingState
from bridgehead.control_plane.records import PendingFilter
from bridgehead.council.discovery import executor_type, host_bridge
from bridgehead.council.plan import CouncilOptions
from bridgehead.council.scope import ScopeRequest
from bridgehead.errors import AlreadyAnswered, NotFound, UserError
from bridgehead.host.clock import SystemClock, iso_ms
from bridgehead.mcp_server.arguments import CouncilArguments, CouncilStatusArguments, HostAnswer
from bridgehead.mcp_server.caller import Asked, Caller, SeatPrompt, Spoken
from bridgehead.mcp_server.council_progress import ProgressMessages
from bridgehead.mcp_server.council_telling import listed_text, tell_finished, tell_now
from bridgehead.mcp_server.results import CouncilStatusResult

AUTO, NONE = "auto", "none"
HOST_UNKNOWN = "host_unknown"
MOST_REQUESTS = 1_000


def hold(caller: Caller, wanted: CouncilArguments) -> Spoken:
    """Start a council, or go on with one; ends with a report, or with what somebody has to answer first."""
    councils = Councils(caller.assembly)
    company = Company(watchers=(ProgressMessages(caller.progress),), stop=caller.cancel)
    if wanted.resume is None:
        finished = councils.call(_request(caller, wanted), company)
    else:
        review_id = _council_here(caller, wanted.resume)
        _give_answers(caller, review_id, wanted.answers)
        finished = councils.resume(review_id, company, retry=wanted.retry, close=wanted.close)
    return _told(caller, finished)


def status(caller: Caller, wanted: CouncilStatusArguments) -> Spoken:
    """The councils of this project, or one of them."""
    if wanted.review_id is None:
        page = list_councils(caller.assembly, limit=wanted.limit, project=caller.assembly.project)
        text, councils = listed_text(page.councils)
        return Spoken(CouncilStatusResult(councils=councils), text)
    now = council_now(caller.assembly, _council_here(caller, wanted.review_id))
    requests = _open_requests(caller, now.council.id)
    result, text = tell_now(caller.assembly, now, requests)
    return Spoken(CouncilStatusResult(note=result.note, council=result), text)


def _council_here(caller: Caller, reference: str) -> str:
    """The id of a council of this project, given by it or its beginning or end."""
    with caller.assembly.store(read_only=True) as store:
        run = store.find_run(reference)
    if run.part is not Part.COUNCIL or run.project != caller.assembly.project:
        raise NotFound(f"{run.id} is no council of this project", hint="the tool `council_status` lists them")
    return run.id


# -- a new council


def _request(caller: Caller, wanted: CouncilArguments) -> CouncilRequest:
    for name, given in (("answers", wanted.answers), ("retry", wanted.retry), ("close", wanted.close)):
        if given:
            raise UserError(f"{name} goes with resume: name the council it is for")
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
        options=msgspec.structs.replace(
            # An argument named like an option is that option.
            msgspec.convert(wanted, CouncilOptions, from_attributes=True),
            host_seat=_host_seat(caller, wanted),
        ),
    )


def _host_seat(caller: Caller, wanted: CouncilArguments) -> str | None:
    """The seat of the calling agent: on over MCP, unless it is declined or others were named (council §4)."""
    if wanted.host_seat == NONE:
        return None
    if wanted.host_seat != AUTO:
        return wanted.host_seat
    family = host_bridge(executor_type(caller.assembly.environ, caller.client.name))
    if family is None:
        caller.tell(HOST_UNKNOWN)
        return None
    return family if not wanted.runtimes or family in wanted.runtimes else None


# -- the requests of the calling agent's seat


def _give_answers(caller: Caller, review_id: str, answers: Sequence[HostAnswer]) -> None:
    """Answer each request once; nothing is answered when one of them is not this council's or not open."""
    if not answers:
        return
    now = iso_ms(SystemClock().now())
    with caller.assembly.store() as store:
        waiting = waiting_list(caller.assembly, store, caller.tell)
        for one in answers:
            _refuse_other(waiting.find(one.id), review_id)
        for one in answers:
            waiting.answer(one.id, Answer(text=one.text, by=f"{caller.client.name} (MCP)", at=now))


def _refuse_other(item: PendingItem, review_id: str) -> None:
    if item.question.run_id != f"council-{review_id}":
        raise UserError(f"{item.id} is no request of council {review_id}; nothing was answered")
    if item.state is PendingState.ANSWERED:
        by, at = (item.answer.by, item.answer.at) if item.answer else (None, None)
        raise AlreadyAnswered(item.id, by=by, at=at)


def _open_requests(caller: Caller, review_id: str) -> list[PendingItem]:
    where = PendingFilter(kinds=(PendingKind.FLOW_REQUEST,), run_id=f"council-{review_id}")
    with caller.assembly.store(read_only=True) as store:
        return sorted(store.pending(where, limit=MOST_REQUESTS), key=lambda item: item.opened_at)


def _told(caller: Caller, finished: Finished) -> Spoken:
    waiting = _open_requests(caller, finished.kept.review_id) if finished.pause is not None else []
    result, text = tell_finished(finished, waiting)
    if caller.warnings:
        result = msgspec.structs.replace(result, warnings=[*result.warnings, *caller.warnings])
    prompts = tuple(SeatPrompt(item.id, item.question.prompt) for item in waiting)
    return Spoken(result, text, Asked(finished.kept.review_id, prompts) if prompts else None)
