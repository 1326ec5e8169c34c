"""--quiet, --verbose and --no-color: every command takes them, wherever they stand."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import click
import pytest

from bridgehead.cli.tree import bridgehead
from bridgehead.cli.verbose import _AROUND
from support import forked
from support.installed import SCRIPTS

SHARED = ("--quiet", "--verbose", "--no-color")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    home = str(tmp_path / "home")
    return {
        "HOME": home,
        "BRIDGEHEAD_HOME": home,
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_GLOBAL": "/dev/null",
    }


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    subprocess.run(["git", "init", "-q", "-b", "main", made], check=True)
    (made / "a.py").write_text(
        "import pickle\n\n\ndef load(blob):\n    return pickle.loads(blob)\n"
    )
    return made


def run(
    project: Path, env: dict[str, str], *words: str
) -> subprocess.CompletedProcess[str]:
    return forked.run(
        "bridgehead", words, cwd=project, env=env, timeout=120, kind=words[-1]
    )


def every_command(group: click.Group, path: str) -> dict[str, click.Command]:
    context = click.Context(group)
    found: dict[str, click.Command] = {}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        below = (
            every_command(command, f"{path} {name}")
            if isinstance(command, click.Group)
            else {}
        )
        found |= below or {f"{path} {name}": command}
    return found


def test_every_command_offers_them() -> None:
    commands = every_command(bridgehead, "bridgehead")
    lacking = [
        path
        for path, command in commands.items()
        for flag in SHARED
        if not any(flag in one.opts for one in command.params)
    ]
    assert lacking == [] and len(commands) > 80


@pytest.mark.parametrize("flag", SHARED)
@pytest.mark.parametrize(
    "words",
    [
        ("pending",),
        ("doctor", "--json"),
        ("events",),
        ("rig", "--version"),
        ("config",),
        ("council", "list"),
    ],
    ids=" ".join,
)
def test_they_may_stand_anywhere(
    words: tuple[str, ...], flag: str, project: Path, env: dict[str, str]
) -> None:
    plain = run(project, env, *words)
    for given in ((flag, *words), (*words, flag)):
        told = run(project, env, *given)
        assert (told.returncode, len(told.stdout)) == (
            plain.returncode,
            len(plain.stdout),
        ), told.stderr


def test_quiet_leaves_out_notes_and_keeps_errors(
    project: Path, env: dict[str, str]
) -> None:
    noted = run(project, env, "rig", "init", "--rig-id", "den")
    assert "initialized rig den" in noted.stderr
    quiet = run(project, env, "rig", "init", "--rig-id", "den", "--force", "--quiet")
    assert (quiet.returncode, quiet.stderr) == (0, "")
    refused = run(project, env, "--quiet", "answer", "nothing", "yes")
    assert (refused.returncode, refused.stdout) == (
        1,
        "",
    ) and "no pending item 'nothing'" in refused.stderr


@pytest.mark.parametrize(("given", "noted"), [((), True), (("--quiet",), False)])
def test_quiet_leaves_out_what_comes_after_an_answer(
    given: tuple[str, ...], noted: bool, project: Path, env: dict[str, str]
) -> None:
    assert (
        run(
            project,
            env,
            "flow",
            "run",
            "ask",
            "--agent",
            "boss",
            "--prompt",
            "Ship it?",
        ).returncode
        == 42
    )

    answered = run(project, env, "answer", "q-1", "yes", *given)

    assert (answered.returncode, answered.stdout) == (
        0,
        "q-1 answered: ask: Ship it?\n",
    )
    assert ("bridgehead flow resume --dir" in answered.stderr) is noted and bool(
        answered.stderr
    ) is noted


def test_quiet_keeps_warnings(project: Path, env: dict[str, str]) -> None:
    (project / "bridgehead.toml").write_text("[councl]\nintensity = 'quick'\n")
    loud = run(project, env, "events")
    assert "warning: " in loud.stderr
    assert run(project, env, "events", "--quiet").stderr == loud.stderr


def test_verbose_shows_what_is_started_and_opened_and_what_a_council_does(
    project: Path, env: dict[str, str]
) -> None:
    told = run(
        project, env, "council", "review", "a.py", "--runtime", "static", "--verbose"
    ).stderr.splitlines()

    assert "bridgehead: starting git rev-parse --is-inside-work-tree" in told
    assert any(
        line.startswith("bridgehead: opening ") and "record.db" in line for line in told
    )
    assert "static: bridge complete, COMPLETED, CONCERNS" in told
    assert told[-1].startswith("bridgehead: ended after ")
    assert not any("Traceback" in line for line in told)


def test_verbose_shows_no_credentials(project: Path, env: dict[str, str]) -> None:
    starts = (
        "import subprocess; from bridgehead.cli.verbose import show_what_happens; show_what_happens('bridgehead');"
        "subprocess.run(['git', 'ls-remote', 'https://me:token-1@127.0.0.1:9/x.git'])"
    )
    told = subprocess.run(
        [sys.executable, "-c", starts],
        cwd=project,
        env=env,
        capture_output=True,
        text=True,
    ).stderr

    assert (
        "bridgehead: starting git ls-remote https://127.0.0.1:9/x.git" in told
        and "token-1" not in told
    )


@pytest.mark.parametrize(
    "around",
    [
        "/usr/bin/bwrap --unshare-user --bind /tmp /tmp --chdir /tmp --",
        "/x/python -I -S /x/host/confinement.py a b --",
    ],
)
def test_a_confined_program_is_named_without_its_confinement(around: str) -> None:
    assert (
        _AROUND.sub("", f"{around} /usr/bin/codex exec -- -")
        == "/usr/bin/codex exec -- -"
    )
    assert (
        _AROUND.sub("", "git -c gc.auto=0 -c core.pager=cat status -- x")
        == "git status -- x"
    )


def test_quiet_and_verbose_exclude_each_other(
    project: Path, env: dict[str, str]
) -> None:
    refused = run(project, env, "pending", "--quiet", "--verbose")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert (
        refused.stderr
        == "bridgehead: --quiet and --verbose exclude each other\n  hint: use one of them\n"
    )


def test_the_drop_in_does_not_know_them(project: Path, env: dict[str, str]) -> None:
    refused = forked.run(
        "rig-bridge", ["status", "--quiet"], cwd=project, env=env, timeout=60
    )
    assert (refused.returncode, refused.stderr) == (
        1,
        "rig-bridge: unknown flag --quiet\n",
    )


def test_what_follows_two_hyphens_is_the_flow_s(
    project: Path, env: dict[str, str]
) -> None:
    (project / "tell.py").write_text(
        "from bridgehead.flows import flow\n\n\n"
        "@flow(name='tell')\ndef tell(ctx, verbose: bool = False):\n    return f'{verbose=}'\n"
    )
    assert (
        run(project, env, "flow", "run", "tell.py", "--", "--verbose").stdout
        == "verbose=True\n"
    )
    assert (
        run(project, env, "flow", "run", "tell.py", "--verbose").stdout
        == "verbose=False\n"
    )


@pytest.mark.parametrize(("given", "coloured"), [((), True), (("--no-color",), False)])
def test_no_color_holds_on_a_terminal(
    given: tuple[str, ...], coloured: bool, project: Path, env: dict[str, str]
) -> None:
    main, side = pty.openpty()
    words = ["council", "review", "a.py", "--runtime", "static", *given]
    with subprocess.Popen(
        [SCRIPTS / "bridgehead", *words],
        cwd=project,
        env={**env, "TERM": "xterm"},
        stdout=side,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(side)
        shown = b""
        try:
            while part := os.read(main, 4096):
                shown += part
        except OSError:  # the terminal's other end is closed
            pass
        process.communicate()
    os.close(main)
    assert b"CONCERNS" in shown and (b"\x1b[" in shown) is coloured
