"""What a pause and a resume may import. Time is measured in bench/; here it is the list that must not grow."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import bridgehead.flows
from flows.support.flow_processes import Shell, shell_in

# Each of these alone costs a large part of what a pause may take (design §8).
TOO_DEAR = {
    "anyio",
    "asyncio",
    "click",
    "dataclasses",
    "importlib.metadata",
    "inspect",
    "jsonschema_rs",
    "logging",
    "msgspec",
    "subprocess",
    "threading",
    "traceback",
    "uuid",
}
PROGRAM = """
import sys
from bridgehead.flows import flow, main

@flow("one")
def one(ctx):
    return ctx.ask("question", agent="reviewer", prompt="How many?")

if __name__ == "__main__":
    code = main(one)
    print(sorted(set(sys.modules) & set(%r)), file=sys.stderr)
    raise SystemExit(code)
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = shell_in(tmp_path)
    made.write("one.py", PROGRAM % sorted(TOO_DEAR))
    return made


def test_a_pause_and_a_resume_import_nothing_dear(shell: Shell) -> None:
    paused = shell.run(sys.executable, "one.py")
    assert (paused.code, paused.err) == (42, "[]\n")
    response = {
        "request_id": shell.request()["request_id"],
        "version": "1.0",
        "status": "success",
        "created_at": "2026-11-15T10:15:02Z",
        "response": "seven",
    }
    (shell.root / ".agent-response.json").write_text(json.dumps(response))
    done = shell.run(sys.executable, "one.py", "--resume")
    assert (done.code, done.out, done.err) == (0, "seven\n", "[]\n")


RECORDING_NEEDS = {"msgspec", "uuid"}
PROBE = """
import atexit, sys
atexit.register(lambda: print(sorted(set(sys.modules) & set(%r)), file=sys.stderr))
from bridgehead.cli import main
main()
"""


def test_the_command_imports_nothing_dear_besides_what_the_record_needs(
    shell: Shell,
) -> None:
    ours = {
        "bridgehead.contract.words",
        "bridgehead.flows.files.state_file",
        "bridgehead.flows.template_create",
        "bridgehead.flows.fleet",
    }
    others = {
        "platformdirs",
        "rich",
        "tomllib",
        "typing_extensions",
        "dbos",
        "sqlalchemy",
        "psycopg",
    }
    probe = PROBE % sorted((TOO_DEAR - RECORDING_NEEDS) | ours | others)
    words = (sys.executable, "-c", probe, "flow")
    paused = shell.run(*words, "run", "one.py:one")
    assert (paused.code, paused.err) == (42, "[]\n")
    shell.flow("respond", "--response", "seven")
    done = shell.run(*words, "resume")
    assert (done.code, done.out, done.err) == (0, "seven\n", "[]\n")


def test_the_public_names_are_those_that_are_listed() -> None:
    assert sorted(bridgehead.flows.__all__) == bridgehead.flows.__all__
    for name in bridgehead.flows.__all__:
        assert getattr(bridgehead.flows, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        _ = bridgehead.flows.Nonsense
