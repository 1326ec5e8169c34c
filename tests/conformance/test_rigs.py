"""The shared vectors of rigs: body hashes, rendered frontmatter, envelope files.

Everything is read from the folder that BRIDGEHEAD_VECTORS names; nothing is assumed about which cases are in it.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest

from bridgehead.rigs.envelope.body_hash import body_hash, normalise_body
from bridgehead.rigs.envelope.envelope import (
    Envelope,
    parse_envelope,
    parse_frontmatter,
)
from bridgehead.rigs.envelope.fields import status_class
from bridgehead.rigs.envelope.frontmatter import write_envelope
from bridgehead.rigs.trust.envelope_problems import check_envelope
from support.vector_files import FOLDER, absent, is_there, load


def cases(name: str, file: str) -> list[Any]:
    """One parameter per case of a vector file, or a single skipped one that says which file is missing."""
    document = load("rigs", file)
    if document is None:
        return [absent("rigs", file)]
    found = document["cases"]
    labels = [
        str(case.get("name") or case.get("file") or number)
        for number, case in enumerate(found)
    ]
    return [
        pytest.param(case, id=f"rigs-{name}-{label}")
        for case, label in zip(found, labels, strict=True)
    ]


def envelope_cases() -> list[Any]:
    """The cases of the envelope files; one whose file is missing is a skip that says so."""
    return [
        given
        if given.values[0] is None
        or is_there("rigs", name := f"envelopes/{given.values[0]['file']}")
        else absent("rigs", name)
        for given in cases("envelopes", "envelopes/cases.json")
    ]


def envelope_bytes(case: dict[str, Any]) -> bytes:
    return (FOLDER / "rigs" / "envelopes" / case["file"]).read_bytes()


def as_doubles(value: Any) -> Any:
    """JSON numbers are doubles; a vector's decimal spelling of a large one is not its exact value."""
    if isinstance(value, dict):
        return {key: as_doubles(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_doubles(item) for item in value]
    return (
        float(value)
        if isinstance(value, int) and not isinstance(value, bool)
        else value
    )


@pytest.mark.parametrize("case", cases("body_hash", "body_hash.json"))
def test_bodies_are_normalised_and_hashed(case: dict[str, Any]) -> None:
    body = (
        case["body"]
        if "body" in case
        else base64.b64decode(case["bytes_b64"]).decode("utf-8", "replace")
    )
    normal = normalise_body(body)

    assert body == case.get("decoded", body)
    assert normal == case.get("normalized", normal)
    assert body_hash(body) == case["hash"]
    assert body_hash(normal) == case.get("hash_of_normalized", case["hash"])


@pytest.mark.parametrize("case", cases("render", "render.json"))
def test_frontmatter_is_written_as_the_reference_writes_it(
    case: dict[str, Any],
) -> None:
    written = write_envelope(case["frontmatter"], "x\n")
    reread = parse_envelope(written.encode())

    if not case.get("bytes_free"):
        assert written == case["text"]
    assert reread == Envelope(case["frontmatter"], "x\n")
    assert list(reread.frontmatter) == list(case["frontmatter"])


@pytest.mark.parametrize("case", cases("render", "render.json"))
def test_what_the_reference_wrote_is_read(case: dict[str, Any]) -> None:
    accepted = [
        case["frontmatter"],
        case.get("reference_reparse_differs", case["frontmatter"]),
    ]
    parsed = parse_envelope(case["text"].encode())

    assert isinstance(parsed, Envelope)
    assert parsed.frontmatter in accepted
    assert parsed.body == "x\n"


@pytest.mark.parametrize("case", envelope_cases())
def test_envelope_files_get_their_verdict(case: dict[str, Any]) -> None:
    raw = envelope_bytes(case)
    assert hashlib.sha256(raw).hexdigest() == case["sha256"], (
        "the checkout changed this file"
    )
    parsed = parse_envelope(raw)
    verdict = check_envelope(parsed)

    assert verdict.valid is case["valid"]
    assert list(verdict.error_kinds) == case.get("error_kinds", [])
    assert {fault.path for fault in verdict.schema_faults} == set(
        case.get("schema_paths", [])
    )
    warned = {
        "body_hash_absent": verdict.body_hash_absent,
        "tldr_too_long": verdict.long_tldr,
    }
    assert [kind for kind, found in warned.items() if found] == case.get("warnings", [])
    assert [bad_rig_id(bad) for bad in verdict.bad_rig_ids] == case.get(
        "bad_rig_ids", []
    )
    if "body_hash_expected" in case:
        assert verdict.hash_mismatch == (
            case["body_hash_expected"],
            case["body_hash_actual"],
        )


def bad_rig_id(bad: Any) -> dict[str, str]:
    return {key: value for key, value in bad._asdict().items() if value is not None}


@pytest.mark.parametrize("case", envelope_cases())
def test_envelope_files_are_read(case: dict[str, Any]) -> None:
    raw = envelope_bytes(case)
    parsed = parse_envelope(raw)

    if "frontmatter" not in case:
        assert not isinstance(parsed, Envelope)
        return
    assert isinstance(parsed, Envelope)
    assert as_doubles(parsed.frontmatter) == as_doubles(case["frontmatter"])
    assert parse_frontmatter(raw) == parsed.frontmatter
    assert parsed.body == case["body"]
    assert body_hash(parsed.body) == case["body_hash"]
    assert status_class(parsed.frontmatter.get("status")) == case["status_class"]
