"""Templates, completeness, quality and the directory they end up in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from bridgehead.flows import MockAgentInvoker, TemplateCreateOrchestrator
from bridgehead.flows.errors import FlowMistake
from bridgehead.flows.template_create.agents import NewAgent, Recommendation, yaml_text
from bridgehead.flows.template_create.choices import OPTIONS, Choices, read_words
from bridgehead.flows.template_create.phases.p2_manifest import (
    Manifest,
    Settings,
    template_name,
)
from bridgehead.flows.template_create.phases.p4_templates import (
    TemplateSet,
    make_templates,
)
from bridgehead.flows.template_create.phases.p5_agents import take_inventory
from bridgehead.flows.template_create.phases.p8_documentation import within
from bridgehead.flows.template_create.phases.p9_package import (
    Contents,
    IncompletePackage,
    assemble,
)
from bridgehead.flows.template_create.project.analysis import (
    CodebaseAnalysis,
    ExampleFile,
)
from bridgehead.flows.template_create.staging import Staging
from bridgehead.host.file_errors import Refusal


def templates_of(texts: Mapping[str, str], project: str = "orderbook") -> TemplateSet:
    examples = tuple(ExampleFile(path) for path in texts)
    return make_templates(
        CodebaseAnalysis(example_files=examples, project_name=project), texts
    )


def test_the_projects_own_names_become_placeholders_and_longer_words_do_not() -> None:
    text = "import orderbook.api\nclass Orderbook: ...\nORDERBOOK_HOME = 1\norderbooks = preorderbook\n"

    [template] = templates_of({"src/orderbook/api/x.py": text}).templates

    assert template.content == (
        "import {{Namespace}}.api\nclass {{ProjectName}}: ...\n{{ProjectUpper}}_HOME = 1\norderbooks = preorderbook\n"
    )
    assert template.template_path == "templates/presentation/api/x.py.template"
    assert template.path == "src/{{Namespace}}/api/x.py"
    assert template.placeholders == ("Namespace", "ProjectName", "ProjectUpper")


def test_a_text_with_braces_of_its_own_is_a_template_like_any_other() -> None:
    [template] = templates_of(
        {"a.py": "orderbook = '{{ x }} {{orderbook}}'\n"}
    ).templates

    assert template.content == "{{Namespace}} = '{{ x }} {{{{Namespace}}}}'\n"


def test_a_text_that_speaks_in_our_placeholders_is_left_alone() -> None:
    [template] = templates_of({"a.py": "orderbook = '{{ProjectName}}'\n"}).templates

    assert (template.content, template.placeholders) == (
        "orderbook = '{{ProjectName}}'\n",
        (),
    )


def test_files_of_one_name_do_not_overwrite_each_other_and_empty_ones_are_left_out() -> (
    None
):
    made = templates_of(
        {"a/b/c/d/x.py": "a = 1", "e/b/c/d/x.py": "a = 2", "empty.py": " \n"}
    )

    assert [t.template_path for t in made.templates] == [
        "templates/other/c/d/x.py.template",
        "templates/other/c/d/x-2.py.template",
    ]
    assert any("empty.py was left out" in warning for warning in made.warnings)


def test_a_layer_of_any_name_gives_a_directory_that_can_be_made() -> None:
    example = ExampleFile("a.py", layer="very " * 200)
    made = make_templates(CodebaseAnalysis(example_files=(example,)), {"a.py": "a = 1"})
    assert max(map(len, made.templates[0].template_path.split("/"))) < 100


def test_a_file_whose_name_would_be_a_path_elsewhere_is_left_out() -> None:
    made = templates_of({"src/a\\b.py": "a = 1", "src/c.py": "c = 1"})
    assert [template.original_path for template in made.templates] == ["src/c.py"]
    assert any("a\\b.py was left out" in warning for warning in made.warnings)


def test_a_value_of_front_matter_is_not_written_as_halves_of_a_character() -> None:
    # YAML has no pairs of surrogates: "\\ud83d\\ude80" would be two characters, and neither of them real.
    assert yaml_text('🚀 "é"') == '"🚀 \\"\\u00e9\\""'


def test_a_template_is_named_after_language_and_architecture() -> None:
    assert (
        template_name(CodebaseAnalysis("C#", architecture="Clean Architecture"))
        == "csharp-clean-architecture-template"
    )
    assert template_name(CodebaseAnalysis()) == "project-template"
    assert len(template_name(CodebaseAnalysis("Go", architecture="very " * 40))) <= 50


def test_a_document_is_cut_to_its_limit_at_a_line() -> None:
    cut = within("ä line\n" * 100, 120)

    assert len(cut.encode()) <= 120
    assert cut.endswith("ä line\n\n(cut to the size limit)\n")


@pytest.mark.parametrize("name", ["../out.txt", "/etc/out.txt", "a/../../out.txt"])
def test_nothing_is_written_outside_the_staging_directory(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(Refusal):
        Staging(tmp_path / "package", "flow-1").write({name: "x"})

    assert not list(tmp_path.rglob("out.txt"))


def test_a_link_planted_in_the_staging_directory_is_not_followed(
    tmp_path: Path,
) -> None:
    staging, elsewhere = Staging(tmp_path / "package", "flow-1"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    staging.write({"manifest.json": "{}"})
    (staging.path / "agents").symlink_to(elsewhere)

    with pytest.raises(Refusal):
        staging.write({"agents/a.md": "x"})

    assert not list(elsewhere.iterdir())


def test_a_file_or_link_in_the_packages_place_is_never_replaced(tmp_path: Path) -> None:
    staging = Staging(tmp_path / "package", "flow-1")
    staging.write({"manifest.json": "{}"})
    (tmp_path / "package").symlink_to(tmp_path)

    with pytest.raises(FlowMistake, match="already exists"):
        staging.install(force=False)
    with pytest.raises(FlowMistake, match="not a directory"):
        staging.install(force=True)


@pytest.mark.parametrize(
    "words",
    [
        ["--nonsense"],
        ["--name"],
        ["--name", "No Good"],
        ["--name", "../x"],
        ["--max-templates", "-1"],
        ["--min-score", "nan"],
        ["--claude-md-size-limit", "big"],
        ["--force=yes"],
        ["--output", "."],
        ["--output", "bad\nname"],
        ["--project", "/elsewhere"],
    ],
)
def test_a_bad_command_line_is_refused_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FlowMistake):
        read_words(words, tmp_path)

    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("inside", ["", "..", ".git/out", ".bridgehead/out"])
def test_the_package_may_not_take_the_place_of_the_project(
    tmp_path: Path, inside: str
) -> None:
    with pytest.raises(FlowMistake, match="cannot be used"):
        read_words(["--output", str(tmp_path / inside)], tmp_path)


def test_options_are_read_and_agents_are_on_by_default(tmp_path: Path) -> None:
    given, defaults = read_words(
        ["--name=abc", "--claude-md-size-limit", "2KB", "--no-agents"], tmp_path
    )

    assert given == {
        "template_name": "abc",
        "claude_md_size_limit": 2048,
        "no_agents": True,
    }
    assert defaults["output_path"] == str(tmp_path / "abc")
    assert defaults["no_agents"] is False
    assert {option.sets for option in OPTIONS.values()} >= defaults.keys()


def test_the_users_own_agents_come_before_global_ones_of_the_same_name(
    project: Path, tmp_path: Path
) -> None:
    for folder, text in ((project, "mine"), (tmp_path / "home", "global")):
        (folder / ".claude/agents").mkdir(parents=True)
        (folder / ".claude/agents/code-reviewer.md").write_text(
            f"---\nname: code-reviewer\ndescription: {text}\n---\n"
        )
        (folder / ".claude/agents/more-ext.md").write_text("---\nname: more\n---\n")

    inventory = take_inventory(str(project))

    assert [(agent.name, agent.source) for agent in inventory.all()] == [
        ("code-reviewer", "custom")
    ]
    assert len(inventory.global_agents) == 1


def test_with_an_invoker_the_whole_flow_runs_in_one_process(
    project: Path, tmp_path: Path
) -> None:
    invoker = MockAgentInvoker()
    invoker.add_sequence(
        "architectural-reviewer",
        [
            json.dumps(
                {
                    "technology_stack": {"primary_language": "Python"},
                    "overall_confidence": 0.9,
                }
            ),
            json.dumps({"use_existing": [], "create_new": [], "confidence": 0.9}),
        ],
    )

    done = TemplateCreateOrchestrator(agent_invoker=invoker).run(
        project, "--output", str(tmp_path / "package")
    )

    assert (done.exit_code, done.result["fallbacks"], done.result["agents"]) == (
        0,
        [],
        [],
    )
    assert (tmp_path / "package/CLAUDE.md").is_file()
    assert len(invoker.get_invocations()) == 2


def contents(*agents: NewAgent) -> Contents:
    return Contents(
        Manifest(name="n"), Settings(), TemplateSet(), Recommendation(create_new=agents)
    )


def test_a_package_that_was_put_in_place_before_a_crash_is_recognised(
    tmp_path: Path,
) -> None:
    staging, choices = (
        Staging(tmp_path / "package", "flow-1"),
        Choices(str(tmp_path / "package"), str(tmp_path)),
    )
    staging.write({"CLAUDE.md": "x"})

    first = assemble(staging, contents(), choices)

    assert (
        assemble(Staging(tmp_path / "package", "flow-1"), contents(), choices) == first
    )
    assert [path.name for path in tmp_path.iterdir()] == ["package"]


def test_a_package_without_an_agent_it_speaks_of_is_not_put_in_place(
    tmp_path: Path,
) -> None:
    staging, choices = (
        Staging(tmp_path / "package", "flow-1"),
        Choices(str(tmp_path / "package"), str(tmp_path)),
    )
    staging.write({"CLAUDE.md": "x"})

    with pytest.raises(IncompletePackage, match=r"agents/a\.md"):
        assemble(staging, contents(NewAgent("a", "d", "r")), choices)

    assert not (tmp_path / "package").exists()


def test_no_agents_wins_over_agents_in_any_order(tmp_path: Path) -> None:
    assert read_words(["--no-agents", "--agents"], tmp_path)[0] == {"no_agents": True}
    assert read_words(["--agents", "--no-agents"], tmp_path)[0] == {"no_agents": True}
    assert read_words(["--agents"], tmp_path)[0] == {"no_agents": False}
