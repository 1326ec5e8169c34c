"""`python -m tools.action_requirements`: write what the Action installs, with the hash of every file it may be.

The packages are those of a plain installation with the extra `static` and of the program that builds it, the versions
those of `constraints.txt`. The hashes are what the package index tells pip for each system and Python that the Action
runs on. Names and versions are checked by a test, which needs no network.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.pythons import VERSIONS
from tools.ranges import REPOSITORY, declared

FILE: Final = REPOSITORY / "action-requirements.txt"
EXTRAS: Final = ("static",)
BUILDER: Final = "hatchling"
SYSTEMS: Final = {
    "Linux on x86-64": [
        *(f"manylinux_2_{minor}_x86_64" for minor in range(39, 4, -1)),
        "manylinux2014_x86_64",
        "manylinux2010_x86_64",
        "manylinux1_x86_64",
    ],
    "Linux on ARM": [
        *(f"manylinux_2_{minor}_aarch64" for minor in range(39, 16, -1)),
        "manylinux2014_aarch64",
    ],
    "macOS on ARM": [
        *(f"macosx_{major}_0_arm64" for major in range(15, 10, -1)),
        *(f"macosx_{major}_0_universal2" for major in range(15, 10, -1)),
        *(f"macosx_10_{minor}_universal2" for minor in range(16, 8, -1)),
    ],
}
_HEAD: Final = """\
# What the Action installs, with the hash of every file that may be taken for it.
# Written by `python -m tools.action_requirements` from constraints.txt; do not edit.
"""


def main() -> int:
    """Write the file and return the exit code."""
    versions = needed_versions()
    hashes: dict[str, set[str]] = {name: set() for name in versions}
    for system, tags in SYSTEMS.items():
        for version in VERSIONS:
            python = "{}.{}".format(*version)
            for name, digest in told_hashes(versions, tags, python):
                hashes[name].add(digest)
            print(f"{system}, Python {python}", flush=True)
    unknown = sorted(name for name, found in hashes.items() if not found)
    if unknown:
        print(f"no file was found of {', '.join(unknown)}")
        return 1
    FILE.write_text(as_text(versions, hashes), encoding="utf-8")
    return 0


def needed_versions() -> dict[str, str]:
    """Return the version of each package that the Action needs, by name."""
    pinned = pinned_versions()
    waiting = [*declared(EXTRAS), Requirement(BUILDER)]
    found: dict[str, str] = {}
    seen: set[str] = set()
    while waiting:
        requirement = waiting.pop()
        if str(requirement) in seen:
            continue
        seen.add(str(requirement))
        name = canonicalize_name(requirement.name)
        found[name] = pinned[name]
        waiting += requirements_of(name, requirement.extras)
    return dict(sorted(found.items()))


def pinned_versions() -> dict[str, str]:
    """Return the version of each package in `constraints.txt`, by name."""
    lines = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines()
    requirements = [Requirement(line) for line in lines if not line.startswith("#")]
    return {
        canonicalize_name(one.name): next(iter(one.specifier)).version
        for one in requirements
    }


def requirements_of(name: str, extras: Iterable[str]) -> Iterator[Requirement]:
    """Return what an installed package needs with these extras, on any Python and system of the Action."""
    for line in metadata.requires(name) or ():
        requirement = Requirement(line)
        if requirement.marker is None or _may_hold(requirement.marker, extras):
            yield requirement


def _may_hold(marker: Marker, extras: Iterable[str]) -> bool:
    systems = (
        {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"},
        {"sys_platform": "darwin", "platform_system": "Darwin", "os_name": "posix"},
    )
    for extra in ("", *extras):
        for version in VERSIONS:
            python = "{}.{}".format(*version)
            for system in systems:
                place = {
                    **system,
                    "extra": extra,
                    "python_version": python,
                    "python_full_version": f"{python}.0",
                }
                if marker.evaluate(place):
                    return True
    return False


def told_hashes(
    versions: Mapping[str, str], tags: Iterable[str], python: str
) -> Iterator[tuple[str, str]]:
    """Return the hashes that the index tells for one system and Python, by name.

    A package without a file for them is left out: it is asked for alone then.
    """
    lines = [f"{name}=={version}" for name, version in versions.items()]
    report = _report(lines, tags, python)
    if report is not None:
        yield from report
        return
    for line in lines:
        yield from _report([line], tags, python) or ()


def _report(
    lines: list[str], tags: Iterable[str], python: str
) -> list[tuple[str, str]] | None:
    with TemporaryDirectory(prefix="bridgehead-hashes-") as folder:
        report = Path(folder) / "report.json"
        words = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install"]
        words += ["--quiet", "--dry-run", "--ignore-installed", "--no-deps"]
        words += ["--only-binary", ":all:", "--target", folder]
        words += ["--python-version", python, "--report", str(report)]
        for tag in tags:
            words += ["--platform", tag]
        done = subprocess.run(
            [*words, *lines], env=_only_the_index(), capture_output=True, text=True
        )
        if done.returncode != 0:
            return None
        installs = json.loads(report.read_text(encoding="utf-8"))["install"]
    # A file of this machine is nobody else's.
    return [
        (
            canonicalize_name(one["metadata"]["name"]),
            one["download_info"]["archive_info"]["hashes"]["sha256"],
        )
        for one in installs
        if not one["download_info"]["url"].startswith("file:")
    ]


def _only_the_index() -> dict[str, str]:
    """Return an environment in which pip asks its index and no folder of this machine."""
    more = ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL")
    kept = {name: value for name, value in os.environ.items() if name not in more}
    return {**kept, "PIP_CONFIG_FILE": os.devnull}


def as_text(versions: Mapping[str, str], hashes: Mapping[str, Iterable[str]]) -> str:
    """Return the file: a package a line, and its hashes below it."""
    lines = [_HEAD]
    for name, version in versions.items():
        digests = [f"    --hash=sha256:{digest}" for digest in sorted(hashes[name])]
        lines.append(" \\\n".join([f"{name}=={version}", *digests]) + "\n")
    return "".join(lines)


if __name__ == "__main__":
    sys.exit(main())
