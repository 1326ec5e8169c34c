"""Which source wins for each setting: flag, environment, project file, user file, default. Pure.

Bad values never stop a command that does not need them: they are reported as warnings and the next source is used.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from bridgehead.config.declared import SETTINGS, Kind, Setting, Value
from bridgehead.contract.settings_trust import Freedom
from bridgehead.errors import ConfigError

AGENTS: Final = "runtimes."
MOST: Final = 1e15
"""The largest number that somebody can count with."""
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "false", "no", "off"})


class Origin(StrEnum):
    FLAG = "flag"
    ENVIRONMENT = "environment"
    PROJECT = "project file"
    USER = "user file"
    DEFAULT = "default"


class SettingsFile(NamedTuple):
    """One parsed bridgehead.toml. `trusted` says whether it may choose programs and URLs."""

    path: str
    document: Mapping[str, Any]
    trusted: bool


class Resolved(NamedTuple):
    """A value and where it came from: a flag, a variable's name or a file's path."""

    value: Value
    origin: Origin
    source: str | None = None


class Settings:
    """Every declared setting with its value, and what was wrong with the sources."""

    def __init__(
        self, values: Mapping[str, Resolved], warnings: tuple[str, ...] = ()
    ) -> None:
        self.values = values
        self.warnings = warnings

    def text(self, name: str) -> str | None:
        value = self.values[name].value
        return value if isinstance(value, str) else None

    def number(self, name: str) -> float | None:
        value = self.values[name].value
        return (
            float(value)
            if isinstance(value, int | float) and not isinstance(value, bool)
            else None
        )

    def flag(self, name: str) -> bool:
        return self.values[name].value is True

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.values[name].value
        return value if isinstance(value, tuple) else ()

    @property
    def agents(self) -> dict[str, str]:
        """The command of each agent that `[runtimes.NAME]` describes."""
        marked = (name for name in self.values if name.startswith(AGENTS))
        return {
            name.removeprefix(AGENTS): str(self.values[name].value) for name in marked
        }


class _Sources(NamedTuple):
    flags: Mapping[str, Value]
    environ: Mapping[str, str]
    project: SettingsFile | None
    user: SettingsFile | None
    warnings: list[str]


def resolve(
    *,
    flags: Mapping[str, Value],
    environ: Mapping[str, str],
    project: SettingsFile | None,
    user: SettingsFile | None,
) -> Settings:
    """Every declared setting from its strongest source."""
    warnings = [
        warning
        for file in (project, user)
        if file is not None
        for warning in _unknown_keys(file)
    ]
    sources = _Sources(flags, environ, project, user, warnings)
    values = {declared.name: _strongest(declared, sources) for declared in SETTINGS}
    for file, origin in ((user, Origin.USER), (project, Origin.PROJECT)):
        values |= _described_agents(file, origin, warnings)
    return Settings(values, tuple(warnings))


def _strongest(declared: Setting, sources: _Sources) -> Resolved:
    if declared.name in sources.flags:
        return Resolved(sources.flags[declared.name], Origin.FLAG)
    if declared.variable in sources.environ:
        try:
            value = _from_text(declared, sources.environ[declared.variable])
            return Resolved(value, Origin.ENVIRONMENT, declared.variable)
        except ConfigError as error:
            sources.warnings.append(f"{declared.variable}: {error.message}; ignored")
    usual = _from_file(declared, sources.user, Origin.USER, sources.warnings)
    if usual is None:
        usual = Resolved(declared.default, Origin.DEFAULT)
    asked = _from_file(declared, sources.project, Origin.PROJECT, sources.warnings)
    if asked is None or sources.project is None:
        return usual
    if sources.project.trusted:
        return asked
    return _from_stranger(declared, asked, usual, sources.warnings)


def _from_stranger(
    declared: Setting, asked: Resolved, usual: Resolved, warnings: list[str]
) -> Resolved:
    """Return what holds where a file that nobody has trusted asks for something."""
    if declared.freedom is Freedom.FREE:
        return asked
    limits = ""
    value = usual.value
    if declared.freedom is Freedom.ONLY_LOWER:
        limits = ", and such a file may only be stricter than you"
        value = stricter(declared, asked.value, usual.value)
        if declared.kind is Kind.TEXTS:  # nothing that was asked for is lost
            return asked._replace(value=value)
    if value == asked.value:
        return asked
    warnings.append(
        f"{asked.source}: {declared.name} ignored because the file is not "
        f"trusted{limits}; read it, then: bridgehead config trust"
    )
    return usual


def stricter(declared: Setting, asked: Value, usual: Value) -> Value:
    """Return the stricter of two values; demands of both, where there can be several."""
    if isinstance(asked, tuple) and isinstance(usual, tuple):
        return tuple(dict.fromkeys([*usual, *asked]))
    if isinstance(asked, bool):
        return asked or usual
    if declared.choices:
        order = declared.choices.index
        return max(str(asked), str(usual), key=order)
    if isinstance(asked, int | float) and isinstance(usual, int | float):
        # Below zero a limit is a mistake, and no limit.
        return asked if 0 <= asked <= usual else usual
    return usual


def _from_file(
    declared: Setting, file: SettingsFile | None, origin: Origin, warnings: list[str]
) -> Resolved | None:
    section = file.document.get(declared.section) if file is not None else None
    if file is None or not isinstance(section, Mapping) or declared.key not in section:
        return None
    try:
        return Resolved(_typed(declared, section[declared.key]), origin, file.path)
    except ConfigError as error:
        warnings.append(f"{file.path}: {error.message}; ignored")
        return None


def _described_agents(
    file: SettingsFile | None, origin: Origin, warnings: list[str]
) -> dict[str, Resolved]:
    """`[runtimes.NAME]` with `acp = "COMMAND"`: any agent that speaks ACP, by the command that starts it."""
    section = file.document.get("runtimes") if file is not None else None
    if file is None or not isinstance(section, Mapping):
        return {}
    found: dict[str, Resolved] = {}
    for name, entry in section.items():
        declared = Setting("runtimes", name, Kind.TEXT, None, "")
        if not isinstance(entry, Mapping) or set(entry) != {"acp"}:
            warnings.append(
                f'{file.path}: [runtimes.{name}] must contain only acp = "COMMAND"; '
                "ignored"
            )
        else:
            one = SettingsFile(
                file.path, {"runtimes": {name: entry["acp"]}}, file.trusted
            )
            command = _from_file(declared, one, origin, warnings)
            if command is not None and not file.trusted:
                nobody = Resolved(None, Origin.DEFAULT)
                command = _from_stranger(declared, command, nobody, warnings)
            if command is not None and command.value is not None:
                found[declared.name] = command
    return found


def _unknown_keys(file: SettingsFile) -> list[str]:
    warnings: list[str] = []
    sections = {declared.section for declared in SETTINGS}
    names = {declared.name for declared in SETTINGS}
    for name, section in file.document.items():
        if name == "runtimes" and isinstance(section, Mapping):
            continue  # described agents have names of their own
        if name not in sections:
            warnings.append(f"{file.path}: unknown section [{name}]")
        elif not isinstance(section, Mapping):
            warnings.append(f"{file.path}: [{name}] must be a table")
        else:
            unknown = (one for key in section if (one := f"{name}.{key}") not in names)
            warnings += [f"{file.path}: unknown setting {one}" for one in unknown]
    return warnings


def _typed(declared: Setting, value: object) -> Value:
    match declared.kind:
        case Kind.TEXT if isinstance(value, str):
            return _chosen(declared, value)
        case Kind.NUMBER if (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and _is_finite(value)
        ):
            return value
        case Kind.FLAG if isinstance(value, bool):
            return value
        case Kind.TEXTS if isinstance(value, list) and all(
            isinstance(entry, str) for entry in value
        ):
            return tuple(value)
    raise ConfigError(f"{declared.name} must be a {declared.kind}")


def _chosen(declared: Setting, text: str) -> str:
    if declared.choices and text not in declared.choices:
        words = " or ".join(declared.choices)
        raise ConfigError(f"{declared.name} must be {words}, not {text!r}")
    return text


def _is_finite(value: float) -> bool:
    """Whether somebody can count with it: TOML and Python also know `nan`, `inf` and integers without an end."""
    return -MOST < value < MOST


def _from_text(declared: Setting, text: str) -> Value:
    match declared.kind:
        case Kind.TEXT:
            return _chosen(declared, text)
        case Kind.TEXTS:
            return tuple(
                part for part in (piece.strip() for piece in text.split(",")) if part
            )
        case Kind.FLAG:
            if text.strip().lower() in _TRUE | _FALSE:
                return text.strip().lower() in _TRUE
        case Kind.NUMBER:
            for number in (int, float):
                try:
                    value = number(text)
                except ValueError:
                    continue
                if _is_finite(value):
                    return value
    raise ConfigError(f"{declared.name} must be a {declared.kind}, not {text!r}")
