"""What a rig finds on its desk is the same whether or not threads were found idle before."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from bridgehead.rigs.operations.catalogue import catalogue
from bridgehead.rigs.operations.inbox import Desk, desk, look_at
from bridgehead.rigs.repositories.git.repository import GitRepository
from bridgehead.rigs.repositories.git.survey import GitSurvey, WorkTreeState
from bridgehead.rigs.repositories.records import SignatureCheck
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.threads import index, output_cache
from bridgehead.rigs.threads.crossings import Crossings, IdleThreads, Seen
from bridgehead.rigs.threads.index import EnvelopeIndex
from bridgehead.rigs.threads.quarantine import KeptApart, Quarantine
from bridgehead.rigs.trust.attestation import Signature
from rigs.support.git_world import World, envelope

OWN = "rig-z"
THREADS = ("demo-01", "demo-02", "demo-03")
KINDS = ("REQUEST", "RESPONSE", "RESULT", "ACK", "STATE", "VERIFY")


class Place:
    """A clone of rig-z, and what may happen in it."""

    def __init__(self, world: World, clone: Path) -> None:
        self.world, self.clone = world, clone
        self.private = clone / ".git" / "bridgehead"
        self._count = 0
        self.configure()

    def configure(self, *lines: str) -> None:
        (self.clone / ".bridge").mkdir(exist_ok=True)
        (self.clone / ".bridge" / "config.yaml").write_text(
            "\n".join([f"rig_id: {OWN}", *lines, ""])
        )

    def rig(self) -> Rig:
        return Rig(
            lambda: GitRepository(self.clone),
            now_ms=lambda: 0,
            random_bits=lambda _count: 0,
            sleep=lambda _seconds: None,
            tell=lambda _text: None,
        )

    def post(
        self, thread: str, kind: str, sender: str = "rig-a", *, name: str = ""
    ) -> str:
        self._count += 1
        path = f"{thread}/{name or f'{kind}-{self._count}'}.md"
        text = envelope(thread, sender, kind=kind, body=f"{self._count}\n")
        text = text.replace(b"to: rig-z", b"to: rig-a") if sender == OWN else text
        self.world.commit(self.clone, {path: text}, push=False)
        return path

    def paths(self) -> list[str]:
        return sorted(
            str(found.relative_to(self.clone))
            for found in self.clone.glob("demo-*/*.md")
        )

    def desk(self) -> Desk:
        return desk(self.rig())

    def desk_without_knowing_any_thread_to_be_idle(self) -> Desk:
        (self.private / "idle.json").unlink(missing_ok=True)
        rig = self.rig()
        return desk(rig, catalogue(rig, with_findings=True))


@pytest.fixture
def place(world: World, clone: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Directories count as left alone at once: no test waits for seconds."""
    monkeypatch.setattr(output_cache, "_RACY_NS", 0)
    return Place(world, clone)


def rewrite_history(place: Place, _chance: random.Random) -> None:
    place.world.git(
        "commit",
        "-q",
        "--amend",
        "-m",
        f"again {place.world.head(place.clone)}",
        at=place.clone,
    )


def set_back(place: Place, _chance: random.Random) -> None:
    place.world.git("reset", "-q", "--hard", "HEAD~1", at=place.clone)


def delete(place: Place, chance: random.Random) -> None:
    (place.clone / chance.choice(place.paths())).unlink()


def restore(place: Place, _chance: random.Random) -> None:
    place.world.git("checkout", "-q", "--", ".", at=place.clone)


def leave_uncommitted(place: Place, chance: random.Random) -> None:
    thread = chance.choice(THREADS)
    (place.clone / thread).mkdir(exist_ok=True)
    (place.clone / thread / "ACK-loose.md").write_bytes(envelope(thread, OWN))


def look(place: Place, chance: random.Random) -> None:
    Seen(place.private).note(chance.sample(place.paths(), 2))


def cross(place: Place, chance: random.Random) -> None:
    path, *others = chance.sample(place.paths(), 3)
    Crossings(place.private).note(path, others)


def keep_apart(place: Place, chance: random.Random) -> None:
    path = chance.choice(place.paths())
    blob = place.world.git("hash-object", path, at=place.clone).strip()
    place.private.mkdir(exist_ok=True)
    Quarantine(place.private).change(
        [KeptApart(path, blob, ("body_hash_mismatch",), "")]
    )


def take_in(place: Place, _chance: random.Random) -> None:
    quarantine = Quarantine(place.private)
    quarantine.change((), cleared=[entry.path for entry in quarantine.entries])


def demand_signatures(place: Place, chance: random.Random) -> None:
    place.configure(f"require_signed: {chance.choice(['all', 'none', 'members'])}")


def close(place: Place, chance: random.Random) -> None:
    place.post(chance.choice(THREADS), "RESOLUTION", name="RESOLUTION")


def post(place: Place, chance: random.Random) -> None:
    place.post(
        chance.choice(THREADS),
        chance.choice(KINDS),
        chance.choice(["rig-a", "rig-b", OWN]),
    )


RARE: Sequence[Callable[[Place, random.Random], None]] = (
    rewrite_history,
    set_back,
    delete,
    restore,
    leave_uncommitted,
    look,
    cross,
    keep_apart,
    take_in,
    demand_signatures,
    close,
)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens_nothing_is_missed(place: Place, seed: int) -> None:
    chance = random.Random(seed)
    for thread in THREADS:
        place.post(thread, "REQUEST")
        place.post(thread, "RESPONSE", OWN)
    happening = [*RARE, *RARE, *[post] * len(RARE)]
    chance.shuffle(happening)
    for happen in happening:
        happen(place, chance)
        found = place.desk()
        known_idle = shutil.copy(
            place.private / "idle.json", place.clone.parent / "idle.json"
        )
        assert found == place.desk_without_knowing_any_thread_to_be_idle(), (
            happen.__name__
        )
        shutil.copy(known_idle, place.private / "idle.json")


def asked(place: Place) -> list[str]:
    return sorted(debt.asked.turn.thread_id for debt in place.desk().owes)


def answered(place: Place, threads: Iterable[str] = THREADS) -> None:
    for thread in threads:
        place.post(thread, "REQUEST")
        place.post(thread, "RESPONSE", OWN)


def test_a_question_that_crossed_with_its_answer_waits_after_all(place: Place) -> None:
    question, answer = (
        place.post("demo-01", "REQUEST"),
        place.post("demo-01", "RESPONSE", OWN),
    )
    assert asked(place) == []
    Crossings(place.private).note(answer, [question])
    assert asked(place) == ["demo-01"]


def test_an_answer_that_should_have_been_signed_answers_nothing(
    place: Place, make_key: Callable[[str], Path]
) -> None:
    answered(place, ["demo-01"])
    assert asked(place) == []
    signers = place.clone.parent / "signers"
    signers.write_text(f"{OWN} {make_key('own').read_text().strip()} since=0\n")
    place.configure(f"allowed_signers: {signers}")
    assert asked(place) == ["demo-01"]


def test_the_same_files_in_another_order_mean_something_else(place: Place) -> None:
    place.post("demo-02", "STATE")
    start = place.world.head(place.clone)
    question, answer = (
        place.post("demo-01", "REQUEST"),
        place.post("demo-01", "RESPONSE", OWN),
    )
    assert asked(place) == []
    texts = {path: (place.clone / path).read_bytes() for path in (answer, question)}
    place.world.git("reset", "-q", "--hard", start, at=place.clone)
    for path, text in texts.items():
        place.world.commit(place.clone, {path: text}, push=False)
    assert asked(place) == ["demo-01"]


def test_where_nothing_waits_no_file_is_looked_at(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered(place)
    assert asked(place) == []
    monkeypatch.setattr(
        GitSurvey, "_state", lambda *_arguments: pytest.fail("git status")
    )
    monkeypatch.setattr(
        EnvelopeIndex, "thread", lambda _index, name: pytest.fail(f"{name} was read")
    )
    assert asked(place) == []


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """What git was told to look at, each time it was asked for the status."""
    asked_for: list[Sequence[str]] = []
    ask = GitSurvey._state

    def note(survey: GitSurvey, some: Sequence[str], **flags: bool) -> WorkTreeState:
        asked_for.append(some)
        return ask(survey, some, **flags)

    monkeypatch.setattr(GitSurvey, "_state", note)
    return asked_for


def test_where_something_waits_a_file_that_is_changed_in_place_is_noticed(
    place: Place, limits: list[Sequence[str]]
) -> None:
    answered(place)
    place.post("demo-02", "REQUEST", name="REQUEST-new")
    assert asked(place) == ["demo-02"]
    limits.clear()
    assert asked(place) == ["demo-02"]
    assert limits == []
    (place.clone / "demo-02" / "REQUEST-new.md").write_bytes(
        envelope("demo-02", kind="STATE")
    )
    assert asked(place) == []
    assert limits == [("--", "demo-02")]


def test_a_file_that_was_changed_lately_is_looked_at_again(
    place: Place, limits: list[Sequence[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    question = place.clone / place.post("demo-02", "REQUEST")
    asked(place)
    before = question.parent.stat().st_ctime_ns
    question.touch()
    between = (before + question.stat().st_ctime_ns) // 2
    assert before < between
    (place.private / "idle.json").unlink()
    monkeypatch.setattr(index, "time", SimpleNamespace(time_ns=lambda: between))
    asked(place)
    limits.clear()
    assert asked(place) == ["demo-02"]
    assert limits == [("--", "demo-02")]


def test_git_is_not_given_a_list_of_many_threads(
    place: Place, limits: list[Sequence[str]]
) -> None:
    threads = [f"demo-{number:02}" for number in range(13)]
    for thread in threads:
        place.post(thread, "REQUEST")
    place.post("demo-99", "STATE")
    assert asked(place) == threads
    limits.clear()
    for thread in threads:
        place.post(thread, "STATE")
    assert asked(place) == threads
    assert limits == [("--",)]


def test_a_damaged_note_of_idle_threads_is_no_note(place: Place) -> None:
    answered(place)
    assert asked(place) == []
    kept = (place.private / "idle.json").read_text()
    for damaged in ("", "[]", '{"threads":[]}', '{"threads":{}}', "\x00", kept[:-9]):
        (place.private / "idle.json").write_text(damaged)
        assert IdleThreads(place.private).marks == {}
        assert asked(place) == []
        assert IdleThreads(place.private).marks.keys() == set(THREADS)


def test_rows_that_turn_out_to_be_damaged_are_read_anew_also_where_nothing_waits(
    place: Place,
) -> None:
    answered(place)
    place.post("demo-02", "REQUEST")
    assert asked(place) == ["demo-02"]
    rows = place.private / "envelopes.idx"
    start, listed, content = rows.read_bytes().split(b"\n", 2)
    rows.write_bytes(
        b"\n".join([start, listed, content.replace(b"REQUEST", b"request")])
    )
    assert asked(place) == ["demo-02"]
    assert len(look_at(place.rig()).envelopes()) == 7


def test_a_question_whose_signature_could_not_be_checked_comes_back_once_it_can(
    place: Place, make_key: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = make_key("mike")
    for name, value in (
        ("gpg.format", "ssh"),
        ("user.signingkey", str(key)),
        ("commit.gpgsign", "true"),
    ):
        place.world.git("config", name, value, at=place.clone)
    signers = place.clone.parent / "signers"
    signers.write_text(f"rig-a {key.read_text()}")
    place.configure(f"allowed_signers: {signers}", "require_signed: all")
    place.post("demo-01", "REQUEST")
    with monkeypatch.context() as patched:
        broken = SignatureCheck(Signature.BAD)
        patched.setattr(
            GitRepository,
            "check_signatures",
            lambda _self, commits, _file: dict.fromkeys(commits, broken),
        )
        assert asked(place) == []
    assert asked(place) == ["demo-01"]


def test_a_look_that_is_handed_in_may_have_passed_idle_threads_over(
    place: Place,
) -> None:
    answered(place)
    assert asked(place) == []
    (place.clone / "demo-01" / "REQUEST-1.md").write_bytes(
        envelope("demo-01", kind="STATE")
    )
    rig = place.rig()
    assert look_at(rig).survey.dirty == ()
    assert [file.path for file in catalogue(rig).survey.dirty] == [
        "demo-01/REQUEST-1.md"
    ]
