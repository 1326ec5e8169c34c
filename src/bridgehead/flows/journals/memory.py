"""A journal that lives as long as its process: for tests, and for flows whose agents answer in process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bridgehead.flows.calls import Attempt
from bridgehead.flows.journals.base import Journal, Record, Run
from bridgehead.flows.words import RunStatus


class MemoryJournal(Journal):
    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}
        self._records: dict[str, dict[str, Record]] = {}
        self._attempts: dict[str, dict[str, Attempt]] = {}

    def begin(self, run: Run) -> None:
        self._runs[run.id] = run
        self._records[run.id] = {}
        self._attempts[run.id] = {}

    def claim(self, flow_id: str, *, version: str, at: str) -> None:
        self._change(flow_id, status=RunStatus.RUNNING, version=version, updated=at, error=None)

    def lookup(self, flow_id: str) -> dict[str, Record]:
        return dict(self._records[flow_id])

    def attempts(self, flow_id: str) -> list[Attempt]:
        return list(self._attempts[flow_id].values())

    def append(self, flow_id: str, record: Record) -> None:
        self._records[flow_id][record.path] = record

    def complete(self, flow_id: str, record: Record, attempts: Sequence[Attempt]) -> None:
        self._put(flow_id, attempts)
        self.append(flow_id, record)

    def hold(self, flow_id: str, attempts: Sequence[Attempt], *, at: str) -> None:
        self._put(flow_id, attempts)
        self._change(flow_id, status=RunStatus.WAITING, updated=at)

    def forget_from(self, flow_id: str, path: str) -> None:
        made = list(self._records[flow_id])
        kept = made[: made.index(path)]
        self._records[flow_id] = {known: self._records[flow_id][known] for known in kept}
        self._attempts[flow_id] = {
            key: attempt for key, attempt in self._attempts[flow_id].items() if attempt.path in kept
        }

    def reopen(
        self,
        flow_id: str,
        *,
        at: str,
        path: str | None = None,
        attempts: Sequence[Attempt] = (),
        error: str | None = None,
        drop_open: bool = False,
    ) -> None:
        made = list(self._records[flow_id])
        dropped = made[made.index(path) :] if path is not None else []
        for gone in dropped:
            del self._records[flow_id][gone]
        self._attempts[flow_id] = {
            key: attempt
            for key, attempt in self._attempts[flow_id].items()
            if (attempt.path == path or attempt.path not in dropped)
            and not (drop_open and attempt.outstanding)
        }
        self._put(flow_id, attempts)
        self._change(flow_id, status=RunStatus.WAITING, updated=at, error=error)

    def end(
        self,
        flow_id: str,
        status: RunStatus,
        *,
        at: str,
        result: str | None = None,
        error: str | None = None,
        attempts: Sequence[Attempt] = (),
    ) -> None:
        self._put(flow_id, attempts)
        self._change(flow_id, status=status, updated=at, result=result, error=error)

    def keep_answer(self, request_id: str, response: Mapping[str, Any]) -> bool:
        found = self.owner(request_id)
        if found is None or not found[1].outstanding or found[1].response is not None:
            return False
        self._put(found[0].id, [found[1]._replace(response=response)])
        return True

    def forget(self, flow_ids: Sequence[str]) -> None:
        for flow_id in flow_ids:
            for kept in (self._runs, self._records, self._attempts):
                kept.pop(flow_id, None)

    def runs(self) -> list[Run]:
        return list(reversed(self._runs.values()))

    def owner(self, request_id: str) -> tuple[Run, Attempt] | None:
        for flow_id, attempts in self._attempts.items():
            if request_id.lower() in attempts:
                return self._runs[flow_id], attempts[request_id.lower()]
        return None

    def close(self) -> None:
        """Nothing is held open."""

    def _put(self, flow_id: str, attempts: Sequence[Attempt]) -> None:
        for attempt in attempts:
            kept = self._attempts[flow_id].get(attempt.request_id.lower())
            if kept is not None and attempt.response is None:
                attempt = attempt._replace(response=kept.response)
            self._attempts[flow_id][attempt.request_id.lower()] = attempt

    def _change(self, flow_id: str, **changes: Any) -> None:
        self._runs[flow_id] = self._runs[flow_id]._replace(**changes)
