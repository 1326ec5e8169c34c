"""What a participant may do to a session, and where it stands (bus §6, B-30 to B-32,
B-38, B-53).

Pure. Policy only narrows, and is computed anew for every message.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from bridgehead.bus.wire.session import DENYLISTS, TRANSFORMERS, Session
from bridgehead.errors import ConfigError

MOST_OWN: Final = 1024
POLICY_KEYS: Final = frozenset(
    {*DENYLISTS, *TRANSFORMERS, "pipeline", "intent_context", "denylist_merge"}
)


class SessionPolicy(msgspec.Struct, frozen=True):
    """What is imposed on every session a participant sends."""

    denylists: dict[str, tuple[str, ...]] = {}
    pipeline: tuple[str, ...] | None = None
    intent_context: dict[str, Any] = {}
    denylist_merge: Literal["union", "replace"] = "union"
    preferences: dict[str, tuple[str, ...]] = {}
    """Transformer lists for sessions that name none."""

    @classmethod
    def parse(cls, table: dict[str, Any]) -> SessionPolicy:
        """Read the `policy` table of a participant record."""
        for key in table:
            if key not in POLICY_KEYS:
                raise BadPolicy(key, "is not a policy field")
        merge = table.get("denylist_merge", "union")
        if merge not in ("union", "replace"):
            raise BadPolicy("denylist_merge", "must be union or replace")
        pipeline = (
            _texts("pipeline", table["pipeline"]) if "pipeline" in table else None
        )
        if pipeline == ():
            # An empty pipeline means "deployment default" and would widen access
            # (B-32).
            raise BadPolicy("pipeline", "must list at least one pipeline")
        denylists = {
            field: _texts(field, table[field]) for field in DENYLISTS if field in table
        }
        intent_context = _entries(table.get("intent_context", {}))
        preferences: dict[str, tuple[str, ...]] = {}
        for field in TRANSFORMERS:
            names = _texts(field, table.get(field, []))
            if names:
                preferences[field] = names
        return cls(denylists, pipeline, intent_context, merge, preferences)

    def to_table(self) -> dict[str, Any]:
        """Return the table `parse` reads, without what was not set."""
        lists = {**self.denylists, **self.preferences}
        table: dict[str, Any] = {field: list(names) for field, names in lists.items()}
        if self.pipeline is not None:
            table["pipeline"] = list(self.pipeline)
        if self.intent_context:
            table["intent_context"] = self.intent_context
        if self.denylist_merge != "union":
            table["denylist_merge"] = self.denylist_merge
        return table

    @property
    def is_empty(self) -> bool:
        return not (
            self.denylists
            or self.preferences
            or self.pipeline is not None
            or self.intent_context
        )

    def apply(self, session: Session) -> Session:
        """Return `session` narrowed to what the policy allows, as a copy."""
        if self.is_empty:
            return session
        gated = dict(session)
        for field, denied in self.denylists.items():
            self._deny(gated, field, denied)
        if self.pipeline is not None:
            wanted = _client_list(session.get("pipeline"))
            allowed = [name for name in wanted if name in self.pipeline]
            # Never [] and never absent: both mean the deployment default (B-32).
            gated["pipeline"] = allowed or list(self.pipeline)
        for field, names in self.preferences.items():
            if not _client_list(session.get(field)):
                gated[field] = list(names)
        if self.intent_context:
            client = session.get("intent_context")
            if not isinstance(client, dict):
                client = {}
            gated["intent_context"] = {**self.intent_context, **client}
        return gated

    def _deny(self, gated: Session, field: str, denied: tuple[str, ...]) -> None:
        own = _client_list(gated.get(field)) if self.denylist_merge == "union" else []
        names = own + [name for name in denied if name not in own]
        if names:
            gated[field] = names
        elif self.denylist_merge == "replace":
            gated.pop(field, None)


NO_POLICY: Final = SessionPolicy()


class Imposed:
    """What policy has put into the lists of one participant's sessions, and what it
    names there itself.

    A client adopts the session of an answer and sends it again. What was imposed is
    left out of that answer, so that a list that is lifted is gone from the next message
    on, and a client never takes it for its own.
    """

    def __init__(self) -> None:
        self.names: dict[str, set[str]] = {}
        self._own: dict[tuple[str, str], list[str]] = {}
        """By session and field, where the client names something that policy names,
        too.
        """

    def note(self, policy: SessionPolicy, hub_session: str, session: Session) -> None:
        """Policy is applied to `session`, which is as the client sent it."""
        for field, names in (*policy.denylists.items(), *policy.preferences.items()):
            self.names.setdefault(field, set()).update(names)
            own = _client_list(session.get(field))
            self._own.pop((hub_session, field), None)
            if own and not self.names[field].isdisjoint(own):
                self._own[hub_session, field] = own
        while len(self._own) > MOST_OWN:
            del self._own[next(iter(self._own))]

    def left_out(self, hub_session: str, session: Session) -> Session:
        """Return `session` as the client may adopt it."""
        if self.names.keys().isdisjoint(session):
            return session
        plain = dict(session)
        for field in self.names.keys() & session.keys():
            own = self._own.get((hub_session, field), ())
            kept = [
                name
                for name in _client_list(session[field])
                if name in own or name not in self.names[field]
            ]
            if kept:
                plain[field] = kept
            else:
                del plain[field]
        return plain


def place_session(session: Session, determination: str | None) -> Session:
    """Return `session` with the site the bridge knows.

    Without one the client's value stands and none is inferred (B-38).
    """
    return session if determination is None else {**session, "site_id": determination}


def _client_list(value: object) -> list[str]:
    if not isinstance(value, list):
        return []
    return [name for name in value if isinstance(name, str)]


def _texts(field: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(
        isinstance(name, str) and name for name in value
    ):
        raise BadPolicy(field, "must be a list of names")
    return tuple(dict.fromkeys(value))


def _entries(value: object) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(
        isinstance(entry, dict) for entry in value.values()
    ):
        raise BadPolicy("intent_context", "must be a table with a value for each entry")
    return value


class BadPolicy(ConfigError):
    """A session policy says something it cannot say."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(
            f"policy: {field} {problem}",
            hint=f"fields: {', '.join(sorted(POLICY_KEYS))}",
        )
