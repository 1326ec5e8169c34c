"""A runtime that repeats a key: it is masked at the door and stands in nothing that is printed, written or recorded."""

from __future__ import annotations

import base64
import json
import re
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bridgehead.testing.exchange import ModelRequest, Say
from bridgehead.testing.model_server import ModelServer
from bridgehead.testing.scripts import Scripted
from council.cli.conftest import BARE, StandIn
from council.cli.test_committed_credentials import made, seat
from council.support.reviewers import INJECTION, finding
from support.installed import Done, Machine

pytestmark = [pytest.mark.xdist_group("council_cli"), pytest.mark.timeout(300)]

TOKEN = f"ghp_{made('repeated', 36)}"
PASSWORD = "vR7mQ2xTz9Lk"
OF_THE_ENVIRONMENT = "plain-words-of-no-shape"
PEM = made("pem", 64)
REPEATED = (TOKEN, PASSWORD, OF_THE_ENVIRONMENT, PEM)
KEY_BLOCK = f"-----BEGIN RSA PRIVATE KEY-----\n{PEM}\n-----END RSA PRIVATE KEY-----"
SENTENCE = (
    f'The token {TOKEN} is printed, password = "{PASSWORD}" is set, and '
    f"{OF_THE_ENVIRONMENT} is sent.\n{KEY_BLOCK}"
)
FINDING = finding(
    "HIGH",
    f"Order id is concatenated next to {TOKEN}",
    SENTENCE,
    f'{INJECTION} beside `password = "{PASSWORD}"`',
    f"revoke {TOKEN}",
)


def escaped(text: str) -> str:
    """The same JSON with every letter and digit of the keys spelled by its number."""
    for key in REPEATED:
        spelled = "".join(f"\\u{ord(character):04x}" for character in key)
        text = text.replace(key, spelled)
    return text


def texts_below(folder: Path) -> Iterator[tuple[str, str]]:
    """Every file, and every value of a database: packed ones unpacked."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.is_symlink():
            continue
        content = path.read_bytes()
        yield str(path), content.decode("utf-8", "replace")
        if content.startswith(b"SQLite format 3"):
            for value in values_of(path):
                yield f"{path}: a value", value


def values_of(database: Path) -> Iterator[str]:
    with closing(sqlite3.connect(database)) as connection:
        names = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'"
        ).fetchall()
        for (name,) in names:
            for row in connection.execute(f'SELECT * FROM "{name}"'):
                for value in row:
                    text = (
                        value.decode("utf-8", "replace")
                        if isinstance(value, bytes)
                        else str(value)
                    )
                    yield text
                    yield from unpacked(text)


def unpacked(text: str) -> Iterator[str]:
    for packed in re.findall(r"eJ[A-Za-z0-9+/]{20,}={0,2}", text):
        try:
            yield zlib.decompress(base64.b64decode(packed)).decode("utf-8", "replace")
        except (ValueError, zlib.error):
            continue


def leaks(machine: Machine, *commands: Done) -> list[str]:
    """Where one of the keys stands."""
    printed = [(f"command {done.code}", done.out + done.err) for done in commands]
    return [
        f"{key}: {where}"
        for where, text in (
            *printed,
            *texts_below(machine.home),
            *texts_below(machine.project),
        )
        for key in (*REPEATED, *map(json.dumps, REPEATED))
        if key.strip('"') in text
    ]


def review(machine: Machine, runtime: str, **environment: str) -> list[Done]:
    """One review, its report shown in every form there is."""
    asked = ("council", "review", "orders/store.py", "--runtime", runtime)
    few = ("--domain", "security", "--sarif", str(machine.project / "found.sarif"))
    done = machine.run(*asked, *few, "--verbose", **environment)
    return [
        done,
        machine.run("council", "show", **environment),
        machine.run("council", "show", "--json", **environment),
        machine.run("council", "list", "--json", **environment),
        machine.run("events", "--json", **environment),
        machine.run("pending", "--json", **environment),
    ]


def test_what_a_program_repeats_stands_nowhere(orders: Machine, codex: StandIn) -> None:
    codex.log_in()
    codex.answers({"outputs": [FINDING]})

    commands = review(orders, "codex", PATH=codex.path, SOME_API_KEY=OF_THE_ENVIRONMENT)

    assert leaks(orders, *commands) == []
    shown = commands[2].json
    [found] = [*shown["single_source_findings"], *shown["multi_source_confirmed"]]
    assert found["title"] == (
        "Order id is concatenated next to [left out: github-token]"
    )
    assert 'password = "********"' in found["description"]
    assert "masked in what a seat said" in commands[0].err
    assert "github-token" in commands[0].err


def test_what_a_program_says_when_it_fails_stands_nowhere(
    orders: Machine, codex: StandIn
) -> None:
    codex.log_in()
    codex.answers({"fail": SENTENCE})

    commands = review(orders, "codex", PATH=codex.path, SOME_API_KEY=OF_THE_ENVIRONMENT)

    assert leaks(orders, *commands) == []
    assert "left out: github-token" in "".join(
        text for _, text in texts_below(orders.project / ".outputs")
    )


@pytest.mark.parametrize("spelling", [str, escaped], ids=["plain", "escaped"])
def test_what_a_model_over_http_repeats_stands_nowhere(
    orders: Machine, spelling: Any
) -> None:
    reply = {"outputs": [FINDING], "responses": [], "rulings": [], "challenges": []}

    def says(_request: ModelRequest) -> Scripted:
        return Scripted(Say(spelling(json.dumps(reply))))

    with ModelServer(script=says) as server:
        seat(orders, server)
        commands = review(
            orders,
            "openai",
            PATH=BARE,
            SEAT_KEY="dummy",
            SOME_API_KEY=OF_THE_ENVIRONMENT,
        )

    assert leaks(orders, *commands) == []
    shown = commands[2].json
    [found] = [*shown["single_source_findings"], *shown["multi_source_confirmed"]]
    assert "[left out: github-token]" in found["title"]


@pytest.mark.parametrize("way", ["file", "respond", "answer"])
def test_what_the_host_repeats_stands_nowhere(orders: Machine, way: str) -> None:
    said = json.dumps({"outputs": [FINDING]}).replace(OF_THE_ENVIRONMENT, "")
    asked = ("council", "review", "orders/store.py", "--host-seat", "claude")
    few = ("--runtime", "claude", "--intensity", "quick", "--domain", "security")
    commands = [orders.run(*asked, *few)]
    assert commands[0].code == 42, commands[0].err
    for _ in range(12):
        commands.append(give(orders, way, said))
        assert commands[-1].code == 0, commands[-1].err
        if way != "file":
            assert leaks(orders) == [], "it was written down before it was read"
        commands.append(orders.run("council", "resume", "--json"))
        if commands[-1].code != 42:
            break

    assert commands[-1].code == 0, commands[-1].err
    assert leaks(orders, *commands) == []
    assert "[left out: github-token]" in commands[-1].out


def give(machine: Machine, way: str, text: str) -> Done:
    """Answer the request of the host seat, as the agent that runs us may."""
    request = json.loads((machine.project / ".agent-request.json").read_text())
    if way == "respond":
        return machine.run("flow", "respond", "--response", text)
    if way == "answer":
        [item, *_] = machine.run("pending", "--json").json["items"]
        return machine.run("answer", item["id"], text)
    response = {
        "request_id": request["request_id"],
        "version": "1.0",
        "status": "success",
        "response": text,
        "created_at": request["created_at"],
    }
    (machine.project / ".agent-response.json").write_text(json.dumps(response))
    return Done(0, "", "")
