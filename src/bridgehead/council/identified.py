"""Give an output its place and its fingerprint, and the result of checking what it cites (council §25)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from bridgehead.contract.report import Output
from bridgehead.council.findings.evidence import Anchor, EvidenceCheck, Outcome, check_evidence
from bridgehead.council.findings.fingerprint import Identity, identify
from bridgehead.council.findings.tree import Tree


@dataclass(frozen=True, slots=True)
class Identified:
    """What code found out about an item's evidence, and the names it is known by."""

    check: EvidenceCheck
    anchor: Anchor | None
    identity: Identity


def identify_output(output: Output, tree: Tree, renames: Mapping[str, str]) -> Identified:
    """Check the evidence and compute the fingerprint."""
    check = check_evidence(output.evidence, tree)
    requirement_id = output.requirement_id
    identity = identify(
        type=output.type,
        title=output.title,
        domain=output.domain,
        requirement_id=requirement_id if isinstance(requirement_id, str) else None,
        anchor=check.anchor,
        tree=tree,
        renames=renames,
    )
    return Identified(check, check.anchor, identity)


def with_identity(output: Output, tree: Tree | None, renames: Mapping[str, str]) -> Output:
    """The output with its identity fields; without a tree it is known by its title alone."""
    found = identify_output(output, tree or Tree.of({}), renames)
    check = found.check if tree is not None else EvidenceCheck(Outcome.UNCHECKED, "no_tree")
    return msgspec.structs.replace(
        output,
        evidence_check=check.to_json(),
        anchor=anchor_json(found.anchor),
        fingerprint=found.identity.fingerprint,
        fingerprints=tuple(sorted(found.identity.all)),
    )


def anchor_json(anchor: Anchor | None) -> dict[str, object] | None:
    return None if anchor is None else {"path": anchor.path, "lines": list(anchor.lines)}
