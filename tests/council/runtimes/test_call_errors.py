"""What a failed call means: which refusal it is, its skip reason, and how much of stderr is kept."""

from __future__ import annotations

import pytest

from bridgehead.contract.words import CapabilityProfile, ErrorClass
from bridgehead.council.calls import Answer, Call, CallFailed, CallKey, Role, Step
from bridgehead.council.refusals import classify
from bridgehead.council.reporting.seat_report import excerpt
from bridgehead.council.running.call_runner import as_result
from bridgehead.council.runtimes.call_errors import skip_reason
from bridgehead.council.runtimes.exchange import RuntimeRefusal

# What users of these services have been told, and what it means.
CORPUS = [
    ("Not logged in · Please run /login", None, ErrorClass.AUTH),
    ("Invalid API key · Fix external API key", None, ErrorClass.AUTH),
    (
        "unexpected status 401 Unauthorized: Incorrect API key provided",
        None,
        ErrorClass.AUTH,
    ),
    ("Missing environment variable: `OPENAI_API_KEY`.", None, ErrorClass.AUTH),
    (
        "API key not valid. Please pass a valid API key. API_KEY_INVALID",
        400,
        ErrorClass.AUTH,
    ),
    ("forbidden", 403, ErrorClass.AUTH),
    (
        "exceeded retry limit, last status: 429 Too Many Requests",
        None,
        ErrorClass.RATE_LIMIT,
    ),
    ("Resource has been exhausted (e.g. check quota).", 429, ErrorClass.RATE_LIMIT),
    ("Quota exceeded. Check your plan and billing details.", None, ErrorClass.QUOTA),
    ("You have exhausted your daily quota on this model.", 429, ErrorClass.QUOTA),
    ("Your credit balance is too low to access the API", 400, ErrorClass.QUOTA),
    ("IneligibleTierError: this account is not eligible", None, ErrorClass.RETIRED),
    (
        "The model `x` does not exist or you do not have access to it.",
        None,
        ErrorClass.UNKNOWN_MODEL,
    ),
    ("models/x is not found for API version v1beta", None, ErrorClass.UNKNOWN_MODEL),
    ("Prompt is too long · the request is ~250000 tokens", 400, ErrorClass.TOO_LONG),
    ('{"error": {"code": "context_length_exceeded"}}', None, ErrorClass.TOO_LONG),
    (
        "We’re currently experiencing high demand, which may cause temporary errors.",
        None,
        ErrorClass.SERVER_ERROR,
    ),
    ("Overloaded", 529, ErrorClass.SERVER_ERROR),
    ("Connection failed: error sending request", None, ErrorClass.UNREACHABLE),
    ("exception TypeError: fetch failed sending request", None, ErrorClass.UNREACHABLE),
    (
        "stream disconnected before completion: stream closed before response.completed",
        None,
        ErrorClass.MALFORMED,
    ),
    ("Incomplete JSON segment at the end", None, ErrorClass.MALFORMED),
    ("something nobody has seen yet", None, ErrorClass.OTHER),
    ("", None, ErrorClass.OTHER),
]


@pytest.mark.parametrize(("text", "status", "expected"), CORPUS)
def test_refusals_are_told_apart(
    text: str, status: int | None, expected: ErrorClass
) -> None:
    assert classify(text, status) is expected


@pytest.mark.parametrize(
    ("error_class", "reason"),
    [
        (ErrorClass.TIMEOUT, "timeout_after_90s"),
        (ErrorClass.AUTH, "auth_probe_failed: why"),
        (ErrorClass.QUOTA, "cli_error: why"),
        (ErrorClass.OTHER, "cli_error: why"),
    ],
)
def test_a_failed_call_has_a_skip_reason_of_the_contract(
    error_class: ErrorClass, reason: str
) -> None:
    assert skip_reason(error_class, "why", 90) == reason


def test_long_texts_are_cut_with_a_mark() -> None:
    assert excerpt("x" * 500) == "x" * 500
    assert excerpt("x" * 501) == "x" * 500 + " [...]"


def test_the_whole_of_stderr_goes_into_the_log_up_to_64_kilobytes_and_masked() -> None:
    key = CallKey(
        seat="codex", round=1, step=Step.ANALYSIS, role=Role.EXPERT, domain="security"
    )
    call = Call(key, "look", 90, Answer.ITEMS, CapabilityProfile.INSPECT)
    refused = RuntimeRefusal(
        ErrorClass.OTHER, "no: s3cret", detail="s3cret " + "x" * 100_000
    )

    failed = as_result(
        call,
        refused,
        at="now",
        duration_seconds=1.5,
        mask=lambda text: text.replace("s3cret", "***"),
    )

    assert isinstance(failed, CallFailed)
    assert failed.reason == "cli_error: no: ***"
    assert failed.detail.startswith("*** xxx")
    assert len(failed.detail) == 64 * 1024 + len(" [...]")
