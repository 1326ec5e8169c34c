"""Attack 3: over MCP any Python file of the machine is run, by a tool that calls itself harmless."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from bridgehead.mcp_server.tools.catalogue import BY_NAME
from support.installed import Machine
from support.mcp_hosts import called, orders_project, with_client

FLOW = """\
from pathlib import Path

from bridgehead.flows import flow

Path({marker!r}).touch()


@flow("work", version="1")
def work(ctx):
    return ctx.ask("it", agent="writer", prompt="what?")
"""


@pytest.fixture
def here(tmp_path: Path) -> Machine:
    return orders_project(tmp_path)


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "ran"


def write_flow(path: Path, marker: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(FLOW.format(marker=str(marker)))


def track(here: Machine, name: str) -> None:
    words = ["git", "add", "-f", "--", name]
    subprocess.run(words, cwd=here.project, env=here.environ(), check=True)


def call(here: Machine, tool: str, **arguments: Any) -> Any:
    return with_client(here, lambda host: host.call_tool(tool, arguments))


@pytest.mark.parametrize(
    "named",
    [
        "{outside}/work.py",
        "{outside}/work.py:work",
        "../outside/work.py",
        "orders/../../outside/work.py:work",
        "link.py",
        "folder/work.py",
        "folder/work.py:work",
        "untracked.py",
        "tracked.py:__import__('os')",
        "--help",
        "os.path",
    ],
)
def test_nothing_but_flows_of_the_project_is_started(
    here: Machine, marker: Path, named: str
) -> None:
    outside = here.project.parent / "outside"
    write_flow(outside / "work.py", marker)
    write_flow(here.project / "untracked.py", marker)
    write_flow(here.project / "tracked.py", marker)
    (here.project / "link.py").symlink_to(outside / "work.py")
    (here.project / "folder").symlink_to(outside)
    for name in ("tracked.py", "link.py", "folder"):
        track(here, name)

    done = call(here, "flow_run", flow=named.format(outside=outside))

    assert done.is_error
    assert "was not started" in done.content[0].text
    assert not marker.exists()


@pytest.mark.parametrize("action", ["flow run", "flow resume", "flow retry"])
def test_the_tool_command_runs_no_flow_and_names_the_tool_that_does(
    here: Machine, marker: Path, action: str
) -> None:
    write_flow(here.project / "work.py", marker)

    done = call(here, "command", action=action, target=str(here.project / "work.py"))

    assert done.is_error
    assert "flow_run" in done.content[0].text
    assert not marker.exists()


@pytest.mark.parametrize("action", ["resume", "retry"])
def test_a_run_of_a_program_elsewhere_is_not_continued(
    here: Machine, marker: Path, action: str
) -> None:
    outside = here.project.parent / "outside" / "work.py"
    write_flow(outside, marker)
    assert here.run("flow", "run", str(outside)).code == 42
    marker.unlink()

    done = call(here, "flow_run", action=action)

    assert done.is_error
    assert not marker.exists()


def test_a_tracked_flow_and_a_trusted_one_run_and_go_on(
    here: Machine, marker: Path
) -> None:
    write_flow(here.project / "tracked.py", marker)
    track(here, "tracked.py")
    started = with_client(
        here, lambda host: called(host, "flow_run", flow="tracked.py:work")
    )
    again = with_client(here, lambda host: called(host, "flow_run", action="resume"))
    assert (started["exit_code"], again["exit_code"]) == (42, 42)
    listed = here.run("flow", "list", "--json").json["flows"]
    assert here.run("flow", "cancel", listed[0]["flow_id"]).code == 0

    write_flow(here.project / "trusted.py", marker)
    assert here.run("config", "trust", "trusted.py").code == 0
    trusted = with_client(
        here, lambda host: called(host, "flow_run", flow="trusted.py")
    )
    assert trusted["exit_code"] == 42
    with (here.project / "trusted.py").open("a") as file:
        file.write("# changed\n")
    assert call(here, "flow_run", flow="trusted.py").is_error


def test_the_tool_says_what_it_may_do() -> None:
    annotations = BY_NAME["flow_run"].listed()["annotations"]

    assert annotations == {"destructiveHint": True, "openWorldHint": True}
