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
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import msgspec

from bridgehead.contract.words import OutputType
from bridgehead.council.findings.acted_on import ActedOn
from bridgehead.council.findings.joining import Comment, join
from bridgehead.council.findings.probability import (
    Prior,
    Signs,
    probability,
    shipped_prior,
)
from bridgehead.council.findings.wording import stem

FOUR: Final = ("claude", "gemini", "copilot", "coderabbit")
PLAIN_COSINE: Final = 0.3
BINS: Final = 10
USUAL_RATE: Final = 0.34
SIZES: Final = (2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 6, 6, 6, 8, 8)
STEPS: Final = 25
RIDGE: Final = 0.001


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


# -- probability


@dataclass(frozen=True, slots=True)
class Guess:
    """What was said of a group, and whether it was right."""

    probability: float
    is_right: bool


def guesses(data: Data, reviewers: Iterable[str], prior: Prior) -> list[Guess]:
    """Return for each group of a council how likely it was called, and whether somebody confirmed it."""
    chosen = tuple(reviewers)
    found: list[Guess] = []
    for group in groups_of(data, ours, chosen, 1):
        seats = tuple(sorted({review.reviewer for review in group}))
        signs = Signs(seats=seats, families=len(seats), looked=len(chosen))
        estimate = probability(signs, ActedOn(), prior)
        found.append(Guess(estimate.value, _problem_of(group) is not None))
    return found


def calibration_error(found: Sequence[Guess]) -> float:
    """Return how far the guesses are from what was right, in ten bins."""
    bins: defaultdict[int, list[Guess]] = defaultdict(list)
    for guess in found:
        bins[min(BINS - 1, int(guess.probability * BINS))].append(guess)
    return sum(abs(_excess(guesses)) for guesses in bins.values()) / max(1, len(found))


def _excess(found: Sequence[Guess]) -> float:
    return sum(guess.probability - guess.is_right for guess in found)


def fitted(data: Data) -> Prior:
    """Return the prior that fits the data: councils of all sizes, each reviewer alone among them."""
    rates = _rates(data)
    inputs: list[list[float]] = []
    right: list[bool] = []
    for reviewers in _councils(data.reviewers):
        for group in groups_of(data, ours, reviewers, 1):
            seats = {review.reviewer for review in group}
            distances = [
                _log_odds(rates[seat]) - _log_odds(USUAL_RATE) for seat in seats
            ]
            inputs.append(
                [
                    1.0,
                    math.log(len(seats)),
                    math.log(len(reviewers)),
                    sum(distances) / len(distances),
                ]
            )
            right.append(_problem_of(group) is not None)
    start, families, looked, own_rate = _logistic(inputs, right)
    return msgspec.structs.replace(
        shipped_prior(),
        start=round(start, 2),
        families=round(families, 2),
        looked=round(looked, 2),
        own_rate=round(own_rate, 2),
        usual_rate=USUAL_RATE,
        rates={name: round(rate, 2) for name, rate in rates.items()},
    )


def _rates(data: Data) -> dict[str, float]:
    """Return the share of each reviewer's comments that somebody confirmed, drawn a little towards a third."""
    made = Counter(review.reviewer for review in data.reviews)
    confirmed = Counter(
        review.reviewer for review in data.reviews if review.problem is not None
    )
    return {name: (confirmed[name] + 3) / (made[name] + 9) for name in data.reviewers}


def _councils(reviewers: Sequence[str]) -> Iterator[tuple[str, ...]]:
    dice = random.Random(1)
    yield tuple(reviewers)
    yield FOUR
    for name in reviewers:
        yield (name,)
    for size in SIZES:
        if size <= len(reviewers):
            yield tuple(sorted(dice.sample(reviewers, size)))


def _log_odds(share: float) -> float:
    return math.log(share / (1 - share))


def _logistic(inputs: Sequence[Sequence[float]], right: Sequence[bool]) -> list[float]:
    """Return the weights of a logistic regression, by Newton's method."""
    size = len(inputs[0])
    weights = [0.0] * size
    for _ in range(STEPS):
        slope = [0.0] * size
        curve = [[RIDGE if i == j else 0.0 for j in range(size)] for i in range(size)]
        for row, is_right in zip(inputs, right, strict=True):
            odds = sum(
                weight * value for weight, value in zip(weights, row, strict=True)
            )
            share = 1 / (1 + math.exp(-odds))
            for i in range(size):
                slope[i] += (is_right - share) * row[i]
                for j in range(size):
                    curve[i][j] += share * (1 - share) * row[i] * row[j]
        step = _solved(curve, slope)
        weights = [
            weight + change for weight, change in zip(weights, step, strict=True)
        ]
    return weights


def _solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Return the solution of the linear equations; the matrix is positive, so no pivots are sought."""
    size = len(right)
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for i in range(size):
        for j in range(size):
            if i == j:
                continue
            factor = rows[j][i] / rows[i][i]
            rows[j] = [a - factor * b for a, b in zip(rows[j], rows[i], strict=True)]
    return [rows[i][size] / rows[i][i] for i in range(size)]


def cross_validated(data: Data) -> float:
    """Return the calibration error when each project is judged by a prior that was fitted on the others."""
    found: list[Guess] = []
    projects = {_project(review.pr) for review in data.reviews}
    for project in sorted(projects):
        own = _of_projects(data, {project})
        prior = fitted(_of_projects(data, projects - {project}))
        found += guesses(own, FOUR, prior)
        found += guesses(own, data.reviewers, prior)
    return calibration_error(found)


def _of_projects(data: Data, projects: Collection[str]) -> Data:
    return Data(
        tuple(review for review in data.reviews if _project(review.pr) in projects),
        frozenset(one for one in data.problems if _project(one[0]) in projects),
    )


def _project(pr: str) -> str:
    """Return the project of a pull request; forks made for a product are the same project."""
    return pr.partition("#")[0].partition("-")[0]


# -- printing


def main(arguments: Sequence[str]) -> int:
    """Print the table; with `--json`, write the figures too."""
    parser = argparse.ArgumentParser(prog="bench real", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument(
        "--fit", action="store_true", help="also fit a prior to the data and print it"
    )
    options = parser.parse_args(arguments)
    data = read(options.data)
    prior = shipped_prior()
    by_four = guesses(data, FOUR, prior)
    by_all = guesses(data, data.reviewers, prior)
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
        "calibration": round(calibration_error([*by_four, *by_all]), 4),
        "calibration_four": round(calibration_error(by_four), 4),
        "calibration_twelve": round(calibration_error(by_all), 4),
        "single": {name: single(data, name).as_document() for name in data.reviewers},
    }
    if options.fit:
        figures["calibration_cross_validated"] = round(cross_validated(data), 4)
        sys.stdout.write(msgspec.yaml.encode(fitted(data)).decode())
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
    for name, error in figures.items():
        if name.startswith("calibration"):
            lines.append(f"{name.replace('_', ' ')}: error {error:.3f}")
    return "\n".join(lines) + "\n"
