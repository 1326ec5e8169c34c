"""Experts for domains, and domains for requests (data/domains.yaml)."""

from __future__ import annotations

import pytest

from bridgehead.council.request.domains import (
    Code,
    load_registry,
    says,
    with_own_domains,
)
from bridgehead.errors import ConfigError

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
        (
            "gdpr retention",
            "Compliance Officer for gdpr retention",
            "adapted:compliance",
            (),
        ),
        (
            "smart contract gas cost",
            "Smart Contract Gas Cost Specialist",
            "virtual",
            ("api", "finance"),
        ),
        (
            "quantum error correction",
            "Quantum Error Correction Specialist",
            "virtual",
            ("error-handling",),
        ),
        ("falconry", "Falconry Specialist", "virtual", ("api", "testing")),
    ],
)
def test_lookup_gives_the_expert_the_protocol_describes(
    request_name: str, role: str, origin: str, sources: tuple[str, ...]
) -> None:
    expert = REGISTRY.expert(request_name, task="look at it")
    assert (expert.role, expert.origin, expert.synthesized_from) == (
        role,
        origin,
        sources,
    )


def test_an_adapted_expert_looks_first_at_what_was_asked_for() -> None:
    expert = REGISTRY.expert("kafka stream processing", reason="offsets may be lost")
    assert expert.focus_areas[0] == "kafka stream processing: offsets may be lost"
    assert len(expert.focus_areas) == 5


def test_without_a_reason_or_a_task_the_name_alone_is_what_was_asked_for() -> None:
    assert load_registry().expert("kafka stream").focus_areas[0] == "kafka stream"


def test_the_same_name_always_gives_the_same_expert() -> None:
    assert REGISTRY.expert("smart contract gas cost") == REGISTRY.expert(
        "Smart_Contract  gas-cost"
    )


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
def test_signals_are_whole_words_and_phrases(
    text: str, signal: str, found: bool
) -> None:
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
    assert REGISTRY.detect("", added=named).domains == tuple(named)


def test_an_alias_named_by_the_user_is_the_domain_itself() -> None:
    assert REGISTRY.detect("", exactly=["crypto", "Cryptography"]).domains == (
        "cryptographic",
    )


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


EXPRESS = {
    "server.js": """const express = require("express");\napp.get("/", (req, res) => res.send(1));""",
    "app/data/users-dao.js": """const { MongoClient } = require("mongodb");\nusers.findOne({ name: req.body.name });""",
    "package.json": """{"dependencies": {"express": "4", "mongodb": "2", "bcrypt-nodejs": "0"}}""",
}
LIBRARY = {"src/sums.py": "def total(values):\n    return sum(values)\n"}


def test_the_code_says_which_experts_it_needs_and_each_has_a_reason() -> None:
    detected = REGISTRY.detect("", code=Code(EXPRESS))
    assert detected.domains[:3] == ("security", "backend", "database")
    assert detected.reasons["security"].startswith("sits in every review of code")
    assert (
        detected.reasons["backend"]
        == "express, app.get(, req.body in server.js and 2 more"
    )
    assert not detected.by_default


@pytest.mark.parametrize(
    ("path", "text", "domain"),
    [
        ("a/views.py", "from flask import Flask\n", "backend"),
        (
            "a/Api.java",
            "import org.springframework.web.bind.annotation.GetMapping;\n",
            "backend",
        ),
        ("main.go", 'import (\n\t"database/sql"\n)\n', "database"),
        ("src/main.rs", "use tokio::sync::Mutex;\n", "concurrency"),
        ("app.rb", "require 'sidekiq'\n", "async-queue"),
        ("Sign.cs", "using System.Security.Cryptography;\n", "cryptographic"),
        ("web/App.vue", "<template/>", "frontend"),
        ("deploy/Dockerfile", "FROM scratch\n", "infrastructure"),
        ("schema.sql", "CREATE TABLE t (a int);\n", "database"),
        ("lib.c", "#include <pthread.h>\n", "concurrency"),
    ],
)
def test_imports_manifests_and_kinds_of_files_speak_in_every_language(
    path: str, text: str, domain: str
) -> None:
    assert domain in REGISTRY.detect("", code=Code({path: text, **LIBRARY})).domains


def test_words_in_the_names_of_files_choose_nobody() -> None:
    named = {
        "content/copy_text_writing.py": "x = 1\n",
        "brand/kafka/queue.py": "y = 2\n",
    }
    assert REGISTRY.detect("", code=Code(named)).domains == ("security", "code-quality")


def test_a_single_file_of_many_calls_nobody() -> None:
    tree = {f"src/m{number}.py": "def f(a):\n    return a\n" for number in range(60)}
    assert (
        "cryptographic"
        not in REGISTRY.detect("", code=Code({**tree, "a.py": "import hmac\n"})).domains
    )
    assert (
        "cryptographic"
        in REGISTRY.detect("", code=Code({"a.py": "import hmac\n"})).domains
    )


def test_of_a_change_its_lines_speak_and_the_imports_of_its_files() -> None:
    whole = {"a.py": "import os\ncursor.execute('SELECT a FROM b WHERE c')\nprint(1)\n"}
    assert "database" in REGISTRY.detect("", code=Code(whole)).domains
    assert (
        "database"
        not in REGISTRY.detect(
            "", code=Code(whole, changed={"a.py": "print(1)"})
        ).domains
    )


def test_security_sits_in_every_review_of_code_unless_it_is_switched_off() -> None:
    library = Code(LIBRARY)
    assert REGISTRY.detect("", code=library).domains == ("security", "code-quality")
    assert "security" not in REGISTRY.detect("", code=library, never=["appsec"]).domains
    assert (
        "security"
        in REGISTRY.detect(
            "is the OAuth login safe?", code=library, never=["appsec"]
        ).domains
    )
    assert "security" not in REGISTRY.detect("", code=library, judged=False).domains
    assert REGISTRY.detect("", code=library, exactly=["testing"]).domains == (
        "testing",
    )


def test_tests_in_scope_bring_the_expert_for_tests_last() -> None:
    detected = REGISTRY.detect("", code=Code(EXPRESS, tests=2))
    assert (detected.domains[-1], detected.reasons["testing"]) == (
        "testing",
        "2 test files",
    )


def test_what_is_added_stands_beside_what_the_code_calls_for() -> None:
    chosen = REGISTRY.detect("", code=Code(EXPRESS)).domains
    assert REGISTRY.detect(
        "", code=Code(EXPRESS), added=["ux", "security"]
    ).domains == (
        *(one for one in chosen if one != "security"),
        "ux-design",
        "security",
    )


def test_words_of_the_request_choose_before_the_code_does() -> None:
    detected = REGISTRY.detect("is the GraphQL pagination right?", code=Code(EXPRESS))
    assert detected.domains[:2] == ("security", "api")
    assert detected.reasons["api"] == 'the request says "GraphQL", "pagination"'
    assert detected.spoken == 1


def test_a_projects_own_domain_is_found_by_its_signals_and_may_sit_always() -> None:
    table = {
        "id": "Double Entry",
        "role": "Ledger Engineer",
        "code": [r"post_entry\("],
        "focus": ["balances"],
    }
    registry = with_own_domains(REGISTRY, [table], "domains.toml")
    code = Code({"a.py": "post_entry(1)\n"})
    assert "double-entry" in registry.detect("", code=code).domains
    assert registry.expert("double entry").role == "Ledger Engineer"
    always = with_own_domains(REGISTRY, [{**table, "always": True}], "domains.toml")
    assert always.detect("", code=Code(LIBRARY)).domains == (
        "double-entry",
        "security",
        "code-quality",
    )


def test_a_domain_of_that_id_takes_the_place_of_the_known_one() -> None:
    registry = with_own_domains(
        REGISTRY, [{"id": "testing", "role": "Our Tester"}], "domains.toml"
    )
    assert registry.expert("testing").role == "Our Tester"
    assert len(registry.domains) == len(REGISTRY.domains)


@pytest.mark.parametrize(
    "table",
    [
        {"id": "a"},
        {"id": "", "role": "x"},
        {"id": "integration", "role": "x"},
        {"id": "a", "role": "x", "code": ["("]},
    ],
)
def test_a_domain_that_cannot_be_understood_is_refused_with_the_name_of_its_file(
    table: dict[str, object],
) -> None:
    with pytest.raises(ConfigError, match=r"domains\.toml"):
        with_own_domains(REGISTRY, [table], "domains.toml")


@pytest.mark.parametrize(
    "piece",
    [
        "\n",
        " ",
        "catch(",
        "require ",
        "except ",
        "async with ",
        "from '",
        "select a ",
        "import a.",
        '"a/',
        "#include <",
    ],
)
def test_a_hostile_file_is_looked_through_once(piece: str) -> None:
    tree = {f"src/{number}.py": f"catch require{piece * 20_000}" for number in range(8)}
    assert REGISTRY.detect("", code=Code(tree)).domains[0] == "security"
