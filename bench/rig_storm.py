"""`python -m bench.rig_storm [SENDS]`: three clones, eight processes in each, kills, and a remote that goes away.

Every process sends its share (40 by default, 960 in all) into one thread and repeats what failed. Now and then one is
killed with SIGKILL in the middle, and the remote vanishes for moments. In the end each clone sends one more envelope,
which is all the repair there is. What was acknowledged must be on the remote, once, however often it was repeated.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from bench.rig_bridges import environ, ours

CLONES, PROCESSES, SENDS = 3, 8, 40
THREAD = "storm-01"
KILL_EVERY_S, AWAY_EVERY_S, AWAY_S = 0.7, 12.0, 3.0


class Storm:
    def __init__(self, home: Path, sends: int) -> None:
        self._home = home
        self._sends = sends
        self._hub = home / "hub.git"
        self._lock = threading.Lock()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._over = threading.Event()
        self.acknowledged: list[str] = []
        self.killed: set[str] = set()
        self.kills = self.refused = self.absences = 0
        self.clones = [home / f"clone-{number}" for number in range(CLONES)]

    def run(self) -> list[str]:
        """Return what is wrong in the end."""
        self._prepare()
        senders = [
            threading.Thread(
                target=self._send_share, args=(clone, f"{clone.name}-p{number}")
            )
            for clone in self.clones
            for number in range(PROCESSES)
        ]
        troubles = [
            threading.Thread(target=self._kill),
            threading.Thread(target=self._take_remote_away),
        ]
        for thread in (*senders, *troubles):
            thread.start()
        for thread in senders:
            thread.join()
        self._over.set()
        for thread in troubles:
            thread.join()
        return self._faults()

    def _prepare(self) -> None:
        self._git(self._home, "init", "-q", "--bare", "-b", "main", str(self._hub))
        for number, clone in enumerate(self.clones):
            self._git(self._home, "clone", "-q", str(self._hub), str(clone))
            self._git(clone, "config", "user.name", "Op One")
            self._git(clone, "config", "user.email", "op1@example.com")
            if shutil.which(
                "setsid"
            ):  # whoever kills a sender does not kill the server's half of its push
                self._git(
                    clone,
                    "config",
                    "remote.origin.receivepack",
                    "setsid --wait git-receive-pack",
                )
            if number == 0:
                self._git(clone, "commit", "-q", "--allow-empty", "-m", "root")
                self._git(clone, "push", "-q", "-u", "origin", "HEAD:main")
            self._ours(clone, "init", "--rig-id", f"rig-{number}")
            (clone / THREAD).mkdir()

    def _send_share(self, clone: Path, name: str) -> None:
        for number in range(self._sends):
            mark = f"{name}-{number}"
            while not self._send(clone, name, mark):
                time.sleep(0.2)

    def _send(self, clone: Path, name: str, mark: str) -> bool:
        command = [
            *ours(),
            "send",
            "STATE",
            "--thread",
            THREAD,
            "--to",
            "all-rigs",
            "--tldr",
            mark,
        ]
        with self._lock:
            process = self._running[name] = subprocess.Popen(
                command,
                cwd=clone,
                env=environ(self._home),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        said = process.communicate()[1].decode()
        with self._lock:
            self._running.pop(name, None)
            if process.returncode == 0:
                self.acknowledged.append(mark)
            elif process.returncode == -signal.SIGKILL:
                self.killed.add(mark)
            else:
                self.refused += 1
                if "push" not in said and "fetch" not in said:
                    sys.exit(f"{mark}: {said}")
        return process.returncode == 0

    def _kill(self) -> None:
        chance = random.Random(20261115)
        while not self._over.wait(KILL_EVERY_S * chance.random() * 2):
            with self._lock:
                name = chance.choice(sorted(self._running) or [""])
                if name and self._running[name].poll() is None:
                    os.killpg(self._running[name].pid, signal.SIGKILL)
                    self.kills += 1

    def _take_remote_away(self) -> None:
        while not self._over.wait(AWAY_EVERY_S):
            away = self._hub.with_name("away.git")
            self._hub.rename(away)
            self._over.wait(AWAY_S)
            away.rename(self._hub)
            self.absences += 1

    def _faults(self) -> list[str]:
        for clone in self.clones:
            self._ours(
                clone,
                "send",
                "STATE",
                "--thread",
                THREAD,
                "--to",
                "all-rigs",
                "--tldr",
                f"last of {clone.name}",
            )
        for clone in self.clones:
            self._ours(clone, "sync", "--auto")
        said = Counter(self._git(self._hub, "log", "--format=%s", "main").splitlines())
        lost = [
            f"lost: {mark}" for mark in self.acknowledged if not said[f"STATE: {mark}"]
        ]
        twice = [mark for mark in self.acknowledged if said[f"STATE: {mark}"] > 1]
        doubled = [
            f"doubled: {mark}{' (killed once)' if mark in self.killed else ''}"
            for mark in twice
        ]
        changed = self._git(
            self._hub, "log", "--diff-filter=MDR", "--name-only", "--format=", "main"
        ).split()
        dirty = [
            f"dirty: {c.name}"
            for c in self.clones
            if self._git(c, "status", "--porcelain").strip()
        ]
        self._ours(self.clones[0], "verify")
        return [*lost, *doubled, *(f"changed: {path}" for path in changed), *dirty]

    def _ours(self, clone: Path, *arguments: str) -> None:
        done = subprocess.run(
            [*ours(), *arguments],
            cwd=clone,
            env=environ(self._home),
            capture_output=True,
            check=False,
        )
        if done.returncode != 0:
            sys.exit(
                f"{clone.name}: rig-bridge {' '.join(arguments)}: {done.stderr.decode()}"
            )

    def _git(self, where: Path, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=where,
            env=environ(self._home),
            capture_output=True,
            check=True,
            text=True,
        )
        return done.stdout


def main() -> None:
    sends = int(sys.argv[1]) if len(sys.argv) > 1 else SENDS
    with tempfile.TemporaryDirectory(prefix="bridgehead-storm-") as home:
        storm = Storm(Path(home), sends)
        faults = storm.run()
    print(
        f"{len(storm.acknowledged)} envelopes of {CLONES} clones x {PROCESSES} processes acknowledged: "
        f"{storm.kills} kills, {storm.absences} absences of the remote, {storm.refused} refused pushes; "
        f"{len(faults)} faults"
    )
    sys.exit("\n".join(faults) if faults else 0)


if __name__ == "__main__":
    main()
