"""Small projects with seeded defects, and the same code without them (council §21).

A mutation operator turns a right line into a wrong one. A project holds mutated lines (defects) and right ones that a
hasty reader could take for wrong (look-alikes); its clean twin is the same project with every line right. The words in
which a place is reported come from the operator, several tellings each, as different reviewers would put it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from bench.simulated import Site, Telling
from bridgehead.contract.words import Severity

DEFECTS: Final = 7
LOOKALIKES: Final = 21
SITES_PER_FILE: Final = 5
SECOND_SITE: Final = 0.2
"""How often a function has two places worth a look, two lines apart."""

SECURITY: Final = "security"
API: Final = "api"
DOMAINS: Final = (SECURITY, API)


@dataclass(frozen=True, slots=True)
class Operator:
    """One kind of mistake: the line as it should be, as it is after the mutation, and how people tell of it."""

    kind: str
    severity: Severity
    domain: str
    right: str
    wrong: str
    titles: tuple[str, ...]
    descriptions: tuple[str, ...]

    def site(self, place: Place, *, is_defect: bool) -> Site:
        words = place.words
        return Site(
            path=place.path,
            line=place.line,
            code=(self.wrong if is_defect else self.right).format(**words),
            domain=self.domain,
            severity=self.severity,
            tellings=tuple(
                Telling(
                    title.format(**words),
                    f"{description} {circumstance}".format(**words),
                )
                for title, description, circumstance in zip(
                    self.titles, self.descriptions, CIRCUMSTANCES, strict=True
                )
            ),
            is_defect=is_defect,
        )


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a function, and what only a report about it would mention."""

    path: str
    line: int
    verb: str
    noun: str
    caller: str
    argument: str

    @property
    def words(self) -> dict[str, str]:
        """What the texts of an operator may name."""
        function = f"{self.verb}_{self.noun}"
        named = {"verb": self.verb, "noun": self.noun, "function": function}
        return {**named, "caller": self.caller, "argument": self.argument}


CIRCUMSTANCES: Final = (
    "It is reached from {caller} with the {argument} of a request.",
    "{caller} hands the {argument} over as it came.",
    "This happens when {caller} is given an unusual {argument}.",
    "{caller} and everything behind the {argument} are affected.",
)


OPERATORS: Final = (
    Operator(
        "inverted condition",
        Severity.HIGH,
        SECURITY,
        "if user not in {noun}_owners: raise Forbidden(user)",
        "if user in {noun}_owners: raise Forbidden(user)",
        (
            "{function} refuses the owners and lets strangers in",
            "Inverted permission check in {function}",
            "Access test of {function} is the wrong way round",
            "{function}: the ownership condition is negated",
        ),
        (
            "The condition on {noun}_owners raises Forbidden for the owners, so everybody else passes.",
            "Forbidden is raised when the user is in {noun}_owners; it should be raised when the user is not.",
            "Membership in {noun}_owners leads to Forbidden, which turns the permission check around.",
            "{noun}_owners is tested without a not: owners get Forbidden, other users get access.",
        ),
    ),
    Operator(
        "off by one",
        Severity.MEDIUM,
        API,
        "for index in range(len({noun}_rows)): {verb}({noun}_rows[index])",
        "for index in range(len({noun}_rows) + 1): {verb}({noun}_rows[index])",
        (
            "{function} reads one row too many",
            "Off-by-one in the loop of {function}",
            "Loop bound of {function} exceeds the list",
            "{function}: index runs past the last row",
        ),
        (
            "The loop over {noun}_rows runs to len + 1 and ends with an IndexError on the last index.",
            "range(len({noun}_rows) + 1) makes the loop read past the last row of {noun}_rows.",
            "The last index of the loop lies outside {noun}_rows: its range is one larger than the list.",
            "Iterating to len({noun}_rows) + 1 reads an index that {noun}_rows does not have.",
        ),
    ),
    Operator(
        "swapped arguments",
        Severity.HIGH,
        API,
        "transfer_{noun}(source, target)",
        "transfer_{noun}(target, source)",
        (
            "{function} passes source and target in the wrong order",
            "Swapped arguments in {function}",
            "Arguments of transfer_{noun} are exchanged in {function}",
            "{function}: the transfer goes backwards",
        ),
        (
            "transfer_{noun} is called with target and source exchanged, so the transfer goes backwards.",
            "The call of transfer_{noun} hands over the target where the source is expected.",
            "source and target are in the wrong order in the call of transfer_{noun}.",
            "transfer_{noun} receives its target as source: the order of both arguments is wrong.",
        ),
    ),
    Operator(
        "dropped await",
        Severity.HIGH,
        API,
        "await save_{noun}(record)",
        "save_{noun}(record)",
        (
            "{function} never awaits save_{noun}",
            "Missing await in {function}",
            "Coroutine of save_{noun} is dropped by {function}",
            "{function}: the record is not saved",
        ),
        (
            "save_{noun} is a coroutine and the call is not awaited, so the record is never saved.",
            "Without await the coroutine of save_{noun} does not run and the record is lost.",
            "The record is lost: nobody awaits the coroutine that save_{noun} returns.",
            "save_{noun} returns a coroutine which is dropped; the record is not saved.",
        ),
    ),
    Operator(
        "unescaped query",
        Severity.CRITICAL,
        SECURITY,
        'cursor.execute("SELECT * FROM {noun} WHERE id = ?", (key,))',
        'cursor.execute(f"SELECT * FROM {noun} WHERE id = {{key}}")',
        (
            "SQL injection in {function}",
            "{function} puts the key into the SQL text",
            "Unescaped key reaches the query of {function}",
            "{function}: query built from untrusted input",
        ),
        (
            "The key is concatenated into the SELECT on {noun} without escaping: SQL injection.",
            "The SELECT on {noun} is built with the untrusted key inside the SQL text.",
            "Untrusted key reaches the SQL text of the SELECT on {noun}; a placeholder is missing.",
            "The query on {noun} contains the key unescaped, which allows SQL injection.",
        ),
    ),
    Operator(
        "missing bound check",
        Severity.HIGH,
        SECURITY,
        "return {noun}_pages[position] if 0 <= position < len({noun}_pages) else None",
        "return {noun}_pages[position]",
        (
            "{function} does not check the position",
            "Missing bound check in {function}",
            "Position from outside indexes {noun}_pages in {function}",
            "{function}: index out of range for a foreign position",
        ),
        (
            "The position from the request indexes {noun}_pages without a bound check.",
            "{noun}_pages is indexed with a position that nobody compares with its length.",
            "A position outside {noun}_pages ends in an IndexError, because the bound check is missing.",
            "No bound check: any position of the request reaches the index of {noun}_pages.",
        ),
    ),
    Operator(
        "wrong default",
        Severity.MEDIUM,
        API,
        'limit = options.get("{noun}_limit", 100)',
        'limit = options.get("{noun}_limit", 0)',
        (
            "{function} returns nothing by default",
            "Wrong default of {noun}_limit in {function}",
            "Default limit of {function} is zero",
            "{function}: the default limit cuts everything off",
        ),
        (
            "{noun}_limit defaults to 0, so without the option nothing is returned.",
            "The default of {noun}_limit is 0 and cuts every answer off.",
            "Without the option the limit is zero: the default of {noun}_limit is wrong.",
            "0 is no useful default of {noun}_limit; without the option every answer is empty.",
        ),
    ),
)

_VERBS: Final = [
    "load",
    "store",
    "merge",
    "list",
    "count",
    "export",
    "import",
    "review",
    "submit",
    "cancel",
    "archive",
    "rename",
]
_NOUNS: Final = [
    "invoice",
    "shipment",
    "customer",
    "basket",
    "voucher",
    "ticket",
    "account",
    "contract",
    "parcel",
    "refund",
    "supplier",
    "warehouse",
    "payment",
    "price",
    "discount",
    "address",
    "message",
    "calendar",
    "booking",
    "device",
    "sensor",
    "report",
    "profile",
    "session",
]
_WAYS: Final = [
    "nightly",
    "manually",
    "remotely",
    "twice",
    "lazily",
    "partly",
    "again",
    "quickly",
    "early",
]
_ARGUMENTS: Final = [
    "key",
    "size",
    "date",
    "owner",
    "token",
    "offset",
    "label",
    "amount",
    "region",
    "version",
]


@dataclass(frozen=True, slots=True)
class Project:
    """Files, and the places in them that a reviewer may report."""

    files: dict[str, str]
    sites: tuple[Site, ...]

    @property
    def defects(self) -> tuple[Site, ...]:
        return tuple(site for site in self.sites if site.is_defect)


def make_project(
    seed: int, *, defects: int = DEFECTS, lookalikes: int = LOOKALIKES
) -> Project:
    """The project of a seed; `defects=0` with as many more look-alikes is its clean twin."""
    dice = random.Random(f"project|{seed}")
    count = defects + lookalikes
    wrong = set(dice.sample(range(count), count)[:defects])
    sites = [
        operator.site(place, is_defect=number in wrong)
        for number, (operator, place) in enumerate(_placed(dice, count))
    ]
    return Project(dict(_written(sites)), tuple(sites))


def clean_twin(seed: int) -> Project:
    """The same places, every line right."""
    return make_project(seed, defects=0, lookalikes=DEFECTS + LOOKALIKES)


def some_words(dice: random.Random) -> tuple[str, str]:
    """A caller and an argument, as a report would name them."""
    caller = f"{dice.choice(_VERBS)}_{dice.choice(_NOUNS)}_{dice.choice(_WAYS)}"
    return caller, f"{dice.choice(_NOUNS)}_{dice.choice(_ARGUMENTS)}"


def _placed(dice: random.Random, count: int) -> Iterator[tuple[Operator, Place]]:
    """Operators and where they strike: functions of several lines, some with two places close together."""
    names = dice.sample([(verb, noun) for verb in _VERBS for noun in _NOUNS], count)
    line, previous, operator, shares = 0, None, OPERATORS[0], False
    for number, (verb, noun) in enumerate(names):
        path = f"src/part_{number // SITES_PER_FILE}.py"
        is_alone = previous is not None and previous.path == path and not shares
        shares = is_alone and dice.random() < SECOND_SITE
        others = (
            [one for one in OPERATORS if one is not operator] if shares else OPERATORS
        )
        operator = dice.choice(others)
        if previous is not None and shares:
            place = replace(previous, line=previous.line + 2)
        else:
            is_first = previous is None or previous.path != path
            line = 4 if is_first else line + dice.randint(6, 12)
            place = Place(path, line, verb, noun, *some_words(dice))
        line, previous = place.line, place
        yield operator, place


def _written(sites: Sequence[Site]) -> Iterator[tuple[str, str]]:
    """The files: each site's code on its line, nothing of interest between."""
    for path in dict.fromkeys(site.path for site in sites):
        mine = {site.line: site.code for site in sites if site.path == path}
        lines = [
            mine.get(number, f"step({number})") for number in range(1, max(mine) + 3)
        ]
        yield path, "\n".join(lines) + "\n"
