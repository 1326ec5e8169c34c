"""`make demo`: a first look at the product, in a home of its own, with every command shown before it runs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bridgehead.exit_codes import ExitCode


def main() -> int:
    """Run the story; end with the exit code of the first command that fails."""
    program = str(Path(sys.executable).parent / "bridgehead")
    with tempfile.TemporaryDirectory(prefix="bridgehead-demo-") as home:
        environ = {**os.environ, "BRIDGEHEAD_HOME": home}
        for title, arguments, allowed in STORY:
            _say(f"\n# {title}\n$ bridgehead {' '.join(arguments)}\n")
            done = subprocess.run([program, *arguments], env=environ, stdin=subprocess.DEVNULL, check=False)
            if done.returncode not in allowed:
                _say(f"\nthe demo stopped: exit code {done.returncode}\n")
                return done.returncode
    _say("\nNext: bridgehead --help, docs/tutorial.md\n")
    return ExitCode.DONE


# A machine without git or Node still sees the whole story, so doctor may find something broken.
STORY = (
    ("What this machine offers", ("doctor",), {ExitCode.DONE, ExitCode.USER}),
    ("What happened so far", ("events",), {ExitCode.DONE}),
    ("What waits for someone", ("pending",), {ExitCode.DONE}),
)


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
