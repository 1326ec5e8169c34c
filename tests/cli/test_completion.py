"""What a shell offers: real shells ask for it as they do when a person presses Tab; fish and zsh where installed."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bridgehead.assembly.application import Assembly
from bridgehead.contract.pending import Question
from bridgehead.contract.record_words import Part, PendingKind, RunState
from bridgehead.control_plane.records import Run
from support.installed import SCRIPTS, Machine

BASH = """\
eval "$(bridgehead completion bash)"
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_bridgehead_completion bridgehead "${COMP_WORDS[$COMP_CWORD]}" ""
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """One of everything there is to offer."""
    folder = tmp_path_factory.mktemp("completion")
    made = Machine(folder / "home", folder / "project")
    made.home.mkdir()
    (made.project / ".bridge").mkdir(parents=True)
    for name in ("build-03", "cuda-build", ".git", "Not-a-thread", "source"):
        (made.project / name).mkdir()
        (
            made.project / name / ("main.py" if name == "source" else "REQUEST.md")
        ).touch()
    question = Question(
        key="k",
        kind=PendingKind.BUS_APPROVAL,
        part=Part.BUS,
        origin="bus",
        title="t",
        choices=("yes", "no"),
    )
    with Assembly(made.project, made.environ()).store() as store:
        store.open_pending(question)
        for part, run_id in (
            (Part.COUNCIL, "20261116-c0de"),
            (Part.FLOWS, "flow-1f2e"),
        ):
            at = "2026-11-16T08:00:00.000Z"
            store.save_run(
                Run(
                    id=run_id,
                    part=part,
                    kind="x",
                    title="x",
                    state=RunState.RUNNING,
                    started_at=at,
                    updated_at=at,
                )
            )
    assert made.run("bus", "participant", "add", "kitchen").code == 0
    return made


def with_us(machine: Machine) -> dict[str, str]:
    environ = machine.environ()
    return {**environ, "PATH": f"{SCRIPTS}:{environ['PATH']}"}


CASES = [
    (["bridgehead", "answer", ""], "q-1"),
    (["bh", "pending", "q"], "q-1"),
    (["bridgehead", "council", "show", "2026"], "20261116-c0de"),
    (["bridgehead", "council", "stop", ""], "20261116-c0de"),
    (["bridgehead", "flow", "resume", ""], "flow-1f2e"),
    (["bridgehead", "flow", "retry", "fl"], "flow-1f2e"),
    (["bridgehead", "council", "review", "--runtime", "co"], "codex"),
    (["bridgehead", "council", "review", "--domain", "secur"], "security"),
    (["bridgehead", "domains", "secur"], "security"),
    (["bridgehead", "bus", "policy", "show", ""], "kitchen"),
    (["bridgehead", "bus", "policy", "set", "kitchen", "gr"], "grants"),
    (["bridgehead", "rig", "thread", ""], "build-03\ncuda-build"),
    (["bridgehead", "rig", "send", "REQUEST", "--thread", "cu"], "cuda-build"),
    (["bridgehead", "events", "--run", "flow"], "flow-1f2e"),
]


def completed(machine: Machine, words: list[str]) -> str:
    asked = ["bash", "--norc", "-c", BASH, "bash", *words]
    done = subprocess.run(
        asked,
        cwd=machine.project,
        env=with_us(machine),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert done.stderr == ""
    return done.stdout.strip()


def test_bash_offers_the_values_there_are(machine: Machine) -> None:
    assert [completed(machine, words) for words, _ in CASES] == [
        offered for _, offered in CASES
    ]


def test_where_nothing_is_known_nothing_is_offered_and_nothing_is_made(
    tmp_path: Path,
) -> None:
    bare = Machine(tmp_path / "home", tmp_path / "project")
    bare.home.mkdir()
    bare.project.mkdir()
    (bare.project / "bridgehead.toml").write_text("not = [toml")

    assert completed(bare, ["bridgehead", "answer", ""]) == ""
    assert completed(bare, ["bridgehead", "bus", "policy", "show", ""]) == ""
    assert not bare.record.exists()


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_offers_the_same(machine: Machine) -> None:
    asked = (
        "eval (bridgehead completion fish | string collect)\n"
        "for line in $argv; complete --do-complete $line; echo end of $line; end"
    )
    lines = [" ".join(words) for words, _ in CASES]
    done = subprocess.run(
        ["fish", "--no-config", "--command", asked, *lines],
        cwd=machine.project,
        env=with_us(machine),
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )

    assert done.stderr == ""
    assert done.stdout == "".join(
        f"{offered}\nend of {' '.join(words)}\n" for words, offered in CASES
    )


ZSH = """\
PS1= TERM=dumb LISTMAX=0
autoload -Uz compinit && compinit -u -D
eval "$(bridgehead completion zsh)"
at-prompt() { print -r -- "[prompt]" }
typed() { print -r -- "[line $BUFFER]"; BUFFER= }
zle -N zle-line-init at-prompt
zle -N typed
bindkey '^X' typed
"""


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_offers_the_same(machine: Machine, tmp_path: Path) -> None:
    """Keys are typed into a terminal: Tab completes what is unambiguous, and lists the rest."""
    (tmp_path / "setup").write_text(ZSH)
    ours, theirs = pty.openpty()
    ends = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    shell = subprocess.Popen(
        ["zsh", "-f", "-i"],
        cwd=machine.project,
        env=with_us(machine),
        start_new_session=True,
        **ends,
    )
    os.close(theirs)

    def typed(keys: str, mark: str) -> str:
        os.write(ours, keys.encode())
        shown = b""
        while mark.encode() not in shown:
            assert select.select([ours], [], [], 300)[0], shown
            shown += os.read(ours, 65536)
        return shown.decode()

    try:
        typed(f"source {tmp_path}/setup\n", "[prompt]")
        for words, offered in CASES:
            shown = typed(f"{' '.join(words)}\t\x18", "]\r\n")
            assert all(one in shown for one in offered.split()), shown
            if "\n" not in offered:
                assert f"[line {' '.join([*words[:-1], offered])}" in shown
    finally:
        os.close(ours)
        shell.kill()
        shell.wait()


@pytest.mark.parametrize(
    "line", ["council review so", "flow run so", "council review --patch so"]
)
def test_paths_are_left_to_the_shell(machine: Machine, line: str) -> None:
    words = ["bridgehead", *line.split()]
    asked = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    assert machine.run(_BRIDGEHEAD_COMPLETE="bash_complete", **asked).out == "file,so\n"


@pytest.mark.parametrize(
    "words", [words for words, _ in CASES], ids=lambda words: " ".join(words[1:])
)
def test_a_completion_starts_no_program_and_opens_no_connection(
    machine: Machine, words: list[str]
) -> None:
    watched = (
        "import sys\n"
        "def hook(event, arguments):\n"
        "    if event in ('subprocess.Popen', 'os.posix_spawn', 'os.fork', 'os.exec', 'socket.connect'):\n"
        "        print('STARTED', event, arguments, file=sys.stderr)\n"
        "sys.addaudithook(hook)\n"
        "sys.argv[0] = 'bridgehead'\n"
        "from bridgehead.cli import main\n"
        "main()\n"
    )
    environ = machine.environ(
        _BRIDGEHEAD_COMPLETE="bash_complete",
        COMP_WORDS=" ".join(words),
        COMP_CWORD=str(len(words) - 1),
    )
    done = subprocess.run(
        [sys.executable, "-c", watched],
        cwd=machine.project,
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "STARTED" not in done.stderr, done.stderr
    assert done.stdout.startswith("plain,")
