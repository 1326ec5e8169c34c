"""What every analyser of the static seat can do: say what it looks at, how it is run, and what its messages mean.

Analysers run as programs of their own, with the module search path kept clean: the files they look at are their working
directory, and a module among them must not be taken for one of theirs.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
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


class Analyser(ABC):
    """One tool: the module `module` of this Python, or the program `name` at a path it is given."""

    name: ClassVar[str]
    module: ClassVar[str | None] = None
    domains: ClassVar[tuple[str, ...]]
    suffixes: ClassVar[tuple[str, ...]] = ()
    good_codes: ClassVar[tuple[int, ...]] = (0,)
    finds_defects: ClassVar[bool] = True
    """False: its silence about a file says nothing about whether the file is sound."""

    def __init__(self, program: str | None = None) -> None:
        self._program = program
        self._launch = (
            [program] if program else our_python("-m", self.module or self.name)
        )

    def wants(self, path: str) -> bool:
        """Whether it has something to say about files of this name."""
        return path.endswith(self.suffixes)

    @abstractmethod
    def arguments(self) -> Sequence[str]:
        """What it is told, before the names of the files."""

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

    def digest(self) -> str:
        """What an answer depends on besides the file: the program, what it is told, and how it is read."""
        version = ""
        with suppress(OSError, metadata.PackageNotFoundError):
            if self._program:
                found = Path(self._program).stat()
                version = f"{self._program} {found.st_size} {found.st_mtime_ns}"
            elif self.module:
                version = metadata.version(self.module)
        return hashlib.sha256(
            f"{self.name} {version} {reading_digest()}".encode()
        ).hexdigest()

    def commands(
        self, paths: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> list[Command]:
        """The runs that cover `paths` of the tree in `folder`; an argument list has its limits."""
        wanted = [f"./{path}" for path in paths if self.wants(path)]
        batches = [
            wanted[start : start + FILES_PER_RUN]
            for start in range(0, len(wanted), FILES_PER_RUN)
        ]
        return [
            Command(
                [*self._launch, *self.arguments(), *batch],
                env=child_environment(
                    {"PYTHONDONTWRITEBYTECODE": "1"}, base=environment
                ),
                cwd=folder,
                stdout_cap=OUTPUT_BYTES,
            )
            for batch in batches
        ]

    def read_result(self, result: CommandResult) -> list[Message]:
        if result.ended is Ended.TIMEOUT:
            raise TooSlow(f"{self.name} took too long")
        if result.stdout_truncated:
            raise UnreadableAnswer(f"{self.name} printed too much")
        if result.exit_code not in self.good_codes:
            raise UnreadableAnswer(f"{self.name} ended with code {result.exit_code}")
        return self.read(result.text())

    def answer(
        self,
        texts: Mapping[str, str],
        folder: Path,
        environment: Mapping[str, str],
        run: RunCommand,
    ) -> list[Message]:
        """What it says about `texts`, which lie in `folder`."""
        commands = self.commands(sorted(texts), folder, environment)
        return [
            message
            for command in commands
            for message in self.read_result(run(command))
        ]


@cache
def reading_digest() -> str:
    """Of everything in this folder: rules, tables, and the code that reads answers."""
    hashed = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*")):
        if path.suffix in {".json", ".py", ".yml"}:
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
