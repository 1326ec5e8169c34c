"""What every bridge repository does, whoever keeps it. Subclasses provide `pair`: two clones of one remote."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import pytest

from bridgehead.errors import UserError
from bridgehead.host.file_errors import FileMissing, FileTaken, IsSymlink
from bridgehead.rigs.repositories.errors import (
    CommitFailed,
    FetchFailed,
    PushFailed,
    SigningFailed,
)
from bridgehead.rigs.repositories.git.repository import GitRepository
from bridgehead.rigs.repositories.records import (
    FreezeNote,
    Identity,
    InTheWay,
    Pushed,
    Raced,
    Rebuilt,
    Wire,
)
from bridgehead.rigs.trust.attestation import Signature

WIRE = Wire("origin", "main", "refs/remotes/origin/main")


class Pair(Protocol):
    """Two clones whose remote holds one commit without files, and ways to act behind the repository's back."""

    here: GitRepository
    there: GitRepository
    alone: GitRepository  # has no remote
    signer: str  # how our signing key is called

    def put(self, repository: GitRepository, path: str, content: bytes) -> None: ...
    def link(self, repository: GitRepository, path: str, target: str) -> None: ...
    def stage(self, repository: GitRepository, path: str) -> None: ...
    def commit_by_hand(
        self, repository: GitRepository, files: dict[str, bytes | None]
    ) -> str: ...
    def refuse_commits(self, repository: GitRepository, says: str) -> None: ...
    def cut_the_line(self) -> None: ...
    def refuse_freezes(self) -> None: ...
    def signers_file(self) -> Path: ...
    def add_signing_key(self, repository: GitRepository) -> None: ...


def post(
    repository: GitRepository,
    path: str,
    content: bytes = b"x\n",
    subject: str | None = None,
) -> str:
    (Path(repository.root) / path).parent.mkdir(exist_ok=True)
    with repository.lock(), repository.begin_posting(path, content) as posting:
        return posting.land(subject or f"ACK: {path}")


def send(repository: GitRepository, path: str, content: bytes = b"x\n") -> str:
    commit = post(repository, path, content)
    assert repository.push(WIRE, commit) == Pushed(commit)
    return commit


def catch_up(repository: GitRepository) -> None:
    assert repository.fast_forward(repository.fetch(WIRE)) is None


def note(
    repository: GitRepository, text: str, *, only_here: bool = False
) -> FreezeNote:
    return FreezeNote(text, only_here, repository.blob_id(text.encode()))


class RepositorySuite:
    def test_a_turn_travels_from_one_clone_to_the_other(self, pair: Pair):
        commit = send(pair.here, "demo-01/REQUEST.md", b"hello\n")

        fetched = pair.there.fetch(WIRE)
        incoming = pair.there.compare(fetched)

        assert fetched == commit
        assert (incoming.ahead, incoming.behind) == (0, 1)
        assert [(change.status, change.path) for change in incoming.changes] == [
            ("A", "demo-01/REQUEST.md")
        ]
        assert pair.there.read_blobs([incoming.changes[0].blob]) == {
            incoming.changes[0].blob: b"hello\n"
        }
        assert not pair.there.has_file("demo-01/REQUEST.md"), "looking moves nothing"
        assert pair.there.fast_forward(fetched) is None
        assert pair.there.read_file("demo-01/REQUEST.md") == b"hello\n"
        assert pair.there.survey().dirty == ()
        assert pair.there.head().commit == commit

    def test_a_commit_holds_one_path_whatever_is_staged(self, pair: Pair):
        pair.put(pair.here, "other.txt", b"mine\n")
        pair.stage(pair.here, "other.txt")

        commit = post(pair.here, "demo-01/ACK.md")

        [record] = pair.here.unpushed()
        assert record.commit == commit
        assert record.subject == "ACK: demo-01/ACK.md"
        assert record.author == Identity("Op One", "op1@example.com")
        assert [change.path for change in record.changes] == ["demo-01/ACK.md"]
        assert [file.line for file in pair.here.survey().dirty] == ["A  other.txt"]

    def test_a_posting_that_does_not_land_leaves_nothing(self, pair: Pair):
        head = pair.here.head()
        (Path(pair.here.root) / "demo-01").mkdir(exist_ok=True)
        with (
            pytest.raises(KeyboardInterrupt),
            pair.here.lock(),
            pair.here.begin_posting("demo-01/ACK.md", b"x"),
        ):
            assert pair.here.has_file("demo-01/ACK.md")
            raise KeyboardInterrupt
        assert not pair.here.has_file("demo-01/ACK.md")
        assert pair.here.survey().dirty == ()
        assert pair.here.head() == head

    def test_a_refused_commit_takes_the_file_back(self, pair: Pair):
        pair.refuse_commits(pair.here, "not on a Sunday")
        with pytest.raises(CommitFailed, match="git commit failed: not on a Sunday"):
            post(pair.here, "demo-01/ACK.md")
        assert pair.here.survey().dirty == ()
        assert not pair.here.has_file("demo-01/ACK.md")

    def test_a_refused_commit_brings_the_draft_back(self, pair: Pair):
        pair.put(pair.here, "demo-01/REQUEST.md", b"draft\n")
        pair.refuse_commits(pair.here, "no")
        with (
            pytest.raises(CommitFailed),
            pair.here.lock(),
            pair.here.begin_posting(
                "demo-01/REQUEST.md", b"sent\n", replaces_draft=True
            ) as posting,
        ):
            posting.land("REQUEST: x")
        assert pair.here.read_file("demo-01/REQUEST.md") == b"draft\n"

    def test_names_in_use_are_not_given_again(self, pair: Pair):
        post(pair.here, "demo-01/ACK.md")
        pair.put(pair.here, "demo-01/STATE.md", b"draft\n")
        for name in ("ACK.md", "STATE.md"):
            with pytest.raises(FileTaken), pair.here.lock():
                pair.here.begin_posting(f"demo-01/{name}", b"x")

    def test_links_are_neither_read_nor_written(self, pair: Pair):
        pair.put(pair.here, "secret.txt", b"secret\n")
        pair.link(pair.here, "demo-01/ACK.md", "../secret.txt")
        with pytest.raises(IsSymlink):
            pair.here.read_file("demo-01/ACK.md")
        with pytest.raises(IsSymlink):
            pair.here.write_file("demo-01/ACK.md", b"x", replace=True)
        assert list(pair.here.read_files("demo-01", ["ACK.md", "NONE.md"])) == [
            None,
            None,
        ]
        stamp = pair.here.stamp("demo-01/ACK.md")
        assert stamp is not None
        assert stamp.is_symlink

    def test_files_are_written_whole_and_not_over_others(self, pair: Pair):
        pair.here.write_file("new/deep/file.txt", b"1")
        with pytest.raises(FileTaken):
            pair.here.write_file("new/deep/file.txt", b"2")
        pair.here.write_file("new/deep/file.txt", b"3", replace=True)
        assert pair.here.read_file("new/deep/file.txt") == b"3"
        assert pair.here.has_directory("new")
        assert not pair.here.has_directory("new/deep/file.txt")
        assert pair.here.filenames("new/deep") == ["file.txt"]
        assert pair.here.filenames("nowhere") == []
        with pytest.raises(FileMissing):
            pair.here.read_file("new/none.txt")

    def test_a_survey_names_what_differs(self, pair: Pair):
        send(pair.here, "demo-01/A.md", b"1\n")
        send(pair.here, "demo-01/B.md", b"1\n")
        pair.put(pair.here, "demo-01/A.md", b"2\n")
        pair.put(pair.here, "demo-01/C.md", b"3\n")
        pair.put(pair.here, "demo-02/D.md", b"4\n")
        pair.put(pair.here, "dist/E.md", b"5\n")

        survey = pair.here.survey()
        dirty = {file.path: file for file in survey.dirty}

        assert set(dirty) == {"demo-01/A.md", "demo-01/C.md", "demo-02/", "dist/"}
        assert dirty["demo-01/A.md"].line == "M demo-01/A.md"
        assert dirty["demo-01/A.md"].differs_from_index
        assert dirty["demo-02/"].line == "?? demo-02/"
        assert {path: file.blob for path, file in survey.tracked().items()} == {
            path: pair.here.blob_id(b"1\n") for path in ("demo-01/A.md", "demo-01/B.md")
        }
        assert {thread: sorted(names) for thread, names in survey.names().items()} == {
            "demo-01": ["A.md", "B.md", "C.md"],
            "demo-02": ["D.md"],
        }
        assert set(pair.here.survey("demo-02").names()) == {"demo-02"}
        assert {file.path for file in pair.here.survey("demo-01").dirty} == {
            "demo-01/A.md",
            "demo-01/C.md",
        }

    def test_history_is_given_once_and_then_only_what_is_new(self, pair: Pair):
        root = pair.here.head().commit
        first = send(pair.here, "demo-01/A.md")
        second = send(pair.here, "demo-01/B.md")

        whole = pair.here.history(second)
        rest = pair.here.history(second, after=first)
        stranger = pair.here.history(second, after="f" * 40)

        commits = [*whole.commits]
        assert [record.commit for record in commits] == [root, first, second]
        assert whole.from_start
        assert [record.commit for record in rest.commits] == [second]
        assert not rest.from_start
        assert stranger.from_start
        assert pair.here.ancestry() == {root: (), first: (root,), second: (first,)}
        assert set(pair.here.committed_files(first)) == {"demo-01/A.md"}

    def test_a_lost_race_is_a_value_and_the_turn_is_rebuilt_under_the_next_name(
        self, pair: Pair
    ):
        theirs = send(pair.there, "demo-01/ACK.md", b"theirs\n")
        pair.put(pair.here, "notes.txt", b"mine\n")
        ours = post(pair.here, "demo-01/ACK.md", b"ours\n")

        assert isinstance(pair.here.push(WIRE, ours), Raced)
        with pair.here.lock():
            rebuilt = pair.here.rebuild(pair.here.fetch(WIRE))

        assert rebuilt == [
            Rebuilt(ours, "demo-01/ACK.md", "demo-01/ACK-2.md", pair.here.head().commit)
        ]
        [record] = pair.here.unpushed()
        assert record.subject == "ACK: demo-01/ACK-2.md"
        assert record.parents == (theirs,)
        assert pair.here.push(WIRE, record.commit) == Pushed(record.commit)
        assert pair.here.read_file("demo-01/ACK.md") == b"theirs\n"
        assert pair.here.read_file("demo-01/ACK-2.md") == b"ours\n"
        assert [file.line for file in pair.here.survey().dirty] == ["?? notes.txt"]

    def test_several_unpushed_turns_are_rebuilt_in_order(self, pair: Pair):
        send(pair.there, "demo-01/ACK.md", b"theirs\n")
        post(pair.here, "demo-01/ACK.md", b"1\n", "ACK: with a summary")
        post(pair.here, "demo-01/ACK-2.md", b"2\n")
        post(pair.here, "demo-02/STATE.md", b"3\n")

        with pair.here.lock():
            rebuilt = pair.here.rebuild(pair.here.fetch(WIRE))

        assert rebuilt is not None
        assert [turn.path for turn in rebuilt] == [
            "demo-01/ACK-2.md",
            "demo-01/ACK-3.md",
            "demo-02/STATE.md",
        ]
        assert [record.subject for record in reversed(pair.here.unpushed())] == [
            "ACK: with a summary",
            "ACK: demo-01/ACK-3.md",
            "ACK: demo-02/STATE.md",
        ]
        assert pair.here.read_file("demo-01/ACK-3.md") == b"2\n"

    def test_nothing_is_rebuilt_over_anything_but_appends(self, pair: Pair):
        send(pair.here, "demo-01/ACK.md", b"1\n")
        catch_up(pair.there)
        pair.commit_by_hand(pair.there, {"demo-01/ACK.md": b"rewritten\n"})
        ours = post(pair.here, "demo-01/STATE.md")
        with pair.here.lock():
            assert pair.here.rebuild(pair.here.fetch(WIRE)) is None
        assert pair.here.head().commit == ours

    def test_nothing_of_ours_but_appends_is_rebuilt(self, pair: Pair):
        send(pair.there, "demo-01/ACK.md")
        pair.put(pair.here, "README.txt", b"hi\n")
        ours = pair.commit_by_hand(pair.here, {"README.txt": b"hi\n"})
        with pair.here.lock():
            assert pair.here.rebuild(pair.here.fetch(WIRE)) is None
        assert pair.here.head().commit == ours

    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            ({"demo-01/A.md": b"other\n"}, [("M", "demo-01/A.md", None)]),
            ({"demo-01/A.md": None}, [("D", "demo-01/A.md", None)]),
            (
                {"demo-01/A.md": None, "demo-01/B.md": b"same content\n"},
                [("R", "demo-01/B.md", "demo-01/A.md")],
            ),
            ({"README.md": b"top\n"}, [("A", "README.md", None)]),
            ({}, []),
        ],
        ids=["modified", "deleted", "renamed", "outside", "empty"],
    )
    def test_what_a_remote_changed_is_named(
        self, pair: Pair, change: dict[str, bytes | None], expected: list[object]
    ):
        send(pair.here, "demo-01/A.md", b"same content\n")
        catch_up(pair.there)
        pair.commit_by_hand(pair.there, change)

        incoming = pair.here.compare(pair.here.fetch(WIRE))

        assert incoming.behind == 1
        assert [
            (found.status, found.path, found.old_path) for found in incoming.changes
        ] == expected

    def test_local_turns_are_not_called_deleted_when_both_sides_moved(self, pair: Pair):
        send(pair.there, "demo-01/THEIRS.md")
        post(pair.here, "demo-01/OURS.md")
        incoming = pair.here.compare(pair.here.fetch(WIRE))
        assert (incoming.ahead, incoming.behind) == (1, 1)
        assert [change.path for change in incoming.changes] == ["demo-01/THEIRS.md"]

    def test_a_change_hidden_inside_the_range_is_seen_commit_by_commit(
        self, pair: Pair
    ):
        base = pair.here.head().commit
        send(pair.there, "demo-01/A.md", b"first\n")
        pair.commit_by_hand(pair.there, {"demo-01/A.md": b"second\n"})
        tip = pair.here.fetch(WIRE)
        assert [change.status for change in pair.here.compare(tip).changes] == ["A"]
        statuses = [
            change.status
            for record in pair.here.commits_between(base, tip)
            for change in record.changes
        ]
        assert statuses == ["A", "M"]

    def test_a_file_in_the_way_of_a_fast_forward_is_named_and_kept(self, pair: Pair):
        head = pair.here.head()
        send(pair.there, "demo-01/A.md", b"theirs\n")
        pair.put(pair.here, "demo-01/A.md", b"mine\n")
        assert pair.here.fast_forward(pair.here.fetch(WIRE)) == InTheWay(
            ("demo-01/A.md",)
        )
        assert pair.here.read_file("demo-01/A.md") == b"mine\n"
        assert pair.here.head() == head

    def test_an_unreachable_remote_fails_in_words(self, pair: Pair):
        commit = post(pair.here, "demo-01/A.md")
        pair.cut_the_line()
        with pytest.raises(FetchFailed, match="git fetch failed"):
            pair.here.fetch(WIRE)
        with pytest.raises(PushFailed, match="git push origin main failed"):
            pair.here.push(WIRE, commit)

    def test_only_the_wire_branch_is_the_wire(self, pair: Pair):
        assert pair.here.wire() == WIRE == pair.here.upstream()
        with pytest.raises(
            UserError,
            match=r'branch "main" follows origin/main, but the bridge uses origin/other',
        ):
            pair.here.wire(branch="other")
        assert pair.alone.wire(pushing=False) is None
        with pytest.raises(UserError, match="no remote"):
            pair.alone.wire()

    def test_a_freeze_is_planted_once_seen_by_others_and_lifted(self, pair: Pair):
        assert pair.here.freeze(WIRE, "demo-01", "ours") == note(pair.here, "ours")
        assert isinstance(pair.there.freeze(WIRE, "demo-01", "theirs"), Raced)
        assert pair.there.ask_freeze(WIRE, "demo-01") == note(pair.here, "ours")
        assert pair.there.freezes() == {"demo-01": note(pair.here, "ours")}
        assert pair.there.freeze(
            WIRE, "demo-01", "theirs", replaces=note(pair.here, "ours")
        ) == note(pair.here, "theirs")

        pair.here.fetch(WIRE)
        assert pair.here.freezes() == {"demo-01": note(pair.here, "theirs")}
        assert pair.here.thaw(WIRE, "demo-01")
        pair.there.fetch(WIRE)
        assert pair.there.freezes() == {}
        assert not pair.there.thaw(WIRE, "demo-01")

    def test_a_freeze_the_remote_refuses_is_kept_here(self, pair: Pair):
        pair.refuse_freezes()
        assert pair.here.freeze(WIRE, "demo-01", "n") == note(
            pair.here, "n", only_here=True
        )
        pair.here.fetch(WIRE)
        assert pair.here.ask_freeze(WIRE, "demo-01") == note(
            pair.here, "n", only_here=True
        )
        assert pair.here.thaw(WIRE, "demo-01")
        assert pair.here.freezes() == {}

    def test_asking_about_a_freeze_without_a_line_gives_the_last_known_state(
        self, pair: Pair
    ):
        pair.here.freeze(WIRE, "demo-01", "n")
        pair.cut_the_line()
        assert pair.here.ask_freeze(WIRE, "demo-01") == note(pair.here, "n")

    def test_a_turn_that_must_be_signed_is_refused_without_a_key(self, pair: Pair):
        (Path(pair.here.root) / "demo-01").mkdir(exist_ok=True)
        with (
            pytest.raises(SigningFailed, match="signing failed"),
            pair.here.lock(),
            pair.here.begin_posting("demo-01/RELAY.md", b"x") as posting,
        ):
            posting.land("ACK (relay): x", must_sign=True)
        assert pair.here.survey().dirty == ()

    def test_a_signature_is_judged_by_the_file_of_signers(self, pair: Pair):
        plain = send(pair.here, "demo-01/A.md")
        pair.add_signing_key(pair.here)
        with (
            pair.here.lock(),
            pair.here.begin_posting("demo-01/RELAY.md", b"x") as posting,
        ):
            signed = posting.land("ACK (relay): x", must_sign=True)

        known = pair.here.check_signatures([plain, signed], pair.signers_file())
        stranger = pair.here.check_signatures([signed], None)

        assert known[plain].signature is Signature.NONE
        assert known[signed].signature is Signature.KNOWN
        assert known[signed].principal == "op1@example.com"
        assert known[signed].key_names[0] == pair.signer == pair.here.signing_key()
        assert stranger[signed].signature is Signature.STRANGER
        assert known[signed].holds and stranger[signed].holds and not known[plain].holds

    def test_an_excluded_path_and_a_hook_are_installed_once(self, pair: Pair):
        assert pair.here.exclude(".bridge/")
        assert not pair.here.exclude(".bridge/")
        assert not pair.here.has_commit_msg_hook()
        assert pair.here.install_commit_msg_hook(b"#!/bin/sh\nexit 0\n").endswith(
            "hooks/commit-msg"
        )
        assert pair.here.has_commit_msg_hook()
