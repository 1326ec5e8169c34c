"""A council while it runs: a table that moves in place on a terminal, NDJSON for programs, warnings for everybody."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from bridgehead.assembly.council_live import COUNCIL, LiveCouncil, LiveSeat, picture_after
from bridgehead.cli.council_table import table_lines
from bridgehead.cli.output import App
from bridgehead.host.clock import SystemClock

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from bridgehead.council.calls import CallFailed

REFRESHES_PER_SECOND: Final = 4


class LiveDisplay:
    """The table of seats on stderr, in place; it comes with the first line and vanishes before the result.

    `earlier` gives the picture of a council that is taken up again.
    """

    def __init__(self, verb: str, earlier: Callable[[str], LiveCouncil]) -> None:
        self._verb = verb
        self._earlier = earlier
        self._facts: Mapping[str, Any] = {}
        self._picture = LiveCouncil(seats=())
        self._live: Live | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hide()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Make room for a question."""
        self._hide()
        try:
            yield
        finally:
            self._show()

    def happened(self, bridge: str, line: Mapping[str, Any]) -> None:
        event = line["event"]
        if bridge == COUNCIL and event in ("council_start", "council_resumed"):
            self._begin(line)
        self._picture = picture_after(self._picture, bridge, line)

    def refused(self, bridge: str, failed: CallFailed) -> None:
        return

    def accepted(self, bridge: str) -> None:
        return

    def _begin(self, line: Mapping[str, Any]) -> None:
        self._facts = line
        seats = tuple(LiveSeat(bridge=str(name)) for name in line.get("bridges") or ())
        self._picture = LiveCouncil(seats=seats)
        if line["event"] == "council_resumed":
            self._picture = self._earlier(str(line["review_id"]))
        self._show()

    def _show(self) -> None:
        from rich.live import Live

        self._live = Live(
            get_renderable=self._table,
            console=self._console,
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=True,
        )
        self._live.start()

    @cached_property
    def _console(self) -> Console:
        from rich.console import Console

        return Console(stderr=True, highlight=False)

    def _hide(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            live.stop()

    def _table(self) -> Text:
        from rich.text import Text

        now, width = SystemClock().now(), self._console.width
        head, *seats = table_lines(self._verb, self._facts, self._picture, now, width)
        table = Text(head, style="bold", no_wrap=True, overflow="crop")
        table.append("\n" + "\n".join(seats[:-1]), style="not bold")
        return table.append(f"\n{seats[-1]}", style="not bold dim")


class WatchLines:
    """Every event as one JSON line on stdout, flushed at once."""

    def __init__(self, app: App) -> None:
        self._app = app

    def happened(self, bridge: str, line: Mapping[str, Any]) -> None:
        self.write({"bridge": bridge, **line})

    def refused(self, bridge: str, failed: CallFailed) -> None:
        return

    def accepted(self, bridge: str) -> None:
        return

    def write(self, document: Mapping[str, Any]) -> None:
        """A reader who has gone away misses the rest; the council and its report are worth more than the reader."""
        try:
            self._app.stdout.write(json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n")
            self._app.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._app.stdout.fileno())


class SpokenWarnings:
    """One line on stderr for a halted bridge that nobody could be asked about (council §3)."""

    def __init__(self, app: App) -> None:
        self._app = app

    def happened(self, bridge: str, line: Mapping[str, Any]) -> None:
        if line["event"] == "bridge_converted":
            self._app.warn(
                f"{line.get('bridge')} needs you ({line.get('halt_reason')}); left out of this council"
            )

    def refused(self, bridge: str, failed: CallFailed) -> None:
        return

    def accepted(self, bridge: str) -> None:
        return
