"""Runs our commands in processes of their own that need not import everything again: about two thirds of most commands.

A server per kind of command (`rig-bridge`, `bridgehead council`, ...) waits in an interpreter started as the script of
that command starts one. For each command it forks, and the child runs the entry point with its own arguments,
environment, directory and pipes: a process like any other, that ends by itself or by a signal. The first of a kind
finds an interpreter that has imported nothing of ours; what one imported, and no more, the next of its kind finds done.

Tests that are about starting a process, or that kill one, start it themselves.
"""

from __future__ import annotations

import atexit
import importlib
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

SCRIPTS = Path(sys.executable).parent
# What an interpreter reads before the first line of a program.
_READ_AT_START = ("LANG", "LC_ALL", "LC_CTYPE", "TZ")
_OURS = ("bridgehead", "bh", "rig-bridge")
# Flows look at which libraries are loaded; what is started by them, or by hand, is started as it always was.
_STARTED_AS_EVER = ("flow", "--version", "-V", "-v")

_servers: dict[tuple[str | None, ...], _Server] = {}
_starting = threading.Lock()


def run(
    program: str,
    arguments: Sequence[str],
    *,
    cwd: Path,
    env: dict[str, str],
    timeout: float,
    stdin: str = "",
    kind: str = "",
) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` of one of our scripts, with its output captured as text."""
    done = run_bytes(
        program,
        arguments,
        stdin=stdin.encode(),
        cwd=cwd,
        env=env,
        timeout=timeout,
        kind=kind,
    )
    out, err = (
        io.TextIOWrapper(io.BytesIO(stream), "utf-8").read()
        for stream in (done.stdout, done.stderr)
    )
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


def run_bytes(
    program: str,
    arguments: Sequence[str],
    *,
    cwd: Path,
    env: dict[str, str],
    timeout: float,
    stdin: bytes = b"",
    kind: str = "",
) -> subprocess.CompletedProcess[bytes]:
    argv = [str(SCRIPTS / program), *arguments]
    if not kind and program != "rig-bridge" and arguments:
        kind = arguments[0]
    if (
        program not in _OURS
        or kind in _STARTED_AS_EVER
        or any(name.startswith(("PYTHON", "LD_", "DYLD_")) for name in env)
    ):
        return subprocess.run(
            argv,
            input=stdin,
            cwd=cwd,
            env=env,
            capture_output=True,
            check=False,
            timeout=timeout,
        )
    key = (program, kind, *(env.get(name) for name in _READ_AT_START))
    with _starting:
        if key not in _servers:
            _servers[key] = _Server(env)
    return _servers[key].run(argv, stdin, cwd, env, timeout)


class _Server:
    """The side of the tests."""

    def __init__(self, env: dict[str, str]) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                cwd="/",
                env={
                    name: env[name] for name in ("PATH", *_READ_AT_START) if name in env
                },
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self._end)

    def _end(self) -> None:
        self._control.close()
        self._process.wait()

    def run(
        self,
        argv: list[str],
        stdin: bytes,
        cwd: Path,
        env: dict[str, str],
        timeout: float,
    ) -> subprocess.CompletedProcess[bytes]:
        request = json.dumps({"argv": argv, "cwd": str(cwd), "env": env}).encode()
        pipes = [os.pipe() for _ in range(3)]
        ours, theirs = (
            [pipes[0][1], pipes[1][0], pipes[2][0]],
            [pipes[0][0], pipes[1][1], pipes[2][1]],
        )
        connection, far = socket.socketpair()
        with connection:
            socket.send_fds(self._control, [b"f"], [far.fileno(), *theirs])
            far.close()
            for descriptor in theirs:
                os.close(descriptor)
            connection.sendall(len(request).to_bytes(4) + request)
            pid = int.from_bytes(_exactly(connection, 4))
            out, err = _Reader(ours[1]), _Reader(ours[2])
            threading.Thread(target=_feed, args=(ours[0], stdin), daemon=True).start()
            connection.settimeout(timeout)
            try:
                code = int.from_bytes(_exactly(connection, 4), signed=True)
                return subprocess.CompletedProcess(
                    argv, code, out.all(timeout), err.all(timeout)
                )
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(argv, timeout) from None


class _Reader(threading.Thread):
    def __init__(self, descriptor: int) -> None:
        super().__init__(daemon=True)
        self._descriptor = descriptor
        self._read = b""
        self.start()

    def run(self) -> None:
        with open(self._descriptor, "rb") as pipe:
            self._read = pipe.read()

    def all(self, timeout: float) -> bytes:
        """Until whoever holds the other end has closed it, which a child of the command may do after it."""
        self.join(timeout)
        if self.is_alive():
            raise TimeoutError
        return self._read


def _feed(descriptor: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except BrokenPipeError:  # it did not want to know
        pass
    finally:
        os.close(descriptor)


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        got = connection.recv(size - len(data))
        if not got:
            raise EOFError("the server of forked commands has gone")
        data += got
    return data


# -- the side of the server ------------------------------------------------------------------------------------------


def serve(control: socket.socket) -> None:
    """Fork for every request until the tests are gone."""
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, socket.socket] = {}
    lessons: dict[int, bytes] = {}  # each command says at its end what else it imported
    taught = b""
    while True:
        ready = select.select([control.fileno(), wake, *lessons], [], [])[0]
        if wake in ready:
            os.read(wake, 4096)
            _reap(running)
        for heard in set(lessons).intersection(ready):
            if more := os.read(heard, 65536):
                lessons[heard] += more
            else:
                taught += lessons.pop(heard)
                os.close(heard)
        if control.fileno() not in ready:
            continue
        said, descriptors, _, _ = socket.recv_fds(control, 1, 4)
        if not said:
            return
        connection = socket.socket(fileno=descriptors.pop(0))
        request = json.loads(
            _exactly(connection, int.from_bytes(_exactly(connection, 4)))
        )
        _learn(
            taught.decode().split()
        )  # not before: most kinds of commands are run once
        taught = b""
        lesson, teaching = os.pipe()
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for other in (control, connection, *running.values()):
                other.close()
            for descriptor in (wake, woken, lesson, *lessons):
                os.close(descriptor)
            _become(request, descriptors, teaching)
        for descriptor in (teaching, *descriptors):
            os.close(descriptor)
        lessons[lesson] = b""
        running[pid] = connection
        connection.sendall(pid.to_bytes(4))


def _reap(running: dict[int, socket.socket]) -> None:
    for pid in list(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            with running.pop(pid) as connection:
                try:
                    connection.sendall(
                        os.waitstatus_to_exitcode(status).to_bytes(4, signed=True)
                    )
                except BrokenPipeError:
                    continue  # given up there


def _learn(names: list[str]) -> None:
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:  # some are made while others are imported
            continue


def _teach(descriptor: int, known: frozenset[str]) -> None:
    """The names of what else was imported from the installation, in that order."""
    places = (
        sys.prefix,
        sys.base_prefix,
        str(Path(__file__).resolve().parents[2] / "src"),
    )
    names = [
        name
        for name, module in list(sys.modules.items())
        if name not in ("__main__", "__mp_main__")
        and str(getattr(module, "__file__", None) or sys.prefix).startswith(places)
    ]
    with open(descriptor, "w") as lesson:
        lesson.write("".join(f"{name}\n" for name in names))


def _become(request: dict[str, Any], descriptors: list[int], lesson: int) -> NoReturn:
    """Be the process that the script of this command would have been."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    coerced = {name: os.environ[name] for name in ("LC_CTYPE",) if name in os.environ}
    os.environ.clear()
    os.environ.update({**coerced, **request["env"]})
    os.chdir(request["cwd"])
    sys.stdin = open(0, encoding=sys.stdin.encoding, errors=sys.stdin.errors)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors)  # noqa: SIM115
    sys.stderr = open(  # noqa: SIM115
        2, "w", encoding=sys.stderr.encoding, errors=sys.stderr.errors, buffering=1
    )
    vars(sys).update(__stdin__=sys.stdin, __stdout__=sys.stdout, __stderr__=sys.stderr)
    sys.argv = request["argv"]
    sys.modules["__main__"].__file__ = sys.argv[0]
    atexit.register(_teach, lesson, frozenset(sys.modules))
    from bridgehead import cli

    (cli.rig_bridge if sys.argv[0].endswith("rig-bridge") else cli.main)()


if __name__ == "__main__":
    sys.path[0] = str(SCRIPTS)
    serve(socket.socket(fileno=int(sys.argv[1])))
