"""Start a flow by name, or resume the one paused in a root.

The table FLAGS lists the flags that every flow accepts.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from bridgehead.flows.definition import Flow, defaults_of, read_options
from bridgehead.flows.engine.engine import run_flow
from bridgehead.flows.engine.run_request import (
    RunInputs,
    RunOptions,
    RunRequest,
    RunResult,
)
from bridgehead.flows.errors import FlowMistake, NoCheckpoint
from bridgehead.flows.files.root import FlowRoot
from bridgehead.flows.words import NOTHING, STATE_FILE


class Flag:
    """A flag: the setting it sets, and the type of its value if it takes one."""

    def __init__(
        self,
        name: str,
        sets: str,
        summary: str,
        read: type[Any] | None = None,
        choices: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.sets = sets
        self.summary = summary
        self.read = read
        self.choices = choices


FLAGS: Final = (
    Flag("--dir", "root", "The flow's root directory; default: the current one.", Path),
    Flag("--resume", "resume", "Resume the run paused in this directory."),
    Flag("--fresh", "fresh", "Cancel the run paused in this directory and start over."),
    Flag(
        "--id",
        "key",
        "Idempotency key: join the run with this key, or return its result.",
        str,
    ),
    Flag(
        "--wait",
        "wait_seconds",
        "Wait this many seconds for the answer before pausing.",
        float,
    ),
    Flag(
        "--max-retries", "max_retries", "Retries for a failed request; default: 2.", int
    ),
    Flag("--heuristics-only", "heuristics_only", "Ask no agent and use the fallbacks."),
    Flag(
        "--on-missing-agent",
        "on_missing_agent",
        "What to do when the agent is missing.",
        str,
        ("stop", "fallback"),
    ),
    Flag(
        "--force-version",
        "force_version",
        "Continue although the flow's version has changed.",
    ),
    Flag(
        "--accept-foreign-owner",
        "accept_foreign_owner",
        "Accept an answer file owned by another user.",
    ),
    Flag(
        "--tolerant",
        "tolerant",
        "Accept unknown keys and unserialised JSON in an answer.",
    ),
)
_BY_NAME: Final = {flag.name: flag for flag in FLAGS}


class CommandLine(NamedTuple):
    """A command line, split into the common flags and the flow's own words."""

    flags: Mapping[str, Any] = NOTHING
    words: tuple[str, ...] = ()

    @property
    def root(self) -> Path:
        """Return the directory given by --dir, or else the current one."""
        return Path(self.flags.get("root") or self.flags.get("here") or Path.cwd())

    def request(self, **fields: Any) -> RunRequest:
        """Return a request with these flags, and the other fields as given."""
        flags = self.flags
        falls_back = None
        if flags.get("on_missing_agent") is not None:
            falls_back = flags["on_missing_agent"] == "fallback"
        wait = flags.get("wait_seconds") or 0.0
        if not wait >= 0:  # also refuses "not a number"
            raise FlowMistake(f"--wait must be a number of seconds, not {wait:g}")
        if (flags.get("max_retries") or 0) < 0:
            raise FlowMistake("--max-retries cannot be negative")
        return RunRequest(
            root=self.root,
            options=RunOptions(
                max_retries=flags.get("max_retries"),
                heuristics_only=flags.get("heuristics_only") or None,
                missing_agent_falls_back=falls_back,
            ),
            key=flags.get("key"),
            resume=bool(flags.get("resume")),
            fresh=bool(flags.get("fresh")),
            wait_seconds=wait,
            force_version=bool(flags.get("force_version")),
            accept_foreign_owner=bool(flags.get("accept_foreign_owner")),
            tolerant=bool(flags.get("tolerant")),
            **fields,
        )


def split_words(words: Sequence[str]) -> CommandLine:
    """Split a command line into common flags and the flow's own words.

    Everything after `--`, and every flag not in the table, belongs to the flow.
    """
    flags: dict[str, Any] = {}
    own: list[str] = []
    remaining = list(words)
    while remaining:
        word = remaining.pop(0)
        if word == "--":
            return CommandLine(flags, (*own, *remaining))
        name, equals, value = word.partition("=")
        flag = _BY_NAME.get(name)
        if flag is None:
            own.append(word)
        elif flag.read is None:
            flags[flag.sets] = True
        elif not equals and not remaining:
            raise FlowMistake(f"{name} needs a value")
        else:
            flags[flag.sets] = _read(flag, value if equals else remaining.pop(0))
    return CommandLine(flags, tuple(own))


def _read(flag: Flag, value: str) -> Any:
    if flag.choices and value not in flag.choices:
        raise FlowMistake(
            f"{flag.name} must be {' or '.join(flag.choices)}, not {value!r}"
        )
    assert flag.read is not None
    try:
        return flag.read(value)
    except ValueError:
        raise FlowMistake(f"{flag.name} must be a number, not {value!r}") from None


def run_with_options(
    flow: Flow, source: str, line: CommandLine, inputs: RunInputs | None = None
) -> RunResult:
    """Run `flow`, found as `source`, with the settings of a command line."""
    inputs = inputs or RunInputs()
    # Without --dir, an option of the flow itself may name the root (flows §1).
    if flow.root_in is not None and "root" not in line.flags:
        root = flow.root_in(line.words)
        if root is not None:
            line = line._replace(flags={**line.flags, "root": root})
    given, defaults = _settings_in(line, flow)
    places = _output_directories(line, flow, inputs)
    if places:
        defaults["output_path"] = str(places[0] / Path(defaults["output_path"]).name)
    request = line.request(
        source=source, given=given, defaults=defaults, output_directories=places
    )
    return run_flow(flow, request, inputs)


def resume_paused(
    line: CommandLine,
    directory: Path,
    inputs: RunInputs | None = None,
    *,
    flow_id: str | None = None,
) -> RunResult:
    """Resume the run paused in a root, or the run with that id."""
    inputs = inputs or RunInputs()
    source, paused_id = paused_in(FlowRoot.open(line.root), flow_id, inputs)
    from bridgehead.flows.discovery import find_flow

    flow, found_as = find_flow(source, directory)
    given, _ = _settings_in(line, flow)
    places = _output_directories(line, flow, inputs)
    request = line.request(
        source=found_as, given=given, flow_id=paused_id, output_directories=places
    )
    return run_flow(flow, request._replace(resume=True), inputs)


def paused_in(
    root: FlowRoot, flow_id: str | None, inputs: RunInputs
) -> tuple[str, str | None]:
    """Return the source of the flow to be resumed, and the id of its run.

    A state file belongs to template-create, with or without a journal.
    """
    by_state_file = not flow_id and (root.path / STATE_FILE).exists()
    if by_state_file:
        return "template-create", None
    if not root.journal.exists():
        raise NoCheckpoint(root.path)
    with inputs.open_journal(root) as journal:
        if flow_id is None:
            run = journal.unfinished()
        else:
            from bridgehead.flows.operations.inspect import find_run

            run = find_run(journal.runs(), flow_id, root.path)
        run = run or next(iter(journal.runs()), None)
    if run is None or not run.source:
        raise NoCheckpoint(root.path)
    return run.source, run.id


def _output_directories(
    line: CommandLine, flow: Flow, inputs: RunInputs
) -> tuple[Path, ...]:
    """Return where the flow may put its output, besides the root (flows §10).

    Only flows that keep a state file have such directories.
    """
    return inputs.output_directories(line.root) if flow.keeps_state_file else ()


def _settings_in(
    line: CommandLine, flow: Flow
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the settings given on a command line, and the defaults of a new run."""
    if flow.read_words is not None:
        return flow.read_words(line.words, line.root)
    return read_options(flow, line.words), defaults_of(flow)
