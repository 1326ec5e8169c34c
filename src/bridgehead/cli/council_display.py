"""A council while it runs: a table that moves in place on a terminal, NDJSON for programs, warnings for everybody."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from bridgehead.cli.output import App
from bridgehead.host.terminal import escape_controls

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from bridgehead.council.calls import CallFailed

COUNCIL: Final = "council"
REFRESHES_PER_SECOND: Final = 4
MOST_DOTS: Final = 6


@dataclass
class SeatLine:
    """What the table says about one seat."""

    bridge: str
    began: float
    doing: str = "looking"
    detail: str = ""
    round: int = 0
    agents: int = 0
    heard: int = 0
    findings: int = 0
    ended: float | None = None

    def take(self, line: Mapping[str, Any]) -> None:
        """A line of the seat's log."""
        match line["event"]:
            case "dispatch":
                self.round = int(line.get("round") or 1)
                self.agents, self.heard = len(line.get("domains") or ()) or 1, 0
                self.doing, self.detail = f"round {self.round}", ""
            case "agent_reply" | "agent_failed":
                self.heard += 1
                self.detail = f"{min(self.heard, self.agents)} of {self.agents} agents"
            case "output":
                self.findings += 1
            case "challenge":
                self.detail = "challenged"
            case "response":
                self.detail = "answering challenges"
            case "bridge_complete":
                self._end(line)

    def _end(self, line: Mapping[str, Any]) -> None:
        self.ended = time.monotonic()
        status = str(line.get("status"))
        if status == "COMPLETED":
            self.doing = "done"
            found = int(line.get("output_count") or 0)
            self.detail = f"{found} finding{'' if found == 1 else 's'}"
        else:
            self.doing = status.lower()

    @property
    def dots(self) -> str:
        if self.doing in ("skipped", "halted"):
            return "–"
        if self.ended is not None:
            return "●" * max(1, min(self.agents, MOST_DOTS))
        full = min(self.heard, MOST_DOTS)
        return "●" * full + "○" * max(0, min(self.agents, MOST_DOTS) - full)

    @property
    def seconds(self) -> int:
        return round((self.ended or time.monotonic()) - self.began)


class LiveDisplay:
    """The table of seats on stderr, in place; it vanishes when the result is printed."""

    def __init__(self, title: str, bridges: tuple[str, ...] = ()) -> None:
        self._title = title
        self._seats: dict[str, SeatLine] = {}
        self._live: Live | None = None
        for bridge in bridges:
            self._seat(bridge)

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(
            get_renderable=self._table,
            console=Console(stderr=True, highlight=False),
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=True,
        )
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def happened(self, bridge: str, line: Mapping[str, Any]) -> None:
        if bridge == COUNCIL:
            if line["event"] == "council_start":
                self._title = f"council {line.get('review_id')}   {self._title}"
                for name in line.get("bridges") or ():
                    self._seat(str(name))
            return
        self._seat(bridge).take(line)

    def refused(self, bridge: str, failed: CallFailed) -> None:
        self._seat(bridge).detail = escape_controls(failed.reason)[:80]

    def accepted(self, bridge: str) -> None:
        return

    def _seat(self, bridge: str) -> SeatLine:
        return self._seats.setdefault(bridge, SeatLine(bridge, time.monotonic()))

    def _table(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table(
            box=None,
            show_header=False,
            title=Text(escape_controls(self._title)),
            title_justify="left",
            caption=Text("Ctrl-C stops and keeps what is there", style="dim"),
            caption_justify="right",
            pad_edge=False,
            padding=(0, 2),
        )
        for seat in self._seats.values():
            cells = (seat.bridge, seat.dots, seat.doing, seat.detail, f"{seat.seconds} s")
            table.add_row(*(Text(escape_controls(cell)) for cell in cells))
        return table


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
        self._app.stdout.write(json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n")
        self._app.stdout.flush()


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
