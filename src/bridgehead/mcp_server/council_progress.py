"""A running council as progress messages: one for every seat, round and finding, and a sign of life in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from bridgehead.council.calls import CallFailed
from bridgehead.mcp_server.foreign import ForeignText

COUNCIL: Final = "council"


class ProgressMessages:
    """An observer that tells each thing worth a line; what models wrote is made harmless first."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._foreign = ForeignText()

    def happened(self, bridge: str, line: Mapping[str, Any]) -> None:
        said = _council_line(line) if bridge == COUNCIL else self._seat_line(line)
        if said:
            self._tell(f"{bridge}: {said}")

    def refused(self, bridge: str, failed: CallFailed) -> None:
        self._tell(f"{bridge}: refused, {self._foreign.line(failed.reason)}")

    def accepted(self, bridge: str) -> None:
        return

    def _seat_line(self, line: Mapping[str, Any]) -> str | None:
        match line["event"]:
            case "dispatch":
                agents = len(line.get("domains") or ()) or 1
                return f"round {line.get('round') or 1}, {agents} agent{'' if agents == 1 else 's'}"
            case "output":
                severity = f"{line['severity']} " if line.get("severity") else ""
                return (
                    f"{severity}{self._foreign.line(str(line.get('title') or line.get('id') or 'a finding'))}"
                )
            case "challenge":
                return f"challenges {line.get('target_finding_id') or 'a finding'}"
            case "progress":
                return f"round {line.get('round')}, {line.get('elapsed_s')} s"
            case "bridge_complete":
                return f"{str(line.get('status')).lower()}, {line.get('output_count') or 0} findings"
        return None


def _council_line(line: Mapping[str, Any]) -> str | None:
    match line["event"]:
        case "council_start":
            return f"{line.get('review_id')} begins with {', '.join(line.get('bridges') or ())}"
        case "bridge_converted":
            return f"{line.get('bridge')} is left out ({line.get('halt_reason')})"
    return None
