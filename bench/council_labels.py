"""Outputs whose duplicates are known: places reported several times in other words, near the same line (council §8).

A label is the place an output is about. Pairs that matching joins are right when both are about one place.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bench.council_corpus import OPERATORS, Place, some_words
from bench.simulated import Site
from bridgehead.contract.report import Output
from bridgehead.contract.words import OutputType
from bridgehead.council.findings import joining
from bridgehead.council.findings.joining import Comment, Problem

OUTPUTS: Final = 5_000
MOST_REPORTERS: Final = 6
WITHOUT_LINE: Final = 0.15
WITHOUT_PLACE: Final = 0.05
LINES_OFF: Final = 2
"""By how much reporters disagree about the line."""

_VERBS: Final = [
    "load",
    "store",
    "merge",
    "list",
    "count",
    "export",
    "read",
    "submit",
    "cancel",
    "archive",
]
_STATES: Final = [
    "active",
    "archived",
    "blocked",
    "cached",
    "closed",
    "draft",
    "due",
    "early",
    "empty",
    "expired",
    "external",
    "failed",
    "final",
    "first",
    "foreign",
    "frozen",
    "hidden",
    "internal",
    "invalid",
    "late",
    "local",
    "locked",
    "merged",
    "missing",
    "monthly",
    "nested",
    "newest",
    "older",
    "open",
    "overdue",
    "paid",
    "partial",
    "pending",
    "planned",
    "private",
    "public",
    "queued",
    "recent",
    "remote",
    "resolved",
    "shared",
]
_THINGS: Final = [
    "account",
    "address",
    "basket",
    "batch",
    "booking",
    "calendar",
    "catalog",
    "channel",
    "contract",
    "coupon",
    "customer",
    "delivery",
    "device",
    "discount",
    "folder",
    "image",
    "import",
    "invoice",
    "label",
    "license",
    "mailbox",
    "message",
    "order",
    "parcel",
    "payment",
    "picture",
    "price",
    "profile",
    "project",
    "refund",
    "report",
    "sensor",
    "session",
    "shipment",
    "supplier",
    "ticket",
    "token",
    "upload",
    "voucher",
    "warehouse",
]
_SYNONYMS: Final = {
    word: [word, *others.split("/")]
    for word, others in {
        "call": "invocation",
        "called": "invoked",
        "check": "test/verification",
        "coroutine": "awaitable",
        "default": "fallback/preset",
        "given": "handed/passed",
        "hands": "passes/gives",
        "happens": "occurs/shows",
        "index": "subscript/offset",
        "key": "identifier/id",
        "list": "sequence/collection",
        "loop": "iteration",
        "lost": "gone/discarded",
        "missing": "absent/lacking",
        "order": "sequence",
        "owners": "holders",
        "query": "statement",
        "raises": "throws",
        "reached": "entered/invoked",
        "reaches": "enters/ends up in",
        "record": "entry/row",
        "request": "client/caller",
        "returned": "delivered",
        "saved": "stored/persisted",
        "SELECT": "query/statement",
        "SQL": "database",
        "text": "string",
        "unescaped": "raw/unquoted",
        "unusual": "crafted/unexpected",
        "untrusted": "foreign/unchecked",
        "wrong": "incorrect/mistaken",
    }.items()
}
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Labelled:
    outputs: tuple[Output, ...]
    label: Mapping[str, int]
    """Of every output's id."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Pairs of outputs that were joined, that belong together, and both."""

    joined: int
    belonging: int
    both: int

    @property
    def precision(self) -> float:
        return self.both / self.joined if self.joined else 1.0

    @property
    def recall(self) -> float:
        return self.both / self.belonging if self.belonging else 1.0


def labelled_outputs(count: int = OUTPUTS, *, seed: int = 1) -> Labelled:
    """`count` outputs about fewer places, in an order that says nothing."""
    dice = random.Random(seed)
    reports: list[tuple[int, Site]] = []
    for label, site in enumerate(_sites(dice)):
        reports += [(label, site)] * dice.randint(1, MOST_REPORTERS)
    if len(reports) < count:
        raise ValueError(f"there are names for {len(reports)} outputs only")
    reports = reports[:count]
    dice.shuffle(reports)
    outputs = tuple(
        _output(dice, number, site) for number, (_, site) in enumerate(reports, start=1)
    )
    return Labelled(
        outputs,
        {output.id: label for output, (label, _) in zip(outputs, reports, strict=True)},
    )


def join(outputs: Iterable[Output]) -> list[Problem]:
    """What a bridge does with its outputs."""
    return joining.join([Comment.of(output) for output in outputs], same_domain=True)


def agreement(clusters: Sequence[Problem], label: Mapping[str, int]) -> Agreement:
    """Compare the clusters with the labels, pair by pair."""
    return Agreement(
        joined=sum(_pairs(len(one.ids)) for one in clusters),
        belonging=sum(map(_pairs, Counter(label.values()).values())),
        both=sum(
            _pairs(n)
            for one in clusters
            for n in Counter(label[name] for name in one.ids).values()
        ),
    )


def _pairs(count: int) -> int:
    return count * (count - 1) // 2


def _sites(dice: random.Random) -> Iterator[Site]:
    """Places with a name each, twelve to a file, nine lines apart."""
    names = [f"{state}_{thing}" for state in _STATES for thing in _THINGS]
    for number, name in enumerate(dice.sample(names, len(names))):
        path, line = f"src/part_{number // 12}.py", 5 + (number % 12) * 9
        where = Place(path, line, dice.choice(_VERBS), name, *some_words(dice))
        yield dice.choice(OPERATORS).site(where, is_defect=True)


def _output(dice: random.Random, number: int, site: Site) -> Output:
    telling = dice.choice(site.tellings)
    return Output(
        id=f"C{number:03d}",
        type=OutputType.FINDING,
        severity=site.severity,
        status=None,
        title=_reworded(dice, telling.title),
        description=_reworded(dice, telling.description),
        evidence=_evidence(dice, site),
        action=None,
        domain=site.domain,
        agent=site.domain,
    )


def _reworded(dice: random.Random, text: str) -> str:
    """The same in other words, as far as there are any."""
    return _WORD.sub(lambda word: dice.choice(_SYNONYMS.get(word[0], [word[0]])), text)


def _evidence(dice: random.Random, site: Site) -> str | None:
    luck = dice.random()
    if luck < WITHOUT_PLACE:
        return None
    if luck < WITHOUT_PLACE + WITHOUT_LINE:
        return f"in {site.path}"
    return f"{site.path}:{max(1, site.line + dice.randint(-LINES_OFF, LINES_OFF))} `{site.code}`"
