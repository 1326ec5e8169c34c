"""Runs tests for tools/mutate.py, each time in a fork of this process, which has imported the libraries already.

A line on standard input is a JSON list of arguments for pytest; a line on standard output is its exit code. What
pytest prints goes to the file named on the command line. The package under test is imported in the forks only.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys

LIBRARIES = (
    *(
        "pytest",
        "hypothesis.strategies",
        "msgspec",
        "anyio",
        "httpx",
        "yaml",
        "click",
        "rich.console",
        "tomlkit",
    ),
    *(
        "jsonschema_rs",
        "starlette.testclient",
        "uvicorn",
        "h11",
        "jinja2",
        "markdown_it",
        "cryptography.x509",
    ),
    *("picows", "psycopg", "asyncio", "concurrent.futures", "unittest.mock"),
)
LONGEST_SECONDS = 900
_COULD_NOT_TEST = 3  # what pytest says of an internal error


def main(output: str) -> None:
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(
            number, signal.SIG_DFL
        )  # `nohup` and `&` have children ignore them, and tests send them
    for name in LIBRARIES:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            run(json.loads(line), output)
        signal.signal(signal.SIGALRM, lambda *_: os.killpg(child, signal.SIGKILL))  # noqa: B023
        signal.alarm(LONGEST_SECONDS)
        _, status = os.waitpid(child, 0)
        signal.alarm(0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def run(arguments: list[str], output: str) -> None:
    """Become a process group of its own that runs pytest and ends."""
    os.setsid()
    handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, target in ((nothing, 0), (handle, 1), (handle, 2)):
        os.dup2(number, target)
    code = _COULD_NOT_TEST
    try:
        import pytest

        # Plugins are imported already, so their own assertions are not rewritten; ours are.
        code = int(
            pytest.main(["-W", "ignore::pytest.PytestAssertRewriteWarning", *arguments])
        )
        sys.stdout.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1])
