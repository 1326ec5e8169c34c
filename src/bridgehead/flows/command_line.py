"""The flags every flow understands, in one table: the `flow run` command and scripts of users read the same ones."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from bridgehead.flows.errors import FlowMistake
from bridgehead.flows.requests import RunOptions, RunRequest
from bridgehead.flows.words import NOTHING


class Flag:
    """One flag: what it sets, and how its value is read (None: it takes none)."""

    def __init__(
        self, name: str, sets: str, summary: str, read: type[Any] | None = None, choices: tuple[str, ...] = ()
    ) -> None:
        self.name = name
        self.sets = sets
        self.summary = summary
        self.read = read
        self.choices = choices


FLAGS: Final = (
    Flag("--dir", "root", "The flow's root directory; default: the current one.", Path),
    Flag("--resume", "resume", "Go on with the run that is paused here."),
    Flag("--fresh", "fresh", "Give up the run that is paused here and start over."),
    Flag("--wait", "wait_seconds", "Wait SECONDS for the answer before pausing.", float),
    Flag("--max-retries", "max_retries", "Times a failed request is made again; default 2.", int),
    Flag("--heuristics-only", "heuristics_only", "Ask no agent: take every fallback at once."),
    Flag(
        "--on-missing-agent", "on_missing_agent", "What to do without the agent.", str, ("stop", "fallback")
    ),
    Flag("--force-version", "force_version", "Go on although the flow's version has changed."),
    Flag("--accept-foreign-owner", "accept_foreign_owner", "Take an answer written by another account."),
    Flag("--tolerant", "tolerant", "Forgive unknown keys and unserialised JSON in an answer."),
)
_BY_NAME: Final = {flag.name: flag for flag in FLAGS}


class CommandLine(NamedTuple):
    """A command line, split: the common flags that were given, and the flow's own words."""

    flags: Mapping[str, Any] = NOTHING
    words: tuple[str, ...] = ()

    @property
    def root(self) -> Path:
        """The directory that was named, else the one the command was given in."""
        return Path(self.flags.get("root") or self.flags.get("here") or Path.cwd())

    def request(self, **rest: Any) -> RunRequest:
        """The request these flags make; `rest` are the fields that do not come from flags."""
        flags = self.flags
        missing = flags.get("on_missing_agent")
        wait = flags.get("wait_seconds") or 0.0
        if not wait >= 0:  # also refuses "not a number"
            raise FlowMistake(f"--wait takes seconds, not {wait:g}")
        if (flags.get("max_retries") or 0) < 0:
            raise FlowMistake("--max-retries cannot be negative")
        return RunRequest(
            root=self.root,
            options=RunOptions(
                max_retries=flags.get("max_retries"),
                heuristics_only=flags.get("heuristics_only") or None,
                missing_agent_falls_back=None if missing is None else missing == "fallback",
            ),
            resume=bool(flags.get("resume")),
            fresh=bool(flags.get("fresh")),
            wait_seconds=wait,
            force_version=bool(flags.get("force_version")),
            accept_foreign_owner=bool(flags.get("accept_foreign_owner")),
            tolerant=bool(flags.get("tolerant")),
            **rest,
        )


def split_words(words: Sequence[str]) -> CommandLine:
    """Split a command line; everything after `--`, and every flag not in the table, belongs to the flow."""
    flags: dict[str, Any] = {}
    own: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return CommandLine(flags, (*own, *rest))
        name, equals, value = word.partition("=")
        flag = _BY_NAME.get(name)
        if flag is None:
            own.append(word)
        elif flag.read is None:
            flags[flag.sets] = True
        elif not equals and not rest:
            raise FlowMistake(f"{name} needs a value")
        else:
            flags[flag.sets] = _read(flag, value if equals else rest.pop(0))
    return CommandLine(flags, tuple(own))


def _read(flag: Flag, value: str) -> Any:
    if flag.choices and value not in flag.choices:
        raise FlowMistake(f"{flag.name} is {' or '.join(flag.choices)}, not {value!r}")
    assert flag.read is not None
    try:
        return flag.read(value)
    except ValueError:
        raise FlowMistake(f"{flag.name} is a number, not {value!r}") from None
