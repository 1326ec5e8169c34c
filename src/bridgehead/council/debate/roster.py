"""Which experts sit in a seat, and who is called in when a finding points to another domain (council §9.5)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bridgehead.contract.task import BridgeInput, normalise_domain
from bridgehead.council.debate.ledger import Entry, Log, by_severity
from bridgehead.council.replies.items import as_text
from bridgehead.council.request.domains import RESERVED, Expert, Registry

MOST_PER_ROUND: Final = 3
MOST_PER_RUN: Final = 6
MOST_REASON_CHARACTERS: Final = 500

# A name comes from a model's reply and becomes part of a role title; anything longer is no name.
_NAME: Final = re.compile(r"\w[\w/+.&#-]{0,59}")
_MOST_WORDS: Final = 6


@dataclass(frozen=True, slots=True)
class Signal:
    """A reply says that another domain should look at one of its findings."""

    domain: str
    reason: str
    trigger_id: str | None
    """None: the reply had no items."""


@dataclass(frozen=True, slots=True)
class NewExpert:
    """An expert called in, with the finding, if there was one, and the reason."""

    expert: Expert
    trigger_id: str | None
    reason: str


@dataclass(slots=True)
class Roster:
    """The active domains of a run, in order."""

    registry: Registry
    task: BridgeInput
    log: Log
    experts: dict[str, Expert] = field(default_factory=dict)
    waiting: list[NewExpert] = field(default_factory=list)
    """Called in, not asked yet."""
    unexplored: list[str] = field(default_factory=list)
    passed_on: list[Signal] = field(default_factory=list)
    """Signals for a domain that sits already; they reach its expert as conflicts."""
    _added: int = 0

    def __post_init__(self) -> None:
        for name in self.task.domains:
            self.experts[name] = self.registry.expert(
                name, task=self.task.task_description
            )

    @property
    def active(self) -> tuple[str, ...]:
        return tuple(self.experts)

    def take_signals(
        self, signals: Sequence[Signal], entries: Mapping[str, Entry]
    ) -> None:
        """Call in experts for new domains as far as the limits allow; the rest is remembered as unexplored."""
        for signal in signals:
            trigger = entries.get(signal.trigger_id or "")
            known = self._known_as(signal.domain)
            if signal.domain in RESERVED:
                continue
            if known is not None and trigger is not None:
                self.passed_on.append(Signal(known, signal.reason, trigger.id))
            elif not self._is_new(signal.domain):
                continue
            elif len(self.waiting) >= MOST_PER_ROUND or self._added >= MOST_PER_RUN:
                self.unexplored.append(signal.domain)
                self._note("domain_limit", signal, trigger)
            else:
                title = trigger.output.title if trigger is not None else ""
                task = self.task.task_description
                expert = self.registry.expert(
                    signal.domain, task=task, reason=signal.reason, title=title
                )
                self.experts[signal.domain] = expert
                self.waiting.append(
                    NewExpert(
                        expert,
                        trigger.id if trigger is not None else None,
                        signal.reason,
                    )
                )
                self._added += 1
                self._note("domain_added", signal, trigger)

    def pass_over(self, signals: Iterable[Signal]) -> None:
        """There is no round in which experts for these could be asked."""
        for signal in signals:
            if self._is_new(signal.domain):
                self.unexplored.append(signal.domain)

    def leave_unexplored(self) -> None:
        """The debate ends before these experts were asked."""
        for new in self.waiting:
            self.experts.pop(new.expert.domain, None)
            self.unexplored.append(new.expert.domain)
        self.waiting.clear()

    def _known_as(self, domain: str) -> str | None:
        """The active domain a name stands for, aliases included."""
        wanted = self.registry.canonical(domain)
        return next(
            (name for name in self.experts if self.registry.canonical(name) == wanted),
            None,
        )

    def _is_new(self, domain: str) -> bool:
        return (
            domain not in RESERVED
            and domain not in self.unexplored
            and self._known_as(domain) is None
        )

    def _note(self, event: str, signal: Signal, trigger: Entry | None) -> None:
        trigger_id = trigger.id if trigger is not None else None
        self.log(
            event,
            domain=signal.domain,
            trigger_finding_id=trigger_id,
            reason=signal.reason,
        )


def read_signals(listed: object, raised: Mapping[int, Entry]) -> list[Signal]:
    """Signals of one reply; `raised` are its items by their place in the reply's list."""
    entries = listed if isinstance(listed, list) else []
    read = (
        _read_signal(fields, raised) for fields in entries if isinstance(fields, dict)
    )
    return [signal for signal in read if signal is not None]


def _read_signal(
    fields: Mapping[str, Any], raised: Mapping[int, Entry]
) -> Signal | None:
    domain = normalise_domain(as_text(fields.get("domain")) or "")
    if not _NAME.fullmatch(domain) or domain.count("-") >= _MOST_WORDS:
        return None
    reason = (as_text(fields.get("reason")) or "")[:MOST_REASON_CHARACTERS]
    return Signal(domain, reason, _trigger(fields.get("finding_index"), raised))


def _trigger(index: object, raised: Mapping[int, Entry]) -> str | None:
    if isinstance(index, int) and index in raised:
        return raised[index].id
    return next((entry.id for entry in by_severity(raised.values())), None)
