"""What `.bridge-settings.json` says about the seats (council §13). A broken file gives defaults and a warning.

`load_settings` never fails: the file comes with the tree, so it may be old, mistaken or hostile. What only a trusted
file may decide is taken out afterwards by `without_untrusted`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, NoReturn

from bridgehead.contract.report import ModelWarning
from bridgehead.contract.timeouts import DEFAULT_CONCURRENCY
from bridgehead.contract.words import TaskType
from bridgehead.council.model_choice import ModelChoice, choose_models

DEFAULT_BRIDGES: Final = ("claude", "gemini", "codex", "opencode")
OPTIONAL_BRIDGES: Final = ("static", "openai")
RIG_MARK: Final = "rig:"
REASONING_LEVELS: Final = ("medium", "high", "xhigh")
DEFAULT_TTL_HOURS: Final = 24

_TOP_KEYS: Final = frozenset(
    "bridges reasoning_level updated ttl_hours coordinator withdrawal_guard max_concurrency".split()
)
_BRIDGE_KEYS: Final = frozenset("enabled model on_missing continuity extra_args path".split())
_OWN_KEYS: Final = {
    "opencode": frozenset({"models", "debate_merged"}),
    "static": frozenset({"tools"}),
    "openai": frozenset({"base_url", "family", "api_key_env"}),
    RIG_MARK: frozenset({"thread"}),
}
# These choose a program, its arguments, an address or the variable a key is read from (design §9).
UNTRUSTED_KEYS: Final = ("path", "extra_args", "base_url", "api_key_env")
_STATIC_TASKS: Final = frozenset({TaskType.REVIEW, TaskType.ANALYSIS, TaskType.AUDIT})


@dataclass(frozen=True, slots=True)
class BridgeSettings:
    """One bridge's entry. `models` has one entry per invocation, None for the provider's default."""

    enabled: bool = True
    models: tuple[str | None, ...] = (None,)
    options: Mapping[str, Any] = field(default_factory=dict)
    """The remaining known keys as they were written."""
    model_warnings: tuple[ModelWarning, ...] = ()
    """Models the entry names that cannot be asked for."""

    @property
    def halts_when_missing(self) -> bool:
        return self.options.get("on_missing") == "halt"

    @property
    def keeps_session(self) -> bool:
        return self.options.get("continuity") == "session"

    @property
    def debates_merged(self) -> bool:
        return self.options.get("debate_merged") is True


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole file, read; `warnings` are codes of council §13."""

    bridges: Mapping[str, BridgeSettings]
    stale: bool = True
    reasoning_level: str = REASONING_LEVELS[0]
    ttl_hours: float = DEFAULT_TTL_HOURS
    coordinator: str | None = None
    withdrawal_guard: bool = True
    max_concurrency: int = DEFAULT_CONCURRENCY
    warnings: tuple[str, ...] = ()

    @property
    def model_validation_warnings(self) -> dict[str, tuple[ModelWarning, ...]]:
        """By bridge; those without any are left out."""
        return {name: entry.model_warnings for name, entry in self.bridges.items() if entry.model_warnings}


def load_settings(
    file_text: str | None, now: datetime, known_models: Mapping[str, Sequence[str]] | None = None
) -> Settings:
    """Read the file's text (None: there is no file); `known_models` are the provider lists that could be had."""
    document = _parse(file_text)
    if isinstance(document, str):
        defaults = {name: BridgeSettings() for name in DEFAULT_BRIDGES}
        return Settings(bridges=defaults, warnings=(document,))
    reader = _Reader(known_models or {})
    return reader.read(document, now)


def seats_by_default(settings: Settings, task_type: TaskType) -> tuple[str, ...]:
    """Who sits when nobody was named: the four bridges, `static` where it can help, and whom the file names."""
    named = [name for name in settings.bridges if name not in DEFAULT_BRIDGES and name != "static"]
    static = ["static"] if task_type in _STATIC_TASKS else []
    return (*DEFAULT_BRIDGES, *named, *static)


def without_untrusted(settings: Settings) -> Settings:
    """The same settings minus what an untrusted file may not decide, with a warning for each."""
    warnings = list(settings.warnings)
    bridges: dict[str, BridgeSettings] = {}
    for name, entry in settings.bridges.items():
        warnings += [
            f"untrusted_setting_ignored:{name}.{key}" for key in UNTRUSTED_KEYS if key in entry.options
        ]
        kept = {key: value for key, value in entry.options.items() if key not in UNTRUSTED_KEYS}
        bridges[name] = replace(entry, options=kept)
    return replace(settings, bridges=bridges, warnings=tuple(warnings))


def is_rig(bridge: str) -> bool:
    return bridge.startswith(RIG_MARK) and len(bridge) > len(RIG_MARK)


def _parse(file_text: str | None) -> dict[str, Any] | str:
    """The object in the file, or the warning that says why there is none."""
    if file_text is None:
        return "file_missing"
    try:
        document = json.loads(file_text.removeprefix("\ufeff"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return "invalid_json"
    return document if isinstance(document, dict) else "not_an_object"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


class _Reader:
    """Collects warnings while it reads one file."""

    def __init__(self, known_models: Mapping[str, Sequence[str]]) -> None:
        self._known_models = known_models
        self._warnings: list[str] = []

    def read(self, document: Mapping[str, Any], now: datetime) -> Settings:
        self._warn_unknown(document, _TOP_KEYS, owner="")
        bridges = self._bridges(document.get("bridges", {}))
        ttl_hours = self._ttl_hours(document.get("ttl_hours", DEFAULT_TTL_HOURS))
        return Settings(
            bridges=bridges,
            stale=self._is_stale(document.get("updated"), ttl_hours, now),
            ttl_hours=ttl_hours,
            reasoning_level=self._reasoning_level(document.get("reasoning_level", REASONING_LEVELS[0])),
            coordinator=self._value(document, "coordinator", None, str),
            withdrawal_guard=self._value(document, "withdrawal_guard", True, bool),
            max_concurrency=self._max_concurrency(document),
            warnings=tuple(self._warnings),
        )

    def _bridges(self, entries: object) -> dict[str, BridgeSettings]:
        if not isinstance(entries, dict):
            self._warnings.append("bridges_not_an_object")
            entries = {}
        named = [name for name in entries if not name.startswith("_")]
        unknown = [name for name in named if not _is_known(name)]
        self._warnings += [f"unknown_bridge:{name}" for name in unknown]
        extra = [name for name in named if name not in DEFAULT_BRIDGES and name not in unknown]
        return {name: self._bridge(name, entries.get(name, {})) for name in (*DEFAULT_BRIDGES, *extra)}

    def _bridge(self, name: str, entry: object) -> BridgeSettings:
        if not isinstance(entry, dict):
            self._warnings.append(f"bridge_not_an_object:{name}")
            return BridgeSettings()
        known = _BRIDGE_KEYS | _OWN_KEYS.get(RIG_MARK if is_rig(name) else name, frozenset())
        self._warn_unknown(entry, known, owner=f"{name}.")
        enabled = entry.get("enabled", True)
        if not isinstance(enabled, bool):
            self._warnings.append(f"enabled_not_bool:{name}")
            enabled = True
        options = {key: entry[key] for key in entry if key in known - {"enabled", "model", "models"}}
        choice = self._models(name, entry)
        return BridgeSettings(enabled, choice.models, options, choice.model_warnings)

    def _models(self, name: str, entry: Mapping[str, Any]) -> ModelChoice:
        listed = entry.get("models") if name == "opencode" else None
        choice = choose_models(name, entry.get("model"), listed, self._known_models.get(name))
        self._warnings += choice.warnings
        return choice

    def _ttl_hours(self, value: object) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 and value < math.inf:
            return value
        self._warnings.append("ttl_hours_invalid")
        return DEFAULT_TTL_HOURS

    def _is_stale(self, updated: object, ttl_hours: float, now: datetime) -> bool:
        moment = _moment(updated)
        if moment is None:
            self._warnings.append("updated_invalid")
            return True
        age_seconds = (now - moment).total_seconds()
        if age_seconds < 0:
            self._warnings.append("updated_in_future")
        return ttl_hours == 0 or age_seconds > ttl_hours * 3600

    def _reasoning_level(self, value: object) -> str:
        if value in REASONING_LEVELS:
            return str(value)
        self._warnings.append("reasoning_level_invalid")
        return REASONING_LEVELS[0]

    def _max_concurrency(self, document: Mapping[str, Any]) -> int:
        given: int = self._value(document, "max_concurrency", DEFAULT_CONCURRENCY, int)
        if given >= 1:
            return given
        self._warnings.append("invalid_value:max_concurrency")
        return DEFAULT_CONCURRENCY

    def _value(self, document: Mapping[str, Any], key: str, default: Any, kind: type) -> Any:
        value = document.get(key)
        if value is None:
            return default
        if type(value) is kind:
            return value
        self._warnings.append(f"invalid_value:{key}")
        return default

    def _warn_unknown(self, given: Mapping[str, Any], known: frozenset[str], *, owner: str) -> None:
        unknown = [key for key in given if key not in known and not key.startswith("_")]
        self._warnings += [f"unknown_key:{owner}{key}" for key in unknown]


def _is_known(bridge: str) -> bool:
    return bridge in DEFAULT_BRIDGES or bridge in OPTIONAL_BRIDGES or is_rig(bridge)


def _moment(value: object) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
        return moment.replace(tzinfo=UTC) if moment.utcoffset() is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
