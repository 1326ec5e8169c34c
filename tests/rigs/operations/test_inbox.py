"""What a rig finds in its inbox, whatever happened in its clone since it looked last."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from bridgehead.rigs.operations.inbox import InboxContents, inbox_contents
from bridgehead.rigs.repositories.git.repository import GitRepository
from bridgehead.rigs.repositories.index import remove_index
from bridgehead.rigs.repositories.records import SignatureCheck
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.threads.crossings import Crossings, Seen
from bridgehead.rigs.threads.quarantine import Quarantine, QuarantineEntry
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

    def contents(self) -> InboxContents:
        return inbox_contents(self.rig())

    def contents_of_a_new_index(self) -> InboxContents:
        remove_index(self.private)
        return self.contents()


@pytest.fixture
def place(world: World, clone: Path) -> Place:
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
        [QuarantineEntry(path, blob, ("body_hash_mismatch",), "")]
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
        found = place.contents()
        assert found == place.contents_of_a_new_index(), happen.__name__


def asked(place: Place) -> list[str]:
    return sorted(debt.asked.turn.thread_id for debt in place.contents().owes)


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


def test_a_file_that_is_changed_in_place_is_noticed(place: Place) -> None:
    answered(place)
    place.post("demo-02", "REQUEST", name="REQUEST-new")
    assert asked(place) == ["demo-02"]
    (place.clone / "demo-02" / "REQUEST-new.md").write_bytes(
        envelope("demo-02", kind="STATE")
    )
    assert asked(place) == []


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
