"""What git says is read byte for byte: odd names, odd places, odd states, and no git at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bridgehead.errors import FileError, ProcessError, UserError
from bridgehead.rigs.repositories.errors import GitFailed
from bridgehead.rigs.repositories.git.command import Git, GitAnswer, require_success
from bridgehead.rigs.repositories.git.repository import GitRepository
from bridgehead.rigs.repositories.git.survey import parse_status
from rigs.support.git_world import World, envelope

ODD_NAMES = [
    "plain.md",
    "with blank.md",
    "café.md",
    'quote".md',
    "back\\slash.md",
    "tab\there.md",
    "line\nbreak.md",
    "-x.md",
    "--force.md",
    ":(glob)*.md",
    "*.md",
    "# branch.oid abc.md",
    "? .md",
    os.fsdecode(b"not-utf8-\xff.md"),
]


def test_dirty_lines_are_those_of_git_status(world: World, clone: Path):
    world.commit(
        clone,
        {
            "old name.txt": b"moved content\n" * 20,
            "gone.txt": b"g",
            "changed.txt": b"c",
        },
    )
    for name in ODD_NAMES:
        (clone / name).write_text("x")
    world.git("mv", "old name.txt", "# new.txt", at=clone)
    (clone / "gone.txt").unlink()
    (clone / "changed.txt").write_text("other")
    world.git("add", "--", "café.md", at=clone)
    (clone / "demo-01").mkdir()
    (clone / "demo-01/A.md").write_text("x")

    dirty = GitRepository(clone).survey().dirty

    assert [file.line for file in dirty] == [
        line.strip()
        for line in world.git("status", "--porcelain", at=clone).splitlines()
    ]
    assert set(ODD_NAMES) <= {file.path for file in dirty}
    assert [(file.origin, file.path) for file in dirty if file.origin] == [
        ("old name.txt", "# new.txt")
    ]


def test_conflicts_are_dirty_and_have_no_blob(world, clone):
    world.commit(clone, {"demo-01/A.md": b"base\n"})
    world.git("checkout", "-q", "-b", "side", at=clone)
    world.commit(clone, {"demo-01/A.md": b"side\n"}, push=False)
    world.git("checkout", "-q", "main", at=clone)
    world.commit(clone, {"demo-01/A.md": b"main\n"})
    world.git("merge", "-q", "side", at=clone, check=False)
    survey = GitRepository(clone).survey()
    assert [file.line for file in survey.dirty] == ["UU demo-01/A.md"]
    assert survey.dirty[0].differs_from_index
    assert survey.tracked()["demo-01/A.md"].blob is None


def test_a_status_without_anything_is_read():
    state = parse_status([])
    assert (state.commit, state.ahead, state.dirty) == (None, 0, ())


def test_odd_names_travel_through_history_blobs_and_diffs(world, clone, other_clone):
    files = {
        f"demo-01/{name}": f"{index}\n".encode() for index, name in enumerate(ODD_NAMES)
    }
    base = world.head(clone)
    tip = world.commit(clone, files)
    repository = GitRepository(clone)
    [record] = repository.commits_between(base, tip)
    assert {change.path for change in record.changes} == set(files)
    blobs = repository.read_blobs([change.blob for change in record.changes])
    assert {change.path: blobs[change.blob] for change in record.changes} == files
    assert {
        path: entry.blob for path, entry in repository.committed_files(tip).items()
    } == {path: repository.blob_id(content) for path, content in files.items()}
    there = GitRepository(other_clone)
    fetched = there.fetch(there.upstream())
    assert {change.path for change in there.compare(fetched).changes} == set(files)
    assert there.is_tracked("demo-01/*.md") is False
    assert repository.is_tracked("demo-01/*.md") is True
    assert repository.is_tracked("demo-01") is False


def test_objects_that_are_missing_or_too_large_read_as_nothing(
    world, clone, monkeypatch
):
    from bridgehead.rigs.repositories.git import history

    monkeypatch.setattr(history, "MAX_FILE_BYTES", 100)
    world.commit(clone, {"small": b"s" * 100, "large": b"l" * 101, "empty": b""})
    repository = GitRepository(clone)
    ids = {
        content: repository.blob_id(content)
        for content in (b"s" * 100, b"l" * 101, b"")
    }
    found = repository.read_blobs([*ids.values(), "0" * 40])
    assert found == {
        ids[b"s" * 100]: b"s" * 100,
        ids[b"l" * 101]: None,
        ids[b""]: b"",
        "0" * 40: None,
    }
    assert repository.read_blobs([]) == {}


def test_outside_a_work_tree_there_is_nothing_to_open(world, tmp_path):
    for place in (tmp_path / "home", world.remote, world.base / "a" / ".git"):
        with pytest.raises(UserError, match="cwd is not inside a git repo") as refused:
            GitRepository(place)
        assert refused.value.exit_code == 1


def test_a_machine_without_git_is_told_so(clone, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(ProcessError, match="git was not found") as failed:
        GitRepository(clone)
    assert failed.value.exit_code == 2


def test_a_git_that_does_not_come_back_is_stopped(clone, tmp_path, monkeypatch):
    fake = tmp_path / "bin/git"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nexec sleep 600\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    with pytest.raises(ProcessError, match=r"git fetch did not end within 0\.05 s"):
        Git(str(clone)).ask("fetch", timeout_seconds=0.05)


@pytest.mark.parametrize(
    ("says", "kind", "code"),
    [
        (
            "fatal: unable to write new index file: No space left on device",
            FileError,
            2,
        ),
        ("error: unable to create temporary file: Permission denied", FileError, 2),
        ("fatal: bad object HEAD", GitFailed, 1),
    ],
)
def test_disk_and_permission_faults_are_the_worlds_failure(says, kind, code):
    with pytest.raises(kind) as failed:
        require_success("write-tree", GitAnswer(128, b"", says))
    assert failed.value.exit_code == code
    assert says.partition(": ")[2] in str(failed.value)


def test_a_directory_below_the_top_and_a_relative_git_dir_find_the_same_place(
    world, clone, monkeypatch
):
    (clone / "demo-01").mkdir()
    world.commit(clone, {"demo-01/A.md": envelope("demo-01")})
    below = GitRepository(clone / "demo-01")
    assert below.root == GitRepository(clone).root == str(clone)
    monkeypatch.setenv("GIT_DIR", "../.git")
    monkeypatch.setenv("GIT_WORK_TREE", "..")
    monkeypatch.setenv("GIT_INDEX_FILE", str(clone / ".git/index"))
    from_hook = GitRepository(clone / "demo-01")
    assert from_hook.root == str(clone)
    assert from_hook.survey().dirty == ()
    assert set(from_hook.survey().tracked()) == {"demo-01/A.md"}


def test_a_path_with_a_line_break_is_refused_in_words(world, tmp_path):
    world.git("init", "-q", "odd\nplace")
    with pytest.raises(UserError, match="line break"):
        GitRepository(tmp_path / "odd\nplace")


def test_the_exclude_file_is_added_to_and_kept(world, clone):
    exclude = clone / ".git/info/exclude"
    exclude.write_bytes(b"# mine\n*.log")
    assert GitRepository(clone).exclude(".bridge/")
    assert exclude.read_bytes() == b"# mine\n*.log\n.bridge/\n"
    exclude.unlink()
    exclude.parent.rmdir()
    assert GitRepository(clone).exclude(".bridge/")
    assert exclude.read_bytes() == b".bridge/\n"


def test_settings_that_git_did_not_read_are_not_taken_for_none(
    world: World, clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A HEAD that cannot be read, for a moment, makes git list the user's settings only."""
    asked = Git.ask

    def ask(self: Git, *arguments: str, **options: object) -> GitAnswer:
        if arguments[0] == "config":
            return GitAnswer(0, b"user.name\nOp One\0", "")
        return asked(self, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Git, "ask", ask)
    with pytest.raises(GitFailed, match="did not read the settings"):
        GitRepository(clone).wire(pushing=True)


@pytest.mark.parametrize("kept", ["plain", "flags", "split", "sparse", "sha256"])
def test_what_the_index_lists_is_tracked_however_git_keeps_it(
    world: World, kept: str
) -> None:
    """Names are sorted there, so that its beginning mostly says what it lacks."""
    world.git(
        "init",
        "-q",
        *(["--object-format=sha256"] if kept == "sha256" else []),
        "kept",
        at=world.base,
    )
    place = world.base / "kept"
    listed = [
        ".a",
        ".bridge/config.yaml",
        ".c/deep/x.md",
        *(f"thr-{number:03d}/ACK.md" for number in range(300)),
    ]
    for path in listed:
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(path)
    if kept == "flags":
        world.git("add", "--intent-to-add", ".a", at=place)
    world.git("add", "--all", *([":!.a"] if kept == "flags" else []), at=place)
    world.git(
        "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "all", at=place
    )
    if kept == "split":
        world.git("update-index", "--split-index", at=place)
    if kept == "sparse":
        world.git(
            "sparse-checkout", "set", "--cone", "--sparse-index", "thr-000", at=place
        )

    repository = GitRepository(place)

    assert [path for path in listed if not repository.is_tracked(path)] == []
    absent = [
        ".",
        ".bridge",
        ".bridge/",
        ".bridge/config.yam",
        ".bridge/config.yamlx",
        ".c/deep/y.md",
        "thr-000",
        "z",
    ]
    assert [path for path in absent if repository.is_tracked(path)] == []


@pytest.mark.parametrize(
    ("change", "dirty"),
    [
        ("none", []),
        ("another thread", []),
        ("edited", ["M demo-01/A.md"]),
        ("gone", ["D demo-01/A.md"]),
        ("new", ["?? demo-01/C.md"]),
        ("staged", ["A  demo-01/C.md"]),
        ("link", ["T demo-01/A.md"]),
        ("below", ["?? demo-01/deep/"]),
    ],
)
def test_a_thread_of_few_files_is_seen_as_it_is(
    world: World, clone: Path, change: str, dirty: list[str]
) -> None:
    head = world.commit(
        clone, {"demo-01/A.md": b"a", "demo-01/B.md": b"b", "demo-02/A.md": b"other"}
    )
    thread = clone / "demo-01"
    if change == "another thread":
        (clone / "demo-02/A.md").write_text("changed")
    elif change in ("new", "staged"):
        (thread / "C.md").write_text("c")
        world.git(
            "add",
            *(["demo-01"] if change == "staged" else ["--dry-run", "."]),
            at=clone,
        )
    elif change == "below":
        (thread / "deep").mkdir()
        (thread / "deep/x.md").write_text("x")
    elif change != "none":
        (thread / "A.md").unlink()
        if change == "edited":
            (thread / "A.md").write_text("A")
        if change == "link":
            (thread / "A.md").symlink_to("B.md")

    survey = GitRepository(clone).survey("demo-01")

    assert survey.head == head
    assert [file.line.strip() for file in survey.dirty] == dirty
    staged = world.git("ls-files", "-z", "demo-01", at=clone).split("\0")[:-1]
    assert list(survey.tracked()) == staged
