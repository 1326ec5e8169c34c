"""One question, four ways to answer it at the same time: one answer is taken, the others learn whose it was."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier

import httpx

from support.installed import SCRIPTS, Machine
from support.mcp_hosts import serving as serving_mcp

ANYWHERE = "127.0.0.1:0"
TAKEN = "q-1 was already answered"


@contextmanager
def beside(user: Machine, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command that runs during the test, spoken to through its pipes."""
    running = subprocess.Popen(
        [str(SCRIPTS / "bridgehead"), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=user.project,
        env=user.environ(),
        text=True,
    )
    try:
        yield running
    finally:
        running.terminate()
        running.communicate(timeout=30)


def line_of(running: subprocess.Popen[str], wanted: str) -> str:
    assert running.stdout is not None
    for line in running.stdout:
        if wanted in line:
            return line
    raise AssertionError(f"it ended without a line with {wanted!r}")


def typed(running: subprocess.Popen[str], line: str) -> None:
    assert running.stdin is not None
    running.stdin.write(f"{line}\n")
    running.stdin.flush()


def test_a_question_is_answered_once_from_shell_page_agent_or_chat(
    user: Machine,
) -> None:
    bus = (
        "bus",
        "serve",
        "--listen",
        ANYWHERE,
        "--hub-listen",
        ANYWHERE,
        "--assistant",
        "scripted",
        "--json",
    )
    with (
        beside(user, *bus) as hub,
        beside(user, "web", "--port", "0", "--json") as web,
        serving_mcp(user) as agent,
        httpx.Client(follow_redirects=True) as browser,
    ):
        line_of(hub, "gateway")
        assert (
            user.run(
                "bus",
                "participant",
                "add",
                "phone",
                "--grant",
                "approve",
                "--grant",
                "notices",
            ).code
            == 0
        )
        with beside(user, "bus", "chat", "--join", "phone.join.json") as phone:
            typed(phone, "hello")
            line_of(phone, "You said")
            asking = ("flow", "run", "ask", "--agent", "manager")
            assert user.run(*asking, "--prompt", "Ship it?").code == 42
            line_of(phone, "q-1")  # whoever was not shown it cannot answer it
            page = json.loads(line_of(web, "url"))["url"]
            origin = page.split("/?")[0]
            form = re.search(r'name="csrf" value="([^"]+)"', browser.get(page).text)
            assert form is not None
            agent.introduce()
            start = Barrier(4)

            def from_shell() -> str:
                start.wait()
                done = user.run("answer", "q-1", "from the shell")
                return done.out + done.err

            def from_page() -> str:
                start.wait()
                fields = {"csrf": form[1], "text": "from the page"}
                return browser.post(
                    f"{origin}/answer/q-1", data=fields, headers={"Origin": origin}
                ).text

            def from_agent() -> str:
                start.wait()
                agent.ask(
                    1,
                    "tools/call",
                    name="answer",
                    arguments={"id": "q-1", "text": "from the agent"},
                )
                return json.dumps(agent.answer_to(1))

            def from_chat() -> str:
                start.wait()
                typed(phone, "answer q-1 from the chat")
                return line_of(phone, "answered")

            ways: dict[str, Callable[[], str]] = {
                "from the shell": from_shell,
                "from the page": from_page,
                "from the agent": from_agent,
                "from the chat": from_chat,
            }
            with ThreadPoolExecutor(4) as people:
                told = dict(
                    zip(ways, people.map(lambda way: way(), ways.values()), strict=True)
                )

    [winner] = [text for text, answer in told.items() if TAKEN not in answer]
    assert "q-1" in told[winner] and "answered" in told[winner]
    assert user.run("flow", "resume").out == f"{winner}\n"
    late = user.run("answer", "q-1", "too late")
    assert late.code == 1 and f"{TAKEN} by" in late.err, (
        "also when the flow has ended and put its files away"
    )
    assert (
        "`bridgehead pending show q-1`" in late.err
        and winner in user.run("pending", "show", "q-1").out
    )
