"""Before a council begins: what a request is about, what is asked, what is assumed, where it goes (council §16)."""

from __future__ import annotations

import pytest

from bridgehead.contract.words import Confidence, Intensity, TaskType
from bridgehead.council.request.clarify import Clarifier, Context, Request, read_context
from bridgehead.council.request.domains import load_registry
from bridgehead.council.request.plan import route_request

REGISTRY = load_registry()


def context(text: str, **fields: object) -> Context:
    return read_context(Request(text, **fields), REGISTRY)  # type: ignore[arg-type]


def test_a_clear_request_needs_no_question() -> None:
    clear = context("review src/auth.py for OAuth problems")
    assert (clear.artifact, clear.intent, clear.detected.domains) == (
        "code",
        "review",
        ("security",),
    )
    assert clear.missing == ()


def test_a_vague_request_leaves_everything_open() -> None:
    vague = context("look at this")
    assert vague.missing == ("artifact", "intent", "domains", "scope")


@pytest.mark.parametrize(
    ("text", "paths", "artifact"),
    [
        ("look", ("a.py",), "code"),
        ("the budget forecast and revenue", (), "financial"),
        ("campaign funnel conversion", (), "marketing"),
        ("literature study with citations", (), "research"),
        ("layout and typography of the mockup", (), "creative"),
        ("the revenue module", (), "code"),
        ("revenue and budget of the campaign funnel", (), "mixed"),
        ("nothing in particular", (), "code"),
        ("", ("plan.xlsx",), "financial"),
    ],
)
def test_the_kind_of_artifact_follows_from_words_and_extensions(
    text: str, paths: tuple[str, ...], artifact: str
) -> None:
    assert context(text, paths=paths).artifact == artifact


def test_a_diff_is_code_and_bounds_the_scope() -> None:
    assert context("is this right", has_diff=True).missing == ("intent", "domains")


def test_questions_come_in_order_and_stop_when_nothing_is_open() -> None:
    clarifier = Clarifier(context("look at this"), REGISTRY)
    slots = []
    for answer in ("src/auth.py", "verify", "security, made up thing"):
        question = clarifier.question()
        assert question is not None
        slots.append(question.slot)
        clarifier.answered(answer)
    assert slots == ["artifact", "intent", "domains"]
    assert clarifier.question() is None
    settled = clarifier.result()
    assert (settled.artifact, settled.task_type) == ("src/auth.py", TaskType.AUDIT)
    assert settled.domains == ("security", "made-up-thing")
    assert (settled.questions_asked, settled.assumptions, settled.confidence) == (
        3,
        (),
        Confidence.HIGH,
    )


def test_what_is_not_answered_is_assumed_and_listed() -> None:
    clarifier = Clarifier(context("look at this"), REGISTRY, has_changes=True)
    for answer in (None, "dance", ""):
        assert clarifier.question() is not None
        clarifier.answered(answer)
    settled = clarifier.result()
    assert clarifier.question() is None
    assert (settled.intent, settled.domains) == ("review", ("api", "testing"))
    assert len(settled.assumptions) == 4
    assert settled.confidence is Confidence.MEDIUM
    assert any("changed files" in one for one in settled.assumptions)


def test_nobody_to_ask_means_assumptions_only() -> None:
    settled = Clarifier(context("look at this"), REGISTRY).result()
    assert settled.questions_asked == 0
    assert settled.confidence is Confidence.MEDIUM


def test_a_known_artifact_without_a_scope_is_asked_for_its_part() -> None:
    question = Clarifier(
        context("review the login service for OAuth problems"), REGISTRY
    ).question()
    assert question is not None
    assert (question.slot, question.text) == (
        "artifact",
        "Which part of it should be looked at?",
    )


def test_domains_of_the_request_are_kept_and_others_added() -> None:
    clarifier = Clarifier(context("review src/auth.py for OAuth problems"), REGISTRY)
    assert clarifier.result().domains == ("security",)


@pytest.mark.parametrize(
    ("request_text", "intensity"),
    [
        ("quick look", Intensity.QUICK),
        ("be thorough", Intensity.THOROUGH),
        ("steadfast", Intensity.STANDARD),
    ],
)
def test_words_set_the_intensity_only_as_whole_words(
    request_text: str, intensity: Intensity
) -> None:
    routed = route_request(
        request_text, domains=1, explicit_route=None, explicit_intensity=None
    )
    assert routed.intensity is intensity


def test_a_phrase_may_be_broken_over_two_lines() -> None:
    routed = route_request(
        "ask multiple\n models", domains=1, explicit_route=None, explicit_intensity=None
    )
    assert routed.row == "council"
