"""What every analyser of the static seat can do: say what it looks at, how it is run, and what its messages mean.

Analysers run as programs of their own, with the module search path kept clean: the files they look at are their working
directory, and a module among them must not be taken for one of theirs.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

import yaml

from bridgehead.contract.looks import Unlooked
from bridgehead.contract.words import Severity
from bridgehead.host.command import (
    Command,
    CommandResult,
    Ended,
    child_environment,
    our_python,
)

FILES_PER_RUN: Final = 400
OUTPUT_BYTES: Final = 64 * 1024 * 1024
MOST_DIVISIONS: Final = 24
"""How often files are divided among two runs to find the one that breaks a run."""
RULES: Final = Path(__file__).parent / "rules"

ValueT = TypeVar("ValueT")
RunCommand = Callable[[Command], CommandResult]


@dataclass(frozen=True, slots=True)
class Message:
    """One thing an analyser said about one line."""

    path: str
    line: int
    rule: str
    text: str
    severity: Severity
    domain: str
    action: str | None = None
    quotable: bool = True
    """False: the line holds something that must not be repeated."""
    cwe: int | None = None


class Weight(NamedTuple):
    """What a rule of an analyser is worth."""

    severity: Severity
    cwe: int | None
    domain: str

    def message(
        self, path: str, line: int, rule: str, text: str, action: str | None = None
    ) -> Message:
        """What the rule says about a line."""
        return Message(
            str(path),
            line,
            rule,
            str(text),
            self.severity,
            self.domain,
            action,
            cwe=self.cwe,
        )


class UnreadableAnswer(ValueError):
    """An analyser printed something other than what it promises."""

    reason = Unlooked.DIED


class TooSlow(UnreadableAnswer):
    """An analyser was stopped before its end."""

    reason = Unlooked.TIMED_OUT


class NotParsed(UnreadableAnswer):
    """An analyser could not make sense of a file."""

    reason = Unlooked.UNREADABLE


class NotAble(UnreadableAnswer):
    """An analyser does not know the rules it is to apply."""

    reason = Unlooked.NOT_ABLE


@dataclass(frozen=True, slots=True)
class Said:
    """What an analyser said about some files, and about which it said nothing."""

    messages: list[Message] = field(default_factory=list)
    missed: dict[str, UnreadableAnswer] = field(default_factory=dict)
    """By the name of the file."""


class Analyser(ABC):
    """One tool: the module `module` of this Python, or the program `name` at a path it is given."""

    name: ClassVar[str]
    module: ClassVar[str | None] = None
    domains: ClassVar[tuple[str, ...]]
    suffixes: ClassVar[tuple[str, ...]] = ()
    good_codes: ClassVar[tuple[int, ...]] = (0,)
    finds_defects: ClassVar[bool] = True
    """False: its silence about a file says nothing about whether the file is sound."""
    in_process: ClassVar[bool] = False
    """True: it needs no program, and is shown each file as it is."""

    def __init__(self, program: str | None = None) -> None:
        self._program = program
        self._launch = (
            [program] if program else our_python("-m", self.module or self.name)
        )

    def judges(self, path: str) -> bool:
        """Return whether its silence about such a file says that the file is sound."""
        return self.finds_defects

    def wants(self, path: str) -> bool:
        """Whether it has something to say about files of this name."""
        return path.endswith(self.suffixes)

    def arguments(self) -> Sequence[str]:
        """What it is told, before the names of the files."""
        return []

    def read(self, printed: str) -> list[Message]:
        """The messages that matter; raises UnreadableAnswer."""
        try:
            return list(self.messages(json.loads(printed)))
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            IndexError,
            RecursionError,
        ) as error:
            raise UnreadableAnswer(f"{self.name} did not print valid JSON") from error

    def messages(self, printed: Any) -> Iterator[Message]:
        """The same of an analyser that prints JSON."""
        raise UnreadableAnswer(f"{self.name} prints no JSON")

    def unparsed(self, printed: str) -> Iterable[str]:
        """Return the files of which it printed that it could not read them."""
        return ()

    def objection(
        self, result: CommandResult, asked: Sequence[str]
    ) -> UnreadableAnswer | None:
        """Return why an answer in the right form is not one about every file and rule."""
        return None

    def digest(self) -> str | None:
        """Return what an answer depends on besides the file.

        That is the program, what it is told, and how it is read; None if nobody knows
        which program it is.
        """
        version = "in process" if self.in_process else self._version()
        if version is None:
            return None
        return hashlib.sha256(
            f"{self.name} {version} {reading_digest()}".encode()
        ).hexdigest()

    def _version(self) -> str | None:
        with suppress(OSError, metadata.PackageNotFoundError):
            if self._program:
                return f"{self._program} {_state_of(Path(self._program))}"
            if self.module:
                return (
                    f"{metadata.version(self.module)} {_state_of(_home(self.module))}"
                )
        return None

    def command(
        self, names: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> Command:
        """Return the run that looks at these files in `folder`."""
        wanted = [f"./{path}" for path in names]
        return Command(
            [*self._launch, *self.arguments(), *wanted],
            env=child_environment({"PYTHONDONTWRITEBYTECODE": "1"}, base=environment),
            cwd=folder,
            stdout_cap=OUTPUT_BYTES,
        )

    def read_result(self, result: CommandResult, asked: Sequence[str] = ()) -> Said:
        """Return what a run said; raises UnreadableAnswer."""
        if result.ended is Ended.TIMEOUT:
            raise TooSlow(f"{self.name} took too long")
        if result.ended is not Ended.EXITED:
            raise UnreadableAnswer(f"{self.name} was stopped: {result.ended}")
        if result.stdout_truncated:
            raise UnreadableAnswer(f"{self.name} printed too much")
        objection = self.objection(result, asked)
        if objection is not None:
            raise objection
        if result.exit_code not in self.good_codes:
            raise UnreadableAnswer(f"{self.name} ended with code {result.exit_code}")
        printed = result.text()
        messages = self.read(printed)
        why = NotParsed(f"{self.name} could not parse the file")
        return Said(messages, dict.fromkeys(self.unparsed(printed), why))

    def answer(
        self,
        texts: Mapping[str, str],
        folder: Path,
        environment: Mapping[str, str],
        run: RunCommand,
    ) -> Said:
        """Return what it says about `texts`, which lie in `folder`.

        Where a run over several files breaks, they are divided until the file is found
        that breaks it.
        """
        messages: list[Message] = []
        missed: dict[str, UnreadableAnswer] = {}
        names = sorted(texts)
        batches = deque(
            names[start : start + FILES_PER_RUN]
            for start in range(0, len(names), FILES_PER_RUN)
        )
        divisions = 0
        while batches:
            batch = batches.popleft()
            try:
                said = self.read_result(
                    run(self.command(batch, folder, environment)), batch
                )
            except (TooSlow, NotAble) as error:
                unasked = [name for other in batches for name in other]
                missed.update(dict.fromkeys([*batch, *unasked], error))
                break
            except UnreadableAnswer as error:
                if len(batch) == 1 or divisions == MOST_DIVISIONS:
                    missed.update(dict.fromkeys(batch, error))
                    continue
                divisions += 1
                middle = len(batch) // 2
                batches.extendleft([batch[middle:], batch[:middle]])
                continue
            messages += [
                replace(message, path=_name_in(folder, message.path))
                for message in said.messages
            ]
            for path, why in said.missed.items():
                missed[_name_in(folder, path)] = why
        return Said(messages, missed)


def _name_in(folder: Path, printed: str) -> str:
    """Return the name of a file as it was asked about."""
    path = Path(printed)
    named = path.relative_to(folder) if path.is_relative_to(folder) else path
    return named.as_posix()


def _home(module: str) -> Path:
    found = find_spec(module)
    if found is None or found.origin is None:
        raise FileNotFoundError(module)
    return Path(found.origin)


def _state_of(path: Path) -> str:
    found = path.stat()
    return f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


@cache
def reading_digest() -> str:
    """Of everything in this folder: rules, tables, and the code that reads answers."""
    hashed = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*")):
        if path.suffix in {".py", ".yml", ".json"}:
            hashed.update(path.name.encode() + b"\0" + path.read_bytes())
    return hashed.hexdigest()


@cache
def weights(tool: str) -> Mapping[str, Weight]:
    """The rules of an analyser that matter, from `rules/weights.yml`."""
    table = yaml.load(
        (RULES / "weights.yml").read_bytes(),
        getattr(yaml, "CSafeLoader", yaml.SafeLoader),
    )
    return {
        str(rule): Weight(Severity(row[0]), row[1], row[2])
        for rule, row in table[tool].items()
    }


def by_longest_prefix(
    rule: str, table: Mapping[str, ValueT], default: ValueT
) -> ValueT:
    """The entry whose name is the longest beginning of `rule`."""
    matching = [prefix for prefix in table if rule.startswith(prefix)]
    return table[max(matching, key=len)] if matching else default
