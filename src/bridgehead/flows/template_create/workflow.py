"""The template-create flow: nine phases, three of which ask an agent (flows §11); for Python programs, with an
invoker (§8).
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

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
    because,
    enhancement_summary,
    fallbacks_of,
    summary_of,
    templates_summary,
)
from bridgehead.flows.template_create.project.analysis import CodebaseAnalysis
from bridgehead.flows.template_create.project.tree import read_sources
from bridgehead.flows.template_create.staging import Staging, refuse_taken
from bridgehead.flows.values.codec import from_plain
from bridgehead.flows.words import AgentName

NAMES: Final = {
    1: "codebase_analysis",
    2: "manifest_generation",
    3: "settings_generation",
    4: "template_generation",
    5: "agent_recommendation",
    6: "agent_writing",
    7: "agent_enhancement",
    8: "documentation_generation",
    9: "package_assembly",
}


class ScoreTooLow(Exception):
    """The package is in place, but not as good as was asked for."""

    def __init__(self, package: Package, wanted: float) -> None:
        scored = (
            "has no score" if package.score is None else f"scores {package.score:g}"
        )
        super().__init__(
            f"{package.path} {scored}, and --min-score asks for {wanted:g}"
        )


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
    with Progress() as progress:
        run = _TemplateRun(ctx, choices, progress)
        try:
            return run.to_the_end()
        except BridgeheadError:
            raise  # a full disk or a taken name can be mended, and the run resumed
        except Exception:
            run.staging.abandon()
            raise


class _TemplateRun:
    """One pass over the phases."""

    def __init__(
        self, ctx: PhasedContext, choices: Choices, progress: Progress
    ) -> None:
        self._ctx = ctx
        self._choices = choices
        self._progress = progress
        self.staging = Staging(choices.output, ctx.flow_id)

    def to_the_end(self) -> dict[str, Any]:
        self._ctx.step(
            "output_is_free", refuse_taken, self._choices.output, self._choices.force
        )
        analysis = self._analysis()
        manifest = self._manifest(analysis)
        settings = self._settings(analysis)
        templates = self._templates(analysis)
        facts = Facts(analysis, settings, templates)
        recommendation, enhanced = Recommendation(), EnhancedSet()
        if not self._choices.no_agents:
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
        package = self._package(contents)
        wanted = self._choices.min_score
        if wanted is not None and (package.score is None or package.score < wanted):
            raise ScoreTooLow(package, wanted)
        return summary_of(package, templates, fallbacks)

    def _analysis(self) -> CodebaseAnalysis:
        found: CodebaseAnalysis | None = self._phase(
            1,
            lambda ctx: p1_analysis.run_phase(ctx, self._choices),
            analysis_summary,
            key="codebase_analysis",
            result=CodebaseAnalysis,
        )
        return found or CodebaseAnalysis()

    def _manifest(self, analysis: CodebaseAnalysis) -> Manifest:
        made: Manifest | None = self._phase(
            2,
            lambda ctx: make_manifest(analysis, self._choices, ctx.now()),
            lambda manifest: f"{manifest.name}, complexity {manifest.complexity}",
            key="manifest",
            result=Manifest,
        )
        if made is not None and made.schema_version:
            return made
        # A state of another writer; what it does not say follows from the analysis, its name stays.
        choices = replace(
            self._choices,
            template_name=self._choices.template_name or (made and made.name) or None,
        )
        return make_manifest(analysis, choices, self._ctx.now())

    def _settings(self, analysis: CodebaseAnalysis) -> Settings:
        made: Settings | None = self._phase(
            3,
            lambda _: make_settings(analysis),
            lambda settings: f"{plural(len(settings.layer_mappings), 'layer')} mapped",
            key="settings",
            result=Settings,
        )
        return made or make_settings(analysis)

    def _templates(self, analysis: CodebaseAnalysis) -> TemplateSet:
        made: TemplateSet | None = self._phase(
            4,
            lambda _: generate_templates(analysis, self._choices),
            templates_summary,
            key="templates",
            result=TemplateSet,
        )
        lasting = replace(self._choices, validate=False)
        return made or self._ctx.step(
            "templates_again", generate_templates, analysis, lasting
        )

    def _recommendation(self, facts: Facts) -> Recommendation:
        found: Recommendation | None = self._phase(
            5,
            lambda ctx: p5_agents.run_phase(ctx, self._choices, facts),
            lambda r: (
                f"{len(r.create_new)} to make, {len(r.use_existing)} exist{because(r.fallback_reason)}"
            ),
            key="agents",
            result=Recommendation,
        )
        return found or Recommendation()

    def _agents(self, facts: Facts, recommendation: Recommendation) -> EnhancedSet:
        basics = {
            agent.name: render_agent(agent, facts)
            for agent in recommendation.create_new
        }
        self._phase(
            6,
            lambda _: self._write_agents(basics),
            lambda count: plural(count, "agent file"),
        )

        def enhance(ctx: PhasedContext) -> EnhancedSet:
            made = p7_agent_texts.run_phase(
                ctx, basics, facts, self._choices.project_path
            )
            self._write_agents({agent.name: agent.content for agent in made.agents})
            return made

        enhanced: EnhancedSet | None = self._phase(
            7, enhance, enhancement_summary, result=EnhancedSet
        )
        return enhanced or EnhancedSet()

    def _write_agents(self, texts: dict[str, str]) -> int:
        self.staging.write({f"agents/{name}.md": text for name, text in texts.items()})
        return len(texts)

    def _documents(
        self, manifest: Manifest, facts: Facts, recommendation: Recommendation
    ) -> None:
        def write(_: PhasedContext) -> int:
            used = {
                agent.name: agent.description for agent in recommendation.use_existing
            }
            agents = {**self.staging.agents(), **used}
            rules, limit = (
                not self._choices.no_rules_structure,
                self._choices.claude_md_size_limit,
            )
            documents = make_documents(
                manifest, facts, agents, rules_structure=rules, size_limit=limit
            )
            self.staging.write(documents)
            return len(documents)

        self._phase(8, write, lambda count: plural(count, "document"))

    def _package(self, contents: Contents) -> Package:
        package: Package = self._phase(
            9,
            lambda _: assemble(self.staging, contents, self._choices),
            lambda package: (
                f"{package.path}, {package.proof.proven} of {package.proof.files} files proven"
            ),
            result=Package,
        )
        return package

    def _phase(
        self,
        number: int,
        body: Callable[[PhasedContext], Any],
        summary: Callable[[Any], str],
        *,
        key: str | None = None,
        result: Any = None,
    ) -> Any:
        """Run a phase, and show the user where the run is."""

        def said(value: Any) -> str:
            return (
                "restored" if value is None else summary(value)
            )  # a state file may lack a phase's result

        name = NAMES[number]
        self._progress.entered(number, name)
        value = self._ctx.phase(
            number, name, body, key=key, result=result, summary=said
        )
        self._progress.finished(number, name, said(value))
        return value


def generate_templates(analysis: CodebaseAnalysis, choices: Choices) -> TemplateSet:
    """Phase 4 with its reading: templates of the example files and of what they refer to."""
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
    """Runs the flow. With an invoker it never pauses; without one it does, and `resume` goes on."""

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
        """Make a template of `project`; `words` are the options of the command line, such as `--output`."""
        given, defaults = read_words(words, project)
        options = RunOptions(heuristics_only=heuristics_only or None)
        request = RunRequest(
            project, "template-create", given, defaults, options, resume=resume
        )
        return run_flow(template_create, request, self._inputs)
