"""The checks before a council: who is skipped, who halts it, and the events of each step."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from bridgehead.contract.report import ModelWarning
from bridgehead.contract.task import BridgeInput
from bridgehead.contract.words import Status, TaskType
from bridgehead.council.request.settings import RuntimeSettings, load_settings
from bridgehead.council.runtimes import BUILT_IN, find_runtime, runtime_names
from bridgehead.council.runtimes.base import SeatSetup
from bridgehead.council.runtimes.exchange import HttpReply
from bridgehead.council.runtimes.machine import http_get, problem_of
from bridgehead.council.seating.preflight import NotSeated, Ready, Wishes, check_seat
from bridgehead.errors import NotFound
from bridgehead.host.command import CommandResult, Ended
from bridgehead.testing.model_server import ModelServer

TASK = BridgeInput(
    session_id="a",
    scope="src/",
    task_description="look",
    domains=("security", "testing", "api"),
)

StandIn = Callable[..., Any]
LISTED = (0, "opencode/free-model\nlocal/llama\nlocal/qwen\n")


def check(
    bridge: str,
    machine: Any,
    *,
    task: BridgeInput = TASK,
    wishes: Wishes | None = None,
    models: tuple[str | None, ...] = (None,),
    enabled: bool = True,
    host_seat: bool = False,
    retired: bool = False,
    **options: Any,
) -> Ready | NotSeated:
    setup = SeatSetup(
        bridge,
        RuntimeSettings(enabled=enabled, models=models, options=options),
        environment=machine.environment,
        host_seat=host_seat,
        retired=retired,
    )
    return check_seat(find_runtime(bridge), setup, task, machine, wishes or Wishes())


def seated(outcome: Ready | NotSeated) -> Ready:
    assert isinstance(outcome, Ready), outcome
    return outcome


def refused(outcome: Ready | NotSeated) -> NotSeated:
    assert isinstance(outcome, NotSeated), outcome
    return outcome


@pytest.mark.parametrize("bridge", ["claude", "gemini", "codex", "opencode"])
def test_a_missing_cli_is_skipped(machine: StandIn, bridge: str) -> None:
    outcome = refused(check(bridge, machine()))

    assert (outcome.status, outcome.reason) == (Status.SKIPPED, "cli_not_found")


@pytest.mark.parametrize(
    ("bridge", "reason"),
    [("codex", "cli_not_installed"), ("opencode", "cli_not_found")],
)
def test_a_missing_cli_halts_where_the_settings_say_so(
    machine: StandIn, bridge: str, reason: str
) -> None:
    outcome = refused(check(bridge, machine(), on_missing="halt"))

    assert (outcome.status, outcome.reason) == (Status.HALTED, reason)
    assert "npm install" in outcome.message


def test_a_disabled_bridge_is_not_looked_at(
    machine: StandIn, stand_in: StandIn
) -> None:
    here = machine({"claude": stand_in("claude")})
    outcome = refused(check("claude", here, enabled=False))

    assert outcome.reason == "disabled_in_settings"
    assert here.commands == []


def test_every_step_leaves_an_event(machine: StandIn, stand_in: StandIn) -> None:
    outcome = seated(check("codex", machine({"codex": stand_in("codex")})))

    assert [event.fields["step"] for event in outcome.events] == [
        "settings",
        "discovery",
        "availability_check",
        "availability_check",
        "auth_check",
        "multi_agent_check",
        "model_validation",
        "timeout_estimate",
        "reasoning_level",
    ]


def test_a_cli_without_the_flags_that_protect_us_is_not_used(machine: StandIn) -> None:
    old = {
        "claude": lambda command: (
            0,
            "0.2.9" if "--version" in command.argv else "--model",
        )
    }
    outcome = refused(check("claude", machine(old)))

    assert outcome.status is Status.SKIPPED
    assert "claude 0.2.9 does not know --setting-sources" in outcome.reason


def test_a_program_that_cannot_say_its_version_is_named_in_the_reason(
    machine: StandIn,
) -> None:
    outcome = refused(check("claude", machine({"claude": lambda command: (3, "")})))

    assert outcome.reason == "cli_error: claude --version: exit code 3"


@pytest.mark.parametrize(
    ("bridge", "answers", "environment", "expected"),
    [
        (
            "claude",
            {"auth_status": (1, "{}")},
            {},
            (Status.HALTED, "not_authenticated"),
        ),
        ("codex", {"login_status": (1, "")}, {}, (Status.HALTED, "not_authenticated")),
        ("gemini", {}, {}, (Status.SKIPPED, "auth_probe_failed")),
        (
            "opencode",
            {"models": (0, "opencode/free-model\n")},
            {},
            (Status.HALTED, "no_provider_configured"),
        ),
        ("opencode", {"models": (1, "")}, {}, (Status.SKIPPED, "cli_error")),
    ],
)
def test_nobody_logged_in(
    machine: StandIn,
    stand_in: StandIn,
    bridge: str,
    answers: dict[str, tuple[int, str]],
    environment: dict[str, str],
    expected: tuple[Status, str],
) -> None:
    outcome = refused(
        check(
            bridge,
            machine({bridge: stand_in(bridge, **answers)}, environment=environment),
        )
    )

    assert (outcome.status, outcome.reason.partition(":")[0]) == expected


def test_a_listing_that_fails_is_not_taken_for_a_missing_login(
    machine: StandIn, stand_in: StandIn
) -> None:
    outcome = refused(
        check("opencode", machine({"opencode": stand_in("opencode", models=(1, ""))}))
    )
    assert outcome.reason == "cli_error: opencode models: exit code 1"
    assert outcome.message == "run `opencode models` to see what is wrong"
    late = CommandResult(
        ("opencode", "models"),
        Ended.TIMEOUT,
        124,
        datetime(2026, 1, 1, tzinfo=UTC),
        30.02,
    )
    assert problem_of(late) == "no answer within 30 s"


CODEX_CONFIG = '[model_providers.mine]\nenv_key = "MY_KEY"\n'


@pytest.mark.parametrize(
    ("bridge", "answers", "environment", "files"),
    [
        ("claude", {"auth_status": (0, "{}")}, {}, {}),
        ("codex", {"login_status": (0, "")}, {}, {}),
        (
            "codex",
            {"login_status": (1, "")},
            {"MY_KEY": "x"},
            {
                "/home/user/.codex/config.toml": f'model_provider = "mine"\n{CODEX_CONFIG}'
            },
        ),
        ("gemini", {}, {"GEMINI_API_KEY": "x"}, {}),
        ("gemini", {}, {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "l"}, {}),
        ("gemini", {}, {}, {"/home/user/.gemini/oauth_creds.json": "{}"}),
        ("opencode", {"models": LISTED}, {}, {}),
    ],
)
def test_somebody_logged_in(
    machine: StandIn,
    stand_in: StandIn,
    bridge: str,
    answers: dict[str, tuple[int, str]],
    environment: dict[str, str],
    files: dict[str, str],
) -> None:
    here = machine(
        {bridge: stand_in(bridge, **answers)}, environment=environment, files=files
    )

    assert seated(check(bridge, here)).seat.connection == "cli"


def test_claude_without_a_login_goes_over_the_api_when_there_is_a_key(
    machine: StandIn, stand_in: StandIn
) -> None:
    models = {"data": [{"id": "claude-opus-9"}, {"id": "claude-sonnet-9"}]}
    here = machine(
        {"claude": stand_in("claude", auth_status=(1, "{}"))},
        environment={"ANTHROPIC_API_KEY": "k"},
        pages={
            "https://api.anthropic.com/v1/models": HttpReply(200, json.dumps(models))
        },
    )
    outcome = seated(check("claude", here))

    assert (outcome.seat.connection, outcome.seat.reads_files) == ("api", False)
    assert outcome.seat.models == ("claude-sonnet-9",)


def test_a_refused_api_key_halts(machine: StandIn) -> None:
    here = machine(
        environment={"ANTHROPIC_API_KEY": "k"},
        pages={"https://api.anthropic.com/v1/models": HttpReply(401)},
    )

    assert refused(check("claude", here)).reason == "not_authenticated"


def test_agy_sits_for_gemini_only_where_gemini_is_missing_or_was_refused_for_good(
    machine: StandIn, stand_in: StandIn
) -> None:
    both = {"gemini": stand_in("gemini"), "agy": stand_in("agy")}
    alone = seated(check("gemini", machine({"agy": stand_in("agy")})))
    retired = seated(check("gemini", machine(both), retired=True))
    not_logged_in = refused(check("gemini", machine(both)))

    assert (alone.seat.runtime, alone.seat.connection, alone.seat.reads_files) == (
        "agy",
        "cli",
        False,
    )
    assert "unverified_backend:agy" in alone.seat.warnings
    assert retired.seat.runtime == "agy"
    assert not_logged_in.reason.startswith("auth_probe_failed")


# -- models


@pytest.mark.parametrize(
    ("named", "used", "warned"),
    [
        ((None,), ("local/llama",), []),
        (("local/qwen",), ("local/qwen",), []),
        (("local/gone",), ("local/llama",), ["local/gone"]),
        (
            ("local/qwen", "local/gone", "local/llama"),
            ("local/qwen", "local/llama"),
            ["local/gone"],
        ),
    ],
)
def test_models_are_checked_against_the_list_that_costs_nothing(
    machine: StandIn,
    stand_in: StandIn,
    named: tuple[str | None, ...],
    used: tuple[str, ...],
    warned: list[str],
) -> None:
    seat = seated(
        check(
            "opencode",
            machine({"opencode": stand_in("opencode", models=LISTED)}),
            models=named,
        )
    ).seat

    assert seat.models == used
    assert [warning.model for warning in seat.model_validation_warnings] == warned


def test_a_model_in_no_known_form_is_named_with_the_seat(
    machine: StandIn, stand_in: StandIn
) -> None:
    text = json.dumps({"bridges": {"opencode": {"models": ["glm", "local/qwen"]}}})
    entry = load_settings(text, datetime(2026, 11, 15, tzinfo=UTC)).runtimes["opencode"]
    here = machine({"opencode": stand_in("opencode", models=LISTED)})
    setup = SeatSetup("opencode", entry, environment=here.environment)

    seat = seated(
        check_seat(find_runtime("opencode"), setup, TASK, here, Wishes())
    ).seat

    assert seat.models == ("local/qwen",)
    assert seat.model_validation_warnings == (
        ModelWarning("glm", "not in provider/model format"),
    )


def test_the_users_own_default_model_is_taken_before_the_first_of_the_list(
    machine: StandIn, stand_in: StandIn
) -> None:
    here = machine(
        {"opencode": stand_in("opencode", models=LISTED)},
        files={"/home/user/.config/opencode/opencode.json": '{"model": "local/qwen"}'},
    )

    assert seated(check("opencode", here)).seat.models == ("local/qwen",)


def test_a_model_that_cannot_be_checked_is_kept_without_a_warning(
    machine: StandIn, stand_in: StandIn
) -> None:
    seat = seated(
        check("claude", machine({"claude": stand_in("claude")}), models=("sonnet",))
    ).seat

    assert (seat.models, seat.model_validation_warnings) == (("sonnet",), ())


# -- limits, reasoning, report fields


def test_codex_with_agents_of_its_own_gets_more_time(
    machine: StandIn, stand_in: StandIn
) -> None:
    features = (0, "apps stable true\nmulti_agent      stable             true\n")
    plain = seated(check("codex", machine({"codex": stand_in("codex")})))
    agents = seated(
        check("codex", machine({"codex": stand_in("codex", features_list=features)}))
    )

    assert (plain.seat.timeout_seconds, agents.seat.timeout_seconds) == (180, 270)
    assert agents.seat.extra == {
        "multi_agent_enabled": True,
        "reasoning_level": "medium",
    }


@pytest.mark.parametrize(
    ("text", "files", "cap", "may", "level"),
    [
        ("look", None, "xhigh", True, "medium"),
        ("a critical fix", None, "medium", True, "medium"),
        ("a critical fix", None, "high", True, "high"),
        ("a critical fix", None, "xhigh", False, "high"),
        ("a critical fix", None, "xhigh", True, "xhigh"),
        ("uncritically", None, "xhigh", True, "medium"),
        ("look", 20, "xhigh", True, "high"),
        ("look", 19, "xhigh", True, "medium"),
    ],
)
def test_the_reasoning_level_of_codex_follows_the_request_under_the_users_limit(
    machine: StandIn,
    stand_in: StandIn,
    text: str,
    files: int | None,
    cap: str,
    may: bool,
    level: str,
) -> None:
    task = BridgeInput(
        session_id="a", scope="x", task_description=text, domains=("api",), files=files
    )
    wishes = Wishes(reasoning_cap=cap, may_use_most_reasoning=may)

    assert (
        seated(
            check(
                "codex", machine({"codex": stand_in("codex")}), task=task, wishes=wishes
            )
        ).reasoning
        == level
    )


def test_three_domains_with_a_grave_one_raise_the_level(
    machine: StandIn, stand_in: StandIn
) -> None:
    outcome = seated(
        check(
            "codex",
            machine({"codex": stand_in("codex")}),
            wishes=Wishes(reasoning_cap="high"),
        )
    )

    assert outcome.reasoning == "high"


def test_gemini_cannot_be_told_a_level_and_the_report_says_so(
    machine: StandIn, stand_in: StandIn
) -> None:
    here = machine({"gemini": stand_in("gemini")}, environment={"GEMINI_API_KEY": "x"})
    seat = seated(check("gemini", here, wishes=Wishes(reasoning_cap="high"))).seat

    assert seat.warnings == ("reasoning_level_unsupported:gemini",)


def test_report_fields_belong_to_their_bridge(
    machine: StandIn, stand_in: StandIn
) -> None:
    claude = seated(check("claude", machine({"claude": stand_in("claude")}))).seat
    several = machine({"opencode": stand_in("opencode", models=LISTED)})
    opencode = seated(
        check("opencode", several, models=("local/llama", "local/qwen"))
    ).seat

    assert claude.extra == {"dispatch_mode": "plain", "agents_spawned": 5}
    assert opencode.extra["dispatch_mode"] == "multi-model"
    assert opencode.extra["models_configured"] == ("local/llama", "local/qwen")


# -- the host seat


def test_the_host_seat_is_taken_only_when_it_was_asked_for(machine: StandIn) -> None:
    assert (
        seated(check("claude", machine(), host_seat=True)).seat.connection
        == "native-dispatch"
    )
    assert refused(check("claude", machine())).reason == "cli_not_found"


# -- endpoints


@pytest.mark.parametrize(
    ("options", "pages", "expected"),
    [
        ({}, {}, (Status.SKIPPED, "no_connection")),
        ({"base_url": "file:///etc"}, {}, (Status.SKIPPED, "no_connection")),
        ({"base_url": "http://[::1"}, {}, (Status.SKIPPED, "no_connection")),
        ({"base_url": "http://127.0.0.1:1/v1"}, {}, (Status.SKIPPED, "no_connection")),
        (
            {"base_url": "http://127.0.0.1:1/v1"},
            {"http://127.0.0.1:1/v1/models": HttpReply(403)},
            (Status.HALTED, "not_authenticated"),
        ),
    ],
)
def test_an_endpoint_that_cannot_be_used(
    machine: StandIn,
    options: dict[str, str],
    pages: dict[str, HttpReply],
    expected: tuple[Status, str],
) -> None:
    outcome = refused(check("openai", machine(pages=pages), **options))

    assert (outcome.status, outcome.reason) == expected


def test_an_endpoint_is_found_by_its_model_list_and_has_the_family_of_the_settings(
    machine: StandIn,
) -> None:
    pages = {
        "http://127.0.0.1:1/v1/models": HttpReply(200, '{"data": [{"id": "llama"}]}')
    }
    seat = seated(
        check(
            "openai",
            machine(pages=pages),
            base_url="http://127.0.0.1:1/v1/",
            family="meta/llama",
        )
    ).seat

    assert (seat.model_family, seat.connection, seat.models) == (
        "meta/llama",
        "http-api",
        ("llama",),
    )
    assert not seat.reads_files


# -- names


def test_all_built_in_runtimes_can_be_found_and_have_prefixes_of_their_own() -> None:
    runtimes = [find_runtime(name) for name in BUILT_IN]

    assert "".join(runtime.id_prefix for runtime in runtimes) == "CGXOAS"
    assert find_runtime("rig:win-5080").id_prefix == "R"


@pytest.mark.parametrize("name", ["grok", "rig:", "", "rig"])
def test_a_name_nobody_answers_to_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(NotFound, match="no runtime named"):
        find_runtime(name)


def test_runtime_names_begin_with_the_four_bridges() -> None:
    assert runtime_names()[:4] == ["claude", "gemini", "codex", "opencode"]


def test_a_server_on_this_machine_is_asked_directly_whatever_proxy_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    with ModelServer() as server:
        assert http_get(f"{server.base_url()}/v1/models", {}, 20).status == 200


def test_settings_nested_too_deep_are_none(machine: StandIn, stand_in: StandIn) -> None:
    here = machine(
        {"gemini": stand_in("gemini")},
        environment={"GEMINI_API_KEY": "k"},
        files={"/home/user/.gemini/settings.json": "[" * 100_000},
    )
    assert isinstance(check("gemini", here), Ready)


def test_no_call_is_given_up_before_the_shortest_silence_and_a_longer_estimate_stays(
    machine: StandIn, stand_in: StandIn
) -> None:
    here = machine({"codex": stand_in("codex")})
    estimated = seated(check("codex", here)).seat.timeout_seconds

    patient = seated(
        check("codex", here, wishes=Wishes(shortest_timeout=estimated + 100))
    ).seat
    assert patient.timeout_seconds == estimated + 100
    assert patient.deadline_seconds > estimated + 100
    assert (
        seated(
            check("codex", here, wishes=Wishes(shortest_timeout=1))
        ).seat.timeout_seconds
        == estimated
    )


def test_who_has_no_tools_makes_no_implementation(
    machine: StandIn, stand_in: StandIn
) -> None:
    making = msgspec.structs.replace(TASK, task_type=TaskType.IMPLEMENTATION)
    loose = machine({"codex": stand_in("codex")}, confined_by=None)

    assert (
        refused(check("codex", loose, task=making)).reason
        == "cli_error: codex cannot change files here"
    )
    assert seated(check("codex", loose)).seat.reads_files is False
    assert seated(check("codex", machine({"codex": stand_in("codex")}), task=making))


def test_the_deadline_of_a_seat_counts_the_steps_it_really_has(
    machine: StandIn, stand_in: StandIn
) -> None:
    here = machine({"codex": stand_in("codex")})
    usual = seated(check("codex", here)).seat
    debating = seated(check("codex", here, wishes=Wishes(debates=True))).seat
    narrow = seated(check("codex", here, wishes=Wishes(max_concurrency=2))).seat

    assert usual.deadline_seconds == usual.timeout_seconds * (1 + 3 + 1), (
        "a reminder is a step, too"
    )
    assert debating.deadline_seconds == usual.timeout_seconds * (1 + 3 + 1), (
        "three rounds of messages, last positions"
    )
    assert narrow.deadline_seconds == 3 * usual.deadline_seconds, (
        "five agents, two at a time"
    )
