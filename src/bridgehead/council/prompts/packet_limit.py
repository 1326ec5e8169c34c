"""Make a context packet fit a stateless prompt: 32,000 characters, reduced in steps, never cut in silence (§9.9).

Sizes are those of the compact JSON of the packet, in characters.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridgehead.contract.words import Severity

LIMIT: Final = 32_000
REST_LIMIT: Final = 30_000
NOTE: Final = (
    "NOTE: Prior round context summarized due to size (>32k chars). "
    "Full outputs in .outputs/bridges/ artifact."
)
FINDINGS: Final = "previous_findings"
CHALLENGES: Final = "open_challenges"
SYNTHESIS: Final = "synthesis"

_SUMMARY_KEYS: Final = ("id", "title", "severity", "description")
_KEPT_AT_LEVEL_2: Final = frozenset({Severity.CRITICAL.value, Severity.HIGH.value})

Packet = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Overflow:
    """What was left out of the rest of a packet because findings alone could not make it fit."""

    omitted_challenges: int
    synthesis_cut: int


@dataclass(frozen=True, slots=True)
class Reduced:
    """A packet as it is sent: one packet, or several shards that go out as one call each."""

    level: int
    packets: tuple[dict[str, Any], ...]
    sizes_by_level: tuple[int, ...]
    """Sizes of levels 0, 1, 2 of the uncut packet, as far as they had to be tried."""
    cut_findings: int = 0
    overflow: Overflow | None = None

    @property
    def annotated(self) -> bool:
        return self.level > 0


def reduce_packet(packet: Packet) -> Reduced:
    """The least reduction under which the packet fits."""
    sizes: list[int] = []
    for level in range(3):
        candidate = _at_level(packet, level)
        sizes.append(packet_size(candidate))
        if sizes[-1] <= LIMIT:
            return Reduced(level, (candidate,), tuple(sizes))
    overflow = None
    if packet_size({**packet, FINDINGS: []}) > REST_LIMIT:
        packet, overflow = _cut_rest(packet)
    return _split(_at_level(packet, 2), tuple(sizes), overflow)


def packet_size(packet: Packet) -> int:
    """Characters of the packet as it is embedded."""
    return len(compact(packet))


def compact(value: object) -> str:
    """The one spelling of JSON inside prompts."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def one_line(finding: Mapping[str, Any]) -> str:
    return f"{finding['id']}: {finding['title']} ({finding.get('severity') or 'null'})"


def shown_id(finding: Mapping[str, Any] | str) -> str:
    """The id of a finding in a packet, whole or on one line."""
    return (
        finding.partition(": ")[0] if isinstance(finding, str) else str(finding["id"])
    )


def characters_omitted(count: int) -> str:
    return f"[... {count} characters omitted; full text in .outputs/bridges/ artifact]"


def challenges_omitted(count: int) -> str:
    return f"[... {count} challenges omitted; full text in .outputs/bridges/ artifact]"


def _at_level(packet: Packet, level: int) -> dict[str, Any]:
    findings = packet[FINDINGS]
    if level == 1:
        findings = [_summary(finding) for finding in findings]
    elif level == 2:
        findings = [
            _summary(finding)
            if finding.get("severity") in _KEPT_AT_LEVEL_2
            else one_line(finding)
            for finding in findings
        ]
    return {**packet, FINDINGS: list(findings)}


def _summary(finding: Mapping[str, Any]) -> dict[str, Any]:
    return {key: finding.get(key) for key in _SUMMARY_KEYS}


def _cut_rest(packet: Packet) -> tuple[dict[str, Any], Overflow]:
    """Leave out challenges from the end, and if that is not enough cut the synthesis too."""
    challenges = packet[CHALLENGES]
    synthesis = packet[SYNTHESIS]

    def with_first(kept: int) -> dict[str, Any]:
        marker = challenges_omitted(len(challenges) - kept)
        return {**packet, CHALLENGES: challenges[:kept], SYNTHESIS: synthesis + marker}

    def rest_size(cut: dict[str, Any]) -> int:
        return packet_size({**cut, FINDINGS: []})

    kept = _largest(
        len(challenges), lambda count: rest_size(with_first(count)) <= REST_LIMIT
    )
    if kept is not None and challenges:
        return with_first(kept), Overflow(len(challenges) - kept, 0)

    ending = challenges_omitted(len(challenges)) if challenges else ""

    def with_synthesis(length: int) -> dict[str, Any]:
        cut = synthesis[:length] + characters_omitted(len(synthesis) - length) + ending
        return {**packet, CHALLENGES: [], SYNTHESIS: cut}

    length = (
        _largest(
            len(synthesis), lambda count: rest_size(with_synthesis(count)) <= REST_LIMIT
        )
        or 0
    )
    return with_synthesis(length), Overflow(len(challenges), len(synthesis) - length)


def _split(
    packet: Packet, sizes: tuple[int, ...], overflow: Overflow | None
) -> Reduced:
    """Level 2 as it is if it fits now, else consecutive shards; an entry too large for a shard is cut."""
    room = LIMIT - packet_size({**packet, FINDINGS: []})
    entries: list[Any] = []
    cut_findings = 0
    for entry in packet[FINDINGS]:
        fitting = entry if len(compact(entry)) <= room else _cut_entry(entry, room)
        if fitting is not entry:
            cut_findings += 1
        entries.append(fitting)
    packets = tuple({**packet, FINDINGS: shard} for shard in _shards(entries, room))
    level = 2
    if cut_findings:
        level = 4
    elif len(packets) > 1:
        level = 3
    return Reduced(level, packets, sizes, cut_findings, overflow)


def _shards(entries: Sequence[Any], room: int) -> Iterator[list[Any]]:
    shard: list[Any] = []
    used = 0
    for entry in entries:
        size = len(compact(entry))
        # Entries after the first of a shard bring a comma.
        if shard and used + 1 + size > room:
            yield shard
            shard = []
            used = 0
        used += size + (1 if shard else 0)
        shard.append(entry)
    yield shard


def _cut_entry(entry: Any, room: int) -> Any:
    if isinstance(entry, str):
        head, colon, rest = entry.partition(": ")
        title, bracket, severity = rest.rpartition(" (")
        return _cut_to_fit(
            title, room, lambda text: f"{head}{colon}{text}{bracket}{severity}"
        )
    shorter = _cut_to_fit(
        entry["description"], room, lambda text: {**entry, "description": text}
    )
    if len(compact(shorter)) <= room:
        return shorter
    return _cut_to_fit(entry["title"], room, lambda text: {**shorter, "title": text})


def _cut_to_fit(text: str, room: int, rebuild: Callable[[str], Any]) -> Any:
    """`rebuild` with as much of `text` as fits, marked."""

    def cut(length: int) -> Any:
        return rebuild(text[:length] + characters_omitted(len(text) - length))

    length = _largest(
        max(len(text) - 1, 0), lambda count: len(compact(cut(count))) <= room
    )
    return cut(length or 0)


def _largest(most: int, fits: Callable[[int], bool]) -> int | None:
    """The largest number up to `most` that fits, given that smaller ones always fit too; None if not even 0 does."""
    found = bisect_right(range(most + 1), False, key=lambda count: not fits(count)) - 1
    return None if found < 0 else found
