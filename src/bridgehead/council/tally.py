"""What a seat has spent so far, and what a council may spend (council §12, §24)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from bridgehead.contract.report import Usage
from bridgehead.council.calls import Call, CallUsage, Reply, Result
from bridgehead.council.plan import CouncilOptions

BUDGET_REACHED: Final = "budget_reached"
"""The warning of whoever did not ask any more."""


@dataclass(slots=True)
class Tally:
    """Counts the calls of one seat; tokens and cost stay unknown until the runtime reports some."""

    calls: int = 0
    prompt_chars: int = 0
    reply_chars: int = 0
    largest_prompt: dict[int, int] = field(default_factory=dict)
    """By round, over complete prompts."""
    _used: list[CallUsage] = field(default_factory=list)

    def asked(self, call: Call) -> None:
        self.calls += 1
        self.prompt_chars += len(call.prompt)
        number = call.key.round
        self.largest_prompt[number] = max(self.largest_prompt.get(number, 0), len(call.prompt))

    def answered(self, result: Result) -> None:
        self._used.append(result.usage)
        if isinstance(result, Reply):
            self.reply_chars += len(result.text)

    @property
    def cost_usd(self) -> float | None:
        known = [usage.cost_usd for usage in self._used if usage.cost_usd is not None]
        return sum(known) if known else None

    def usage(self) -> Usage:
        return Usage(
            calls=self.calls,
            prompt_chars=self.prompt_chars,
            reply_chars=self.reply_chars,
            tokens_in=_total([usage.tokens_in for usage in self._used]),
            tokens_out=_total([usage.tokens_out for usage in self._used]),
            cost_usd=self.cost_usd,
        )


@dataclass(slots=True)
class Budget:
    """One budget for all seats of a council; asked before a round, never in the middle of one."""

    options: CouncilOptions = field(default_factory=CouncilOptions)
    _tallies: list[Tally] = field(default_factory=list)

    def watch(self, tally: Tally) -> None:
        self._tallies.append(tally)

    def refusal(self, next_calls: int) -> str | None:
        """Why the next round may not begin, or None when it may."""
        most_calls, most_cost = self.options.max_calls, self.options.max_cost_usd
        calls = sum(tally.calls for tally in self._tallies)
        if most_calls is not None and calls + next_calls > most_calls:
            return "max_calls"
        # A seat that reports no cost counts 0; the council warns about it.
        cost = sum(tally.cost_usd or 0.0 for tally in self._tallies)
        if most_cost is not None and cost >= most_cost:
            return "max_cost"
        return None


def _total(amounts: list[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None
