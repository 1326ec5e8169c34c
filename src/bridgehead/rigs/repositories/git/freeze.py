"""Notes that freeze a thread: refs of their own, invisible to tools that do not know them (rigs §10).

refs/bridge/frozen/<thread>         as the remote has it, refreshed by every fetch
refs/bridge/frozen-here/<thread>    kept when a remote would not take the note
"""

from __future__ import annotations

from contextlib import suppress

from bridgehead.rigs.repositories.errors import FetchFailed, PushFailed, SigningFailed
from bridgehead.rigs.repositories.git.clone import Clone
from bridgehead.rigs.repositories.git.command import NETWORK_TIMEOUT_SECONDS
from bridgehead.rigs.repositories.git.envelope_commit import ask_for_commit
from bridgehead.rigs.repositories.git.refs import local_ref, push_ref, remote_ref
from bridgehead.rigs.repositories.records import FreezeNote, Raced, Wire

_SHARED = "refs/bridge/frozen/"
_HERE = "refs/bridge/frozen-here/"
_MAX_NOTE_BYTES = 64 * 1024
_FETCH = [
    "fetch",
    "--quiet",
    "--no-tags",
    "--no-write-fetch-head",
    "--no-recurse-submodules",
    "--",
]
FETCHED_FREEZES = f"+{_SHARED}*:{_SHARED}*"


def read_freezes(clone: Clone) -> dict[str, FreezeNote]:
    """Return every note known here; a shared one outranks one of our own."""
    lines = clone.git.read(
        "for-each-ref",
        "--format=%(objecttype) %(objectsize) %(objectname) %(refname)",
        _HERE,
        _SHARED,
    ).text.splitlines()
    notes: dict[str, FreezeNote] = {}
    # A commit is a note that is signed: its message is the note, its tree is empty.
    for kind, size, blob, ref in (
        line.split(" ") for line in sorted(lines, key=lambda line: _HERE not in line)
    ):
        thread = ref.rpartition("/")[2]
        if kind in ("blob", "commit") and int(size) <= _MAX_NOTE_BYTES:
            text = clone.git.read("cat-file", kind, blob).stdout.decode(
                "utf-8", "replace"
            )
            said = text.partition("\n\n")[2] if kind == "commit" else text
            notes[thread] = FreezeNote(
                said, ref.startswith(_HERE), blob, signed=kind == "commit"
            )
    return notes


def ask_freeze(clone: Clone, wire: Wire, thread: str) -> FreezeNote | None:
    """Ask the remote about one thread, and remember its answer; unreachable, the last known state counts."""
    ref = _SHARED + thread
    with suppress(ConnectionError):
        target = remote_ref(clone, wire.remote, ref)
        if target is None:
            _delete(clone, ref)
        elif target != local_ref(clone, ref):
            clone.git.ask(
                *_FETCH,
                wire.remote,
                f"+{ref}:{ref}",
                timeout_seconds=NETWORK_TIMEOUT_SECONDS,
            )
    return read_freezes(clone).get(thread)


def freeze(
    clone: Clone,
    wire: Wire | None,
    thread: str,
    note: str,
    replaces: FreezeNote | None,
    *,
    sign: bool,
) -> FreezeNote | Raced:
    """Plant a note: only where there is none, or in place of exactly the one given."""
    write_blob = ("hash-object", "-t", "blob", "-w", "--no-filters", "--stdin")
    blob = (
        _signed(clone, note)
        if sign
        else clone.git.write(*write_blob, stdin=note.encode()).text.strip()
    )
    if wire is not None:
        shared = replaces is not None and not replaces.only_here
        lease = replaces.object_id if replaces and shared else ""
        report = push_ref(clone, wire.remote, blob, _SHARED + thread, lease=lease)
        if report.raced:
            return Raced(report.reason)
        if report.taken:
            clone.git.write("update-ref", _SHARED + thread, blob)
            _delete(clone, _HERE + thread)
            return FreezeNote(note, object_id=blob, signed=sign)
    clone.git.write("update-ref", _HERE + thread, blob)
    return FreezeNote(note, only_here=True, object_id=blob, signed=sign)


def _signed(clone: Clone, note: str) -> str:
    tree = clone.git.write("mktree", stdin=b"").text.strip()
    answer = ask_for_commit(clone, tree, None, note, {}, sign=True)
    if answer.code != 0:
        raise SigningFailed(answer.stderr)
    return answer.text.strip()


def thaw(clone: Clone, wire: Wire | None, thread: str) -> bool:
    """Remove the note, here and on the remote; False if there was none."""
    was_here = _delete(clone, _HERE + thread)
    ref = _SHARED + thread
    target = local_ref(clone, ref)
    if wire is not None:
        try:
            target = remote_ref(clone, wire.remote, ref)
        except ConnectionError as error:
            if target is not None:
                raise FetchFailed(wire.remote, str(error)) from error
        if target is not None:
            report = push_ref(clone, wire.remote, "", ref, lease=target)
            if not report.taken:
                raise PushFailed(wire.remote, ref, report.reason)
    return _delete(clone, ref) or was_here or target is not None


def _delete(clone: Clone, ref: str) -> bool:
    if local_ref(clone, ref) is None:
        return False
    clone.git.write("update-ref", "-d", ref)
    return True
