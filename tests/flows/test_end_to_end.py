"""Real processes: run, exit 42, respond, resume, across directories, with handlers written in shell."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from flows.support.flow_processes import BRIDGEHEAD, Done, Shell, shell_in

RELEASE = """
from bridgehead.flows import flow, main

@flow("release", version="1")
def release(ctx, tag: str, loud: bool = False):
    count = ctx.step("count", lambda: len(tag))
    notes = ctx.ask("notes", agent="writer", prompt=f"Notes for {tag} (ünï ☃)")
    title = ctx.ask("title", agent="writer", prompt=f"A title for: {notes}")
    return {"tag": tag, "count": count, "notes": notes, "title": title.upper() if loud else title}

if __name__ == "__main__":
    raise SystemExit(main(release))
"""

# A handler as a user would write it: nothing but a shell and the exit code.
HANDLER = """#!/bin/sh
# usage: handler.sh PROGRAM WORDS...
code=42; resume=
while :; do
    out=$("$@" $resume); code=$?
    [ "$code" -eq 42 ] || break
    resume=--resume
    printf 'answer to request' | BRIDGEHEAD flow respond --dir ROOT --response-file - --model shell >/dev/null
done
printf '%s\\n' "$out"
exit "$code"
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = shell_in(tmp_path)
    made.write("release.py", RELEASE)
    return made


def pause_facts(done: Done) -> dict[str, Any]:
    word, _, facts = done.out.partition(" ")
    assert (done.code, word, done.out.count("\n")) == (42, "BRIDGEHEAD-PAUSE", 1), done
    read: dict[str, Any] = json.loads(facts)
    return read


def test_run_respond_resume_from_three_directories(
    shell: Shell, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    facts = pause_facts(shell.flow("run", "release.py", "--tag", "v1", "--loud"))
    assert facts["request_file"] == str(shell.root / ".agent-request.json")

    answered = shell.flow(
        "respond",
        "--dir",
        str(shell.root),
        "--response-file",
        "-",
        cwd=elsewhere,
        stdin="größer ☃\r\nzwei",
    )
    assert (answered.code, answered.out) == (0, f"{shell.root}/.agent-response.json\n")
    pause_facts(shell.flow("resume", "--dir", str(shell.root), "--json", cwd=elsewhere))
    assert shell.request()["prompt"] == "A title for: größer ☃\r\nzwei"

    (elsewhere / "title.txt").write_text("the title")
    shell.flow(
        "respond", "--dir", "../project", "--response-file", "title.txt", cwd=elsewhere
    )
    done = shell.flow("resume", "--dir", str(shell.root), "--json", cwd=tmp_path)
    result = json.loads(done.out)
    assert (done.code, result["schema_version"], result["status"]) == (
        0,
        "1.0",
        "completed",
    )
    assert result["result"] == {
        "tag": "v1",
        "count": 2,
        "notes": "größer ☃\r\nzwei",
        "title": "THE TITLE",
    }
    again = shell.flow("resume")
    assert (again.code, json.loads(again.out)["title"]) == (0, "THE TITLE")


def test_a_handler_written_in_shell_carries_a_program_to_its_end(shell: Shell) -> None:
    handler = shell.write(
        "handler.sh",
        HANDLER.replace("BRIDGEHEAD", str(BRIDGEHEAD)).replace("ROOT", str(shell.root)),
    )
    done = shell.run(str(handler), sys.executable, "release.py", "--tag", "v2")
    assert done.code == 0, done
    assert json.loads(done.out)["title"] == "answer to request"


def test_the_driver_does_the_same_with_one_command(shell: Shell) -> None:
    handler = "cmd:sh -c 'read line; echo \"$BRIDGEHEAD_AGENT read: $line\"'"
    program = (sys.executable, "release.py", "--tag", "v3")
    done = shell.flow("drive", "--handler", handler, "--", *program)
    assert done.code == 0, done
    assert json.loads(done.out)["notes"] == "writer read: Notes for v3 (ünï ☃)\n"
    assert sorted(path.name for path in shell.root.iterdir()) == [
        ".bridgehead",
        "release.py",
    ]


def test_driving_is_bounded_and_what_is_paused_can_be_resumed(shell: Shell) -> None:
    program = (sys.executable, "release.py", "--tag", "v4")
    done = shell.flow(
        "drive", "--max-iterations", "2", "--handler", "cmd:echo x", "--", *program
    )
    assert (done.code, done.out) == (1, "")
    assert "is still waiting after 2 runs" in done.err
    shell.flow("respond", "--response", "title")
    assert shell.flow("resume").code == 0


def test_two_resumes_at_once_take_the_answer_once(shell: Shell) -> None:
    shell.flow("run", "release.py", "--tag", "v5")
    for _ in range(3):
        shell.flow("respond", "--response", "notes")
        racing = [shell.start(*shell.command("resume")) for _ in range(4)]
        ended = [(process.wait(120), *process.communicate()) for process in racing]
        codes = sorted(code for code, _, _ in ended)
        assert set(codes) <= {0, 1, 42}, ended
        for code, out, err in ended:
            assert code != 1 or (out == b"" and b"another process" in err), (out, err)
        if codes[0] == 0:
            break
    listed = json.loads(shell.flow("list", "--json").out)["flows"]
    assert len(listed) == 1
    steps = json.loads(shell.flow("status", "--json").out)["steps"]
    assert [step["path"] for step in steps][:2] == ["count#0", "notes#0"]


def test_an_answer_of_ten_megabytes_passes_through(shell: Shell) -> None:
    shell.write(
        "long.py",
        RELEASE.replace("A title for: {notes}", "A title for {len(notes)} characters"),
    )
    shell.flow("run", "long.py", "--tag", "v6")
    text = 'zeile mit ☃ und \\ "quote"\n' * 300_000
    (shell.root / "big.txt").write_text(text)
    assert shell.flow("respond", "--response-file", "big.txt").code == 0
    assert pause_facts(shell.flow("resume"))["agent_name"] == "writer"
    assert shell.request()["prompt"] == f"A title for {len(text)} characters"


def test_control_c_leaves_everything_to_be_resumed(shell: Shell) -> None:
    shell.write(
        "slow.py",
        "import os, sys, time\n"
        "from bridgehead.flows import flow, main\n"
        "def slowly(marker):\n"
        "    if os.path.exists(marker):\n"
        "        return 'done'\n"
        "    open(marker, 'w').close()\n"
        "    print('started', file=sys.stderr, flush=True)\n"
        "    time.sleep(600)\n"
        "@flow('slow')\n"
        "def slow(ctx):\n"
        "    first = ctx.step('first', lambda: os.getpid())\n"
        "    return [first, ctx.step('slowly', slowly, os.path.abspath('marker'))]\n",
    )
    process = shell.start(*shell.command("run", "slow.py"))
    assert process.stderr is not None and process.stderr.readline() == b"started\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b"")
    assert b"Traceback" not in err
    done = shell.flow("run", "slow.py")
    assert json.loads(done.out) == [process.pid, "done"]


def test_a_changed_version_is_refused_and_can_be_forced(shell: Shell) -> None:
    shell.flow("run", "release.py", "--tag", "v7")
    shell.flow("respond", "--response", "notes")
    shell.write("release.py", RELEASE.replace('version="1"', 'version="2"'))
    refused = shell.flow("resume", "--json")
    assert (refused.code, refused.out) == (1, "")
    assert (
        "paused by version 1 and is now version 2" in refused.err
        and "--force-version" in refused.err
    )
    assert shell.flow("resume", "--force-version").code == 42


def test_the_built_in_ask_gives_a_script_an_answer(shell: Shell) -> None:
    words = ("run", "ask", "--agent", "namer", "--prompt", "A name?")
    pause_facts(shell.flow(*words))
    shell.flow("respond", "--response", "Nautilus")
    assert shell.flow(*words).out == "Nautilus\n"


def test_waiting_in_the_command_itself(shell: Shell) -> None:
    waiting = shell.start(
        *shell.command("run", "release.py", "--tag", "v8", "--wait", "100")
    )
    for text in ("notes", "title"):
        assert (
            waiting.stderr is not None
            and b"waiting for writer" in waiting.stderr.readline()
        )
        assert shell.flow("respond", "--response", text).code == 0
    out, err = waiting.communicate(timeout=120)
    assert (waiting.returncode, json.loads(out)["title"]) == (0, "title"), err


def test_a_failed_flow_leaves_stdout_empty_and_says_where_its_files_are(
    shell: Shell,
) -> None:
    shell.flow("run", "release.py", "--tag", "v9")
    shell.flow("respond", "--status", "cancelled", "--message", "not today")
    done = shell.flow("resume", "--json")
    assert (done.code, done.out) == (1, "")
    assert "not today" in done.err and "post-mortem" in done.err
    assert sorted(path.name for path in shell.root.iterdir()) == [
        ".bridgehead",
        "release.py",
    ]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("run", "nowhere.py"), "no file"),
        (("run", "release.py"), "needs --tag"),
        (("run", "release.py", "--tag", "x", "--wait", "soon"), "--wait"),
        (("run",), "NAME"),
        (("resume",), "no run is paused"),
        (("respond", "--response", "x"), "no request is open"),
        (("respond", "--response", "x", "--response-file", "y"), "cannot be combined"),
        (("cancel", "x"), "no run is paused"),
        (("drive",), "CMD"),
        (("drive", "--handler", "nonsense", "--", "true"), "no handler"),
        (("drive", "--max-iterations", "0", "--", "true"), "--max-iterations"),
        (("status",), "no flow has run"),
    ],
)
def test_mistakes_end_in_one_sentence_and_exit_one(
    shell: Shell, words: tuple[str, ...], complaint: str
) -> None:
    done = shell.flow(*words)
    assert (done.code, done.out) == (1, ""), done
    assert complaint in done.err and "Traceback" not in done.err


def test_status_and_list_say_where_a_flow_stands(shell: Shell) -> None:
    assert shell.flow("list").out == "no flow has run here\n"
    shell.flow("run", "release.py", "--tag", "v1")
    text = shell.flow("status").out
    assert "count#0" in text and "waits for writer" in text
    document = json.loads(shell.flow("status", "--json").out)
    assert document["input"] == {"tag": "v1", "loud": False}
    assert document["outstanding"][0]["agent_name"] == "writer"
    ending = document["flow_id"][-4:]
    assert "cancelled" in shell.flow("cancel", ending).out
    assert "cancelled" in shell.flow("list").out


def test_what_flows_do_reaches_the_record_and_its_pending_list(shell: Shell) -> None:
    """The announcer of the command writes to the record; `bridgehead pending` and `events` read it."""
    shell.flow("run", "release.py", "--tag", "v1")
    pending = json.loads(shell.run(str(BRIDGEHEAD), "pending", "--json").out)["items"]
    assert [item["question"]["prompt"] for item in pending] == ["Notes for v1 (ünï ☃)"]
    shell.run(str(BRIDGEHEAD), "answer", pending[0]["id"], "from the list")
    shell.flow("resume")
    assert shell.request()["prompt"] == "A title for: from the list"
