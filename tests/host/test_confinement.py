"""A confined program reads and writes what it was given and nothing else; nothing is started unconfined."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bridgehead.host import confinement, process
from bridgehead.host.command import Command, CommandResult, isolated_python
from bridgehead.host.confinement import (
    BUBBLEWRAP,
    LANDLOCK,
    SEATBELT,
    Confinement,
    installation,
    visible,
)

PYTHON = isolated_python("-S")
needs_landlock = pytest.mark.skipif(
    not confinement.landlock_version(),
    reason="this kernel has no Landlock, so nothing can be tried with it",
)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A private copy beside a home with a key in it."""
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    (tmp_path / "home" / ".ssh" / "id_rsa").write_text("the key")
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "a.py").write_text("the copy")
    (tmp_path / "scratch").mkdir()
    return tmp_path / "copy"


def run(argv: list[str], copy: Path) -> CommandResult:
    scratch = str(copy.parent / "scratch")
    confined = Confinement(
        LANDLOCK,
        read=(str(copy),),
        hidden=(str(copy.parent / "home"),),
        home=scratch,
        temporary=scratch,
    )
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(copy.parent / "home")}
    command = Command(argv, env=environment, cwd=copy, confined=confined)
    return process.run(command, timeout_seconds=None, idle_seconds=None)


@needs_landlock
def test_a_confined_program_reads_the_copy_and_no_home(copy: Path) -> None:
    key = copy.parent / "home" / ".ssh" / "id_rsa"
    (copy / "link").symlink_to(key)

    assert run(["/bin/cat", "a.py"], copy).text() == "the copy"
    for path in (
        key,
        copy / "link",
        Path(f"/proc/{os.getpid()}/root{key}"),
        Path("/etc/shadow"),
    ):
        refused = run(["/bin/cat", str(path)], copy)
        assert (refused.exit_code, refused.text()) == (1, ""), path


@needs_landlock
def test_children_are_confined_too_and_other_processes_keep_their_environment(
    copy: Path,
) -> None:
    key = copy.parent / "home" / ".ssh" / "id_rsa"
    script = f"cat {key}; tr '\\0' '\\n' < /proc/{os.getpid()}/environ; kill -0 {os.getpid()} && echo signalled"

    ended = run(["/bin/sh", "-c", f"sh -c {script!r}; {script}"], copy)

    assert "the key" not in ended.text()
    assert "PATH=" not in ended.text()
    if confinement.landlock_version() >= 6:
        assert "signalled" not in ended.text()


@needs_landlock
def test_a_confined_program_writes_in_its_own_folders_only(copy: Path) -> None:
    script = f'echo kept > "$HOME/kept"; echo kept > "$TMPDIR/too"; echo no > {copy}/new; echo no > {copy}/a.py'

    run(["/bin/sh", "-c", script], copy)

    assert (copy.parent / "scratch" / "kept").read_text() == "kept\n"
    assert (copy.parent / "scratch" / "too").read_text() == "kept\n"
    assert {path.name: path.read_text() for path in copy.iterdir()} == {
        "a.py": "the copy"
    }


def test_what_cannot_be_confined_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(confinement, "landlock_version", lambda: 0)

    ended = confinement.main(
        ["-r", "/usr", "--", "/bin/touch", str(tmp_path / "started")]
    )

    assert ended == confinement.NOT_CONFINED
    assert not (tmp_path / "started").exists()
    assert (
        "/bin/touch was not started, because it could not be confined"
        in capsys.readouterr().err
    )


def test_the_launcher_imports_next_to_nothing() -> None:
    code = "import sys; exec(open(sys.argv[1]).read(), {'__name__': 'launcher'}); print(*sys.modules)"
    words = [sys.executable, "-I", "-S", "-c", code, confinement.__file__]

    loaded = subprocess.run(
        words, capture_output=True, text=True, check=True
    ).stdout.split()

    assert not {
        "typing",
        "json",
        "subprocess",
        "pathlib",
        "dataclasses",
        "re",
        "bridgehead",
    } & set(loaded)


def test_a_system_folder_around_a_home_is_given_without_it(tmp_path: Path) -> None:
    for name in ("opt/me/.ssh", "opt/tool", "opt/zlib", "usr"):
        (tmp_path / name).mkdir(parents=True)
    folders = (str(tmp_path / "opt"), str(tmp_path / "usr"))

    assert visible(folders, (str(tmp_path / "opt" / "me"),)) == [
        str(tmp_path / "opt" / "tool"),
        str(tmp_path / "opt" / "zlib"),
        str(tmp_path / "usr"),
    ]
    assert visible(folders, (str(tmp_path / "opt"),)) == [str(tmp_path / "usr")]


def test_the_installation_of_a_script_is_its_packages_and_its_interpreter(
    tmp_path: Path,
) -> None:
    script = (
        tmp_path / "npm" / "node_modules" / "@openai" / "codex" / "bin" / "codex.js"
    )
    node = tmp_path / "nvm" / "bin" / "node"
    for program, text in ((script, "#!/usr/bin/env node\n"), (node, "\x7fELF")):
        program.parent.mkdir(parents=True)
        program.write_text(text)
        program.chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "codex").symlink_to(script)

    found = installation(str(tmp_path / "bin" / "codex"), f"/nowhere:{node.parent}")

    assert found == (
        str(tmp_path / "npm" / "node_modules"),
        str(tmp_path / "npm" / "node_modules" / "@openai" / "codex" / "lib"),
        str(node),
        str(tmp_path / "nvm" / "lib"),
    )


def test_bubblewrap_gets_a_process_table_of_its_own_and_folders_before_what_is_in_them() -> (
    None
):
    confined = Confinement(
        BUBBLEWRAP,
        read=("/data/copy", "/data"),
        write=("/data/copy/out",),
        home="/s/home",
        helper="/x/bwrap",
    )

    argv = confined.wrap(["/bin/true", "-x"], "/data/copy", PYTHON)

    assert argv[:6] == [
        "/x/bwrap",
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--die-with-parent",
        "--proc",
    ]
    bound = [argv[at + 1] for at, word in enumerate(argv) if word.endswith("bind-try")]
    assert bound == sorted(bound)
    ours = ["/data", "/data/copy", "/data/copy/out", "/s/home"]
    assert [path for path in bound if path in ours] == ours
    assert argv[argv.index("/data/copy") - 1] == "--ro-bind-try"
    assert argv[argv.index("/data/copy/out") - 1] == "--bind-try"
    assert argv[-5:] == [
        "--chdir",
        "/data/copy",
        "--",
        os.path.realpath("/bin/true"),
        "-x",
    ]


def test_the_profile_for_macos_denies_the_home_and_all_writing_and_then_allows_what_is_given() -> (
    None
):
    confined = Confinement(
        SEATBELT,
        read=("/copy",),
        write=('/Users/me/.claude "x"',),
        hidden=("/Users/me", "/src"),
    )

    assert confined.seatbelt_profile().splitlines() == [
        "(version 1)",
        "(allow default)",
        '(deny file-read-data (subpath "/Users/me") (subpath "/src") (subpath "/Volumes"))',
        "(deny file-write*)",
        '(allow file-read-data (subpath "/copy") (subpath "/Users/me/.claude \\"x\\""))',
        '(allow file-write* (subpath "/Users/me/.claude \\"x\\"") (subpath "/dev"))',
    ]
    assert confined.wrap(["/bin/ls"], "/copy", PYTHON)[:2] == [
        "/usr/bin/sandbox-exec",
        "-p",
    ]
