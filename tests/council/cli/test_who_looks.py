"""The tree under review does not choose who looks at it, through the installed command."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from council.cli.conftest import BARE
from support.installed import Done, Machine

pytestmark = pytest.mark.xdist_group("council_cli")

SEATS = ".bridge-settings.json"


def review(machine: Machine, *words: str, **environ: str) -> Done:
    return machine.run(
        "council", "review", "--json", "--non-interactive", *words, PATH=BARE, **environ
    )


def write_seats(machine: Machine, **document: Any) -> None:
    (machine.project / SEATS).write_text(json.dumps(document))


def commit(machine: Machine, message: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    for words in (("add", "-A", "-f"), ("commit", "-q", "-m", message)):
        subprocess.run(
            ["git", *identity, *words],
            cwd=machine.project,
            env=machine.environ(),
            check=True,
        )


def status_of(done: Done, seat: str) -> str:
    rows = {row["bridge"]: row["status"] for row in done.json["participants"]}
    return str(rows[seat])


def test_an_untrusted_tree_switches_off_neither_a_seat_nor_an_analyser(
    orders: Machine,
) -> None:
    write_seats(
        orders,
        bridges={"static": {"enabled": False, "tools": []}, "openai": {}},
        withdrawal_guard=False,
        coordinator="opencode",
    )

    done = review(orders, "orders")

    assert done.code == 0, done.err
    assert status_of(done, "static") == "COMPLETED"
    assert "openai" not in [row["bridge"] for row in done.json["participants"]]
    assert done.json["verdict"] != "PASS"
    for key in (
        "static.enabled",
        "static.tools",
        "openai",
        "withdrawal_guard",
        "coordinator",
    ):
        assert f"untrusted_setting_ignored:{key}" in done.json["warnings"]


def test_a_change_is_reviewed_with_the_settings_before_it(orders: Machine) -> None:
    usual = {"bridges": {"static": {"tools": ["ruff"]}}}
    write_seats(orders, **usual)
    assert orders.run("config", "trust", SEATS).code == 0
    commit(orders, "choose the analysers")
    write_seats(orders, bridges={"static": {"enabled": False}})
    (orders.project / "bridgehead.toml").write_text("[council]\ntimeout = 1\n")
    (orders.project / "new.py").write_text("import os\n")
    commit(orders, "send them away")

    before = review(orders, "--diff", "HEAD~1")
    plain = review(orders, "new.py")
    assert orders.run("config", "trust", SEATS).code == 0
    trusted = review(orders, "--diff", "HEAD~1")

    assert status_of(before, "static") == "COMPLETED"
    ignored = {
        f"settings_of_change_ignored:{name}" for name in (SEATS, "bridgehead.toml")
    }
    assert ignored <= set(before.json["warnings"])
    assert "untrusted_setting_ignored:static.tools" not in before.json["warnings"], (
        "what the user has trusted stays trusted"
    )
    assert "untrusted_setting_ignored:static.enabled" in plain.json["warnings"]
    assert trusted.code != 0 or status_of(trusted, "static") == "SKIPPED"


def test_settings_are_written_again_as_they_are_in_the_working_tree(
    orders: Machine,
) -> None:
    write_seats(orders, bridges={"codex": {"model": "of-the-base"}})
    commit(orders, "name a model")
    write_seats(orders, bridges={"codex": {"model": "of-mine"}})
    (orders.project / "new.py").write_text("import os\n")

    done = review(orders, "--diff", "HEAD", "--write-settings")

    assert done.code == 0, done.err
    written = json.loads((orders.project / SEATS).read_text())
    assert written["bridges"]["codex"] == {"model": "of-mine"}
