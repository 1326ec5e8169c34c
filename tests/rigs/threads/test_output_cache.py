"""The state of a work tree tells every difference that an answer could show."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from bridgehead.rigs.operations import status as status_operation
from bridgehead.rigs.operations import thread as thread_operation
from bridgehead.rigs.operations.status import status
from bridgehead.rigs.operations.thread import thread_text
from bridgehead.rigs.repositories.git.repository import GitRepository
from bridgehead.rigs.repositories.git.survey import GitSurvey
from bridgehead.rigs.repositories.records import DirtyFile, Stamp
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.threads.output_cache import state_of
from rigs.support.git_world import World, envelope

LONG_AGO = Stamp(1, 100, 1, 1, False)
NOW = 10_000_000_000


class Seen(GitSurvey):
    branch = "main"
    ahead = 0

    def __init__(
        self,
        head: str = "c0ffee",
        index_text: str = "i1",
        dirty: Sequence[DirtyFile] = (),
        names: Sequence[str] = ("ACK.md",),
    ) -> None:
        self.head, self.index_text, self.dirty = head, index_text, tuple(dirty)
        self.directories = ["demo-01"]
        self._names = {"demo-01": list(names)}

    def tracked_paths(self) -> set[str]:
        return {"demo-01/ACK.md"}


def state(survey: GitSurvey, stamp: Stamp | None = LONG_AGO) -> str | None:
    return state_of(survey, lambda path: stamp, NOW)


@pytest.mark.parametrize(
    "other",
    [
        Seen(head="beef"),
        Seen(index_text="i2"),
        Seen(dirty=[DirtyFile(" M", "demo-01/ACK.md")]),
        Seen(names=["ACK.md", "LOOSE.md"]),
        Seen(names=[]),
    ],
)
def test_every_difference_is_another_state(other):
    assert state(other) not in (None, state(Seen()))


def test_a_file_git_vouches_for_is_not_even_looked_at():
    assert state_of(Seen(), lambda path: pytest.fail(path), NOW)


@pytest.mark.parametrize(
    "survey",
    [Seen(names=["LOOSE.md"]), Seen(dirty=[DirtyFile(" M", "demo-01/ACK.md")])],
    ids=["loose", "changed"],
)
def test_any_other_file_is_known_by_its_stamp(survey):
    assert state(survey) == state(survey, LONG_AGO)
    assert state(survey) != state(survey, LONG_AGO._replace(modified_ns=2))
    assert state(survey) != state(survey, LONG_AGO._replace(inode=2))


def test_a_file_that_was_just_written_leaves_the_state_open():
    assert (
        state(Seen(names=["LOOSE.md"]), LONG_AGO._replace(changed_ns=NOW - 1)) is None
    )


Said = tuple[str, str, object, list[str]]


@pytest.fixture(autouse=True)
def _short_answers_are_kept_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_operation, "WORTH_CACHING", 1)
    monkeypatch.setattr(thread_operation, "WORTH_CACHING", 1)


def rig_at(clone: Path, told: list[str]) -> Rig:
    return Rig(
        lambda: GitRepository(clone),
        now_ms=lambda: 1_800_000_000_000,
        random_bits=lambda bits: 0,
        sleep=lambda seconds: None,
        tell=told.append,
    )


def everything_said(clone: Path) -> Said:
    told: list[str] = []
    texts = [
        "".join(thread_text(rig_at(clone, told), "demo-01", as_json=as_json))
        for as_json in (0, 1)
    ]
    return (
        texts[0],
        texts[1],
        status(rig_at(clone, told), with_findings=True).json_object(),
        told,
    )


def said_afresh(clone: Path) -> Said:
    shutil.rmtree(clone / ".git/bridgehead")
    return everything_said(clone)


def test_an_answer_is_given_again_without_looking_at_the_envelopes(
    world, clone, monkeypatch
):
    world.commit(
        clone, {"demo-01/ACK.md": envelope("demo-01"), "demo-01/B.md": b"no envelope\n"}
    )
    before = everything_said(clone)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("nothing changed, so nothing is to be looked at")

    monkeypatch.setattr("bridgehead.rigs.operations.catalogue.catalogue", refuse)
    monkeypatch.setattr("bridgehead.rigs.operations.thread.catalogue", refuse)
    assert everything_said(clone) == before
    assert before[3] == ["warning: demo-01/B.md: parse_failed; not shown"] * 2


def test_after_any_outside_change_the_answer_is_the_fresh_one(
    world: World, clone: Path
) -> None:
    def git(*arguments: str) -> Callable[[], object]:
        return lambda: world.git(*arguments, at=clone)

    def write(name: str, content: bytes) -> Callable[[], object]:
        return lambda: (clone / "demo-01" / name).write_bytes(content)

    world.commit(
        clone, {"demo-01/ACK.md": envelope("demo-01"), ".gitignore": b"IGNORED.md\n"}
    )
    world.commit(
        clone,
        {
            "demo-01/B.md": envelope("demo-01", body="two\n"),
            "demo-02/A.md": envelope("demo-02"),
        },
    )
    changes = [
        write("ACK.md", envelope("demo-01", body="Hello\n")),  # same size, tracked
        git("add", "-A"),
        git("commit", "-qm", "rewritten"),
        git("reset", "-q", "--soft", "HEAD~1"),
        git("checkout", "-qf", "HEAD~1"),
        git("checkout", "-qf", "main"),
        write("IGNORED.md", envelope("demo-01", body="nobody tracks me\n")),
        write("IGNORED.md", envelope("demo-01", body="nobody tracks ME\n")),
        write("NEW.md", envelope("demo-01", date="2026-06-01")),
        git("clean", "-qfdx"),
        git("mv", "demo-01/B.md", "demo-01/C.md"),
        git("commit", "-q", "--amend", "-m", "moved"),
        git("reset", "-q", "--hard", "HEAD~1"),
    ]
    for number, change in enumerate(changes):
        everything_said(clone)
        change()
        said = everything_said(clone)
        assert said == everything_said(clone) == said_afresh(clone), (
            f"after change {number}"
        )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_the_newest_commits_tell_the_same_status_as_all_of_history(
    world, clone, monkeypatch, seed
):
    chance = random.Random(seed)
    world.commit(
        clone, {f"t{n}-x/A.md": envelope(f"t{n}-x") for n in range(4)}, push=False
    )
    for step in range(12):
        thread = f"t{chance.randrange(4)}-x"
        path = f"{thread}/{chance.choice('ABCD')}.md"
        date = chance.choice(["2026-05-15", "2026-05-16", "2026-05-16T10:00:00Z"])
        if chance.random() < 0.2 and (clone / path).exists():
            world.git("rm", "-q", "--", path, at=clone)
            world.git("commit", "-qm", "gone", at=clone)
        else:
            world.commit(
                clone, {path: envelope(thread, body=f"{step}\n", date=date)}, push=False
            )
        if chance.random() < 0.2:
            world.git("checkout", "-q", "-b", f"side{step}", "HEAD~1", at=clone)
            world.commit(
                clone, {f"{thread}/S{step}.md": envelope(thread, date=date)}, push=False
            )
            world.git("merge", "-q", "--no-edit", "-s", "ours", "main", at=clone)
            world.git("checkout", "-q", "-B", "main", at=clone)
        seen = []
        for worth in (0, 10_000):
            monkeypatch.setattr(status_operation, "WORTH_A_SHORT_CUT", worth)
            shutil.rmtree(clone / ".git/bridgehead", ignore_errors=True)
            seen.append(status(rig_at(clone, []), with_findings=True).json_object())
        assert seen[0] == seen[1]


def test_a_torn_answer_is_made_anew(world, clone):
    world.commit(clone, {"demo-01/ACK.md": envelope("demo-01")})
    before = everything_said(clone)
    kept = list((clone / ".git/bridgehead/answers").iterdir())

    for file in kept:
        file.write_bytes(file.read_bytes()[:-1])

    assert len(kept) == 3
    assert everything_said(clone) == before
