"""`bridgehead template`: make projects from packages that template-create made, and
check those.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bridgehead.cli.click_classes import Group
from bridgehead.cli.output import App, columns
from bridgehead.errors import plural
from bridgehead.flows.template_create import package as packages

if TYPE_CHECKING:
    from bridgehead.flows.template_create.build import BuildResult
    from bridgehead.flows.template_create.phases.p4_templates import Proof

HEAD = ("NAME", "LANGUAGE", "FILES", "ABOUT", "PATH")
package_argument = click.argument("package", type=click.Path(path_type=Path))


@click.group(cls=Group)
def template() -> None:
    """Create projects from template packages. `bridgehead flow run template-create`
    makes a package from a project.
    """


@template.command(
    "new",
    examples=(
        (
            'bridgehead template new ./shop-template --name "Acme Shop" --entity Order '
            "./acme-shop"
        ),
        (
            'bridgehead template new ./shop-template --name "Acme Shop" --entity '
            "Invoice "
            "--feature ./acme-shop"
        ),
    ),
)
@package_argument
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--name", required=True, help='Name of the project, such as "Acme Shop".')
@click.option(
    "--entity",
    default="",
    help='Main entity in the singular, such as Order or "Order Line".',
)
@click.option("--author", default="", help="Author; default: as in the package.")
@click.option(
    "--feature",
    is_flag=True,
    help="Add only the entity's files to an existing project.",
)
@click.pass_obj
def new(app: App, /, package: Path, directory: Path, **names: Any) -> int:
    """Create a project, or one feature of it, from PACKAGE in DIRECTORY. Existing files
    are never overwritten.
    """
    made = packages.make(packages.open_package(package), directory, **names)
    for path in made.missing:
        app.warn(f"the new files refer to {path}, which the package does not contain")
    document = {
        "path": str(made.path),
        "files": list(made.files),
        "missing": list(made.missing),
    }
    app.emit(document, lambda: f"{made.path}: {plural(len(made.files), 'file')}")
    return 0


@template.command(
    "list",
    examples=(
        "bridgehead template list",
        "bridgehead template list ~/templates --json",
    ),
)
@click.argument(
    "directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=".",
)
@click.pass_obj
def list_(app: App, /, directory: Path) -> int:
    """List the packages in DIRECTORY and one level below it."""
    found = [_summary(package) for package in packages.packages_below(directory)]
    rows = [
        (f["name"], f["language"], str(len(f["files"])), f["about"] or "-", f["path"])
        for f in found
    ]
    app.emit(
        {"packages": found},
        lambda: (
            columns([HEAD, *rows], width=app.width, flexible=4)
            if rows
            else "no packages"
        ),
    )
    return 0


@template.command("show", examples=("bridgehead template show ./shop-template",))
@package_argument
@click.pass_obj
def show(app: App, /, package: Path) -> int:
    """Show the files PACKAGE creates and the names it asks for."""
    opened = packages.open_package(package)
    summary = {**_summary(opened), "placeholders": sorted(opened.manifest.placeholders)}

    def text() -> str:
        about = f", about {opened.origin.entity}" if opened.origin.entity else ""
        lines = [f"{opened.manifest.name}: {opened.manifest.description}{about}", ""]
        return "\n".join(
            [*lines, *(f"  {template.path}" for template in opened.templates)]
        )

    app.emit(summary, text)
    return 0


@template.command(
    "check",
    examples=(
        "bridgehead template check ./shop-template",
        "bridgehead template check ./shop-template --build",
    ),
)
@package_argument
@click.option(
    "--build",
    is_flag=True,
    help="Also build and test it in a scratch directory; this runs its code.",
)
@click.pass_obj
def check(app: App, /, package: Path, build: bool) -> int:
    """Fill in PACKAGE under two different names and check that every file parses and
    every reference resolves.
    """
    opened = packages.open_package(package)
    proof = packages.check(opened)
    built: list[BuildResult] = []
    if build:
        from bridgehead.flows.template_create.build import build as build_and_test

        built = build_and_test(opened)
    failed = [result for result in built if result.problem]
    document = {
        **asdict(proof),
        "score": proof.score,
        "grade": proof.grade,
        "build": [asdict(result) for result in built],
    }

    lines = _proof_lines(proof)
    lines += [
        f"ran {result.command}: {result.problem or 'it succeeded'}"
        for result in built
        if not result.skipped
    ]
    lines += [
        f"not run: {result.command}: {result.skipped}"
        for result in built
        if result.skipped
    ]
    if not build:
        lines.append(
            "not run: its build and tests (--build runs them, and with them the "
            "package's code)"
        )
    app.emit(document, lambda: "\n".join(lines))
    return 1 if proof.problems or failed else 0


def _proof_lines(proof: Proof) -> list[str]:
    """Return what was proven of a package, what is wrong and what nobody knows."""
    score = "no score: nothing to prove"
    if proof.score is not None:
        score = f"score {proof.score:g} ({proof.grade})"
    lines = [f"{proof.proven} of {plural(proof.files, 'file')} proven, {score}"]
    lines += [f"wrong: {line}" for line in proof.problems]
    lines += [f"not proven: {line}" for line in proof.unproven]
    return lines


def _summary(package: packages.TemplatePackage) -> dict[str, Any]:
    return {
        "name": package.manifest.name,
        "path": str(package.path),
        "language": package.manifest.language,
        "about": package.origin.entity,
        "files": [template.path for template in package.templates],
    }
