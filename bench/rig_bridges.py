"""Bridge repositories of any size, made in seconds, and the two programs that work in them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.harness import PEERS, SCRIPTS
from bridgehead.rigs.operations.drafts import draft_send
from bridgehead.rigs.rig import Author

RECIPIENT = "windows-5080"
FIRST_MOMENT = 1_778_800_000
SEVERAL_LOOKS = 15.0  # seconds
SECOND_OF_GIT = 1.1  # its index compares whole ones


def ours() -> list[str]:
    return [str(SCRIPTS / "rig-bridge")]


def theirs() -> list[str]:
    """The reference's script itself, without npm's shim: nobody must profit from a slow launcher."""
    node, script = shutil.which("node"), PEERS / "rig-bridge"
    if node is None or not script.exists():
        raise SystemExit(
            "bench: node or the npm reference is missing; `make bench` installs it"
        )
    return [node, str(script.resolve())]


def environ(home: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "BRIDGEHEAD_HOME": str(home / "bridgehead"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C.UTF-8",
        "RIG_BRIDGE_NO_PAGER": "1",
    }


def make_bridge(
    home: Path,
    name: str,
    *,
    threads: int,
    envelopes: int,
    lately: int = 0,
    rig_id: str = "bench",
) -> Path:
    """A clone of a bridge with one commit per envelope, in step with its remote; both tools know who it is.

    The last `lately` of them make up a thread of that name. For `RECIPIENT` every other turn is a question to it, and
    the next one its answer.
    """
    remote, path = home / f"{name}.git", home / name
    _git(home, "init", "-q", "--bare", "-b", "main", str(remote))
    types = ("REQUEST", "RESPONSE") if rig_id == RECIPIENT else ("STATE",)
    stream = b"".join(_history(threads, envelopes, envelopes - lately, types))
    subprocess.run(
        ["git", "fast-import", "--quiet"],
        cwd=remote,
        env=environ(home),
        input=stream,
        check=True,
    )
    # Hard links: the packs need not be there twice.
    _git(home, "clone", "-q", str(remote), str(path))
    for key, value in (("user.name", "Op One"), ("user.email", "op1@example.com")):
        _git(path, "config", key, value, home=home)
    subprocess.run(
        [*ours(), "init", "--rig-id", rig_id],
        cwd=path,
        env=environ(home),
        check=True,
        capture_output=True,
    )
    _let_settle(path, home)
    return path


def forget(bridge: Path) -> None:
    """Leave nothing of what earlier commands kept."""
    shutil.rmtree(bridge / ".git" / "bridgehead", ignore_errors=True)


def peak_megabytes(argv: list[str], bridge: Path, environment: dict[str, str]) -> float:
    """The most memory one command held at once, in MB: its own or a child's, whichever was larger."""
    process = subprocess.Popen(
        argv,
        cwd=bridge,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    while process.stdout.read(1 << 20):
        pass
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{argv[0]} exited {process.returncode}")
    return usage.ru_maxrss / 1024


def idle_megabytes(argv: list[str], bridge: Path, environment: dict[str, str]) -> float:
    """What a command that goes on holds after it has looked at everything a few times, in MB."""
    with subprocess.Popen(
        argv,
        cwd=bridge,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(SEVERAL_LOOKS)
        status = Path(f"/proc/{process.pid}/status").read_text()
        process.terminate()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def _let_settle(path: Path, home: Path) -> None:
    """Files as old as the index that lists them are read again at every `git status`; bridges in use have none."""
    time.sleep(SECOND_OF_GIT)
    _git(path, "status", home=home)


def _git(where: Path, *arguments: str, home: Path | None = None) -> None:
    subprocess.run(
        ["git", *arguments],
        cwd=where,
        env=environ(home or where),
        check=True,
        capture_output=True,
    )


def _history(
    threads: int, envelopes: int, spread: int, types: Sequence[str]
) -> Iterator[bytes]:
    """A fast-import stream: threads take turns, several turns a day."""
    for number in range(envelopes):
        thread = f"thread-{number % threads:03d}" if number < spread else "lately"
        place = number // threads if number < spread else number - spread
        kind = types[place % len(types)]
        sender, recipient = (
            (RECIPIENT, "mac-m5max") if kind == "RESPONSE" else ("mac-m5max", RECIPIENT)
        )
        draft = draft_send(
            Author(sender),
            kind,
            thread,
            [recipient],
            "2026-05-15",
            tldr=f"step {number}",
            body=f"# {number}\n\ndone\n",
        )
        text = draft.text.encode()
        name = f"{thread}/{kind}-{place + 2}.md"
        yield (
            f"commit refs/heads/main\ncommitter Op One <op1@example.com> {FIRST_MOMENT + number} +0000\n"
            f"data 5\nstate\nM 100644 inline {name}\ndata {len(text)}\n".encode()
            + text
            + b"\n"
        )
