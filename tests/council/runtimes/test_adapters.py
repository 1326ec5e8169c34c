"""What each adapter runs or posts, and in which environment: the contract with the versions it was measured on."""

from __future__ import annotations

import json
import signal
import tomllib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from bridgehead.contract.words import CapabilityProfile, ErrorClass
from bridgehead.council.calls import Answer, Call, CallKey, Role, Step
from bridgehead.council.request.settings import RuntimeSettings
from bridgehead.council.running.call_runner import CallRunner
from bridgehead.council.runtimes import runtime_names
from bridgehead.council.runtimes.base import Connection, Missing, SeatSetup, registered
from bridgehead.council.runtimes.claude import ClaudeApi, ClaudeCli
from bridgehead.council.runtimes.cli import CliConnection
from bridgehead.council.runtimes.codex import CodexCli
from bridgehead.council.runtimes.exchange import (
    CallOutcome,
    HttpReply,
    HttpRequest,
    RuntimeAnswer,
    RuntimeRefusal,
    RuntimeRequest,
    ToolServer,
)
from bridgehead.council.runtimes.gemini import AgyCli, GeminiCli
from bridgehead.council.runtimes.machine import Machine
from bridgehead.council.runtimes.openai_compatible import ChatEndpoint
from bridgehead.council.runtimes.opencode import LoopGuard, OpencodeCli, OpencodeServer
from bridgehead.host.command import Command, CommandResult, Ended
from bridgehead.host.confinement import is_within
from bridgehead.testing.model_server import ModelServer
from bridgehead.testing.scripts import Rule, RuleScript

ASK = RuntimeRequest("look at it", Path("/snapshot"), 60, model="m1")
MODIFY = replace(ASK, profile=CapabilityProfile.MODIFY)
FORBIDDEN = ("yolo", "bypass", "danger", "--allowedTools", "--auto", "-y")
CLIS: dict[str, type[CliConnection]] = {
    "claude": ClaudeCli,
    "codex": CodexCli,
    "gemini": GeminiCli,
    "opencode": OpencodeCli,
}
StandIn = Callable[..., Any]


@pytest.fixture
def locate(machine: StandIn, stand_in: StandIn) -> Callable[..., CliConnection]:
    def run(
        name: str, environment: dict[str, str] | None = None, **options: Any
    ) -> CliConnection:
        kind = AgyCli if name == "agy" else CLIS[name]
        here = machine({name: stand_in(name)}, environment=environment)
        settings = RuntimeSettings(options=options)
        found = kind.locate(
            SeatSetup(name, settings, environment=here.environment), here
        )
        assert isinstance(found, CliConnection), found
        return found

    return run


def profile(right: str, *more: str) -> list[str]:
    """The permission profile that keeps codex's commands to the workspace."""
    program = Path("/bin/codex").resolve()
    library = program.parent.parent / "lib"
    paths = [f'"{path}"="read"' for path in (":minimal", program, library)]
    rules = ",".join([*paths, f'":workspace_roots"={{"."="{right}"}}', *more])
    return [
        "-c",
        'default_permissions="bridgehead"',
        "-c",
        f"permissions.bridgehead.filesystem={{{rules}}}",
    ]


def command(connection: CliConnection, ask: RuntimeRequest = ASK) -> Command:
    request = connection.ask(ask)
    assert isinstance(request, Command)
    return request


CODEX_CONFIG = [
    *(
        "-c",
        "features.unbounded_connection_retries=false",
        "-c",
        "check_for_update_on_startup=false",
    ),
    *("-c", "analytics.enabled=false", "-c", "project_doc_max_bytes=0"),
]


@pytest.mark.parametrize(
    ("name", "ask", "options", "expected"),
    [
        (
            "claude",
            ASK,
            {},
            [
                *(
                    "-p",
                    "--output-format",
                    "json",
                    "--setting-sources",
                    "user",
                    "--strict-mcp-config",
                ),
                *(
                    "--tools",
                    "Read,Grep,Glob",
                    "--model=m1",
                    "--no-session-persistence",
                ),
            ],
        ),
        (
            "claude",
            replace(ASK, session="s1", reasoning="high"),
            {"continuity": "session"},
            [
                *(
                    "-p",
                    "--output-format",
                    "json",
                    "--setting-sources",
                    "user",
                    "--strict-mcp-config",
                ),
                *(
                    "--tools",
                    "Read,Grep,Glob",
                    "--model=m1",
                    "--effort=high",
                    "--resume=s1",
                ),
            ],
        ),
        (
            "claude",
            replace(MODIFY, model=None),
            {},
            [
                *(
                    "-p",
                    "--output-format",
                    "json",
                    "--setting-sources",
                    "user",
                    "--strict-mcp-config",
                ),
                *(
                    "--tools",
                    "Read,Grep,Glob,Edit,Write,NotebookEdit",
                    "--permission-mode",
                    "acceptEdits",
                ),
                "--no-session-persistence",
            ],
        ),
        (
            "codex",
            replace(ASK, reasoning="high"),
            {},
            [
                *("exec", "--json", "--skip-git-repo-check", *CODEX_CONFIG),
                *(
                    "-c",
                    'model_reasoning_effort="high"',
                    "--model=m1",
                    *profile("read"),
                ),
                *("-C", "/snapshot", "--ephemeral", "-"),
            ],
        ),
        (
            "codex",
            replace(ASK, session="t1"),
            {"continuity": "session"},
            [
                *(
                    "exec",
                    "resume",
                    "--json",
                    "--skip-git-repo-check",
                    *CODEX_CONFIG,
                    "--model=m1",
                ),
                *(*profile("read"), "--", "t1", "-"),
            ],
        ),
        (
            "codex",
            replace(MODIFY, model=None),
            {"extra_args": ["--add-dir", "/x"]},
            [
                *(
                    "exec",
                    "--json",
                    "--skip-git-repo-check",
                    *CODEX_CONFIG,
                    "--add-dir",
                    "/x",
                ),
                *(
                    *profile("write", '":tmpdir"="write"'),
                    "-C",
                    "/snapshot",
                    "--ephemeral",
                    "-",
                ),
            ],
        ),
        (
            "gemini",
            ASK,
            {},
            [
                "--output-format",
                "stream-json",
                "--approval-mode",
                "plan",
                "--skip-trust",
                "--model=m1",
            ],
        ),
        (
            "gemini",
            replace(MODIFY, model=None, session="s1"),
            {},
            [
                "--output-format",
                "stream-json",
                "--approval-mode",
                "auto_edit",
                "--skip-trust",
                "--resume=s1",
            ],
        ),
        (
            "opencode",
            ASK,
            {},
            [
                "run",
                "--format",
                "json",
                "--model=m1",
                "--agent",
                "plan",
                "--title=bridgehead council",
            ],
        ),
        (
            "opencode",
            replace(MODIFY, session="ses_1"),
            {},
            [
                "run",
                "--format",
                "json",
                "--model=m1",
                "--agent",
                "build",
                "--session=ses_1",
            ],
        ),
        ("agy", ASK, {}, ["--print"]),
    ],
)
def test_the_command_line_of_each_cli(
    locate: Callable[..., CliConnection],
    name: str,
    ask: RuntimeRequest,
    options: dict[str, Any],
    expected: list[str],
) -> None:
    run = command(locate(name, **options), ask)

    assert list(run.argv) == [f"/bin/{name}", *expected]
    assert run.stdin == "look at it"
    assert run.cwd == Path("/snapshot")


@pytest.mark.parametrize("name", CLIS)
def test_the_prompt_is_never_an_argument(
    locate: Callable[..., CliConnection], name: str
) -> None:
    prompt = "x" * 300_000
    run = command(locate(name), replace(ASK, prompt=prompt))

    assert run.stdin == prompt
    assert all(prompt not in word for word in run.argv)


HOSTILE_VALUES = (
    "--attach=http://127.0.0.1:9/",
    "-c",
    "--",
    "-",
    "a b --dangerously-skip-permissions",
    "a\n--yolo",
    'x"\nsandbox_mode="danger-full-access',
    "sandbox_mode=danger-full-access",
)
# Where each program reads a value: in one word with its flag, or behind `--`, after which nothing is an option.
FREE_VALUES = {
    "claude": {"model": "--model=", "session": "--resume=", "reasoning": "--effort="},
    "codex": {
        "model": "--model=",
        "session": "--",
        "reasoning": "model_reasoning_effort=",
    },
    "gemini": {"model": "--model=", "session": "--resume="},
    "opencode": {"model": "--model=", "session": "--session=", "title": "--title="},
    "agy": {},
}


def changed(ask: RuntimeRequest, field: str, value: Any) -> RuntimeRequest:
    return replace(ask, **{field: value})


@pytest.mark.parametrize("value", HOSTILE_VALUES)
@pytest.mark.parametrize("field", ["model", "session", "reasoning", "title"])
@pytest.mark.parametrize("name", sorted(FREE_VALUES))
def test_no_value_stands_where_a_program_reads_options(
    locate: Callable[..., CliConnection], name: str, field: str, value: str
) -> None:
    connection = locate(name, continuity="session")
    usual = list(command(connection, changed(ASK, field, "PLACE")).argv)
    argv = list(command(connection, changed(ASK, field, value)).argv)

    place = FREE_VALUES[name].get(field)
    if place is None:
        assert argv == usual
    elif place == "--":
        after = argv.index("--") + 1
        assert argv[after:] == [value, "-"] and argv[:after] == usual[:after]
    elif place == "model_reasoning_effort=":
        (told,) = [word for word in argv if word.startswith(place)]
        assert tomllib.loads(told) == {"model_reasoning_effort": value}
    else:
        assert argv == [
            f"{place}{value}" if word == f"{place}PLACE" else word for word in usual
        ]
        assert f"{place}{value}" in argv


def test_the_table_of_free_values_knows_every_cli() -> None:
    assert runtime_names()
    classes = {
        kind for runtime in registered().values() for kind in runtime.connections
    }
    programs = {kind.program for kind in classes if issubclass(kind, CliConnection)}
    assert programs - {"acp"} == set(FREE_VALUES), (
        "agents over ACP are told in the protocol: test_acp.py"
    )


@pytest.mark.parametrize("name", CLIS)
@pytest.mark.parametrize("ask", [ASK, MODIFY])
def test_no_adapter_ever_asks_for_everything_to_be_allowed(
    locate: Callable[..., CliConnection], name: str, ask: RuntimeRequest
) -> None:
    words = " ".join(command(locate(name), ask).argv)

    assert not [word for word in FORBIDDEN if word in words]


@pytest.mark.parametrize(
    ("name", "own", "foreign"),
    [
        ("claude", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"),
        ("codex", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"),
        ("gemini", "GEMINI_API_KEY", "ANTHROPIC_API_KEY"),
        ("opencode", "OPENROUTER_API_KEY", "AWS_SECRET_ACCESS_KEY"),
    ],
)
def test_a_program_gets_its_own_key_and_nobody_elses(
    locate: Callable[..., CliConnection], name: str, own: str, foreign: str
) -> None:
    ours = {
        own: "k1",
        foreign: "k2",
        "CLAUDECODE": "1",
        "CLAUDE_CODE_ENTRYPOINT": "cli",
        "SSH_AUTH_SOCK": "/x",
    }
    environment = command(locate(name, ours)).env
    assert environment is not None

    assert environment[own] == "k1"
    assert not {foreign, "CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "SSH_AUTH_SOCK"} & set(
        environment
    )
    assert (environment["TERM"], environment["NO_COLOR"]) == ("dumb", "1")


def test_the_key_a_codex_provider_reads_is_passed_on(
    machine: StandIn, stand_in: StandIn
) -> None:
    config = 'model_provider = "mine"\n[model_providers.mine]\nenv_key = "MY_KEY"\n'
    here = machine(
        {"codex": stand_in("codex")},
        environment={"MY_KEY": "k"},
        files={"/home/user/.codex/config.toml": config},
    )
    found = CodexCli.locate(SeatSetup("codex", environment=here.environment), here)
    assert isinstance(found, CodexCli)

    environment = command(found).env
    assert environment is not None
    assert environment["MY_KEY"] == "k"


@pytest.mark.parametrize("may_write", [False, True])
def test_opencode_is_denied_its_shell_and_its_hosted_provider(
    locate: Callable[..., CliConnection], may_write: bool
) -> None:
    environment = command(locate("opencode"), MODIFY if may_write else ASK).env
    assert environment is not None
    config = json.loads(environment["OPENCODE_CONFIG_CONTENT"])

    assert environment["OPENCODE_DISABLE_PROJECT_CONFIG"] == "1"
    assert config["disabled_providers"] == ["opencode"]
    assert (
        config["permission"]["bash"]
        == config["permission"]["external_directory"]
        == "deny"
    )
    assert config["permission"]["edit"] == ("allow" if may_write else "deny")


@pytest.mark.parametrize(
    ("settings", "environment", "expected"),
    [
        ("", {}, None),
        ('{"security": {"auth": {"selectedType": "oauth-personal"}}}', {}, None),
        (
            '{"security": {"auth": {"selectedType": "gemini-api-key"}}}',
            {},
            "https://generativelanguage.googleapis.com",
        ),
        ("", {"GOOGLE_GEMINI_BASE_URL": "http://mine"}, "http://mine"),
    ],
)
def test_gemini_is_told_its_address_where_that_does_no_harm(
    machine: StandIn,
    stand_in: StandIn,
    settings: str,
    environment: dict[str, str],
    expected: str | None,
) -> None:
    here = machine(
        {"gemini": stand_in("gemini")},
        environment=environment,
        files={"/home/user/.gemini/settings.json": settings},
    )
    found = GeminiCli.locate(SeatSetup("gemini", environment=here.environment), here)
    assert isinstance(found, GeminiCli)

    given = command(found).env
    assert given is not None
    assert given.get("GOOGLE_GEMINI_BASE_URL") == expected


@pytest.mark.parametrize(
    "tools",
    [
        (),
        (
            ToolServer("a-clock", url="http://127.0.0.1:9/mcp"),
            ToolServer("b", ("cat",)),
        ),
    ],
)
def test_gemini_stays_where_nothing_is_allowed_and_gets_the_tools_of_the_call(
    locate: Callable[..., CliConnection], tmp_path: Path, tools: tuple[ToolServer, ...]
) -> None:
    asked = replace(ASK, workspace=tmp_path, scratch=tmp_path / "scratch", tools=tools)
    command = locate("gemini").ask(asked)
    assert isinstance(command, Command) and command.env is not None
    file = next(
        word.removeprefix("--admin-policy=")
        for word in command.argv
        if word.startswith("--admin-policy=")
    )
    leaving, *others = tomllib.loads(Path(file).read_text())["rule"]
    assert (leaving["toolName"], leaving["decision"]) == ("exit_plan_mode", "deny")
    assert [(rule["mcpName"], rule["decision"]) for rule in others] == (
        [("*", "allow")] if tools else []
    )
    names = [
        word for word in command.argv if word.startswith("--allowed-mcp-server-names")
    ]
    assert names == [f"--allowed-mcp-server-names={one.name}" for one in tools]
    assert command.env.get("GEMINI_CLI_TRUST_WORKSPACE") == ("true" if tools else None)
    given = tmp_path / ".gemini" / "settings.json"
    assert given.exists() == bool(tools)
    if tools:
        servers = {
            "a-clock": {"httpUrl": "http://127.0.0.1:9/mcp"},
            "b": {"command": "cat", "args": []},
        }
        assert json.loads(given.read_bytes()) == {"mcpServers": servers}
    writing = locate("gemini").ask(
        replace(asked, tools=(), profile=CapabilityProfile.MODIFY)
    )
    assert isinstance(writing, Command) and not any(
        "policy" in word for word in writing.argv
    )


def test_the_first_signal_is_the_one_that_also_ends_its_tools(
    locate: Callable[..., CliConnection],
) -> None:
    assert command(locate("claude")).first_signal == signal.SIGINT
    assert command(locate("codex")).first_signal == signal.SIGTERM


# -- what is left of a run that did not come to its own end


def ended(how: Ended, **facts: Any) -> CommandResult:
    return CommandResult(("x",), how, 124, datetime(2026, 11, 15, tzinfo=UTC), **facts)


@pytest.mark.parametrize("name", CLIS)
@pytest.mark.parametrize(
    ("how", "error_class", "reason"),
    [
        (Ended.NOT_STARTED, ErrorClass.OTHER, "cli_not_found"),
        (Ended.TIMEOUT, ErrorClass.TIMEOUT, None),
        (Ended.IDLE, ErrorClass.TIMEOUT, None),
        (Ended.OUTPUT_CAP, ErrorClass.MALFORMED, None),
        (Ended.EXITED, ErrorClass.TIMEOUT, None),
    ],
)
def test_a_run_that_was_ended_is_never_an_answer(
    locate: Callable[..., CliConnection],
    name: str,
    how: Ended,
    error_class: ErrorClass,
    reason: str | None,
) -> None:
    record = b'{"type":"result","is_error":false,"result":"fine","session_id":"s"}'
    outcome = locate(name).read(ASK, ended(how, stdout=record, reason="gone"))

    assert isinstance(outcome, RuntimeRefusal)
    assert (outcome.error_class, outcome.reason) == (error_class, reason)


@pytest.mark.parametrize("name", CLIS)
@pytest.mark.parametrize(
    "printed",
    [b"", b"   \n", b"\xff\xfe\x00", b"{", b"[]\n", b'{"type": 7}\n', b"\x1b[31mhi"],
)
def test_garbage_is_refused_and_never_crashes(
    locate: Callable[..., CliConnection], name: str, printed: bytes
) -> None:
    result = CommandResult(
        ("x",),
        Ended.EXITED,
        0,
        datetime(2026, 11, 15, tzinfo=UTC),
        stdout=printed,
        stderr=printed,
    )
    outcome = locate(name).read(ASK, result)

    assert isinstance(outcome, RuntimeRefusal)


@pytest.mark.parametrize(
    ("code", "printed", "expected"),
    [
        (0, b"The answer.\n", None),
        (0, b" \n", ErrorClass.EMPTY),
        (1, b"", ErrorClass.OTHER),
    ],
)
def test_agy_prints_plain_text(
    locate: Callable[..., CliConnection],
    code: int,
    printed: bytes,
    expected: ErrorClass | None,
) -> None:
    result = CommandResult(
        ("x",), Ended.EXITED, code, datetime(2026, 11, 15, tzinfo=UTC), stdout=printed
    )
    outcome = locate("agy").read(ASK, result)

    if isinstance(outcome, RuntimeRefusal):
        assert outcome.error_class is expected
    else:
        assert outcome == RuntimeAnswer("The answer.")


def test_codex_counts_per_thread_and_we_count_per_turn(
    locate: Callable[..., CliConnection],
) -> None:
    connection = locate("codex", continuity="session")

    def turn(total: int, session: str | None) -> CallOutcome:
        lines = [
            {"type": "thread.started", "thread_id": "t1"},
            {"type": "item.completed", "item": {"type": "agent_message", "text": "hi"}},
            {
                "type": "turn.completed",
                "usage": {"input_tokens": 11 * total, "output_tokens": 7 * total},
            },
        ]
        printed = "\n".join(json.dumps(line) for line in lines).encode()
        result = CommandResult(
            ("x",), Ended.EXITED, 0, datetime(2026, 11, 15, tzinfo=UTC), stdout=printed
        )
        outcome = connection.read(replace(ASK, session=session), result)
        assert isinstance(outcome, RuntimeAnswer)
        return outcome

    assert [
        turn(1, None).usage.tokens_in,
        turn(2, "t1").usage.tokens_in,
        turn(3, "t1").usage.tokens_in,
    ] == [11, 11, 11]


def test_codex_is_held_to_a_schema_until_a_provider_refuses_it(
    machine: StandIn, stand_in: StandIn
) -> None:
    def program(command: Command) -> tuple[int, str]:
        flags = "--json --sandbox --config --output-schema --skip-git-repo-check"
        return 0, "codex 1.2.3" if "--version" in command.argv else flags

    here = machine({"codex": program})
    found = CodexCli.locate(SeatSetup("codex", environment=here.environment), here)
    assert isinstance(found, CodexCli)
    shaped = replace(ASK, schema={}, schema_file=Path("/snapshot/items.json"))
    failed = {
        "type": "turn.failed",
        "error": {
            "message": "Invalid schema for response_format 'codex_output_schema'"
        },
    }
    refusal = CommandResult(
        ("x",),
        Ended.EXITED,
        1,
        datetime(2026, 11, 15, tzinfo=UTC),
        stdout=json.dumps(failed).encode(),
    )

    first = command(found, shaped)
    again = found.read(shaped, refusal)

    assert list(first.argv)[-3:] == ["--output-schema", "/snapshot/items.json", "-"]
    assert isinstance(again, Command)
    assert "--output-schema" not in again.argv
    assert isinstance(found.read(shaped, refusal), RuntimeRefusal)


def test_an_opencode_that_runs_in_circles_is_stopped_at_the_third_unknown_step() -> (
    None
):
    step = (
        json.dumps({"type": "step_finish", "part": {"reason": "unknown"}}).encode()
        + b"\n"
    )
    guard = LoopGuard()

    assert [guard(step[:10]), guard(step[10:]), guard(step), guard(step)] == [
        False,
        False,
        False,
        True,
    ]


# -- endpoints, over real HTTP


def carry(connection: Connection, ask: RuntimeRequest) -> CallOutcome:
    key = CallKey(
        seat="x", round=1, step=Step.ANALYSIS, role=Role.EXPERT, domain="security"
    )

    async def run() -> CallOutcome:
        async with CallRunner() as carrier:
            return await carrier.carry(
                connection,
                Call(key, ask.prompt, ask.timeout_seconds, Answer.ITEMS, ask.profile),
                ask,
            )

    return anyio.run(run)


def endpoint(kind: str, base_url: str) -> Connection:
    environment = {
        "ANTHROPIC_API_KEY": "k",
        "ANTHROPIC_BASE_URL": base_url,
        "MY_KEY": "k",
    }
    options = {"base_url": f"{base_url}/v1", "api_key_env": "MY_KEY"}
    setup = SeatSetup("x", RuntimeSettings(options=options), environment=environment)
    located = (ClaudeApi if kind == "api" else ChatEndpoint).locate(
        setup, Machine(environment)
    )
    assert isinstance(located, Connection), located
    return located


@pytest.mark.parametrize("kind", ["api", "chat"])
def test_an_endpoint_answers_with_its_model_and_its_tokens(kind: str) -> None:
    with ModelServer() as server:
        outcome = carry(endpoint(kind, server.base_url()), ASK)
        (asked,) = server.log.questions()

    assert isinstance(outcome, RuntimeAnswer)
    assert outcome.text == "FAKE-REPLY turn=1 echo=look at it"
    assert (outcome.model, outcome.usage.tokens_in, outcome.usage.tokens_out) == (
        "m1",
        11,
        7,
    )
    assert "k" in (
        asked.headers.get("x-api-key"),
        asked.headers.get("authorization", "").removeprefix("Bearer "),
    )


@pytest.mark.parametrize("kind", ["api", "chat"])
@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        ("e401", ErrorClass.AUTH),
        ("e404", ErrorClass.UNKNOWN_MODEL),
        ("ectx", ErrorClass.TOO_LONG),
        ("e429", ErrorClass.RATE_LIMIT),
        ("equota", ErrorClass.QUOTA),
        ("e500", ErrorClass.SERVER_ERROR),
        ("e529", ErrorClass.SERVER_ERROR),
        ("malformed", ErrorClass.MALFORMED),
        ("badsse", ErrorClass.MALFORMED),
        ("empty", ErrorClass.EMPTY),
    ],
)
def test_an_endpoint_that_refuses_is_classified(
    kind: str, scenario: str, expected: ErrorClass
) -> None:
    with ModelServer() as server:
        connection = endpoint(kind, server.base_url())
        faulty = endpoint_at(connection, server.base_url(scenario))
        outcome = carry(faulty, ASK)

    assert isinstance(outcome, RuntimeRefusal)
    assert outcome.error_class is expected, outcome


def endpoint_at(connection: Connection, base_url: str) -> Connection:
    """The same connection at another address: listing models would be refused there already."""
    assert isinstance(connection, ClaudeApi | ChatEndpoint)
    connection._url = (
        base_url if isinstance(connection, ClaudeApi) else f"{base_url}/v1"
    )
    return connection


def test_an_endpoint_that_hangs_is_given_up_at_the_limit_and_one_that_is_gone_is_unreachable() -> (
    None
):
    with ModelServer() as server:
        hanging = endpoint_at(
            endpoint("chat", server.base_url()), server.base_url("hang")
        )
        late = carry(hanging, replace(ASK, timeout_seconds=1))
        gone = endpoint("chat", server.base_url())
    unreachable = carry(gone, ASK)

    assert isinstance(late, RuntimeRefusal)
    assert isinstance(unreachable, RuntimeRefusal)
    assert (late.error_class, unreachable.error_class) == (
        ErrorClass.TIMEOUT,
        ErrorClass.UNREACHABLE,
    )


def test_an_endpoint_that_does_not_know_schemas_is_asked_without_one() -> None:
    asked: list[bool] = []

    def refuses_schemas(request: httpx.Request) -> httpx.Response:
        asked.append(b"response_format" in request.content)
        if asked[-1]:
            return httpx.Response(
                400, json={"error": {"message": "unknown field response_format"}}
            )
        return httpx.Response(200, json={"choices": [{"message": {"content": "fine"}}]})

    connection = ChatEndpoint("http://127.0.0.1:1/v1", None, None, HttpReply(200))
    shaped = replace(ASK, schema={"type": "object"})

    async def run() -> list[CallOutcome]:
        async with CallRunner() as carrier:
            carrier._clients[True] = httpx.AsyncClient(
                transport=httpx.MockTransport(refuses_schemas)
            )
            key = CallKey(
                seat="x",
                round=1,
                step=Step.ANALYSIS,
                role=Role.EXPERT,
                domain="security",
            )
            call = Call(key, "look", 60, Answer.ITEMS, ASK.profile)
            return [await carrier.carry(connection, call, shaped) for _ in range(2)]

    assert anyio.run(run) == [RuntimeAnswer("fine"), RuntimeAnswer("fine")]
    assert asked == [True, False, False]


def test_ten_megabytes_of_reply_are_taken() -> None:
    with ModelServer(script=RuleScript([Rule(say="x" * 10_000_000)])) as server:
        outcome = carry(endpoint("chat", server.base_url()), ASK)

    assert isinstance(outcome, RuntimeAnswer)
    assert len(outcome.text) == 10_000_000


# -- the opencode server, with recorded answers


def opencode_server() -> OpencodeServer:
    return OpencodeServer(
        "http://127.0.0.1:4096",
        "secret",
        HttpReply(200, '{"healthy": true, "version": "1.18.33"}'),
    )


@pytest.mark.parametrize("port", ["", "0", "65536", "-1", "4096x", "\u00b2"])
def test_what_names_no_port_names_no_opencode_server(
    machine: StandIn, port: str
) -> None:
    setup = SeatSetup("opencode", environment={"OPENCODE_PORT": port})
    assert isinstance(OpencodeServer.locate(setup, machine()), Missing)


def test_a_first_prompt_makes_a_session_with_denials_and_then_asks_in_it() -> None:
    connection = opencode_server()
    created = connection.ask(ASK)
    assert isinstance(created, HttpRequest)
    asked = connection.read(
        replace(ASK, model="p/m"), HttpReply(200, '{"id": "ses_1", "title": "x"}')
    )

    assert created.url == "http://127.0.0.1:4096/session?directory=%2Fsnapshot"
    assert created.body["permission"] == [
        {"permission": "*", "pattern": "*", "action": "deny"}
    ]
    assert isinstance(asked, HttpRequest)
    assert asked.url.endswith("/session/ses_1/message")
    assert asked.body["model"] == {"providerID": "p", "modelID": "m"}
    assert asked.headers["authorization"].startswith("Basic ")


LIMITED = {"error": {"name": "APIError", "data": {"message": "x", "statusCode": 429}}}


@pytest.mark.parametrize(
    ("status", "document", "expected"),
    [
        (
            404,
            {"name": "NotFoundError", "data": {"message": "Session not found"}},
            ErrorClass.UNKNOWN_SESSION,
        ),
        (
            400,
            {"name": "BadRequest", "data": {"message": "Expected object"}},
            ErrorClass.BAD_USAGE,
        ),
        (
            500,
            {"name": "UnknownError", "data": {"message": "x", "ref": "err_1"}},
            ErrorClass.UNKNOWN_MODEL,
        ),
        (401, {}, ErrorClass.AUTH),
        (200, {"info": {"tokens": {}}, "parts": []}, ErrorClass.EMPTY),
        (200, {"info": LIMITED, "parts": []}, ErrorClass.RATE_LIMIT),
        (200, "<html>", ErrorClass.MALFORMED),
    ],
)
def test_refusals_of_the_opencode_server(
    status: int, document: object, expected: ErrorClass
) -> None:
    outcome = opencode_server().read(
        replace(ASK, session="ses_1"), HttpReply(status, json.dumps(document))
    )

    assert isinstance(outcome, RuntimeRefusal)
    assert outcome.error_class is expected


@pytest.mark.parametrize("name", [*CLIS, "agy"])
def test_a_program_reads_its_installation_and_the_copy_and_of_the_home_its_own_folders_only(
    machine: StandIn, stand_in: StandIn, tmp_path: Path, name: str
) -> None:
    home = tmp_path / "home"
    kind = AgyCli if name == "agy" else CLIS[name]
    for folder in (".ssh", *kind.own_folders):
        (home / folder).mkdir(parents=True)
    (home / ".claude.json").write_text(
        '{"oauthAccount": {"a": 1}, "projects": {"/secret": {"history": []}}}'
    )
    here = machine(
        {name: stand_in(name)},
        environment={"HOME": str(home), "SSL_CERT_FILE": "/pki/ours.pem"},
    )
    setup = SeatSetup(
        name,
        environment=here.environment,
        project=tmp_path / "project",
        readable=("/extra",),
    )
    seat = kind.locate(setup, here)
    assert isinstance(seat, CliConnection)

    held = command(seat, replace(ASK, scratch=tmp_path / "scratch")).confined

    assert held is not None
    assert {"/snapshot", "/extra", "/pki/ours.pem"} < set(held.read)
    assert held.hidden == (str(home), str(tmp_path / "project"))
    own = {str(home / folder) for folder in kind.own_folders}
    assert set(held.write) == own | {
        str(tmp_path / "scratch" / "home"),
        str(tmp_path / "scratch" / "tmp"),
    }
    assert not any(is_within(str(home), path) for path in (*held.read, *held.write))
    told = held.environment()
    assert (told["HOME"], told["TMPDIR"]) == (
        str(tmp_path / "scratch" / "home"),
        str(tmp_path / "scratch" / "tmp"),
    )
    for folder in kind.own_folders:
        assert (tmp_path / "scratch" / "home" / folder).resolve() == home / folder
    if name == "claude":
        copied = json.loads(
            (tmp_path / "scratch" / "home" / ".claude.json").read_text()
        )
        assert copied == {"oauthAccount": {"a": 1}}


def test_only_who_implements_writes_in_the_workspace(
    locate: Callable[..., CliConnection],
) -> None:
    for ask, may_write in ((ASK, False), (MODIFY, True)):
        held = command(locate("claude"), ask).confined
        assert held is not None
        assert ("/snapshot" in held.write, "/snapshot" in held.read) == (
            may_write,
            not may_write,
        )


def test_a_link_opens_nothing_but_settings_of_the_program_itself(
    machine: StandIn, stand_in: StandIn, tmp_path: Path
) -> None:
    for folder in (".codex", ".ssh", "dotfiles"):
        (tmp_path / "home" / folder).mkdir(parents=True)
    (tmp_path / "tree").mkdir()
    key, settings = (
        tmp_path / "home" / ".ssh" / "id_rsa",
        tmp_path / "home" / "dotfiles" / "codex.toml",
    )
    for file in (key, settings):
        file.write_text("x")
    own = tmp_path / "home" / ".codex"
    (own / "config.toml").symlink_to(settings)
    (own / "notes.md").symlink_to(key)
    (tmp_path / "tree" / "config.toml").symlink_to(settings)
    here = machine(
        {"codex": stand_in("codex")}, environment={"HOME": str(tmp_path / "home")}
    )
    seat = CodexCli.locate(SeatSetup("codex", environment=here.environment), here)
    assert isinstance(seat, CodexCli)

    held = command(seat, replace(MODIFY, workspace=tmp_path / "tree")).confined

    assert held is not None
    assert [path for path in held.read if path.startswith(str(tmp_path))] == [
        str(settings)
    ]


@pytest.mark.parametrize("name", CLIS)
def test_what_nothing_can_confine_is_asked_without_its_tools(
    machine: StandIn, stand_in: StandIn, name: str
) -> None:
    here = machine({name: stand_in(name)}, confined_by=None)
    seat = CLIS[name].locate(SeatSetup(name, environment=here.environment), here)
    assert isinstance(seat, CliConnection)

    asked = command(seat)

    assert (seat.reads_files, seat.held_by) == (False, "")
    assert seat.warnings == (f"asked_without_tools:{name}",)
    off = {
        "claude": lambda: asked.argv[asked.argv.index("--tools") + 1] == "",
        "codex": lambda: "features.shell_tool=false" in asked.argv,
        "gemini": lambda: "plan" in asked.argv,
        "opencode": lambda: (
            json.loads((asked.env or {})["OPENCODE_CONFIG_CONTENT"])["permission"]
            == {"*": "deny"}
        ),
    }
    assert off[name]()


def test_a_codex_from_before_profiles_keeps_its_old_sandbox(machine: StandIn) -> None:
    def old(command: Command) -> tuple[int, str]:
        return 0, "codex 0.120.0" if "--version" in command.argv else " ".join(
            CodexCli.required_flags
        )

    here = machine({"codex": old})
    seat = CodexCli.locate(SeatSetup("codex", environment=here.environment), here)
    assert isinstance(seat, CodexCli)

    assert "-s read-only -C /snapshot" in " ".join(command(seat).argv)
    assert "permissions" not in " ".join(command(seat).argv)
