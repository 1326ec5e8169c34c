"""Councils in a flow journal: what was settled, what was fed to the run, in order and durably (council §4).

Councils have a journal file of their own beside that of the flows. A root has at most one paused flow, but a council
without a host seat pauses nobody and may be left unfinished for days.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.assembly.council_kept import KeptCouncil
from bridgehead.council.calls import (
    Call,
    Input,
    Interrupted,
    Retried,
    SeatReported,
    UserAnswered,
)
from bridgehead.flows.journals.base import Record, Run
from bridgehead.flows.journals.sqlite import SqliteJournal
from bridgehead.flows.root import FlowRoot
from bridgehead.flows.words import RunStatus
from bridgehead.host.clock import Clock, iso_ms

NAME: Final = "council"
VERSION: Final = "1"
JOURNAL_FILE: Final = "councils.db"

_INPUT: Final = "input"
_STARTED: Final = "started"
_inputs: Final = msgspec.json.Decoder(Input)


class CouncilBook:
    """All councils of a project that can be taken up again. A request that is refused leaves no journal behind."""

    def __init__(self, project: Path, clock: Clock) -> None:
        self._root = FlowRoot.open(project)
        self._clock = clock

    @cached_property
    def _journal(self) -> SqliteJournal:
        self._root.prepare()
        return SqliteJournal(self._path)

    @property
    def _path(self) -> Path:
        return self._root.private / JOURNAL_FILE

    def begin(self, kept: KeptCouncil) -> None:
        at = self._now()
        self._journal.begin(
            Run(
                id=kept.review_id,
                name=NAME,
                version=VERSION,
                source=NAME,
                root=str(self._root.path),
                status=RunStatus.RUNNING,
                input=kept.stored(),
                created=at,
                updated=at,
            )
        )

    def kept(self, review_id: str) -> KeptCouncil | None:
        run = self._journal.run(review_id)
        return None if run is None else KeptCouncil.read(run.input)

    def ids(self) -> list[str]:
        """Ids of all councils, newest first."""
        return [run.id for run in self._journal.runs()] if self._path.exists() else []

    def is_open(self, review_id: str) -> bool:
        run = self._journal.run(review_id)
        return run is not None and not run.status.ended

    def calls_of(self, review_id: str) -> KeptJournal:
        return KeptJournal(self._journal, review_id, self._clock)

    def wait(self, review_id: str) -> None:
        """The council has a seat that may still answer."""
        self._journal.hold(review_id, (), at=self._now())

    def take_up(self, review_id: str) -> None:
        self._journal.claim(review_id, version=VERSION, at=self._now())

    def end(self, review_id: str) -> None:
        self._journal.end(review_id, RunStatus.COMPLETED, at=self._now())

    def close(self) -> None:
        if "_journal" in vars(self):
            self._journal.close()

    def _now(self) -> str:
        return iso_ms(self._clock.now())


class KeptJournal:
    """The calls of one council (`CallJournal`); remembers a signal that ended the run in this process."""

    def __init__(self, journal: SqliteJournal, review_id: str, clock: Clock) -> None:
        self._journal = journal
        self._review_id = review_id
        self._clock = clock
        records = journal.lookup(review_id).values()
        self._inputs: list[Input] = [
            _inputs.decode(record.result or "") for record in records if record.kind == _INPUT
        ]
        self.signal: str | None = None

    def inputs(self) -> Sequence[Input]:
        return tuple(self._inputs)

    def started(self, call: Call, at: str) -> None:
        path = f"{_STARTED}/{call.key}"
        self._append(path, _STARTED, at, input_sha=call.prompt_sha256)

    def fed(self, happened: Input) -> None:
        if isinstance(happened, Interrupted):
            self.signal = happened.signal
        text = msgspec.json.encode(happened).decode()
        path = f"{_INPUT}#{len(self._inputs)}"
        self._append(path, _INPUT, iso_ms(self._clock.now()), result=text)
        self._inputs.append(happened)

    def halt_message(self, bridge: str) -> str:
        """What a halted bridge said a person should do."""
        said = [one.report for one in self._inputs if isinstance(one, SeatReported)]
        return next((one.halt_message or "" for one in reversed(said) if one.bridge == bridge), "")

    def seating(self, bridge: str) -> int:
        """How often the bridge was seated: once, and again after every retry."""
        again = [one for one in self._inputs if isinstance(one, Retried | UserAnswered)]
        return 1 + sum(one.bridge == bridge for one in again)

    def _append(
        self, path: str, kind: str, at: str, *, input_sha: str | None = None, result: str | None = None
    ) -> None:
        record = Record(
            path=path,
            kind=kind,
            input_sha=input_sha,
            status="completed",
            result=result,
            error=None,
            started=at,
            ended=at,
        )
        self._journal.append(self._review_id, record)
