"""A council that was cut off in its first round and is taken up again: what became of each call."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from typing import Any

import anyio

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
    SeatPending,
    SeatReady,
)
from bridgehead.council.council import CouncilRun
from bridgehead.council.interfaces import MemoryJournal
from bridgehead.council.request.plan import CouncilPlan
from bridgehead.council.running.conductor import Ending, Means, Waiting, conduct
from bridgehead.council.runtimes.base import HostSeat
from bridgehead.council.runtimes.scripted import ScriptedConnection
from council.support.driving import AT, surroundings, task
from council.support.scripted_seats import ScriptedSeats, scripted_seat

HOST = "claude"
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
        assert {key for key in self._keys if not key.startswith(RIG)} <= set(asked)
        for key in self._keys:
            if self._states[key] == "finished":
                recorded.append(reply_to(asked[key]))
            elif self._states[key] == "failed":
                recorded.append(
                    CallFailed(
                        key=asked[key].key,
                        reason="cli_error",
                        error_class=ErrorClass.OTHER,
                        at=AT,
                    )
                )
        return recorded

    def _seated(self, name: str) -> Input:
        if name.startswith(RIG):
            return SeatPending(seat=name, request="request-1", at=AT)
        how = {"connection": "native-dispatch", "exchange_mode": "coordinator-mediated"}
        return SeatReady(
            seat=scripted_seat(name, **(how if name == HOST else {})), at=AT
        )

    def _second_process(self, close: bool) -> Ending:
        connections = {
            name: HostSeat()
            if name == HOST
            else ScriptedConnection(lambda call: reply_to(call).text)
            for name in self._names
        }
        wishes = [GivenUp(seat=name, at=AT) for name in self._names if close]
        means = Means(journal=self._journal, desk=HostAnswers(self._answered))
        return anyio.run(conduct, self._run, ScriptedSeats(connections), means, wishes)


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
