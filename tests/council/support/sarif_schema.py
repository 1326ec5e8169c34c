"""What SARIF 2.1.0 demands of the objects we write: every property the standard knows, its type, its limits.

Objects are closed, as in the published schema. Properties that we never write are known by name (`ANYTHING`), so that
a misspelt one is noticed and a right one is not refused. What the standard says in prose is in `prose_violations`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

ANYTHING: dict[str, Any] = {}
STRING = {"type": "string"}
INDEX = {"type": "integer", "minimum": -1, "default": -1}
COUNT = {"type": "integer", "minimum": 1}
GUID = {
    "type": "string",
    "pattern": "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-5][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$",
}
LEVEL = {"enum": ["none", "note", "warning", "error"]}


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/definitions/{name}"}


def listed(items: dict[str, Any], *, unique: bool = False) -> dict[str, Any]:
    return {"type": "array", "minItems": 0, "uniqueItems": unique, "items": items}


def closed(*required: str, unused: str = "", **properties: Any) -> dict[str, Any]:
    """An object with these properties and those named in `unused`, every one of which may carry a property bag."""
    known = dict.fromkeys(unused.split(), ANYTHING)
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": {**known, **properties, "properties": ref("propertyBag")},
    }


DEFINITIONS: dict[str, Any] = {
    "propertyBag": {
        "type": "object",
        "additionalProperties": True,
        "properties": {"tags": listed(STRING, unique=True)},
    },
    "message": {
        **closed(text=STRING, markdown=STRING, id=STRING, arguments=listed(STRING)),
        "anyOf": [{"required": ["text"]}, {"required": ["id"]}],
    },
    "multiformatMessageString": closed("text", text=STRING, markdown=STRING),
    "artifactLocation": closed(
        uri={"type": "string", "format": "uri-reference"},
        uriBaseId=STRING,
        index=INDEX,
        description=ref("message"),
    ),
    "region": closed(
        startLine=COUNT,
        startColumn=COUNT,
        endLine=COUNT,
        endColumn=COUNT,
        charOffset=INDEX,
        charLength={"type": "integer", "minimum": 0},
        byteOffset=INDEX,
        byteLength={"type": "integer", "minimum": 0},
        sourceLanguage=STRING,
        message=ref("message"),
        unused="snippet",
    ),
    "physicalLocation": {
        **closed(
            artifactLocation=ref("artifactLocation"),
            region=ref("region"),
            contextRegion=ref("region"),
            unused="address",
        ),
        "anyOf": [{"required": ["address"]}, {"required": ["artifactLocation"]}],
    },
    "location": closed(
        id=INDEX,
        physicalLocation=ref("physicalLocation"),
        message=ref("message"),
        annotations=listed(ref("region"), unique=True),
        unused="logicalLocations relationships",
    ),
    "suppression": closed(
        "kind",
        guid=GUID,
        kind={"enum": ["inSource", "external"]},
        status={"enum": ["accepted", "underReview", "rejected"]},
        justification=STRING,
        location=ref("location"),
    ),
    "reportingDescriptor": closed(
        "id",
        id=STRING,
        guid=GUID,
        name=STRING,
        helpUri={"type": "string", "format": "uri"},
        shortDescription=ref("multiformatMessageString"),
        fullDescription=ref("multiformatMessageString"),
        help=ref("multiformatMessageString"),
        deprecatedIds=listed(STRING, unique=True),
        messageStrings={
            "type": "object",
            "additionalProperties": ref("multiformatMessageString"),
        },
        unused="deprecatedGuids deprecatedNames defaultConfiguration relationships",
    ),
    "toolComponent": closed(
        "name",
        name=STRING,
        fullName=STRING,
        guid=GUID,
        version=STRING,
        semanticVersion=STRING,
        organization=STRING,
        product=STRING,
        informationUri={"type": "string", "format": "uri"},
        downloadUri={"type": "string", "format": "uri"},
        rules=listed(ref("reportingDescriptor"), unique=True),
        notifications=listed(ref("reportingDescriptor"), unique=True),
        shortDescription=ref("multiformatMessageString"),
        fullDescription=ref("multiformatMessageString"),
        isComprehensive={"type": "boolean"},
        unused="productSuite dottedQuadFileVersion releaseDateUtc globalMessageStrings taxa locations language "
        "contents localizedDataSemanticVersion minimumRequiredLocalizedDataSemanticVersion associatedComponent "
        "translationMetadata supportedTaxonomies",
    ),
    "tool": closed(
        "driver",
        driver=ref("toolComponent"),
        extensions=listed(ref("toolComponent"), unique=True),
    ),
    "notification": closed(
        "message",
        message=ref("message"),
        level=LEVEL,
        locations=listed(ref("location"), unique=True),
        timeUtc={"type": "string", "format": "date-time"},
        threadId={"type": "integer"},
        unused="exception descriptor associatedRule",
    ),
    "invocation": closed(
        "executionSuccessful",
        executionSuccessful={"type": "boolean"},
        toolExecutionNotifications=listed(ref("notification")),
        toolConfigurationNotifications=listed(ref("notification")),
        exitCode={"type": "integer"},
        unused="commandLine arguments responseFiles startTimeUtc endTimeUtc ruleConfigurationOverrides "
        "notificationConfigurationOverrides exitCodeDescription exitSignalName exitSignalNumber "
        "processStartFailureMessage machine account processId executableLocation workingDirectory "
        "environmentVariables stdin stdout stderr stdoutStderr",
    ),
    "runAutomationDetails": closed(
        id=STRING, guid=GUID, correlationGuid=GUID, description=ref("message")
    ),
    "result": closed(
        "message",
        ruleId=STRING,
        ruleIndex=INDEX,
        level=LEVEL,
        message=ref("message"),
        guid=GUID,
        kind={
            "enum": ["notApplicable", "pass", "fail", "review", "open", "informational"]
        },
        locations=listed(ref("location")),
        relatedLocations=listed(ref("location"), unique=True),
        fingerprints={"type": "object", "additionalProperties": STRING},
        partialFingerprints={"type": "object", "additionalProperties": STRING},
        suppressions=listed(ref("suppression"), unique=True),
        correlationGuid=GUID,
        baselineState={"enum": ["new", "unchanged", "updated", "absent"]},
        rank={"type": "number", "minimum": -1, "maximum": 100},
        occurrenceCount=COUNT,
        hostedViewerUri={"type": "string", "format": "uri"},
        unused="rule analysisTarget stacks codeFlows graphs graphTraversals attachments workItemUris provenance "
        "fixes taxa webRequest webResponse",
    ),
    "run": closed(
        "tool",
        tool=ref("tool"),
        results=listed(ref("result")),
        invocations=listed(ref("invocation")),
        automationDetails=ref("runAutomationDetails"),
        baselineGuid=GUID,
        originalUriBaseIds={
            "type": "object",
            "additionalProperties": ref("artifactLocation"),
        },
        columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
        defaultEncoding=STRING,
        redactionTokens=listed(STRING, unique=True),
        newlineSequences=listed(STRING, unique=True),
        unused="conversion language versionControlProvenance artifacts logicalLocations graphs runAggregates "
        "defaultSourceLanguage externalPropertyFileReferences threadFlowLocations taxonomies addresses "
        "translations policies webRequests webResponses specialLocations",
    ),
}
SARIF: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    **closed(
        "version",
        "runs",
        **{"$schema": {"type": "string", "format": "uri"}},
        version={"enum": ["2.1.0"]},
        runs=listed(ref("run")),
        unused="inlineExternalProperties",
    ),
    "definitions": DEFINITIONS,
}


def prose_violations(log: dict[str, Any]) -> Iterator[str]:
    """What the standard demands in words and a schema cannot say."""
    for run in log["runs"]:
        rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
        if len(set(rules)) != len(rules):
            yield "two rules have one id (3.49.3)"
        for result in run["results"]:
            yield from _result_violations(result, rules, run)
        with_suppressions = {"suppressions" in result for result in run["results"]}
        if len(with_suppressions) > 1:
            yield "suppressions on some results and not on others (3.27.23)"


def _result_violations(
    result: dict[str, Any], rules: list[str], run: dict[str, Any]
) -> Iterator[str]:
    if rules[result["ruleIndex"]] != result["ruleId"]:
        yield f"ruleIndex names another rule than {result['ruleId']} (3.27.6)"
    if result.get("kind", "fail") != "fail" and result["level"] != "none":
        yield "a level without a failure (3.27.10)"
    if not result["message"]["text"].strip():
        yield "an empty message (3.11.8)"
    for location in (*result["locations"], *result.get("relatedLocations", ())):
        place = location["physicalLocation"]
        artifact = place["artifactLocation"]
        region = place.get(
            "region", {"startLine": 1, "endLine": 1}
        )  # without one it is about the whole
        if region["endLine"] < region["startLine"]:
            yield "a region that ends before it begins (3.30.7)"
        if artifact["uriBaseId"] not in run["originalUriBaseIds"]:
            yield f"an unknown base {artifact['uriBaseId']} (3.4.4)"
        if (
            artifact["uri"].startswith("/")
            or "\\" in artifact["uri"]
            or ".." in artifact["uri"].split("/")
        ):
            yield f"{artifact['uri']} is not relative to its base (3.4.4)"
