"""Keys planted wherever a council looks or is told something: none leaves, each omission is said (hazard 22)."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridgehead.testing.exchange import ModelRequest, Say
from bridgehead.testing.model_server import ModelServer
from bridgehead.testing.scripts import Scripted
from council.support.reviewers import INJECTION, finding
from support.installed import Machine

MODEL = "fake-model-1"


def made(name: str, length: int) -> str:
    """A value that looks drawn at random and is the same in every run."""
    return base64.b64encode(hashlib.sha512(name.encode()).digest(), b"ab").decode()[
        :length
    ]


@pytest.fixture
def planted(orders: Machine) -> dict[str, str]:
    """Where a key was put, and the key."""
    tokens = ("code", "diff", "yarn", "context", "seed", "reply", "task")
    key = {name: f"ghp_{made(name, 36)}" for name in tokens}
    key |= {
        name: made(name, 64)[:length]
        for name, length in (("env", 32), ("npm", 36), ("rules", 30), ("pem", 64))
    }
    pem = "\n".join(
        ["-----BEGIN RSA PRIVATE KEY-----", key["pem"], "-----END RSA PRIVATE KEY-----"]
    )
    for path, text in {
        ".env": f"API_KEY={key['env']}\n",
        ".npmrc": f"//npm.example.com/:_authToken={key['npm']}\n",
        ".yarnrc": f'"//registry/:_authToken" "{key["yarn"]}"\n',
        ".claude/settings.json": json.dumps({"env": {"TOKEN": key["rules"]}}),
        "orders/client.py": f'import orders\nTOKEN = "{key["code"]}"\n',
        "orders/deploy.txt": f"{pem}\n",
    }.items():
        (orders.project / path).parent.mkdir(exist_ok=True)
        (orders.project / path).write_text(text)
    (orders.project / "context.md").write_text(
        f"Use the token {key['context']} for the API.\n"
    )
    seeds = [
        {
            "title": "Known",
            "severity": "HIGH",
            "description": f"with {key['seed']}",
            "evidence": INJECTION,
        }
    ]
    (orders.project / "seeds.json").write_text(json.dumps(seeds))
    return key


@pytest.fixture
def server(planted: dict[str, str]) -> Iterator[ModelServer]:
    """A model that has found a key somewhere and repeats it in what it reports."""

    def says(request: ModelRequest) -> Scripted:
        text = f"The token {planted['reply']} is printed."
        entry = finding("HIGH", "Order id is concatenated", text, INJECTION, "bind it")
        return Scripted(
            Say(
                json.dumps(
                    {
                        "outputs": [entry],
                        "responses": [],
                        "rulings": [],
                        "challenges": [],
                    }
                )
            )
        )

    with ModelServer(script=says) as running:
        yield running


def seat(machine: Machine, server: ModelServer) -> None:
    """The user's own endpoint, trusted."""
    entry = {
        "enabled": True,
        "base_url": f"{server.base_url()}/v1",
        "models": [MODEL],
        "api_key_env": "SEAT_KEY",
    }
    (machine.project / ".bridge-settings.json").write_text(
        json.dumps({"bridges": {"openai": entry}})
    )
    trusted = machine.run("config", "trust", ".bridge-settings.json")
    assert trusted.code == 0, trusted.err


def said_to_models(server: ModelServer) -> str:
    return json.dumps([entry.body for entry in server.log.questions()])


@pytest.mark.timeout(300)
def test_no_planted_key_reaches_a_model_and_every_omission_is_said(
    orders: Machine, planted: dict[str, str], server: ModelServer
) -> None:
    seat(orders, server)

    done = orders.run(
        *(
            "council",
            "review",
            ".",
            "--runtime",
            "openai",
            "--json",
            "--domain",
            "security",
        ),
        *("--task", f"is {planted['task']} safe?", "--context", "context.md"),
        SEAT_KEY="dummy",
        PATH="/usr/local/bin:/usr/bin:/bin",
    )

    assert done.code == 0, done.err
    asked = said_to_models(server)
    assert "find_order" in asked, "the code itself was shown"
    assert {name: value for name, value in planted.items() if value in asked} == {}
    assert "[left out: github-token]" in asked
    assert (
        "removed from the prompts because it looks like a secret: github-token"
        in done.err
    )
    notes = " ".join(json.loads(done.out)["synthesis_notes"])
    assert "left out (secret): .env, .npmrc, .yarnrc, " in notes
    assert "left out (agent-configuration): .claude/settings.json" in notes
    (context,) = (orders.project / ".outputs").rglob("*context*.json")
    for path in (
        ".env",
        ".npmrc",
        ".yarnrc",
        "orders/client.py",
        "orders/deploy.txt",
        "seeds.json",
    ):
        assert f"{path} (secret)" in context.read_text(), (
            f"{path} was left out and nobody was told"
        )


@pytest.mark.timeout(300)
def test_what_the_analysers_say_about_a_file_with_a_key_does_not_carry_the_key(
    orders: Machine, planted: dict[str, str], server: ModelServer
) -> None:
    seat(orders, server)
    key = planted["code"]
    (orders.project / "orders" / "client.py").write_text(
        f'print({key})\nTOKEN = "{key}"\n'
    )

    done = orders.run(
        *(
            "council",
            "review",
            "orders/",
            "--runtime",
            "openai",
            "--runtime",
            "static",
            "--json",
        ),
        *("--domain", "security", "--intensity", "quick"),
        SEAT_KEY="dummy",
        PATH="/usr/local/bin:/usr/bin:/bin",
    )

    assert done.code == 0, done.err
    assert key not in said_to_models(server)
    assert key not in done.out, "a report travels further than a file"


def test_a_key_in_a_diff_is_shown_to_nobody(
    orders: Machine, planted: dict[str, str], server: ModelServer
) -> None:
    seat(orders, server)
    store = Path(orders.project / "orders" / "store.py")
    store.write_text(store.read_text() + f'\n# TOKEN = "{planted["diff"]}"\n')
    shipping = Path(orders.project / "orders" / "shipping.py")
    shipping.write_text(shipping.read_text() + "\nLAST = 1\n")

    done = orders.run(
        *(
            "council",
            "review",
            "--diff",
            "HEAD",
            "--runtime",
            "openai",
            "--json",
            "--domain",
            "security",
        ),
        *("--intensity", "quick"),
        SEAT_KEY="dummy",
        PATH="/usr/local/bin:/usr/bin:/bin",
    )

    assert done.code == 0, done.err
    asked = said_to_models(server)
    assert "LAST = 1" in asked and planted["diff"] not in asked
    assert "orders/store.py" in json.dumps(json.loads(done.out))
