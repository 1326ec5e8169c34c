"""What the programs and their services print when they refuse, as users have reported it, and what to do then."""

from __future__ import annotations

import pytest

from bridgehead.contract.words import ErrorClass
from bridgehead.council.refusals import advice_for, classify, wait_until
from bridgehead.council.reporting.render.sentences import advice_lines

# Texts from the public issue trackers of claude-code, codex, gemini-cli and opencode.
REFUSALS: dict[ErrorClass, list[str]] = {
    ErrorClass.AUTH: [
        "Invalid API key · Please run /login",
        "OAuth token has expired. Please obtain a new token or refresh your token.",
        (
            "Your access token could not be refreshed because your refresh token was "
            "already used. Please log out and sign in again."
        ),
        "Please set an Auth method in your settings.json or specify GEMINI_API_KEY",
        "No auth credentials found",
        "This credential is only authorized for use with Claude Code",
        "401 Unauthorized",
    ],
    ErrorClass.ACCOUNT: [
        'API Error: 400 {"error":{"message":"This organization has been disabled."}}',
        (
            "Your organization has disabled Claude subscription access for Claude Code · "
            "Use an Anthropic API key instead, or ask your admin to enable access"
        ),
        "Your organization must be verified to use the model `o3`",
        "Cloud AI Companion API has not been used in project 1 before or it is disabled",
        "This account requires setting the GOOGLE_CLOUD_PROJECT env var.",
        "Please verify your account to continue using Gemini Code Assist",
    ],
    ErrorClass.QUOTA: [
        "You've hit your usage limit. Upgrade to Pro or try again in 5 days 22 hours.",
        "Claude AI usage limit reached|1750708800",
        "You've hit your limit · resets 1:30am (Asia/Dhaka)",
        "You've hit your session limit · resets 11:50pm",
        "5-hour limit reached ∙ resets 3am",
        "Credit balance is too low",
        "To use Codex with your ChatGPT plan, upgrade to Plus",
        "402 Insufficient credits. This account never purchased credits.",
        "402 This request requires more credits, or fewer max_tokens.",
        "Insufficient balance or no resource package. Please recharge.",
        "Quota exceeded for quota metric 'Gemini 2.5 Pro Requests' and limit",
        "You have exhausted your capacity on this model. Your quota will reset after 2h.",
        "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000",
        "Extra usage is required for long context requests.",
    ],
    ErrorClass.SPEND_LIMIT: [
        (
            "You have reached your specified API usage limits. You will regain access on "
            "2025-06-01 at 00:00 UTC."
        ),
        "Billing hard limit has been reached",
        "Key limit exceeded (total limit).",
        "Project exceeded its monthly spending cap.",
    ],
    ErrorClass.RATE_LIMIT: [
        "exceeded retry limit, last status: 429 Too Many Requests",
        "Number of request tokens has exceeded your per-minute rate limit",
        "Resource has been exhausted (e.g. check quota).",
    ],
    ErrorClass.UPGRADE: [
        "It looks like your version of Claude Code (1.0.2) needs an update.",
        "This client version is no longer supported. Please upgrade to the latest.",
    ],
    ErrorClass.UNKNOWN_MODEL: [
        (
            "The 'gpt-5.3-codex-spark' model is not supported when using Codex with a "
            "ChatGPT account."
        ),
        "ProviderModelNotFoundError: minimax/MiniMax-M2.1",
        "There's an issue with the selected model (claude-x). It may not exist.",
        "Claude Opus 4 is not available with the Claude Pro plan",
        "No endpoints found that support tool use.",
    ],
    ErrorClass.REGION: [
        "User location is not supported for the API use.",
        "Country, region, or territory not supported",
    ],
    ErrorClass.CONTENT_FILTER: [
        (
            "API Error: Claude Code is unable to respond to this request, which appears to "
            "violate our Usage Policy"
        ),
        "The response was blocked by the provider's content filter",
        "This request has been flagged for potentially high-risk cyber activity.",
    ],
    ErrorClass.CUT: [
        "API Error: Claude's response exceeded the 64000 output token maximum.",
        "Incomplete response returned, reason: max_output_tokens",
    ],
    ErrorClass.TOO_LONG: [
        "Prompt is too long",
        "Codex ran out of room in the model's context window.",
        "The input token count (2000000) exceeds the maximum number of tokens allowed",
    ],
    ErrorClass.SERVER_ERROR: [
        "API Error: Server is temporarily limiting requests (not your usage limit)",
        "Selected model is at capacity. Please try a different model.",
        "The model is overloaded. Please try again later.",
        "exceeded retry limit, last status: 503 Service Unavailable",
    ],
    ErrorClass.UNREACHABLE: [
        "request failed: getaddrinfo ENOTFOUND api.openai.com",
        "unable to get local issuer certificate",
        "upstream connect error or disconnect/reset before headers",
        "API Error: Connection error.",
        "Request timed out.",
    ],
    ErrorClass.SANDBOX: [
        "bwrap: No permissions to create a new namespace",
        "sandbox error: sandbox denied exec error",
    ],
    ErrorClass.MACHINE: [
        "No space left on device",
        "JavaScript heap out of memory",
        "Error: EACCES: permission denied, open '/home/ada/.codex/auth.json'",
    ],
    ErrorClass.MALFORMED: [
        "stream error: error decoding response body; retrying 1/5",
    ],
}


@pytest.mark.parametrize("error_class", REFUSALS)
def test_a_refusal_has_a_class_that_a_person_can_act_on(
    error_class: ErrorClass,
) -> None:
    read = {text: classify(text) for text in REFUSALS[error_class]}

    assert read == dict.fromkeys(REFUSALS[error_class], error_class)
    assert advice_for(error_class)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("You've hit your limit · resets 1:30am (Asia/Dhaka)", "resets 1:30am (Asia/"),
        ("or try again in 5 days 22 hours 11 minutes.", "try again in 5 days 22 hours"),
        ("You will regain access on 2025-06-01 at 00:00 UTC.", "regain access on 2025"),
        ("Claude AI usage limit reached|1750708800", "resets 2025-06-23 20:00 UTC"),
        ("disconnect/reset before headers", None),
        ("Quota exceeded.", None),
    ],
)
def test_the_time_at_which_one_may_ask_again_is_read_where_it_is_given(
    text: str, told: str | None
) -> None:
    until = wait_until(text)

    assert until is None if told is None else until and until.startswith(told)


def test_each_cause_gets_its_own_advice_in_the_report() -> None:
    lines = advice_lines(
        {
            "claude": "cli_error: You've hit your limit · resets 1:30am (Asia/Dhaka)",
            "codex": "auth_probe_failed: token_expired",
            "gemini": "cli_error: User location is not supported for the API use.",
            "opencode": "cli_not_found",
        }
    )

    assert lines == [
        (
            "claude: wait (resets 1:30am (Asia/Dhaka)), pay, or name other seats with "
            "--runtime"
        ),
        "codex: log in again",
        "gemini: use another seat; the service does not serve this region",
    ]
