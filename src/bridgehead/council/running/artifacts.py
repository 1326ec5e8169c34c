"""Files of a run, written as things occur (council §18): event log and summary per seat, reports; secrets masked
before writing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import to_builtins

from bridgehead.contract.report import Artifacts, BridgeReport
from bridgehead.council.calls import CallFailed, Result, SeatEvent
from bridgehead.council.council import COUNCIL_LOG
from bridgehead.council.interfaces import Observer
from bridgehead.council.reporting.render.markdown import render_seat
from bridgehead.council.reporting.seat_report import closing_facts, raised_facts
from bridgehead.host.clock import Clock, SystemClock, iso_ms
from bridgehead.host.directories import make_dir
from bridgehead.host.files import append_line, write_atomic

FOLDER: Final = ".outputs"
COUNCIL: Final = "council"
DEBATE: Final = "debate"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_MOST_SUFFIXES: Final = 10_000
MASK: Final = "[masked]"
_SECRET_NAME: Final = re.compile(
    r".*(_KEY|_TOKEN|_PASSWORD|_SECRET)$|^(KEY|TOKEN|PASSWORD)$", re.IGNORECASE
)
# A shorter value would be found in ordinary words.
_SHORTEST: Final = 6
BRIDGE_START: Final = "bridge_start"


@dataclass
class _Log:
    """One seat's files."""

    stem: str
    seq: int = 0
    preflight: list[Mapping[str, Any]] = field(default_factory=list)


class OutputFolder:
    """The `.outputs` folder of a project during one run."""

    def __init__(
        self,
        project: Path,
        session_id: str,
        clock: Clock,
        *,
        mask: Callable[[str], str] = str,
        goes_on: bool = False,
    ) -> None:
        """`goes_on`: the run began in an earlier process, and its seats' logs are continued."""
        self._project = project
        self._goes_on = goes_on
        self._session = _UNSAFE.sub("-", session_id)
        self._clock = clock
        self._mask = mask
        self._logs: dict[str, _Log] = {}
        self._seated_anew: set[str] = set()

    def write_event(self, event: SeatEvent) -> dict[str, Any]:
        """Append one line to the seat's log; returns the line as it was written."""
        log = self._log_of(event.seat)
        log.seq += 1
        fields = self._masked(msgspec.to_builtins(event.fields))
        line = {
            "event": event.event,
            "ts": iso_ms(self._clock.now()),
            "seq": log.seq,
            **fields,
        }
        text = json.dumps(line, ensure_ascii=False)
        append_line(
            self._project / f"{log.stem}.jsonl", _encodable(text), root=self._project
        )
        if event.event == "preflight":
            log.preflight.append(line)
        return line

    def write_seat(self, report: BridgeReport) -> Artifacts:
        """Write the seat's summary beside its log; returns where both are."""
        log = self._log_of(report.bridge)
        artifacts = Artifacts(f"{log.stem}.jsonl", f"{log.stem}.md")
        placed = msgspec.structs.replace(report, artifacts=artifacts)
        summary = render_seat(
            placed, log.preflight, timestamp=iso_ms(self._clock.now())
        )
        write_atomic(
            self._project / f"{log.stem}.md",
            _encodable(self._mask(summary)),
            root=self._project,
        )
        return artifacts

    def new_seating(self, seat: str) -> None:
        """The seat is seated again: its next event opens a new log."""
        self._logs.pop(seat, None)
        self._seated_anew.add(seat)

    def write_council(
        self,
        *,
        markdown: str,
        document: Mapping[str, Any],
        html: str,
        kind: str = COUNCIL,
    ) -> str:
        """Write a report in its three forms and return their name; `kind` is `council`, or `debate` (council §17)."""
        stamp = f"{self._clock.now():%Y%m%d-%H%M%S}"
        stem = free_stem(
            self._project,
            kind,
            f"{stamp}-{kind}-{self._session}",
            ".md",
            ".json",
            ".html",
        )
        self.write_again(stem, markdown=markdown, document=document, html=html)
        return stem

    def write_again(
        self, stem: str, *, markdown: str, document: Mapping[str, Any], html: str
    ) -> None:
        """The three forms of a report under a name that is known."""
        forms = {
            f"{stem}.md": self._mask(markdown),
            f"{stem}.json": json.dumps(
                self._masked(document), ensure_ascii=False, indent=2
            )
            + "\n",
            f"{stem}.html": self._mask(html),
        }
        for name, text in forms.items():
            write_atomic(self._project / name, _encodable(text), root=self._project)

    def _masked(self, value: Any) -> Any:
        """The value with its texts masked; in JSON text a secret of digits would be found in numbers too."""
        match value:
            case str():
                return self._mask(value)
            case Mapping():
                return {name: self._masked(entry) for name, entry in value.items()}
            case list() | tuple():
                return [self._masked(entry) for entry in value]
            case _:
                return value

    def _log_of(self, seat: str) -> _Log:
        if seat not in self._logs:
            self._logs[seat] = self._earlier_log(seat) or self._new_log(seat)
        return self._logs[seat]

    def _new_log(self, seat: str) -> _Log:
        stamp = f"{self._clock.now():%Y%m%d-%H%M%S}"
        name = f"{_log_name(seat)}-{stamp}-{self._session}"
        taken = {log.stem for log in self._logs.values()}
        return _Log(
            free_stem(self._project, "bridges", name, ".jsonl", ".md", taken=taken)
        )

    def _earlier_log(self, seat: str) -> _Log | None:
        """The newest log of this seat in this run."""
        if not self._goes_on or seat in self._seated_anew:
            return None
        # The whole name counts: another run's id may begin like ours.
        name = re.compile(
            rf"{re.escape(_log_name(seat))}-(\d{{8}}-\d{{6}})-{re.escape(self._session)}(?:-(\d+))?"
        )
        folder = self._project / FOLDER / "bridges"
        matches = [
            match
            for path in folder.glob("*.jsonl")
            if (match := name.fullmatch(path.stem))
        ]
        if not matches:
            return None
        newest = max(matches, key=lambda match: (match[1], int(match[2] or 1)))[0]
        lines = (folder / f"{newest}.jsonl").read_bytes().count(b"\n")
        return _Log(f"{FOLDER}/bridges/{newest}", seq=lines)


def free_stem(
    project: Path, folder: str, name: str, *suffixes: str, taken: Container[str] = ()
) -> str:
    """A name no earlier run has used; seconds collide (K36). The folder of outputs is there then, for git ignored."""
    make_dir(project / FOLDER / folder, root=project)
    if not (ignore := project / FOLDER / ".gitignore").exists():
        write_atomic(ignore, "*\n", root=project)
    for number in range(1, _MOST_SUFFIXES):
        stem = (
            f"{FOLDER}/{folder}/{name}"
            if number == 1
            else f"{FOLDER}/{folder}/{name}-{number}"
        )
        if stem not in taken and not any(
            (project / f"{stem}{suffix}").exists() for suffix in suffixes
        ):
            return stem
    raise RuntimeError(f"{FOLDER}/{folder} has {_MOST_SUFFIXES} files called {name}")


def _log_name(seat: str) -> str:
    return _UNSAFE.sub("-", seat.replace(":", "-"))


def _encodable(text: str) -> str:
    """Half characters cannot be written; they come from replies that were cut in the middle of one."""
    return text.encode("utf-8", "replace").decode()


class Mask:
    """Knows the secret values of an environment and hides them."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        values = {
            value.strip()
            for name, value in environment.items()
            if _SECRET_NAME.match(name) and len(value.strip()) >= _SHORTEST
        }
        # Events are masked as JSON lines, where quotes and backslashes of a value look different.
        values |= {json.dumps(value, ensure_ascii=False)[1:-1] for value in values}
        ordered = sorted(values, key=len, reverse=True)
        self._pattern = (
            re.compile("|".join(map(re.escape, ordered))) if ordered else None
        )

    def __call__(self, text: str) -> str:
        return text if self._pattern is None else self._pattern.sub(MASK, text)


class RunLog:
    """Writes to the output folder, where there is one, and tells the observers."""

    def __init__(
        self,
        outputs: OutputFolder | None = None,
        observers: Sequence[Observer] = (),
        clock: Clock | None = None,
    ) -> None:
        self._outputs = outputs
        self._observers = observers
        self._clock = clock or SystemClock()
        self._held: dict[str, tuple[SeatEvent, ...]] = {}

    def write(self, event: SeatEvent) -> None:
        """One line. What pre-flight said about a seat comes right after the line that opens its log."""
        # The council's own events belong to no seat, so no seat's file has them.
        if self._outputs is None or event.seat == COUNCIL_LOG:
            line = {
                "event": event.event,
                "ts": iso_ms(self._clock.now()),
                **to_builtins(event.fields),
            }
        else:
            line = self._outputs.write_event(event)
        for observer in self._observers:
            observer.happened(event.seat, line)
        if event.event == BRIDGE_START:
            for held in self._held.pop(event.seat, ()):
                self.write(held)

    def hold(self, seat: str, events: Sequence[SeatEvent]) -> None:
        """Keep what was found out about a seat until its log begins."""
        self._held[seat] = tuple(events)

    def write_own_report(
        self, report: BridgeReport, events: Sequence[SeatEvent]
    ) -> None:
        """The log of a seat that never ran with us: opened, what was found out, closed."""
        seat = report.bridge
        at = iso_ms(self._clock.now())
        self.hold(seat, (*self._held.get(seat, ()), *events))
        self.write(
            SeatEvent(
                seat,
                BRIDGE_START,
                {"bridge": seat, "session_id": report.session_id, "timestamp": at},
            )
        )
        for output in report.outputs:
            self.write(SeatEvent(seat, "output", raised_facts(output, 1)))
        self.write(SeatEvent(seat, "bridge_complete", closing_facts(report, at)))

    def write_seat(self, report: BridgeReport) -> None:
        """The summary beside a seat's log."""
        if self._outputs is not None:
            self._outputs.write_seat(report)

    def new_seating(self, seat: str) -> None:
        """The seat sits down once more, with a log of its own."""
        if self._outputs is not None:
            self._outputs.new_seating(seat)

    def told(self, result: Result) -> None:
        """A runtime answered or refused; the last refusal is remembered until it answers again (council §19)."""
        for observer in self._observers:
            if isinstance(result, CallFailed):
                observer.refused(result.key.seat, result)
            else:
                observer.accepted(result.key.seat)
