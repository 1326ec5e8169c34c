"""Read the settings of a run of template-create from a command line (flows §11)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from bridgehead.flows.errors import FlowMistake
from bridgehead.flows.files.root import is_path
from bridgehead.flows.template_create.project.languages import slug

TEMPLATE_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{2,49}")
_SIZE: Final = re.compile(r"([0-9]{1,9})(KB|MB)?", re.IGNORECASE)


@dataclass(frozen=True)
class Choices:
    """The settings of a run, which it keeps through all its pauses."""

    output_path: str
    project_path: str
    template_name: str | None = None
    author: str = ""
    force: bool = False
    no_agents: bool = False
    heuristic_agents: bool = False
    record_source: bool = False
    no_rules_structure: bool = False
    skip_validation: bool = False
    validate: bool = False
    max_templates: int = 60
    min_score: float | None = None
    claude_md_size_limit: int = 50 * 1024
    base_template: str | None = None

    @property
    def root(self) -> Path:
        return Path(self.project_path)

    @property
    def output(self) -> Path:
        return Path(self.output_path)


class ChoiceOption(NamedTuple):
    """An option: its setting, and how its value is read; None for a switch."""

    sets: str
    read: Callable[[str], Any] | None
    summary: str


def read_words(
    words: Sequence[str], root: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings in a command line, and the defaults of a new run.

    Raise FlowMistake if an option is not valid.
    """
    canonical = Path(os.path.realpath(root))
    given = _given(words)
    project = given.get("project_path", str(canonical))
    if project != str(canonical):
        raise FlowMistake(
            f"--project {project} is not {canonical}, where the flow runs; "
            f"start it with --dir {project}"
        )
    if "output_path" in given:
        _refuse_output(Path(given["output_path"]), canonical)
    return given, _defaults(given, canonical)


def root_in(words: Sequence[str]) -> Path | None:
    """Return the project that a command line names."""
    project = _given(words).get("project_path")
    return None if project is None else Path(project)


def _given(words: Sequence[str]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    rest = list(words)
    while rest:
        word, equals, value = rest.pop(0).partition("=")
        option = OPTIONS.get(word)
        if option is None:
            raise FlowMistake(
                f"template-create has no option {word}; its options: "
                f"{', '.join(OPTIONS)}"
            )
        if option.read is None:
            if equals:
                raise FlowMistake(f"{word} takes no value")
            # --no-agents wins over --agents, in whatever order they come.
            given[option.sets] = word != "--agents" or bool(given.get(option.sets))
            continue
        if not equals and not rest:
            raise FlowMistake(f"{word} needs a value")
        given[option.sets] = option.read(value if equals else rest.pop(0))
    return given


def _defaults(given: dict[str, Any], root: Path) -> dict[str, Any]:
    name = given.get("template_name")
    if name is None:
        stem = slug(root.name) or "project"
        name = f"{stem}-template"[-50:].lstrip("-")
    settings = Choices(output_path=str(root / name), project_path=str(root))
    return {key: value for key, value in vars(settings).items() if value is not None}


def _refuse_output(output: Path, root: Path) -> None:
    """Raise unless the package gets a directory of its own.

    It may not be the project or around it, nor inside a directory of git or ours.
    """
    resolved = Path(os.path.realpath(output))
    if resolved == root or root.is_relative_to(resolved):
        raise FlowMistake(
            f"--output {output} cannot be used: the project itself is there"
        )
    if resolved.is_relative_to(root) and {".git", ".bridgehead"} & set(
        resolved.relative_to(root).parts
    ):
        raise FlowMistake(
            f"--output {output} cannot be used: it is inside a directory of git or "
            "bridgehead"
        )


def _path(value: str) -> str:
    if not value or not is_path(value):
        raise FlowMistake(f"{value!r} cannot be a path")
    if ".." in Path(value).parts:
        value = os.path.normpath(Path(value).absolute())
    return str(Path(value).absolute())


def _name(value: str) -> str:
    if not TEMPLATE_NAME.fullmatch(value):
        raise FlowMistake(
            f"{value!r} is not a valid template name: "
            "use 3 to 50 lower-case letters, digits and hyphens"
        )
    return value


def _count(value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", value) or int(value) > 1000:
        raise FlowMistake(
            f"--max-templates must be a number from 0 to 1000, not {value!r}"
        )
    return int(value)


def _score(value: str) -> float:
    try:
        score = float(value)
    except ValueError:
        score = -1.0
    if not 0 <= score <= 10:
        raise FlowMistake(f"--min-score must be a number from 0 to 10, not {value!r}")
    return score


def _size(value: str) -> int:
    found = _SIZE.fullmatch(value.strip())
    if found is None or int(found[1]) == 0:
        raise FlowMistake(
            f"--claude-md-size-limit must be a size such as 50KB, not {value!r}"
        )
    number = int(found[1])
    match (found[2] or "").lower():
        case "kb":
            return number * 1024
        case "mb":
            return number * 1024 * 1024
    return number


def _line(value: str) -> str:
    if not value.isprintable() or len(value) > 200:
        raise FlowMistake(
            f"--author must be one line of at most 200 characters, not {value[:40]!r}"
        )
    return value


OPTIONS: Final = {
    "--output": ChoiceOption(
        "output_path",
        _path,
        "output directory of the package; default: a directory in the project",
    ),
    "--project": ChoiceOption(
        "project_path",
        lambda value: os.path.realpath(_path(value)),
        "the project directory, same as --dir",
    ),
    "--name": ChoiceOption(
        "template_name",
        _name,
        "name of the template; default: language and architecture",
    ),
    "--author": ChoiceOption(
        "author", _line, "recorded in the manifest, replaced by {{Author}} in templates"
    ),
    "--base-template": ChoiceOption(
        "base_template", _path, "a directory whose agents/ count as existing"
    ),
    "--max-templates": ChoiceOption(
        "max_templates", _count, "maximum number of templates; default 60"
    ),
    "--min-score": ChoiceOption(
        "min_score", _score, "fail if the package scores less, 0 to 10"
    ),
    "--claude-md-size-limit": ChoiceOption(
        "claude_md_size_limit", _size, "maximum size of CLAUDE.md; default 50KB"
    ),
    "--force": ChoiceOption("force", None, "replace an existing package"),
    "--agents": ChoiceOption("no_agents", None, "run phases 5 to 7 (the default)"),
    "--no-agents": ChoiceOption("no_agents", None, "skip phases 5 to 7"),
    "--heuristic-agents": ChoiceOption(
        "heuristic_agents", None, "add built-in specialists when no agent answers"
    ),
    "--record-source": ChoiceOption(
        "record_source", None, "write the project's path into the manifest"
    ),
    "--no-rules-structure": ChoiceOption(
        "no_rules_structure", None, "docs/ instead of .claude/rules/"
    ),
    "--skip-validation": ChoiceOption(
        "skip_validation", None, "ignored; accepted for older scripts"
    ),
    "--validate": ChoiceOption(
        "validate", None, "write validation-report.md; can also be given on resume"
    ),
}


def described_options() -> list[tuple[str, str]]:
    """Return each option with its value, and a summary."""
    return [
        (flag if o.read is None else f"{flag} VALUE", o.summary)
        for flag, o in OPTIONS.items()
    ]
