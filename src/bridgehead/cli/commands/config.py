"""`bridgehead config`: settings and where they come from; trust in a project's file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import click

from bridgehead.cli.click_classes import Command, Group
from bridgehead.cli.output import App, columns
from bridgehead.config.declared import Value
from bridgehead.config.resolve import Settings
from bridgehead.errors import UserError

HIDDEN: Final = "***"
_PASSWORD: Final = re.compile(r"(?<=://)([^/?#@]*?:)[^/?#]*@")


@click.group(cls=Group)
def config() -> None:
    """Show settings and where they come from; trust a project's file."""


@config.command(
    cls=Command,
    examples=(
        "bridgehead config show",
        "bridgehead config show --origin",
        "bridgehead config show --json",
    ),
)
@click.option("--origin", is_flag=True, help="Show where each value comes from.")
@click.pass_obj
def show(app: App, origin: bool) -> None:
    """Print every setting with its value. Flag > environment > project file > user file
    > default.
    """
    assembly = app.assembly(warns=False)
    settings = assembly.settings
    for warning in settings.warnings:
        app.warn(warning)
    places = assembly.places
    files = {"project": str(places.project_file), "user": str(places.user_file)}
    document = {
        "settings": _documents(settings),
        "files": files,
        "warnings": list(settings.warnings),
    }
    app.emit(document, lambda: _table(settings, origin=origin, width=app.width))


@config.command(
    cls=Command,
    examples=(
        "bridgehead config trust",
        "bridgehead config trust .bridge-settings.json",
        "bridgehead config trust --list",
        "bridgehead config trust --remove bridgehead.toml",
    ),
)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--list", "listing", is_flag=True, help="List trusted files.")
@click.option("--remove", is_flag=True, help="Stop trusting FILE.")
@click.pass_obj
def trust(app: App, file: Path | None, listing: bool, remove: bool) -> None:
    """Let FILE (default: the project's bridgehead.toml) choose programs, URLs and key
    variables.

    Trust applies to the content: a changed file must be trusted again.
    """
    assembly = app.assembly(warns=False)
    trusted = assembly.trusted_files
    if listing:
        if file is not None or remove:
            raise UserError("--list cannot be combined with a file or --remove")
        known = trusted.all()
        app.emit(
            {"trusted": known},
            lambda: "".join(f"{path}\n" for path in known) or "no file is trusted\n",
        )
        return
    path = Path(app.cwd, file or assembly.places.project_file).absolute()
    if remove:
        trusted.remove(path)
        app.emit({"removed": str(path)}, lambda: f"no longer trusted: {path}")
        return
    digest = trusted.add(path)
    app.emit({"file": str(path), "sha256": digest}, lambda: f"trusted: {path}")


def _documents(settings: Settings) -> dict[str, Any]:
    return {
        name: {
            "value": without_secrets(name, resolved.value),
            "origin": resolved.origin,
            "source": resolved.source,
        }
        for name, resolved in settings.values.items()
    }


def _table(settings: Settings, *, origin: bool, width: int) -> str:
    rows = []
    for name, resolved in settings.values.items():
        value = without_secrets(name, resolved.value)
        source = f" ({resolved.source})" if resolved.source else ""
        rows.append(
            (name, _shown(value), *([f"{resolved.origin}{source}"] if origin else []))
        )
    return columns(rows, width=width, flexible=1)


def without_secrets(name: str, value: Value) -> Value:
    """Return what may be shown of a value: a token not at all, a URL without the
    password in it.
    """
    if not isinstance(value, str):
        return value
    return (
        HIDDEN
        if value and name.endswith("_token")
        else _PASSWORD.sub(rf"\1{HIDDEN}@", value)
    )


def _shown(value: Value) -> str:
    if value is None or value == ():
        return "–"
    if isinstance(value, bool):
        return "true" if value else "false"  # as the file spells them
    return ", ".join(value) if isinstance(value, tuple) else str(value)
