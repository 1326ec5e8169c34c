"""Experts for domains, and domains for requests (data/domains.yaml)."""

from __future__ import annotations

import pytest

from bridgehead.council.request.domains import load_registry, says

REGISTRY = load_registry()


@pytest.mark.parametrize(
    ("request_name", "role", "origin", "sources"),
    [
        ("Security", "Security Auditor", "registry", ()),
        ("content", "Content Strategist", "registry", ()),
        (
            "kafka stream processing",
            "Async Systems Specialist for kafka stream processing",
            "adapted:async-queue",
            (),
        ),
        ("gdpr retention", "Compliance Officer for gdpr retention", "adapted:compliance", ()),
        ("smart contract gas cost", "Smart Contract Gas Cost Specialist", "virtual", ("api", "finance")),
        ("quantum error correction", "Quantum Error Correction Specialist", "virtual", ("error-handling",)),
        ("falconry", "Falconry Specialist", "virtual", ("api", "testing")),
    ],
)
def test_lookup_gives_the_expert_the_protocol_describes(
    request_name: str, role: str, origin: str, sources: tuple[str, ...]
) -> None:
    expert = REGISTRY.expert(request_name, task="look at it")
    assert (expert.role, expert.origin, expert.synthesized_from) == (role, origin, sources)


def test_an_adapted_expert_looks_first_at_what_was_asked_for() -> None:
    expert = REGISTRY.expert("kafka stream processing", reason="offsets may be lost")
    assert expert.focus_areas[0] == "kafka stream processing: offsets may be lost"
    assert len(expert.focus_areas) == 5


def test_without_a_reason_or_a_task_the_name_alone_is_what_was_asked_for() -> None:
    assert load_registry().expert("kafka stream").focus_areas[0] == "kafka stream"


def test_the_same_name_always_gives_the_same_expert() -> None:
    assert REGISTRY.expert("smart contract gas cost") == REGISTRY.expert("Smart_Contract  gas-cost")


@pytest.mark.parametrize(
    ("text", "signal", "found"),
    [
        ("any company", "any", True),
        ("the company", "any", False),
        ("capital letters", "API", False),
        ("the API's users", "API", True),
        ("two endpoints", "endpoint", True),
        ("rate-limit the caller", "rate limit", True),
        ("rate  limit", "rate limit", False),
        ("zero trust network", "zero-trust", True),
        ("use CI/CD here", "CI/CD", True),
    ],
)
def test_signals_are_whole_words_and_phrases(text: str, signal: str, found: bool) -> None:
    assert says(text, signal) is found


def test_a_request_without_any_signal_gets_the_defaults_of_its_artifact() -> None:
    detected = REGISTRY.detect("look at this")
    assert detected.domains == ("api", "testing")
    assert detected.by_default


def test_what_the_cap_leaves_out_is_reported() -> None:
    text = "OAuth, SQL, GraphQL, Kafka, latency, Terraform, PKI and pytest"
    detected = REGISTRY.detect(text)
    assert len(detected.domains) == 5
    assert detected.deferred
    assert not set(detected.domains) & set(detected.deferred)


def test_domains_named_by_the_user_are_exempt_from_the_cap() -> None:
    named = ["security", "database", "api", "testing", "frontend", "compliance"]
    assert REGISTRY.detect("", explicit=named).domains == tuple(named)


def test_an_alias_named_by_the_user_is_the_domain_itself() -> None:
    assert REGISTRY.detect("", explicit=["crypto", "Cryptography"]).domains == ("cryptographic",)


def test_english_words_count_for_typescript_only_beside_it() -> None:
    alone = REGISTRY.detect("never trust any unknown caller")
    beside = REGISTRY.detect("TypeScript with any and unknown")
    assert "types-typescript" not in alone.domains
    assert "types-typescript" in beside.domains
    types = REGISTRY.find("typescript")
    assert types is not None
    assert types.score("never any type error") == types.score("type error")
    assert types.score("TypeScript, never any") > types.score("TypeScript")


def test_every_domain_of_the_registry_can_be_looked_up_by_id_and_alias() -> None:
    for domain in REGISTRY.domains:
        for name in (domain.id, *domain.aliases):
            assert REGISTRY.expert(name).origin == "registry", name
