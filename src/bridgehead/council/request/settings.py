"""What `.bridge-settings.json` says about the seats: models, reasoning level (council §13). A broken file gives
defaults and a warning.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, NoReturn

from bridgehead.contract.report import ModelWarning
from bridgehead.contract.settings_trust import (
    SEATS_FILE_ENTRY_KEYS,
    SEATS_FILE_TOP_KEYS,
    Freedom,
)
from bridgehead.contract.task import BridgeInput
from bridgehead.contract.timeouts import DEFAULT_CONCURRENCY
from bridgehead.contract.words import TaskType

WRONG_FORMAT: Final = "not in provider/model format"
NOT_FOUND: Final = "not found in provider model list"
NOT_A_NAME: Final = "not the name of a model"

_PROVIDER_MODEL: Final = re.compile(r"[^/\s]+/\S+")
# Names seen: sonnet[1m], us.anthropic.claude-sonnet-4-v1:0, arn:aws:bedrock:..., claude-sonnet-4@20250514,
# openrouter/deepseek/chat:free, synthetic/hf:org/name. None begins like an option or holds a blank or `=`.
_MODEL_NAME: Final = re.compile(r"[A-Za-z0-9@~][A-Za-z0-9@~._:/+#,()\[\]-]{0,199}")
DEFAULT_RUNTIMES: Final = ("claude", "gemini", "codex", "opencode")
OPTIONAL_RUNTIMES: Final = ("static", "openai")
USUAL_SEATS: Final = frozenset({*DEFAULT_RUNTIMES, "static"})
"""Who sits without being named."""
# Local servers give their models any name, and it never stands on a command line.
_NAMES_IN_JSON: Final = frozenset({"openai"})
RIG_MARK: Final = "rig:"
ACP_MARK: Final = "acp:"
_AGENT_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,40}")
REASONING_LEVELS: Final = ("medium", "high", "xhigh")
DEFAULT_TTL_HOURS: Final = 24

_TOP_KEYS: Final = frozenset(SEATS_FILE_TOP_KEYS)
_RUNTIME_KEYS: Final = frozenset(
    ["enabled", "model", "on_missing", "continuity", "extra_args", "path"]
)
_OWN_KEYS: Final = {
    "opencode": frozenset({"models", "debate_merged"}),
    "static": frozenset({"tools"}),
    "openai": frozenset({"base_url", "family", "api_key_env"}),
    RIG_MARK: frozenset({"thread"}),
    ACP_MARK: frozenset({"acp"}),
}
UNTRUSTED: Final = "untrusted_setting_ignored"
_STATIC_TASKS: Final = frozenset({TaskType.REVIEW, TaskType.ANALYSIS, TaskType.AUDIT})
MEDIUM, HIGH, XHIGH = REASONING_LEVELS
MANY_FILES: Final = 20
MANY_DOMAINS: Final = 3
_GRAVE_WORDS: Final = re.compile(
    r"\b(critical|security|cryptographic|financial|compliance)\b", re.IGNORECASE
)
_GRAVE_DOMAINS: Final = frozenset(
    {"security", "cryptographic", "compliance", "finance", "data-integrity"}
)


@dataclass(frozen=True, slots=True)
class ModelChoice:
    models: tuple[str | None, ...] = (None,)
    warnings: tuple[str, ...] = ()
    model_warnings: tuple[ModelWarning, ...] = ()


def is_model_name(text: str) -> bool:
    """Whether `text` may stand on a command line as the name of a model."""
    return _MODEL_NAME.fullmatch(text) is not None


def choose_models(
    runtime: str, model: Any, models: Any, known: Sequence[str] | None
) -> ModelChoice:
    """Settle `model` and, for opencode, `models`; `known` is the provider's list where it could be had."""
    if runtime != "opencode":
        return _single(runtime, model, known)
    warnings: list[str] = []
    if models is not None and not isinstance(models, list):
        warnings.append("models_not_a_list:opencode")
        models = None
    if models and model is not None:
        warnings.append("legacy_model_ignored:opencode")
    wanted = models or ([] if _is_unset(model) else [model])
    found: dict[str, bool] = {}
    refused: list[ModelWarning] = []
    for entry in wanted:
        if not isinstance(entry, str) or not _PROVIDER_MODEL.fullmatch(entry):
            refused.append(ModelWarning(entry, WRONG_FORMAT))
        elif not is_model_name(entry):
            refused.append(ModelWarning(entry, NOT_A_NAME))
        elif entry in found:
            warnings.append(f"duplicate_model:{entry}")
        else:
            # Replacing an unknown entry by the default would run the default several times (K23).
            found[entry] = known is None or entry in known
            refused += [] if found[entry] else [ModelWarning(entry, NOT_FOUND)]
    usable = tuple(entry for entry in found if found[entry])
    return ModelChoice(usable or (None,), tuple(warnings), tuple(refused))


def _single(runtime: str, model: Any, known: Sequence[str] | None) -> ModelChoice:
    if _is_unset(model):
        return ModelChoice()
    if not isinstance(model, str):
        return ModelChoice(warnings=(f"model_not_a_string:{runtime}",))
    if runtime not in _NAMES_IN_JSON and not is_model_name(model):
        return ModelChoice(model_warnings=(ModelWarning(model, NOT_A_NAME),))
    if known is not None and model not in known:
        return ModelChoice(model_warnings=(ModelWarning(model, NOT_FOUND),))
    return ModelChoice(models=(model,))


def _is_unset(model: Any) -> bool:
    return model is None or (isinstance(model, str) and not model.strip())


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """One runtime's entry. `models` has one entry per invocation, None for the provider's default."""

    enabled: bool = True
    models: tuple[str | None, ...] = (None,)
    options: Mapping[str, Any] = field(default_factory=dict)
    """The remaining known keys as they were written."""
    model_warnings: tuple[ModelWarning, ...] = ()
    """Models the entry names that cannot be asked for."""
    model_keys: tuple[str, ...] = ()
    """The keys under which the entry names models."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole file, read; `warnings` are codes of council §13."""

    runtimes: Mapping[str, RuntimeSettings]
    stale: bool = True
    reasoning_level: str = REASONING_LEVELS[0]
    ttl_hours: float = DEFAULT_TTL_HOURS
    coordinator: str | None = None
    withdrawal_guard: bool = True
    max_concurrency: int = DEFAULT_CONCURRENCY
    warnings: tuple[str, ...] = ()


def load_settings(
    file_text: str | None,
    now: datetime,
    known_models: Mapping[str, Sequence[str]] | None = None,
) -> Settings:
    """Read the file's text (None: there is no file); `known_models` are the provider lists that could be had."""
    document = _parse(file_text)
    if isinstance(document, str):
        defaults = {name: RuntimeSettings() for name in DEFAULT_RUNTIMES}
        return Settings(runtimes=defaults, warnings=(document,))
    reader = _Reader(known_models or {})
    return reader.read(document, now)


def seats_by_default(settings: Settings, task_type: TaskType) -> tuple[str, ...]:
    """Who sits when nobody was named: the four runtimes, `static` where it can help, and whom the file names."""
    named = [
        name
        for name in settings.runtimes
        if name not in DEFAULT_RUNTIMES and name != "static"
    ]
    static = ["static"] if task_type in _STATIC_TASKS else []
    return (*DEFAULT_RUNTIMES, *named, *static)


def without_untrusted(settings: Settings) -> Settings:
    """Return the settings minus what an untrusted file may not decide, with a warning
    for each (`contract/settings_trust.py`).

    It seats nobody and sends nobody away.
    """
    usual = Settings({})
    safe = replace(
        settings,
        coordinator=usual.coordinator,
        reasoning_level=usual.reasoning_level,
        # The guard may be switched on, and fewer calls made at a time.
        withdrawal_guard=settings.withdrawal_guard or usual.withdrawal_guard,
        max_concurrency=min(settings.max_concurrency, usual.max_concurrency),
        runtimes={
            name: _without_untrusted_entry(entry)
            for name, entry in settings.runtimes.items()
            if name in USUAL_SEATS
        },
    )
    ignored = [
        *_ignored_entries(settings.runtimes),
        *(
            key
            for key in SEATS_FILE_TOP_KEYS
            if key != "bridges" and _has_changed(key, settings, safe)
        ),
    ]
    warnings = (*settings.warnings, *(f"{UNTRUSTED}:{key}" for key in ignored))
    return replace(safe, warnings=warnings)


def _has_changed(key: str, before: Settings, after: Settings) -> bool:
    return getattr(before, key, None) != getattr(after, key, None)


def _without_untrusted_entry(entry: RuntimeSettings) -> RuntimeSettings:
    free = {
        key: value
        for key, value in entry.options.items()
        if SEATS_FILE_ENTRY_KEYS[key] is Freedom.FREE
    }
    return RuntimeSettings(options=free)


def _ignored_entries(entries: Mapping[str, RuntimeSettings]) -> list[str]:
    """Return what an untrusted file says of seats that does not count, by key."""
    ignored: list[str] = []
    for name, entry in entries.items():
        if name not in USUAL_SEATS and entry.enabled:
            ignored.append(name)
        if not entry.enabled:
            ignored.append(f"{name}.enabled")
        ignored += [
            f"{name}.{key}"
            for key in (*entry.options, *entry.model_keys)
            if SEATS_FILE_ENTRY_KEYS[key] is not Freedom.FREE
        ]
    return ignored


def with_agents(settings: Settings, commands: Mapping[str, str]) -> Settings:
    """The same settings with the agents that bridgehead.toml describes; what the file says of one counts more."""
    described = {f"{ACP_MARK}{name}": command for name, command in commands.items()}
    unknown = tuple(f"unknown_bridge:{name}" for name in described if not is_acp(name))
    runtimes = dict(settings.runtimes)
    for name in filter(is_acp, described):
        known = runtimes.get(name, RuntimeSettings())
        runtimes[name] = replace(
            known, options={"acp": described[name], **known.options}
        )
    return replace(settings, runtimes=runtimes, warnings=(*settings.warnings, *unknown))


def is_rig(runtime: str) -> bool:
    return runtime.startswith(RIG_MARK) and len(runtime) > len(RIG_MARK)


def is_acp(runtime: str) -> bool:
    """Whether this is the seat of an agent that speaks ACP."""
    return (
        runtime.startswith(ACP_MARK)
        and _AGENT_NAME.fullmatch(runtime.removeprefix(ACP_MARK)) is not None
    )


def _parse(file_text: str | None) -> dict[str, Any] | str:
    """The object in the file, or the warning that says why there is none."""
    if file_text is None:
        return "file_missing"
    try:
        document = json.loads(
            file_text.removeprefix("\ufeff"), parse_constant=_refuse_constant
        )
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
        runtimes = self._runtimes(document.get("bridges", {}))
        hours = document.get("ttl_hours", DEFAULT_TTL_HOURS)
        is_duration = (
            isinstance(hours, int | float)
            and not isinstance(hours, bool)
            and 0 <= hours < math.inf
        )
        ttl_hours = self._valid(
            hours, is_duration, DEFAULT_TTL_HOURS, "ttl_hours_invalid"
        )
        level = document.get("reasoning_level", MEDIUM)
        return Settings(
            runtimes=runtimes,
            stale=self._is_stale(document.get("updated"), ttl_hours, now),
            ttl_hours=ttl_hours,
            reasoning_level=self._valid(
                level, level in REASONING_LEVELS, MEDIUM, "reasoning_level_invalid"
            ),
            coordinator=self._value(document, "coordinator", None, str),
            withdrawal_guard=self._value(document, "withdrawal_guard", True, bool),
            max_concurrency=self._value(
                document, "max_concurrency", DEFAULT_CONCURRENCY, int, least=1
            ),
            warnings=tuple(self._warnings),
        )

    def _runtimes(self, entries: object) -> dict[str, RuntimeSettings]:
        if not isinstance(entries, dict):
            self._warnings.append("bridges_not_an_object")
            entries = {}
        named = [name for name in entries if not name.startswith("_")]
        known = (*DEFAULT_RUNTIMES, *OPTIONAL_RUNTIMES)
        unknown = [
            name
            for name in named
            if name not in known and not is_rig(name) and not is_acp(name)
        ]
        self._warnings += [f"unknown_bridge:{name}" for name in unknown]
        extra = [
            name
            for name in named
            if name not in DEFAULT_RUNTIMES and name not in unknown
        ]
        return {
            name: self._runtime(name, entries.get(name, {}))
            for name in (*DEFAULT_RUNTIMES, *extra)
        }

    def _runtime(self, name: str, entry: object) -> RuntimeSettings:
        if not isinstance(entry, dict):
            self._warnings.append(f"bridge_not_an_object:{name}")
            return RuntimeSettings()
        family = name
        if is_rig(name):
            family = RIG_MARK
        elif is_acp(name):
            family = ACP_MARK
        known = _RUNTIME_KEYS | _OWN_KEYS.get(family, frozenset())
        self._warn_unknown(entry, known, owner=f"{name}.")
        enabled = entry.get("enabled", True)
        if not isinstance(enabled, bool):
            self._warnings.append(f"enabled_not_bool:{name}")
            enabled = True
        options = {
            key: entry[key]
            for key in entry
            if key in known - {"enabled", "model", "models"}
        }
        listed = entry.get("models") if name == "opencode" else None
        choice = choose_models(
            name, entry.get("model"), listed, self._known_models.get(name)
        )
        self._warnings += choice.warnings
        keys = tuple(
            key for key in ("model", "models") if key in entry and key in known
        )
        return RuntimeSettings(
            enabled, choice.models, options, choice.model_warnings, keys
        )

    def _is_stale(self, updated: object, ttl_hours: float, now: datetime) -> bool:
        moment = _moment(updated)
        if moment is None:
            self._warnings.append("updated_invalid")
            return True
        age_seconds = (now - moment).total_seconds()
        if age_seconds < 0:
            self._warnings.append("updated_in_future")
        return ttl_hours == 0 or age_seconds > ttl_hours * 3600

    def _value(
        self,
        document: Mapping[str, Any],
        key: str,
        default: Any,
        kind: type,
        least: int = 0,
    ) -> Any:
        value = document.get(key)
        is_valid = value is None or (
            type(value) is kind and not (isinstance(value, int) and value < least)
        )
        return self._valid(
            default if value is None else value,
            is_valid,
            default,
            f"invalid_value:{key}",
        )

    def _valid(self, value: Any, is_valid: bool, default: Any, warning: str) -> Any:
        self._warnings += [] if is_valid else [warning]
        return value if is_valid else default

    def _warn_unknown(
        self, given: Mapping[str, Any], known: frozenset[str], *, owner: str
    ) -> None:
        unknown = [key for key in given if key not in known and not key.startswith("_")]
        self._warnings += [f"unknown_key:{owner}{key}" for key in unknown]


def _moment(value: object) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
        return (
            moment.replace(tzinfo=UTC)
            if moment.utcoffset() is None
            else moment.astimezone(UTC)
        )
    except (ValueError, OverflowError):
        return None


def choose_reasoning_level(
    task: BridgeInput, *, cap: str, may_use_most: bool = False
) -> str:
    """The level to ask for; the highest needs the user's explicit yes, `may_use_most`."""
    wanted = min(_wanted(task), cap, key=REASONING_LEVELS.index)
    return HIGH if wanted == XHIGH and not may_use_most else wanted


def _wanted(task: BridgeInput) -> str:
    if _GRAVE_WORDS.search(task.task_description):
        return XHIGH
    grave = len(task.domains) >= MANY_DOMAINS and bool(
        _GRAVE_DOMAINS & set(task.domains)
    )
    return HIGH if (task.files or 0) >= MANY_FILES or grave else MEDIUM
