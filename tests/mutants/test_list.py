"""The list of `make mutate` fits the source: a line that was moved or reworded takes its mutant with it."""

from __future__ import annotations

from collections import Counter

from tools.mutate import problem, read_list

LEAST = 250


def test_every_mutant_can_be_tried() -> None:
    assert [
        f"{mutant}: {why}" for mutant in read_list() if (why := problem(mutant))
    ] == []


def test_the_list_is_long_enough_and_names_nothing_twice() -> None:
    mutants = read_list()
    assert len(mutants) >= LEAST
    twice = Counter(
        (mutant.file, mutant.text, mutant.replacement) for mutant in mutants
    )
    assert [entry for entry, count in twice.items() if count > 1] == []
    names = Counter(map(str, mutants))
    assert [name for name, count in names.items() if count > 1] == []
