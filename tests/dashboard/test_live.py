"""Live updates: nothing is lost silently, and a reader that falls behind is told so."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bridgehead.control_plane.stores.sqlite import MemoryStore
from bridgehead.dashboard import live
from bridgehead.dashboard.live import Broadcast, Reader
from dashboard.support.served import TOKEN, Served, note, served

READERS = 50


def run(main: Callable[[Broadcast, MemoryStore], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        with MemoryStore() as store:
            broadcast = Broadcast(store)
            await broadcast.start()
            try:
                async with asyncio.timeout(20):
                    await main(broadcast, store)
            finally:
                await broadcast.stop()

    asyncio.run(bounded())


async def gather_until(reader: Reader, last: int) -> list[int]:
    seen: list[int] = []
    while not seen or seen[-1] < last:
        taken = await reader.take()
        assert taken, "the reader fell behind or was let go"
        seen += [told.seq for told in taken]
    return seen


def test_every_reader_hears_every_event_once_and_in_order() -> None:
    async def main(broadcast: Broadcast, store: MemoryStore) -> None:
        readers = [broadcast.subscribe() for _ in range(READERS)]
        first = store.last_seq() + 1
        for start in range(0, 500, 100):
            await asyncio.to_thread(note, store, *range(start, start + 100))
        last = store.last_seq()

        heard = await asyncio.gather(
            *(gather_until(reader, last) for reader in readers)
        )

        assert heard == [list(range(first, last + 1))] * READERS

    run(main)


def test_a_reader_that_falls_behind_is_told_once_and_then_goes_on() -> None:
    async def main(broadcast: Broadcast, store: MemoryStore) -> None:
        slow, quick = broadcast.subscribe(most_queued=10), broadcast.subscribe()
        await asyncio.to_thread(note, store, *range(50))
        await gather_until(quick, store.last_seq())

        assert await slow.take() == [], "an empty batch says: load again"

        await asyncio.to_thread(note, store, 99)
        await gather_until(quick, store.last_seq())
        assert [told.seq for told in await slow.take() or []] == [store.last_seq()]

    run(main)


def test_letting_go_ends_every_reader() -> None:
    async def main(broadcast: Broadcast, store: MemoryStore) -> None:
        readers = [broadcast.subscribe() for _ in range(3)]
        broadcast.close_readers()

        assert [await reader.take() for reader in readers] == [None, None, None]

    run(main)


# -- over the wire


@contextmanager
def listening(
    server: Served, last_seen: int | None = None
) -> Iterator[http.client.HTTPResponse]:
    host, _, port = server.base.removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=10)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    if last_seen is not None:
        headers["Last-Event-ID"] = str(last_seen)
    connection.request("GET", "/live", headers=headers)
    response = connection.getresponse()
    try:
        yield response
    finally:
        response.close()
        connection.close()


def frames(response: http.client.HTTPResponse) -> Iterator[dict[str, str]]:
    frame: dict[str, str] = {}
    for raw in response:
        line = raw.decode().rstrip("\n")
        if line:
            name, _, value = line.partition(": ")
            frame[name] = value
        elif frame:
            yield frame
            frame = {}


def test_a_browser_that_comes_back_gets_what_it_missed_or_is_told_to_load_again(
    tmp_path: Path,
) -> None:
    with served(tmp_path) as server:
        note(server.store, *range(5), run_of=lambda number: "r-1")
        seen = server.store.last_seq() - 2
        with listening(server, seen) as response:
            told = frames(response)
            hello, *missed = (next(told) for _ in range(3))
            assert hello["event"] == "hello"
            assert [int(frame["id"]) for frame in missed] == [seen + 1, seen + 2]
            assert '"kind":"rig.sent"' in missed[0]["data"]
            assert '"run":"r-1"' in missed[0]["data"]
            assert "build-03" not in missed[0]["data"], (
                "what an event says is not on the wire"
            )
            note(server.store, 77)
            assert int(next(told)["id"]) == server.store.last_seq()

        note(server.store, *range(1000, 1001 + live.MOST_MISSED))
        for last_seen in (seen, 10**9):
            with listening(server, last_seen) as response:
                told = frames(response)
                assert [next(told)["event"] for _ in range(2)] == ["hello", "reload"]
