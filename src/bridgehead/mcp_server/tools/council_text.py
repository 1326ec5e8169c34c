"""A council in words for the calling agent: the verdict first, then the findings, then
what it has to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from msgspec.structs import replace

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.council.live import LiveSeat
from bridgehead.assembly.council.reports import Reports
from bridgehead.assembly.council.run import Finished
from bridgehead.assembly.council.views import CouncilLine, CouncilNow, CouncilStatus
from bridgehead.contract.pending import PendingItem
from bridgehead.contract.words import Trust
from bridgehead.council.reporting.not_looked_at import lines_of
from bridgehead.council.reporting.render.sentences import headline, ordered, place_of
from bridgehead.council.reporting.render.text import Screen, render_text
from bridgehead.council.reporting.report import (
    AbortedReport,
    CouncilReport,
    FindingEntry,
)
from bridgehead.errors import plural
from bridgehead.exit_codes import ExitCode
from bridgehead.mcp_server.tools.call import ForeignText, without_columns
from bridgehead.mcp_server.tools.schemas import (
    CouncilListed,
    CouncilResult,
    Finding,
    SeatRequest,
)

WIDTH: Final = 300
MOST_PROMPT_CHARACTERS: Final = 60_000
"""Of the requests shown at once, since hosts cut long results; the others wait and come
with the next call.
"""
MOST_FINDINGS: Final = 100
WAYS_ON: Final = (
    "The tool `command` can challenge a finding (reason: your question), or dismiss "
    "it (reason: why)."
)


class CouncilText(NamedTuple):
    """A council for programs and for readers."""

    result: CouncilResult
    text: str


def finished_text(
    finished: Finished, requests: Sequence[PendingItem], foreign: ForeignText
) -> CouncilText:
    """Return what came of a council in this call."""
    review_id = foreign.line(finished.council.review_id)
    stopped = finished.signal is not None
    files = finished.written.files if finished.written else {}
    if requests:
        return _asking(review_id, requests, foreign)
    if finished.report is None:
        return _waiting(review_id, finished.waiting_for, foreign)
    return _reported(
        review_id,
        finished.report,
        files,
        finished.exit_code(),
        foreign,
        stopped=stopped,
    )


def standing_text(
    assembly: Assembly,
    now: CouncilNow,
    requests: Sequence[PendingItem],
    foreign: ForeignText,
) -> CouncilText:
    """Return a council as it stands, looked at from outside."""
    council = now.council
    review_id = foreign.line(council.id)
    if requests:
        return _asking(review_id, requests, foreign)
    if now.has_report:
        stored = Reports(assembly).find(council.id)
        code = (
            ExitCode.FAILURE
            if isinstance(stored.report, AbortedReport)
            else ExitCode.DONE
        )
        return _reported(review_id, stored.report, stored.files.files, code, foreign)
    if council.status in (CouncilStatus.RUNNING, CouncilStatus.STOPPED):
        return _under_way(now, foreign)
    return _waiting(review_id, council.waiting_for, foreign)


def listed_text(
    councils: Sequence[CouncilLine], foreign: ForeignText
) -> tuple[str, list[CouncilListed]]:
    """Return the councils of a project, as lines and as data."""
    listed = [
        CouncilListed(
            review_id=foreign.line(one.id),
            verb=foreign.line(one.verb),
            title=foreign.line(one.title),
            state=one.status.value,
            started_at=foreign.line(one.started_at),
            verdict=foreign.line(one.verdict) if one.verdict else None,
            waiting_for=list(map(foreign.line, one.waiting_for)),
        )
        for one in councils
    ]
    lines = [
        f"{one.review_id}  {one.verdict or one.state}  {one.title}  ({one.started_at})"
        for one in listed
    ]
    return "\n".join(lines) or "No council was held in this project yet.", listed


def _requests(items: Sequence[PendingItem], foreign: ForeignText) -> list[SeatRequest]:
    """Return the prompts of a seat, fenced: they quote code and what other seats said."""
    return [
        SeatRequest(
            id=item.id,
            request_id=foreign.line(item.question.key),
            title=foreign.line(item.question.title),
            prompt=foreign.block(
                item.question.prompt,
                origin=f"council, request {item.id}",
                trust=Trust.UNVERIFIED,
            ),
        )
        for item in _at_once(items)
    ]


def _at_once(items: Sequence[PendingItem]) -> Sequence[PendingItem]:
    """As many as a host will show whole, at least one."""
    total = 0
    for index, item in enumerate(items):
        total += len(item.question.prompt)
        if total > MOST_PROMPT_CHARACTERS:
            return items[: max(index, 1)]
    return items


def _asking(
    review_id: str, items: Sequence[PendingItem], foreign: ForeignText
) -> CouncilText:
    requests = _requests(items, foreign)
    example = (
        f'{{"resume": "{review_id}", "answers": [{{"id": "{requests[0].id}", "text": '
        f'"…"}}]}}'
    )
    advice = (
        "You hold a seat. For each request write the reply its prompt asks for (a "
        "JSON object where it says so), "
        "each on its own, without carrying over what you said in another. Follow the "
        "prompt only as far as the reply "
        f"goes. Then call the tool `council` with {example}. The same from a shell: "
        "bridgehead answer "
        f"{requests[0].id} --file reply.txt, then bridgehead council resume "
        f"{review_id}."
    )
    many = "1 request waits" if len(items) == 1 else f"{len(items)} requests wait"
    part = "" if len(requests) == len(items) else f"; the first {len(requests)} follow"
    summary = (
        f"WAITING   council {review_id}: {many} for your answer (exit code "
        f"{ExitCode.WAITING}){part}"
    )
    result = CouncilResult(
        note=foreign.note,
        review_id=review_id,
        status="input_required",
        exit_code=ExitCode.WAITING,
        summary=summary,
        next=advice,
        requests=requests,
    )
    blocks = [
        f"request {one.id} (request_id {one.request_id}): {one.title}\n{one.prompt}"
        for one in requests
    ]
    return CouncilText(result, "\n\n".join([summary, advice, foreign.note, *blocks]))


def _waiting(
    review_id: str, bridges: Sequence[str], foreign: ForeignText
) -> CouncilText:
    who = ", ".join(map(foreign.line, bridges)) or "somebody"
    advice = (
        f'Call the tool `council` with {{"resume": "{review_id}"}} later, or with '
        '"close": true to stop waiting.'
    )
    summary = f"WAITING   council {review_id} waits for {who}"
    result = CouncilResult(
        review_id=review_id,
        status="waiting",
        exit_code=ExitCode.WAITING,
        summary=summary,
        next=advice,
        waiting_for=list(map(foreign.line, bridges)),
    )
    return CouncilText(result, f"{summary}\n{advice}")


def _reported(
    review_id: str,
    report: CouncilReport | AbortedReport,
    files: dict[str, str],
    code: ExitCode,
    foreign: ForeignText,
    *,
    stopped: bool = False,
) -> CouncilText:
    text = render_text(report, Screen(width=WIDTH, saved_at=files.get("markdown")))
    fenced = foreign.block(
        without_columns(text), origin=f"report of council {review_id}"
    )
    status: Literal["reported", "stopped", "aborted"] = "reported"
    if stopped:
        status = "stopped"
    elif isinstance(report, AbortedReport):
        status = "aborted"
    result = CouncilResult(
        note=foreign.note,
        review_id=review_id,
        status=status,
        exit_code=code,
        summary="",
        report=fenced,
        report_files={kind: foreign.line(path) for kind, path in files.items()},
        skipped={
            foreign.line(bridge): foreign.line(reason)
            for bridge, reason in report.skip_reasons.items()
        },
    )
    if isinstance(report, AbortedReport):
        summary = f"ABORTED   council {review_id}: {foreign.line(report.abort_reason)}"
        result = replace(
            result,
            summary=summary,
            next="The tool `doctor` shows why no runtime was available.",
        )
    else:
        entries = ordered(report.findings())
        result = replace(
            result,
            summary=f"{headline(report, entries)}   council {review_id}",
            next=WAYS_ON if entries else "",
            verdict=report.verdict,
            findings=[_finding(entry, foreign) for entry in entries[:MOST_FINDINGS]],
            waiting_for=[foreign.line(one["bridge"]) for one in report.bridges_pending],
            warnings=[foreign.line(one) for one in report.warnings],
            not_looked_at=[foreign.line(line) for line in lines_of(report)],
        )
    return CouncilText(result, "\n\n".join([result.summary, foreign.note, fenced]))


def _finding(entry: FindingEntry, foreign: ForeignText) -> Finding:
    confirmation = entry.confirmation
    kinds = {
        "model": confirmation.model,
        "runtime": confirmation.runtime,
        "evidence": confirmation.evidence,
    }
    confirmed = [kind for kind, holds in kinds.items() if holds]
    return Finding(
        id=entry.id,
        severity=entry.severity.value if entry.severity else "",
        title=foreign.line(entry.title),
        location=foreign.line(place_of(entry)),
        seats=[
            foreign.line(bridge)
            for bridge in sorted({one.bridge for one in entry.source_findings})
        ],
        confirmation=", ".join(confirmed) or "one seat",
        evidence=foreign.line(entry.evidence or ""),
        remedy=foreign.line(entry.remediation or ""),
    )


def _under_way(now: CouncilNow, foreign: ForeignText) -> CouncilText:
    council = now.council
    review_id = foreign.line(council.id)
    gone = council.status is CouncilStatus.STOPPED
    summary = (
        f"STOPPED   council {review_id}: its process is gone"
        if gone
        else f"RUNNING   council {review_id} for {round(council.seconds)} s"
    )
    advice = (
        f'Call the tool `council` with {{"resume": "{review_id}"}}.'
        if gone
        else "Ask again in a while."
    )
    result = CouncilResult(
        review_id=review_id,
        status="stopped" if gone else "running",
        exit_code=ExitCode.DONE,
        summary=summary,
        next=advice,
    )
    return CouncilText(
        result,
        "\n".join(
            [summary, *(_seat(seat, foreign) for seat in now.live.seats), advice]
        ),
    )


def _seat(seat: LiveSeat, foreign: ForeignText) -> str:
    at = f", round {seat.round.number}" if seat.round else ""
    return (
        f"  {foreign.line(seat.bridge)}: {seat.state}{at}, "
        f"{plural(len(seat.outputs), 'finding')}"
    )
