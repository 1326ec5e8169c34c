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

from bridgehead.demo.stage import Companion, Stage, StoryEnded
from bridgehead.exit_codes import ExitCode

EXAMPLE: Final = Path(__file__).resolve().parent / "orders"
ANYWHERE: Final = "127.0.0.1:0"
THREAD: Final = "orders-review"


def main() -> int:
    """Tell the story; end with the exit code of the first command that fails."""
    if shutil.which("git") is None:
        sys.stderr.write("the demo needs git, which was not found on PATH\n")
        return ExitCode.USER
    stage = Stage(Path(tempfile.mkdtemp(prefix="bridgehead-demo-")))
    try:
        with stage:
            _tell(stage)
    except StoryEnded as ended:
        sys.stderr.write(f"\n{ended}\n")
        return ended.exit_code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    return ExitCode.DONE


def _tell(stage: Stage) -> None:
    project = _project(stage)
    stage.scene("What this machine offers. Nothing below needs an account, a key or a model.")
    stage.run("doctor", at=project, allowed=(ExitCode.DONE, ExitCode.USER))
    kitchen = _somebody_listens(stage)
    other = _somebody_asks(stage, project)
    review = _review(stage, project)
    _hand_over(stage, project, other, review)
    _pause(stage, project)
    _what_was_heard(stage, kitchen)
    _ending(stage, project)


def _project(stage: Stage) -> Path:
    """The example as a repository of its own, with a bare one between it and the second machine."""
    project = stage.folder / "orders"
    shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns(".outputs", ".bridgehead", "__pycache__"))
    (stage.folder / "gitconfig").write_text(
        "[user]\n\tname = demo\n\temail = demo@localhost\n[init]\n\tdefaultBranch = main\n"
    )
    wire = stage.folder / "wire.git"
    stage.git("init", "-q", "--bare", str(wire), at=stage.folder)
    for words in (
        ("init", "-q"),
        ("add", "-A"),
        ("commit", "-q", "-m", "the example"),
        ("remote", "add", "origin", str(wire)),
        ("push", "-q", "-u", "origin", "main"),
    ):
        stage.git(*words, at=project)
    return project


def _somebody_listens(stage: Stage) -> Companion:
    """A bus with one participant who may hear notices."""
    home = stage.folder / "kitchen"
    home.mkdir()
    stage.scene("A bus, and somebody in the kitchen who wants to hear when something is done")
    bus = stage.companion(
        "bus", "serve", "--listen", ANYWHERE, "--hub-listen", ANYWHERE, "--assistant", "scripted", at=home
    )
    bus.wait_for("participants")
    stage.run("bus", "participant", "add", "kitchen", "--grant", "notices", at=home)
    kitchen = stage.companion("bus", "chat", "--join", "kitchen.join.json", at=home)
    kitchen.type("Is anybody there?")
    stage.say(f"kitchen > Is anybody there?\n        < {kitchen.wait_for('You said')}")
    return kitchen


def _review(stage: Stage, project: Path) -> str:
    """A council; its id."""
    stage.scene("A council on a small order service: the static seat, and every agent that is installed here")
    stage.run(
        "council", "review", "--intensity", "quick", "--domain", "security", "--non-interactive", at=project
    )
    stage.scene("The same as an exit code, for CI")
    stage.run("council", "gate", at=project, allowed=(ExitCode.DONE, ExitCode.GATE))
    newest = max((project / ".outputs" / "council").glob("*.json"))
    return str(json.loads(newest.read_text(encoding="utf-8"))["review_id"])


def _somebody_asks(stage: Stage, project: Path) -> Path:
    """A second machine with a request; its clone."""
    stage.scene("An agent on another machine asks for a review; git is the queue between the two")
    other = stage.folder / "workstation"
    stage.git("clone", "-q", str(stage.folder / "wire.git"), str(other), at=stage.folder)
    stage.run("rig", "init", "--rig-id", "workstation", at=other)
    stage.run("rig", "new", THREAD, at=other)
    stage.run(
        "rig", "send", "REQUEST", "--thread", THREAD, "--to", "laptop", "--tldr", "safe to ship?", at=other
    )
    stage.run("rig", "init", "--rig-id", "laptop", at=project)
    stage.run("rig", "sync", "--auto", at=project)
    stage.run("pending", at=project)
    return other


def _hand_over(stage: Stage, project: Path, other: Path, review: str) -> None:
    stage.scene("The result goes back, with the review that stands behind it, and is checked on arrival")
    stage.run(
        *("rig", "send", "RESULT", "--thread", THREAD, "--to", "workstation", "--ref", "auto"),
        *("--council", review, "--tldr", "mend what the council found first"),
        at=project,
    )
    stage.run("rig", "sync", "--auto", at=other)
    stage.run("rig", "verify", "--require-council", at=other)


def _pause(stage: Stage, project: Path) -> None:
    stage.scene(
        "A script needs a decision: it asks, ends with 42, and goes on in a new process when there is one"
    )
    question = "The council found something. Ship the release all the same?"
    stage.run(
        "flow", "run", "ask", "--agent", "release-manager", "--prompt", question,
        at=project, allowed=(ExitCode.WAITING,),
    )  # fmt: skip
    stage.run("pending", at=project)
    stage.run("answer", "q-1", "No. Bind the SQL values first.", at=project)
    stage.run("flow", "resume", at=project)


def _what_was_heard(stage: Stage, kitchen: Companion) -> None:
    stage.scene("What the kitchen heard meanwhile")
    kitchen.wait_for("answered")
    for line in kitchen.heard:
        if line and "You said" not in line:
            stage.say(f"kitchen < {line}")


def _ending(stage: Stage, project: Path) -> None:
    page = max((project / ".outputs" / "council").glob("*.html"))
    stage.say(f"\nThe report as a page     {page}\nEverything in one place  {stage.folder}")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        home = f"BRIDGEHEAD_HOME={stage.folder / 'home'}"
        stage.say(f"The dashboard            {home} {stage.program_for_people} web --open")
        return
    stage.scene("The dashboard: councils, threads, flows, the bus, what waits for someone")
    web = stage.companion("web", "--port", "0", at=project)
    stage.say(web.wait_for("http://"))
    sys.stdout.write("Open the link; Enter ends the demo. ")
    sys.stdout.flush()
    sys.stdin.readline()
