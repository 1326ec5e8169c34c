"""The retry rule: calls that are outstanding together, what came back, what is asked again, and what it all cost
(council §9.3, §12).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import asdict

from bridgehead.contract.looks import Unlooked
from bridgehead.contract.report import Usage
from bridgehead.contract.words import ErrorClass
from bridgehead.council.calls import (
    Answer,
    Call,
    CallFailed,
    CallKey,
    CallUsage,
    Reply,
    Result,
    sum_known,
)
from bridgehead.council.debate.ledger import Log, Owner
from bridgehead.council.prompts.fences import Safe
from bridgehead.council.prompts.shared import NOTHING
from bridgehead.council.replies.reply import PARSE_FAILURE, Answered, Reader, read_reply
from bridgehead.council.request.plan import CouncilOptions

BUDGET_REACHED: Final = "budget_reached"
"""The warning of whoever did not ask any more."""
CANCELLED: Final = "cancelled"
NOTHING_SPENT: Final = CallUsage()
_WITHHELD: Final = (Unlooked.FILTERED, Unlooked.REFUSED)
_UNLOOKED: Final = {
    ErrorClass.TIMEOUT: Unlooked.TIMED_OUT,
    ErrorClass.CONTENT_FILTER: Unlooked.FILTERED,
    ErrorClass.TOO_LONG: Unlooked.TOO_LARGE,
    ErrorClass.CUT: Unlooked.CUT,
    ErrorClass.AUTH: Unlooked.NO_LOGIN,
    ErrorClass.QUOTA: Unlooked.NO_QUOTA,
    ErrorClass.RATE_LIMIT: Unlooked.NO_QUOTA,
    ErrorClass.SPEND_LIMIT: Unlooked.NO_QUOTA,
    ErrorClass.ACCOUNT: Unlooked.NO_LOGIN,
}


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
        self.largest_prompt[number] = max(
            self.largest_prompt.get(number, 0), len(call.prompt)
        )

    def answered(self, result: Result) -> None:
        self._used.append(result.usage)
        if isinstance(result, Reply):
            self.reply_chars += len(result.text)

    @property
    def known_cost_usd(self) -> float:
        """What the calls that name their price cost together; the others count 0."""
        return sum(usage.cost_usd or 0.0 for usage in self._used)

    def usage(self) -> Usage:
        prices = [usage.cost_usd for usage in self._used]
        return Usage(
            calls=self.calls,
            prompt_chars=self.prompt_chars,
            reply_chars=self.reply_chars,
            tokens_in=sum_known(usage.tokens_in for usage in self._used),
            tokens_out=sum_known(usage.tokens_out for usage in self._used),
            # A sum that leaves calls out would be taken for the whole.
            cost_usd=self.known_cost_usd if self._used and None not in prices else None,
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
        most_cost = self.options.max_cost_usd
        calls_left = self.calls_left
        if calls_left is not None and next_calls > calls_left:
            return "max_calls"
        # A seat that reports no cost counts 0; the council warns about it.
        cost = sum(tally.known_cost_usd for tally in self._tallies)
        if most_cost is not None and cost >= most_cost:
            return "max_cost"
        return None

    @property
    def calls_left(self) -> int | None:
        """Return how many calls may still be made; None if nobody set a limit."""
        if self.options.max_calls is None:
            return None
        made = sum(tally.calls for tally in self._tallies)
        return max(self.options.max_calls - made, 0)


class Form(NamedTuple):
    """What a question asks for, and how the reply to it is read."""

    answer: Answer
    read: Reader[Any]


@dataclass(frozen=True, slots=True)
class Ask:
    """One question: the call, how its answer is read, and how it is put to a runtime that lost the session."""

    call: Call
    prompt: Safe
    read: Reader[Any]
    standalone: Safe | None = None
    is_repair: bool = False
    shown_ids: tuple[str, ...] = ()
    """Items the prompt shows; what is owed or answered depends on it."""
    asked: tuple[str, ...] = ()
    """Challenges the prompt shows."""


@dataclass(frozen=True, slots=True)
class ReadReply:
    """One usable answer."""

    ask: Ask
    value: Any
    partial: bool
    declined: str | None = None
    """The words with which it says that it did not look, where one of its lists is empty."""

    @property
    def owner(self) -> Owner:
        return Owner(self.ask.call.key.role, self.ask.call.key.domain)


@dataclass(slots=True)
class CallBatch:
    """One step's questions. `repair` builds the prompt that asks for readable JSON."""

    asks: Sequence[Ask]
    log: Log
    tally: Tally
    repair: Callable[[CallKey, Safe, str], Safe]
    keeps_history: bool = False
    sessions: dict[str, str] = field(default_factory=dict)
    replies: dict[CallKey, ReadReply] = field(default_factory=dict)
    """By the key of the first attempt."""
    failures: dict[CallKey, str] = field(default_factory=dict)
    """Why, by the same keys."""
    shortfalls: dict[CallKey, Unlooked] = field(default_factory=dict)
    """Why an answer is missing or not the whole one, by the same keys."""
    _outstanding: dict[CallKey, Ask] = field(default_factory=dict)

    def start(self) -> tuple[Call, ...]:
        if self.asks:
            first = self.asks[0].call.key
            agents = [ask.call.key.agent for ask in self.asks]
            self.log("asked", round=first.round, step=first.step.value, agents=agents)
        return tuple(self._issue(ask) for ask in self.asks)

    @property
    def outstanding(self) -> tuple[CallKey, ...]:
        return tuple(self._outstanding)

    @property
    def is_done(self) -> bool:
        return not self._outstanding

    def received(self, result: Result) -> tuple[Call, ...]:
        """Take a result in; returns the call that asks again, if one does. Unknown keys are ignored."""
        ask = self._outstanding.pop(result.key, None)
        if ask is None:
            return ()
        self.tally.answered(result)
        if isinstance(result, CallFailed):
            if ask.call.session is not None and ask.standalone is not None:
                self.sessions.pop(ask.call.key.speaker, None)
                self.log(
                    "warning",
                    detail=f"session_lost:{ask.call.key.agent}",
                    round=ask.call.key.round,
                )
                return (self._issue(_put_again(ask, ask.standalone, session=None)),)
            self._fail(
                ask,
                result.reason,
                result.error_class,
                detail=result.detail,
                usage=result.usage,
            )
            return ()
        return self._replied(ask, result)

    def give_up(self, reason: str) -> tuple[CallKey, ...]:
        """Nobody waits any longer; what is outstanding has failed. Returns the keys to cancel."""
        abandoned = self.outstanding
        for ask in list(self._outstanding.values()):
            self._fail(ask, reason, ErrorClass.TIMEOUT, detail="")
        self._outstanding.clear()
        return abandoned

    def in_order(self) -> list[ReadReply]:
        """Usable answers in the order the questions were given, whoever answered first."""
        firsts = (first_attempt(ask.call.key) for ask in self.asks)
        return [self.replies[key] for key in firsts if key in self.replies]

    def _issue(self, ask: Ask) -> Call:
        self._outstanding[ask.call.key] = ask
        self.tally.asked(ask.call)
        return ask.call

    def _replied(self, ask: Ask, reply: Reply) -> tuple[Call, ...]:
        key = ask.call.key
        if reply.session is not None:
            self.sessions[key.speaker] = reply.session
        answer = read_reply(reply.text, ask.read)
        if isinstance(answer, Answered):
            if _says_nothing(answer, reply, ask):
                self._decline(ask, reply, answer)
                return ()
            partial = answer.partial or reply.shortfall is not None
            if partial:
                self.shortfalls[first_attempt(key)] = reply.shortfall or Unlooked.CUT
            self.replies[first_attempt(key)] = ReadReply(
                ask, answer.value, partial, answer.declined
            )
            facts = {"round": key.round, "role": key.role.value, "domain": key.domain}
            duration = round(reply.duration_seconds, 3)
            self.log(
                "agent_reply",
                **facts,
                chars=len(reply.text),
                duration_s=duration,
                **_spent(reply.usage),
            )
            if partial:
                self.log("agent_partial", **facts, chars=len(reply.text))
            return ()
        if answer.reason == PARSE_FAILURE and not ask.is_repair:
            return (self._issue(self._repaired(ask, reply)),)
        error = ErrorClass.MALFORMED if reply.text.strip() else ErrorClass.EMPTY
        self._fail(ask, answer.reason, error, detail="")
        return ()

    def _decline(self, ask: Ask, reply: Reply, answer: Answered[Any]) -> None:
        """Take an empty answer of a model that did not look as no answer."""
        if reply.shortfall is Unlooked.FILTERED:
            reason = "filtered: the content filter stopped the answer"
        else:
            reason = f"refused: {answer.declined or 'the model refused'}"
        self._fail(ask, reason, ErrorClass.CONTENT_FILTER, detail="", usage=reply.usage)
        if reply.shortfall is not Unlooked.FILTERED:
            self.shortfalls[first_attempt(ask.call.key)] = Unlooked.REFUSED

    def _fail(
        self,
        ask: Ask,
        reason: str,
        error_class: ErrorClass,
        *,
        detail: str,
        usage: CallUsage = NOTHING_SPENT,
    ) -> None:
        key = ask.call.key
        self.failures[first_attempt(key)] = reason
        self.shortfalls[first_attempt(key)] = unlooked_by(error_class)
        facts = {"round": key.round, "role": key.role.value, "domain": key.domain}
        extra = {"detail": detail} if detail else {}
        self.log(
            "agent_failed",
            **facts,
            reason=reason,
            error_class=error_class.value,
            **extra,
            **_spent(usage),
        )

    def _repaired(self, ask: Ask, reply: Reply) -> Ask:
        """The one follow-up that asks for nothing but the JSON."""
        session = reply.session if self.keeps_history else None
        previous = NOTHING if session is not None else ask.prompt
        prompt = self.repair(next_attempt(ask.call.key), previous, reply.text)
        return replace(_put_again(ask, prompt, session=session), is_repair=True)


def unlooked_by(error_class: ErrorClass) -> Unlooked:
    """Return what a failed call means for the look that it was."""
    return _UNLOOKED.get(error_class, Unlooked.DIED)


def _says_nothing(answer: Answered[Any], reply: Reply, ask: Ask) -> bool:
    """Return whether a list of findings is empty because the model did not look."""
    if ask.call.answer is Answer.SECTIONS:
        lists = answer.value.by_domain.values()
        is_empty = not any(items.entries for items in lists)
    else:
        is_empty = ask.call.answer is Answer.ITEMS and not answer.value.entries
    if not is_empty:
        return False
    return answer.declined is not None or reply.shortfall in _WITHHELD


def first_attempt(key: CallKey) -> CallKey:
    return msgspec.structs.replace(key, attempt=1)


def next_attempt(key: CallKey) -> CallKey:
    return msgspec.structs.replace(key, attempt=key.attempt + 1)


def _put_again(ask: Ask, prompt: Safe, *, session: str | None) -> Ask:
    call = replace(
        ask.call, key=next_attempt(ask.call.key), prompt=prompt, session=session
    )
    return replace(ask, call=call, prompt=prompt, standalone=None)


def _spent(usage: CallUsage) -> dict[str, Any]:
    return {name: value for name, value in asdict(usage).items() if value is not None}
