"""The doctor's last check of this machine. Programs take seconds to tell their version, so no page waits for it."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from bridgehead.assembly.application import Assembly
from bridgehead.doctor.checkup import check_everything
from bridgehead.doctor.diagnosis import Checkup
from bridgehead.host.clock import Clock, iso_ms

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CachedCheckup:
    checkup: Checkup
    at: str


class DoctorCache:
    """One check at a time, in a thread of its own; pages learn of its end by the event it records."""

    def __init__(self, assembly: Assembly, clock: Clock) -> None:
        self._assembly = assembly
        self._clock = clock
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.latest: CachedCheckup | None = None

    @property
    def is_checking(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def check(self) -> None:
        """Begin a check unless one is under way."""
        with self._lock:
            if not self.is_checking:
                self._thread = threading.Thread(target=self._check, name="web-checkup", daemon=True)
                self._thread.start()

    def wait(self) -> None:
        """Until the check under way has ended."""
        if self._thread is not None:
            self._thread.join()

    def _check(self) -> None:
        try:
            self.latest = CachedCheckup(check_everything(self._assembly), iso_ms(self._clock.now()))
        except Exception:
            # The dashboard outlives a check that failed in a way nobody foresaw.
            logger.exception("the check of this machine failed")
