"""SARIF 2.1.0: the shape the standard demands, limits, and no way for foreign text to do anything."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any
from urllib.parse import unquote

import jsonschema
import msgspec
import pytest

from bridgehead.contract.words import OutputType, Severity
from bridgehead.council.findings.evidence import Anchor
from bridgehead.council.findings.references import FileReference, locate_references
from bridgehead.council.reporting.render.text import Screen, render_text
from bridgehead.council.reporting.report import FindingClass
from bridgehead.council.reporting.sarif import (
    MOST_RESULTS,
    SarifFinding,
    Suppression,
    escaped_message,
    sarif_of,
    to_sarif,
)
from council.support.finding_entries import finding_entry
from council.support.sarif_schema import SARIF, prose_violations
from council.test_council import TWO, Council, Dismissals, dismissal, finds, ready
from support import peer_clis

RUN = "review/r1"


def finding(number: int = 1, **fields: Any) -> SarifFinding:
    own = {
        name: fields.pop(name)
        for name in ("location", "related", "suppression")
        if name in fields
    }
    usual: dict[str, Any] = {
        "id": f"SS{number:03d}",
        "cls": FindingClass.SINGLE,
        "type": OutputType.FINDING,
        "severity": Severity.HIGH,
        "title": "T",
        "description": "D",
        "domains": ("security",),
        "fingerprint": "v1:0011223344556677",
    }
    return SarifFinding(
        finding_entry(**{**usual, **fields}),
        **{"location": Anchor("src/a.py", (4, 4)), **own},
    )


@cache
def published() -> jsonschema.Draft4Validator | None:
    """The schema as OASIS published it, from the npm package that carries it; None where that is not installed."""
    found = (
        peer_clis.FOLDER.parent
        / "@microsoft"
        / "jest-sarif"
        / "lib"
        / "schemas"
        / "sarif-2.1.0-rtm.5.json"
    )
    if not found.exists():
        return None
    return jsonschema.Draft4Validator(json.loads(found.read_text(encoding="utf-8")))


def valid(log: dict[str, Any]) -> dict[str, Any]:
    written = json.loads(json.dumps(log))
    checker = jsonschema.Draft7Validator.FORMAT_CHECKER
    jsonschema.Draft7Validator(SARIF, format_checker=checker).validate(written)
    if (standard := published()) is not None:
        standard.validate(written)
    assert list(prose_violations(written)) == []
    return log


def test_a_councils_report_is_valid_sarif_with_its_dismissals_as_suppressions() -> None:
    known = next(
        Council(TWO, finds("SQL injection")).drive().report.findings()
    ).fingerprint
    dismissed = Dismissals((dismissal(known),))
    report = Council(TWO, finds("SQL injection"), dismissals=dismissed).drive().report
    (result,) = valid(sarif_of(report).log)["runs"][0]["results"]
    assert result["suppressions"][0]["justification"] == "checked"
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 4


def test_findings_on_untouched_lines_are_results_that_nobody_has_to_act_on() -> None:
    report = Council(TWO, finds("SQL injection")).drive().report
    (entry,) = report.findings()
    apart = msgspec.structs.replace(
        report, multi_source_confirmed=(), untouched_findings=(entry,)
    )
    (result,) = valid(sarif_of(apart).log)["runs"][0]["results"]
    assert "did not touch" in result["suppressions"][0]["justification"]


def test_a_rule_says_in_words_what_it_is_about_and_what_to_do() -> None:
    gap = finding(2, domains=("made up",), type=OutputType.COMPLIANCE_GAP)
    rules = valid(to_sarif([finding(1), gap], RUN).log)["runs"][0]["tool"]["driver"][
        "rules"
    ]
    titles = [rule["shortDescription"]["text"] for rule in rules]
    assert titles == ["Made up: requirement that is not met", "Security: problem"]
    assert (
        "Security Auditor" in rules[1]["help"]["text"]
        and "council challenge" in rules[1]["help"]["text"]
    )
    assert rules[1]["name"] == "SecurityFinding"


@pytest.mark.peer
def test_the_published_schema_accepts_what_we_write_and_nothing_else() -> None:
    standard = published()
    if standard is None:
        pytest.skip(
            "the npm package with the published SARIF schema is not installed (make .venv/peers)"
        )
    log = json.loads(
        json.dumps(
            to_sarif(
                [finding(1), finding(2, related=(Anchor("b.py", (1, 2)),))], RUN
            ).log
        )
    )
    assert list(standard.iter_errors(log)) == []
    log["runs"][0]["results"][0]["level"] = "fatal"
    assert [error.validator for error in standard.iter_errors(log)] == ["enum"]


def test_an_empty_log_is_valid() -> None:
    assert valid(to_sarif([], RUN).log)["runs"][0]["results"] == []


def test_a_finding_without_a_place_is_written_without_a_region_after_the_others() -> (
    None
):
    written = to_sarif([finding(location=None), finding(2)], RUN)
    assert written.without_location == ("SS001",)
    placed, homeless = valid(written.log)["runs"][0]["results"]
    assert (placed["properties"]["id"], homeless["properties"]["id"]) == (
        "SS002",
        "SS001",
    )
    place = homeless["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], "region" in place) == (".", False)
    (notification,) = valid(written.log)["runs"][0]["invocations"][0][
        "toolExecutionNotifications"
    ]
    assert "SS001" in notification["message"]["text"]


def test_no_more_results_are_written_than_consumers_keep() -> None:
    written = to_sarif([finding(number) for number in range(MOST_RESULTS + 3)], RUN)
    assert (len(written.log["runs"][0]["results"]), written.truncated) == (
        MOST_RESULTS,
        3,
    )
    assert written.warnings == ("sarif_truncated:3",)


def test_dismissed_findings_come_last() -> None:
    dismissed = finding(1, severity=Severity.CRITICAL, suppression=Suppression("known"))
    results = valid(to_sarif([dismissed, finding(2, severity=Severity.LOW)], RUN).log)[
        "runs"
    ][0]["results"]
    assert [one["properties"]["id"] for one in results] == ["SS002", "SS001"]


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("[x](http://e)", "[x\\](http://e)"),
        ("use {0}", "use {{0}}"),
        ("x" * 5000, "x" * 4000),
    ],
)
def test_foreign_text_makes_no_links_and_no_placeholders(
    text: str, escaped: str
) -> None:
    assert escaped_message(text) == escaped


def test_related_places_are_written_once_each() -> None:
    related = (Anchor("src/b.py", (1, 2)),)
    (result,) = valid(to_sarif([finding(related=related)], RUN).log)["runs"][0][
        "results"
    ]
    assert len(result["relatedLocations"]) == 1


def test_names_that_are_no_uri_by_themselves_are_written_as_one() -> None:
    strange = finding(
        location=Anchor("src/ä b#?%[1].py", (2, 7)),
        severity=Severity.INFO,
        domains=("no such",),
    )
    (result,) = valid(to_sarif([strange], RUN).log)["runs"][0]["results"]
    location = result["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == "src/%C3%A4%20b%23%3F%25%5B1%5D.py"
    assert (location["region"]["endLine"], result["level"]) == (7, "note")


def test_a_domain_with_a_slash_and_a_name_that_is_no_text_are_written_whole() -> None:
    strange = finding(location=Anchor("src/\udcff.py", (1, 1)), domains=("ci/cd",))
    (run,) = valid(to_sarif([strange], RUN).log)["runs"]
    (rule,) = run["tool"]["driver"]["rules"]
    assert (rule["id"], rule["properties"]["tags"]) == (
        "ci/cd/finding",
        ["ci/cd", "finding"],
    )
    assert (
        run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        == "src/%FF.py"
    )


@pytest.mark.parametrize(
    "break_it",
    [
        lambda run: run["results"][0].pop("message"),
        lambda run: run["results"][0].update(level="fatal"),
        lambda run: run["results"][0].update(severity="HIGH"),
        lambda run: run["results"][0].update(ruleIndex=1),
        lambda run: run["results"][0]["locations"][0]["physicalLocation"][
            "region"
        ].update(startLine=0),
        lambda run: run["results"][0]["locations"][0]["physicalLocation"][
            "region"
        ].update(startLine=9),
        lambda run: run["results"][0]["partialFingerprints"].update(count=1),
        lambda run: run["results"][0].update(suppressions=[{"status": "accepted"}]),
        lambda run: run["tool"]["driver"].pop("name"),
        lambda run: run["invocations"][0].pop("executionSuccessful"),
        lambda run: run.update(originalUriBaseIds={}),
        lambda run: run.update(columnKind="bytes"),
    ],
)
def test_what_the_standard_forbids_is_noticed(
    break_it: Callable[[dict[str, Any]], object],
) -> None:
    log = to_sarif([finding(1), finding(2, type=OutputType.RECOMMENDATION)], RUN).log
    break_it(log["runs"][0])
    with pytest.raises((jsonschema.ValidationError, AssertionError)):
        valid(log)


UNUSUAL = (
    "src/my file.py",
    'docs/it\'s "quoted".md',
    "c#/a.cs",
    "größe/naïve.py",
    ".github/workflows/ci.yml",
    "Dockerfile",
    "a b/.env sample",
    "x[1]{2}(3).py",
    "src/50% of it.py",
)


@pytest.mark.parametrize("path", UNUSUAL)
@pytest.mark.parametrize(
    "written",
    ["{}:2", "see {}:2-2, there", "`{}:2` `value = read()`", "{}:2 `value = read()`"],
)
def test_an_unusual_path_survives_from_the_reply_to_the_report_to_sarif(
    path: str, written: str
) -> None:
    files = {path: "import io\nvalue = read()\n", "other.py": "x = 1\n"}
    council = Council(
        {"claude": ready("claude")},
        finds("Reads it", evidence=written.format(path)),
        files=files,
    )
    report = council.drive().report

    (entry,) = report.findings()
    assert entry.anchor == {"path": path, "lines": [2, 2]}
    assert f"{path}:2" in render_text(report, Screen(width=200))
    (result,) = sarif_of(report).log["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert unquote(place["artifactLocation"]["uri"]) == path
    assert "#" not in place["artifactLocation"]["uri"]
    assert place["region"] == {"startLine": 2, "endLine": 2}


def test_a_file_without_an_extension_needs_a_line_to_be_a_reference() -> None:
    located = locate_references(
        "The Dockerfile is long; Dockerfile:3 says why", ("Dockerfile",)
    )

    assert [one.reference for one in located] == [FileReference("Dockerfile", 3, 3)]
