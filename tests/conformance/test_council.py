"""The council's vectors: every file of the folder is either run here or skipped by name."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from bridgehead.contract.ids import id_sort_key
from bridgehead.contract.report import Output
from bridgehead.contract.timeouts import bridge_deadline, estimate_timeout, waves
from bridgehead.contract.verdict import decide_verdict
from bridgehead.contract.words import Intensity, Status, TaskType
from bridgehead.council.counted import counted
from bridgehead.council.dedupe import Candidate, cluster
from bridgehead.council.file_references import relate
from bridgehead.council.similarity import text_score
from vector_files import cases, unread_files

READ = {"timeouts", "verdicts", "dedupe"}


def output(entry: dict[str, Any]) -> Output:
    """An output from the keys a vector gives; missing texts are empty."""
    blank = {"status": None, "severity": None, "title": "", "description": "", "evidence": "", "action": None}
    known = {
        key: value
        for key, value in entry.items()
        if value is not None or key not in ("requirement_id", "met")
    }
    return msgspec.convert({**blank, "domain": "", "agent": "", **known}, Output)


@pytest.mark.parametrize("case", cases("council", "timeouts"))
def test_timeouts(case: dict[str, Any]) -> None:
    given, expected = dict(case["input"]), case["expect"]
    domains, concurrency = given.pop("domains", 1), given.pop("max_concurrency", 8)
    intensity = Intensity(given.pop("intensity"))
    limit = estimate_timeout(intensity=intensity, **given)
    actual = {
        "base_s": limit.base_s,
        "intensity_multiplier": limit.intensity_multiplier,
        "bridge_multiplier": limit.bridge_multiplier,
        "timeout_s": limit.timeout_s,
        "basis": limit.basis,
        "skip_reason_on_timeout": limit.skip_reason,
        "waves": waves(domains, concurrency),
        "deadline_s": bridge_deadline(limit.timeout_s, intensity, domains, concurrency),
    }
    assert {key: actual[key] for key in expected} == expected


@pytest.mark.parametrize("case", cases("council", "verdicts"))
def test_verdicts(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expect"]
    problems = counted(output(entry) for entry in given["outputs"])
    actual = {
        "verdict": decide_verdict(TaskType(given["task_type"]), Status(given["status"]), problems),
        "counted": [{"ids": list(p.ids), "severity": p.severity, "gap": p.gap} for p in problems],
    }
    assert {key: actual[key] for key in expected} == expected


@pytest.mark.parametrize("case", cases("council", "dedupe"))
def test_dedupe(case: dict[str, Any]) -> None:
    expected = case["expect"]
    candidates = [Candidate.of(output(entry)) for entry in case["input"]["outputs"]]
    clusters = cluster(candidates, same_domain=case["input"]["scope"] == "intra-bridge")
    actual = {
        "clusters": [list(found.ids) for found in clusters],
        "kept": sorted((found.survivor.id for found in clusters), key=id_sort_key),
        "discarded": sorted((i for found in clusters for i in found.ids[1:]), key=id_sort_key),
    }
    assert {key: actual[key] for key in expected} == expected

    by_id = {candidate.id: candidate for candidate in candidates}
    for score in case.get("scores_vs_first", []):
        one, other = by_id[score["a"]], by_id[score["b"]]
        assert round(float(text_score(one.wording, other.wording)), 4) == score["text_score"], json.dumps(
            score
        )
        assert relate(one.references, other.references) == score["location"], json.dumps(score)


@pytest.mark.parametrize("name", unread_files("council", READ) + unread_files("runtimes", set()))
def test_not_built_yet(name: str) -> None:
    raise AssertionError(f"{name} has no test")  # every parameter is a visible skip
