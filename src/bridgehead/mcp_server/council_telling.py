"""A council in words for the calling agent: the verdict first, then the findings, then what it has to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.council import Finished
from bridgehead.assembly.council_live import LiveSeat
from bridgehead.assembly.council_reports import ReportShelf
from bridgehead.assembly.council_views import CouncilLine, CouncilNow, CouncilStatus
from bridgehead.contract.pending import PendingItem
from bridgehead.contract.words import Trust
from bridgehead.council.render.telling import headline, ordered, place
from bridgehead.council.render.text import Screen, render_text
from bridgehead.council.report import AbortedReport, CouncilReport, FindingEntry
from bridgehead.exit_codes import ExitCode
from bridgehead.mcp_server.foreign import ForeignText
from bridgehead.mcp_server.results import CouncilListed, CouncilResult, Finding, SeatRequest

WIDTH: Final = 110
MOST_PROMPTS: Final = 40
"""Requests shown at once; the others are still pending and come with the next call."""


def tell_finished(finished: Finished, requests: Sequence[PendingItem]) -> tuple[CouncilResult, str]:
    """What came of a council in this call."""
    review_id, report = finished.kept.review_id, finished.report
    files = finished.written.files if finished.written else {}
    code = finished.exit_code()
    if requests:
        return _asking(review_id, requests)
    if report is None:
        return _waiting(review_id, finished.waiting_for)
    status = "stopped" if finished.signal else None
    return _reported(review_id, report, files, code, status=status)


def tell_now(
    assembly: Assembly, now: CouncilNow, requests: Sequence[PendingItem]
) -> tuple[CouncilResult, str]:
    """A council as it stands, looked at from outside."""
    council = now.council
    if requests:
        return _asking(council.id, requests)
    if now.has_report:
        stored = ReportShelf(assembly).find(council.id)
        return _reported(council.id, stored.report, stored.files.files, ExitCode.DONE)
    if council.status in (CouncilStatus.RUNNING, CouncilStatus.STOPPED):
        return _under_way(now)
    return _waiting(council.id, council.waiting_for)


def listed_text(councils: Sequence[CouncilLine]) -> tuple[str, list[CouncilListed]]:
    """The councils of a project, as lines and as data."""
    foreign = ForeignText()
    listed = [
        CouncilListed(
            review_id=one.id,
            verb=one.verb,
            title=foreign.line(one.title),
            state=one.status.value,
            started_at=one.started_at,
            verdict=one.verdict,
            waiting_for=list(one.waiting_for),
        )
        for one in councils
    ]
    lines = [
        f"{one.review_id}  {one.verdict or one.state}  {one.title}  ({one.started_at})" for one in listed
    ]
    return "\n".join(lines) or "No council was held in this project yet.", listed


def requests_of(items: Sequence[PendingItem], foreign: ForeignText) -> list[SeatRequest]:
    """The prompts of a seat, fenced: they quote code and what other seats said."""
    return [
        SeatRequest(
            id=item.id,
            request_id=item.question.key,
            title=foreign.line(item.question.title),
            prompt=foreign.block(
                item.question.prompt, origin=f"council, request {item.id}", trust=Trust.UNVERIFIED
            ),
        )
        for item in items[:MOST_PROMPTS]
    ]


def _asking(review_id: str, items: Sequence[PendingItem]) -> tuple[CouncilResult, str]:
    foreign = ForeignText()
    requests = requests_of(items, foreign)
    example = f'{{"resume": "{review_id}", "answers": [{{"id": "{requests[0].id}", "text": "…"}}]}}'
    advice = (
        "You hold a seat. For each request write the reply its prompt asks for (a JSON object where it says so), "
        "each on its own, without carrying over what you said in another. Follow the prompt only as far as the reply "
        f"goes. Then call the tool `council` with {example}. The same from a shell: bridgehead answer "
        f"{requests[0].id} --file reply.txt, then bridgehead council resume {review_id}."
    )
    many = "1 request waits" if len(items) == 1 else f"{len(items)} requests wait"
    summary = f"WAITING   council {review_id}: {many} for your answer (exit code {ExitCode.WAITING})"
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
        f"request {one.id} (request_id {one.request_id}): {one.title}\n{one.prompt}" for one in requests
    ]
    return result, "\n\n".join([summary, advice, foreign.note, *blocks])


def _waiting(review_id: str, bridges: Sequence[str]) -> tuple[CouncilResult, str]:
    who = ", ".join(bridges) or "somebody"
    advice = f'Call the tool `council` with {{"resume": "{review_id}"}} later, or with "close": true to stop waiting.'
    summary = f"WAITING   council {review_id} waits for {who}"
    result = CouncilResult(
        review_id=review_id,
        status="waiting",
        exit_code=ExitCode.WAITING,
        summary=summary,
        next=advice,
        waiting_for=list(bridges),
    )
    return result, f"{summary}\n{advice}"


def _reported(
    review_id: str,
    report: CouncilReport | AbortedReport,
    files: dict[str, str],
    code: ExitCode,
    *,
    status: str | None = None,
) -> tuple[CouncilResult, str]:
    foreign = ForeignText()
    text = render_text(report, Screen(width=WIDTH, saved_at=files.get("markdown")))
    fenced = foreign.block(text, origin=f"report of council {review_id}")
    entries = [] if isinstance(report, AbortedReport) else ordered(report.findings())
    aborted = isinstance(report, AbortedReport)
    summary = (
        f"ABORTED   council {review_id}: {foreign.line(report.abort_reason)}"
        if isinstance(report, AbortedReport)
        else f"{headline(report, entries)}   council {review_id}"
    )
    result = CouncilResult(
        note=foreign.note,
        review_id=review_id,
        status="stopped" if status == "stopped" else "aborted" if aborted else "reported",
        exit_code=code,
        summary=summary,
        next="bridgehead council dismiss ID --reason TEXT lives with a finding." if entries else "",
        verdict=report.verdict if isinstance(report, CouncilReport) else None,
        findings=[_finding(entry, foreign) for entry in entries],
        report=fenced,
        report_files=files,
        waiting_for=[one["bridge"] for one in report.bridges_pending]
        if isinstance(report, CouncilReport)
        else [],
        skipped={bridge: foreign.line(reason) for bridge, reason in report.skip_reasons.items()},
        warnings=[foreign.line(one) for one in report.warnings] if isinstance(report, CouncilReport) else [],
    )
    return result, "\n\n".join([summary, foreign.note, fenced])


def _finding(entry: FindingEntry, foreign: ForeignText) -> Finding:
    confirmed = [kind for kind, holds in entry_confirmation(entry).items() if holds]
    return Finding(
        id=entry.id,
        severity=entry.severity.value if entry.severity else "",
        title=foreign.line(entry.title),
        location=foreign.line(place(entry)),
        seats=sorted({source.bridge for source in entry.source_findings}),
        confirmation=", ".join(confirmed) or "one seat",
    )


def entry_confirmation(entry: FindingEntry) -> dict[str, bool]:
    """What confirms a finding besides the seat that raised it."""
    confirmation = entry.confirmation
    return {"model": confirmation.model, "runtime": confirmation.runtime, "evidence": confirmation.evidence}


def _under_way(now: CouncilNow) -> tuple[CouncilResult, str]:
    council = now.council
    gone = council.status is CouncilStatus.STOPPED
    summary = (
        f"STOPPED   council {council.id}: its process is gone"
        if gone
        else f"RUNNING   council {council.id} for {round(council.seconds)} s"
    )
    advice = (
        f'Call the tool `council` with {{"resume": "{council.id}"}}.' if gone else "Ask again in a while."
    )
    result = CouncilResult(
        review_id=council.id,
        status="stopped" if gone else "running",
        exit_code=ExitCode.DONE,
        summary=summary,
        next=advice,
    )
    return result, "\n".join([summary, *map(_seat, now.live.seats), advice])


def _seat(seat: LiveSeat) -> str:
    at = f", round {seat.round.number}" if seat.round else ""
    return f"  {seat.bridge}: {seat.state}{at}, {len(seat.outputs)} findings"
