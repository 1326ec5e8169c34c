"""What is kept apart, by path and content, and what a verdict changes about it (rigs §9.4)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridgehead.rigs.threads.quarantine import (
    DamagedQuarantine,
    Quarantine,
    QuarantineEntry,
    read_verdicts,
    verdict_line,
)

BLOB, OTHER = "a" * 40, "b" * 40
ENTRY = QuarantineEntry("demo-01/STATE.md", BLOB, ("thread_mismatch",), "c" * 40)


@pytest.fixture
def quarantine(tmp_path: Path) -> Quarantine:
    made = Quarantine(tmp_path)
    made.change([ENTRY])
    return Quarantine(tmp_path)


def test_it_is_kept_over_a_restart_and_by_content(quarantine: Quarantine) -> None:
    assert quarantine.entries == [ENTRY]
    assert quarantine.holds(ENTRY.path) and quarantine.holds(ENTRY.path, BLOB)
    assert quarantine.holds(ENTRY.path, "~in the work tree")
    assert not quarantine.holds(ENTRY.path, OTHER) and not quarantine.holds(
        "demo-01/ACK.md"
    )
    assert (
        quarantine.names_in("demo-01") == {"STATE.md"}
        and quarantine.names_in("demo-02") == frozenset()
    )


@pytest.mark.parametrize("lifts", [True, False])
def test_a_verdict_decides_about_the_content_it_names(
    quarantine: Quarantine, lifts: bool
) -> None:
    [verdict] = read_verdicts(
        f"I looked.\n{verdict_line(ENTRY, lifts=lifts)}\n", "demo-01/RELAY.md"
    )
    quarantine.change(quarantine.decided([verdict]))
    assert quarantine.holds(ENTRY.path) is not lifts
    assert quarantine.has_accepted(ENTRY.path, BLOB) is lifts
    assert not quarantine.has_accepted(ENTRY.path, OTHER)
    assert quarantine.entries[0].verdict == "demo-01/RELAY.md"


def test_a_verdict_about_other_content_or_another_path_changes_nothing(
    quarantine: Quarantine,
) -> None:
    lines = [
        verdict_line(ENTRY._replace(blob=OTHER), lifts=True),
        verdict_line(ENTRY._replace(path="demo-01/ACK.md"), lifts=True),
        f"> {verdict_line(ENTRY, lifts=True)}",
        f"{verdict_line(ENTRY, lifts=True)} if you like",
    ]
    assert quarantine.decided(read_verdicts("\n".join(lines), "demo-01/RELAY.md")) == []


def test_what_a_newer_program_wrote_or_nobody_can_read_is_an_error(
    tmp_path: Path,
) -> None:
    row = {**ENTRY._asdict(), "kinds": ["a kind of tomorrow"]}
    for text in (json.dumps({"format": 1, "entries": [row]}), "nonsense", "[]", ""):
        (tmp_path / "quarantine.json").write_text(text)
        with pytest.raises(DamagedQuarantine, match="is damaged"):
            Quarantine(tmp_path)
