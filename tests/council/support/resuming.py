"""A council that was cut off in its first round and is taken up again: what became of each call."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Sequence
from typing import Any

import anyio

from bridgehead.contract.report import BridgeReport
from bridgehead.contract.words import ErrorClass
from bridgehead.council.calls import (
    Answer,
    Call,
    CallFailed,
    GivenUp,
    Input,
    Reply,
    Result,
    Role,
    Seat,
    SeatPending,
    SeatReady,
    SeatReported,
)
from bridgehead.council.council import CouncilRun
from bridgehead.council.interfaces import MemoryJournal
from bridgehead.council.reporting.seat_report import SeatFacts, skipped_report
from bridgehead.council.request.plan import CouncilPlan
from bridgehead.council.running.conductor import Ending, Means, Waiting, conduct
from bridgehead.council.runtimes.base import HostSeat
from bridgehead.council.runtimes.scripted import ScriptedConnection
from bridgehead.council.seating.seating import OwnReport
from council.support.driving import AT, item, surroundings, task
from council.support.scripted_seats import ScriptedSeats, scripted_seat

RIG = "rig:"


class HostAnswers:
    """The host's answers that are there when the council is taken up again."""

    def __init__(self, answered: set[str]) -> None:
        self._answered = answered

    def post(self, call: Call) -> None:
        return

    def answers(self, outstanding: Sequence[Call]) -> Sequence[Result]:
        return [
            reply_to(call) for call in outstanding if str(call.key) in self._answered
        ]


class Resumed:
    """One council in two processes; `calls` is the state that the first process left behind."""

    def __init__(self, calls: Sequence[dict[str, Any]], *, close: bool) -> None:
        self._keys = [call["key"] for call in calls]
        self._states = {call["key"]: call["state"] for call in calls}
        self._answered = {call["key"] for call in calls if call.get("answered")}
        self._names = tuple(dict.fromkeys(key.split("/")[0] for key in self._keys))
        waiting = {call["key"] for call in calls if call["state"] == "waiting"}
        self._hosts = {key.split("/")[0] for key in waiting if not key.startswith(RIG)}
        """Whoever a call waits for, and is no rig, is asked as the host."""
        earlier = self._first_process()
        self._journal = MemoryJournal(earlier)
        self._run = self._council()
        self._ending = self._second_process(close)
        self._earlier = {
            str(one.key) for one in earlier if isinstance(one, Reply | CallFailed)
        }
        later = self._journal.recorded[len(earlier) :]
        self._later = {
            str(one.key) for one in later if isinstance(one, Reply | CallFailed)
        } | {
            self._rig_key(one.report.bridge)
            for one in later
            if isinstance(one, SeatReported)
        }

    @property
    def reused(self) -> list[str]:
        made = {str(call.key) for call in self._journal.calls}
        return self._those(self._earlier - self._later - made)

    @property
    def called_again(self) -> list[str]:
        return self._those({str(call.key) for call in self._journal.calls})

    @property
    def folded(self) -> list[str]:
        return self._those(
            self._later - {str(call.key) for call in self._journal.calls}
        )

    @property
    def still_waiting(self) -> list[str]:
        posted = self._ending.calls if isinstance(self._ending, Waiting) else ()
        rigs = {
            self._rig_key(name)
            for name in self._run.waiting_for
            if name.startswith(RIG)
        }
        return self._those({str(call.key) for call in posted} | rigs)

    @property
    def given_up(self) -> list[str]:
        gone = {one.seat for one in self._journal.recorded if isinstance(one, GivenUp)}
        waited = [
            key
            for key in self._keys
            if self._states[key] == "waiting" and key not in self._later
        ]
        return [key for key in waited if key.split("/")[0] in gone]

    def _those(self, keys: set[str]) -> list[str]:
        return [key for key in self._keys if key in keys]

    def _rig_key(self, name: str) -> str:
        return next(key for key in self._keys if key.startswith(f"{name}/"))

    def _council(self) -> CouncilRun:
        agents = {
            key.rpartition("/")[2] for key in self._keys if not key.startswith(RIG)
        }
        # An integration role needs a second domain to integrate.
        domains = tuple(
            dict.fromkeys([*sorted(agents - {role.value for role in Role}), "testing"])
        )
        plan = CouncilPlan(
            task(domains=list(domains)), self._names, dt.date(2026, 11, 15)
        )
        return CouncilRun(plan, surroundings())

    def _first_process(self) -> list[Input]:
        """Everybody sits down and is asked; then come the results that were recorded before the end."""
        run = self._council()
        run.start(AT)
        recorded: list[Input] = [self._seated(name) for name in self._names]
        asked = {
            str(call.key): call for one in recorded for call in run.feed(one).calls
        }
        wanted = {key for key in self._keys if not key.startswith(RIG)}
        open_calls = list(asked.values())
        while open_calls and not wanted <= set(asked):
            # What a later call builds on was answered before.
            call = open_calls.pop(0)
            result = self._result(call)
            if result is None:
                continue
            recorded.append(result)
            fresh = run.feed(result).calls
            asked |= {str(call.key): call for call in fresh}
            open_calls += fresh
        assert wanted <= set(asked), f"never asked: {sorted(wanted - set(asked))}"
        named = [asked[key] for key in self._keys if key in asked]
        left = {str(call.key) for call in open_calls}
        for call in named:
            result = self._result(call) if str(call.key) in left else None
            if result is not None:
                recorded.append(result)
        return recorded

    def _result(self, call: Call) -> Result | None:
        """What the first process recorded of a call; one that the case does not name was answered."""
        match self._states.get(str(call.key)):
            case None | "finished":
                return finding_for(call)
            case "failed":
                reason = "cli_error"
                other = ErrorClass.OTHER
                return CallFailed(key=call.key, reason=reason, error_class=other, at=AT)
            case _:
                return None

    def _seated(self, name: str) -> Input:
        if name.startswith(RIG):
            return SeatPending(seat=name, request="request-1", at=AT)
        return SeatReady(seat=self._seats()[name], at=AT)

    def _seats(self) -> dict[str, Seat]:
        how = {"connection": "native-dispatch", "exchange_mode": "coordinator-mediated"}
        return {
            name: scripted_seat(name, **(how if name in self._hosts else {}))
            for name in self._names
            if not name.startswith(RIG)
        }

    def _second_process(self, close: bool) -> Ending:
        connections = {
            name: HostSeat()
            if name in self._hosts
            else ScriptedConnection(lambda call: reply_to(call).text)
            for name in self._names
            if not name.startswith(RIG)
        }
        answered = {
            name: OwnReport(self._report_of(name))
            for name in self._names
            if name.startswith(RIG) and self._rig_key(name) in self._answered
        }
        seats = ScriptedSeats(connections, seats=self._seats(), again=answered)
        wishes = [GivenUp(seat=name, at=AT) for name in self._names if close]
        means = Means(journal=self._journal, desk=HostAnswers(self._answered))
        return anyio.run(conduct, self._run, seats, means, wishes)

    def _report_of(self, name: str) -> BridgeReport:
        facts = SeatFacts(name=name, timeout_seconds=60, started_at=AT, finished_at=AT)
        return skipped_report(self._run.plan.task, facts, "remote: nothing to look at")


def reply_to(call: Call) -> Reply:
    """An acceptable answer in which nothing was found."""
    document: dict[str, Any] = {
        Answer.ITEMS: {"outputs": []},
        Answer.CHALLENGES: {"rulings": [], "challenges": [], "outputs": []},
        Answer.RESPONSES: {"responses": [], "outputs": []},
        Answer.RULINGS: {"rulings": []},
        Answer.NOTES: {"challenge_notes": []},
        Answer.POSITIONS: {"positions": []},
    }[call.answer]
    return Reply(key=call.key, text=json.dumps(document), at=AT)


def finding_for(call: Call) -> Reply:
    """An acceptable answer that leaves something to talk about in the next round."""
    if call.answer is Answer.CHALLENGES:
        ids = dict.fromkeys(re.findall(r'"id": ?"([A-Z]+[0-9]{3,})"', call.prompt))
        doubts = [challenge(finding_id) for finding_id in ids]
        said = {"rulings": [], "challenges": doubts, "outputs": []}
        return Reply(key=call.key, text=json.dumps(said), at=AT)
    if call.answer is not Answer.ITEMS:
        return reply_to(call)
    found = item(domain=call.key.domain, evidence="src/store.py:10")
    return Reply(key=call.key, text=json.dumps({"outputs": [found]}), at=AT)


def challenge(finding_id: str) -> dict[str, Any]:
    return {
        "target_finding_id": finding_id,
        "challenge_text": "A caller may have checked the value before.",
        "mechanism": "missing-assumption",
    }
