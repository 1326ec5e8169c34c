"""Property tests: the suite tries the same examples every time, `make fuzz` many others.

Ctrl-C means the same to every program the tests start, also where the suite itself was started to ignore it (`make
test &` in a script does that to its children).

What the suite compiles is kept, also where the environment says not to: it starts thousands of interpreters, and every
worker compiles all tests.

A test that fills the stack may have the garbage of others collected there, by chance: what their finalisers then say of
a full stack is nobody's failure.

Tests of one `xdist_group` share a server or a browser, so they must come to one worker. A pytest whose ids xdist cannot
mark would spread them without a word, each worker with a server of its own: then nothing is run.
"""

from __future__ import annotations

import os
import signal
import sys

import pytest
from hypothesis import settings

settings.register_profile("suite", derandomize=True, deadline=None)
settings.register_profile("fuzz", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

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
