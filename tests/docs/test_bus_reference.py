"""The bus's reference page says what the code takes."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import tomllib
from pathlib import Path
from typing import Any

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.bus.assistants import agent_for
from bridgehead.bus.access.credentials import Challenge, certificate_binding
from bridgehead.bus.assistant.agents import ChatCompletionsAgent
from bridgehead.bus.interfaces import AgentQuestion
from bridgehead.bus.participants.record import (
    RECORD_KEYS,
    Grant,
    Limits,
    Role,
    parse_record,
)
from support.installed import machine

PAGE = (
    Path(__file__).resolve().parents[2] / "docs" / "reference" / "bus.md"
).read_text(encoding="utf-8")


def block(language: str, about: str = "") -> str:
    [found] = [
        one
        for one in re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
        if about in one
    ]
    return str(found)


def test_every_key_grant_role_and_limit_is_there() -> None:
    section = PAGE.partition("## participants.toml")[2].partition("\n## ")[0]

    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == RECORD_KEYS
    said = set(re.findall(r"`(\w+)`", section))
    assert {*map(str, Grant), *map(str, Role), *Limits.__struct_fields__} <= said


def test_the_records_of_the_example_are_read() -> None:
    records = {
        name: parse_record(name, table)
        for name, table in tomllib.loads(block("toml")).items()
    }

    assert (
        records["den"].has(Grant.APPROVE) and records["den"].limits.open_questions == 4
    )
    assert records["doorbell"].may_publish("doorbell.rang") and not records[
        "kitchen"
    ].may_publish("doorbell.rang")


def test_the_proof_is_the_one_the_bridge_checks() -> None:
    names: dict[str, Any] = {}
    exec(block("python", "def proof"), names)
    key, ours, theirs = bytes(range(32)), b"s" * 32, b"c" * 32

    for certificate in (None, b"DER"):
        challenge = Challenge("kitchen", ours, theirs, certificate_binding(certificate))
        for who, mac in (
            ("client", challenge.client_mac(key)),
            ("server", challenge.server_mac(key)),
        ):
            assert (
                names["proof"](key, who, ours, theirs, certificate, "kitchen")
                == base64.b64encode(mac).decode()
            )


def test_the_flow_of_the_example_answers_as_an_assistant(tmp_path: Path) -> None:
    (tmp_path / "butler.py").write_text(block("python", "@flow"))
    assembly = Assembly(
        tmp_path,
        {"BRIDGEHEAD_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]},
    )
    agent = agent_for(assembly, "flow:butler.py", 300)
    assert agent is not None
    question = AgentQuestion(
        "s", "hello", None, prompt="", task="", id="q1", participant="kitchen"
    )

    assert asyncio.run(agent.ask(question)).text == "kitchen said hello"


def test_the_settings_of_the_example_are_those_of_a_chat_endpoint(
    tmp_path: Path,
) -> None:
    [settings] = re.findall(r"`(\{\"bridges\".*?\})`", PAGE)
    home = machine(tmp_path)
    (home.project / ".bridge-settings.json").write_text(settings)
    assert home.run("config", "trust", ".bridge-settings.json").code == 0

    assert isinstance(
        agent_for(Assembly(home.project, home.environ()), "openai"),
        ChatCompletionsAgent,
    )
