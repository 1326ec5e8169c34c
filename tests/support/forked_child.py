"""Work done in a forked child of the test, so that it can share, lose or limit what its parent has."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable

NOBODY = 65534
CHILD_SECONDS = 60


def in_child(work: Callable[[], object], *, as_nobody: bool = False) -> None:
    """Run `work` in a forked child and fail if it fails; as root optionally without root's privileges."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # newer Pythons warn that threads do not survive
        child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(CHILD_SECONDS)  # a child that hangs is ended, and fails the test
        try:
            if as_nobody and os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            work()
        except BaseException as error:
            print(f"in the child: {type(error).__name__}: {error}", file=sys.stderr)
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
