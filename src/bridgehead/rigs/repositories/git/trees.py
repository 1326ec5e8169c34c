"""What the trees of a long thread differ in, without reading all of them (gitformat-pack).

What a commit added is guessed from its subject and the numbers in the names. A guess is proved by the id of the tree
that it leads to, or sooner by the pack, which keeps most trees as what they differ in from another one.
"""

from __future__ import annotations

import os
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from mmap import ACCESS_READ, mmap
from pathlib import Path
from struct import unpack_from

from bridgehead.rigs.repositories.git.clone import Clone
from bridgehead.rigs.repositories.git.commit_line import CommitLine
from bridgehead.rigs.repositories.records import DELETED_MODE, PathChange

_MOST_MISSES = (
    200  # after as many wrong guesses, reading all of history is the shorter way
)
_MOST_HELD = 16  # contents, of up to half a megabyte each
_DIRECTORY = b"40000"

_VERSION_2 = b"\377tOc\0\0\0\2"
_COUNTS = 8  # where an index says how many names begin with a byte or with a lower one
_NAMES = _COUNTS + 4 * 256
_FAR = 0x80000000  # objects beyond 2 GB have their offsets in another table
_OFFSET_DELTA = 6
_MORE = 0x80  # bytes of a number follow
_LONGEST_DELTA = 4096  # packed; with one entry more it takes some fifty bytes
_LONGEST_COPY = 0x10000

_Entries = dict[bytes, tuple[bytes, bytes]]  # mode and id, by name
_Place = tuple[int, int]  # which pack, and where in it
_NOWHERE: _Place = (-1, -1)
_Delta = tuple[int, bytes]  # of which tree, and what makes the other of it


def likely_changes(
    clone: Clone, packs: Packs, content: bytes, line: CommitLine
) -> set[int]:
    """Return the places in a line of commits where a thread whose tree now has this `content` was probably changed.

    A tree that it may have had lies in a pack beside those of the commits that had it. Being there proves nothing.
    """
    at = [packs.place(clone.tree_id(content))]
    kinds = _by_kind(entries := _parse(content, len(clone.null_id) // 2))
    while at[-1]:
        at.append(None)
        for names in filter(None, kinds.values()):
            mode, blob = entries[names[-1]]
            before = content.replace(b"%b %b\0%b" % (mode, names[-1], blob), b"", 1)
            if place := packs.place(clone.tree_id(before)):
                at[-1], content = place, before
                names.pop()
                break
    places, after = line.in_table, 1
    # Git writes trees as they come, but packs those of new commits first, and a tree with the last commit that has it.
    if places and (packs.place(line.tree(0)) or _NOWHERE) > (
        packs.place(line.tree(places[-1])) or _NOWHERE
    ):
        places, after = places[::-1], 2
    found = set[int]()
    for place in filter(None, at):
        nearest = bisect_left(
            places, place, key=lambda index: packs.place(line.tree(index)) or _NOWHERE
        )
        found.update(places[max(nearest - after, 0) : max(nearest - after, 0) + 2])
    return found


def changes_of_trees(
    clone: Clone,
    packs: Packs,
    read: Callable[[str], bytes],
    trees: Sequence[str],
    subjects: Sequence[str],
    thread: str,
) -> list[tuple[PathChange, ...]] | None:
    """Compare each tree with the one before it, the first with nothing; None if guessing does not pay.

    An empty name stands for a directory that is not there.
    """
    deltas = packs.deltas(trees)
    for known in (deltas, {}):
        try:
            return _changes(
                ExpectedTrees(clone, trees, known), read, trees, subjects, thread
            )
        except WrongGuess:
            continue
    return None


def _changes(
    expected: ExpectedTrees,
    read: Callable[[str], bytes],
    trees: Sequence[str],
    subjects: Sequence[str],
    thread: str,
) -> list[tuple[PathChange, ...]] | None:
    """Go from the last tree to the first: git keeps the older ones as deltas of newer ones."""
    found: list[tuple[PathChange, ...]] = []
    content, entries, kinds = bytearray(), _Entries(), dict[bytes, list[bytes]]()
    at = misses = 0
    for step in range(len(trees) - 1, -1, -1):
        name = (
            _guess(kinds, subjects[step + 1], entries)
            if kinds and trees[step]
            else None
        )
        if name is not None:
            mode, blob = entries[name]
            entry = b"%b %b\0%b" % (mode, name, blob)
            # The one before it in number usually stands before it.
            at = (
                at - len(entry)
                if content.endswith(entry, 0, at)
                else content.index(entry)
            )
            del content[at : at + len(entry)]
            if expected.accept(step, content):
                del entries[name]
                found.append((_change("A", thread, name, mode, blob),))
                continue
        misses += 1
        if misses > _MOST_MISSES:
            return None
        content = bytearray(read(trees[step]) if trees[step] else b"")
        expected.take(step, content)
        after, entries, at = (
            entries,
            _parse(content, len(trees[step]) // 2),
            len(content),
        )
        kinds = _by_kind(
            name for name, (mode, _) in entries.items() if mode != _DIRECTORY
        )
        if step + 1 < len(trees):
            found.append(tuple(_compare(entries, after, thread)))
    found.append(tuple(_compare({}, entries, thread)))
    return found[::-1]


def _by_kind(names: Iterable[bytes]) -> dict[bytes, list[bytes]]:
    """Sort names by what stands before their numbers, the highest number last."""
    kinds: dict[bytes, list[bytes]] = {}
    for name in sorted(names, key=lambda name: (len(name), name)):
        kinds.setdefault(
            name.removesuffix(b".md").rstrip(b"0123456789").rstrip(b"-"), []
        ).append(name)
    return kinds


def _guess(
    kinds: Mapping[bytes, list[bytes]], subject: str, entries: _Entries
) -> bytes | None:
    """Return the highest number of the kind a commit speaks of that the tree has."""
    kind = (
        subject.partition(":")[0].encode() if len(kinds) > 1 else next(iter(kinds), b"")
    )
    names = kinds.get(kind, [])
    while names and names[-1] not in entries:
        names.pop()
    return names[-1] if names else None


def _parse(content: bytes | bytearray, id_bytes: int) -> _Entries:
    entries: _Entries = {}
    start = 0
    while start < len(content):
        end = content.index(b"\0", start)
        mode, _, name = bytes(content[start:end]).partition(b" ")
        start = end + 1 + id_bytes
        entries[name] = (mode, bytes(content[end + 1 : start]))
    return entries


def _compare(before: _Entries, after: _Entries, thread: str) -> Iterator[PathChange]:
    old, new = (
        {name: e for name, e in tree.items() if e[0] != _DIRECTORY}
        for tree in (before, after)
    )
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            status = "D" if name not in new else "M" if name in old else "A"
            mode, blob = new.get(name) or (
                DELETED_MODE.encode(),
                bytes(len(old[name][1])),
            )
            yield _change(status, thread, name, mode, blob)


def _change(
    status: str, thread: str, name: bytes, mode: bytes, blob: bytes
) -> PathChange:
    return PathChange(
        status, f"{thread}/{os.fsdecode(name)}", blob.hex(), mode.decode()
    )


class WrongGuess(Exception):
    """A tree is not what was taken for it until another one would be known."""


class ExpectedTrees:
    """Tells of one tree after the other, the last one first, whether it has the content that is expected.

    It is compared with what its delta makes of another one. Only where there is none is it hashed, which takes ten
    times as long; git has hashed all that is in a pack when it received it.
    """

    def __init__(
        self, clone: Clone, trees: Sequence[str], deltas: Mapping[int, _Delta]
    ) -> None:
        self._clone, self._trees, self._deltas = clone, trees, deltas
        self._needed_until: dict[int, int] = {}
        for pair in ((tree, base) for tree, (base, _) in deltas.items()):
            first, second = max(pair), min(pair)
            self._needed_until[first] = min(
                second, self._needed_until.get(first, second)
            )
        self._held: dict[int, bytes] = {}
        self._unproved: dict[int, list[int]] = {}  # by the base that will tell

    def accept(self, step: int, content: bytearray) -> bool:
        """Tell whether it has; one whose base is not known yet is accepted, and may be a WrongGuess later."""
        base, delta = self._deltas.get(step, (step, b""))
        if base in self._held:
            accepted = applied(delta, self._held[base]) == content
        elif base < step and len(self._held) < _MOST_HELD:
            self._unproved.setdefault(base, []).append(step)
            accepted = True
        else:
            accepted = self._clone.tree_id(content) == self._trees[step]
        if accepted:
            self.take(step, content)
        return accepted

    def take(self, step: int, content: bytearray) -> None:
        """Take it that the tree has this content."""
        for later in self._unproved.pop(step, ()):
            if applied(self._deltas[later][1], bytes(content)) != self._held[later]:
                raise WrongGuess
        for later in [
            later for later in self._held if self._needed_until[later] >= step
        ]:
            del self._held[later]
        if step in self._needed_until and len(self._held) < _MOST_HELD:
            self._held[step] = bytes(content)


class Packs:
    """The packs of one object store. What is loose, or in another store, is not found here."""

    def __init__(self, clone: Clone) -> None:
        self._id_bytes = len(clone.null_id) // 2
        self._packs: list[
            tuple[mmap, tuple[int, ...], int]
        ] = []  # the index, its counts, and the file it is of
        for path in sorted(
            (clone.location.common_dir / "objects" / "pack").glob("*.idx")
        ):
            try:
                self._open(path)
            except (
                OSError,
                ValueError,
            ):  # git has just put it together with others, or it is empty
                continue

    def _open(self, path: Path) -> None:
        with path.open("rb") as file:
            index = mmap(file.fileno(), 0, access=ACCESS_READ)
        if index[:_COUNTS] != _VERSION_2 or len(index) < _NAMES:
            return
        counts = (0, *unpack_from(">256I", index, _COUNTS))
        if len(index) > _NAMES + counts[-1] * (self._id_bytes + 8):
            self._packs.append(
                (
                    index,
                    counts,
                    os.open(path.with_suffix(".pack"), os.O_RDONLY | os.O_CLOEXEC),
                )
            )

    def close(self) -> None:
        while self._packs:
            os.close(self._packs.pop()[-1])

    def deltas(self, names: Sequence[str]) -> dict[int, _Delta]:
        """Return which of these objects are kept as short deltas of others of them, and as which."""
        places = {
            place: index
            for index, name in enumerate(names)
            if (place := self.place(name))
        }
        found = ((index, self._delta(place)) for place, index in places.items())
        try:
            return {
                index: (places[base], delta)
                for index, (base, delta) in found
                if base in places
            }
        except (
            IndexError,
            zlib.error,
        ):  # git will name the damage when it reads the objects
            return {}

    def place(self, name: str) -> _Place | None:
        wanted, width = bytes.fromhex(name), self._id_bytes
        for number, (index, counts, _) in enumerate(self._packs if wanted else ()):
            low, high = counts[wanted[0]], counts[wanted[0] + 1]
            row, odd = divmod(
                index.find(wanted, _NAMES + low * width, _NAMES + high * width)
                - _NAMES,
                width,
            )
            if row >= 0 and not odd:
                (offset,) = unpack_from(
                    ">I", index, _NAMES + counts[-1] * (width + 4) + 4 * row
                )
                return (number, offset) if offset < _FAR else None
        return None

    def _delta(self, place: _Place) -> tuple[_Place | None, bytes]:
        """Return where the base of the object is, if it has one in its pack, and what makes the object of it."""
        number, offset = place
        start = os.pread(self._packs[number][-1], _LONGEST_DELTA, offset)
        if start[0] >> 4 & 7 != _OFFSET_DELTA:
            return None, b""
        _, at = _number(start, 0)
        back = start[at] & ~_MORE
        while start[at] & _MORE:
            at += 1
            back = back + 1 << 7 | start[at] & ~_MORE
        inflated = zlib.decompressobj()
        delta = inflated.decompress(start[at + 1 :])
        return ((number, offset - back), delta) if inflated.eof else (None, b"")


def applied(delta: bytes, base: bytes) -> bytes:
    """Return what a delta makes of its base."""
    added, copied, pieces = memoryview(delta), memoryview(base), []
    _, at = _number(delta, 0)
    _, at = _number(delta, at)
    while at < len(delta):
        code, at = delta[at], at + 1
        if code & _MORE:
            packed = 0
            for byte in range(7):
                if code >> byte & 1:
                    packed |= delta[at] << 8 * byte
                    at += 1
            source = packed & 0xFFFFFFFF
            pieces.append(copied[source : source + (packed >> 32 or _LONGEST_COPY)])
        else:
            pieces.append(added[at : at + code])
            at += code
    return b"".join(pieces)


def _number(text: bytes, start: int) -> tuple[int, int]:
    """Return a number, seven bits a byte with the lowest first, and where it ends."""
    number = shift = 0
    for byte in text[start:]:
        number |= (byte & ~_MORE) << shift
        shift += 7
        if not byte & _MORE:
            break
    return number, start + shift // 7
