"""The index never says anything else than reading everything again would."""

from __future__ import annotations

import gc
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from bridgehead.rigs.envelope.envelope import Envelope, parse_envelope
from bridgehead.rigs.repositories.git.repository import GitRepository
from bridgehead.rigs.repositories.git.survey import GitSurvey
from bridgehead.rigs.repositories.index import FILE_NAME, FORMAT, Index, remove_index
from bridgehead.rigs.threads import index as threads_index
from bridgehead.rigs.threads.index import EnvelopeIndex, ThreadListing
from bridgehead.rigs.threads.listed_envelope import ListedEnvelope
from bridgehead.rigs.trust.verification_kinds import Kind
from rigs.support.git_world import World, envelope


def index_file(clone: Path) -> Path:
    return clone / f".git/bridgehead/{FILE_NAME}"


def look(clone: Path, thread: str | None = None) -> list[ThreadListing]:
    index = EnvelopeIndex(GitRepository(clone), thread)
    seen = [index.thread(thread)] if thread else index.threads()
    return [
        listing._replace(envelopes=tuple(map(_without_stamp, listing.envelopes)))
        for listing in seen
    ]


def _without_stamp(listed: ListedEnvelope) -> ListedEnvelope:
    """A loose file's stamp says when it was looked at; everything else must agree."""
    return listed._replace(content="~") if listed.content.startswith("~") else listed


def look_afresh(clone: Path) -> list[ThreadListing]:
    """What an index that knows nothing says; the stored one is put back afterwards."""
    private = clone / ".git/bridgehead"
    gc.collect()  # an index that nobody holds any more removes files as it closes
    stored = {path: path.read_bytes() for path in private.glob(f"{FILE_NAME}*")}
    remove_index(private)
    seen = look(clone)
    remove_index(private)
    for path, content in stored.items():
        path.write_bytes(content)
    return seen


def by_hand(world: World, clone: Path) -> dict[str, tuple[str | None, str]]:
    """Path -> (adding commit, body hash claimed), from plain git and plain reading."""
    added: dict[str, str] = {}
    log = world.git(
        "log",
        "--topo-order",
        "--reverse",
        "--no-renames",
        "--format=@%H",
        "--name-status",
        at=clone,
    )
    commit = ""
    for line in log.splitlines():
        if line.startswith("@"):
            commit = line[1:]
        elif line:
            status, path = line.split("\t")
            if status == "A":
                added[path] = commit
            elif status == "D":
                added.pop(path, None)
    found = {}
    for file in sorted(clone.glob("*/*.md")):
        parsed = None if file.is_symlink() else parse_envelope(file.read_bytes())
        if isinstance(parsed, Envelope):
            path = str(file.relative_to(clone))
            found[path] = (added.get(path), str(parsed.frontmatter.get("body_hash")))
    return found


def summary(listings: list[ThreadListing]) -> dict[str, tuple[str | None, str]]:
    return {
        listed.path: (listed.turn.commit_sha, listed.turn.body_hash)
        for listing in listings
        for listed in listing.envelopes
    }


def test_envelopes_are_listed_with_the_commit_that_added_them_and_its_place(
    world, clone
):
    first = world.commit(clone, {"demo-01/REQUEST.md": envelope("demo-01")})
    second = world.commit(
        clone,
        {"demo-01/ACK.md": envelope("demo-01", body="two\n"), "demo-02/X.md": b"no\n"},
    )

    [listing] = look(clone)

    assert listing.thread_id == "demo-01"
    assert [
        (e.turn.filename, e.turn.commit_sha, e.turn.position) for e in listing.envelopes
    ] == [
        ("ACK.md", second, 2),
        ("REQUEST.md", first, 1),
    ]
    assert all(
        e.findings == () and e.author_email == "op1@example.com"
        for e in listing.envelopes
    )
    assert listing.envelopes[0].committed_at == int(
        world.git("log", "-1", "--format=%ct", at=clone)
    )


def test_the_second_look_reads_no_file_and_asks_for_no_history(
    world, clone, monkeypatch
):
    world.commit(
        clone, {f"demo-0{n}/ACK.md": envelope(f"demo-0{n}") for n in range(1, 5)}
    )
    before = look(clone)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("nothing changed, so nothing is to be read")

    monkeypatch.setattr(GitRepository, "read_blobs", refuse)
    monkeypatch.setattr(GitRepository, "history", refuse)
    assert look(clone) == before
    assert look(clone, "demo-02")[0].envelopes == before[1].envelopes


def test_only_what_is_new_is_read(world, clone, monkeypatch):
    world.commit(clone, {"demo-01/ACK.md": envelope("demo-01")})
    look(clone)
    world.commit(
        clone,
        {
            "demo-01/ACK-2.md": envelope("demo-01", body="2\n"),
            "demo-02/A.md": envelope("demo-02"),
        },
    )
    read: list[str] = []
    real = GitRepository.read_blobs

    def watch(self: GitRepository, blobs: list[str]) -> object:
        read.extend(blobs)
        return real(self, blobs)

    monkeypatch.setattr(GitRepository, "read_blobs", watch)
    assert len(look(clone)) == 2
    new = ("HEAD:demo-01/ACK-2.md", "HEAD:demo-02/A.md")
    assert read == [world.git("rev-parse", name, at=clone).strip() for name in new]


def test_a_file_that_says_something_wrong_is_listed_with_what_speaks_against_it(
    world, clone
):
    world.commit(
        clone,
        {
            "demo-01/GOOD.md": envelope("demo-01"),
            "demo-01/TAMPERED.md": envelope("demo-01").replace(b"hello", b"HELLO"),
            "demo-01/STRAY.md": envelope("demo-77"),
        },
    )
    [listing] = look(clone)
    assert {e.turn.filename: e.findings for e in listing.envelopes} == {
        "GOOD.md": (),
        "STRAY.md": (Kind.THREAD_MISMATCH,),
        "TAMPERED.md": (Kind.BODY_HASH_MISMATCH,),
    }


def test_links_and_broken_files_are_reported_and_not_counted(world, clone):
    world.commit(
        clone,
        {"demo-01/ACK.md": envelope("demo-01"), "outside.md": envelope("demo-01")},
    )
    (clone / "demo-01/LINK.md").symlink_to("../outside.md")
    world.git("add", "demo-01/LINK.md", at=clone)
    world.git("commit", "-q", "-m", "link", at=clone)
    (clone / "demo-01/LOOSE.md").symlink_to("ACK.md")
    (clone / "demo-01/BROKEN.md").write_text("<<<<<<< ours\n---\n")
    (clone / "demo-01/FOLDER.md").mkdir()
    os.mkfifo(clone / "demo-01/PIPE.md")

    [listing] = look(clone)

    assert [e.turn.filename for e in listing.envelopes] == ["ACK.md"]
    assert {(item.path, *item.kinds) for item in listing.unreadable} == {
        ("demo-01/LINK.md", Kind.SYMLINK),
        ("demo-01/LOOSE.md", Kind.SYMLINK),
        ("demo-01/BROKEN.md", Kind.PARSE_FAILED),
    }
    assert look(clone) == [listing]


def test_a_linked_thread_directory_is_not_a_thread(world, clone):
    world.commit(clone, {"demo-01/ACK.md": envelope("demo-01")})
    (clone / "demo-02").symlink_to("demo-01")
    assert [listing.thread_id for listing in look(clone)] == ["demo-01"]


def test_ignored_and_untracked_envelopes_are_listed_like_any_other(world, clone):
    world.commit(
        clone, {".gitignore": b"SECRET*.md\n", "demo-01/ACK.md": envelope("demo-01")}
    )
    look(clone)
    (clone / "demo-01/SECRET-1.md").write_bytes(envelope("demo-01", body="s\n"))
    (clone / "demo-02").mkdir()
    (clone / "demo-02/DRAFT.md").write_bytes(envelope("demo-02"))

    assert set(summary(look(clone))) == {
        "demo-01/ACK.md",
        "demo-01/SECRET-1.md",
        "demo-02/DRAFT.md",
    }
    assert summary(look(clone))["demo-02/DRAFT.md"][0] is None


def test_an_edit_that_keeps_size_and_times_of_a_loose_file_is_noticed(world, clone):
    (clone / "demo-01").mkdir()
    loose = clone / "demo-01/DRAFT.md"
    loose.write_bytes(envelope("demo-01", body="aaaa\n"))
    look(clone)
    seen = loose.stat()
    loose.write_bytes(envelope("demo-01", body="bbbb\n"))
    os.utime(loose, ns=(seen.st_atime_ns, seen.st_mtime_ns))

    assert summary(look(clone)) == by_hand(world, clone)


def test_loose_files_are_noticed_although_git_is_not_asked_for_them(world, clone):
    world.commit(clone, {f"demo-0{n}/A.md": envelope(f"demo-0{n}") for n in (1, 2)})
    look(clone)
    loose = clone / "demo-01/DRAFT.md"
    for body in ("one\n", "another\n", "once more\n"):
        loose.write_bytes(envelope("demo-01", body=body))
        (clone / "demo-02/notes.txt").write_text(body)
        assert summary(look(clone)) == by_hand(world, clone)
    assert EnvelopeIndex(GitRepository(clone)).survey.dirty == ()
    loose.unlink()
    assert summary(look(clone)) == by_hand(world, clone)


def test_rewritten_paths_carry_the_finding_for_ever(world, clone):
    world.commit(
        clone,
        {"demo-01/A.md": envelope("demo-01"), "demo-01/B.md": envelope("demo-01")},
    )
    look(clone)
    world.commit(clone, {"demo-01/A.md": envelope("demo-01", body="other\n")})
    world.git("rm", "-q", "demo-01/B.md", at=clone)
    world.git("commit", "-q", "-m", "rm", at=clone)
    look(clone)
    again = world.commit(
        clone, {"demo-01/B.md": envelope("demo-01", body="not the same\n")}
    )
    back = world.commit(clone, {"demo-01/A.md": envelope("demo-01")})

    [listing] = look(clone)

    assert back != again
    assert [e.findings for e in listing.envelopes] == [
        (Kind.REWRITTEN,),
        (Kind.REWRITTEN,),
    ]
    assert listing.envelopes[1].turn.commit_sha == again
    assert look_afresh(clone) == [listing]


def test_a_deleted_file_that_comes_back_the_same_is_not_rewritten(world, clone):
    world.commit(clone, {"demo-01/A.md": envelope("demo-01")})
    world.git("rm", "-q", "demo-01/A.md", at=clone)
    world.git("commit", "-q", "-m", "rm", at=clone)
    world.commit(clone, {"demo-01/A.md": envelope("demo-01")})
    [listing] = look(clone)
    assert listing.envelopes[0].findings == ()


def test_a_merge_makes_history_branch_and_positions_are_the_same_cold_and_warm(
    world, clone
):
    world.commit(clone, {"demo-01/A.md": envelope("demo-01")})
    world.git("checkout", "-q", "-b", "side", at=clone)
    world.commit(clone, {"demo-01/B.md": envelope("demo-01", body="b\n")}, push=False)
    world.git("checkout", "-q", "main", at=clone)
    world.commit(clone, {"demo-01/C.md": envelope("demo-01", body="c\n")})
    assert EnvelopeIndex(GitRepository(clone)).is_linear
    world.git("merge", "-q", "--no-ff", "--no-commit", "side", at=clone)
    world.commit(
        clone, {"demo-01/EVIL.md": envelope("demo-01", body="e\n")}, push=False
    )
    world.commit(clone, {"demo-01/D.md": envelope("demo-01", body="d\n")}, push=False)

    warm = look(clone)

    assert not EnvelopeIndex(GitRepository(clone)).is_linear
    assert warm == look_afresh(clone)
    assert all(e.turn.commit_sha for e in warm[0].envelopes)
    assert set(EnvelopeIndex(GitRepository(clone)).survey.head or "") != set()


def damaged_pages(stored: bytes) -> bytes:
    """Overwrite everything but the first page."""
    return stored[:4096] + b"\xa5" * (len(stored) - 4096)


@pytest.mark.parametrize(
    "damage",
    [
        lambda stored: b"",
        lambda stored: b"\0" * 50,
        lambda stored: stored[: len(stored) // 2],
        lambda stored: b"[]\n" + stored,
        damaged_pages,
    ],
    ids=["empty", "zeros", "torn", "text", "pages"],
)
def test_a_damaged_index_is_rebuilt_silently(world, clone, damage):
    world.commit(clone, {"demo-01/ACK.md": envelope("demo-01")})
    before = look(clone)
    path = index_file(clone)
    path.write_bytes(damage(path.read_bytes()))
    assert look(clone) == before
    assert index_file(clone).exists()
    assert look(clone) == before


def change_index(clone: Path, *statements: str) -> None:
    with closing(sqlite3.connect(index_file(clone))) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


@pytest.mark.parametrize(
    "statement",
    [
        "PRAGMA user_version = 999",
        "DROP TABLE files",
        "ALTER TABLE additions RENAME TO others",
        "UPDATE files SET fields = '{'",
        "UPDATE files SET fields = '[1]'",
        "DELETE FROM files",
        "UPDATE history SET head = '0123456789012345678901234567890123456789'",
        "UPDATE history SET boundary = 'shallow'",
        "DELETE FROM history",
    ],
)
def test_an_index_that_makes_no_sense_is_rebuilt_silently(world, clone, statement):
    world.commit(clone, {"demo-01/ACK.md": envelope("demo-01")})
    before = look(clone)
    change_index(clone, statement)
    assert look(clone) == before
    with closing(sqlite3.connect(index_file(clone))) as connection:
        assert connection.execute("PRAGMA user_version").fetchall() == [(FORMAT,)]


def test_the_index_of_another_repository_is_not_believed(world, clone):
    world.commit(clone, {"demo-01/ACK.md": envelope("demo-01")})
    look(clone)
    world.git("init", "-q", "fresh")
    other = world.base / "fresh"
    world.commit(
        other, {"demo-01/A.md": envelope("demo-01", body="other\n")}, push=False
    )
    (other / ".git/bridgehead").mkdir()
    shutil.copy(index_file(clone), index_file(other))
    warm = look(other)
    assert warm == look_afresh(other)
    assert summary(warm) == by_hand(world, other)


def test_a_history_that_was_cut_off_is_read_again_from_where_it_was_cut(world, clone):
    for number in range(4):
        path = f"demo-01/ACK-{number}.md"
        world.commit(clone, {path: envelope("demo-01", body=f"{number}\n")})
    whole = look(clone)
    world.git("fetch", "-q", "--depth=2", world.remote.as_uri(), "main", at=clone)
    cut_off = look(clone)
    assert cut_off == look_afresh(clone) != whole
    world.git("fetch", "-q", "--unshallow", world.remote.as_uri(), "main", at=clone)
    assert look(clone) == whole


def test_what_is_written_is_written_at_once_or_not_at_all(world, clone, monkeypatch):
    world.commit(clone, {"demo-01/ACK.md": envelope("demo-01")})
    before = look(clone)
    world.commit(clone, {"demo-01/ACK-2.md": envelope("demo-01", body="two\n")})
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(Index, "add_files", lambda *_: os._exit(9))
        child = os.fork()
        if child == 0:
            look(clone)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    world.git("reset", "-q", "--hard", "HEAD~1", at=clone)
    monkeypatch.setattr(
        GitRepository, "history", lambda *_: pytest.fail("half of it was written")
    )
    assert look(clone) == before


def test_an_index_that_another_process_changes_still_describes_its_own_look(
    world, clone
):
    old = world.commit(clone, {"demo-01/ACK.md": envelope("demo-01")})
    index = EnvelopeIndex(GitRepository(clone))
    world.commit(clone, {"demo-01/ACK.md": envelope("demo-01", body="other\n")})
    look(clone)
    [listing] = index.threads()
    [listed] = listing.envelopes
    assert (listed.turn.commit_sha, listed.findings) == (old, ())
    [read] = index.read([listed])
    assert read is not None
    assert read.body == "hello\n"


def test_a_long_read_is_announced_once(world, clone, monkeypatch):
    monkeypatch.setattr(threads_index, "LONG", 3)
    world.commit(clone, {f"demo-01/A-{n}.md": envelope("demo-01") for n in range(3)})
    told: list[str] = []
    EnvelopeIndex(GitRepository(clone), tell=told.append)
    assert told == ["reading 3 envelopes…"]
    EnvelopeIndex(GitRepository(clone), tell=told.append)
    assert told == ["reading 3 envelopes…"]


def test_a_long_history_is_announced(world, clone, monkeypatch):
    monkeypatch.setattr(threads_index, "LONG", 2)
    world.commit(clone, {"demo-01/A.md": envelope("demo-01")})
    told: list[str] = []
    EnvelopeIndex(GitRepository(clone), tell=told.append)
    assert told == ["reading the history of this clone…"]


def test_threads_are_found_by_the_rigs_they_name(world, clone):
    names = {"demo-01": "rig-a", "demo-02": "rig-b", "demo-03": "rig-ab"}
    world.commit(
        clone,
        {f"{name}/ACK.md": envelope(name, sender) for name, sender in names.items()},
    )
    index = EnvelopeIndex(GitRepository(clone))

    assert index.names == sorted(names)
    assert index.names_naming(["rig-a"]) == ["demo-01"]
    assert index.names_naming(["rig-b", "rig-ab"]) == ["demo-02", "demo-03"]
    # All of them are addressed to rig-z.
    assert index.names_naming(["rig-z"]) == sorted(names)


def test_the_mark_of_a_thread_changes_with_its_listing_and_with_nothing_else(
    world, clone
):
    def marks() -> dict[str, object]:
        return EnvelopeIndex(GitRepository(clone)).marks()

    world.commit(clone, {f"demo-0{n}/A.md": envelope(f"demo-0{n}") for n in (1, 2)})
    seen = [marks()]
    loose = clone / "demo-01/B.md"
    loose.write_bytes(envelope("demo-01", body="aaaa\n"))
    seen.append(marks())
    loose.write_bytes(envelope("demo-01", body="bbbb\n"))
    seen.append(marks())
    world.git("add", "-A", at=clone)
    seen.append(marks())
    world.git("commit", "-q", "-m", "loose", at=clone)
    seen.append(marks())
    world.git("commit", "-q", "--amend", "-m", "another", at=clone)

    assert marks()["demo-01"] not in [found["demo-01"] for found in seen]
    assert len({found["demo-01"] for found in seen}) == len(seen)
    assert len({found["demo-02"] for found in seen}) == 1
    assert marks() == marks()


def test_rows_read_while_somebody_else_commits_are_not_taken_for_those_of_the_commit_before(
    world, clone, monkeypatch
):
    old = world.commit(clone, {"demo-01/A.md": envelope("demo-01")})
    tracked = GitSurvey.tracked

    def too_late(self: GitSurvey) -> object:
        world.commit(clone, {"demo-01/A.md": envelope("demo-01", body="other\n")})
        return tracked(self)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(GitSurvey, "tracked", too_late)
        look(clone)
    world.git("checkout", "-q", old, at=clone)
    assert look(clone) == look_afresh(clone)


def test_a_rename_into_another_thread_is_seen_in_both(world, clone):
    world.commit(
        clone,
        {f"demo-01/{name}.md": envelope("demo-01", body=f"{name}\n") for name in "AB"},
    )
    world.commit(clone, {"demo-02/C.md": envelope("demo-02")})
    look(clone)
    world.git("mv", "demo-01/A.md", "demo-02/A.md", at=clone)
    (clone / "demo-01/A.md").write_bytes(envelope("demo-01", body="another\n"))
    assert look(clone) == look_afresh(clone)


def test_an_index_that_cannot_be_written_costs_only_time(world, clone):
    world.commit(clone, {"demo-01/ACK.md": envelope("demo-01")})
    (clone / ".git/bridgehead").write_text("a file where the directory should be")
    assert len(look(clone)) == len(look(clone)) == 1


def test_one_thread_can_be_looked_at_alone_without_spoiling_the_whole(world, clone):
    old = world.commit(
        clone, {f"demo-0{n}/ACK.md": envelope(f"demo-0{n}") for n in (1, 2)}
    )
    look(clone)
    world.commit(clone, {"demo-01/ACK.md": envelope("demo-01", body="other\n")})
    assert look(clone, "demo-01")[0].envelopes[0].findings == (Kind.REWRITTEN,)
    world.git("checkout", "-q", old, at=clone)
    assert look(clone) == look_afresh(clone)


def test_line_ends_converted_on_checkout_do_not_defeat_the_index(
    world, clone, monkeypatch
):
    world.commit(clone, {"demo-01/ACK.md": envelope("demo-01")})
    world.git("config", "core.autocrlf", "true", at=clone)
    (clone / "demo-01/ACK.md").unlink()
    world.git("checkout", "-q", "--", ".", at=clone)
    assert b"\r\n" in (clone / "demo-01/ACK.md").read_bytes()
    first = look(clone)
    monkeypatch.setattr(
        GitRepository, "read_blobs", lambda *_: pytest.fail("read again")
    )
    assert look(clone) == first
    assert first[0].envelopes[0].findings == ()


def test_names_that_are_not_ascii_or_not_utf8_come_through(world, clone):
    world.commit(
        clone,
        {"demo-01/café.md": envelope("demo-01"), "demo-01/- -.md": envelope("demo-01")},
    )
    (clone / os.fsdecode(b"demo-01/\xff.md")).write_bytes(envelope("demo-01"))
    world.git("add", "-A", at=clone)
    world.git("commit", "-q", "-m", "odd", at=clone)
    names = {e.turn.filename for e in look(clone)[0].envelopes}
    assert names == {"café.md", "- -.md", os.fsdecode(b"\xff.md")}
    assert look(clone) == look_afresh(clone)


def test_a_linked_worktree_has_an_index_of_its_own(world, clone):
    world.commit(clone, {"demo-01/ACK.md": envelope("demo-01")})
    world.git("worktree", "add", "-q", "-b", "wt", "../wt", at=clone)
    worktree = world.base / "wt"
    world.commit(worktree, {"demo-02/ACK.md": envelope("demo-02")}, push=False)
    assert [listing.thread_id for listing in look(clone)] == ["demo-01"]
    assert [listing.thread_id for listing in look(worktree)] == ["demo-01", "demo-02"]
    assert [listing.thread_id for listing in look(clone)] == ["demo-01"]


def test_a_repository_without_commits_or_threads_lists_nothing(world):
    world.git("init", "-q", "fresh")
    assert look(world.base / "fresh") == []


def test_many_processes_may_use_the_index_at_once(world, clone):
    world.commit(clone, {f"demo-0{n}/ACK.md": envelope(f"demo-0{n}") for n in range(9)})
    program = (
        "import sys; from bridgehead.rigs.threads.index import EnvelopeIndex;"
        "from bridgehead.rigs.repositories.git.repository import GitRepository;"
        "print(sum(len(EnvelopeIndex(GitRepository(sys.argv[1])).threads()) for _ in range(3)))"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(clone)], stdout=subprocess.PIPE
        )
        for _ in range(4)
    ]
    assert [process.communicate()[0] for process in running] == [b"27\n"] * 4
    assert len(look(clone)) == 9


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_after_any_series_of_outside_changes_the_index_agrees_with_plain_reading(
    world, clone, seed
):
    """Edits, moves, checkouts, resets, amends, ignored and staged files, in random order, looked at now and then."""
    chance = random.Random(seed)
    world.commit(
        clone, {f"t{n}-x/A.md": envelope(f"t{n}-x") for n in range(3)}, push=False
    )
    counter = 0

    def content(thread: str) -> bytes:
        nonlocal counter
        counter += 1
        return envelope(thread, body=f"{chance.choice('ab')}{counter % 7}\n")

    def some_file() -> Path:
        thread = f"t{chance.randrange(3)}-x"
        (clone / thread).mkdir(exist_ok=True)
        return clone / thread / f"{chance.choice('ABCD')}.md"

    def write() -> None:
        file = some_file()
        file.unlink(missing_ok=True)
        file.write_bytes(content(file.parent.name))

    def remove() -> None:
        some_file().unlink(missing_ok=True)

    def link() -> None:
        file = some_file()
        file.unlink(missing_ok=True)
        file.symlink_to("A.md")

    def spoil() -> None:
        file = some_file()
        file.unlink(missing_ok=True)
        file.write_text("not an envelope\n")

    def touch() -> None:
        for file in clone.glob("*/*.md"):
            if not file.is_symlink():
                os.utime(file, (1, 1))

    def git(*arguments: str) -> None:
        world.git(*arguments, at=clone, check=False)

    moves = [
        write,
        write,
        remove,
        link,
        spoil,
        touch,
        lambda: git("add", "-A"),
        lambda: git("commit", "-qam", "c"),
        lambda: (git("add", "-A"), git("commit", "-qm", "c")),
        lambda: git("commit", "-q", "--amend", "-m", "amended", "--allow-empty"),
        lambda: git("reset", "-q", "--hard", "HEAD~1"),
        lambda: git("reset", "-q", "HEAD~1"),
        lambda: git("checkout", "-q", "-f", "HEAD~1"),
        lambda: git("checkout", "-q", "-f", "main"),
        lambda: git("stash", "-q", "-u"),
        lambda: git("update-index", "--refresh"),
    ]
    for _ in range(40):
        chance.choice(moves)()
        if chance.random() < 0.5:
            look(clone, f"t{chance.randrange(3)}-x" if chance.random() < 0.3 else None)
        if chance.random() < 0.3:
            assert look(clone) == look_afresh(clone)
    assert look(clone) == look_afresh(clone)
    assert summary(look(clone)) == by_hand(world, clone)


def test_a_submodule_does_not_pass_for_the_envelope_whose_id_it_names(world, clone):
    world.commit(clone, {"demo-01/A.md": envelope("demo-01")})
    blob = world.git("rev-parse", "HEAD:demo-01/A.md", at=clone).strip()
    entry = f"160000,{blob},demo-01/B.md"
    world.git("update-index", "--add", "--cacheinfo", entry, at=clone)
    (clone / "demo-01/B.md").mkdir()
    assert set(summary(look(clone))) == {"demo-01/A.md"}
