"""Sentences about a report that text, Markdown and page share: standings, warnings, reasons; foreign text made
harmless.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from bridgehead.contract.ids import id_sort_key
from bridgehead.contract.words import ErrorClass, Severity, Status, severity_rank
from bridgehead.council.findings.evidence import read_citations
from bridgehead.council.refusals import advice_for, classify
from bridgehead.council.reporting.report import (
    STATIC,
    CitedLines,
    CouncilReport,
    FindingClass,
    FindingEntry,
    Participant,
)
from bridgehead.errors import plural, shortened

_SENTENCES: Final = {
    "no_model_took_part": "no model took part: this is static analysis only",
    "interrupted": "stopped before its end: the report is partial",
    "scope_changed_since_start": "the files changed during the run; the report covers their state at the start",
    "budget_reached": "the budget was reached; raise --max-calls or --max-cost to finish",
    "uncommitted_left_out": "based on the last commit; uncommitted changes are not included",
    "material_left_out": "not everything fit into the prompts; left out by seat: {detail}",
    "static_truncated": (
        "the analysers found more than the report lists; the least severe are left "
        "out: {detail}"
    ),
    "analyser_failed": "an analyser failed, so its findings are missing: {detail}",
    "analyser_absent": "analysers not installed: {detail}; see `bridgehead runtimes`",
    "borrowed_code": (
        "generated and vendored code was not reviewed: {detail}; name a file to have it "
        "reviewed"
    ),
    "suppressed_by_comment": "suppressed by a comment: {detail}",
    "comment_not_obeyed": (
        "comments of this change that would silence an analyser, and were not obeyed: "
        "{detail}"
    ),
    "question_unanswered": "the question about {detail} was not answered; the finding is unchanged",
    "model_replaced": "models from the settings were not available, others answered: {detail}",
    "untrusted_setting_ignored": (
        ".bridge-settings.json is not trusted, so these settings were ignored: "
        "{detail}; "
        "read it, then: bridgehead config trust .bridge-settings.json"
    ),
    "required_missing": "required, but did not look to the end, so nothing passes: {detail}",
    "shallow_clone": (
        "the clone is shallow, so it is not known where the change left its base, and "
        "other changes of the base may be among it: git fetch --unshallow, or "
        "fetch-depth: 0 of actions/checkout"
    ),
    "settings_of_change_ignored": (
        "the change brings its own settings, which were not used: {detail}; read them, "
        "then: bridgehead config trust FILE"
    ),
    "asked_without_tools": (
        "{detail} cannot be confined on this machine, so it was asked without its "
        "tools; "
        "`bridgehead doctor` shows what is missing"
    ),
    "untrusted_domains_ignored": (
        ".bridgehead/domains.toml is not trusted, so its domains were ignored; "
        "read it, then: bridgehead config trust .bridgehead/domains.toml"
    ),
    "cost_unknown": "{detail} does not report its cost; it was counted as 0",
}
_IN_REPORTS: Final = {
    **_SENTENCES,
    "left_out": (
        "not shown to the models, or shown with secrets masked, by reason and number "
        "of files: {detail}"
    ),
    "settings_stale": ".bridge-settings.json has expired; --write-settings renews it",
    "halted_bridge_skipped": "{detail} needed an answer and was left out; see `bridgehead pending`",
    "da_challenge_missing": "the second pass did not challenge these: {detail}",
}
MOST_SHOWN: Final = 160

_WORDS: Final = {
    "no_connection": "nothing to connect to",
    "cli_not_found": "not installed",
    "cli_not_installed": "not installed",
    "not_authenticated": "not logged in",
    "auth_probe_failed": "not logged in",
    "no_provider_configured": "no provider configured",
    "parse_failure": "unreadable replies",
    "disabled_in_settings": "switched off",
    "user_chose_skip": "you skipped it",
    "no_answer": "no answer",
    "budget_exhausted": "beyond the budget",
}
_NOT_WORTH_TRYING: Final = (
    "no_connection",
    "cli_not_found",
    "cli_not_installed",
    "disabled_in_settings",
    "budget_exhausted",
)
_TIMEOUT: Final = re.compile(r"timeout_after_(\d+)s")
# All others are printable ASCII, line ends and tabs, which hide nothing.
_UNUSUAL: Final = re.compile(r"[^\n\t -~]")


def notes(warnings: Iterable[str], *, codes: bool = False) -> Iterator[str]:
    """One sentence per kind of warning that has one; `codes`: for a report, which shows the others as they are."""
    sentences = _IN_REPORTS if codes else _SENTENCES
    told: dict[str, list[str]] = {}
    for warning in warnings:
        code, _, detail = warning.partition(":")
        if code in sentences:
            told.setdefault(code, []).append(
                detail.removeprefix("static:").replace(":", " ")
            )
        elif codes:
            told.setdefault(warning, [])
    for code, details in told.items():
        yield sentences.get(code, "{code}").format(
            detail=", ".join(filter(None, details)), code=code
        )


def reason_in_words(reason: str) -> str:
    """`halted:not_authenticated` is `not logged in`; what has no words of its own is shown as it is, shortened."""
    code = reason.removeprefix("halted:")
    if late := _TIMEOUT.fullmatch(code):
        return f"no answer within {late[1]} s"
    name, _, detail = code.partition(":")
    if name in _WORDS:
        return _WORDS[name]
    told = detail.strip() if name == "cli_error" else code
    return shortened(told, MOST_SHOWN)


def advice_lines(skip_reasons: Mapping[str, str]) -> list[str]:
    """Return what to do about each seat whose program or service refused."""
    lines = []
    for name, reason in skip_reasons.items():
        code, _, text = reason.removeprefix("halted:").partition(": ")
        if code not in ("cli_error", "auth_probe_failed"):
            continue
        error_class = ErrorClass.AUTH if code != "cli_error" else classify(text)
        advice = advice_for(error_class, text)
        if advice:
            lines.append(f"{one_line(name)}: {one_line(advice)}")
    return lines


def can_be_tried_again(reason: str) -> bool:
    """Whether the same council could seat it once somebody has acted, or luck has changed."""
    return not reason.removeprefix("halted:").startswith(_NOT_WORTH_TRYING)


def visible(text: str) -> str:
    """Foreign text with every control and format character spelled out; line ends and tabs stay."""
    return _UNUSUAL.sub(_visible, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    return " ".join(visible(text).split())


def ordered(entries: Iterable[FindingEntry]) -> list[FindingEntry]:
    """Highest severity first; within one the likeliest, then what several seats confirm before what one says."""
    return sorted(
        entries,
        key=lambda entry: (
            -severity_rank(entry.severity),
            -(entry.probability or 0.0),
            -len(entry.confirmed_by),
            entry.cls.value,
            id_sort_key(entry.id),
        ),
    )


def counted_severities(entries: Iterable[FindingEntry]) -> str:
    """`1 critical, 2 high`; unrated items are `5 items`."""
    counts = Counter(entry.severity for entry in entries)
    rated = [
        f"{counts[severity]} {severity.lower()}"
        for severity in reversed(Severity)
        if counts[severity]
    ]
    unrated = [plural(counts[None], "item")] if counts[None] else []
    return ", ".join(rated + unrated)


def place_of(entry: FindingEntry) -> str:
    """`src/orders.py:42`, or the first file it names."""
    if entry.anchor is not None:
        first, last = entry.anchor["lines"]
        lines = f"{first}" if first == last else f"{first}-{last}"
        return one_line(f"{entry.anchor['path']}:{lines}")
    references = entry.evidence_check.get("references") or []
    return one_line(str(references[0]["path"])) if references else ""


def quoted_code(entry: FindingEntry) -> str:
    """The first line of what the evidence quotes."""
    cited = read_citations(
        entry.evidence or "", [entry.anchor["path"]] if entry.anchor else ()
    )
    quotes = [
        quote for citation in cited.citations for quote in citation.quotes
    ] or list(cited.loose)
    lines = [
        line.strip() for quote in quotes for line in quote.splitlines() if line.strip()
    ]
    return one_line(lines[0]) if lines else ""


def who(entry: FindingEntry) -> str:
    """The seats behind a finding; the static seat is evidence, not a voice."""
    seats = dict.fromkeys(
        source.bridge for source in entry.source_findings if source.bridge != STATIC
    )
    named = ", ".join(seats) or (
        "static analysis" if entry.source_findings else "coordinator"
    )
    return named + (" (unverified)" if entry.unverified else "")


def standing(entry: FindingEntry, *, compared: bool) -> str:
    """What speaks for a finding besides its reporters, in one line; `compared`: there was an earlier run."""
    facts = [who(entry)]
    if (
        any(source.bridge == STATIC for source in entry.source_findings)
        and entry.confirmed_by
    ):
        facts.append("confirmed by static analysis")
    elif entry.confirmation.evidence and not _is_static(entry):
        facts.append("quoted line checked")
    elif entry.evidence_check.get("outcome") == "failed":
        facts.append(f"evidence not found ({entry.evidence_check.get('reason')})")
    disputed = bool(
        entry.positions or entry.disputed_in or entry.cls is FindingClass.DISPUTED
    )
    evidence = entry.evidence_check.get("outcome")
    if entry.lowered:
        facts.append(one_line(entry.lowered))
    elif outcome := challenged(
        entry.challenges, entry.unanswered, disputed=disputed, evidence=evidence
    ):
        facts.append(outcome)
    if entry.shared_cli_path:
        facts.append("agreed over CLIs only")
    if compared and entry.state in ("new", "regressed"):
        facts.append(entry.state)
    return " · ".join(facts)


def likelihood(entry: FindingEntry) -> str:
    """How likely a finding is real; reports from before that was told have the word of their seats."""
    if entry.probability is None:
        return f"confidence {entry.confidence}"
    return f"probability {entry.probability:.0%}"


def why(entry: FindingEntry) -> list[str]:
    """What made the probability of a finding, and what joined its sources."""
    lines = [f"{likelihood(entry)}: {', '.join(entry.probability_reasons)}"]
    if not entry.probability_reasons:
        lines = [likelihood(entry)]
    if entry.joined_by:
        first = entry.source_findings[0]
        lines.append(f"joined with {first.bridge} {first.finding_id} by")
        lines += [f"  {one}" for one in entry.joined_by]
    return lines


def challenged(
    challenges: int, unanswered: int = 0, *, disputed: bool, evidence: object
) -> str:
    """What came of the challenges: what is disputed, unanswered, or without its evidence, has survived none."""
    if not challenges:
        return ""
    left = f", {unanswered} of them unanswered" if unanswered else ""
    if disputed:
        return f"disputed after {plural(challenges, 'challenge')}{left}"
    if unanswered:
        return f"{plural(challenges, 'challenge')}{left}"
    if evidence == "failed":
        return f"{plural(challenges, 'challenge')}, and its evidence does not hold"
    return f"survived {plural(challenges, 'challenge')}"


def argument(entry: FindingEntry) -> list[tuple[str, str]]:
    """Who does what, and the words, for each step of the argument; a claim that nobody challenged is none."""
    steps = [step for step in entry.record if step.step != "claim"] and entry.record
    rounds = [f", round {step.round}" if step.round else "" for step in steps]
    return [
        (f"{step.step} by {step.by}{when}", step.text)
        for step, when in zip(steps, rounds, strict=True)
    ]


def cited_code(entry: FindingEntry) -> list[tuple[str, str]]:
    """Where the cited lines are, and they with their numbers and their neighbours."""
    return [
        (one_line(f"{one.path}:{one.cited[0]}"), "\n".join(_numbered(one)))
        for one in entry.cited
    ]


def _numbered(one: CitedLines) -> Iterator[str]:
    first, last = one.cited
    for number, line in enumerate(one.lines, start=one.first):
        yield f"{'>' if first <= number <= last else ' '}{number:>5}  {line}"


def said(entry: FindingEntry) -> list[str]:
    """Description and evidence, as far as the title and the cited lines do not say them already."""
    bare = re.sub(r" \(\d+ places[^()]*\)$", "", entry.title)
    description = entry.description.removesuffix(bare).rstrip(": \n")
    evidence = entry.evidence or ""
    return [
        description,
        ""
        if entry.cited and all(map(_only_cites, evidence.splitlines()))
        else evidence,
    ]


def _only_cites(line: str) -> bool:
    """Whether a line of evidence is a place and what stands there, and no word more."""
    place, _, quote = line.strip().partition(" ")
    return not place or (
        ":" in place and quote[:1] in ("`", "") and quote[-1:] in ("`", "")
    )


def _is_static(entry: FindingEntry) -> bool:
    """Whether nobody but the static seat reports it."""
    return bool(entry.source_findings) and all(
        one.bridge == STATIC for one in entry.source_findings
    )


def beside(entries: Sequence[FindingEntry]) -> dict[str, list[FindingEntry]]:
    """Findings of the static seat at the very lines of somebody else's finding, by the id of that one."""
    others = [
        entry for entry in entries if entry.anchor is not None and not _is_static(entry)
    ]
    found: dict[str, list[FindingEntry]] = {}
    for entry in filter(_is_static, entries):
        anchor = entry.anchor
        there = [
            one.id for one in others if anchor is not None and one.anchor == anchor
        ]
        if there:
            found.setdefault(there[0], []).append(entry)
    return found


def seats_line(report: CouncilReport) -> str:
    """`claude (cli, sonnet) · codex (cli) · static`."""
    return " · ".join(
        _seat(one) for one in report.participants if one.status == Status.COMPLETED
    )


def domain_lines(report: CouncilReport) -> list[str]:
    """Each point of view with the reason for it, and whether anybody took it."""
    told = {
        name: "" if name in report.domains_covered else "; no seat looked"
        for name in report.domain_reasons
    }
    return [
        f"{name}: {one_line(why)}{told[name]}"
        for name, why in report.domain_reasons.items()
    ]


def skipped_line(report: CouncilReport) -> str:
    """`gemini (not logged in), codex and opencode (interrupted)`: every seat that did not take part."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in report.skip_reasons.items():
        by_reason.setdefault(reason_in_words(one_line(reason)), []).append(name)
    return ", ".join(
        f"{_listed(names)} ({reason})" for reason, names in by_reason.items()
    )


def way_back(report: CouncilReport) -> str:
    """The command that would seat those again for whom it makes sense; empty when there is nobody."""
    names = [
        name
        for name, reason in report.skip_reasons.items()
        if can_be_tried_again(reason)
    ]
    retries = " ".join(f"--retry {name}" for name in names)
    return f"bridgehead council resume {report.review_id} {retries}" if names else ""


def set_apart(report: CouncilReport) -> dict[str, list[tuple[str, FindingEntry]]]:
    """Findings that no verdict counts, by the reason for it, each with a word on why."""
    dismissed = [
        (
            (
                f"{one.reason} "
                f"({one.author}{f', until {one.expires}' if one.expires else ''})"
            )
            + (
                ", dismissed by this change itself"
                if one.dismissed_in_this_change
                else ""
            ),
            one.finding,
        )
        for one in report.dismissed_findings
    ]
    apart = {
        "On lines the change did not touch": [
            ("", one) for one in report.untouched_findings
        ],
        "Withdrawn": [(one.reason, one.finding) for one in report.withdrawn_findings],
        "Dismissed": dismissed,
    }
    return {title: entries for title, entries in apart.items() if entries}


def superseding(report: CouncilReport) -> list[str]:
    """Which report this one took the place of, and which took its."""
    told = {
        "This report was superseded by": report.superseded_by,
        "It supersedes": report.supersedes,
    }
    return [one_line(f"{what} {other}.") for what, other in told.items() if other]


def comparison_line(report: CouncilReport) -> str:
    """`2 new, 3 persistent, 1 fixed`, empty when nothing was compared."""
    compared = report.comparison
    lists = {
        "new": compared.new,
        "persistent": compared.persistent,
        "fixed": [one for one in compared.fixed if one.how != "not_reported"],
        "no longer reported": [
            one for one in compared.fixed if one.how == "not_reported"
        ],
        "regressed": compared.regressed,
        "unknown": compared.unknown,
    }
    return ", ".join(f"{len(found)} {name}" for name, found in lists.items() if found)


def requirements_line(report: CouncilReport) -> str:
    """`1 unmet (R-1), 2 met, 1 not mentioned (R-4)`, empty outside audits."""
    told = []
    for state in ("unmet", "disputed", "not_mentioned", "met"):
        ids = [one_line(one.id) for one in report.requirements if one.state == state]
        named = f" ({', '.join(ids)})" if state != "met" else ""
        told += [f"{len(ids)} {state.replace('_', ' ')}{named}"] if ids else []
    return ", ".join(told)


def headline(report: CouncilReport, entries: Sequence[FindingEntry]) -> str:
    """The verdict and what it rests on; nothing found is a good answer."""
    word = report.verdict_word or "DONE"
    if report.incomplete and not entries:
        missed = "not everything was looked at"
        if report.required_missing:
            names = ", ".join(map(one_line, report.required_missing))
            missed = f"{names} did not look to the end"
        return f"{word}   nothing found, but {missed}"
    if entries:
        return f"{word}   {counted_severities(entries)}{_agreement(entries)}"
    seats = plural(len(report.bridges_available), "seat")
    domains = plural(len(report.domains_covered), "domain")
    files = f" ({plural(report.files, 'file')})" if report.files else ""
    return f"{word}   nothing found by {seats} in {domains}{files}"


def _listed(names: Sequence[str]) -> str:
    *most, last = map(one_line, names)
    return f"{', '.join(most)} and {last}" if most else last


def _agreement(entries: Sequence[FindingEntry]) -> str:
    worst = entries[0]
    if len(worst.confirmed_by) < 2:
        return ""
    alone = (
        worst.severity is not None
        and sum(one.severity is worst.severity for one in entries) == 1
    )
    which = f"{worst.severity.lower()} one" if alone and worst.severity else "first"
    return f"   ({plural(len(worst.confirmed_by), 'seat')} agree on the {which})"


def _seat(participant: Participant) -> str:
    saw = (
        f"saw {participant.coverage} % of the files"
        if participant.coverage is not None
        else ""
    )
    details = [participant.connection or "", *participant.models, saw]
    inside = ", ".join(
        one_line(detail) for detail in details if detail and detail != "embedded"
    )
    return (
        f"{one_line(participant.bridge)} ({inside})"
        if inside
        else one_line(participant.bridge)
    )


def _visible(match: re.Match[str]) -> str:
    character = match[0]
    hidden = unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    return f"[U+{ord(character):04X}]" if hidden else character
