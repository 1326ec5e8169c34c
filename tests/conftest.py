"""Property tests: the suite tries the same examples every time, `make fuzz` many others.

Ctrl-C means the same to every program the tests start, also where the suite itself was started to ignore it (`make
test &` in a script does that to its children).

What the suite compiles is kept, also where the environment says not to: it starts thousands of interpreters, and every
worker compiles all tests.

A test that fills the stack may have the garbage of others collected there, by chance: what their finalisers then say of
a full stack is nobody's failure.

A test of `SLOW_FILES` starts many commands, one of `PEER_FILES` a program that is neither Python nor git: both run in
`make test-all`, and `make test` does without them.

Tests of one `xdist_group` share a server or a browser, so they must come to one worker. A pytest whose ids xdist cannot
mark would spread them without a word, each worker with a server of its own: then nothing is run.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("suite", derandomize=True, deadline=None)
settings.register_profile("fuzz", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

TESTS = Path(__file__).resolve().parent
SLOW_FILES = {
    "assembly/test_reviewed_results.py",
    "bus/test_commands.py",
    "cli/test_shared_options.py",
    "council/cli/test_challenge.py",
    "council/cli/test_committed_credentials.py",
    "council/cli/test_host_seat.py",
    "council/cli/test_remembered_refusals.py",
    "council/cli/test_resuming.py",
    "council/cli/test_rig_seat.py",
    "council/cli/test_static_council.py",
    "council/runtimes/test_acp.py",
    "docs/test_documents.py",
    "docs/test_extending.py",
    "end_to_end/test_demo.py",
    "end_to_end/test_nothing_survives_a_timeout.py",
    "faults/test_injection.py",
    "flows/template_create/test_crashes.py",
    "flows/template_create/test_end_to_end.py",
    "rigs/interop/test_killed_sends.py",
    "rigs/repositories/test_crashes.py",
    "security/test_01_python_in_foreign_trees.py",
    "security/test_11_seats_and_the_hub.py",
}
PEER_FILES = {
    "bus/gateway/test_voice.py",
    "cli/test_completion.py",
}

signal.signal(signal.SIGINT, signal.default_int_handler)

sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    report = sys.unraisablehook

    def report_unless_full(unraisable: sys.UnraisableHookArgs) -> None:
        if not issubclass(unraisable.exc_type, RecursionError):
            report(unraisable)

    sys.unraisablehook = report_unless_full


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not item.path.is_relative_to(TESTS):
            continue
        file = item.path.relative_to(TESTS).as_posix()
        wants_postgres = "postgres_server" in getattr(item, "fixturenames", ())
        wants_npm = any(
            "npm" in mark.kwargs.get("reason", "")
            for mark in item.iter_markers("skipif")
        )
        if file in PEER_FILES or wants_postgres or wants_npm:
            item.add_marker(pytest.mark.peer)
        if file in SLOW_FILES:
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish(session: pytest.Session) -> None:
    if getattr(session.config.option, "loadgroup", False):
        spread = [
            item
            for item in session.items
            if item.get_closest_marker("xdist_group") and "@" not in item.nodeid
        ]
        if spread:
            raise pytest.UsageError(
                f"pytest {pytest.__version__} and pytest-xdist do not group tests: {spread[0].nodeid}"
            )
