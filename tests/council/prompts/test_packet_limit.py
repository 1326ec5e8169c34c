"""The 32,000-character rule under any packet: within the limit, nothing lost without a mark (council §9.9)."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.contract.words import Severity
from bridgehead.council.prompts.packet_limit import (
    LIMIT,
    REST_LIMIT,
    packet_size,
    reduce_packet,
)

texts = st.builds(
    lambda letter, length: letter * length,
    st.sampled_from(["x", "é", '"', "\n", "漢"]),
    st.sampled_from([0, 1, 40, 900, 9_000, 33_000]),
)
findings = st.lists(
    st.tuples(texts, texts, texts, st.sampled_from([None, *map(str, Severity)])),
    min_size=0,
    max_size=12,
)


def packet(found: list[Any], challenges: list[str], synthesis: str) -> dict[str, Any]:
    return {
        "round": 2,
        "active_domains": ["security"],
        "newly_added_domains": [],
        "previous_findings": [
            {
                "id": f"C{number:03d}",
                "title": title,
                "severity": severity,
                "description": description,
                "evidence": evidence,
            }
            for number, (title, description, evidence, severity) in enumerate(
                found, start=1
            )
        ],
        "open_challenges": [
            {"challenge_id": f"CH{number:03d}", "challenge_text": text}
            for number, text in enumerate(challenges, start=1)
        ],
        "synthesis": synthesis,
    }


@settings(max_examples=60)
@given(findings, st.lists(texts, max_size=8), texts)
def test_property_what_is_sent_fits_and_every_finding_is_in_it(
    found: list[Any], challenges: list[str], synthesis: str
) -> None:
    whole = packet(found, challenges, synthesis)
    reduced = reduce_packet(whole)
    assert all(packet_size(one) <= LIMIT for one in reduced.packets)
    entries = [entry for one in reduced.packets for entry in one["previous_findings"]]
    ids = [
        entry["id"] if isinstance(entry, dict) else entry.partition(": ")[0]
        for entry in entries
    ]
    assert ids == [entry["id"] for entry in whole["previous_findings"]]
    assert reduced.annotated == (reduced.level > 0)


@settings(max_examples=60)
@given(findings, st.lists(texts, max_size=8), texts)
def test_property_challenges_are_kept_from_the_start_and_omissions_are_counted(
    found: list[Any], challenges: list[str], synthesis: str
) -> None:
    whole = packet(found, challenges, synthesis)
    reduced = reduce_packet(whole)
    for one in reduced.packets:
        kept = one["open_challenges"]
        assert kept == whole["open_challenges"][: len(kept)]
        omitted = len(challenges) - len(kept)
        if omitted:
            assert f"[... {omitted} challenges omitted" in one["synthesis"]
            assert (
                reduced.overflow is not None
                and reduced.overflow.omitted_challenges == omitted
            )
            assert packet_size({**one, "previous_findings": []}) <= REST_LIMIT


@settings(max_examples=60)
@given(findings)
def test_property_a_cut_says_how_much_is_missing(found: list[Any]) -> None:
    whole = packet(found, [], "")
    reduced = reduce_packet(whole)
    entries = [entry for one in reduced.packets for entry in one["previous_findings"]]
    for entry, original in zip(entries, whole["previous_findings"], strict=True):
        if isinstance(entry, dict) and entry["description"] != original["description"]:
            mark = re.search(r"\[\.\.\. (\d+) characters omitted", entry["description"])
            assert mark is not None
            kept = entry["description"][: mark.start()]
            assert len(kept) + int(mark[1]) == len(original["description"])
            assert original["description"].startswith(kept)
