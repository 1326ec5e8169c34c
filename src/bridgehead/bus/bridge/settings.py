"""Options of one bridge with the defaults of bus §8.

Pure: a table in, frozen settings out.
"""

from __future__ import annotations

import math
from typing import Any, Final, Literal

import msgspec

from bridgehead.errors import ConfigError

Signal = Literal["destination", "session_id", "site_id"]
Profile = Literal["spec", "legacy", "auto"]
RESERVED_NAMES: Final = (
    "skills",
    "audio",
    "core",
    "hive",
    "gui",
    "enclosure",
    "debug_cli",
)


class BridgeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one bridge routes, translates and waits."""

    bridge_id: str = "bridgehead"
    nat: bool = True
    routing: tuple[Signal, ...] = ("destination", "session_id")
    session_routing: Literal["absent_destination", "always"] = "absent_destination"
    hardened: bool | None = None
    """None: by role, true for satellite, skill_host and opaque, false for peer."""
    hardened_extra: tuple[str, ...] = ()
    poll_filter: bool = True
    topology_hiding: str = "off"
    group_topics: tuple[str, ...] = ("ovos.stop",)
    ignored_sites: tuple[str, ...] = ("unknown",)
    policy_denied_event: bool = False
    health_on_bus: bool = False
    grace_s: float = 30
    max_held: int = 256
    max_held_bytes: int = 4 * 1024 * 1024
    max_queued: int = 1024
    max_queued_bytes: int = 8 * 1024 * 1024
    max_sessions: int = 256
    max_skills: int = 256
    max_participants: int = 10_000
    hop_limit: int = 4
    readiness_topics: tuple[str, ...] = ("mycroft.ready",)
    reserved_names: tuple[str, ...] = RESERVED_NAMES
    profile: Profile = "auto"

    @property
    def hidden_source(self) -> str | None:
        """Return the one source participants see instead of the real ones, None without
        topology hiding.
        """
        return None if self.topology_hiding in ("off", "") else self.topology_hiding

    @classmethod
    def parse(cls, table: dict[str, Any]) -> BridgeSettings:
        """Read a settings table; the message names the key that is wrong."""
        try:
            settings = msgspec.convert(table, cls)
        except msgspec.ValidationError as error:
            raise BadBusSetting(str(error)) from error
        for name in cls.__struct_fields__:
            value = getattr(settings, name)
            if isinstance(value, int | float) and not 0 <= value < math.inf:
                raise BadBusSetting(f"{name} must not be negative")
        if not settings.bridge_id:
            raise BadBusSetting("bridge_id must not be empty")
        return settings


class BadBusSetting(ConfigError):
    """The [bus] table holds a value that cannot be used."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"[bus]: {problem}",
            hint="`bridgehead config show --origin` shows the file it comes from",
        )
