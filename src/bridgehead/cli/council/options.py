"""The options every council takes (council §24), and the files they name.

A refusal says which one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bridgehead.cli.output import App, read_named
from bridgehead.contract.words import ContextPolicy, CouncilProtocol, Intensity
from bridgehead.errors import UserError

if TYPE_CHECKING:
    from bridgehead.contract.report import Output
    from bridgehead.contract.task import Requirement

MOST_FILE_BYTES = 16 * 1024 * 1024
MOST_PATCH_BYTES = 64 * 1024 * 1024
GATES = ("fail", "concerns")
_REQUIREMENT = (
    "entries are {id: R-1, text: what must hold, level: MUST|SHOULD|MAY}, in YAML or "
    "JSON"
)

gate_option = click.option(
    "--gate",
    type=click.Choice(GATES),
    help="Exit 3 on this verdict or worse; by default any verdict exits 0.",
)
allow_incomplete_option = click.option(
    "--allow-incomplete",
    default="",
    metavar="REASON",
    help="Let --gate pass although something was not looked at; the reason is recorded.",
)
watch_option = click.option(
    "--watch", is_flag=True, help="Print events as NDJSON; the report is the last line."
)


def _place_for_sarif(
    context: click.Context, option: click.Parameter, path: Path | None
) -> Path | None:
    """Refused before any call is made: nobody wants to pay for a council and then miss
    its file.
    """
    if path is not None and path.is_dir():
        raise UserError(
            f"--sarif {path}: this is a directory", hint="give a file name in it"
        )
    if path is not None and not path.parent.is_dir():
        raise UserError(
            f"--sarif {path}: there is no directory {path.parent}",
            hint="create it, then retry",
        )
    return path


sarif_option = click.option(
    "--sarif",
    type=click.Path(path_type=Path),
    callback=_place_for_sarif,
    help="Write the findings as SARIF 2.1.0.",
)

_OPTIONS = (
    click.option(
        "--diff",
        "diff_base",
        metavar="BASE",
        help="Changes since BASE, including uncommitted ones.",
    ),
    click.option("--staged", is_flag=True, help="Staged changes only."),
    click.option(
        "--range", "commit_range", metavar="A..B", help="The commits in a range."
    ),
    click.option(
        "--patch",
        type=click.Path(readable=False),
        metavar="FILE",
        help="A patch file; - reads standard input.",
    ),
    click.option(
        "--task",
        "-t",
        default="",
        metavar="TEXT",
        help="What to look for, in plain words.",
    ),
    click.option(
        "--context",
        "context_file",
        type=click.Path(path_type=Path),
        help="Background for each seat.",
    ),
    click.option(
        "--domain",
        "-d",
        "domains",
        multiple=True,
        metavar="D",
        help="Use only this domain; repeatable.",
    ),
    click.option(
        "--add-domain",
        "add_domains",
        multiple=True,
        metavar="D",
        help="Add a domain; repeatable.",
    ),
    click.option(
        "--intensity",
        "-i",
        type=click.Choice([str(one) for one in Intensity]),
        help="How thorough to be.",
    ),
    click.option(
        "--protocol",
        type=click.Choice([str(one) for one in CouncilProtocol]),
        help=(
            "One call for all roles of a runtime, or one call a role; default: "
            "council.protocol."
        ),
    ),
    click.option(
        "--context-policy",
        type=click.Choice([str(one) for one in ContextPolicy]),
        help="Context given to seats.",
    ),
    click.option(
        "--requirements",
        type=click.Path(path_type=Path),
        help="Requirements, as a JSON or YAML list.",
    ),
    click.option(
        "--runtime",
        "-r",
        "runtimes",
        multiple=True,
        metavar="NAME",
        help="Use this runtime; repeatable.",
    ),
    click.option(
        "--host-seat",
        is_flag=False,
        flag_value="",
        default=None,
        metavar="[RUNTIME]",
        help="The calling agent answers for this runtime; exits 42 with its prompts.",
    ),
    click.option(
        "--fallback",
        is_flag=True,
        help="Use Claude alone, with a second pass over its own findings.",
    ),
    click.option(
        "--seed-findings",
        type=click.Path(path_type=Path),
        help="Start from these findings (JSON).",
    ),
    click.option(
        "--id",
        "review_id",
        metavar="ID",
        help="Use this ID instead of a generated one.",
    ),
    click.option("--non-interactive", is_flag=True, help="Never prompt."),
    click.option(
        "--reconfigure", is_flag=True, help="Detect runtimes and models again."
    ),
    click.option("--write-settings", is_flag=True, help="Write .bridge-settings.json."),
    click.option(
        "--dry-run",
        is_flag=True,
        help="Show the calls that would be made, without making them.",
    ),
    click.option(
        "--max-calls",
        type=click.IntRange(min=0),
        metavar="N",
        help="Make at most N model calls.",
    ),
    click.option(
        "--max-cost",
        "max_cost_usd",
        type=click.FloatRange(min=0),
        metavar="USD",
        help="Stop at this cost.",
    ),
    gate_option,
    allow_incomplete_option,
    click.option(
        "--require",
        multiple=True,
        metavar="NAME",
        help="Seat or analyser without which nothing passes; repeatable.",
    ),
    click.option(
        "--allow-new-dismissals",
        is_flag=True,
        help="Apply dismissals added by the change.",
    ),
    click.option(
        "--whole-files",
        is_flag=True,
        help="Also count findings on lines the change did not touch.",
    ),
    click.option(
        "--timeout",
        "timeout_seconds",
        type=click.IntRange(min=1),
        metavar="SECONDS",
        help=(
            "Give up on a model or an analyser after this many silent seconds; "
            "default: estimated, at least council.timeout (120)."
        ),
    ),
    sarif_option,
    watch_option,
)


def council_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add all options of a council, in the order of the help."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def is_interactive(app: App, *, watch: bool, non_interactive: bool) -> bool:
    """Somebody sits at the terminal and has not said that nobody does."""
    machine_reads = (
        app.as_json or watch or non_interactive or bool(app.environ.get("CI"))
    )
    return not machine_reads and sys.stdin.isatty() and app.stderr.isatty()


def read_text(path: Path | None) -> str:
    """Return the text of a file that was named; none is empty."""
    if path is None:
        return ""
    try:
        return read_named(path, MOST_FILE_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text: {error}") from error


def read_patch(given: str | None) -> str | None:
    """Return the patch in a file, or from standard input."""
    if given is None:
        return None
    content = (
        sys.stdin.buffer.read(MOST_PATCH_BYTES + 1)
        if given == "-"
        else read_named(Path(given), MOST_PATCH_BYTES)
    )
    if len(content) > MOST_PATCH_BYTES:
        raise UserError(f"the patch is larger than {MOST_PATCH_BYTES >> 20} MiB")
    return content.decode("utf-8", "replace")


def read_requirements(path: Path | None) -> tuple[Requirement, ...]:
    """Return the requirements of an audit, from YAML or JSON."""
    if path is None:
        return ()
    import msgspec
    import yaml

    from bridgehead.contract.task import Requirement

    try:
        listed = msgspec.convert(
            yaml.safe_load(read_text(path)), tuple[Requirement, ...]
        )
    except (
        yaml.YAMLError,
        msgspec.ValidationError,
        ValueError,
        RecursionError,
    ) as error:
        problem = " ".join(str(error).split())
        raise UserError(
            f"{path} is not a list of requirements: {problem}", hint=_REQUIREMENT
        ) from error
    ids = [one.id for one in listed]
    twice = [one for one in dict.fromkeys(ids) if ids.count(one) > 1]
    if not listed or twice:
        problem = f"{', '.join(twice)} appears twice" if twice else "it is empty"
        raise UserError(
            f"{path} is not a list of requirements: {problem}", hint=_REQUIREMENT
        )
    return listed


def read_seeds(path: Path | None) -> tuple[Output, ...]:
    """Return the findings that the caller has already."""
    if path is None:
        return ()
    from bridgehead.assembly.council.request import read_seed_findings

    return read_seed_findings(read_text(path), str(path))
