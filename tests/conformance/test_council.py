"""The council's vectors: every file of the folder is run here, and none may be left unread."""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import Any

import msgspec
import pytest

from bridgehead.contract.ids import id_sort_key
from bridgehead.contract.report import BridgeReport, Output
from bridgehead.contract.timeouts import (
    bridge_deadline,
    estimate_timeout,
    timeout_skip_reason,
    waves,
)
from bridgehead.contract.verdict import decide_verdict
from bridgehead.contract.words import (
    Intensity,
    OutputType,
    Severity,
    Status,
    TaskType,
    Verdict,
)
from bridgehead.council.attendance import Attendance, SeatStatus
from bridgehead.council.debate.ledger import FindingState, Ruling, placement
from bridgehead.council.findings.dismissals import Dismissable, apply_dismissals
from bridgehead.council.findings.evidence import Anchor, check_evidence
from bridgehead.council.findings.fingerprint import Identity, identify
from bridgehead.council.findings.history import FindingRecord, FoundAgain, Run, compare
from bridgehead.council.findings.joining import Comment, join, likeness
from bridgehead.council.findings.problems import distinct_problems
from bridgehead.council.findings.tree import Tree
from bridgehead.council.prompts.packet_limit import (
    NOTE,
    Reduced,
    packet_size,
    reduce_packet,
)
from bridgehead.council.replies.items import Intake
from bridgehead.council.replies.reply import Answered, read_items, read_reply
from bridgehead.council.reporting.gate import Gate, GateOutcome, council_exit_code
from bridgehead.council.reporting.report import STATIC, FindingClass
from bridgehead.council.reporting.sarif import SarifFinding, Suppression, to_sarif
from bridgehead.council.reporting.seat_report import SeatFacts, skipped_report
from bridgehead.council.request.plan import route_request
from bridgehead.council.request.settings import RuntimeSettings, load_settings
from bridgehead.council.runtimes import find_runtime
from bridgehead.council.runtimes.base import HostSeat, SeatSetup, Taken
from bridgehead.council.synthesis.cross_challenge_notes import (
    ChallengeNote,
    NoteOutcome,
    apply_note,
)
from bridgehead.council.synthesis.finding import CouncilFinding, SeatReport
from bridgehead.council.synthesis.join import stage_a
from bridgehead.council.synthesis.proposals import (
    ProposalEvent,
    ProposalStep,
    live_through,
)
from bridgehead.council.synthesis.verdict import council_verdict
from council.support.driving import AT, task
from council.support.finding_entries import finding_entry
from council.support.resuming import Resumed
from support.vector_files import cases, unread_files

READ = {
    "context_size",
    "cross_bridge",
    "dedupe",
    "exit_codes",
    "finding_states",
    "halted",
    "identity",
    "json_extraction",
    "proposals",
    "resume",
    "routing",
    "settings",
    "timeouts",
    "verdicts",
}

Case = dict[str, Any]


def asserted(actual: Case, expected: Case) -> None:
    """Every key that `expect` contains, and only those."""
    assert {key: actual[key] for key in expected} == expected


def output(entry: Case) -> Output:
    """An output from the keys a vector gives; missing texts are empty."""
    blank = {
        "status": None,
        "severity": None,
        "title": "",
        "description": "",
        "evidence": "",
        "action": None,
    }
    known = {
        key: value
        for key, value in entry.items()
        if value is not None or key not in ("requirement_id", "met")
    }
    return msgspec.convert({**blank, "domain": "", "agent": "", **known}, Output)


@pytest.mark.parametrize("case", cases("council", "timeouts"))
def test_timeouts(case: Case) -> None:
    given, expected = dict(case["input"]), case["expect"]
    domains, concurrency = given.pop("domains", 1), given.pop("max_concurrency", 8)
    intensity = Intensity(given.pop("intensity"))
    limit = estimate_timeout(intensity=intensity, **given)
    actual = {
        "base_s": limit.base_s,
        "intensity_multiplier": limit.intensity_multiplier,
        "bridge_multiplier": limit.bridge_multiplier,
        "timeout_s": limit.timeout_s,
        "basis": limit.basis,
        "skip_reason_on_timeout": timeout_skip_reason(limit.timeout_s),
        "waves": waves(domains, concurrency),
        "deadline_s": bridge_deadline(limit.timeout_s, intensity, domains, concurrency),
    }
    asserted(actual, expected)


@pytest.mark.parametrize("case", cases("council", "verdicts"))
def test_verdicts(case: Case) -> None:
    given, expected = case["input"], case["expect"]
    problems = distinct_problems(output(entry) for entry in given["outputs"])
    actual = {
        "verdict": decide_verdict(
            TaskType(given["task_type"]), Status(given["status"]), problems
        ),
        "counted": [
            {"ids": list(p.ids), "severity": p.severity, "gap": p.gap} for p in problems
        ],
    }
    asserted(actual, expected)


@pytest.mark.parametrize("case", cases("council", "dedupe"))
def test_dedupe(case: Case) -> None:
    candidates = [Comment.of(output(entry)) for entry in case["input"]["outputs"]]
    clusters = join(candidates, same_domain=case["input"]["scope"] == "intra-bridge")
    actual = {
        "clusters": [list(found.ids) for found in clusters],
        "kept": sorted((found.survivor.id for found in clusters), key=id_sort_key),
        "discarded": sorted(
            (i for found in clusters for i in found.ids[1:]), key=id_sort_key
        ),
    }
    asserted(actual, case["expect"])

    by_id = {candidate.id: candidate for candidate in candidates}
    for score in case.get("scores_vs_first", []):
        one, other = by_id[score["a"]], by_id[score["b"]]
        assert likeness(one, other).relation == score["location"], json.dumps(score)


@pytest.mark.parametrize("case", cases("council", "context_size"))
def test_context_size(case: Case) -> None:
    expected = dict(case["expect"])
    reduced = reduce_packet(_packet(case["input"]))
    limit = expected.pop("max_shard_chars", None)
    marker = expected.pop("marker_regex", None)
    asserted(_reduction(reduced), expected)
    if limit is not None:
        assert all(packet_size(packet) <= limit for packet in reduced.packets)
    if marker is not None:
        sent = json.dumps([packet["previous_findings"] for packet in reduced.packets])
        assert len(re.findall(marker, sent)) == reduced.cut_findings
    assert NOTE.startswith("NOTE: Prior round context summarized")


def _packet(given: Case) -> Case:
    findings = []
    for group in given["groups"]:
        for _ in range(group["count"]):
            findings.append(
                {
                    "id": f"G{len(findings) + 1:03d}",
                    "type": "finding",
                    "severity": group["severity"],
                    "status": None,
                    "title": "t" * group["title_len"],
                    "description": "d" * group["description_len"],
                    "evidence": "e" * group["evidence_len"],
                    "action": "a" * group["action_len"],
                    "domain": "x" * group.get("domain_len", 8),
                    "agent": "g" * group.get("agent_len", 16),
                }
            )
    challenges = [
        {
            "challenge_id": f"CH{number:03d}",
            "target_finding_id": f"G{number:03d}",
            "challenge_text": "c" * given.get("challenge_len", 120),
            "directed_at_domain": "x" * 8,
        }
        for number in range(1, given.get("challenges", 0) + 1)
    ]
    return {
        "round": 2,
        "active_domains": ["x" * 8],
        "newly_added_domains": [],
        "previous_findings": findings,
        "open_challenges": challenges,
        "synthesis": "s" * given.get("synthesis_len", 80),
    }


def _reduction(reduced: Reduced) -> Case:
    overflow = reduced.overflow
    return {
        "level": reduced.level,
        "sizes_by_level": list(reduced.sizes_by_level),
        "annotated": reduced.annotated,
        "shards": len(reduced.packets),
        "cut_findings": reduced.cut_findings,
        "findings_total": sum(
            len(packet["previous_findings"]) for packet in reduced.packets
        ),
        "embedded_chars": packet_size(reduced.packets[0]),
        "shard_chars": [packet_size(packet) for packet in reduced.packets],
        "shard_finding_counts": [
            len(packet["previous_findings"]) for packet in reduced.packets
        ],
        "context_overflow": overflow is not None,
        "omitted_challenges": overflow.omitted_challenges if overflow else 0,
        "synthesis_cut": overflow.synthesis_cut if overflow else 0,
    }


@pytest.mark.parametrize("case", cases("council", "finding_states"))
def test_finding_states(case: Case) -> None:
    given = case["input"]
    state = FindingState(given["origin_round"])
    for event in given["events"]:
        _happen(state, event)
    status = state.status(given["debate_rounds"])
    actual = {
        "status": status,
        "arrays": list(placement(status)),
        "challenge_states": {
            key: challenge.value for key, challenge in state.challenges.items()
        },
    }
    asserted(actual, case["expect"])


def _happen(state: FindingState, event: Case) -> None:
    challenge_id = event.get("challenge_id")
    match event["event"]:
        case "challenge":
            state.challenge(challenge_id)
        case "defend":
            state.defend(challenge_id)
        case "revise":
            state.revise(*([challenge_id] if challenge_id else []))
        case "withdraw":
            state.withdraw()
        case "ruling":
            state.rule(challenge_id, Ruling(event["ruling"]))
        case "no_response":
            pass
        case other:
            raise AssertionError(f"unknown event {other}")


@pytest.mark.parametrize("case", cases("council", "halted"))
def test_halted(case: Case) -> None:
    given = case["input"]
    reports = given["reports"]
    attendance = Attendance(
        [report["bridge"] for report in reports], interactive=given["interactive"]
    )
    retries = {
        report["bridge"]: list(report.get("after_retry", [])) for report in reports
    }
    answers = {
        bridge: list(typed) for bridge, typed in given.get("answers", {}).items()
    }
    for report in reports:
        attendance.reported(_seat_status(report["bridge"], report))
    while (question := attendance.question()) is not None:
        if not given["interactive"]:
            attendance.convert(question.seat)
            continue
        typed = answers.get(question.seat) or [None]
        if attendance.answered(question.seat, typed.pop(0)):
            attendance.reported(
                _seat_status(question.seat, retries[question.seat].pop(0))
            )
    asserted(_attendance(attendance), case["expect"])


def _seat_status(bridge: str, report: Case) -> SeatStatus:
    return SeatStatus(
        bridge,
        Status(report["status"]),
        report.get("skip_reason"),
        report.get("halt_reason"),
        report.get("halt_message"),
    )


def _attendance(attendance: Attendance) -> Case:
    is_aborted = attendance.abort_reason is not None
    return {
        "outcome": "ABORTED" if is_aborted else "REPORT",
        "abort_reason": attendance.abort_reason,
        "bridges_invoked": list(attendance.invoked),
        "bridges_attempted": list(attendance.invoked),
        "bridges_available": list(attendance.available),
        "bridges_skipped": list(
            attendance.skipped_by_themselves if is_aborted else attendance.skipped
        ),
        "bridges_halted": list(attendance.halted),
        "skip_reasons": dict(attendance.skip_reasons),
        "auto_skipped_halted_bridges": list(attendance.auto_skipped),
        "partial_coverage": attendance.partial_coverage,
    }


@pytest.mark.parametrize("case", cases("council", "json_extraction"))
def test_json_extraction(case: Case) -> None:
    answer = read_reply(case["input"]["reply"], read_items)
    intake = Intake(task())
    entries = (
        [entry for _, entry in answer.value.entries]
        if isinstance(answer, Answered)
        else []
    )
    drafts = [intake.draft(entry) for entry in entries]
    actual = {
        "ok": isinstance(answer, Answered),
        "partial": isinstance(answer, Answered) and answer.partial,
        "titles": [draft.title for draft in drafts],
        "severities": [draft.severity for draft in drafts],
    }
    asserted(actual, case["expect"])


@pytest.mark.parametrize("case", cases("council", "proposals"))
def test_proposals(case: Case) -> None:
    given = case["input"]
    events = [
        ProposalEvent(
            ProposalStep(event["event"]),
            event.get("challenge_id"),
            tuple(event.get("children", ())),
        )
        for event in given["events"]
    ]
    life = live_through(events, chosen=given["chosen"])
    actual = {
        "status": life.state.value,
        "revision": life.revision,
        "open_challenges": list(life.open_challenges),
        "replaced_by": list(life.replaced_by),
    }
    asserted(actual, case["expect"])


@pytest.mark.parametrize("case", cases("council", "resume"))
def test_resume(case: Case) -> None:
    given = case["input"]
    council = Resumed(given["calls"], close=given["close"])
    names = ("reused", "called_again", "folded", "still_waiting", "given_up")
    asserted({name: getattr(council, name) for name in names}, case["expect"])


@pytest.mark.parametrize("case", cases("council", "routing"))
def test_routing(case: Case) -> None:
    given = case["input"]
    explicit = given["explicit_intensity"]
    routed = route_request(
        given["request"],
        domains=given["domains"],
        explicit_route=given["explicit_route"],
        explicit_intensity=Intensity(explicit) if explicit else None,
    )
    actual = {"row": routed.row, "route": routed.route, "intensity": routed.intensity}
    asserted(actual, case["expect"])


@pytest.mark.parametrize("case", cases("council", "exit_codes"))
def test_exit_codes(case: Case) -> None:
    given = case["input"]
    code = council_exit_code(
        GateOutcome(given["outcome"]),
        verdict=Verdict(given["verdict"]) if given["verdict"] else None,
        task_type=TaskType(given["task_type"]),
        gate=Gate(given["gate"]) if given["gate"] else None,
        abort_reason=given["abort_reason"],
        signal=given["signal"],
        pending=given["pending"],
    )
    asserted({"exit_code": int(code)}, case["expect"])


@pytest.mark.parametrize("case", cases("council", "settings"))
def test_settings(case: Case) -> None:
    given, expected = case["input"], dict(case["expect"])
    settings = load_settings(
        given["file_text"],
        dt.datetime.fromisoformat(given["now"]),
        given["known_models"],
    )
    if "warnings" in expected:
        expected["warnings"] = sorted(expected["warnings"])
    actual = {
        "stale": settings.stale,
        "enabled": {name: entry.enabled for name, entry in settings.runtimes.items()},
        "models": {
            name: list(entry.models) for name, entry in settings.runtimes.items()
        },
        "opencode_dispatch": _dispatch_mode(settings.runtimes["opencode"]),
        "reasoning_level": settings.reasoning_level,
        "ttl_hours": settings.ttl_hours,
        "warnings": sorted(settings.warnings),
        "model_validation_warnings": {
            name: [
                {"model": warning.model, "reason": warning.reason}
                for warning in entry.model_warnings
            ]
            for name, entry in settings.runtimes.items()
            if entry.model_warnings
        },
    }
    asserted(actual, expected)


def _dispatch_mode(opencode: RuntimeSettings) -> str:
    seat = Taken(
        task=task(),
        setup=SeatSetup(runtime="opencode", settings=opencode),
        connection=HostSeat(),
        models=opencode.models,
        reasoning=None,
        has_agents=False,
        uses_teams=False,
    )
    return str(find_runtime("opencode").report_fields(seat)["dispatch_mode"])


@pytest.mark.parametrize("case", cases("council", "cross_bridge"))
def test_cross_bridge(case: Case) -> None:
    given, expected = case["input"], dict(case["expect"])
    task_type = TaskType(given["task_type"])
    reports = [_seat_report(report, task_type) for report in given["reports"]]
    findings = stage_a(reports, task_type)
    for outcome in given.get("stage_b", []):
        findings = [_after_stage_b(finding, outcome) for finding in findings]
    completed = [seat for seat in reports if seat.report.status is Status.COMPLETED]
    several = sum(seat.makes_a_council for seat in completed) > 1 and not given.get(
        "fallback", False
    )
    actual = {
        "verdict": council_verdict(
            findings, task_type=task_type, mode=None, several_seats=several
        ),
        "findings": _as_set([_told(finding) for finding in findings]),
        "static_confirmed": sorted(
            source.output.id
            for finding in findings
            if finding.has_static_evidence
            for source in finding.sources
            if source.seat.name != STATIC
        ),
    }
    expected["findings"] = _as_set(expected["findings"])
    asserted(actual, expected)


def _seat_report(report: Case, task_type: TaskType) -> SeatReport:
    facts = SeatFacts(
        name=report["bridge"],
        timeout_seconds=60,
        started_at=AT,
        finished_at=AT,
        connection=report["connection_used"],
    )
    blank: BridgeReport = skipped_report(task(task_type=task_type.value), facts, "none")
    made = msgspec.structs.replace(
        blank,
        status=Status(report["status"]),
        outputs=tuple(output(entry) for entry in report.get("outputs", [])),
        withdrawn_outputs=tuple(
            output(entry) for entry in report.get("withdrawn_outputs", [])
        ),
    )
    return SeatReport(made, report.get("verified", True))


def _after_stage_b(finding: CouncilFinding, outcome: Case) -> CouncilFinding:
    if outcome["source_id"] not in {source.output.id for source in finding.sources}:
        return finding
    new_severity = outcome.get("new_severity")
    note = ChallengeNote(
        finding_id=finding.id,
        outcome=NoteOutcome(outcome["outcome"]),
        new_severity=Severity(new_severity) if new_severity else None,
        cites_evidence=outcome.get("cites_evidence", False),
    )
    return apply_note(finding, note)


def _told(finding: CouncilFinding) -> Case:
    return {
        "class": finding.cls.value,
        "severity": finding.severity,
        "bridges": list(finding.seats),
        "source_ids": sorted(source.output.id for source in finding.sources),
        "shared_cli_path": finding.shared_cli_path,
    }


def _as_set(findings: list[Case]) -> list[str]:
    return sorted(json.dumps(finding, sort_keys=True) for finding in findings)


@pytest.mark.parametrize("case", cases("council", "identity"))
def test_identity(case: Case) -> None:
    IDENTITY[case["input"]["function"]](case["input"], case["expect"])


def _tree(texts: Case) -> Tree:
    return Tree.of(
        {
            path: "\n".join(text) + "\n" if isinstance(text, list) else text
            for path, text in texts.items()
        }
    )


def _identified(
    item: Case, tree: Tree, renames: dict[str, str]
) -> tuple[Anchor | None, Identity]:
    anchor = check_evidence(item.get("evidence"), tree).anchor
    identity = identify(
        type=OutputType(item["type"]),
        title=item["title"],
        domain=item["domain"],
        requirement_id=item.get("requirement_id"),
        anchor=anchor,
        tree=tree,
        renames=renames,
    )
    return anchor, identity


def _check_evidence(given: Case, expected: Case) -> None:
    check = check_evidence(given["evidence"], _tree(given["tree"]))
    anchor = check.anchor
    told = (
        None if anchor is None else {"path": anchor.path, "lines": list(anchor.lines)}
    )
    asserted({**check.to_json(), "anchor": told}, expected)


def _fingerprint(given: Case, expected: Case) -> None:
    identities = {
        name: _identified(
            variant["item"], _tree(variant["tree"]), variant.get("renames", {})
        )[1]
        for name, variant in given["variants"].items()
    }
    groups: dict[str, list[str]] = {}
    for name, identity in identities.items():
        groups.setdefault(identity.fingerprint, []).append(name)
    actual = {
        "fingerprints": {
            name: identity.fingerprint for name, identity in identities.items()
        },
        "groups": sorted(sorted(names) for names in groups.values()),
        "aliases": {
            name: list(one.aliases) for name, one in identities.items() if one.aliases
        },
    }
    asserted(actual, expected)


def _compare(given: Case, expected: Case) -> None:
    tree, renames, run = _tree(given["tree"]), given.get("renames", {}), given["run"]
    findings = {
        item["id"]: _found_again(item, tree, renames) for item in run["findings"]
    }
    comparison = compare(
        msgspec.convert(given["records"], list[FindingRecord]),
        Run(
            findings,
            frozenset(run["seats_completed"]),
            frozenset(run["files"]),
            frozenset(run["domains_covered"]),
            tuple(run["scope"]),
        ),
        tree,
        renames,
    )
    current = {
        name: {"state": one.state}
        if one.record is None
        else {"state": one.state, "record": one.record, "changed": one.changed}
        for name, one in comparison.current.items()
    }
    previous = {
        key: {
            name: value
            for name, value in (
                ("state", one.state),
                ("how", one.how),
                ("why", one.why),
            )
            if value is not None
        }
        for key, one in comparison.previous.items()
    }
    asserted({"current": current, "previous": previous}, expected)


def _found_again(item: Case, tree: Tree, renames: dict[str, str]) -> FoundAgain:
    anchor, identity = _identified(item, tree, renames)
    return FoundAgain(
        type=OutputType(item["type"]),
        title=item["title"],
        description=item["description"],
        fingerprints=identity.all,
        requirement_id=item.get("requirement_id"),
        path=anchor.path if anchor else None,
        lines=anchor.lines if anchor else None,
    )


def _apply_dismissals(given: Case, expected: Case) -> None:
    tree, renames = _tree(given["tree"]), given.get("renames", {})
    findings = []
    for item in given["findings"]:
        anchor, identity = _identified(item, tree, renames)
        severity = Severity(item["severity"]) if item["severity"] else None
        findings.append(
            Dismissable(item["id"], severity, item["title"], identity.all, anchor)
        )
    today = dt.date.fromisoformat(given["today"])
    result = apply_dismissals(given["entries"], findings, tree, renames, today)
    actual = {
        "entries": [
            {"status": one.status, "why": one.why}
            if one.why
            else {"status": one.status}
            for one in result.entries
        ],
        "dismissed": dict(result.dismissed),
        "notes": {
            name: {"entry": note.entry, "why": note.why}
            for name, note in result.notes.items()
        },
        "proposed": dict(result.proposed),
    }
    asserted(actual, expected)


def _to_sarif(given: Case, expected: Case) -> None:
    dismissed, states = given.get("dismissed", {}), given.get("states")
    findings = [_sarif_finding(entry, dismissed, states) for entry in given["findings"]]
    written = to_sarif(findings, "review/r1")
    run = written.log["runs"][0]
    actual = {
        "rules": [_sarif_rule(rule) for rule in run["tool"]["driver"]["rules"]],
        "results": [_sarif_result(result) for result in run["results"]],
        "without_location": list(written.without_location),
        "truncated": written.truncated,
    }
    asserted(actual, expected)


def _sarif_finding(entry: Case, dismissed: Case, states: Case | None) -> SarifFinding:
    location = entry["location"]
    reason = dismissed.get(entry["id"])
    written = finding_entry(
        id=entry["id"],
        cls=FindingClass(entry["class"]),
        type=OutputType(entry["type"]),
        severity=Severity(entry["severity"]) if entry["severity"] else None,
        title=entry["title"],
        description=entry["description"],
        domains=tuple(entry["domains"]),
        fingerprint=entry["fingerprint"],
        state=states[entry["id"]]["state"]
        if states and entry["id"] in states
        else None,
    )
    return SarifFinding(
        written,
        location=Anchor(location["path"], tuple(location["lines"]))
        if location
        else None,
        suppression=Suppression(reason) if reason is not None else None,
    )


def _sarif_rule(rule: Case) -> Case:
    told = {"id": rule["id"], "tags": rule["properties"]["tags"]}
    if "security-severity" in rule["properties"]:
        told["security-severity"] = rule["properties"]["security-severity"]
    return told


def _sarif_result(result: Case) -> Case:
    physical = result["locations"][0]["physicalLocation"]
    told = {
        "id": result["properties"]["id"],
        "ruleId": result["ruleId"],
        "ruleIndex": result["ruleIndex"],
        "level": result["level"],
        "message": result["message"]["text"],
        "partialFingerprints": result["partialFingerprints"],
        "uri": physical["artifactLocation"]["uri"],
        "startLine": physical["region"]["startLine"],
        "endLine": physical["region"]["endLine"],
        "suppressions": [
            {key: value for key, value in one.items() if key != "properties"}
            for one in result["suppressions"]
        ],
    }
    if "state" in result["properties"]:
        told["state"] = result["properties"]["state"]
    return told


IDENTITY = {
    "check_evidence": _check_evidence,
    "fingerprint": _fingerprint,
    "compare": _compare,
    "apply_dismissals": _apply_dismissals,
    "to_sarif": _to_sarif,
}


@pytest.mark.parametrize(
    "name", unread_files("council", READ) or [pytest.param("", id="council-all-read")]
)
def test_no_vector_file_is_left_unread(name: str) -> None:
    assert name == "", (
        f"{name} has no test"
    )  # a file nobody reads yet is a visible skip
