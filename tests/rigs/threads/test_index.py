"""The index never says anything else than reading everything again would."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bridgehead.rigs.envelope.envelope import Envelope, parse_envelope
from bridgehead.rigs.repositories.git.clone import Clone
from bridgehead.rigs.repositories.git.history import _Objects
from bridgehead.rigs.repositories.git.repository import GitRepository
from bridgehead.rigs.repositories.git.survey import GitSurvey
from bridgehead.rigs.threads import index_store
from bridgehead.rigs.threads.index import EnvelopeIndex, ThreadListing
from bridgehead.rigs.threads.index_rows import ListedEnvelope
from bridgehead.rigs.trust.verification_kinds import Kind
from rigs.support.git_world import World, envelope


def index_file(clone: Path) -> Path:
    return clone / ".git/bridgehead/envelopes.idx"


def look(clone: Path, thread: str | None = None) -> list[ThreadListing]:
    index = EnvelopeIndex(GitRepository(clone), thread, with_findings=True)
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
    path = index_file(clone)
    stored = path.read_bytes() if path.exists() else None
    path.unlink(missing_ok=True)
    seen = look(clone)
    if stored is not None:
        path.write_bytes(stored)
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

    monkeypatch.setattr(GitRepository, "read_files", refuse)
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
    real = GitRepository.read_files

    def watch(self: GitRepository, directory: str, names: list[str]) -> object:
        read.extend(f"{directory}/{name}" for name in names)
        return real(self, directory, names)

    monkeypatch.setattr(GitRepository, "read_files", watch)
    assert len(look(clone)) == 2
    assert sorted(read) == ["demo-01/ACK-2.md", "demo-02/A.md"]


def test_findings_are_computed_when_somebody_asks(world, clone):
    world.commit(
        clone,
        {
            "demo-01/GOOD.md": envelope("demo-01"),
            "demo-01/TAMPERED.md": envelope("demo-01").replace(b"hello", b"HELLO"),
            "demo-01/STRAY.md": envelope("demo-77"),
        },
    )
    EnvelopeIndex(GitRepository(clone))
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


def test_loose_files_are_noticed_although_git_is_not_asked_for_them(
    world, clone, monkeypatch
):
    world.commit(clone, {f"demo-0{n}/A.md": envelope(f"demo-0{n}") for n in (1, 2)})
    monkeypatch.setattr(
        "bridgehead.rigs.threads.index.is_settled", lambda stamp, now: True
    )
    look(clone)
    loose = clone / "demo-01/DRAFT.md"
    for body in (
        "one\n",
        "another\n",
        "once more\n",
    ):  # the directory is left alone after the first
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


@pytest.mark.parametrize(
    "damage",
    [
        lambda stored: b"",
        lambda stored: b"\0" * 50,
        lambda stored: stored[: len(stored) // 2],
        lambda stored: stored.replace(b"rig-a", b"rig-b"),
        lambda stored: b"[]\n" + stored,
        lambda stored: stored.replace(b'"format": 3', b'"format": 999', 1),
        lambda stored: b"{" * 100_000,
    ],
    ids=["empty", "zeros", "torn", "altered", "list", "future", "nested"],
)
def test_a_spoilt_index_is_rebuilt_silently(world, clone, damage):
    world.commit(clone, {"demo-01/ACK.md": envelope("demo-01")})
    before = look(clone)
    path = index_file(clone)
    path.write_bytes(damage(path.read_bytes()))
    assert look(clone) == before
    assert json.loads(path.read_bytes().splitlines()[0])["format"] == 3


def test_rows_that_make_no_sense_are_dropped_even_with_a_right_checksum(world, clone):
    from zlib import crc32

    world.commit(clone, {"demo-01/ACK.md": envelope("demo-01")})
    before = look(clone)
    path = index_file(clone)
    first, listed, _ = path.read_bytes().split(b"\n", 2)
    [outline] = json.loads(
        listed
    )  # name, extent, tree, stamp and rigs, then length and checksum of either half
    for files, history in (
        (b"[[1]]", b"[[2]]"),
        (b"7", b"[]"),
        (b"[", b"[]"),
        (b"", b""),
    ):
        described = [
            *outline[:5],
            len(files),
            crc32(files),
            len(history),
            crc32(history),
        ]
        for rows in ([described], [[]], [described[:-1]], [1]):
            listed = json.dumps(rows).encode()
            header = {**json.loads(first), "checksum": crc32(listed)}
            path.write_bytes(
                json.dumps(header).encode() + b"\n" + listed + b"\n" + files + history
            )
            assert look(clone) == before


def test_rows_of_one_thread_that_were_damaged_are_noticed_when_they_are_read(
    world, clone
):
    world.commit(
        clone,
        {
            f"demo-0{n}/ACK.md": envelope(f"demo-0{n}", date=f"2026-05-1{n}")
            for n in (1, 2)
        },
    )
    before = look(clone)
    path = index_file(clone)
    path.write_bytes(path.read_bytes().replace(b"2026-05-12", b"2026-05-13"))
    assert look(clone) == before


def test_threads_that_name_nobody_asked_for_are_not_read(world, clone, monkeypatch):
    names = {"demo-01": "rig-a", "demo-02": "rig-b", "demo-03": "rig-ab"}
    world.commit(
        clone,
        {f"{name}/ACK.md": envelope(name, sender) for name, sender in names.items()},
    )
    look(clone)
    decoded = []
    decode = index_store._rows
    monkeypatch.setattr(
        index_store, "_rows", lambda columns: decoded.append(columns) or decode(columns)
    )

    index = EnvelopeIndex(GitRepository(clone), with_findings=True)

    assert index.names == sorted(names) and decoded == []
    assert index.names_naming(["rig-a"]) == ["demo-01"]
    assert index.names_naming(["rig-b", "rig-ab"]) == ["demo-02", "demo-03"]
    assert index.names_naming(["rig-z"]) == sorted(
        names
    )  # to whom all of them are addressed
    assert (
        index.thread("demo-02").envelopes[0].turn.sender == "rig-b"
        and len(decoded) == 2
    )  # both halves


def test_a_directory_that_was_left_alone_is_not_listed_again(world, clone, monkeypatch):
    world.commit(
        clone,
        {
            ".gitignore": b"SECRET*.md\n",
            **{f"demo-0{n}/A.md": envelope(f"demo-0{n}") for n in (1, 2)},
        },
    )
    monkeypatch.setattr(
        "bridgehead.rigs.threads.index.is_settled", lambda stamp, now: True
    )
    look(clone)
    listed = []
    names_in = GitSurvey.names_in
    monkeypatch.setattr(
        GitSurvey,
        "names_in",
        lambda self, name: listed.append(name) or names_in(self, name),
    )

    assert (
        EnvelopeIndex(GitRepository(clone), with_findings=True).names
        == ["demo-01", "demo-02"]
        and listed == []
    )

    (clone / "demo-02/SECRET.md").write_bytes(envelope("demo-02"))
    os.utime(clone / "demo-02", (1, 1))  # whatever the clock did
    index = EnvelopeIndex(GitRepository(clone), with_findings=True)
    assert set(listed) == {"demo-02"}
    assert [one.turn.filename for one in index.thread("demo-02").envelopes] == [
        "A.md",
        "SECRET.md",
    ]


def test_rows_read_while_somebody_else_commits_are_not_taken_for_those_of_the_commit_before(
    world, clone, monkeypatch
):
    old = world.commit(clone, {"demo-01/A.md": envelope("demo-01")})
    tracked = GitSurvey.tracked

    def too_late(self: GitSurvey, threads: list[str]) -> object:
        world.commit(clone, {"demo-01/A.md": envelope("demo-01", body="other\n")})
        return tracked(self, threads)

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
        GitRepository, "read_files", lambda *_: pytest.fail("read again")
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


def import_history(
    world: World, commits: list[tuple[str, dict[str, str | None]]]
) -> Path:
    """A clone whose history consists of these commits: a subject, and the paths it writes (None: deletes)."""
    stream = []
    for number, (subject, changes) in enumerate(commits):
        stream.append(
            f"commit refs/heads/main\ncommitter Op <op@example.com> {1_778_800_000 + number} +0000\n"
        )
        stream.append(f"data {len(subject)}\n{subject}\n")
        for path, body in changes.items():
            text = (
                envelope(path.partition("/")[0], body=f"{body}\n").decode()
                if body is not None
                else ""
            )
            stream.append(
                f"D {path}\n"
                if body is None
                else f"M 100644 inline {path}\ndata {len(text.encode())}\n{text}\n"
            )
    command = ["git", "fast-import", "--quiet", "--force"]
    subprocess.run(
        command, cwd=world.remote, input="".join(stream).encode(), check=True
    )
    return world.clone("imported")


def keep_objects(world: World, clone: Path, how: str) -> None:
    """Have git keep everything in one pack, packed afresh, each object in a file of its own, or beside broken files."""
    if how == "beside broken files":
        whole = next((clone / ".git/objects/pack").glob("*.idx")).read_bytes()
        for name, content in (("1", b""), ("2", whole[:8]), ("3", whole[:2000])):
            (clone / f".git/objects/pack/pack-{name}.idx").write_bytes(content)
    elif how == "repacked":
        world.git("repack", "-adfq", at=clone)
    elif how == "loose":
        packs = clone / ".git/objects/pack"
        aside = packs.rename(clone / ".git/aside")
        packs.mkdir()
        for pack in aside.glob("*.pack"):
            subprocess.run(
                ["git", "unpack-objects", "-q"],
                cwd=clone,
                input=pack.read_bytes(),
                check=True,
            )


def write_table(world: World, clone: Path, which: str) -> None:
    """Have git keep a table of all commits, of all but the last, or one that something happened to."""
    if which == "older":
        before = world.git("rev-parse", "HEAD~1", at=clone)
        command = ["git", "commit-graph", "write", "--stdin-commits"]
        subprocess.run(command, cwd=clone, input=before.encode(), check=True)
    elif which != "none":
        world.git("commit-graph", "write", "--reachable", at=clone)
    table = clone / ".git/objects/info/commit-graph"
    if which == "damaged":
        content = table.read_bytes()
        table.unlink()
        table.write_bytes(content[: len(content) // 2])


def in_both_ways(
    clone: Path, thread: str, monkeypatch: pytest.MonkeyPatch, long: int = 1
) -> tuple[list[str], list[str]]:
    """The order of a thread and what its history shows, found the short way and from all commits."""
    found = []
    for shortest in (long, sys.maxsize):
        monkeypatch.setattr(
            "bridgehead.rigs.repositories.git.history.LONG_HISTORY", shortest
        )
        (clone / ".git/bridgehead/envelopes.idx").unlink(missing_ok=True)
        index = EnvelopeIndex(
            GitRepository(clone), thread, with_findings=True, with_history=False
        )
        is_short_way = index.put_in_order(thread)
        assert is_short_way == (shortest == long) and not index.is_placed
        if not is_short_way:
            index.place()
        listed = sorted(
            index.thread(thread).envelopes, key=lambda one: one.turn.order_key()
        )
        found.append(
            [
                f"{one.turn.filename} {one.turn.commit_sha} {one.committed_at} {one.findings}"
                for one in listed
            ]
        )
    return found[0], found[1]


@pytest.mark.parametrize(
    ("kept", "seed"),
    [
        *((how, seed) for how in ("imported", "repacked") for seed in range(4)),
        ("loose", 4),
    ],
)
def test_commits_of_one_thread_found_the_short_way_are_those_that_all_of_history_names(
    world: World, seed: int, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    count: dict[str, int] = {}
    commits: list[tuple[str, dict[str, str | None]]] = []
    written: list[str] = []
    for number in range(60):
        changes: dict[str, str | None] = {}
        for _ in range(chance.choice((1, 1, 1, 2))):
            thread = chance.choice(("thr-a", "thr-a", "thr-b"))
            kind = chance.choice(("STATE", "ACK"))
            ordinal = count[thread + kind] = count.get(thread + kind, 0) + 1
            changes[f"{thread}/{kind}{f'-{ordinal}' if ordinal > 1 else ''}.md"] = (
                f"{number} {kind}"
            )
        if written and chance.random() < 0.1:
            changes[chance.choice(written)] = chance.choice(
                (None, f"rewritten {number}")
            )
        if chance.random() < 0.1:
            changes["thr-a/STATE-5.md.d/notes.md"] = f"{number}"
        written += [path for path in changes if path.count("/") == 1]
        commits.append((chance.choice((f"{kind}: step", "by hand")), changes))
    clone = import_history(world, commits)
    keep_objects(world, clone, kept)

    short, whole = in_both_ways(clone, "thr-a", monkeypatch)

    assert short == whole and len(whole) > 20


@pytest.mark.parametrize(
    ("kept", "table", "at_once", "seed"),
    [
        ("imported", "none", 3, 0),
        ("imported", "none", 400, 1),
        ("imported", "whole", 400, 2),
        ("imported", "older", 400, 3),
        ("imported", "damaged", 400, 4),
        ("repacked", "none", 400, 5),
        ("repacked", "whole", 3, 6),
        ("repacked", "older", 400, 7),
        ("loose", "whole", 400, 8),
        ("beside broken files", "whole", 400, 9),
    ],
)
def test_turns_that_are_far_apart_are_found_the_short_way_too(
    world: World,
    seed: int,
    kept: str,
    table: str,
    at_once: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr("bridgehead.rigs.repositories.git.history._AT_ONCE", at_once)
    commits: list[tuple[str, dict[str, str | None]]] = [
        ("STATE: other", {f"thr-b/STATE-{n}.md": str(n)}) for n in range(2, 150)
    ]
    for turn, number in enumerate(sorted(chance.sample(range(len(commits)), 9)), 2):
        commits[number][1][f"thr-a/STATE-{turn}.md"] = f"{turn}"
    commits[chance.randrange(140, 148)][1]["thr-a/STATE-3.md"] = "changed in place"
    clone = import_history(world, commits)
    keep_objects(world, clone, kept)
    write_table(world, clone, table)

    short, whole = in_both_ways(clone, "thr-a", monkeypatch, 20)

    assert short == whole and len(whole) == 9 and "rewritten" in "".join(whole)


@pytest.mark.parametrize("kept", ["imported", "repacked", "loose"])
def test_the_order_of_a_long_thread_is_proved_and_not_believed(
    world: World, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names and subjects only say which proof is tried first."""
    numbers = [4, 2, 9, 3, 10, 8, *range(60, 20, -1), *range(100, 140)]
    names = [f"STATE-{number}.md" for number in numbers]
    clone = import_history(
        world, [(f"STATE: thr-a/{name}", {f"thr-a/{name}": name}) for name in names]
    )
    keep_objects(world, clone, kept)

    short, whole = in_both_ways(clone, "thr-a", monkeypatch)

    assert short == whole
    assert [line.split()[0] for line in short] == names


@pytest.mark.parametrize("kept", ["imported", "repacked"])
def test_trees_that_are_kept_as_what_they_differ_in_are_neither_read_nor_hashed(
    world: World, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = import_history(
        world, [("STATE: next", {f"thr-a/STATE-{n}.md": str(n)}) for n in range(2, 300)]
    )
    keep_objects(world, clone, kept)
    counted = []
    for name, owner in (("tree_id", Clone), ("read", _Objects)):
        monkeypatch.setattr(owner, name, _counting(getattr(owner, name), counted))

    short, whole = in_both_ways(clone, "thr-a", monkeypatch)

    assert short == whole and len(whole) == 298
    assert 0 < len(counted) < 30


def _counting(
    function: Callable[..., object], counted: list[object]
) -> Callable[..., object]:
    def count(*arguments: object) -> object:
        counted.append(function)
        return function(*arguments)

    return count


def test_a_thread_that_began_lately_needs_no_older_commits(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    old: list[tuple[str, dict[str, str | None]]] = [
        ("old", {f"thr-b/STATE-{n}.md": str(n)}) for n in range(2, 8)
    ]
    clone = import_history(
        world,
        [
            *old,
            ("ACK: new", {"thr-a/ACK.md": "one"}),
            ("by hand", {"thr-a/STATE.md": "two"}),
        ],
    )
    monkeypatch.setattr("bridgehead.rigs.repositories.git.history.LONG_HISTORY", 4)

    found = (
        GitRepository(clone).thread_commits(
            world.git("rev-parse", "HEAD", at=clone).strip(), "thr-a"
        )
        or []
    )

    assert [
        (one.subject, [(c.status, c.path) for c in one.changes]) for one in found
    ] == [
        ("ACK: new", [("A", "thr-a/ACK.md")]),
        ("by hand", [("A", "thr-a/STATE.md")]),
    ]


@pytest.mark.parametrize("kept", ["imported", "repacked"])
def test_turns_are_looked_for_where_their_trees_lie_in_a_pack(
    world: World, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[tuple[str, dict[str, str | None]]] = [
        ("by hand", {f"thr-b/STATE-{number}.md": str(number)})
        for number in range(2, 1002)
    ]
    turns = {
        57: "REQUEST",
        203: "ACK",
        204: "STATE",
        511: "STATE-2",
        700: "ACK-2",
        888: "RESULT",
    }
    for number, name in turns.items():
        commits[number] = ("by hand", {f"thr-a/{name}.md": name})
    clone = import_history(world, commits)
    keep_objects(world, clone, kept)
    write_table(world, clone, "whole")
    asked: list[str] = []
    trees = _Objects.trees
    monkeypatch.setattr(
        _Objects,
        "trees",
        lambda self, names, path: asked.extend(names) or trees(self, names, path),
    )

    short, whole = in_both_ways(clone, "thr-a", monkeypatch)

    assert short == whole
    assert [line.split()[0] for line in short] == [
        f"{name}.md" for name in turns.values()
    ]
    assert len(asked) < 5 * len(turns), "halving takes ten questions for each"


def test_a_history_that_was_cut_off_begins_where_it_was_cut(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = import_history(
        world, [("STATE: next", {f"thr-a/STATE-{n}.md": str(n)}) for n in range(2, 60)]
    )
    write_table(world, clone, "whole")
    world.git("fetch", "-q", "--depth=5", world.remote.as_uri(), "main", at=clone)

    short, whole = in_both_ways(clone, "thr-a", monkeypatch)

    assert short == whole
    assert len({line.split()[1] for line in short}) == 5


@pytest.mark.parametrize("table", ["none", "whole"])
@pytest.mark.parametrize("later", [0, 2])
def test_a_history_that_is_no_single_line_is_read_whole(
    world: World, later: int, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = import_history(
        world,
        [("one", {"thr-a/STATE.md": "one"}), ("two", {"thr-a/STATE-2.md": "two"})],
    )
    world.git("checkout", "-q", "-b", "side", "HEAD~1", at=clone)
    world.git("commit", "-q", "--allow-empty", "-m", "side", at=clone)
    world.git("merge", "-q", "--no-edit", "main", at=clone)
    for number in range(later):
        world.git("commit", "-q", "--allow-empty", "-m", f"later {number}", at=clone)
    write_table(world, clone, table)
    monkeypatch.setattr("bridgehead.rigs.repositories.git.history.LONG_HISTORY", 1)

    head = GitRepository(clone).head().commit or ""
    assert GitRepository(clone).thread_commits(head, "thr-a") is None
