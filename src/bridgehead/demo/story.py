"""The story: another machine asks for a review, a council reviews, the result goes back, a script asks for a decision.

Somebody on the bus hears of it all.

The example is copied, so nothing of yours is touched; the copy, its report and its record stay where the end says.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from bridgehead.demo.sandbox import BackgroundCommand, DemoStopped, Sandbox
from bridgehead.exit_codes import ExitCode

EXAMPLE: Final = Path(__file__).resolve().parent / "orders"
ANYWHERE: Final = "127.0.0.1:0"
THREAD: Final = "orders-review"


def main() -> int:
    """Run the demo; end with the exit code of the first command that fails."""
    if shutil.which("git") is None:
        sys.stderr.write("the demo needs git, which was not found on PATH\n")
        return ExitCode.USER
    sandbox = Sandbox(Path(tempfile.mkdtemp(prefix="bridgehead-demo-")))
    try:
        with sandbox:
            project = _project(sandbox)
            sandbox.heading(
                "What this machine offers. Nothing below needs an account, a key or a "
                "model."
            )
            sandbox.run("doctor", at=project, allowed=(ExitCode.DONE, ExitCode.USER))
            kitchen = _serve_bus(sandbox)
            other = _request_review(sandbox, project)
            review = _review(sandbox, project)
            _send_result(sandbox, project, other, review)
            _pause_flow(sandbox, project)
            _show_notices(sandbox, kitchen)
            _show_results(sandbox, project)
    except DemoStopped as ended:
        sys.stderr.write(f"\n{ended}\n")
        return ended.exit_code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    return ExitCode.DONE


def _project(sandbox: Sandbox) -> Path:
    """The example as a repository of its own, with a bare one between it and the second machine."""
    project = sandbox.folder / "orders"
    shutil.copytree(
        EXAMPLE,
        project,
        ignore=shutil.ignore_patterns(".outputs", ".bridgehead", "__pycache__"),
    )
    (sandbox.folder / "gitconfig").write_text(
        "[user]\n\tname = demo\n\temail = demo@localhost\n[init]\n\tdefaultBranch = "
        "main\n"
    )
    wire = sandbox.folder / "wire.git"
    sandbox.git("init", "-q", "--bare", str(wire), at=sandbox.folder)
    for words in (
        ("init", "-q"),
        ("add", "-A"),
        ("commit", "-q", "-m", "the example"),
        ("remote", "add", "origin", str(wire)),
        ("push", "-q", "-u", "origin", "main"),
    ):
        sandbox.git(*words, at=project)
    return project


def _serve_bus(sandbox: Sandbox) -> BackgroundCommand:
    """A bus with one participant who may hear notices."""
    home = sandbox.folder / "kitchen"
    home.mkdir()
    sandbox.heading(
        "A bus, and somebody in the kitchen who wants to hear when something is done"
    )
    bus = sandbox.start(
        "bus",
        "serve",
        "--listen",
        ANYWHERE,
        "--hub-listen",
        ANYWHERE,
        "--assistant",
        "scripted",
        at=home,
    )
    bus.wait_for("participants")
    sandbox.run("bus", "participant", "add", "kitchen", "--grant", "notices", at=home)
    kitchen = sandbox.start("bus", "chat", "--join", "kitchen.join.json", at=home)
    kitchen.type("Is anybody there?")
    sandbox.say(
        f"kitchen > Is anybody there?\n        < {kitchen.wait_for('You said')}"
    )
    return kitchen


def _review(sandbox: Sandbox, project: Path) -> str:
    """A council; its id."""
    sandbox.heading(
        "A council on a small order service: the static seat, and every agent that is "
        "installed here"
    )
    sandbox.run(
        "council",
        "review",
        "--intensity",
        "quick",
        "--domain",
        "security",
        "--non-interactive",
        at=project,
    )
    sandbox.heading("The same as an exit code, for CI")
    sandbox.run("council", "gate", at=project, allowed=(ExitCode.DONE, ExitCode.GATE))
    newest = max((project / ".outputs" / "council").glob("*.json"))
    return str(json.loads(newest.read_text(encoding="utf-8"))["review_id"])


def _request_review(sandbox: Sandbox, project: Path) -> Path:
    """A second machine with a request; its clone."""
    sandbox.heading(
        "An agent on another machine asks for a review; git is the queue between the "
        "two"
    )
    other = sandbox.folder / "workstation"
    sandbox.git(
        "clone", "-q", str(sandbox.folder / "wire.git"), str(other), at=sandbox.folder
    )
    sandbox.run("rig", "init", "--rig-id", "workstation", at=other)
    sandbox.run("rig", "new", THREAD, at=other)
    sandbox.run(
        "rig",
        "send",
        "REQUEST",
        "--thread",
        THREAD,
        "--to",
        "laptop",
        "--tldr",
        "safe to ship?",
        at=other,
    )
    sandbox.run("rig", "init", "--rig-id", "laptop", at=project)
    sandbox.run("rig", "sync", "--auto", at=project)
    sandbox.run("pending", at=project)
    return other


def _send_result(sandbox: Sandbox, project: Path, other: Path, review: str) -> None:
    sandbox.heading(
        "The result goes back, with the review that stands behind it, and is checked "
        "on arrival"
    )
    sandbox.run(
        *(
            "rig",
            "send",
            "RESULT",
            "--thread",
            THREAD,
            "--to",
            "workstation",
            "--ref",
            "auto",
        ),
        *("--council", review, "--tldr", "fix what the council found first"),
        at=project,
    )
    sandbox.run("rig", "sync", "--auto", at=other)
    sandbox.run("rig", "verify", "--require-council", at=other)


def _pause_flow(sandbox: Sandbox, project: Path) -> None:
    sandbox.heading(
        "A script needs a decision: it asks, ends with 42, and goes on in a new "
        "process when there is one"
    )
    question = "The council found something. Ship the release all the same?"
    sandbox.run(
        "flow", "run", "ask", "--agent", "release-manager", "--prompt", question,
        at=project, allowed=(ExitCode.WAITING,),
    )  # fmt: skip
    sandbox.run("pending", at=project)
    sandbox.run("answer", "q-1", "No. Bind the SQL values first.", at=project)
    sandbox.run("flow", "resume", at=project)


def _show_notices(sandbox: Sandbox, kitchen: BackgroundCommand) -> None:
    sandbox.heading("What the kitchen heard meanwhile")
    kitchen.wait_for("answered")
    for line in kitchen.lines:
        if line and "You said" not in line:
            sandbox.say(f"kitchen < {line}")


def _show_results(sandbox: Sandbox, project: Path) -> None:
    page = max((project / ".outputs" / "council").glob("*.html"))
    sandbox.say(
        f"\nThe report as a page     {page}\nEverything in one place  {sandbox.folder}"
    )
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        home = f"BRIDGEHEAD_HOME={sandbox.folder / 'home'}"
        sandbox.say(
            f"The dashboard            {home} {sandbox.program_for_people} web --open"
        )
        return
    sandbox.heading(
        "The dashboard: councils, threads, flows, the bus, what waits for someone"
    )
    web = sandbox.start("web", "--port", "0", at=project)
    sandbox.say(web.wait_for("http://"))
    sys.stdout.write("Open the link; Enter ends the demo. ")
    sys.stdout.flush()
    sys.stdin.readline()
