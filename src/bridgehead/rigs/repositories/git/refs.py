"""Pushing single refs and reading what the remote reported about them."""

from __future__ import annotations

from bridgehead.rigs.repositories.git.clone import Clone
from bridgehead.rigs.repositories.git.command import NETWORK_TIMEOUT_SECONDS, GitAnswer

# What a remote answers if another push came first, or at the same moment.
_RACES = (
    "fetch first",
    "non-fast-forward",
    "stale info",
    "cannot lock ref",
    "failed to update ref",
    "incorrect old value",
    "reference already exists",
)
_PUSH = [
    "push",
    "--porcelain",
    "--no-verify",
    "--no-follow-tags",
    "--recurse-submodules=no",
]
# Of what the server says about a refusal.
_MOST_LINES = 4
_MOST_CHARACTERS = 400
_TAKEN = (" ", "*", "=", "+", "-")


class PushReport:
    """The remote's own words about one ref: the only proof that it took it."""

    def __init__(self, answer: GitAnswer, ref: str) -> None:
        flag, self.summary = _reported(answer, ref)
        self.taken = answer.code == 0 and flag in _TAKEN
        self.raced = flag == "!" and any(race in self.summary for race in _RACES)
        self.reason = self._reason(answer.stderr)

    def _reason(self, stderr: str) -> str:
        if not self.summary:
            return stderr
        words = _words_of_server(stderr)
        return f"{self.summary}: {words}" if words else self.summary


def push_ref(
    clone: Clone, remote: str, source: str, ref: str, *, lease: str | None = None
) -> PushReport:
    """Set `ref` of the remote to `source`, or delete it if that is empty.

    With `lease` the ref is moved only if it is at that id now; an empty `lease` demands
    that there is no such ref. No hooks, tags or submodules take part.
    """
    options = list(_PUSH)
    if lease is not None:
        options.append(f"--force-with-lease={ref}:{lease}")
    answer = clone.git.ask(
        *options,
        "--",
        remote,
        f"{source}:{ref}",
        timeout_seconds=NETWORK_TIMEOUT_SECONDS,
    )
    return PushReport(answer, ref)


def remote_ref(clone: Clone, remote: str, ref: str) -> str | None:
    """Ask the remote what a ref points to; None if it has no such ref.

    Raise ConnectionError if the remote cannot be asked.
    """
    answer = clone.git.ask(
        "ls-remote",
        "--quiet",
        "--",
        remote,
        ref,
        timeout_seconds=NETWORK_TIMEOUT_SECONDS,
    )
    if answer.code != 0:
        raise ConnectionError(answer.stderr)
    for line in answer.text.splitlines():
        target, _, name = line.partition("\t")
        if name == ref:
            return target
    return None


def local_ref(clone: Clone, ref: str) -> str | None:
    """Return what a ref of this clone points to."""
    answer = clone.git.ask("rev-parse", "--verify", "--quiet", ref)
    return answer.text.strip() if answer.code == 0 else None


def _words_of_server(stderr: str) -> str:
    """Return the first lines that the server printed, as one."""
    lines = [
        line.removeprefix("remote:").strip()
        for line in stderr.splitlines()
        if line.startswith("remote:")
    ]
    shown = [line for line in lines if line][:_MOST_LINES]
    return " / ".join(shown)[:_MOST_CHARACTERS]


def _reported(answer: GitAnswer, ref: str) -> tuple[str, str]:
    for line in answer.text.split("\n"):
        flag, _, rest = line.partition("\t")
        refs, _, summary = rest.partition("\t")
        if len(flag) == 1 and refs.endswith(f":{ref}"):
            return flag, summary
    return "", ""
