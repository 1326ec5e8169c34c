"""The whole flow with real processes: paused, answered, resumed, and a package in the end."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.installed import Done, Machine

PACKAGE_FILES = ("manifest.json", "settings.json", "CLAUDE.md")
REPOSITORY = Path(__file__).resolve().parents[3]
ANALYSIS = {
    "technology_stack": {
        "primary_language": "Python",
        "frameworks": [{"name": "FastAPI", "version": "0.110"}],
    },
    "architecture": {
        "pattern": "Hexagonal",
        "layers": ["Presentation", "Application", "Infrastructure"],
    },
    "patterns": [{"name": "Repository", "confidence": 0.95}, {"confidence": 0.9}],
    "example_files": [
        {
            "path": "src/orderbook/services/orders.py",
            "layer": "Application",
            "purpose": "a service",
        },
        {"path": "../../etc/passwd"},
        {"path": "src/orderbook/none.py"},
    ],
    "overall_confidence": 0.93,
}


def new_agent(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "priority": 8,
        "rationale": f'{name} is needed: it\'s "special"',
        "key_patterns": ["Repository"],
        "capabilities": ["writes repositories"],
        "content_outline": {"purpose": f"Works as {name}"},
    }


def enhanced(name: str) -> dict[str, Any]:
    body = "\n".join(f"Line {number} of {name}." for number in range(60))
    return {
        "name": name,
        "enhanced_content": f"---\nname: {name}\ndescription: Enhanced {name}\n---\n\n{body}",
    }


@pytest.fixture
def user(tmp_path: Path, project: Path) -> Machine:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    return Machine(home, project)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "made" / "package"


@pytest.fixture
def create(user: Machine, output: Path) -> Callable[..., Done]:
    def run(*words: str) -> Done:
        return user.run(
            "flow", "run", "template-create", "--output", str(output), *words
        )

    return run


def respond(user: Machine, answer: Any, **members: str) -> None:
    text = answer if isinstance(answer, str) else json.dumps(answer)
    words = [
        word
        for name, value in members.items()
        for word in (f"--{name.replace('_', '-')}", value)
    ]
    done = user.run("flow", "respond", "--response-file", "-", *words, stdin=text)
    assert done.code == 0, done.err


def request(user: Machine) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(
        (user.project / ".agent-request.json").read_text()
    )
    return document


def state(user: Machine) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(
        (user.project / ".template-create-state.json").read_text()
    )
    return document


def test_three_agent_phases_are_paused_for_answered_and_make_a_package(
    user: Machine, create: Callable[..., Done], output: Path
) -> None:
    started = create("--name", "orders-api")
    assert started.code == 42, started.err
    assert started.out.startswith("BRIDGEHEAD-PAUSE ")
    assert started.out.count("\n") == 1
    assert (request(user)["phase"], request(user)["phase_name"]) == (
        1,
        "codebase_analysis",
    )
    assert "class OrderService" in request(user)["prompt"]
    assert not output.exists()

    respond(user, ANALYSIS)
    second = create("--resume")
    assert second.code == 42, second.err
    assert (request(user)["phase"], request(user)["phase_name"]) == (
        5,
        "agent_creation",
    )
    assert state(user)["phase_data"]["codebase_analysis"]["patterns"] == ["Repository"]
    assert [done["phase"] for done in state(user)["completed_phases"]] == [1, 2, 3, 4]

    names = [f"agent-{number}" for number in range(5)]
    respond(
        user,
        {
            "use_existing": [],
            "create_new": [*map(new_agent, names), new_agent("../evil")],
            "confidence": 0.9,
        },
    )
    third = create("--resume")
    assert third.code == 42, third.err
    asked = request(user)
    assert (asked["phase"], asked["agent_name"], asked["timeout_seconds"]) == (
        7,
        "agent-content-enhancer",
        300,
    )
    assert "agent-3" in asked["prompt"]
    assert "## Agent agent-4" not in asked["prompt"]  # at most four in one request

    respond(
        user,
        {"enhanced_agents": [enhanced(name) for name in names[:3]], "confidence": 0.9},
    )
    fourth = create("--resume")
    assert fourth.code == 42, fourth.err
    assert "## Agent agent-4" in request(user)["prompt"]
    respond(user, {"enhanced_agents": [], "confidence": 0.9})

    done = create("--resume")
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert (result["template"], result["agents"], result["problems"]) == (
        "orders-api",
        names,
        [],
    )
    assert result["fallbacks"] == [
        "agent_enhancement: basic text kept for agent-3, agent-4"
    ]
    assert all((output / name).is_file() for name in PACKAGE_FILES)
    assert "Line 59 of agent-0." in (output / "agents/agent-0.md").read_text()
    assert (
        "- `src/{{Namespace}}/services/{{EntitiesSnake}}.py`"
        in (output / "agents/agent-0.md").read_text()
    )
    assert "## Why This Agent Exists" in (output / "agents/agent-3.md").read_text()
    assert sorted(path.name for path in (output / "agents").iterdir()) == [
        f"{name}.md" for name in names
    ]
    assert all(name in (output / "CLAUDE.md").read_text() for name in names)
    assert (
        json.loads((output / "manifest.json").read_text())["architecture"]
        == "Hexagonal"
    )
    templates = sorted(path.name for path in (output / "templates").rglob("*.template"))
    assert templates == [
        "orders.py.template",
        "pyproject.toml.template",
    ]  # what it is built with comes along
    assert sorted(path.name for path in output.parent.iterdir()) == ["package"]
    assert not list(user.project.glob(".agent-*")) and not list(
        user.project.glob(".template-create*")
    )
    assert create("--resume").code == 0


def test_files_that_were_cleaned_away_are_made_again_from_the_journal(
    user: Machine, create: Callable[..., Done]
) -> None:
    create("--name", "orders-api")
    before = state(user)
    for file in user.project.glob(".*.json"):
        file.unlink()
    assert create("--resume").code == 42
    remade = state(user)
    assert (
        remade["agent_requests"][0]["request_id"]
        == before["agent_requests"][0]["request_id"]
    )
    respond(user, ANALYSIS)
    for file in user.project.glob(".*.json"):
        file.unlink()
    assert user.run("flow", "resume").code == 42
    assert [done["phase"] for done in state(user)["completed_phases"]] == [1, 2, 3, 4]
    assert request(user)["phase"] == 5


def test_without_any_agent_the_package_is_still_complete(
    user: Machine, create: Callable[..., Done], output: Path
) -> None:
    done = create("--heuristics-only", "--validate")

    assert done.code == 0, done.err
    assert "/9 " not in done.err  # a pipe is not shown what moves
    manifest = json.loads((output / "manifest.json").read_text())
    assert (manifest["name"], manifest["language"]) == (
        "python-layered-template",
        "Python",
    )
    assert "source_project" not in manifest
    assert str(user.project) not in "".join(
        p.read_text() for p in output.rglob("*") if p.is_file()
    )
    assert len(json.loads(done.out)["fallbacks"]) == 3
    assert "heuristics_only" in (output / "validation-report.md").read_text()
    text = (
        output / "templates/infrastructure/repositories/order_repository.py.template"
    ).read_text()
    assert "class {{EntityName}}Repository" in text
    assert "{{EntitiesTitle}} in the database of {{ProjectWords}}." in text


@pytest.mark.parametrize(
    ("answer", "members", "reason"),
    [
        ("no JSON at all", {}, "PARSE_ERROR"),
        ({"technology_stack": []}, {}, "VALIDATION_ERROR"),
        ({**ANALYSIS, "overall_confidence": 0.3}, {}, "low_confidence"),
        (
            "",
            {"status": "error", "error_type": "UNKNOWN", "message": "quota"},
            "UNKNOWN",
        ),
    ],
)
def test_an_unusable_analysis_is_replaced_by_the_heuristics_and_said_so(
    user: Machine,
    create: Callable[..., Done],
    answer: Any,
    members: dict[str, str],
    reason: str,
) -> None:
    assert create("--no-agents").code == 42
    respond(user, answer, **members)

    done = create("--resume")

    assert done.code == 0, done.err
    [fallback] = json.loads(done.out)["fallbacks"]
    assert fallback.startswith(f"codebase_analysis: heuristic analysis ({reason}")


def test_a_cancelled_request_stops_the_run_and_writes_no_package(
    user: Machine, create: Callable[..., Done], output: Path
) -> None:
    assert create().code == 42
    respond(user, "", status="cancelled")

    assert create("--resume").code == 1
    assert not output.exists()


def test_an_existing_directory_is_only_replaced_when_that_is_asked_for(
    create: Callable[..., Done], output: Path
) -> None:
    output.mkdir(parents=True)
    (output / "mine.txt").write_text("mine")

    refused = create("--heuristics-only")
    assert refused.code == 1
    assert "already exists" in refused.err
    assert (output / "mine.txt").read_text() == "mine"

    assert create("--heuristics-only", "--force").code == 0
    assert not (output / "mine.txt").exists()
    assert sorted(path.name for path in output.parent.iterdir()) == ["package"]


def test_a_score_below_the_one_asked_for_ends_in_1_with_the_package_to_look_at(
    create: Callable[..., Done], output: Path
) -> None:
    done = create(
        "--heuristics-only", "--min-score", "10", "--max-templates", "0", "--validate"
    )

    assert done.code == 1
    assert "--min-score asks for 10" in done.err
    assert (output / "validation-report.md").is_file()


def test_links_ignored_files_and_secrets_reach_neither_prompt_nor_package(
    user: Machine, create: Callable[..., Done], tmp_path: Path
) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text("OUTSIDE_TEXT = 1\n" * 30)
    (user.project / "src/orderbook/linked.py").symlink_to(outside)
    (user.project / "src/orderbook/ignored.py").write_text("IGNORED_TEXT = 1\n" * 30)
    (user.project / ".gitignore").write_text("ignored.py\n")
    key = "AKIA" + "QZ3X7VJKLMNPR5TW"
    (user.project / "src/orderbook/get_keys.py").write_text(
        f'SECRET_TEXT = 1\naws_access_key_id = "{key}"\n' * 20
    )
    subprocess.run(
        ["git", "init", "-q", str(user.project)], check=True, env=user.environ()
    )

    assert create().code == 42

    prompt = request(user)["prompt"]
    assert "class OrderService" in prompt
    assert not [
        word
        for word in ("OUTSIDE_TEXT", "IGNORED_TEXT", "SECRET_TEXT", key)
        if word in prompt
    ]


def test_the_seeds_own_example_state_can_be_resumed(
    user: Machine, output: Path
) -> None:
    example = {
        "version": "1.0",
        "phase": 5,
        "phase_name": "agent_recommendation",
        "checkpoint_name": "before_agent_invocation",
        "created_at": "2025-11-18T10:30:00Z",
        "output_path": str(user.project / "my-template"),
        "project_path": str(user.project),
        "template_name": "my-template",
        "phase_data": {
            "codebase_analysis": {
                "primary_language": "C#",
                "framework": ".NET MAUI",
                "patterns": ["MVVM"],
            },
            "manifest": {
                "name": "my-template",
                "language": "C#",
                "framework": ".NET MAUI",
            },
            "existing_agents": {
                "user_custom": [],
                "template": [],
                "global": ["code-reviewer"],
            },
        },
    }
    (user.project / ".template-create-state.json").write_text(json.dumps(example))

    resumed = user.run(
        "flow", "run", "template-create", "--resume", "--heuristics-only"
    )

    assert resumed.code == 0, resumed.err
    manifest = json.loads((user.project / "my-template/manifest.json").read_text())
    assert (manifest["name"], manifest["language"], manifest["patterns"]) == (
        "my-template",
        "C#",
        ["MVVM"],
    )


def test_this_repository_gives_a_sensible_template_without_any_agent(
    tmp_path: Path,
) -> None:
    listed = subprocess.run(
        [
            "git",
            "-C",
            str(REPOSITORY),
            "ls-files",
            "-z",
            "src",
            "tests/flows",
            "pyproject.toml",
            "README.md",
        ],
        capture_output=True,
        check=True,
        text=True,
    )
    copy, home = tmp_path / "bridgehead", tmp_path / "home"
    home.mkdir()
    for name in filter(None, listed.stdout.split("\0")):
        if (REPOSITORY / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((REPOSITORY / name).read_bytes())

    done = Machine(home, copy).run(
        *("flow", "run", "template-create", "--heuristics-only", "--min-score", "8"),
        *("--output", str(tmp_path / "package")),
    )

    assert done.code == 0, done.err
    manifest = json.loads((tmp_path / "package/manifest.json").read_text())
    assert manifest["language"] == "Python"
    assert {"Presentation", "Domain", "Application", "Infrastructure"} <= set(
        manifest["layers"]
    )
    assert {"click", "pytest"} <= {
        framework["name"] for framework in manifest["frameworks"]
    }
    assert {"Immutable value objects", "Error hierarchy"} <= set(manifest["patterns"])
    templates = list((tmp_path / "package/templates").rglob("*.template"))
    assert 20 <= len(templates) <= 60
    assert any("from {{Namespace}}." in path.read_text() for path in templates)
