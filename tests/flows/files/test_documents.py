"""Reading profiles and versions; the hand-written validator against a schema library."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.flows import AgentRequest, AgentResponse, Profile, TemplateCreateState
from bridgehead.flows.files.documents import (
    Contract,
    InvalidDocument,
    is_supported,
    load_document,
    normalise,
    schema_of,
    validate,
)
from bridgehead.flows.files.json_bytes import Unreadable
from bridgehead.flows.words import DocumentKind

ID = "0f8b2c1e-6a57-4d0e-9b1c-2f6d7a8e9c01"
RESPONSE: dict[str, Any] = {
    "request_id": ID,
    "version": "1.0",
    "status": "success",
    "created_at": "2025-11-18T10:31:45Z",
    "response": "text",
}
REQUEST: dict[str, Any] = {
    "request_id": ID,
    "version": "1.0",
    "phase": 1,
    "phase_name": "codebase_analysis",
    "agent_name": "architectural-reviewer",
    "prompt": "p" * 100,
    "created_at": "2025-11-18T10:31:45Z",
}
STATE: dict[str, Any] = {
    "version": "1.0",
    "phase": 5,
    "phase_name": "agent_recommendation",
    "checkpoint_name": "before_agent_invocation",
    "created_at": "2025-11-18T10:31:45Z",
    "output_path": "/srv/app/out",
}
VALID = {
    DocumentKind.REQUEST: REQUEST,
    DocumentKind.RESPONSE: RESPONSE,
    DocumentKind.STATE: STATE,
}


def problems(
    kind: DocumentKind, document: Any, profile: Profile = Profile.STRICT
) -> set[tuple[str, str]]:
    return {
        (problem.path, problem.keyword) for problem in validate(document, kind, profile)
    }


def test_a_version_may_have_any_number_of_digits() -> None:
    many = "1" * 5000
    assert not is_supported({"version": f"{many}.0"}) and is_supported(
        {"version": f"001.{many}"}
    )
    assert (
        problems(
            DocumentKind.RESPONSE, {**RESPONSE, "version": f"1.{many}", "usage": {}}
        )
        == set()
    )
    assert problems(
        DocumentKind.RESPONSE, {**RESPONSE, "version": "1.00", "usage": {}}
    ) == {("", "additionalProperties")}


def test_a_profile_may_be_given_as_a_plain_word() -> None:
    document = {**RESPONSE, "error_message": None}
    found = [
        len(AgentResponse.validate(document, word)) for word in ("strict", "interop")
    ]  # type: ignore[arg-type]
    assert found == [1, 0]
    with pytest.raises(ValueError, match="lenient"):
        AgentResponse.validate(document, "lenient")  # type: ignore[arg-type]


def test_an_unknown_key_of_a_newer_minor_version_is_ignored_in_every_profile() -> None:
    newer = {**RESPONSE, "version": "1.7", "usage": {}}
    for profile in Profile:
        assert "usage" not in normalise(newer, DocumentKind.RESPONSE, profile)
    assert problems(DocumentKind.RESPONSE, {**newer, "version": "1.0"}) == {
        ("", "additionalProperties")
    }


def test_null_means_absent_only_where_a_handler_could_have_left_the_key_out() -> None:
    document = {
        **RESPONSE,
        "error_type": None,
        "metadata": {"model": None, "other": None},
    }
    assert normalise(document, DocumentKind.RESPONSE, Profile.INTEROP)["metadata"] == {
        "other": None
    }
    assert problems(
        DocumentKind.RESPONSE, {**document, "status": None}, Profile.INTEROP
    ) == {
        ("/status", "type"),
        ("/status", "enum"),
    }


def test_the_tolerant_profile_serialises_a_response_that_is_json(
    caplog: pytest.LogCaptureFixture,
) -> None:
    document = {**RESPONSE, "response": {"größe": [1, 2]}, "extra": 1}
    read = normalise(document, DocumentKind.RESPONSE, Profile.TOLERANT)
    assert read["response"] == '{"größe":[1,2]}'
    assert "extra" not in read
    assert "extra" in caplog.text and "re-serialised" in caplog.text


def test_a_number_without_a_fraction_is_read_as_an_integer() -> None:
    read = normalise(
        {**REQUEST, "phase": 5.0, "retry_count": 2.0},
        DocumentKind.REQUEST,
        Profile.STRICT,
    )
    assert [type(read[key]) for key in ("phase", "retry_count")] == [int, int]
    assert problems(DocumentKind.REQUEST, {**REQUEST, "phase": True}) == {
        ("/phase", "type")
    }


@pytest.mark.parametrize("version", ["1.0\n", "١.٠", "1", "1.0.0", "v1.0", " 1.0"])
def test_a_version_is_two_ascii_numbers_and_nothing_else(version: str) -> None:
    assert problems(DocumentKind.STATE, {**STATE, "version": version}) == {
        ("/version", "pattern")
    }


def test_other_flows_may_ask_any_agent_any_length_any_time() -> None:
    free = {
        **REQUEST,
        "agent_name": "my-agent",
        "phase": 12,
        "phase_name": "x_1",
        "prompt": "?",
        "timeout_seconds": 1,
    }
    assert problems(DocumentKind.REQUEST, free) == {
        ("/agent_name", "enum"),
        ("/phase", "maximum"),
        ("/phase_name", "enum"),
        ("/prompt", "minLength"),
        ("/timeout_seconds", "minimum"),
    }
    assert validate(free, DocumentKind.REQUEST, contract=Contract.OPEN) == []
    assert (
        validate(
            {**free, "agent_name": "No"}, DocumentKind.REQUEST, contract=Contract.OPEN
        )
        != []
    )


def test_a_class_reads_its_own_file() -> None:
    assert AgentResponse.loads(json.dumps(RESPONSE).encode()).response == "text"
    assert AgentRequest.loads(json.dumps(REQUEST).encode()).phase == 1
    incomplete = {**STATE, "project_path": None, "completed_phases": [{"phase": 1}]}
    assert (
        TemplateCreateState.loads(json.dumps(incomplete).encode())
        .completed_phases[0]
        .result_summary
        == ""
    )
    with pytest.raises(InvalidDocument, match="status"):
        AgentResponse.loads(json.dumps({**RESPONSE, "status": "done"}).encode())
    with pytest.raises(Unreadable):
        AgentResponse.loads(b"[]")
    assert [
        problem.path for problem in AgentResponse.validate({**RESPONSE, "status": 3})
    ] == ["/status"] * 2


def test_what_the_classes_write_validates_even_where_the_published_form_does_not() -> (
    None
):
    state = TemplateCreateState(
        phase=1, phase_name="a", checkpoint_name="b", output_path="/o"
    )
    assert TemplateCreateState.validate(state.to_dict()) != []
    assert TemplateCreateState.validate(state.to_file_dict()) == []
    response = AgentResponse(request_id=ID, status="success", response="")
    assert AgentResponse.validate(response.to_file_dict()) == []
    assert response.to_file_dict()["response"] == ""


# The library takes every uuid and any prefix that matches a pattern; those two are checked by the vectors.
def oracle(schema: dict[str, Any]) -> jsonschema.Draft7Validator:
    checker = jsonschema.FormatChecker(formats=[])
    checker.checks("uuid")(lambda value: not isinstance(value, str) or _is_uuid(value))
    checker.checks("date-time")(
        lambda value: not isinstance(value, str) or _is_moment(value)
    )
    return jsonschema.Draft7Validator(schema, format_checker=checker)


def _is_uuid(text: str) -> bool:
    return (
        re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", text)
        is not None
    )


def _is_moment(text: str) -> bool:
    if not re.fullmatch(
        r"[0-9-]{10}[Tt][0-9:]{8}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})", text
    ):
        return False
    try:
        datetime.fromisoformat(
            re.sub(r"\.[0-9]+", "", text.upper().replace("Z", "+00:00"))
        )
    except ValueError:
        return False
    return True


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 700),
    st.floats(allow_nan=False, allow_infinity=False, width=16),
    st.sampled_from(
        [
            *RESPONSE.values(),
            *REQUEST.values(),
            "error",
            "TIMEOUT",
            "agent_creation",
            "2.0",
            "x" * 99,
        ]
    ),
    st.lists(
        st.dictionaries(
            st.sampled_from(["phase", "completed_at", "other"]),
            st.integers() | st.text(max_size=3),
        )
    ),
    st.dictionaries(
        st.sampled_from(["model", "tokens_used", "confidence", "k"]),
        st.floats(-1, 2) | st.text(max_size=2),
    ),
)


@settings(max_examples=150, deadline=None)
@given(kind=st.sampled_from(list(DocumentKind)), data=st.data())
def test_the_validator_finds_what_a_schema_library_finds(
    kind: DocumentKind, data: st.DataObject
) -> None:
    schema = dict(schema_of(kind))
    keys = [*schema["properties"], "unknown"]
    changed = data.draw(st.dictionaries(st.sampled_from(keys), VALUES, max_size=4))
    removed = data.draw(st.sets(st.sampled_from(keys), max_size=2))
    document = {
        key: value
        for key, value in {**VALID[kind], **changed}.items()
        if key not in removed
    }

    expected = {
        (
            "".join(
                f"/{str(part).replace('~', '~0').replace('/', '~1')}"
                for part in error.absolute_path
            ),
            error.validator,
        )
        for error in oracle(schema).iter_errors(document)
    }
    newer = (
        str(document.get("version", "")).startswith("1.")
        and document["version"] != "1.0"
    )
    assert newer or problems(kind, document) == expected


def test_a_file_that_is_no_object_of_that_kind_says_so() -> None:
    with pytest.raises(Unreadable, match="appears twice"):
        load_document(b'{"version": "1.0", "version": "1.0"}', DocumentKind.STATE)
    assert [problem.keyword for problem in validate(["a"], DocumentKind.STATE)] == [
        "type"
    ]
