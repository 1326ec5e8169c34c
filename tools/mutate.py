"""`python -m tools.mutate`: break one line at a time and see whether a test notices.

`tests/mutants/list.tsv` is our list of lines that security and durability rest on. Each mutant is tried in a copy of
the tree, one copy for each worker; the checkout is never touched. What no test notices is listed in the end, unless
the list says why no test can. With `--general` the mutants are cosmic-ray's, of modules that only decide
(`tests/mutants/general.tsv`), and the score of each module is reported.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

REPOSITORY = Path(__file__).resolve().parent.parent
LIST = REPOSITORY / "tests" / "mutants" / "list.tsv"
GENERAL = REPOSITORY / "tests" / "mutants" / "general.tsv"
COSMIC_RAY = REPOSITORY / ".venv" / "cosmic-ray" / "bin" / "python"
COLUMNS = ("file", "text", "replacement", "broken", "tests", "survives")
LINE_END = "⏎"  # stands for a line end inside a column
TEST_SECONDS = 180
# Exit codes of pytest: everything else but 0 says that it could not test, a negative one that it did not end.
_TESTS_FAILED = 1
T = TypeVar("T")
U = TypeVar("U")


class Mutant(NamedTuple):
    """One line of the list: `text` stands once in `file` and is replaced."""

    file: str
    text: str
    replacement: str
    broken: str
    tests: tuple[str, ...]
    survives: str = ""  # why no test can notice it

    def __str__(self) -> str:
        return f"{self.file}: {self.broken}"


class Outcome(StrEnum):
    KILLED = "killed"
    SURVIVED = "SURVIVED"
    EXPLAINED = "survives, explained"
    STALE = "KILLED, though the list explains why not"
    FAILED = "COULD NOT BE TRIED"


class Tried(NamedTuple):
    mutant: Mutant
    outcome: Outcome
    seconds: float
    says: str = ""


def read_list(path: Path = LIST) -> list[Mutant]:
    """Return our own mutants."""
    mutants = []
    for number, columns in _rows(path):
        if not len(COLUMNS) - 1 <= len(columns) <= len(COLUMNS):
            raise ValueError(
                f"{path.name}:{number}: expected the columns {', '.join(COLUMNS)}"
            )
        file, text, replacement, broken, tests, *survives = columns
        text, replacement = (
            text.replace(LINE_END, "\n"),
            replacement.replace(LINE_END, "\n"),
        )
        mutants.append(
            Mutant(file, text, replacement, broken, tuple(tests.split()), *survives)
        )
    return mutants


def general_mutants(only: str) -> list[Mutant]:
    """Return what cosmic-ray makes of the modules that match."""
    mutants = []
    for _, (file, tests) in _rows(GENERAL):
        if re.search(only, file):
            source = REPOSITORY / "src" / "bridgehead" / file
            command = [
                str(COSMIC_RAY),
                str(REPOSITORY / "tools" / "general_mutants.py"),
                str(source),
            ]
            printed = subprocess.run(
                command, capture_output=True, text=True, check=True
            ).stdout
            text = source.read_text(encoding="utf-8")
            for made in map(json.loads, printed.splitlines()):
                name = f"line {made['line']}, {made['operator'].removeprefix('core/')}"
                mutants.append(
                    Mutant(file, text, made["source"], name, tuple(tests.split()))
                )
    return mutants


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(
        path.read_text(encoding="utf-8").splitlines(), start=1
    ):
        if line and not line.startswith("#"):
            yield number, line.split("\t")


def problem(mutant: Mutant) -> str | None:
    """Say why a mutant cannot be tried; None if it can."""
    source = _read(source_of(mutant, REPOSITORY))
    if source is None:
        return "the file is gone"
    if (found := source.count(mutant.text)) != 1:
        return f"its text stands {found} times in the file, not once"
    if mutant.text == mutant.replacement:
        return "it changes nothing"
    if not mutant.tests:
        return "it names no tests"
    return next(
        (f"there is no test {test}" for test in mutant.tests if not _exists(test)), None
    )


def source_of(mutant: Mutant, tree: Path) -> Path:
    return tree / "src" / "bridgehead" / mutant.file


@cache
def _exists(test: str) -> bool:
    file, _, name = test.partition("::")
    source = _read(REPOSITORY / "tests" / file)
    if source is None or not name:
        return source is not None
    return (
        re.search(
            rf"^ *(?:async )?def {re.escape(name.rpartition('::')[2])}\(",
            source,
            re.MULTILINE,
        )
        is not None
    )


@cache
def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


class Tree:
    """A copy of the working tree with an environment of its own, so that nothing in it imports the checkout."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.python = place / ".venv" / "bin" / "python"
        self._printed = place / "printed"
        self._server: subprocess.Popen[str] | None = None
        self._second = 1_000_000_000
        for name in _files_of_the_checkout():
            target = place / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, target, follow_symlinks=False)
        self._make_environment()

    def _make_environment(self) -> None:
        """Everything is borrowed from the environment we run in, but for the package itself."""
        own, ours = self.place / ".venv", Path(sys.prefix)
        venv.create(own, symlinks=True, with_pip=False)
        packages = (
            f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
        )
        (own / packages / "tree.pth").write_text(
            f"{self.place / 'src'}\n{ours / packages}\n"
        )
        for script in (ours / "bin").iterdir():
            target = own / "bin" / script.name
            if target.exists() or script.is_symlink():
                continue
            start = script.read_bytes()[:2]
            if start == b"#!" and script.stat().st_size < 10_000:
                target.write_text(
                    script.read_text().replace(f"#!{ours}", f"#!{own}", 1)
                )
                target.chmod(0o755)
            else:
                target.symlink_to(script)
        for entry in ours.iterdir():
            if not (own / entry.name).exists():
                (own / entry.name).symlink_to(entry)

    @contextmanager
    def changed(self, mutant: Mutant) -> Iterator[None]:
        path = source_of(mutant, self.place)
        source = path.read_text(encoding="utf-8")
        self._write(path, source.replace(mutant.text, mutant.replacement))
        try:
            yield
        finally:
            self._write(path, source)

    def _write(self, path: Path, source: str) -> None:
        """Write a file with a time of its own: a compiled file is believed by the second and size of its source."""
        path.write_text(source, encoding="utf-8")
        self._second += 1
        os.utime(path, (self._second, self._second))

    def test(self, tests: Iterable[str]) -> tuple[int, str]:
        """Run tests until one fails; return pytest's exit code and the end of what it printed."""
        if self._server is None:
            self._server = self._start_server()
        assert self._server.stdin and self._server.stdout
        # A thread ends the process even where no signal handler of Python runs, in the middle of uvloop.
        limit = ("--timeout", str(TEST_SECONDS), "--timeout-method", "thread")
        quiet = ("-x", "-q", "--no-header", "-p", "no:cacheprovider", *limit)
        self._server.stdin.write(
            json.dumps([*quiet, *(f"tests/{test}" for test in tests)]) + "\n"
        )
        self._server.stdin.flush()
        code = int(self._server.stdout.readline())
        printed = (
            self._printed.read_text(encoding="utf-8", errors="replace")
            if self._printed.exists()
            else ""
        )
        return _TESTS_FAILED if code < 0 else code, "\n".join(printed.splitlines()[-5:])

    def _start_server(self) -> subprocess.Popen[str]:
        variables = {
            name: value for name, value in os.environ.items() if name != "PYTHONPATH"
        }
        return subprocess.Popen(
            [str(self.python), "-m", "tools.test_server", str(self._printed)],
            cwd=self.place,
            env={**variables, "VIRTUAL_ENV": str(self.place / ".venv")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        if self._server is not None:
            self._server.communicate()  # it ends with its input


def _files_of_the_checkout() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [
        name for name in listed.split("\0") if name and (REPOSITORY / name).exists()
    ]


class Trees:
    """As many trees as there are workers; a job takes whichever is free."""

    def __init__(self, place: Path, workers: int) -> None:
        self._free: queue.SimpleQueue[Tree] = queue.SimpleQueue()
        self._trees = [Tree(place / str(number)) for number in range(workers)]
        for tree in self._trees:
            self._free.put(tree)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for tree in self._trees:
            tree.close()

    def each(self, jobs: Sequence[T], work: Callable[[Tree, T], U]) -> Iterator[U]:
        def run(job: T) -> U:
            tree = self._free.get()
            try:
                return work(tree, job)
            finally:
                self._free.put(tree)

        with ThreadPoolExecutor(len(self._trees)) as pool:
            futures = [pool.submit(run, job) for job in jobs]
            for future in as_completed(futures):
                yield future.result()


def attempt(tree: Tree, mutant: Mutant) -> Tried:
    began = time.monotonic()
    with tree.changed(mutant):
        code, says = tree.test(mutant.tests)
    seconds = time.monotonic() - began
    if code not in (0, _TESTS_FAILED):
        return Tried(
            mutant, Outcome.FAILED, seconds, f"pytest ended with {code}\n{says}"
        )
    if code == _TESTS_FAILED:
        return Tried(
            mutant, Outcome.STALE if mutant.survives else Outcome.KILLED, seconds
        )
    return Tried(
        mutant, Outcome.EXPLAINED if mutant.survives else Outcome.SURVIVED, seconds
    )


def check_tests(trees: Trees, mutants: Sequence[Mutant]) -> bool:
    """The tests must pass while nothing is broken, or every mutant would seem to be killed."""
    selectors = sorted({test for mutant in mutants for test in mutant.tests})
    print(f"{len(selectors)} groups of tests, unchanged", flush=True)
    sound = True
    began = time.monotonic()
    for selector, (code, says) in trees.each(
        selectors, lambda tree, one: (one, tree.test([one]))
    ):
        print(f"  {time.monotonic() - began:5.0f} s  {selector}", flush=True)
        if code != 0:
            sound = False
            print(f"FAILS without any mutant: {selector}\n{says}", flush=True)
    return sound


def try_all(trees: Trees, mutants: Sequence[Mutant]) -> list[Tried]:
    done: list[Tried] = []
    for tried in trees.each(mutants, attempt):
        done.append(tried)
        place = f"[{len(done):3}/{len(mutants)}]"
        print(
            f"{place} {tried.outcome:9} {tried.seconds:5.1f} s  {tried.mutant}",
            flush=True,
        )
    return done


def report(done: Sequence[Tried]) -> bool:
    """Print the table and the sum; tell whether nothing is left to explain."""
    bad = [
        tried
        for tried in done
        if tried.outcome not in (Outcome.KILLED, Outcome.EXPLAINED)
    ]
    explained = [tried for tried in done if tried.outcome is Outcome.EXPLAINED]
    for tried in (*explained, *bad):
        mutant = tried.mutant
        print(f"\n{tried.outcome}: {mutant}")
        before, after = mutant.text.splitlines(), mutant.replacement.splitlines()
        for line in list(difflib.unified_diff(before, after, n=0, lineterm=""))[3:]:
            print(f"  {line}")
        print(
            f"  {tried.says or mutant.survives or 'tests: ' + ' '.join(mutant.tests)}"
        )
    killed = sum(tried.outcome is Outcome.KILLED for tried in done)
    print(
        f"\n{len(done)} mutants: {killed} killed, {len(explained)} explained, {len(bad)} to be looked at"
    )
    return not bad


def print_scores(done: Sequence[Tried]) -> None:
    for file in dict.fromkeys(tried.mutant.file for tried in done):
        outcomes = [tried.outcome for tried in done if tried.mutant.file == file]
        killed = len(outcomes) - outcomes.count(
            Outcome.SURVIVED
        )  # one that cannot even be imported is noticed, too
        print(f"{killed / len(outcomes):6.1%}  {killed}/{len(outcomes)}  {file}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mutate", description=__doc__)
    parser.add_argument(
        "--only",
        metavar="PATTERN",
        default="",
        help="a regular expression on file and what is broken",
    )
    parser.add_argument(
        "--general", action="store_true", help="cosmic-ray's mutants instead of our own"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args(arguments)
    if given.general:
        mutants = general_mutants(given.only)
    else:
        mutants = [
            mutant for mutant in read_list() if re.search(given.only, str(mutant))
        ]
    rotten = [f"{mutant}: {why}" for mutant in mutants if (why := problem(mutant))]
    if rotten or not mutants:
        print("\n".join(rotten) or f"no mutant matches {given.only!r}")
        return 2
    with (
        tempfile.TemporaryDirectory(prefix="mutate-") as place,
        Trees(Path(place), min(given.workers, len(mutants))) as trees,
    ):
        if not check_tests(trees, mutants):
            return 2
        done = try_all(trees, mutants)
    sound = report(done)
    if given.general:
        print_scores(sorted(done, key=lambda tried: tried.mutant.file))
        return 0
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
