"""The connection is cut at every statement in turn, before it or behind it: nothing acknowledged is lost or doubled."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.contract.pending import Answer
from bridgehead.contract.record_words import PendingState
from bridgehead.control_plane.records import EventFilter
from bridgehead.control_plane.stores.failures import ServerUnreachable
from control_plane.store_suite import SENT, event, ids, question

MOST_STATEMENTS = 60


class Cutter:
    """Ends the server's side of a connection at its n-th statement."""

    def __init__(
        self, server: Any, monkeypatch: pytest.MonkeyPatch, *, at: int, before: bool
    ) -> None:
        import psycopg

        self.left = at
        execute = psycopg.Connection.execute

        def cutting(connection: Any, *arguments: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left != 0:
                return execute(connection, *arguments, **options)
            if before:
                self._cut(server, connection)
                return execute(connection, *arguments, **options)
            done = execute(connection, *arguments, **options)
            self._cut(server, connection)
            return done

        monkeypatch.setattr(psycopg.Connection, "execute", cutting)

    def _cut(self, server: Any, connection: Any) -> None:
        with server.admin() as admin:
            process = connection.info.backend_pid
            admin.execute("SELECT pg_terminate_backend(%s, 10000)", [process])

    @property
    def was_due(self) -> bool:
        return self.left <= 0


@pytest.mark.parametrize("before", [True, False], ids=["before", "behind"])
def test_a_connection_cut_at_any_statement_loses_nothing_acknowledged(
    postgres_place: Any, postgres_server: Any, before: bool
) -> None:
    cuts = outcomes = 0
    asked = postgres_place.open()
    item = asked.open_pending(question("k"))
    for at in range(1, MOST_STATEMENTS):
        acknowledged: list[str] = []
        with pytest.MonkeyPatch.context() as patched:
            cutter = Cutter(postgres_server, patched, at=at, before=before)
            try:
                store = postgres_place.open()
                for n in range(2):
                    store.append([event(f"{at}-{n}"), event(f"{at}-{n}-twin")])
                    acknowledged += [f"{at}-{n}", f"{at}-{n}-twin"]
                store.answer_pending(item.id, Answer(text=str(at)))
                item = store.open_pending(question(f"k-{at}"))
            except ServerUnreachable as error:
                outcomes += 1
                assert "connection broke" in str(error) or "cannot be reached" in str(
                    error
                )
            cuts += cutter.was_due
        if not cutter.was_due:
            break
        recorded = [
            name
            for name in ids(asked.events(SENT, limit=10_000))
            if name.startswith(f"{at}-")
        ]
        assert recorded[: len(acknowledged)] == acknowledged
        assert len(recorded) in (
            len(acknowledged),
            len(acknowledged) + 2,
        )  # twins come together or not at all
        kept = asked.pending_item(item.id)
        if kept.state is PendingState.ANSWERED:
            item = asked.open_pending(question(f"again-{at}"))
        # What failed can simply be done again.
        again = asked.append([event(f"{at}-{n}") for n in range(2)])
        assert [one.event.id for one in again] == [f"{at}-0", f"{at}-1"]
    else:
        pytest.fail(f"more than {MOST_STATEMENTS} statements")
    answers = asked.events(EventFilter(kinds=("pending.answered",)), limit=10_000)
    assert len({one.event.data["id"] for one in answers}) == len(answers)
    print(f"{cuts} cuts, {outcomes} refusals")
    assert cuts > 8 and outcomes > 3
