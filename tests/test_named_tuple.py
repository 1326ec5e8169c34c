"""Our quick `NamedTuple` is, for whoever uses it, the one of `typing`."""

from __future__ import annotations

import copy
import pickle
import typing

import pytest

from bridgehead.named_tuple import NamedTuple


class Ours(NamedTuple):
    name: str
    number: int = 7
    tags: tuple[str, ...] = ()

    @property
    def doubled(self) -> int:
        return self.number * 2

    @classmethod
    def made(cls, name: str) -> Ours:
        return cls(name, number=1)


class Theirs(typing.NamedTuple):
    name: str
    number: int = 7
    tags: tuple[str, ...] = ()


ARGUMENTS: list[tuple[tuple[typing.Any, ...], dict[str, typing.Any]]] = [
    (("a",), {}),
    (("a", 1, ("x",)), {}),
    (("a",), {"tags": ("y",)}),
    ((), {"name": "a", "number": 2}),
    ((), {"tags": (), "number": 2, "name": "a"}),
]
WRONG: list[tuple[tuple[typing.Any, ...], dict[str, typing.Any]]] = [
    ((), {}),
    ((), {"number": 1}),
    (("a", 1, (), "more"), {}),
    (("a", 1, (), "more"), {"number": 1}),
    (("a",), {"name": "twice"}),
    (("a",), {"unknown": 1}),
]


@pytest.mark.parametrize(("given", "named"), ARGUMENTS)
def test_one_is_made_shown_and_changed_like_the_other(given: typing.Any, named: typing.Any) -> None:
    ours, theirs = Ours(*given, **named), Theirs(*given, **named)
    assert ours == theirs
    assert hash(ours) == hash(theirs)
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
    assert ours._asdict() == theirs._asdict()
    assert ours._replace(number=9) == theirs._replace(number=9)
    assert type(ours._replace(number=9)) is Ours
    assert (ours.name, ours.number, ours.tags) == tuple(theirs)


@pytest.mark.parametrize(("given", "named"), WRONG)
def test_what_does_not_fit_is_refused_by_both(given: typing.Any, named: typing.Any) -> None:
    for kind in (Ours, Theirs):
        with pytest.raises(TypeError):
            kind(*given, **named)


def test_an_unknown_field_cannot_be_replaced() -> None:
    with pytest.raises(TypeError):
        Ours("a")._replace(unknown=1)  # type: ignore[call-arg]


def test_the_declaration_tells_the_same() -> None:
    assert Ours._fields == Theirs._fields
    assert Ours._field_defaults == Theirs._field_defaults
    assert typing.get_type_hints(Ours) == typing.get_type_hints(Theirs)
    assert Ours.__match_args__ == Theirs.__match_args__


def test_it_cannot_be_changed() -> None:
    ours = Ours("a")
    with pytest.raises(AttributeError):
        ours.number = 8  # type: ignore[misc]
    with pytest.raises(AttributeError):
        ours.other = 8  # type: ignore[attr-defined]


def test_it_has_methods_and_can_be_copied_and_pickled() -> None:
    ours = Ours.made("a")
    assert ours.doubled == 2
    for twin in (copy.copy(ours), copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert (twin, type(twin)) == (ours, Ours)


def test_it_is_matched_by_place() -> None:
    match Ours("a", 3):
        case Ours(name, number):
            assert (name, number) == ("a", 3)
