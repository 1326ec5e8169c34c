"""`bridgehead setup` through the installed command: shown first, written once, taken back."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from bridgehead.setup.hosts import Reach, Whereabouts, edits_for
from bridgehead.setup.planning import LeftAlone, Notes, plan_setup
from bridgehead.setup.server_entry import Launch
from support.installed import SCRIPTS, Done, Machine

HOSTS = ("claude", "codex", "gemini", "opencode", "cursor", "vscode", "zed", "copilot")
MINE = {
    ".claude.json": '{"numStartups": 3, "projects": {"/x": {"allowedTools": []}}}',
    ".codex/config.toml": '# mine\nmodel = "gpt-5.5"\n',
    ".gemini/settings.json": '{\n\t"ui": {"theme": "x"} // mine\n}\n',
    ".config/opencode/opencode.jsonc": '{ /* mine */ "model": "a/b" }\n',
    ".cursor/mcp.json": '{"mcpServers": {"other": {"command": "other"}}}',
    ".config/Code/User/mcp.json": '{\n\t// mine\n\t"servers": {},\n\t"inputs": []\n}\n',
    ".config/zed/settings.json": '// Zed settings\n{\n  "theme": "One Dark",\n}\n',
    ".copilot/mcp-config.json": '{"mcpServers": {}}\n',
    ".gemini/GEMINI.md": "# Always answer in French\n",
}


@pytest.fixture
def user(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path / "home", tmp_path / "project")
    machine.home.mkdir()
    machine.project.mkdir()
    subprocess.run(
        ["git", "init", "-q"], cwd=machine.project, env=machine.environ(), check=True
    )
    for name, text in MINE.items():
        path = machine.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return machine


def files(root: Path) -> dict[str, bytes]:
    kept = (
        path
        for path in root.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(root).parts
    )
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in kept
        if path.name != "setup.json"
    }


def test_every_host_is_set_up_beside_what_was_there_and_restored_to_the_byte(
    user: Machine,
) -> None:
    before = files(user.home)

    shown = user.run("setup", "gemini", "--dry-run")
    assert files(user.home) == before, "a dry run writes nothing"
    refused = user.run("setup", "gemini")
    assert (refused.code, files(user.home)) == (1, before), "nobody agreed"
    (user.home / ".gemini" / "settings.json").write_text("{")
    damaged = user.run("setup", "gemini", "--yes", "--json")
    assert (damaged.code, damaged.out) == (1, ""), "an error leaves stdout empty"
    (user.home / ".gemini" / "settings.json").write_bytes(
        before[".gemini/settings.json"]
    )
    done = [user.run("setup", host, "--yes", "--json") for host in HOSTS]
    again = user.run("setup", "opencode", "--yes", "--json")
    after = files(user.home)
    undone = [user.run("setup", host, "--undo", "--yes") for host in HOSTS]

    assert (shown.code, refused.out) == (0, "")
    assert shown.out in refused.err, "the same diff, as conversation"
    assert any(
        line.startswith("+") and '"bridgehead": {' in line
        for line in shown.out.splitlines()
    )
    assert '\n+\t"ui": {"theme": "x"}, // mine\n' in shown.out, (
        "a comment stays with what it is about"
    )
    assert [one.code for one in (*done, again, *undone)] == [0] * 17, [
        one.err for one in (*done, *undone)
    ]
    assert all(one.json["written"] for one in done)
    assert not again.json["written"]
    assert b"# mine" in after[".codex/config.toml"]
    assert b"in French" in after[".gemini/GEMINI.md"]
    assert b"input_required" in after[".gemini/GEMINI.md"]
    assert ".claude/skills/bridgehead/SKILL.md" in after
    assert files(user.home) == before
    assert not (user.home / ".claude").exists(), "directories made for it are gone"


@pytest.mark.parametrize(
    ("host", "name", "path", "entry"),
    [
        (
            "cursor",
            ".cursor/mcp.json",
            "mcpServers",
            {"command": "bridgehead", "args": ["mcp"]},
        ),
        (
            "vscode",
            ".vscode/mcp.json",
            "servers",
            {"type": "stdio", "command": "bridgehead", "args": ["mcp"]},
        ),
        (
            "zed",
            ".zed/settings.json",
            "context_servers",
            {"command": "bridgehead", "args": ["mcp"]},
        ),
        (
            "copilot",
            ".github/mcp.json",
            "mcpServers",
            {"type": "stdio", "command": "bridgehead", "args": ["mcp"], "tools": ["*"]},
        ),
    ],
)
def test_a_project_s_entry_is_as_the_editor_documents_it(
    tmp_path: Path, host: str, name: str, path: str, entry: dict[str, object]
) -> None:
    where = Whereabouts(tmp_path / "home", tmp_path, {})

    settings, instructions = plan_setup(
        edits_for(host, Reach.PROJECT, where, Launch("bridgehead")),
        Notes(tmp_path / "notes"),
    )

    assert (
        settings.path == tmp_path / name and instructions.path == tmp_path / "AGENTS.md"
    )
    assert json.loads(settings.new or "") == {path: {"bridgehead": entry}}


@pytest.mark.parametrize(
    ("host", "variable", "place"),
    [
        ("zed", "XDG_CONFIG_HOME", "moved/zed/settings.json"),
        ("opencode", "XDG_CONFIG_HOME", "moved/opencode/opencode.json"),
        ("copilot", "COPILOT_HOME", "moved/mcp-config.json"),
        ("codex", "CODEX_HOME", "moved/config.toml"),
        ("claude", "CLAUDE_CONFIG_DIR", "moved/.claude.json"),
    ],
)
def test_a_folder_that_was_moved_is_found(
    tmp_path: Path, host: str, variable: str, place: str
) -> None:
    where = Whereabouts(
        tmp_path / "home", tmp_path, {variable: str(tmp_path / "moved")}
    )

    assert (
        edits_for(host, Reach.USER, where, Launch("bridgehead"))[0].path
        == tmp_path / place
    )


def test_a_key_beside_the_change_is_not_shown(user: Machine) -> None:
    secret = "ghp_" + "q7Zr2Lm9Xv4Ks8Tn1Bw6" + "Yc3Hd5Jf0PaGeUiO"
    settings = user.home / ".codex" / "config.toml"
    settings.write_text(f'model = "x"\n[mcp_servers.other.env]\nTOKEN = "{secret}"\n')

    shown = user.run("setup", "codex", "--dry-run")

    assert shown.code == 0, shown.err
    assert secret not in shown.out
    assert "+[mcp_servers.bridgehead]" in shown.out


def test_what_the_user_edits_afterwards_survives_the_way_back(user: Machine) -> None:
    user.run("setup", "claude", "--yes")
    path = user.home / ".claude.json"
    path.write_text(path.read_text().replace('"numStartups": 3', '"numStartups": 4'))

    undone = user.run("setup", "claude", "--undo", "--yes")

    assert undone.code == 0, undone.err
    assert path.read_text() == MINE[".claude.json"].replace("3", "4", 1)


@pytest.mark.parametrize(
    ("host", "name", "text", "says"),
    [
        ("claude", ".claude.json", '{"mcpServers": ', "line 1"),
        (
            "claude",
            ".claude/skills/bridgehead/SKILL.md",
            "mine",
            "not written by bridgehead",
        ),
        ("codex", ".codex/config.toml", "model = \n", "line 1"),
        (
            "gemini",
            ".gemini/GEMINI.md",
            "<!-- bridgehead: begin -->\n",
            "must appear once each",
        ),
        ("opencode", ".config/opencode/opencode.jsonc", "\udcff", "not UTF-8"),
    ],
)
def test_a_damaged_file_stops_everything_before_anything_is_written(
    user: Machine, host: str, name: str, text: str, says: str
) -> None:
    path = user.home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    where = Whereabouts(user.home, user.project, {})
    edits = edits_for(host, Reach.USER, where, Launch("bridgehead"))

    with pytest.raises(LeftAlone) as refused:
        plan_setup(edits, Notes(user.home / "notes"))

    assert refused.value.message.startswith(f"{path} was not changed")
    assert says in refused.value.message


def test_a_project_is_set_up_portably_and_the_shared_file_stays_while_a_host_uses_it(
    user: Machine,
) -> None:
    for host in ("codex", "opencode"):
        assert user.run("setup", host, "--project", "--yes").code == 0
    both = files(user.project)
    user.run("setup", "codex", "--project", "--undo", "--yes")
    one = files(user.project)
    user.run("setup", "opencode", "--project", "--undo", "--yes")

    assert json.loads(both["opencode.json"])["mcp"]["bridgehead"]["command"] == [
        "bridgehead",
        "mcp",
    ]
    assert str(user.home).encode() not in b"".join(both.values())
    assert sorted(both) == [".codex/config.toml", "AGENTS.md", "opencode.json"]
    assert sorted(one) == ["AGENTS.md", "opencode.json"]
    assert files(user.project) == {}


def test_a_link_in_a_project_leads_nowhere(user: Machine) -> None:
    (user.project / ".gemini").symlink_to(user.home / ".gemini")
    before = files(user.home)

    refused = user.run("setup", "gemini", "--project", "--yes")

    assert refused.code == 2, refused.err
    assert "symbolic link" in refused.err
    assert files(user.home) == before


# -- the hook


def git(user: Machine, *words: str) -> Done:
    path = f"{SCRIPTS}:{user.environ()['PATH']}"
    done = subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@localhost", *words],
        cwd=user.project,
        env=user.environ(PATH=path),
        capture_output=True,
        text=True,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def test_the_hook_stops_a_push_after_a_refused_verdict_and_keeps_the_hook_that_was_there(
    user: Machine,
) -> None:
    hook = user.project / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ncat > pushed.txt\n")
    hook.chmod(0o744)
    git(user, "init", "-q", "--bare", "../far.git")
    git(user, "remote", "add", "origin", "../far.git")
    (user.project / "store.py").write_text(
        "import pickle\n\n\ndef load(blob):\n    return pickle.loads(blob)\n"
    )
    git(user, "add", "store.py")
    git(user, "commit", "-q", "-m", "start")

    installed = user.run("setup", "git-hook", "--level", "concerns", "--yes")
    again = user.run("setup", "git-hook", "--level", "concerns", "--yes")
    unjudged = git(user, "push", "-q", "origin", "HEAD:refs/heads/one")
    seen = (user.project / "pushed.txt").read_text()
    judged = user.run(
        "council",
        "review",
        "store.py",
        "--runtime",
        "static",
        "--intensity",
        "quick",
        "--json",
    )
    stopped = git(user, "push", "-q", "origin", "HEAD:refs/heads/two")
    undone = user.run("setup", "git-hook", "--undo", "--yes")

    assert (installed.code, again.code, undone.code) == (0, 0, 0), installed.err
    assert "is already set up" in again.err
    assert unjudged.code == 0, "without a report the push goes on"
    assert "refs/heads/one" in seen, "the old hook still reads what git tells it"
    assert judged.json["verdict"] in ("CONCERNS", "FAIL")
    assert stopped.code != 0
    assert "the push was stopped" in stopped.err
    assert hook.read_text() == "#!/bin/sh\ncat > pushed.txt\n"
    assert hook.stat().st_mode & 0o777 == 0o744
    assert not (hook.parent / "pre-push.before-bridgehead").exists()


def test_the_hook_needs_a_repository(user: Machine, tmp_path: Path) -> None:
    elsewhere = Machine(user.home, tmp_path / "elsewhere")
    elsewhere.project.mkdir()

    refused = elsewhere.run("setup", "git-hook", "--yes")

    assert refused.code == 1
    assert "not in a git repository" in refused.err


def test_what_could_not_be_written_is_not_shown_as_if_it_had_been(
    user: Machine,
) -> None:
    (user.home / "bridgehead").touch()  # where the notes for the way back belong

    done = user.run("setup", "claude", "--yes")

    assert (done.code, done.out) == (2, "")
    assert (user.home / ".claude.json").read_text() == MINE[".claude.json"]


@pytest.mark.parametrize(
    ("rules", "enabled", "warned"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"{project}": "TRUST_FOLDER"}, True, False),
        ({"{project}/inside": "TRUST_PARENT"}, True, False),
        ({"/": "TRUST_FOLDER", "{project}": "DO_NOT_TRUST"}, True, True),
    ],
)
def test_a_folder_that_gemini_does_not_trust_is_named(
    user: Machine, rules: dict[str, str], enabled: bool, warned: bool
) -> None:
    folder = user.home / ".gemini"
    folder.mkdir(exist_ok=True)
    (folder / "settings.json").write_text(
        json.dumps({"security": {"folderTrust": {"enabled": enabled}}})
    )
    named = {path.format(project=user.project): rule for path, rule in rules.items()}
    (folder / "trustedFolders.json").write_text(json.dumps(named))

    said = user.run("setup", "gemini", "--yes").err

    assert (f"warning: gemini does not trust {user.project} yet" in said) is warned
    assert "does not trust" not in user.run("setup", "gemini", "--undo", "--yes").err


@pytest.mark.parametrize(("on", "warned"), [(True, True), (False, False)])
def test_a_plugin_that_registers_the_server_already_is_named(
    user: Machine, on: bool, warned: bool
) -> None:
    (user.home / ".claude").mkdir(exist_ok=True)
    (user.home / ".claude" / "settings.json").write_text(
        json.dumps({"enabledPlugins": {"bridgehead@here": on}})
    )

    assert (
        "plugin of Claude Code already registers"
        in user.run("setup", "claude", "--yes").err
    ) is warned
