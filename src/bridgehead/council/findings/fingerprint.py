"""A name for a finding that survives moved lines and other words, and how an output gets one (council §25.2)."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import msgspec

from bridgehead.contract.report import Output
from bridgehead.contract.task import normalise_domain
from bridgehead.contract.words import OutputType
from bridgehead.council.findings.evidence import (
    Anchor,
    EvidenceCheck,
    EvidenceOutcome,
    check_evidence,
)
from bridgehead.council.findings.tree import FileText, Tree, earlier_names
from bridgehead.council.findings.wording import tokens

ENOUGH_CHARACTERS: Final = 16
MOST_BLOCK_LINES: Final = 3
STRONG: Final = "v1"
WEAK: Final = "t1"

_PROBLEM: Final = frozenset(
    {OutputType.FINDING, OutputType.COMPLIANCE_GAP, OutputType.RISK}
)
_PROPOSAL: Final = frozenset(
    {
        OutputType.RECOMMENDATION,
        OutputType.PLAN_ITEM,
        OutputType.IMPLEMENTATION_NOTE,
        OutputType.PROPOSAL,
        OutputType.EXPERIMENT,
    }
)
FAMILIES: Final = ("problem", "proposal", "note")


@dataclass(frozen=True, slots=True)
class Identity:
    """A finding's fingerprint and the ones it would have under earlier names of its file, nearest first."""

    fingerprint: str
    aliases: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        return (self.fingerprint, *self.aliases)


def identify(
    *,
    type: OutputType,
    title: str,
    domain: str,
    requirement_id: str | None,
    anchor: Anchor | None,
    tree: Tree,
    renames: Mapping[str, str],
) -> Identity:
    """The identity of a finding: by its place where evidence passed, else by its title or requirement."""
    text = tree.file(anchor.path) if anchor else None
    start = start_line(anchor, text) if anchor and text else None
    if anchor is None or text is None or start is None:
        return Identity(_weak(type, title, domain, requirement_id))
    # The block that begins there, and how many times it has begun up to there.
    block = _block(text, start)
    alike = (
        number
        for number, line in enumerate(text.squeezed_lines[:start], start=1)
        if line == block[0]
    )
    index = sum(_block(text, number) == block for number in alike)
    names = (anchor.path, *earlier_names(anchor.path, renames))
    first, *others = (_strong(name, family_of(type), index, block) for name in names)
    return Identity(first, tuple(others))


def place_fingerprints(
    check: Mapping[str, Any] | None,
    kind: OutputType,
    tree: Tree,
    renames: Mapping[str, str],
) -> tuple[str, ...]:
    """The fingerprint of every place a finding cites and that was found, each once."""
    found = (
        place_identity(anchor, kind, tree, renames).fingerprint
        for anchor in cited_anchors(check)
    )
    return tuple(dict.fromkeys(name for name in found if not is_weak(name)))


def cited_anchors(check: Mapping[str, Any] | None) -> list[Anchor]:
    """Return every place a finding cites and that was found."""
    return [
        Anchor(one["path"], (one["lines"][0], one["lines"][1]))
        for one in (check or {}).get("references", ())
        if one.get("outcome") == EvidenceOutcome.PASSED and one.get("lines")
    ]


def place_identity(
    anchor: Anchor, kind: OutputType, tree: Tree, renames: Mapping[str, str]
) -> Identity:
    """Return the identity that a finding of this kind has at a place."""
    return identify(
        type=kind,
        title="",
        domain="",
        requirement_id=None,
        anchor=anchor,
        tree=tree,
        renames=renames,
    )


def family_of(kind: OutputType) -> str:
    """Types that can be the same finding."""
    if kind in _PROBLEM:
        return "problem"
    return "proposal" if kind in _PROPOSAL else "note"


def is_weak(fingerprint: str) -> bool:
    return fingerprint.startswith(f"{WEAK}:")


def start_line(anchor: Anchor, text: FileText) -> int | None:
    """The first line of the anchor that is not blank."""
    return next(
        (
            line
            for line in text.non_blank_from(anchor.lines[0])
            if line <= anchor.lines[1]
        ),
        None,
    )


def places(text: FileText, path: str, family: str) -> frozenset[str]:
    """The v1 of every non-blank line: whether cited code is still there is membership in this set."""
    return frozenset(
        _strong(path, family, index, block) for block, index in _blocks(text).values()
    )


def cluster_fingerprint(members: Sequence[Identity]) -> tuple[str, tuple[str, ...]]:
    """A council finding's own fingerprint (the v1 most members have), and all of its members', sorted."""
    everything = tuple(sorted({name for member in members for name in member.all}))
    own = [member.fingerprint for member in members]
    counts = Counter([name for name in own if not is_weak(name)] or own)
    return min(counts, key=lambda name: (-counts[name], name)), everything


@lru_cache(maxsize=64)
def _blocks(text: FileText) -> dict[int, tuple[tuple[str, ...], int]]:
    """For every non-blank line its block, and how many times that block has begun up to there."""
    seen: Counter[tuple[str, ...]] = Counter()
    found: dict[int, tuple[tuple[str, ...], int]] = {}
    for line in text.non_blank_from(1):
        block = _block(text, line)
        seen[block] += 1
        found[line] = (block, seen[block])
    return found


def _block(text: FileText, line: int) -> tuple[str, ...]:
    """The line, and the next ones while it is short: `try:` and `}` get company."""
    block: list[str] = []
    characters = 0
    for number in text.non_blank_from(line):
        block.append(text.squeezed_lines[number - 1])
        characters += sum(map(str.isalnum, block[-1]))
        if characters >= ENOUGH_CHARACTERS or len(block) == MOST_BLOCK_LINES:
            break
    return tuple(block)


def _strong(path: str, family: str, index: int, block: Sequence[str]) -> str:
    return _digest(
        STRONG, unicodedata.normalize("NFC", path), family, str(index), *block
    )


def _weak(kind: OutputType, title: str, domain: str, requirement_id: str | None) -> str:
    family = family_of(kind)
    if requirement_id:
        return _digest(WEAK, "requirement", family, requirement_id)
    words = (
        " ".join(sorted(tokens(title)))
        or unicodedata.normalize("NFKC", title).casefold().strip()
    )
    return _digest(WEAK, normalise_domain(domain), family, words)


def _digest(version: str, *parts: str) -> str:
    hashed = hashlib.sha256(
        "\n".join((version, *parts)).encode("utf-8", "surrogatepass")
    )
    return f"{version}:{hashed.hexdigest()[:16]}"


def with_identity(
    output: Output, tree: Tree | None, renames: Mapping[str, str]
) -> Output:
    """The output with its identity fields; without a tree it is known by its title alone."""
    there = tree or Tree.of({})
    check = check_evidence(output.evidence, there)
    anchor = check.anchor
    requirement_id = output.requirement_id
    identity = identify(
        type=output.type,
        title=output.title,
        domain=output.domain,
        requirement_id=requirement_id if isinstance(requirement_id, str) else None,
        anchor=anchor,
        tree=there,
        renames=renames,
    )
    if tree is None:
        check = EvidenceCheck(EvidenceOutcome.UNCHECKED, "no_tree")
    return msgspec.structs.replace(
        output,
        evidence_check=check.to_json(),
        anchor=None
        if anchor is None
        else {"path": anchor.path, "lines": list(anchor.lines)},
        fingerprint=identity.fingerprint,
        fingerprints=tuple(sorted(identity.all)),
    )
