"""Runs the executable scenarios of rigs/cli.json: fixtures, steps, one command, assertions over what it left behind.

The tool under test is given as a command line, so the same runner checks ours and the npm reference.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from support import forked
from support.git_copies import copy_clones

CROCKFORD = "[0-9A-HJKMNP-TV-Z]"
PATTERNS = {
    "<timestamp>": r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z",
    "<sha7>": "[0-9a-f]{7}",
    "<sha40>": "[0-9a-f]{40}",
    "<nonce10>": f"{CROCKFORD}{{10}}",
    "<nonce>": f"{CROCKFORD}{{10}}-{CROCKFORD}{{10}}",
    "<body-hash>": "[0-9a-f]{64}",
    "<any>": r"[^\n]*",
    "<package>": r"[^\n]*",
}


@dataclass
class Before:
    """What a clone looked like before the command."""

    head: str
    porcelain: list[str]
    known: set[str]


@dataclass
class Scenario:
    """One case in its own folder."""

    document: Mapping[str, Any]
    case: Mapping[str, Any]
    base: Path
    tool: Sequence[str]
    templates: Path
    """Where fixtures lie ready for this tool; whoever needs one first makes it."""
    started: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def clone(self) -> Path:
        return self.base / Path(self.case["in"]).parts[0]

    def environ(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.base / "home"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CEILING_DIRECTORIES": str(self.base),
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
        }

    def play(self) -> tuple[subprocess.CompletedProcess[bytes], Before]:
        """Prepare the folder, then run the command of the case."""
        self._furnish(self.case["fixture"])
        for step in self.case["setup"]:
            self._carry_out(step)
        before = self._look()
        environ = {
            **self.environ(),
            **{k: self._filled(v) for k, v in self.case.get("env", {}).items()},
        }
        command = [
            *self.tool,
            *(self._filled(argument) for argument in self.case["argv"]),
        ]
        folder = self.base / self.case["in"]
        return self._run(
            command, folder, environ, self.case.get("stdin", "").encode()
        ), before

    def _run(
        self,
        command: Sequence[str],
        folder: Path,
        environ: dict[str, str],
        stdin: bytes = b"",
    ) -> subprocess.CompletedProcess[bytes]:
        program, *arguments = command
        if program == str(forked.SCRIPTS / "rig-bridge"):
            return forked.run_bytes(
                "rig-bridge",
                arguments,
                stdin=stdin,
                cwd=folder,
                env=environ,
                timeout=120,
            )
        return subprocess.run(
            command,
            cwd=folder,
            env=environ,
            input=stdin,
            capture_output=True,
            timeout=120,
            check=False,
        )

    def _furnish(self, fixture: str) -> None:
        """Copy a fixture into the base."""
        template = self.templates / fixture
        if not template.exists():
            self._make_template(fixture, template)
        copy_clones(template, self.base)

    def _make_template(self, fixture: str, template: Path) -> None:
        recipe = self.document["fixtures"][fixture]
        maker = replace(self, base=template)
        template.mkdir(parents=True)
        if "extends" in recipe:
            maker._furnish(recipe["extends"])
        for step in recipe["steps"]:
            maker._carry_out(step)

    def _carry_out(self, step: Mapping[str, Any]) -> None:
        folder = self.base / step.get("in", ".")
        if "git" in step:
            self._program(["git", *step["git"]], folder)
        elif "rig" in step:
            self._program([*self.tool, *step["rig"]], folder)
        elif "run" in step:
            self._program(step["run"], folder)
        elif "write" in step:
            path = self._path(step["write"])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self._filled(step["content"]).encode())
        elif "append" in step:
            with self._path(step["append"]).open("ab") as file:
                file.write(self._filled(step["content"]).encode())
        elif "mkdir" in step:
            self._path(step["mkdir"]).mkdir(parents=True, exist_ok=True)
        elif "touch" in step:
            moment = datetime.fromisoformat(step["mtime"].replace("Z", "+00:00"))
            stamp = (
                moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            ).timestamp()
            os.utime(self._path(step["touch"]), (stamp, stamp))
        elif "chmod" in step:
            self._path(step["chmod"]).chmod(int(str(step["mode"]), 8))
        elif "symlink" in step:
            self._path(step["symlink"]).symlink_to(self._filled(step["target"]))
        else:
            raise AssertionError(f"unknown step {step}")

    def _program(self, argv: Sequence[str], folder: Path) -> None:
        filled = [self._filled(argument) for argument in argv]
        done = self._run(filled, folder, self.environ())
        assert done.returncode == 0, (
            f"step {filled} exited {done.returncode}: {done.stderr.decode(errors='replace')}"
        )

    def _path(self, relative: str) -> Path:
        return self.base / self._filled(relative)

    def _filled(self, text: str) -> str:
        text = re.sub(r"<root:(\w+)>", lambda match: str(self.base / match[1]), text)
        for name, value in (
            ("<base>", str(self.base)),
            ("<remote>", str(self.base / "remote.git")),
            ("<signing-key>", str(self.base / "key.pub")),
        ):
            text = text.replace(name, value)
        return text

    # What a clone looks like

    def git(self, *arguments: str, folder: Path | None = None) -> str | None:
        done = subprocess.run(
            ["git", *arguments],
            cwd=folder or self.clone,
            env=self.environ(),
            capture_output=True,
            check=False,
        )
        return done.stdout.decode(errors="replace") if done.returncode == 0 else None

    def _look(self) -> Before:
        remote = (
            self.git("rev-parse", "main", folder=self.base / "remote.git")
            if self._has_remote
            else None
        )
        known = set((self.git("rev-list", "HEAD") or "").split())
        if remote:
            known |= set(
                (
                    self.git(
                        "rev-list", remote.strip(), folder=self.base / "remote.git"
                    )
                    or ""
                ).split()
            )
        return Before(
            (self.git("rev-parse", "HEAD") or "").strip(), self.porcelain(), known
        )

    @property
    def _has_remote(self) -> bool:
        return (self.base / "remote.git").is_dir()

    def porcelain(self) -> list[str]:
        return (self.git("status", "--porcelain") or "").splitlines()

    # Assertions

    def pattern(self, text: str) -> str:
        """A regular expression for `text`, its placeholders filled in."""
        filled = self._filled(text)
        days = {
            (self.started + timedelta(days=shift)).strftime("%Y-%m-%d")
            for shift in (-1, 0, 1)
        }
        head = (
            (self.git("rev-parse", "HEAD") or "").strip() if "<head" in filled else ""
        )
        table = {
            **PATTERNS,
            "<today>": "(?:" + "|".join(sorted(days)) + ")",
            "<head7>": head[:7] or "(?!)",
            "<head40>": head or "(?!)",
            "<fingerprint>": re.escape(self._fingerprint())
            if "<fingerprint>" in filled
            else "(?!)",
        }
        pieces = re.split(
            "(" + "|".join(map(re.escape, sorted(table, key=len, reverse=True))) + ")",
            filled,
        )
        return "".join(table.get(piece, re.escape(piece)) for piece in pieces)

    def _fingerprint(self) -> str:
        key = self.base / "key.pub"
        if not key.exists():
            return "SHA256:none"
        done = subprocess.run(
            ["ssh-keygen", "-lf", str(key)], capture_output=True, text=True, check=True
        )
        return done.stdout.split()[1]

    def fits(self, expected: str, actual: str) -> bool:
        return re.fullmatch(self.pattern(expected), actual, flags=re.DOTALL) is not None

    def contains(self, expected: str, actual: str) -> bool:
        return re.search(self.pattern(expected), actual, flags=re.DOTALL) is not None

    def holds(self, expected: Any, actual: Any) -> bool:
        """Whether a JSON value contains what is expected."""
        if isinstance(expected, dict):
            return isinstance(actual, dict) and all(
                key in actual and self.holds(value, actual[key])
                for key, value in expected.items()
            )
        if isinstance(expected, list):
            return (
                isinstance(actual, list)
                and len(actual) == len(expected)
                and all(
                    self.holds(one, other)
                    for one, other in zip(expected, actual, strict=True)
                )
            )
        if isinstance(expected, str):
            return isinstance(actual, str) and self.fits(expected, actual)
        return type(expected) is type(actual) and expected == actual


def check(scenario: Scenario, expect: Mapping[str, Any], *, ours: bool = True) -> None:
    """Play a scenario and assert every key of `expect`."""
    done, before = scenario.play()
    out, err = (
        done.stdout.decode(errors="replace"),
        done.stderr.decode(errors="replace"),
    )
    shown = f"exit {done.returncode}\n--- stdout\n{out}\n--- stderr\n{err}"
    assert done.returncode == expect["exit"], shown
    if expect["exit"] != 0 and ours:
        _check_failure(scenario, expect, out, err, before, shown)
    _check_streams(scenario, expect, out, err, shown)
    for path, content in expect.get("files", {}).items():
        _check_file(scenario, path, content)
    if "commit" in expect:
        _check_commit(scenario, expect["commit"] or {"new_commits": 0}, before, shown)
    if "porcelain" in expect:
        assert scenario.porcelain() == expect["porcelain"], shown
    if "head" in expect:
        head = (scenario.git("rev-parse", "HEAD") or "").strip()
        assert (head == before.head) == (expect["head"] == "unchanged"), shown


def _check_failure(
    scenario: Scenario,
    expect: Mapping[str, Any],
    out: str,
    err: str,
    before: Before,
    shown: str,
) -> None:
    assert "stdout" in expect or out == "", shown
    assert err.startswith("rig-bridge: "), shown
    assert not any(line.startswith("Traceback") for line in err.splitlines()), shown
    if "commit" not in expect:
        assert (scenario.git("rev-parse", "HEAD") or "").strip() == before.head, shown
    if "porcelain" not in expect and "commit" not in expect:
        assert scenario.porcelain() == before.porcelain, shown


def _check_streams(
    scenario: Scenario, expect: Mapping[str, Any], out: str, err: str, shown: str
) -> None:
    if "stdout" in expect:
        assert scenario.fits(expect["stdout"], out), (
            f"{shown}\n--- expected\n{expect['stdout']}"
        )
    if "stdout_regex" in expect:
        assert re.search(expect["stdout_regex"], out), shown
    if "json" in expect:
        assert out.count("\n") == 1 and out.endswith("\n"), shown
        document = json.loads(out)
        assert scenario.holds(expect["json"], document), (
            f"{shown}\n--- expected\n{json.dumps(expect['json'], indent=1)}"
        )
        assert not set(expect.get("json_absent", ())) & set(document), shown
    for text in expect.get("stderr_contains", ()):
        assert scenario.contains(text, err), f"{shown}\n--- expected on stderr\n{text}"
    for text in expect.get("stderr_absent", ()):
        assert not scenario.contains(text, err), shown
    if "stderr_regex" in expect:
        assert re.search(expect["stderr_regex"], err), shown


def _check_file(scenario: Scenario, path: str, content: Any) -> None:
    pattern = re.compile(scenario.pattern(path))
    folder = scenario.base / Path(path).parent
    names = (
        [
            entry
            for entry in folder.iterdir()
            if pattern.fullmatch(f"{Path(path).parent}/{entry.name}")
        ]
        if folder.is_dir()
        else []
    )
    if content is None:
        assert names == [], f"{path} exists"
        return
    assert len(names) == 1, f"{path}: {names}"
    text = names[0].read_bytes().decode(errors="replace")
    if isinstance(content, str):
        assert scenario.fits(content, text), f"{path}\n{text}\n--- expected\n{content}"
        return
    if "starts_with" in content:
        assert re.match(scenario.pattern(content["starts_with"]), text), (
            f"{path}\n{text}"
        )
    wanted = content.get("contains", [])
    for piece in [wanted] if isinstance(wanted, str) else wanted:
        assert scenario.contains(piece, text), f"{path}\n{text}"
    if "mode" in content:
        assert names[0].stat().st_mode & 0o777 == int(str(content["mode"]), 8), path


def _check_commit(
    scenario: Scenario, expected: Mapping[str, Any], before: Before, shown: str
) -> None:
    now = (scenario.git("rev-list", "HEAD") or "").split()
    assert len(
        [commit for commit in now if commit not in before.known]
    ) == expected.get("new_commits", 0), shown
    facts = {
        "subject": "%s",
        "body": "%b",
        "author": "%an <%ae>",
        "committer": "%cn <%ce>",
    }
    for key, form in facts.items():
        if key in expected:
            actual = (scenario.git("log", "-1", f"--format={form}") or "").rstrip("\n")
            assert scenario.fits(expected[key], actual), f"{key}: {actual!r}\n{shown}"
    if "files" in expected:
        listed = (
            (scenario.git("show", "--format=", "--name-only", "-z", "HEAD") or "")
            .strip("\0")
            .split("\0")
        )
        files = [name for name in listed if name]
        assert scenario.holds(expected["files"], files), f"{files}\n{shown}"
    if "signed" in expected:
        raw = scenario.git("cat-file", "commit", "HEAD") or ""
        assert ("\ngpgsig" in raw.split("\n\n", 1)[0]) == expected["signed"], shown
    if "pushed" in expected:
        branch = (scenario.git("branch", "--show-current") or "").strip()
        remote = scenario.git(
            "rev-parse", f"refs/heads/{branch}", folder=scenario.base / "remote.git"
        )
        assert (remote == scenario.git("rev-parse", "HEAD")) == expected["pushed"], (
            shown
        )
