"""The command tree as a whole: help, completion, errors, exit codes, streams."""

from __future__ import annotations

import gc
import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from bridgehead import __version__
from bridgehead.assembly.council.request import VERBS
from bridgehead.cli.running import run_guarded
from bridgehead.cli.tree import bridgehead
from bridgehead.errors import BridgeheadError, for_this_installation
from bridgehead.setup.hosts import HOSTS
from support.installed import Machine
from tools.reference_pages import command_helps

HELPS = dict(command_helps())


def test_version_is_one_line(user: Machine) -> None:
    done = user.run("--version")

    assert (done.code, done.out, done.err) == (0, f"{__version__}\n", "")


def test_bh_is_the_same_command(user: Machine) -> None:
    assert (
        user.run("--help", program="bh").out.split("\n", 1)[1]
        == user.run("--help").out.split("\n", 1)[1]
    )


def test_no_arguments_print_help(user: Machine) -> None:
    assert "Commands:" in user.run().out


@pytest.mark.parametrize("path", [path for path in HELPS if " " in path])
def test_every_command_explains_itself_with_an_example(path: str) -> None:
    text = HELPS[path]
    is_group = "COMMAND [ARGS]" in text or "<command> [options]" in text

    assert len(text.splitlines()) > 3
    assert is_group or "Examples:" in text
    assert is_group or "--json" in text


def test_no_sentence_of_a_list_of_commands_is_cut_off() -> None:
    assert not [
        path for path, text in HELPS.items() if "..." in text.partition("Commands:")[2]
    ]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["pendign"], "Did you mean 'pending'?"),
        (["review", "src"], "Did you mean 'council review'?"),
        (["status"], "Did you mean 'rig status' or 'flow status'?"),
        (["dashboard"], "Did you mean 'web'?"),
        (["revew"], "no such command 'revew'. Did you mean 'council review'?"),
        (
            ["council", "review", "--seats", "static"],
            "no such option '--seats'. Did you mean '--runtime'?",
        ),
        (["events", "--limit", "many"], "many"),
        (["events", "--nope"], "--nope"),
        (["config", "shwo"], "shwo"),
        (["completion", "tcsh"], "tcsh"),
        (["completion"], "Choose from: bash, zsh, fish"),
        (["bus", "send"], "hint: bridgehead bus send --help"),
        (["rig", "thread"], "hint: bridgehead rig thread --help"),
        (
            ["flow", "run", "ask", "--max-retries", "-1"],
            "hint: bridgehead flow run --help",
        ),
    ],
)
def test_a_usage_mistake_is_one_sentence_with_a_hint_and_exits_1(
    user: Machine, arguments: list[str], complaint: str
) -> None:
    done = user.run(*arguments)

    assert done.code == 1 and done.out == ""
    assert complaint in done.err
    assert done.err.startswith("bridgehead: ") and "hint:" in done.err


@pytest.mark.parametrize(
    ("program", "hint"),
    [("bridgehead", "  hint: bridgehead doctor\n"), ("rig-bridge", "")],
)
def test_an_error_without_a_hint_of_its_own_gets_the_usual_one_but_not_in_the_drop_in(
    program: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> int:
        raise BridgeheadError("the disk is gone")

    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    try:
        with pytest.raises(SystemExit) as ended:
            run_guarded(fail, program=program, debug=False)
    finally:
        for one, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
            signal.signal(one, handler)
        gc.unfreeze()
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"{program}: the disk is gone\n{hint}"


@pytest.mark.parametrize(
    ("package", "extra", "arguments"),
    [
        ("picows", "bus", ["bus", "serve"]),
        ("uvicorn", "all", ["web"]),
    ],
)
def test_a_missing_extra_is_a_sentence_with_the_install_line(
    user: Machine, tmp_path: Path, package: str, extra: str, arguments: list[str]
) -> None:
    (tmp_path / "without" / package).mkdir(parents=True)
    (tmp_path / "without" / package / "__init__.py").write_text(
        f"raise ModuleNotFoundError(name={package!r})\n"
    )

    done = user.run(*arguments, PYTHONPATH=str(tmp_path / "without"))

    assert (
        done.code == 1
        and f"this command needs the package {package}, which is not installed"
        in done.err
    )
    assert f"[{extra}]'" in done.err and "pip install '" in done.err


@pytest.mark.parametrize(
    ("prefix", "url", "installer", "line"),
    [
        (
            "/home/a/.local/share/uv/tools/bridgehead",
            "",
            "uv",
            "uv tool install 'bridgehead[bus]'",
        ),
        (
            "/home/a/.cache/uv/archive-v0/Nc9r6jmt",
            "",
            "uv",
            "uv tool install 'bridgehead[bus]'",
        ),
        (
            "/home/a/.local/share/pipx/venvs/bridgehead",
            "",
            "pip\n",
            "pipx install --force 'bridgehead[bus]'",
        ),
        (
            "/home/a/.cache/pipx/5d1b4e2c",
            "",
            "pip\n",
            "pipx install --force 'bridgehead[bus]'",
        ),
        (
            "/venv",
            "file:///src/bridgehead",
            "pip\n",
            "pip install '/src/bridgehead[bus]'",
        ),
        (
            "/venv",
            "file:///src/bridgehead",
            "uv",
            "uv pip install '/src/bridgehead[bus]'",
        ),
        (
            "/venv",
            "https://example.com/bridgehead.whl",
            None,
            "pip install 'bridgehead[bus]'",
        ),
    ],
)
def test_the_install_line_is_that_of_the_installer(
    monkeypatch: pytest.MonkeyPatch,
    prefix: str,
    url: str,
    installer: str | None,
    line: str,
) -> None:
    files = {
        "direct_url.json": json.dumps({"url": url}) if url else None,
        "INSTALLER": installer,
    }
    told = SimpleNamespace(read_text=files.__getitem__)
    monkeypatch.setattr("sys.prefix", prefix)
    monkeypatch.setattr("importlib.metadata.distribution", lambda _: told)
    assert (
        for_this_installation("install it: pip install 'bridgehead[bus]'")
        == f"install it: {line}"
    )
    assert for_this_installation("npm install -g codex") == "npm install -g codex"


@pytest.mark.parametrize("place", [".", "/"])
def test_template_list_needs_no_name(user: Machine, place: str) -> None:
    done = user.run("template", "list", place)
    assert (done.code, done.out) == (0, "no packages\n")


@pytest.mark.parametrize(
    ("shell", "registers"),
    [
        ("bash", "complete -o nosort -F _bridgehead_completion bridgehead bh\n"),
        ("zsh", "compdef _bridgehead_completion bridgehead bh"),
        ("fish", "complete --no-files --command bridgehead --command bh --arguments"),
        ("fish", 'string split --max 1 "," $completion'),
    ],
)
def test_completion_scripts_serve_both_names_of_the_command(
    user: Machine, shell: str, registers: str
) -> None:
    script = user.run("completion", shell).out

    assert "_BRIDGEHEAD_COMPLETE" in script and registers in script


def test_commands_complete(user: Machine) -> None:
    done = user.run(
        _BRIDGEHEAD_COMPLETE="bash_complete",
        COMP_WORDS="bridgehead pen",
        COMP_CWORD="1",
    )

    assert done.out.splitlines() == ["plain,pending"]


@pytest.mark.parametrize(
    "arguments", [["events"], ["pending"], ["doctor"], ["config", "show"]]
)
def test_piped_output_has_no_colour(user: Machine, arguments: list[str]) -> None:
    assert "\x1b" not in user.run(*arguments).out


@pytest.mark.parametrize(
    ("line", "code", "complaint"),
    [
        (
            'mkdir gone && cd gone && rmdir "$PWD" && bridgehead domains',
            1,
            "directory no longer exists",
        ),
        (
            "bridgehead domains > /dev/full",
            2,
            "writing failed: No space left on device",
        ),
        (
            "bridgehead --version > /dev/full",
            2,
            "writing failed: No space left on device",
        ),
        ("bridgehead nothing 2> /dev/full", 1, ""),
        ("bridgehead domains >&-", 0, ""),
        ("bridgehead nothing 2>&-", 1, ""),
        ("bridgehead answer q-1 - <&-", 1, "no pending item 'q-1'"),
        ("bridgehead config trust $(printf 'a%.0s' {1..300})", 2, "File name too long"),
        (
            "BRIDGEHEAD_STORE_URL='~nobody-here/x.db' bridgehead events",
            1,
            "home directory is unknown",
        ),
    ],
)
def test_a_lost_directory_or_stream_ends_in_a_sentence(
    user: Machine, line: str, code: int, complaint: str
) -> None:
    done = user.shell(line)

    assert (done.code, done.out) == (code, "")
    assert (
        complaint in done.err
        and "internal error" not in done.err
        and "Exception" not in done.err
    )


def test_a_file_that_cannot_be_written_is_named(user: Machine) -> None:
    raising = "def work(): raise OSError(5, 'Input/output error', '/some/posting.json')"
    guarded = "from bridgehead.cli.running import run_guarded; run_guarded(work, program='x', debug=False)"

    done = user.run("-c", f"{raising}\n{guarded}", program="python")

    assert done.code == 2 and "/some/posting.json: Input/output error" in done.err


def test_a_signal_while_python_ends_is_silent(user: Machine) -> None:
    late = "import atexit, os, signal; atexit.register(os.kill, os.getpid(), signal.SIGINT)"
    ending = "from bridgehead.cli.running import run_guarded; run_guarded(lambda: 0, program='x', debug=False)"

    done = user.run("-c", f"{late}; {ending}", program="python")

    assert (done.code, done.out, done.err) == (-signal.SIGINT, "", "")


def test_output_is_utf_8_in_every_locale_and_odd_bytes_are_escaped(
    user: Machine,
) -> None:
    done = user.shell(
        "mkdir -p $'odd\\xff/.git' && cd $'odd\\xff' && bridgehead config show --json",
        PYTHONIOENCODING="ascii",
    )

    assert done.json["files"]["project"].endswith("/odd\udcff/bridgehead.toml")
    assert "–" in user.run("config", "show", PYTHONIOENCODING="ascii").out


def test_debug_shows_the_traceback_that_is_otherwise_hidden(user: Machine) -> None:
    (user.project / "bridgehead.toml").write_text("[store", encoding="utf-8")

    quiet, loud = user.run("events"), user.run("events", "--debug")

    assert "Traceback" not in quiet.err and "not valid TOML" in quiet.err
    assert "Traceback" in loud.err
    assert quiet.code == loud.code == 1


def test_config_show_names_the_origin_of_a_value(user: Machine) -> None:
    done = user.run("config", "show", "--origin", BRIDGEHEAD_STORE_URL="other.db")

    assert "other.db" in done.out and "environment (BRIDGEHEAD_STORE_URL)" in done.out


def test_config_show_keeps_secrets_back(user: Machine) -> None:
    secrets = {
        "BRIDGEHEAD_STORE_URL": "postgresql://ann:p@ss:word@db.example/record",
        "BRIDGEHEAD_BUS_HUB_TOKEN": "p@ss:word",
        "BRIDGEHEAD_BUS_HUB": "ws://hub.example:8181/core",
    }

    for form in ((), ("--json",)):
        shown = user.run("config", "show", *form, **secrets).out
        assert "p@ss" not in shown and "word" not in shown
        assert (
            "postgresql://ann:***@db.example/record" in shown
            and "ws://hub.example:8181/core" in shown
        )


def test_what_an_untrusted_file_chooses_is_ignored_with_a_warning_by_every_command_that_asks(
    user: Machine,
) -> None:
    (user.project / "bridgehead.toml").write_text(
        '[store]\nurl = "p.db"\n', encoding="utf-8"
    )

    for arguments in (
        ["pending"],
        ["events"],
        ["council", "list"],
        ["bus", "participant", "list"],
    ):
        done = user.run(*arguments)
        assert (
            done.code == 0
            and done.err.count("store.url ignored because the file is not trusted") == 1
        )


def test_config_trust_lets_a_project_choose_its_store(user: Machine) -> None:
    (user.project / "bridgehead.toml").write_text(
        '[store]\nurl = "p.db"\n', encoding="utf-8"
    )
    before = user.run("config", "show", "--json").json
    assert before["settings"]["store.url"]["origin"] == "default"
    assert "not trusted" in before["warnings"][0]

    assert user.run("config", "trust").code == 0

    after = user.run("config", "show", "--json").json
    assert after["settings"]["store.url"] == {
        "value": "p.db",
        "origin": "project file",
        "source": str(user.project / "bridgehead.toml"),
    }
    assert user.run("config", "trust", "--remove").code == 0
    assert user.run("config", "trust", "--list").out == "no file is trusted\n"


def leaves(
    command: click.Command, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """Every command that does something, by the words one types."""
    if not isinstance(command, click.Group):
        yield path
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from leaves(inner, (*path, name))


def test_every_command_is_run_by_a_test() -> None:
    """Hazard 39: a command that nobody runs may do nothing. The words stand in a test, or in a document that is run."""
    repository = Path(__file__).resolve().parents[2]
    tests = [
        path.read_text(encoding="utf-8")
        for path in (repository / "tests").rglob("*.py")
    ]
    documents = [
        path.read_text(encoding="utf-8")
        for path in (repository / "docs" / "guides").glob("*.md")
    ]
    written = "\n".join([*tests, *documents])

    def is_run(path: tuple[str, ...]) -> bool:
        words = [
            r'",\s*"'.join(map(re.escape, path)),
            r"bridgehead " + r"\s+".join(map(re.escape, path)),
        ]
        if path[0] == "rig":  # also under its other name
            words.append(
                rf'(?:\brig|\breference|OURS\),) ?\(?\s*"{re.escape(path[-1])}"'
            )
        if (
            path[0] == "council"
        ):  # the verbs of a council, one parameter of one operation
            words.append(rf'verb="{re.escape(path[-1])}"')
        return any(re.search(word, written) for word in words)

    # council/cli/test_read_only.py and setup/test_setup_command.py go through all of them
    by_parameter = {("council", verb) for verb in VERBS} | {
        ("setup", host) for host in HOSTS
    }
    assert [
        path
        for path in leaves(bridgehead)
        if not is_run(path) and path not in by_parameter
    ] == []
