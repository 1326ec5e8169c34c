"""Contexts for flows made of numbered phases that keep the published state file (flows §11)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bridgehead.flows.book import NOT_RESTORED
from bridgehead.flows.codec import Unfit, encode, from_plain, to_plain
from bridgehead.flows.context import Context, value_of
from bridgehead.flows.errors import StateInvalid


class PhasedContext(Context):
    """A context with phases. Inside a phase, asks carry its number and their own name as the request's phase name."""

    @property
    def flow_id(self) -> str:
        """The id of the run, the same on every replay."""
        return self._session.replay.flow_id

    @property
    def root(self) -> Path:
        """The canonical directory the flow belongs to."""
        return self._session.desk.files.root.path

    def phase(
        self,
        number: int,
        name: str,
        body: Callable[[PhasedContext], Any],
        *,
        key: str | None = None,
        result: Any = None,
        summary: Callable[[Any], str] = lambda _: "",
    ) -> Any:
        """Run `body` once. Its result is kept in the state file under `key`; without a key it is only known as done.

        A phase restored from a state file that lacks its result gives None.
        """
        path = self._next_path(name)
        session = self._session
        record = session.replay.find(path, "phase", None)
        if record is not None:
            value = value_of(record, result)
            if not session.book.has_completed(number):  # a crash came between the journal and the state file
                session.book.complete(number, name, key, to_plain(value), summary(value))
            return value
        restored = session.book.restored_phase(number, key)
        if restored is not NOT_RESTORED:
            value = self._as_result(restored, result, key)
            session.replay.add(path, "phase", None, encode(restored))
            return value
        session.book.enter(number, name)
        started = session.replay.now()
        value = body(PhasedContext(session, f"{path}/", number))
        record = session.replay.keep(path, "phase", None, value, started)
        session.book.complete(number, name, key, to_plain(value), summary(value))
        session.book.save()
        return value_of(record, result)

    def _as_result(self, restored: Any, result: Any, key: str | None) -> Any:
        if restored is None or result is None:
            return restored
        try:
            return from_plain(restored, result)
        except Unfit as error:
            state = self._session.desk.files.state_path
            raise StateInvalid(state, [f"phase_data/{key}: {error}"]) from error

    def remember(self, key: str, value: Any) -> None:
        """Keep a value in the state file beside the results of phases, for readers of the file."""
        self._session.book.remember(key, to_plain(value))
