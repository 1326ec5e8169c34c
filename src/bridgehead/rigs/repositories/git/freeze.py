"""Store notes that freeze a thread in refs that other tools do not see (rigs §10).

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
_FORMAT = "%(objecttype) %(objectsize) %(objectname) %(refname)"
_KINDS = ("blob", "commit")
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
    listed = clone.git.read("for-each-ref", f"--format={_FORMAT}", _HERE, _SHARED)
    own: dict[str, FreezeNote] = {}
    shared: dict[str, FreezeNote] = {}
    for line in listed.text.splitlines():
        kind, size, object_id, ref = line.split(" ")
        if kind not in _KINDS or int(size) > _MAX_NOTE_BYTES:
            continue
        only_here = ref.startswith(_HERE)
        notes = own if only_here else shared
        thread = ref.rpartition("/")[2]
        notes[thread] = FreezeNote(
            _read_note(clone, kind, object_id),
            only_here=only_here,
            object_id=object_id,
            signed=kind == "commit",
        )
    return {**own, **shared}


def _read_note(clone: Clone, kind: str, object_id: str) -> str:
    """Return the text of a note; a commit is a signed note, which is its message."""
    content = clone.git.read("cat-file", kind, object_id).stdout
    text = content.decode("utf-8", "replace")
    if kind == "commit":
        return text.partition("\n\n")[2]
    return text


def ask_freeze(clone: Clone, wire: Wire, thread: str) -> FreezeNote | None:
    """Ask the remote about one thread, and remember its answer.

    If it cannot be reached, the last known state counts.
    """
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
    write = _signed if sign else _unsigned
    object_id = write(clone, note)
    if wire is not None:
        lease = ""
        if replaces is not None and not replaces.only_here:
            lease = replaces.object_id
        report = push_ref(clone, wire.remote, object_id, _SHARED + thread, lease=lease)
        if report.raced:
            return Raced(report.reason)
        if report.taken:
            clone.git.write("update-ref", _SHARED + thread, object_id)
            _delete(clone, _HERE + thread)
            return FreezeNote(note, object_id=object_id, signed=sign)
    clone.git.write("update-ref", _HERE + thread, object_id)
    return FreezeNote(note, only_here=True, object_id=object_id, signed=sign)


def _unsigned(clone: Clone, note: str) -> str:
    answer = clone.git.write(
        "hash-object",
        "-t",
        "blob",
        "-w",
        "--no-filters",
        "--stdin",
        stdin=note.encode(),
    )
    return answer.text.strip()


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
