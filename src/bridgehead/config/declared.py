"""Every setting of bridgehead.toml, declared once. docs/reference/settings.md is generated from this table.

`trusted_only` marks settings that choose a program, its arguments, a URL or the variable a key is read from: a project
file may set them only after the user has trusted that file (design §9).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    TEXT = "text"
    NUMBER = "number"
    FLAG = "flag"
    TEXTS = "list of texts"


Value = str | float | bool | tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Setting:
    section: str
    key: str
    kind: Kind
    default: Value
    summary: str
    trusted_only: bool = False

    @property
    def name(self) -> str:
        return f"{self.section}.{self.key}"

    @property
    def variable(self) -> str:
        return f"BRIDGEHEAD_{self.section}_{self.key}".upper()


SETTINGS: Final[tuple[Setting, ...]] = (
    Setting(
        "store",
        "url",
        Kind.TEXT,
        None,
        "where the record is kept: a file, or postgresql://…; default record.db in your data directory",
        trusted_only=True,
    ),
    Setting(
        "council",
        "pass_env",
        Kind.TEXTS,
        (),
        "environment variables handed on to AI runtimes besides the allow-list",
        trusted_only=True,
    ),
    Setting(
        "flows",
        "handler",
        Kind.TEXT,
        None,
        "who answers the requests of `flow drive`: runtime:NAME, rig:ID, cmd:WORDS or pending",
        trusted_only=True,
    ),
)


def setting(name: str) -> Setting | None:
    """The declared setting called `section.key`."""
    return _BY_NAME.get(name)


_BY_NAME: Final = {declared.name: declared for declared in SETTINGS}
