"""What was asked of the model server: kept in memory for assertions, written as JSON lines when a file is given."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

_KEY_HEADERS: Final = frozenset({"authorization", "x-api-key", "x-goog-api-key", "cookie"})


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """One HTTP request. Header names are lower case; `wire` is empty for anything but a question to the model."""

    method: str
    path: str
    scenario: str
    wire: str
    status: int
    headers: dict[str, str]
    body: Any

    def to_line(self) -> str:
        """One JSON line; keys people really use are not written to a file."""
        masked = {
            name: _mask(value) if name in _KEY_HEADERS else value for name, value in self.headers.items()
        }
        return json.dumps({**asdict(self), "headers": masked}, ensure_ascii=False)


class RequestLog:
    """A list that several threads append to and that one can wait on."""

    def __init__(self, file: Path | None = None) -> None:
        self._entries: list[LoggedRequest] = []
        self._changed = threading.Condition()
        self._file = file

    def append(self, entry: LoggedRequest) -> None:
        with self._changed:
            self._entries.append(entry)
            if self._file is not None:
                with self._file.open("a", encoding="utf-8") as file:
                    file.write(entry.to_line() + "\n")
            self._changed.notify_all()

    def entries(self, *, scenario: str | None = None) -> list[LoggedRequest]:
        with self._changed:
            return [entry for entry in self._entries if scenario in (None, entry.scenario)]

    def questions(self, *, scenario: str | None = None) -> list[LoggedRequest]:
        """The requests that asked the model something."""
        return [entry for entry in self.entries(scenario=scenario) if entry.wire]

    def wait_until(self, reached: Callable[[list[LoggedRequest]], bool], *, timeout_seconds: float) -> bool:
        """Wait until the entries satisfy `reached`; False when they do not in time."""
        with self._changed:
            return self._changed.wait_for(lambda: reached(self._entries), timeout_seconds)


def _mask(value: str) -> str:
    return f"{value[:6]}…" if len(value) > 12 else "…"
