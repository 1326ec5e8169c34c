"""`bridgehead bus …` as installed: the first-satellite guide step by step, and commands it does not show."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from click.testing import CliRunner

from bridgehead.bus.client.participant import Spoken
from bridgehead.bus.interfaces import Notice
from bridgehead.bus.settings import ServingSettings
from bridgehead.bus.wire.message import Message
from bridgehead.bus.wire.topics import NOTICE, SPEAK
from bridgehead.cli.bus import talk
from bridgehead.cli.output import App
from bus.support.running import free_port
from support.console_blocks import environment, matches, run, steps
from support.installed import Machine, machine
from support.person import at_terminal

REPOSITORY = Path(__file__).resolve().parent.parent.parent
GUIDE = REPOSITORY / "docs" / "guides" / "first-satellite.md"
SCRIPTS = Path(sys.executable).parent


def free_ports() -> tuple[int, int]:
    return free_port(), free_port()


@contextmanager
def serving(
    home: Machine, *options: str
) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """`bus serve` in a process of its own; what it printed, and the variables others need to find it."""
    hub, gateway = free_ports()
    places = {
        "BRIDGEHEAD_BUS_HUB_LISTEN": f"127.0.0.1:{hub}",
        "BRIDGEHEAD_BUS_LISTEN": f"127.0.0.1:{gateway}",
    }
    process = home.start("bus", "serve", "--json", *options, **places)
    try:
        assert process.stdout is not None and process.stderr is not None
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield json.loads(line), places
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 0


def test_the_guide_does_what_it_shows(tmp_path: Path) -> None:
    shown = GUIDE.read_text(encoding="utf-8").replace("```console no-run", "```console")
    serve, *commands = steps(shown)
    assert serve.command == "bridgehead bus serve --assistant scripted"
    home = machine(tmp_path)
    with serving(home, "--assistant", "scripted") as (facts, places):
        port = places["BRIDGEHEAD_BUS_LISTEN"].rpartition(":")[2]
        local = [
            type(step)(
                step.command.replace("//127.0.0.1:8182", f"//127.0.0.1:{port}"),
                step.expected,
            )
            for step in commands
        ]
        results = run(
            local, home.project, {**environment(home.home, SCRIPTS), **places}
        )
    assert facts["gateway"] == f"ws://127.0.0.1:{port}/bridge/v1"
    for step, result in zip(local, results, strict=True):
        assert result.code == step.exit_code, f"$ {step.command}\n{result.output}"
        assert matches(step.expected, result.output), (
            f"$ {step.command}\n{result.output}"
        )


def test_send_tail_and_check_on_a_hub(tmp_path: Path) -> None:
    home = machine(tmp_path)
    with serving(home, "--assistant", "scripted") as (facts, places):
        hub = ("--hub", facts["hub"])
        tail = home.start(
            "bus", "tail", "--json", "--count", "2", "--topic", "x.", *hub
        )
        # The tail is there once a message of ours comes back to it; send until it has seen two.
        while tail.poll() is None:
            assert home.run("bus", "send", "x.y", '{"n":1}', *hub).code == 0
        assert tail.stdout is not None
        seen = [json.loads(line) for line in tail.stdout]
        assert [entry["topic"] for entry in seen] == [
            "x.y",
            "x.y",
        ] and "data" not in seen[0]
        tail.communicate(timeout=10)
        assert home.run("bus", "participant", "add", "den", **places).code == 0
        denied = ("policy.blacklisted_skills", '["bridgehead.assistant"]')
        assert home.run("bus", "policy", "set", "den", *denied, **places).code == 0
        mute = home.run("bus", "send", "--join", "den.join.json", "--say", "hello")
        assert (mute.code, mute.out) == (0, "(nothing on the bus understood that)\n")
        said = home.run("bus", "send", "--say", "hello", "--json", *hub)
        assert said.json["speak"][0]["utterance"] == "You said: hello"
        checked = home.run("bus", "check", "--json", "--seconds", "0.1", **places)
        assert checked.code == 0 and {c["state"] for c in checked.json["checks"]} == {
            "fine"
        }
        # The assistant there uses specification names, which a bridge in front of the hub does not write at first.
        before = home.run("bus", "check", "--json", "--seconds", "0.1", *hub).json[
            "checks"
        ][-1]
        assert (before["state"], before["fix"]) == (
            "look",
            'set profile = "spec" in [bus]',
        )
        assert home.run("bus", "send", "bad topic", *hub).code == 1
        assert home.run("bus", "send", "a.b", "[1]", *hub).code == 1
        assert home.run("bus", "send", *hub).code == 1
    gone = home.run("bus", "check", *hub)
    assert gone.code == 1 and "cannot be reached" in gone.out


def test_a_port_in_use_ends_with_2_and_names_the_way_out(tmp_path: Path) -> None:
    home = machine(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = home.run(
            "bus", "serve", "--hub-listen", address, "--listen", "127.0.0.1:0"
        )
    assert (done.code, done.out) == (2, "")
    assert address in done.err and "--hub URL" in done.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("bus", "serve", "--hub-listen", "0.0.0.0:8181"), "the hub cannot listen on"),
        (("bus", "serve", "--listen", "nonsense"), "is not an address"),
        (("bus", "serve", "--assistant", "nobody"), "the assistant cannot be"),
        (
            ("bus", "serve", "--assistant", "cmd:/no/such --flag"),
            "there is no program /no/such",
        ),
        (
            ("bus", "serve", "--assistant", "cmd:no-such-agent"),
            "there is no program no-such-agent",
        ),
        (("bus", "bridge"), "needs --hub URL"),
        (("bus", "bridge", "--sidecar"), "needs --join FILE"),
        (
            ("bus", "bridge", "--hub", "ws://x/core", "--upstream", "ws://y"),
            "must be given together",
        ),
        (("bus", "participant", "add", "bad name"), "is not a valid participant ID"),
        (
            ("bus", "participant", "add", "a", "--expires", "3d"),
            "--expires works with tokens only",
        ),
        (
            ("bus", "participant", "add", "a", "--token", "--expires", "soon"),
            "is not a duration",
        ),
        (("bus", "participant", "show", "nobody"), "is not a participant here"),
        (("bus", "participant", "revoke", "nobody"), "is not a participant here"),
        (
            ("bus", "policy", "set", "nobody", "tts", "false"),
            "is not a participant here",
        ),
        (("bus", "send", "--join", "missing.json", "a.b"), "does not exist"),
    ],
)
def test_mistakes_are_told_and_change_nothing(
    tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    home = machine(tmp_path)
    done = home.run(*arguments)
    assert done.code in (1, 2) and done.out == "" and sentence in done.err
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} <= {".lock"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            (),
            "no assistant: questions are answered once an OVOS core is on the hub, or with --assistant NAME",
        ),
        (
            ("--assistant", "claude"),
            "warning: claude cannot answer yet: not installed. npm install",
        ),
        (
            ("--assistant", "acp:goose"),
            "warning: acp:goose cannot answer yet: not installed. install the agent",
        ),
        (
            ("--assistant", "council"),
            "the council cannot answer yet: no AI runtime is available",
        ),
        (("--assistant", "cmd:cat"), ""),
        (("--assistant", "scripted"), ""),
    ],
)
def test_a_bus_that_cannot_answer_or_forgets_says_so_at_the_start(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    home = machine(tmp_path)
    anywhere = ("--listen", "127.0.0.1:0", "--hub-listen", "127.0.0.1:0")
    process = home.start(
        "bus", "serve", "--json", *anywhere, *options, PATH=f"{SCRIPTS}:/usr/bin:/bin"
    )
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline()
    if options and options[-1] != "scripted":
        assert "conversations in memory: they end when the bus stops" in (
            process.stderr.readline()
        )
    if said:  # while the bus is served, or before
        assert said in process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    assert "answer" not in process.communicate(timeout=30)[1]


def test_a_join_file_is_private_and_never_overwrites_something_else(
    tmp_path: Path,
) -> None:
    home = machine(tmp_path)
    kept = home.home / "kitchen.join.json"
    kept.write_text("precious")
    refused = home.run("bus", "participant", "add", "kitchen", "--join", str(kept))
    assert refused.code == 1 and kept.read_text() == "precious"
    assert home.run("bus", "participant", "list", "--json").json["participants"] == []
    chosen = home.home / "k.json"
    added = home.run(
        *("bus", "participant", "add", "kitchen", "--grant", "notices"),
        *("--join", str(chosen)),
    )
    assert added.code == 0 and chosen.stat().st_mode & 0o777 == 0o600
    assert re.search(r'"key": "[A-Za-z0-9+/=]{44}"', chosen.read_text())
    assert "key" not in added.out
    assert home.run("bus", "participant", "show", "kitchen", "--json").json[
        "participant"
    ]["grants"] == ["notices"]
    state = home.home / "bridgehead" / "data" / "bus"
    assert state.stat().st_mode & 0o777 == 0o700
    assert all(
        path.stat().st_mode & 0o777 == 0o600
        for path in state.iterdir()
        if path.is_file()
    )


def test_a_signal_ends_a_chat_without_waiting_for_a_line(tmp_path: Path) -> None:
    home = machine(tmp_path)
    with serving(home, "--assistant", "scripted") as (facts, _places):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            chat = subprocess.Popen(
                [str(SCRIPTS / "bridgehead"), "bus", "chat", "--hub", facts["hub"]],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=home.project,
                env=home.environ(),
                text=True,
            )
            assert chat.stdin is not None and chat.stdout is not None
            chat.stdin.write("hello\n")
            chat.stdin.flush()
            assert chat.stdout.readline() == "You said: hello\n"
            chat.send_signal(number)
            assert chat.wait(timeout=20) == code, "its input is still open"
            chat.communicate()


def test_an_interrupted_tail_ends_like_an_interrupted_command(tmp_path: Path) -> None:
    home = machine(tmp_path)
    with serving(home) as (facts, _places):
        tail = home.start("bus", "tail", "--json", "--hub", facts["hub"])
        assert tail.stdout is not None
        while not tail.stdout.readline():
            pass
        tail.send_signal(signal.SIGINT)
        tail.communicate(timeout=20)
        assert tail.returncode == 130


def ended(process: subprocess.Popen[str]) -> int:
    process.communicate(timeout=30)
    return process.returncode


def test_a_device_pairs_and_someone_says_yes_on_the_command_line_or_in_chat(
    tmp_path: Path,
) -> None:
    home = machine(tmp_path)

    def asking(device: str, url: str) -> tuple[subprocess.Popen[str], dict[str, str]]:
        """A device that waits, and the pending item it made; both show the same six digits."""
        process = home.start("bus", "participant", "pair", url, "--id", device)
        assert process.stderr is not None
        shown = re.search(r"shows (\d{3} ?\d{3})", process.stderr.readline())
        while not (items := home.run("pending", "--json").json["items"]):
            pass
        assert shown is not None and shown[1] in items[0]["question"]["title"]
        return process, items[0]

    with serving(home, "--pairing") as (facts, _places):
        url = facts["gateway"].removesuffix("/bridge/v1")
        device, item = asking("den", url)
        assert at_terminal(home, "answer", item["id"], "yes").code == 0
        assert ended(device) == 0

        device, item = asking("attic", url)
        trusted = ("bus", "chat", "--join", "phone.join.json")
        assert (
            home.run("bus", "participant", "add", "phone", "--grant", "approve").code
            == 0
        )
        yes = f"answer {item['id']} yes\n"
        no = f"answer {item['id']} no\n"
        chatted = home.run(*trusted, stdin=f"{yes}{yes}{no}\n")
        unseen, *question, first, second = chatted.err.splitlines()
        assert unseen.endswith("you were not shown this question as it is now")
        assert "attic" in question[0], "so it is shown then"
        assert first == f"{item['id']} was answered: yes"
        assert "bus phone" in second, "whoever comes second is told who was first"
        assert ended(device) == 0

        said = home.run(
            "bus", "send", "--join", "attic.join.json", "--json", "ovos.stop"
        )
        assert said.code == 0, said.err


@pytest.mark.parametrize("grant", ["notices", "approve"])
def test_every_right_of_the_chat_page_that_the_guide_names_can_be_given(
    tmp_path: Path, grant: str
) -> None:
    assert f"--chat-grant {grant}" in GUIDE.read_text(encoding="utf-8")
    home = machine(tmp_path)
    with serving(home, "--chat-grant", grant) as (facts, _places):
        # Opening the link makes a session with that right; the page itself is tested with a browser.
        page = urllib.request.urlopen(facts["chat"], timeout=30)
        assert page.status == 200 and "bridgehead_chat" in page.headers["Set-Cookie"]


def test_a_new_chat_link_any_time(tmp_path: Path) -> None:
    home = machine(tmp_path)
    with serving(home) as (facts, _places):
        made = home.run("bus", "link", "chat")
        assert made.code == 0 and made.out.strip() != facts["chat"]
        for url, status in ((made.out.strip(), 200), (facts["chat"], 200)):
            assert urllib.request.urlopen(url, timeout=30).status == status
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(made.out.strip(), timeout=30)
    gone = home.run("bus", "link", "chat")
    assert gone.code == 1 and "no bus is running" in gone.err


def test_something_is_said_to_one_participant_or_reported_as_not_delivered(
    tmp_path: Path,
) -> None:
    home = machine(tmp_path)
    with serving(home) as (facts, _places):
        hub = ("--hub", facts["hub"])
        assert home.run("bus", "participant", "add", "kitchen").code == 0
        absent = home.run(
            "bus", "send", "--to", "kitchen", "--say", "dinner is ready", *hub
        )
        while (
            absent.code == 0
        ):  # the bus reads a new record within a moment, and until then knows nobody of that name
            absent = home.run(
                "bus", "send", "--to", "kitchen", "--say", "dinner is ready", *hub
            )
        assert absent.code == 2 and "'kitchen' did not receive it: absent" in absent.err
        for said in (["--say", "dinner is ready"], ["ovos.stop"]):
            unknown = home.run("bus", "send", "--to", "kitschen", *said)
            assert (
                unknown.code == 1
                and "has no participant 'kitschen', so nothing was sent" in unknown.err
            )
        in_vain = home.run("bus", "ask", "kitchen", "when?", "--wait", "0")
        assert in_vain.code == 2 and "participant list" in in_vain.err
        assert _state_of(home, "kitchen") == "absent"
        tail = home.start(
            "bus",
            "tail",
            "--json",
            "--data",
            "--count",
            "1",
            "--join",
            "kitchen.join.json",
        )
        while _state_of(home, "kitchen") == "absent":
            assert tail.poll() is None
        assert _state_of(home, "kitchen") == "connected"
        filtered = home.run(
            "bus", "send", "--to", "kitchen", "system.reboot"
        )  # the hub is found without its address
        assert (
            filtered.code == 2
            and "'kitchen' did not receive it: hardened" in filtered.err
        )
        assert "hardened_extra" in filtered.err
        while tail.poll() is None:
            home.run("bus", "send", "--to", "kitchen", "--say", "dinner is ready", *hub)
        assert tail.stdout is not None
        heard = json.loads(tail.stdout.readline())
        tail.communicate(timeout=10)
        assert (heard["topic"], heard["data"]) == (
            "ovos.utterance.speak",
            {"utterance": "dinner is ready"},
        )
    assert _state_of(home, "kitchen") is None, "nobody knows without a bus"


def _state_of(home: Machine, participant: str) -> object:
    listed = home.run("bus", "participant", "list", "--json").json["participants"]
    return next(one["state"] for one in listed if one["id"] == participant)


def test_the_policy_of_a_participant_is_what_is_in_force(tmp_path: Path) -> None:
    home = machine(tmp_path)
    assert (
        home.run("bus", "participant", "add", "kitchen", "--grant", "approve").code == 0
    )

    shown = home.run("bus", "policy", "show", "kitchen", "--json").json["participant"]

    assert (shown["grants"], shown["role"], shown["deliver"]) == (
        ["approve"],
        "satellite",
        ["*"],
    )
    assert "ovos.utterance.handle" in shown["publish"]
    assert (
        home.run("bus", "policy", "set", "kitchen", "grants.approve", "false").code == 0
    )
    assert (
        home.run("bus", "policy", "show", "kitchen", "--json").json["participant"][
            "grants"
        ]
        == []
    )
    given = home.run(
        "bus", "policy", "set", "kitchen", "assistant.tools", '["clock", "lamps"]'
    )
    assert re.search(r"^assistant +tools clock, lamps$", given.out, re.MULTILINE), (
        given.out
    )
    unknown = home.run("bus", "policy", "show", "nobody")
    assert (unknown.code, unknown.out) == (
        1,
        "",
    ) and "'nobody' is not a participant" in unknown.err


def test_a_question_is_answered_by_whoever_sits_at_the_participant(
    tmp_path: Path,
) -> None:
    home = machine(tmp_path)
    with serving(home, "--assistant", "scripted") as (_facts, places):
        home.run("bus", "participant", "add", "kitchen", **places)
        kitchen = home.start(
            "bus", "chat", "--join", "kitchen.join.json", typed=True, **places
        )
        assert (
            kitchen.stdin is not None
            and kitchen.stderr is not None
            and kitchen.stdout is not None
        )
        kitchen.stdin.write("hello\n")
        kitchen.stdin.flush()
        assert kitchen.stdout.readline() == "You said: hello\n"  # so it is connected
        assert home.run("bus", "announce", "--json", "dinner", **places).json[
            "told"
        ] == ["kitchen"]
        assert kitchen.stderr.readline().rstrip().endswith("dinner")
        asking = home.start(
            "bus", "ask", "kitchen", "is the oven off?", "--json", **places
        )
        assert kitchen.stderr.readline().rstrip().endswith("is the oven off?")
        kitchen.stdin.write("it is\n")
        kitchen.stdin.flush()
        out, err = asking.communicate(timeout=60)
        assert json.loads(out)["answer"] == "it is", err
        kitchen.communicate("", timeout=60)


def test_a_notice_in_a_chat_is_the_whole_question_and_cannot_look_like_another(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = {
        "kind": "pending",
        "id": "q-7",
        "title": "flow: ship: Where to?",
        "status": "needs_you",
    }
    prompt = "Where to?\nneeds you  pending  q-8\n\x1b[2Jlive is down"
    notice = Notice(
        **asked, choices=("test", "live"), prompt=prompt, details={"agent": "human"}
    )

    talk._show_notice(App(), Message(NOTICE, notice.to_data(), {}))
    talk._show_notice(
        App(), Message(NOTICE, {**asked, "status": "answered", "by": "bus phone"}, {})
    )
    talk._show_notice(App(), Message(SPEAK, {"utterance": "by the way"}, {}))

    assert capsys.readouterr().err.splitlines() == [
        "needs you  pending  q-7  flow: ship: Where to?",
        "  needs you  pending  q-8",
        "  \\x1b[2Jlive is down",
        "  agent: human",
        "  answer with: answer q-7 test|live",
        "answered  pending  q-7  flow: ship: Where to?  by bus phone",
        "by the way",
    ]


def test_an_answer_that_was_asked_for_in_a_chat_is_confirmed_there(
    tmp_path: Path,
) -> None:
    home = machine(tmp_path)
    with serving(home, "--assistant", "scripted") as (_facts, places):
        assert home.run("bus", "participant", "add", "kitchen", **places).code == 0
        chat = home.start(
            "bus", "chat", "--join", "kitchen.join.json", typed=True, **places
        )
        assert (
            chat.stdin is not None
            and chat.stdout is not None
            and chat.stderr is not None
        )
        print("hello", file=chat.stdin, flush=True)
        assert chat.stdout.readline() == "You said: hello\n"
        asking = home.start("bus", "ask", "kitchen", "oven off?", **places)
        assert chat.stderr.readline() == "oven off?\n"
        print("yes", file=chat.stdin, flush=True)
        assert chat.stdout.readline() == "(your answer was sent)\n"
        assert asking.communicate(timeout=30)[0] == "yes\n"
        assert chat.communicate("thanks\n\n", timeout=30) == ("You said: thanks\n", "")


def test_a_chat_waits_longer_than_the_assistant_may_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Asked:
        waited: ClassVar[list[float]] = []

        async def __aenter__(self) -> Asked:
            return self

        async def __aexit__(self, *_error: object) -> None: ...

        async def ask(self, _text: str, _lang: str | None, *, wait_s: float) -> Spoken:
            self.waited.append(wait_s)
            return Spoken((), handled=True)

    class Typed:
        def __init__(self) -> None:
            self._lines = iter(("hello\n", "\n"))

        async def next(self) -> str:
            return next(self._lines)

    async def reach(*_where: object) -> Asked:
        return Asked()

    monkeypatch.setattr(talk, "_reach", reach)
    monkeypatch.setattr(talk, "TypedLines", Typed)
    assert (
        CliRunner().invoke(talk.chat, [], obj=App(), standalone_mode=False).return_value
        == 0
    )
    assert Asked.waited and min(Asked.waited) > ServingSettings().assistant_timeout_s
