"""What was not looked at, decided from looks alone (council §14.4).

Seats and analysers report looks and nothing else; what nobody able has looked at to the
end is decided here, and whether a verdict may stand in verdict.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from bridgehead.contract.looks import Look, Looked, LookKind, Unlooked, not_looked
from bridgehead.contract.words import Severity, Status
from bridgehead.council.attendance import DISABLED
from bridgehead.council.reporting.report import STATIC
from bridgehead.council.synthesis.finding import CALLER, CouncilFinding, SeatReport

# A program that is not there was not asked, unless somebody named it.
_ABSENT: Final = frozenset(
    {DISABLED, "cli_not_found", "cli_not_installed", "no_connection"}
)
_BY_SKIP_REASON: Final = {
    "timeout": Unlooked.TIMED_OUT,
    "auth_probe_failed": Unlooked.NO_LOGIN,
    "not_authenticated": Unlooked.NO_LOGIN,
    "budget_exhausted": Unlooked.BUDGET,
    "refused": Unlooked.REFUSED,
    "filtered": Unlooked.FILTERED,
}
_SERIOUS: Final = (Severity.CRITICAL, Severity.HIGH)


def uncovered(looks: Iterable[Look]) -> tuple[Look, ...]:
    """Return one look for everything that nobody looked at to the end.

    It is the one that came furthest; among equals, the one that says most about what
    to do.
    """
    by_material: dict[tuple[LookKind, str], list[Look]] = {}
    for look in looks:
        by_material.setdefault((look.kind, look.on), []).append(look)
    return tuple(
        _telling(found) for found in by_material.values() if not _is_covered(found)
    )


def file_looks(seats: Sequence[SeatReport], hidden: Sequence[Look]) -> list[Look]:
    """Return what each of these seats looked at, of all files that one of them missed.

    Files that are shown to nobody may have been read by the analysers, here only.
    """
    own = {
        seat.name: _missed_files(seat)
        for seat in seats
        if seat.name != CALLER and seat.verified
    }
    kept = {look.on: look for look in hidden}
    material = dict.fromkeys(chain(kept, *own.values()))
    looks: list[Look] = []
    for name, missed in own.items():
        if name == STATIC:
            looks += _seat_looks(name, material, missed)
        else:
            looks += _seat_looks(name, material, {**kept, **missed})
    return looks


def missing(required: Iterable[str], looked: Collection[str]) -> tuple[str, ...]:
    """Return the seats and analysers that have to look to the end and did not."""
    return tuple(name for name in required if name not in looked)


def who_looked(
    seats: Sequence[SeatReport],
    domains: Sequence[str],
    findings: Sequence[CouncilFinding],
) -> tuple[str, ...]:
    """Return the completed seats and analysers that looked at all of theirs to the end."""
    names: list[str] = []
    for seat in seats:
        if seat.name == CALLER:
            continue
        # Files that are shown to nobody are no seat's omission.
        missed = any(look.by for look in _missed_files(seat).values())
        looks: list[Look] = []
        if seat.name != STATIC:
            looks = [
                _doubted(one, domains, findings)
                for one in _looks_of_model(seat, domains)
            ]
        ended = all(look.outcome is Looked.TO_THE_END for look in looks)
        if ended and not missed:
            names.append(seat.name)
        if seat.name == STATIC:
            names += _analysers_without_failure(seat)
    return tuple(dict.fromkeys(names))


def _analysers_without_failure(static: SeatReport) -> list[str]:
    looks = _own_looks(static, LookKind.FILE)
    failed = {look.by for look in looks if look.outcome is not Looked.TO_THE_END}
    analysers = (static.report.toolchain or "").split(", ")
    return [name for name in analysers if name and name not in failed]


def domain_looks(
    seats: Sequence[SeatReport],
    domains: Sequence[str],
    *,
    named: Sequence[str],
    pending: Sequence[str],
    findings: Sequence[CouncilFinding],
) -> list[Look]:
    """Return how far the models came with each domain; nothing without models.

    A seat is expected unless its program is not there and nobody `named` it. One that
    cites what does not exist for a serious finding has looked in part only.
    """
    looks: list[Look] = []
    for seat in seats:
        if seat.name in (STATIC, CALLER) or not _is_expected(seat, named):
            continue
        for look in _looks_of_model(seat, domains):
            looks.append(_doubted(look, domains, findings))
    for name in pending:
        looks += [
            not_looked(name, domain, Unlooked.PENDING, kind=LookKind.DOMAIN)
            for domain in domains
        ]
    return looks


def _is_expected(seat: SeatReport, named: Sequence[str]) -> bool:
    reason = seat.report.skip_reason or ""
    return seat.name in named or reason not in _ABSENT


def _looks_of_model(seat: SeatReport, domains: Sequence[str]) -> list[Look]:
    report = seat.report
    if not seat.verified:
        return _not_at_any(seat.name, domains, Unlooked.UNVERIFIED)
    own = _own_looks(seat, LookKind.DOMAIN)
    if own:
        return own
    if report.status is not Status.COMPLETED:
        reason = why_skipped(report.skip_reason or report.halt_reason or "")
        return _not_at_any(seat.name, domains, reason)
    # A rig and the host seat say which domains they covered, and no more.
    covered = [
        Look(by=seat.name, on=domain, kind=LookKind.DOMAIN, outcome=Looked.TO_THE_END)
        for domain in domains
        if domain in report.domains_covered
    ]
    missed = [domain for domain in domains if domain not in report.domains_covered]
    return [*covered, *_not_at_any(seat.name, missed, Unlooked.DIED)]


def why_skipped(reason: str) -> Unlooked:
    """Return what the skip reason of a seat means for its looks."""
    code = reason.partition(": ")[0]
    for known, unlooked in _BY_SKIP_REASON.items():
        if code.startswith(known):
            return unlooked
    return Unlooked.DIED


def _not_at_any(seat: str, domains: Sequence[str], reason: Unlooked) -> list[Look]:
    return [
        not_looked(seat, domain, reason, kind=LookKind.DOMAIN) for domain in domains
    ]


def _doubted(
    look: Look, domains: Sequence[str], findings: Sequence[CouncilFinding]
) -> Look:
    """Return the look as one in part if its seat invented evidence in this domain.

    What a Challenger or Integration Checker invents is in no domain that is due: it
    throws doubt on all looks of the seat.
    """
    if look.outcome is not Looked.TO_THE_END:
        return look
    for finding in findings:
        is_in_domain = look.on in finding.domains
        is_in_none = not any(domain in domains for domain in finding.domains)
        is_its_own = look.by in finding.seats and (is_in_domain or is_in_none)
        severity = finding.severity_original or finding.severity
        if is_its_own and severity in _SERIOUS and finding.not_found is not None:
            return not_looked(
                look.by,
                look.on,
                Unlooked.INVENTED,
                kind=LookKind.DOMAIN,
                outcome=Looked.IN_PART,
            )
    return look


def _seat_looks(
    seat: str, material: Iterable[str], missed: Mapping[str, Look]
) -> list[Look]:
    """Return what a seat looked at: the material to its end, but for what it missed."""
    return [
        missed.get(path, Look(by=seat, on=path, outcome=Looked.TO_THE_END))
        for path in material
    ]


def _missed_files(seat: SeatReport) -> dict[str, Look]:
    """Return the looks of a seat that did not come to their end, by file."""
    own = _own_looks(seat, LookKind.FILE)
    if own:
        return {look.on: look for look in uncovered(own)}
    return {
        path: not_looked(seat.name, path, Unlooked.TOO_LARGE)
        for path in unseen_files(seat)
    }


def _own_looks(seat: SeatReport, kind: LookKind) -> list[Look]:
    looks = seat.report.looks
    if not isinstance(looks, tuple):
        return []
    return [look for look in looks if look.kind is kind]


def doubtful_files(seats: Sequence[SeatReport]) -> frozenset[str]:
    """Return the files on which an analyser failed, whoever else has looked at them."""
    doubtful: set[str] = set()
    for seat in seats:
        for look in _own_looks(seat, LookKind.FILE):
            if look.outcome is not Looked.TO_THE_END:
                doubtful.add(look.on)
    return frozenset(doubtful)


def unseen_files(seat: SeatReport) -> tuple[str, ...]:
    """Return the files that a seat could not open or was not shown."""
    unseen = seat.report.unseen_files
    return unseen if isinstance(unseen, tuple) else ()


def _is_covered(looks: Iterable[Look]) -> bool:
    return any(look.outcome is Looked.TO_THE_END for look in looks)


def _telling(looks: Sequence[Look]) -> Look:
    in_part = [look for look in looks if look.outcome is Looked.IN_PART]
    named = [look for look in looks if look.reason is not Unlooked.NOBODY_ABLE]
    return (in_part or named or list(looks))[0]
