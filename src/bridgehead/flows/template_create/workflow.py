"""Define the template-create flow: nine phases, three with an agent (flows §11)."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from bridgehead.errors import BridgeheadError, plural
from bridgehead.flows.definition import flow
from bridgehead.flows.engine.context import PhasedContext
from bridgehead.flows.engine.engine import run_flow
from bridgehead.flows.engine.run_request import (
    RunInputs,
    RunOptions,
    RunRequest,
    RunResult,
)
from bridgehead.flows.interfaces import AgentInvoker
from bridgehead.flows.template_create.agents import Recommendation
from bridgehead.flows.template_create.choices import (
    Choices,
    described_options,
    read_words,
    root_in,
)
from bridgehead.flows.template_create.phases import (
    p1_analysis,
    p5_agents,
    p7_agent_texts,
)
from bridgehead.flows.template_create.phases.p2_manifest import (
    Manifest,
    Settings,
    make_manifest,
    make_settings,
)
from bridgehead.flows.template_create.phases.p4_templates import (
    TemplateSet,
    make_templates,
)
from bridgehead.flows.template_create.phases.p7_agent_texts import (
    EnhancedSet,
    render_agent,
)
from bridgehead.flows.template_create.phases.p8_documentation import (
    Facts,
    make_documents,
)
from bridgehead.flows.template_create.phases.p9_package import (
    Contents,
    Package,
    assemble,
)
from bridgehead.flows.template_create.progress import (
    Progress,
    analysis_summary,
    enhancement_summary,
    fallbacks_of,
    package_summary,
    recommendation_summary,
    summary_of,
    templates_summary,
)
from bridgehead.flows.template_create.project.analysis import CodebaseAnalysis
from bridgehead.flows.template_create.project.tree import read_sources
from bridgehead.flows.template_create.staging import Staging, refuse_taken
from bridgehead.flows.values.codec import from_plain
from bridgehead.flows.words import AgentName


class _Phase(NamedTuple):
    """The name of a phase, the type of its result, and its key in the state file."""

    name: str
    result: Any = None
    key: str | None = None


PHASES: Final = {
    1: _Phase("codebase_analysis", CodebaseAnalysis, "codebase_analysis"),
    2: _Phase("manifest_generation", Manifest, "manifest"),
    3: _Phase("settings_generation", Settings, "settings"),
    4: _Phase("template_generation", TemplateSet, "templates"),
    5: _Phase("agent_recommendation", Recommendation, "agents"),
    6: _Phase("agent_writing"),
    7: _Phase("agent_enhancement", EnhancedSet),
    8: _Phase("documentation_generation"),
    9: _Phase("package_assembly", Package),
}


class ScoreTooLow(Exception):
    """The package is in place, but not as good as required."""

    def __init__(self, package: Package, wanted: float) -> None:
        score = "has no score"
        if package.score is not None:
            score = f"scores {package.score:g}"
        super().__init__(f"{package.path} {score}, and --min-score asks for {wanted:g}")


@flow(
    "template-create",
    version="1",
    agents=tuple(agent.value for agent in AgentName),
    keeps_state_file=True,
    read_words=read_words,
    root_in=root_in,
    describe_options=described_options,
    operational=("validate",),
    abandon=lambda settings, flow_id: Staging(
        Path(settings["output_path"]), flow_id
    ).abandon(),
)
def template_create(ctx: PhasedContext, **settings: Any) -> dict[str, Any]:
    """Make a template package of the project the flow runs in."""
    given = {key: value for key, value in settings.items() if value is not None}
    choices: Choices = from_plain({"project_path": str(ctx.root), **given}, Choices)
    run = _TemplateRun(ctx, choices)
    try:
        return run.to_the_end()
    except BridgeheadError:
        raise  # a full disk or a taken name can be mended, and the run resumed
    except Exception:
        run.staging.abandon()
        raise


class _TemplateRun:
    """One pass over the phases.

    The state file of another program may lack the result of a phase.
    """

    def __init__(self, ctx: PhasedContext, choices: Choices) -> None:
        self._ctx = ctx
        self._choices = choices
        self._progress = Progress()
        self.staging = Staging(choices.output, ctx.flow_id)

    def to_the_end(self) -> dict[str, Any]:
        choices = self._choices
        self._ctx.step("output_is_free", refuse_taken, choices.output, choices.force)
        analysis: CodebaseAnalysis = self._phase(
            1, lambda ctx: p1_analysis.run_phase(ctx, choices), analysis_summary
        )
        analysis = analysis or CodebaseAnalysis()
        manifest = self._manifest(analysis)
        settings: Settings = self._phase(
            3,
            lambda _: make_settings(analysis),
            lambda made: f"{plural(len(made.layer_mappings), 'layer')} mapped",
        )
        settings = settings or make_settings(analysis)
        templates = self._templates(analysis)
        facts = Facts(analysis, settings, templates)
        recommendation = Recommendation()
        enhanced = EnhancedSet()
        if not choices.no_agents:
            recommendation = self._recommendation(facts)
            enhanced = self._agents(facts, recommendation)
        self._documents(manifest, facts, recommendation)
        fallbacks = fallbacks_of(analysis, recommendation, enhanced)
        contents = Contents(
            manifest,
            settings,
            templates,
            recommendation,
            fallbacks,
            analysis.project_name,
        )
        package: Package = self._phase(
            9, lambda _: assemble(self.staging, contents, choices), package_summary
        )
        wanted = choices.min_score
        if wanted is not None and (package.score is None or package.score < wanted):
            raise ScoreTooLow(package, wanted)
        return summary_of(package, templates, fallbacks)

    def _manifest(self, analysis: CodebaseAnalysis) -> Manifest:
        made: Manifest | None = self._phase(
            2,
            lambda ctx: make_manifest(analysis, self._choices, ctx.now()),
            lambda manifest: f"{manifest.name}, complexity {manifest.complexity}",
        )
        if made is not None and made.schema_version:
            return made
        # A manifest of another writer keeps its name; the rest follows from the analysis.
        name = self._choices.template_name
        if made is not None and made.name:
            name = name or made.name
        choices = replace(self._choices, template_name=name)
        return make_manifest(analysis, choices, self._ctx.now())

    def _templates(self, analysis: CodebaseAnalysis) -> TemplateSet:
        made: TemplateSet | None = self._phase(
            4, lambda _: generate_templates(analysis, self._choices), templates_summary
        )
        if made is not None:
            return made
        lasting = replace(self._choices, validate=False)
        return self._ctx.step("templates_again", generate_templates, analysis, lasting)

    def _recommendation(self, facts: Facts) -> Recommendation:
        found: Recommendation | None = self._phase(
            5,
            lambda ctx: p5_agents.run_phase(ctx, self._choices, facts),
            recommendation_summary,
        )
        return found or Recommendation()

    def _agents(self, facts: Facts, recommendation: Recommendation) -> EnhancedSet:
        basics = {
            agent.name: render_agent(agent, facts)
            for agent in recommendation.create_new
        }

        def enhance(ctx: PhasedContext) -> EnhancedSet:
            made = p7_agent_texts.run_phase(
                ctx, basics, facts, self._choices.project_path
            )
            self._write_agents({agent.name: agent.content for agent in made.agents})
            return made

        self._phase(
            6,
            lambda _: self._write_agents(basics),
            lambda count: plural(count, "agent file"),
        )
        enhanced: EnhancedSet | None = self._phase(7, enhance, enhancement_summary)
        return enhanced or EnhancedSet()

    def _write_agents(self, texts: dict[str, str]) -> int:
        self.staging.write({f"agents/{name}.md": text for name, text in texts.items()})
        return len(texts)

    def _documents(
        self, manifest: Manifest, facts: Facts, recommendation: Recommendation
    ) -> None:
        used = {agent.name: agent.description for agent in recommendation.use_existing}

        def write(_: PhasedContext) -> int:
            documents = make_documents(
                manifest,
                facts,
                {**self.staging.agents(), **used},
                rules_structure=not self._choices.no_rules_structure,
                size_limit=self._choices.claude_md_size_limit,
            )
            self.staging.write(documents)
            return len(documents)

        self._phase(8, write, lambda count: plural(count, "document"))

    def _phase(
        self,
        number: int,
        body: Callable[[PhasedContext], Any],
        summary: Callable[[Any], str],
    ) -> Any:
        """Run a phase, and show the user where the run is."""

        def summarise(value: Any) -> str:
            return "restored" if value is None else summary(value)

        name, result, key = PHASES[number]
        value = self._ctx.phase(
            number, name, body, key=key, result=result, summary=summarise
        )
        self._progress.finished(number, name, summarise(value))
        return value


def generate_templates(analysis: CodebaseAnalysis, choices: Choices) -> TemplateSet:
    """Read the project, and make templates of the example files and of what they refer to."""
    if not analysis.example_files:
        survey = p1_analysis.survey_project(choices.project_path, choices.output_path)
        analysis = replace(
            analysis,
            example_files=survey.analysis.example_files,
            project_name=analysis.project_name or survey.analysis.project_name,
        )
    paths = [example.path for example in analysis.example_files]
    texts = read_sources(choices.root, paths, leave_out=choices.output)
    return make_templates(
        analysis, texts, author=choices.author, most=choices.max_templates
    )


class TemplateCreateOrchestrator:
    """Runs the flow from Python (flows §8): with an invoker it never pauses."""

    def __init__(
        self, agent_invoker: AgentInvoker | None = None, inputs: RunInputs | None = None
    ) -> None:
        self._inputs = copy(inputs) if inputs else RunInputs()
        if agent_invoker is not None:
            self._inputs.invoker = agent_invoker

    def run(
        self,
        project: Path,
        *words: str,
        resume: bool = False,
        heuristics_only: bool = False,
    ) -> RunResult:
        """Make a template of `project`; `words` are options such as `--output`."""
        given, defaults = read_words(words, project)
        options = RunOptions(heuristics_only=heuristics_only or None)
        request = RunRequest(
            project, "template-create", given, defaults, options, resume=resume
        )
        return run_flow(template_create, request, self._inputs)
