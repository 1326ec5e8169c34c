"""Read and write the identity of a clone, `.bridge/config.yaml` (rigs §2).

The reference's three keys come first and in its order; ours follow. Unknown keys belong
to somebody else: they are ignored on reading and kept when the file is changed.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from bridgehead.errors import ConfigError
from bridgehead.rigs.envelope.body_hash import BOM, unify_line_ends
from bridgehead.rigs.envelope.fields import DISPLAY_NAME_CAP
from bridgehead.rigs.envelope.frontmatter import (
    ParseFailure,
    read_mapping,
    write_mapping,
)
from bridgehead.rigs.envelope.names import CONFIG_PATH, RigId, is_rig_id, suggestion
from bridgehead.rigs.envelope.yaml_core import Value

MAX_CONFIG_BYTES = 1024 * 1024
DEFAULT_REMOTE = "origin"
DEFAULT_BRANCH = "main"
DEFAULT_FREEZE_MINUTES = 15
MustSign: TypeAlias = Literal["members", "all", "relay", "none"]
MUST_SIGN: tuple[MustSign, ...] = ("members", "all", "relay", "none")


class RigConfig(NamedTuple):
    """What the file says, with defaults filled in."""

    rig_id: RigId
    display_name: str | None = None
    default_thread: str | None = None
    auto_references: bool = False
    allowed_signers: str | None = None  # relative to the top level, or absolute
    control_plane: str | bool = False  # a path, or True for the usual place (rigs §14)
    branch: str = DEFAULT_BRANCH
    remote: str = DEFAULT_REMOTE
    freeze_minutes: float = DEFAULT_FREEZE_MINUTES
    require_signed: MustSign = (
        "members"  # who must sign what this clone believes (rigs §9.4)
    )

    @property
    def trust_chosen(self) -> tuple[str, ...]:
        """The keys that are set to name other files or to loosen trust.

        `control_plane: true` does neither.
        """
        chosen = {
            "allowed_signers": self.allowed_signers is not None,
            "control_plane": isinstance(self.control_plane, str),
            "require_signed": self.require_signed != "members",
        }
        return tuple(name for name, is_set in chosen.items() if is_set)

    def without_trust(self) -> "RigConfig":
        return self._replace(
            allowed_signers=None,
            control_plane=self.control_plane is True,
            require_signed="members",
        )


class ConfigMissing(ConfigError):
    """The clone has no identity yet."""

    def __init__(self, path: str = CONFIG_PATH) -> None:
        super().__init__(
            f"{path} not found — run `rig-bridge init --rig-id <id>` in the bridge "
            "repository first"
        )


class ConfigBroken(ConfigError):
    """The file is there but cannot be used."""

    def __init__(self, reason: str, path: str = CONFIG_PATH) -> None:
        super().__init__(f"{path}: {reason}")


def parse_config(raw: bytes) -> RigConfig:
    """Read the content of the file, or raise ConfigBroken."""
    values = read_values(raw)
    return RigConfig(
        rig_id=_rig_id(values),
        display_name=_display_name(values),
        default_thread=_text_or_null(values, "default_thread"),
        auto_references=_typed(values, "auto_references", bool, "true or false", False),
        allowed_signers=_text_or_null(values, "allowed_signers"),
        control_plane=_typed(
            values, "control_plane", str | bool, "a path or true", False
        ),
        branch=_text_or_null(values, "branch") or DEFAULT_BRANCH,
        remote=_text_or_null(values, "remote") or DEFAULT_REMOTE,
        freeze_minutes=_minutes(values),
        require_signed=_must_sign(values),
    )


def read_values(raw: bytes) -> dict[str, Value]:
    """Return every key of the file, ours or not."""
    text = unify_line_ends(raw.decode("utf-8", "replace").removeprefix(BOM)).rstrip(
        "\n"
    )
    values = read_mapping(text)
    if isinstance(values, ParseFailure):
        message = values.message.replace(
            "frontmatter YAML parse failed", "not valid YAML"
        )
        raise ConfigBroken(
            message if "not valid YAML" in message else "must be a YAML mapping"
        )
    return values


def write_config(values: Mapping[str, Value]) -> str:
    """Return the text of the file: the reference's keys first, then the others."""
    first = [
        name for name in ("rig_id", "display_name", "default_thread") if name in values
    ]
    return "".join(
        _line(name, values[name]) for name in dict.fromkeys([*first, *values])
    )


def _line(name: str, value: Value) -> str:
    """Return the line of one key.

    Nested values and keys that are no words belong to somebody else. They are
    written as JSON, which is YAML too.
    """
    items = value if isinstance(value, list) else [value]
    if name.isidentifier() and not any(isinstance(item, list | dict) for item in items):
        return write_mapping({name: value})
    from json import dumps

    return f"{dumps(name, ensure_ascii=False)}: {dumps(value, ensure_ascii=False)}\n"


def new_config(rig_id: RigId, display_name: str | None = None) -> dict[str, Value]:
    """Return the values `init` writes; a display name beyond the cap is refused."""
    named: dict[str, Value] = (
        {"display_name": display_name} if display_name is not None else {}
    )
    _display_name(named)
    return {"rig_id": str(rig_id), **named}


def _rig_id(values: Mapping[str, Value]) -> RigId:
    value = values.get("rig_id")
    if not isinstance(value, str):
        raise ConfigBroken("rig_id is required and must be a string")
    if not is_rig_id(value):  # files are never normalised
        better = suggestion(value)
        question = f'. Did you mean "{better}"?' if better else ""
        raise ConfigBroken(
            f'rig_id "{value}" is not a canonical kebab-case slug{question}'
        )
    return RigId(value)


def _display_name(values: Mapping[str, Value]) -> str | None:
    if "display_name" not in values:
        return None
    value = values["display_name"]
    if not isinstance(value, str):
        raise ConfigBroken("display_name must be a string")
    if len(value) > DISPLAY_NAME_CAP:
        raise ConfigBroken(f"display_name exceeds {DISPLAY_NAME_CAP}-char cap")
    return value


def _typed(
    values: Mapping[str, Value], name: str, kinds: Any, wanted: str, default: Any = None
) -> Any:
    value = values.get(name, default)
    if not isinstance(value, kinds):
        raise ConfigBroken(f"{name} must be {wanted}")
    return value


def _text_or_null(values: Mapping[str, Value], name: str) -> str | None:
    found: str | None = _typed(values, name, str | None, "a string or null")
    return found


def _must_sign(values: Mapping[str, Value]) -> MustSign:
    value = values.get("require_signed", "members")
    for known in MUST_SIGN:
        if value == known:
            return known
    raise ConfigBroken(f"require_signed must be one of {', '.join(MUST_SIGN)}")


def _minutes(values: Mapping[str, Value]) -> float:
    value = values.get("freeze_minutes", DEFAULT_FREEZE_MINUTES)
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 < value <= 60 * 24 * 365
    ):
        raise ConfigBroken("freeze_minutes must be a positive number of minutes")
    return value
