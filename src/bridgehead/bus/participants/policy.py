"""What a participant may do to a session, and where it stands (bus §6, B-30 to B-32, B-38, B-53).

Pure. Policy only narrows, and is computed anew for every message.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from bridgehead.bus.wire.session import DENYLISTS, Session
from bridgehead.errors import ConfigError

POLICY_KEYS: Final = frozenset({*DENYLISTS, "pipeline", "intent_context", "denylist_merge"})


class SessionPolicy(msgspec.Struct, frozen=True):
    """What is imposed on every session a participant sends."""

    denylists: dict[str, tuple[str, ...]] = {}
    pipeline: tuple[str, ...] | None = None
    intent_context: dict[str, Any] = {}
    denylist_merge: Literal["union", "replace"] = "union"

    @classmethod
    def parse(cls, table: dict[str, Any]) -> SessionPolicy:
        """Read the `policy` table of a participant record."""
        for key in table:
            if key not in POLICY_KEYS:
                raise BadPolicy(key, "is not a policy field")
        merge = table.get("denylist_merge", "union")
        if merge not in ("union", "replace"):
            raise BadPolicy("denylist_merge", "must be union or replace")
        pipeline = _texts("pipeline", table["pipeline"]) if "pipeline" in table else None
        if pipeline == ():
            # An empty pipeline means "deployment default" and would widen access (B-32).
            raise BadPolicy("pipeline", "must name at least one pipeline")
        return cls(
            {field: _texts(field, table[field]) for field in DENYLISTS if field in table},
            pipeline,
            _entries(table.get("intent_context", {})),
            merge,
        )

    def to_table(self) -> dict[str, Any]:
        """The table `parse` reads, without what was not set."""
        table: dict[str, Any] = {field: list(names) for field, names in self.denylists.items()}
        if self.pipeline is not None:
            table["pipeline"] = list(self.pipeline)
        if self.intent_context:
            table["intent_context"] = self.intent_context
        if self.denylist_merge != "union":
            table["denylist_merge"] = self.denylist_merge
        return table

    @property
    def is_empty(self) -> bool:
        return not self.denylists and self.pipeline is None and not self.intent_context

    def apply(self, session: Session) -> Session:
        """`session` narrowed to what the policy allows; the given one is not changed."""
        if self.is_empty:
            return session
        gated = dict(session)
        for field, denied in self.denylists.items():
            self._deny(gated, field, denied)
        if self.pipeline is not None:
            wanted = _client_list(session.get("pipeline"))
            # Never [] and never absent: both mean the deployment default (B-32).
            gated["pipeline"] = [name for name in wanted if name in self.pipeline] or list(self.pipeline)
        if self.intent_context:
            client = session.get("intent_context")
            gated["intent_context"] = {**self.intent_context, **(client if isinstance(client, dict) else {})}
        return gated

    def _deny(self, gated: Session, field: str, denied: tuple[str, ...]) -> None:
        own = _client_list(gated.get(field)) if self.denylist_merge == "union" else []
        names = own + [name for name in denied if name not in own]
        if names:
            gated[field] = names
        elif self.denylist_merge == "replace":
            gated.pop(field, None)


NO_POLICY: Final = SessionPolicy()


def place_session(session: Session, determination: str | None) -> Session:
    """`session` with the site the bridge knows; without one the client's value stands and none is inferred (B-38)."""
    return session if determination is None else {**session, "site_id": determination}


def _client_list(value: object) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _texts(field: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
        raise BadPolicy(field, "must be a list of names")
    return tuple(dict.fromkeys(value))


def _entries(value: object) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(entry, dict) for entry in value.values()):
        raise BadPolicy("intent_context", "must be a table of entries, each with a value")
    return value


class BadPolicy(ConfigError):
    """A session policy says something it cannot say."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"policy: {field} {problem}", hint=f"fields: {', '.join(sorted(POLICY_KEYS))}")
