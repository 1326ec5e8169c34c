"""Reports of councils: written in their forms (council §18), found again through the
record, judged, dismissed from.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any, Final

import msgspec

from bridgehead.assembly.application import Assembly, append_event
from bridgehead.assembly.council.files import (
    BASELINE_FILE,
    Tables,
    append_dismissal,
    append_splits,
    read_tables,
    write_baseline,
)
from bridgehead.assembly.council.journal import StoredCouncil
from bridgehead.contract.record_words import Part
from bridgehead.contract.report import BridgeReport
from bridgehead.contract.words import Severity, Verdict
from bridgehead.control_plane.questions import AmbiguousReference
from bridgehead.control_plane.records import EventFilter, Run, RunFilter
from bridgehead.council.findings.dismissals import code_of
from bridgehead.council.findings.fingerprint import FAMILIES, place_fingerprints, places
from bridgehead.council.findings.tree import Tree
from bridgehead.council.reporting.render.html import render_html
from bridgehead.council.reporting.render.markdown import render_markdown
from bridgehead.council.reporting.render.text import Screen, render_text
from bridgehead.council.reporting.report import (
    STATIC,
    AbortedReport,
    CouncilReport,
    FindingClass,
    FindingEntry,
    anchor_of,
    council_report_from_json,
)
from bridgehead.council.reporting.sarif import sarif_of
from bridgehead.council.request.plan import DEBATE_PROTOCOL
from bridgehead.council.request.settings import is_rig
from bridgehead.council.running.artifacts import COUNCIL, DEBATE, OutputFolder
from bridgehead.council.scope.git import Git, GitFailed, repository_at
from bridgehead.council.scope.resolve import read_working
from bridgehead.council.scope.withheld import as_utf8
from bridgehead.council.scope.working_copies import Implementation
from bridgehead.errors import FileError, NotFound, UserError
from bridgehead.exit_codes import ExitCode
from bridgehead.host.clock import Clock, SystemClock
from bridgehead.host.files import read_bounded, write_atomic

MOST_REPORT_BYTES: Final = 256 << 20
MOST_LISTED: Final = 500
BEGUN: Final = ("council.started", "council.resumed", "council.crashed")


class NoVerdict(UserError):
    """A report that was not judged cannot pass or fail a gate."""

    def __init__(self, review_id: str) -> None:
        super().__init__(
            f"the report of council {review_id} has no verdict",
            hint="only complete reviews and audits have one",
        )


class Unconfirmed(UserError):
    """A report that is not the one this machine wrote proves nothing."""

    exit_code = ExitCode.GATE

    def __init__(self, review_id: str, why: str) -> None:
        super().__init__(
            f"the report of council {review_id} cannot be confirmed: {why}",
            hint="run the council again",
        )


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """Where a report is, from the project's root."""

    markdown: str
    json: str
    html: str
    patch: str | None = None
    branch: str | None = None
    sha256: str | None = None
    """Of the JSON file; the record has it, so that an edited report is known as one."""

    @property
    def recorded(self) -> dict[str, str]:
        return {
            name: value
            for name, value in msgspec.structs.asdict(self).items()
            if value is not None
        }

    @property
    def files(self) -> dict[str, str]:
        return {
            name: value for name, value in self.recorded.items() if name != "sha256"
        }


@dataclass(frozen=True, slots=True)
class StoredReport:
    """A report with its files."""

    project: Path
    review_id: str
    files: Written
    report: CouncilReport | AbortedReport
    sha256: str = ""
    """Of the file as it is now."""

    @property
    def doubt(self) -> str | None:
        """Why the file cannot be taken for the report that was written.

        The record has its digest.
        """
        if self.files.sha256 is None:
            return "the record has no digest of it"
        return (
            None
            if self.files.sha256 == self.sha256
            else "its file was changed after it was written"
        )

    def document(self) -> dict[str, Any]:
        return {**msgspec.to_builtins(self.report), "report_files": self.files.files}

    def render(self, form: str, *, width: int, colour: bool) -> str:
        """Return the report as text, or the file in that form."""
        if form == "text":
            return render_text(
                self.report,
                Screen(width=width, colour=colour, saved_at=self.files.markdown),
            )
        if form == "sarif":
            if isinstance(self.report, AbortedReport):
                raise NoVerdict(self.review_id)
            return json.dumps(sarif_of(self.report).log, ensure_ascii=False, indent=1)
        name = self.files.html if form == "html" else self.files.markdown
        return read_bounded(
            self.project / name, MOST_REPORT_BYTES, root=self.project
        ).decode()

    def finding(self, finding_id: str) -> FindingEntry:
        wanted = finding_id.upper()
        everything = (
            []
            if isinstance(self.report, AbortedReport)
            else list(self.report.everything())
        )
        found = [
            one
            for one in everything
            if wanted in (one.id.upper(), (one.was or "").upper())
        ]
        if not found:
            known = ", ".join(one.id for one in everything) or "none"
            raise NotFound(
                f"council {self.review_id} has no finding {finding_id!r}",
                hint=f"it has: {known}",
            )
        return found[0]

    def askable(self, finding_id: str) -> FindingEntry:
        """Return a finding about which somebody can be asked."""
        finding = self.finding(finding_id)
        if finding.cls is FindingClass.WITHDRAWN:
            shown = f"bridgehead council show {self.review_id} {finding.id}"
            raise UserError(
                f"{finding.id} was withdrawn, so there is nothing to challenge",
                hint=f"see why: {shown}",
            )
        seats = (
            ()
            if isinstance(self.report, AbortedReport)
            else self.report.bridges_available
        )
        if all(seat == STATIC or is_rig(seat) for seat in seats):
            raise UserError(
                f"no seat of council {self.review_id} can be asked: "
                f"{', '.join(seats)} cannot answer questions",
                hint=(
                    "run a council with a model; `bridgehead runtimes` lists those "
                    "available"
                ),
            )
        return finding

    def gate_verdict(self) -> tuple[Verdict, str]:
        """Return what a gate judges."""
        if self.doubt is not None:
            raise Unconfirmed(self.review_id, self.doubt)
        verdict = (
            self.report.gate_verdict if isinstance(self.report, CouncilReport) else None
        )
        if verdict is None:
            raise NoVerdict(self.review_id)
        return verdict, self.review_id


@dataclass(frozen=True, slots=True)
class DismissRequest:
    """Live with a finding."""

    finding_id: str
    reason: str
    until: dt.date | None = None
    paths: tuple[str, ...] = ()
    accept_critical: bool = False


@dataclass(frozen=True, slots=True)
class DismissedNow:
    entry: dict[str, Any]
    path: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """A baseline that was written: findings new in it, kept from the one before, and
    critical ones left out.
    """

    new: int
    kept: int
    left_out: tuple[str, ...]
    path: str = BASELINE_FILE


class Reports:
    """The councils the record knows of this project."""

    def __init__(self, assembly: Assembly, clock: Clock | None = None) -> None:
        self._assembly = assembly
        self._clock = clock or SystemClock()

    def runs(self, *, limit: int, everywhere: bool = False) -> list[Run]:
        """Return the runs, the latest begun first.

        The record's order decides, because the times may come from several clocks.
        """
        project = None if everywhere else self._assembly.project
        begun = EventFilter(kinds=BEGUN, parts=(Part.COUNCIL,), project=project)
        with self._assembly.store(read_only=True) as store:
            runs = store.runs(
                RunFilter(parts=(Part.COUNCIL,), project=project), limit=limit
            )
            recorded = store.events(begun, limit=limit, newest_first=True)
            listed = {run.id for run in runs}
            order = list(dict.fromkeys(entry.event.run_id for entry in recorded))
            for run_id in order:
                if run_id is None or run_id in listed:
                    continue
                run = store.run(run_id)
                if run is not None:
                    runs.append(run)
        return sorted(runs, key=lambda run: _place(order, run.id))

    def find(self, reference: str | None, *, everywhere: bool = False) -> StoredReport:
        """Return the report of the council whose id begins like this.

        The newest without one.
        """
        known = self.runs(limit=MOST_LISTED, everywhere=everywhere)
        runs = [run for run in known if isinstance(run.data.get("report"), dict)]
        if reference is not None:
            exact = [run for run in runs if run.id == reference]
            runs = exact or [run for run in runs if run.id.startswith(reference)]
            if len(runs) > 1:
                raise AmbiguousReference(reference, [run.id for run in runs])
        if runs:
            return self.stored(runs[0])
        if not reference:
            raise NotFound(
                "no report in this project yet",
                hint="run `bridgehead council review` first",
            )
        raise NotFound(
            f"no report of council {reference!r} in this project",
            hint="bridgehead council list",
        )

    def recorded(self, review_id: str) -> tuple[Verdict, str] | None:
        """Return the verdict and the digest of a report as the record has them.

        Return the digest of the file itself if somebody edited it.
        """
        with self._assembly.store(read_only=True) as store:
            run = store.run(review_id)
        if run is None or run.part is not Part.COUNCIL:
            return None
        files = run.data.get("report")
        verdict = run.data.get("gate_verdict")
        if not isinstance(files, dict) or verdict not in set(Verdict):
            return None
        written = msgspec.convert(files, Written)
        if not written.sha256:
            return None
        digest = written.sha256
        with suppress(FileError):  # the record speaks for a report that is gone
            digest = _digest(Path(run.project), written.json)
        return Verdict(verdict), digest

    def dismiss(self, reference: str | None, request: DismissRequest) -> DismissedNow:
        """Append the entry of council §25.4.

        Nothing is written when anything about it is wrong.
        """
        self._refuse_dismissal(request)
        stored = self.find(reference)
        if isinstance(stored.report, AbortedReport):
            raise NotFound(f"council {stored.review_id} has no findings")
        finding = stored.finding(request.finding_id)
        if finding.severity is Severity.CRITICAL and not request.accept_critical:
            raise UserError(
                f"{finding.id} is CRITICAL and was not dismissed",
                hint="repeat with --accept-critical",
            )
        entry = self._entry(finding, request)
        append_dismissal(self._assembly.places.project, entry)
        facts = {
            "finding": finding.id,
            "title": finding.title,
            "fingerprint": finding.fingerprint,
        }
        append_event(
            self._assembly.project,
            "council.dismissed",
            facts,
            run_id=stored.review_id,
            assembly=self._assembly,
        )
        plain = {
            key: str(value) if isinstance(value, dt.date) else value
            for key, value in entry.items()
        }
        return DismissedNow(plain, ".bridgehead/dismissals.toml")

    def split(
        self, reference: str | None, finding_id: str, source_ids: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Take sources out of a finding for good: later councils do not join them with the others again."""
        stored = self.find(reference)
        if isinstance(stored.report, AbortedReport):
            raise NotFound(f"council {stored.review_id} has no findings")
        finding = stored.finding(finding_id)
        taken = [
            source
            for source in finding.source_findings
            if source.finding_id in source_ids
        ]
        left = [source for source in finding.source_findings if source not in taken]
        named = ", ".join(source.finding_id for source in finding.source_findings)
        if len(taken) != len(set(source_ids)) or not left:
            raise UserError(
                f"{finding_id} is made of {named}",
                hint="name some of them, not all",
            )
        apart = [
            (source.fingerprint, other.fingerprint)
            for source, other in product(taken, left)
        ]
        if any(one == other or not one or not other for one, other in apart):
            raise UserError(
                f"the sources of {finding_id} cite the same lines, so later councils could not tell them apart",
                hint="dismiss the finding, or challenge it with the reason",
            )
        about = {
            "title": finding.title,
            "author": self._author(),
            "date": self._clock.now().date().isoformat(),
        }
        entries = [{"apart": list(pair), **about} for pair in apart]
        append_splits(self._assembly.places.project, entries)
        return entries

    def _refuse_dismissal(self, request: DismissRequest) -> None:
        """Raise if a dismissal is wrong whatever it is about."""
        if not request.reason.strip():
            raise UserError("--reason is empty", hint="say why the project accepts it")
        if request.until is not None and request.until < self._clock.now().date():
            raise UserError(
                f"--until {request.until} is in the past",
                hint="give today or a later date",
            )
        if not all(path.strip() for path in request.paths):
            raise UserError(
                "--paths is empty",
                hint="name files, or omit it to use the finding's file",
            )

    def accept(
        self, reference: str | None, reason: str | None, *, accept_critical: bool
    ) -> Accepted:
        """Write the baseline.

        It holds every finding that stands, and those entries of the baseline before it
        whose code is still there.
        """
        stored = self.find(reference)
        project = self._assembly.places.project
        if isinstance(stored.report, AbortedReport):
            raise NotFound(f"council {stored.review_id} has no findings")
        today = self._clock.now().date()
        circumstances = {
            "reason": (reason or "").strip() or f"accepted as the state of {today}",
            "author": self._author(),
            "date": today.isoformat(),
        }
        new: list[dict[str, Any]] = []
        left_out: list[str] = []
        for finding in stored.report.findings():
            if finding.severity is None:
                continue
            if finding.severity is Severity.CRITICAL and not accept_critical:
                left_out.append(finding.id)
            else:
                new.append(self._accepted(finding) | circumstances)
        kept = self._still_accepted(read_tables(project, BASELINE_FILE), new)
        entries = sorted(
            (*kept, *new),
            key=lambda entry: (str(entry["title"]), str(entry["fingerprint"])),
        )
        write_baseline(project, entries)
        append_event(
            self._assembly.project,
            "council.baseline",
            {"accepted": len(new), "kept": len(kept)},
            run_id=stored.review_id,
            assembly=self._assembly,
        )
        return Accepted(len(new), len(kept), tuple(left_out))

    def _still_accepted(
        self, before: Tables, new: Sequence[Mapping[str, Any]]
    ) -> list[Mapping[str, Any]]:
        """Return the entries that no new one replaces and whose code is still there."""
        replaced: set[str] = set()
        for entry in new:
            replaced.update(entry.get("places", ()))
        return [
            entry
            for entry in before
            if replaced.isdisjoint(entry.get("places", ())) and self._has_code(entry)
        ]

    def _accepted(self, finding: FindingEntry) -> dict[str, Any]:
        paths = {
            reference["path"]
            for reference in finding.evidence_check.get("references", ())
            if reference.get("lines")
        }
        cited = place_fingerprints(
            finding.evidence_check, finding.type, self._tree(*paths), {}
        )
        if not finding.weak_identity and finding.fingerprint not in cited:
            raise UserError(
                f"{finding.id}: the code it refers to has changed since the review",
                hint="bridgehead council review, then bridgehead council baseline",
            )
        entry: dict[str, Any] = {
            "severity": str(finding.severity),
            "title": finding.title,
            "fingerprint": finding.fingerprint,
            "paths": sorted(paths),
        }
        if cited and not finding.weak_identity:
            entry["places"] = list(cited)
        if finding.severity is Severity.CRITICAL:
            entry["accept_critical"] = True
        return entry

    def _has_code(self, entry: Mapping[str, Any]) -> bool:
        """Return whether code that an entry of the baseline speaks of is still there."""
        accepted = entry.get("places", ())
        if not accepted:
            return True
        tree = self._tree(*entry.get("paths", ()))
        for path in tree.paths:
            text = tree.file(path)
            if not text:
                continue
            for family in FAMILIES:
                if not places(text, path, family).isdisjoint(accepted):
                    return True
        return False

    def stored(self, run: Run) -> StoredReport:
        """Return the report of a council that has one."""
        files = msgspec.convert(run.data["report"], Written)
        project = Path(run.project)
        content = read_bounded(project / files.json, MOST_REPORT_BYTES, root=project)
        report = council_report_from_json(content)
        return StoredReport(project, run.id, files, report, sha256(content).hexdigest())

    def _entry(self, finding: FindingEntry, request: DismissRequest) -> dict[str, Any]:
        anchor = anchor_of(finding)
        entry: dict[str, Any] = {
            "fingerprint": finding.fingerprint,
            "title": finding.title,
            "reason": request.reason.strip(),
            "author": self._author(),
            "date": self._clock.now().date(),
        }
        if request.until is not None:
            entry["expires"] = request.until
        if request.paths:
            entry["paths"] = list(request.paths)
        elif anchor:
            entry["paths"] = [anchor.path]
        if finding.severity is not None:
            entry["severity"] = finding.severity.value
        if (
            anchor is not None
            and not finding.weak_identity
            and (code := code_of(anchor, self._tree(anchor.path)))
        ):
            entry["code"] = code
        others = [name for name in finding.occurrences if name != finding.fingerprint]
        if others:
            entry["covers"] = others
        if request.accept_critical:
            entry["accept_critical"] = True
        return entry

    def _tree(self, *paths: str) -> Tree:
        contents = {
            path: read_working(self._assembly.places.project, path) for path in paths
        }
        return Tree.of(
            {
                path: None if one is None else as_utf8(one).decode("utf-8", "replace")
                for path, one in contents.items()
            }
        )

    def _author(self) -> str:
        """Return who dismisses: git's user where there is one."""
        git = repository_at(self._assembly.places.project, self._assembly.environ)
        if git is not None:
            name = _configured(git, "user.name")
            email = _configured(git, "user.email")
            if name and email:
                return f"{name} <{email}>"
            if name or email:
                return name or email
        return self._assembly.environ.get("USER", "unknown")


def _configured(git: Git, key: str) -> str:
    """Return what git is configured with; empty when it is not."""
    try:
        return git.run("config", key).decode("utf-8", "replace").strip()
    except GitFailed:
        return ""


def _place(order: Sequence[str | None], run_id: str) -> int:
    return order.index(run_id) if run_id in order else len(order)


def _digest(project: Path, name: str) -> str:
    return sha256(
        read_bounded(project / name, MOST_REPORT_BYTES, root=project)
    ).hexdigest()


def write_report(
    project: Path,
    outputs: OutputFolder,
    report: CouncilReport | AbortedReport,
    seats: Sequence[BridgeReport],
    council: StoredCouncil,
    made: Implementation | None,
) -> Written:
    """Write the report in all its forms; an implementation's patch lies beside them."""
    kind = DEBATE if council.plan.route == DEBATE_PROTOCOL else COUNCIL
    stem = outputs.write_council(kind=kind, **_forms(report, seats, council))
    patch = None
    if made is not None and made.files:
        patch = f"{stem}.patch"
        write_atomic(project / patch, made.patch, root=project)
    return Written(
        markdown=f"{stem}.md",
        json=f"{stem}.json",
        html=f"{stem}.html",
        patch=patch,
        branch=made.branch if made else None,
        sha256=_digest(project, f"{stem}.json"),
    )


def mark_superseded(
    project: Path,
    outputs: OutputFolder,
    old: Written,
    new: Written,
    seats: Sequence[BridgeReport],
    council: StoredCouncil,
) -> None:
    """The old report says which one took its place.

    One that was edited or is gone is left alone.
    """
    with suppress(FileError):
        if old.sha256 is None or _digest(project, old.json) != old.sha256:
            return
        report = council_report_from_json(
            read_bounded(project / old.json, MOST_REPORT_BYTES, root=project)
        )
        if isinstance(report, CouncilReport):
            report = msgspec.structs.replace(report, superseded_by=new.markdown)
            outputs.write_again(
                old.json.removesuffix(".json"), **_forms(report, seats, council)
            )


def _forms(
    report: CouncilReport | AbortedReport,
    seats: Sequence[BridgeReport],
    council: StoredCouncil,
) -> dict[str, Any]:
    return {
        "markdown": render_markdown(
            report, context_summary=council.task.context_summary
        ),
        "document": msgspec.to_builtins(report),
        "html": render_html(report, seats),
    }
