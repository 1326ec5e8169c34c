"""Run git: every call of the rigs part goes through `Git`.

What may run on our behalf (design §9): a clone's configuration is written by its user,
never by a remote, so programs that are named there and reached by the user's own wish
are kept: `core.sshCommand`, `core.gitProxy`, `credential.helper`, `gpg.program`,
`gpg.ssh.program`, `remote.*.uploadpack` and `receivepack`, `core.alternateRefsCommand`,
`include.path`. What pulled content, a remote or a left-over file can set off is never
run:

- hooks of every kind (only `commit-msg` is called, by us: envelope_commit.py) and
  `core.fsmonitor`;
- `filter.*`, `diff.*` and `merge.*` drivers, chosen by a `.gitattributes` that anybody
  may have pushed;
- `ext::` and every transport not listed below, also through `remote.*.vcs`;
- submodules, automatic maintenance, bundle downloads, pagers, editors, password
  prompts.

Names are passed after `--`, taken literally, and read back NUL-terminated.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import NamedTuple

from bridgehead.errors import FileError, ProcessError
from bridgehead.host.child import SignalsHeld, end_child
from bridgehead.rigs.repositories.errors import GitFailed, cause_of

NETWORK_TIMEOUT_SECONDS = 600.0
TRANSPORTS = ("file", "git", "http", "https", "ssh")

_SETTINGS = (
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.editor=:",
    "core.askPass=",
    "core.quotePath=false",
    "core.deltaBaseCacheLimit=16m",
    "protocol.ext.allow=never",
    "transfer.bundleURI=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "push.recurseSubmodules=no",
    "push.followTags=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "diff.external=",
    "log.showSignature=false",
    "log.showRoot=true",
    "merge.verifySignatures=false",
    "i18n.commitEncoding=UTF-8",
    "i18n.logOutputEncoding=UTF-8",
)
_PIPE_BYTES = 1 << 16
_NO_HOOKS = "core.hooksPath=/dev/null"
NOTHING = "BRIDGEHEAD_NOTHING"  # an empty variable, for settings that are to be empty
_VARIABLES = {
    NOTHING: "",
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS_REQUIRE": "never",
    "GIT_FLUSH": "0",  # else git hands over its lists line by line
    "GIT_PAGER": "cat",
    "GIT_EDITOR": ":",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
}
_DROPPED = (
    "GIT_EXTERNAL_DIFF",
    "GIT_ICASE_PATHSPECS",
    "GIT_GLOB_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
)
_STORAGE_FAULTS = (
    "No space left on device",
    "Permission denied",
    "Read-only file system",
    "Disk quota exceeded",
)


class GitAnswer(NamedTuple):
    """What one call gave."""

    code: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        return os.fsdecode(self.stdout)

    @property
    def fields(self) -> list[str]:
        """What stood between the NULs."""
        return self.text.split("\0")[:-1]


class Running:
    """A git process at work; another may be started meanwhile."""

    def __init__(
        self, process: subprocess.Popen[bytes], command: str, *, shielded: bool
    ) -> None:
        self._process = process
        self._command = command
        self._shielded = shielded

    def answer(
        self, stdin: bytes | None = None, timeout_seconds: float | None = None
    ) -> GitAnswer:
        """Feed it `stdin`, wait, and return what it gave."""
        try:
            stdout, stderr = self._process.communicate(stdin, timeout_seconds)
        except subprocess.TimeoutExpired as error:
            end_child(self._process)
            ended = (
                f"git {self._command} did not end within {error.timeout:g} s and was "
                "stopped"
            )
            raise ProcessError(ended) from error
        except BaseException:
            self.abandon()
            raise
        return GitAnswer(
            self._process.returncode, stdout, stderr.decode("utf-8", "replace")
        )

    def fields(self) -> Iterator[str]:
        """Yield what stands between the NULs as it comes.

        A failure raises at the end. A caller that stops early must abandon the process.
        """
        if self._process.stdout is None:
            raise RuntimeError("it was started without output")
        rest = b""
        while chunk := self._process.stdout.read(_PIPE_BYTES):
            *whole, rest = (rest + chunk).split(b"\0")
            yield from map(os.fsdecode, whole)
        require_success(self._command, self.answer())
        yield os.fsdecode(rest)

    def abandon(self) -> None:
        """End it because nobody will ask for its answer; a shielded process goes on."""
        if not self._shielded:
            with suppress(BrokenPipeError):  # what it was still to be asked
                end_child(self._process)


class Git:
    """Runs git in one directory.

    `extra_options` are those that only this repository makes necessary.
    """

    def __init__(
        self, directory: str, environment: Mapping[str, str] | None = None
    ) -> None:
        self.directory = directory
        self.environment = git_environment(
            os.environ if environment is None else environment
        )
        self.extra_options: tuple[str, ...] = ()
        # A lock that outlives us for as long as a shielded call runs.
        self.inherited_lock: int | None = None

    def start(
        self,
        *arguments: str,
        takes_input: bool = False,
        index: str | None = None,
        settings: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        shielded: bool = False,
        hooks_path_shown: bool = False,
    ) -> Running:
        """Start git, with signals held (host/child.py).

        `index` is used instead of the user's index. Ctrl-C does not reach a
        `shielded` process. `hooks_path_shown` is for asking where the user's
        hooks are.
        """
        always = _SETTINGS if hooks_path_shown else (_NO_HOOKS, *_SETTINGS)
        configured: list[str] = []
        for setting in (*always, *settings):
            configured += ("-c", setting)
        inherited: tuple[int, ...] = ()
        if shielded and self.inherited_lock is not None:
            inherited = (self.inherited_lock,)
        environment = {**self.environment, **(variables or {})}
        if index is not None:
            environment["GIT_INDEX_FILE"] = index
        try:
            process = subprocess.Popen(
                (
                    "git",
                    "--literal-pathspecs",
                    *configured,
                    *self.extra_options,
                    *arguments,
                ),
                cwd=self.directory,
                env=environment,
                stdin=subprocess.PIPE if takes_input else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                process_group=0 if shielded else None,
                pass_fds=inherited,
            )
        except (FileNotFoundError, PermissionError) as error:
            if error.filename == self.directory:
                raise
            advice = "install git 2.34 or newer and make sure it is on PATH"
            raise ProcessError("git was not found", hint=advice) from error
        return Running(process, arguments[0], shielded=shielded)

    def ask(
        self,
        *arguments: str,
        stdin: bytes | None = None,
        index: str | None = None,
        settings: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
        shielded: bool = False,
        hooks_path_shown: bool = False,
    ) -> GitAnswer:
        """Run git and return its answer, whatever its exit code.

        A `shielded` call changes something in several steps. We wait for it
        even if we are told to stop, because half a change is worse than a late
        exit, unless we are told twice.
        """
        running: Running | None = None
        with SignalsHeld(only_the_first=True) if shielded else nullcontext():
            try:
                with SignalsHeld():
                    running = self.start(
                        *arguments,
                        takes_input=stdin is not None,
                        index=index,
                        settings=settings,
                        variables=variables,
                        shielded=shielded,
                        hooks_path_shown=hooks_path_shown,
                    )
                return running.answer(stdin, timeout_seconds)
            except BaseException:
                if running is not None:
                    running.abandon()
                raise

    def ask_signer(
        self, *arguments: str, stdin: bytes, variables: Mapping[str, str]
    ) -> GitAnswer:
        """Run a command that may wait for a signer; both end if we are killed."""
        from bridgehead.host.guardian import GUARDIAN, MARK, mark_of

        run_id = os.urandom(16).hex()
        with GUARDIAN.watching(run_id):
            return self.ask(
                *arguments, stdin=stdin, variables={**variables, MARK: mark_of(run_id)}
            )

    def read(
        self, *arguments: str, stdin: bytes | None = None, index: str | None = None
    ) -> GitAnswer:
        """Run a command that changes nothing, or raise GitFailed."""
        return require_success(
            arguments[0], self.ask(*arguments, stdin=stdin, index=index)
        )

    def write(
        self, *arguments: str, stdin: bytes | None = None, index: str | None = None
    ) -> GitAnswer:
        """Run a local command that changes the repository, shielded.

        Raise GitFailed or FileError if it fails.
        """
        return require_success(
            arguments[0], self.ask(*arguments, stdin=stdin, index=index, shielded=True)
        )


def require_success(command: str, answer: GitAnswer) -> GitAnswer:
    """Return the answer of a local command that succeeded, or raise."""
    if answer.code == 0:
        return answer
    if any(fault in answer.stderr for fault in _STORAGE_FAULTS):
        raise FileError(
            f"git {command} could not write to the repository: "
            f"{cause_of(answer.stderr)}"
        )
    raise GitFailed(f"git {command} failed", answer.stderr)


def git_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without prompts, pagers and unlisted transports."""
    kept = {name: value for name, value in environment.items() if name not in _DROPPED}
    transports: Sequence[str] = TRANSPORTS
    allowed = environment.get("GIT_ALLOW_PROTOCOL")
    if allowed:
        transports = [name for name in allowed.split(":") if name != "ext"]
    return {**kept, **_VARIABLES, "GIT_ALLOW_PROTOCOL": ":".join(transports)}
