"""SARIF 2.1.0: the shape the standard demands, limits, and no way for foreign text to do anything."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from bridgehead.contract.words import OutputType, Severity
from bridgehead.council.findings.evidence import Anchor
from bridgehead.council.findings.sarif import (
    MOST_RESULTS,
    SarifFinding,
    SarifRun,
    Suppression,
    escaped_message,
    to_sarif,
)
from bridgehead.council.joint import FindingClass
from bridgehead.council.sarif_report import sarif_of
from council.test_council_run import TWO, Council, Dismissals, dismissal, finds

RUN = SarifRun("review", "r1", "1.0.0")
TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
LOCATION = {
    "type": "object",
    "additionalProperties": False,
    "required": ["physicalLocation"],
    "properties": {
        "physicalLocation": {
            "type": "object",
            "additionalProperties": False,
            "required": ["artifactLocation", "region"],
            "properties": {
                "artifactLocation": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "uri": {"type": "string", "format": "uri-reference", "pattern": "^[^ \\\\]+$"},
                        "uriBaseId": {"type": "string"},
                    },
                },
                "region": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "startLine": {"type": "integer", "minimum": 1},
                        "endLine": {"type": "integer", "minimum": 1},
                    },
                },
            },
        }
    },
}
# The parts of the OASIS schema that concern what we write, with its names, types, enumerations and closed objects.
SUBSET: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["version", "runs"],
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"enum": ["2.1.0"]},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["tool"],
                "properties": {
                    "tool": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "additionalProperties": False,
                                "required": ["name"],
                                "properties": {
                                    "name": {"type": "string"},
                                    "semanticVersion": {"type": "string"},
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {
                                            "type": "object",
                                            "additionalProperties": False,
                                            "required": ["id"],
                                            "properties": {
                                                "id": {"type": "string"},
                                                "shortDescription": TEXT,
                                                "properties": {
                                                    "type": "object",
                                                    "properties": {
                                                        "tags": {"type": "array", "uniqueItems": True}
                                                    },
                                                },
                                            },
                                        },
                                    },
                                },
                            }
                        },
                    },
                    "automationDetails": {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {"id": {"type": "string"}},
                    },
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "originalUriBaseIds": {"type": "object", "additionalProperties": {"type": "object"}},
                    "invocations": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "additionalProperties": False,
                            "required": ["executionSuccessful"],
                            "properties": {
                                "executionSuccessful": {"type": "boolean"},
                                "toolExecutionNotifications": {
                                    "type": "array",
                                    "items": {
                                        "type": "object",
                                        "additionalProperties": False,
                                        "required": ["message"],
                                        "properties": {
                                            "level": {"enum": ["none", "note", "warning", "error"]},
                                            "message": TEXT,
                                        },
                                    },
                                },
                            },
                        },
                    },
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "additionalProperties": False,
                            "required": ["message"],
                            "properties": {
                                "ruleId": {"type": "string"},
                                "ruleIndex": {"type": "integer", "minimum": -1},
                                "level": {"enum": ["none", "note", "warning", "error"]},
                                "message": TEXT,
                                "locations": {"type": "array", "items": LOCATION},
                                "relatedLocations": {"type": "array", "uniqueItems": True, "items": LOCATION},
                                "partialFingerprints": {
                                    "type": "object",
                                    "additionalProperties": {"type": "string"},
                                },
                                "suppressions": {
                                    "type": "array",
                                    "uniqueItems": True,
                                    "items": {
                                        "type": "object",
                                        "additionalProperties": False,
                                        "required": ["kind"],
                                        "properties": {
                                            "kind": {"enum": ["inSource", "external"]},
                                            "status": {"enum": ["accepted", "underReview", "rejected"]},
                                            "justification": {"type": "string"},
                                            "properties": {"type": "object"},
                                        },
                                    },
                                },
                                "properties": {"type": "object"},
                            },
                        },
                    },
                },
            },
        },
    },
}


def finding(number: int = 1, **fields: Any) -> SarifFinding:
    usual: dict[str, Any] = {
        "id": f"SS{number:03d}",
        "cls": FindingClass.SINGLE,
        "type": OutputType.FINDING,
        "severity": Severity.HIGH,
        "title": "T",
        "description": "D",
        "domains": ("security",),
        "fingerprint": "v1:0011223344556677",
        "location": Anchor("src/a.py", (4, 4)),
    }
    return SarifFinding(**{**usual, **fields})


def valid(log: dict[str, Any]) -> dict[str, Any]:
    jsonschema.validate(json.loads(json.dumps(log)), SUBSET)
    return log


def test_a_councils_report_is_valid_sarif_with_its_dismissals_as_suppressions() -> None:
    known = next(Council(TWO, finds("SQL injection")).drive().report.findings()).fingerprint
    dismissed = Dismissals((dismissal(known),))
    report = Council(TWO, finds("SQL injection"), dismissals=dismissed).drive().report
    (result,) = valid(sarif_of(report).log)["runs"][0]["results"]
    assert result["suppressions"][0]["justification"] == "checked"
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 4


def test_an_empty_log_is_valid() -> None:
    assert valid(to_sarif([], RUN).log)["runs"][0]["results"] == []


def test_a_finding_without_a_place_is_counted_and_not_written() -> None:
    written = to_sarif([finding(location=None)], RUN)
    assert written.without_location == ("SS001",)
    (notification,) = valid(written.log)["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert "SS001" in notification["message"]["text"]


def test_no_more_results_are_written_than_consumers_keep() -> None:
    written = to_sarif([finding(number) for number in range(MOST_RESULTS + 3)], RUN)
    assert (len(written.log["runs"][0]["results"]), written.truncated) == (MOST_RESULTS, 3)
    assert written.warnings == ("sarif_truncated:3",)


def test_dismissed_findings_come_last() -> None:
    dismissed = finding(1, severity=Severity.CRITICAL, suppression=Suppression("known"))
    results = valid(to_sarif([dismissed, finding(2, severity=Severity.LOW)], RUN).log)["runs"][0]["results"]
    assert [one["properties"]["id"] for one in results] == ["SS002", "SS001"]


@pytest.mark.parametrize(
    ("text", "escaped"),
    [("[x](http://e)", "[x\\](http://e)"), ("use {0}", "use {{0}}"), ("x" * 5000, "x" * 4000)],
)
def test_foreign_text_makes_no_links_and_no_placeholders(text: str, escaped: str) -> None:
    assert escaped_message(text) == escaped


def test_related_places_are_written_once_each() -> None:
    related = (Anchor("src/b.py", (1, 2)),)
    (result,) = valid(to_sarif([finding(related=related)], RUN).log)["runs"][0]["results"]
    assert len(result["relatedLocations"]) == 1
