"""`python -m bench real --data DIR [--json FILE]`: joining and probability, judged on what real reviewers wrote.

DIR holds `comments.jsonl` (`pr`, `reviewer`, `text`, `problem`: the number of the problem it describes, or null) and
`problems.jsonl` (`pr`, `problem`, `severity`, `text`). Paths and lines are not in such data: words alone decide.

How it is counted. Pairs: the confirmed comments of a pull request are joined; of the pairs of different reviewers with
the same number, how many are in one group, and how many pairs in one group have the same number. Councils: all comments
of the chosen reviewers are joined; a group counts once when enough reviewers are in it, it is right when one of its
comments is confirmed, and it finds the problem that most of its comments name; recall is over all problems.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Final

from bridgehead.contract.words import OutputType
from bridgehead.council.findings.joining import Comment, join
from bridgehead.council.findings.wording import stem

FOUR: Final = ("claude", "gemini", "copilot", "coderabbit")
PLAIN_COSINE: Final = 0.3


@dataclass(frozen=True, slots=True)
class Review:
    """One comment of a reviewer, and the problem that it was matched to."""

    number: int
    pr: str
    reviewer: str
    text: str
    problem: int | None


@dataclass(frozen=True, slots=True)
class Data:
    reviews: tuple[Review, ...]
    problems: frozenset[tuple[str, int]]

    @property
    def reviewers(self) -> list[str]:
        return sorted({review.reviewer for review in self.reviews})

    def by_pull_request(self) -> list[list[Review]]:
        found: defaultdict[str, list[Review]] = defaultdict(list)
        for review in self.reviews:
            found[review.pr].append(review)
        return list(found.values())


@dataclass(frozen=True, slots=True)
class Score:
    precision: float
    recall: float

    @property
    def f1(self) -> float:
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    def as_document(self) -> dict[str, float]:
        return {
            "precision": round(self.precision, 4),
            "recall": round(self.recall, 4),
            "f1": round(self.f1, 4),
        }


Group = list[Review]
Joiner = Callable[[Sequence[Review]], list[Group]]


def read(folder: Path) -> Data:
    """Return the data of a folder."""
    comments = _lines(folder / "comments.jsonl")
    reviews = [
        Review(number, one["pr"], one["reviewer"], one["text"], one["problem"])
        for number, one in enumerate(comments)
    ]
    problems = [
        (one["pr"], one["problem"]) for one in _lines(folder / "problems.jsonl")
    ]
    return Data(tuple(reviews), frozenset(problems))


def _lines(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


# -- joiners


def ours(reviews: Sequence[Review]) -> list[Group]:
    """Join as a council does."""
    by_id = {f"C{review.number:05d}": review for review in reviews}
    comments = [
        Comment.of_text(name, OutputType.FINDING, review.text)
        for name, review in by_id.items()
    ]
    problems = join(comments, same_domain=False)
    return [[by_id[name] for name in problem.ids] for problem in problems]


class PlainCosine:
    """The yardstick: stems weighted by how often they are said and how rare they are in all of the data."""

    def __init__(self, data: Data) -> None:
        words = {
            review.number: Counter(map(stem, _plain_words(review.text)))
            for review in data.reviews
        }
        holders = Counter(word for counted in words.values() for word in counted)
        rarity = {
            word: math.log((1 + len(words)) / (1 + count)) + 1
            for word, count in holders.items()
        }
        self._vectors = {
            number: _unit(
                {
                    word: (1 + math.log(count)) * rarity[word]
                    for word, count in counted.items()
                }
            )
            for number, counted in words.items()
        }

    def likeness(self, one: Review, other: Review) -> float:
        return _dot(self._vectors[one.number], self._vectors[other.number])

    def pairs(self, reviews: Sequence[Review]) -> list[Group]:
        """Return every pair that is alike enough, as a group of its own."""
        return [
            [one, other]
            for one, other in combinations(reviews, 2)
            if self.likeness(one, other) > PLAIN_COSINE
        ]

    def join(self, reviews: Sequence[Review]) -> list[Group]:
        """Put each comment to the group whose first comment is most like it."""
        groups: list[Group] = []
        for review in reviews:
            alike = [
                (self.likeness(group[0], review), -place)
                for place, group in enumerate(groups)
            ]
            likeness, place = max(alike, default=(0.0, 0))
            if likeness > PLAIN_COSINE:
                groups[-place].append(review)
            else:
                groups.append([review])
        return groups


def _plain_words(text: str) -> list[str]:
    split = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text)
    return re.findall(r"[a-z]{3,}", split.lower())


def _unit(vector: dict[str, float]) -> dict[str, float]:
    length = math.hypot(*vector.values()) or 1.0
    return {word: weight / length for word, weight in vector.items()}


def _dot(one: dict[str, float], other: dict[str, float]) -> float:
    return math.fsum(one[word] * other[word] for word in one.keys() & other.keys())


# -- counting


def pairs(data: Data, joiner: Joiner, *, confirmed_only: bool = True) -> Score:
    """Return how many pairs of confirmed comments are joined, and how many of those belong together."""
    belonging = 0
    joined = 0
    right = 0
    for reviews in data.by_pull_request():
        confirmed = [review for review in reviews if review.problem is not None]
        belonging += sum(_is_one_problem(pair) for pair in _across(confirmed))
        for group in joiner(confirmed if confirmed_only else reviews):
            for pair in _across(one for one in group if one.problem is not None):
                joined += 1
                right += _is_one_problem(pair)
    return Score(_share(right, joined), _share(right, belonging))


def _across(reviews: Iterable[Review]) -> Iterator[tuple[Review, Review]]:
    """Yield the pairs of different reviewers."""
    for one, other in combinations(reviews, 2):
        if one.reviewer != other.reviewer:
            yield one, other


def _is_one_problem(pair: tuple[Review, Review]) -> bool:
    return pair[0].problem == pair[1].problem


def groups_of(
    data: Data, joiner: Joiner, reviewers: Iterable[str], agreeing: int
) -> list[Group]:
    """Return the groups in which so many of the reviewers agree."""
    chosen = frozenset(reviewers)
    found: list[Group] = []
    for reviews in data.by_pull_request():
        theirs = [review for review in reviews if review.reviewer in chosen]
        for group in joiner(theirs):
            if len({review.reviewer for review in group}) >= agreeing:
                found.append(group)
    return found


def council(
    data: Data, joiner: Joiner, reviewers: Iterable[str], agreeing: int
) -> Score:
    """Return how good a council of the reviewers is."""
    groups = groups_of(data, joiner, reviewers, agreeing)
    named = [_problem_of(group) for group in groups]
    found = {problem for problem in named if problem is not None}
    right = len(named) - named.count(None)
    return Score(_share(right, len(groups)), _share(len(found), len(data.problems)))


def _problem_of(group: Group) -> tuple[str, int] | None:
    """Return the problem that most of its comments name."""
    named = Counter(one.problem for one in group if one.problem is not None)
    return (group[0].pr, named.most_common(1)[0][0]) if named else None


def single(data: Data, reviewer: str) -> Score:
    """Return how good one reviewer is; every comment counts."""
    return council(
        data, lambda reviews: [[review] for review in reviews], [reviewer], 1
    )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


# -- printing


def main(arguments: Sequence[str]) -> int:
    """Print the table; with `--json`, write the figures too."""
    parser = argparse.ArgumentParser(prog="bench real", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    data = read(options.data)
    cosine = PlainCosine(data)
    figures: dict[str, Any] = {
        "pairs": pairs(data, ours).as_document(),
        "pairs_among_all": pairs(data, ours, confirmed_only=False).as_document(),
        "four": council(data, ours, FOUR, 2).as_document(),
        "twelve": council(data, ours, data.reviewers, 3).as_document(),
        "cosine": {
            "pairs": pairs(data, cosine.pairs).as_document(),
            "four": council(data, cosine.join, FOUR, 2).as_document(),
            "twelve": council(data, cosine.join, data.reviewers, 3).as_document(),
        },
        "single": {name: single(data, name).as_document() for name in data.reviewers},
    }
    sys.stdout.write(_table(figures))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))
    return 0


def _table(figures: dict[str, Any]) -> str:
    rows = [
        ("pairs joined, confirmed comments alone", figures["pairs"]),
        ("  joined among all comments", figures["pairs_among_all"]),
        ("  plain cosine above .3", figures["cosine"]["pairs"]),
        ("four reviewers, two agree", figures["four"]),
        ("  plain cosine", figures["cosine"]["four"]),
        ("all reviewers, three agree", figures["twelve"]),
        ("  plain cosine", figures["cosine"]["twelve"]),
        *sorted(figures["single"].items(), key=lambda row: -float(row[1]["f1"])),
    ]
    lines = [f"{'':42}{'precision':>10}{'recall':>8}{'F1':>6}"]
    for name, score in rows:
        lines.append(
            f"{name:42}{score['precision']:>10.2f}{score['recall']:>8.2f}{score['f1']:>6.2f}"
        )
    return "\n".join(lines) + "\n"
