"""bridgehead doctor on real and on spoiled machines."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from bridgehead.contract.events import Event
from bridgehead.contract.record_words import Part
from bridgehead.control_plane.stores import open_store
from bridgehead.doctor.diagnosis import Group
from bridgehead.host.confinement import landlock_version
from support.installed import Machine


def fake_program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def kinds(user: Machine, **extra: str) -> dict[str, str]:
    checks = user.run("doctor", "--json", **extra).json["checks"]
    return {check["class"]: check["state"] for check in checks}


def test_every_check_has_a_class_a_state_and_whether_fixing_is_safe(
    user: Machine,
) -> None:
    document = user.run("doctor", "--json").json

    assert document["checks"]
    for check in document["checks"]:
        assert set(check) == {
            "group",
            "class",
            "state",
            "message",
            "safe_to_fix",
            "fix",
            "command",
        }
        assert check["state"] == "fine" or check["fix"]


def test_the_last_line_counts(user: Machine) -> None:
    done = user.run("doctor")

    assert done.out.splitlines()[-1].endswith("broken")
    assert "git 2." in done.out


def test_ai_clis_are_found_on_the_path_with_their_version(
    user: Machine, tmp_path: Path
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    fake_program(tools, "claude", "echo '2.1.197 (Claude Code)'")
    fake_program(tools, "codex", "exit 3")

    path = f"{tools}:{os.environ['PATH']}"
    found = user.run("doctor", "--json", PATH=path).json["checks"]

    messages = {check["class"]: check["message"] for check in found}
    assert messages["claude.found"] == "claude 2.1.197"
    assert "codex.failing" in messages


def test_without_git_something_is_broken_and_doctor_exits_1(
    user: Machine, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()

    done = user.run("doctor", PATH=str(empty))

    assert done.code == 1
    assert "✗ git not found" in done.out


def test_files_open_to_others_are_closed_by_fix(user: Machine) -> None:
    data = user.record.parent
    data.mkdir(parents=True)
    data.chmod(0o755)
    assert kinds(user)["permissions.open"] == "look"

    done = user.run("doctor", "--fix")

    assert f"fixed: {data} is readable by other users" in done.err
    assert data.stat().st_mode & 0o777 == 0o700
    assert "permissions.open" not in kinds(user)


def test_a_trusted_file_that_is_gone_is_forgotten_by_fix(user: Machine) -> None:
    settings = user.project / "bridgehead.toml"
    settings.touch()
    user.run("config", "trust")
    settings.unlink()
    assert kinds(user)["trust.gone"] == "look"

    user.run("doctor", "--fix")

    assert user.run("config", "trust", "--list").out == "no file is trusted\n"


def test_a_trusted_file_that_changed_is_left_to_the_user(user: Machine) -> None:
    settings = user.project / "bridgehead.toml"
    settings.touch()
    user.run("config", "trust")
    settings.write_text('[store]\nurl = "x.db"\n')

    done = user.run("doctor", "--fix", "--json").json

    check = next(check for check in done["checks"] if check["class"] == "trust.changed")
    assert not check["safe_to_fix"] and "config trust" in check["fix"]


def test_a_record_that_cannot_be_used_is_broken(user: Machine) -> None:
    user.record.parent.mkdir(parents=True, mode=0o700)
    user.record.write_text("this is not a database, " * 100)
    user.record.chmod(0o600)

    done = user.run("doctor")

    assert done.code == 1
    assert "✗" in done.out and str(user.record) in done.out


def test_every_part_has_its_lines_and_a_remembered_refusal_is_one_of_them(
    user: Machine, tmp_path: Path
) -> None:
    fake_program(tmp_path, "agy", "exit 1")
    refused = {"bridge": "claude", "reason": "not_authenticated", "error_class": "auth"}
    at = "2026-11-15T10:00:00.000Z"
    with open_store(str(user.record)) as store:
        store.append(
            [
                Event(
                    id="e-1",
                    kind="council.refused",
                    part=Part.COUNCIL,
                    at=at,
                    data=refused,
                )
            ]
        )

    checks = user.run("doctor", "--json", PATH=f"{tmp_path}:{os.environ['PATH']}").json[
        "checks"
    ]

    assert {check["group"] for check in checks} == {str(group) for group in Group}
    messages = {check["class"]: check["message"] for check in checks}
    assert "not logged in" in messages["claude.refused"]
    assert "not verified" in messages["agy.unverified"]


def test_settings_that_cannot_be_read_are_a_finding_and_the_other_checks_go_on(
    user: Machine,
) -> None:
    (user.project / "bridgehead.toml").write_text("[store")

    done = user.run("doctor", "--json")

    assert done.code == 1
    found = {check["class"]: check["state"] for check in done.json["checks"]}
    assert (found["settings.broken"], found["git.found"]) == ("broken", "fine")


def test_a_home_that_is_a_file_is_diagnosed(user: Machine) -> None:
    (user.home / "bridgehead").touch()

    assert kinds(user)["record.unusable"] == "broken"


# Nobody can say in one command how a system installs a program, or how a broken disk is mended.
WITHOUT_A_COMMAND = {
    "confinement.missing",
    "git.missing",
    "git.old",
    "node.missing",
    "node.old",
    "ssh_keygen.missing",
    "record.unusable",
}


def spoil(user: Machine, tools: Path) -> None:
    """A machine with everything wrong that can be wrong at once."""
    user.run("doctor")
    user.record.chmod(0o644)
    settings = user.project / "bridgehead.toml"
    settings.write_text('[store]\nurl = "sqlite:///elsewhere.db"\n')
    changed, gone = user.project / "changed.toml", user.project / "gone.toml"
    for path in (changed, gone):
        path.write_text("[council]\n")
        assert user.run("config", "trust", str(path)).code == 0
    changed.write_text("[council]\nx = 1\n")
    gone.unlink()
    assert (
        user.run(
            "flow", "run", "ask", "--agent", "manager", "--prompt", "Ship it?"
        ).code
        == 42
    )
    refused = {"bridge": "codex", "reason": "cli_error: quota", "error_class": "quota"}
    event = Event(
        id="e1",
        kind="council.refused",
        part=Part.COUNCIL,
        at="2026-11-15T10:00:00.000Z",
        data=refused,
    )
    with open_store(str(user.record)) as store:
        store.append([event])
    tools.mkdir()
    fake_program(tools, "codex", "exit 3")
    fake_program(tools, "claude", "echo '2.1.197 (Claude Code)'")
    fake_program(tools, "agy", "echo 1.0")


def test_each_diagnosis_says_its_class_whether_fixing_is_safe_and_the_exact_command(
    user: Machine, tmp_path: Path
) -> None:
    tools = tmp_path / "tools"
    spoil(user, tools)
    path = f"{tools}:{os.environ['PATH']}"

    checks = user.run("doctor", "--json", PATH=path).json["checks"]

    wrong = {check["class"]: check for check in checks if check["state"] != "fine"}
    assert {
        "permissions.open",
        "trust.gone",
        "trust.changed",
        "settings.untrusted",
    } <= set(wrong)
    assert {
        "codex.refused",
        "codex.failing",
        "flows.unfinished",
        "record.pending",
        "agy.unverified",
    } <= set(wrong)
    assert {
        name for name, check in wrong.items() if check["command"] is None
    } <= WITHOUT_A_COMMAND
    assert {name for name, check in wrong.items() if check["safe_to_fix"]} == {
        "permissions.open",
        "trust.gone",
    }
    for name, check in wrong.items():
        if check["command"] and check["command"].startswith("bridgehead "):
            words = shlex.split(check["command"])[1:]
            helped = user.run(*words, "--help")
            assert helped.code == 0 and "Usage:" in helped.out, (
                f"{name}: {check['command']}"
            )


def test_the_command_of_a_diagnosis_ends_it_and_fix_does_what_is_safe_and_no_more(
    user: Machine, tmp_path: Path
) -> None:
    tools = tmp_path / "tools"
    spoil(user, tools)
    path = f"{tools}:{os.environ['PATH']}"
    before = {
        check["class"]: check
        for check in user.run("doctor", "--json", PATH=path).json["checks"]
    }

    user.run("doctor", "--fix", PATH=path)
    after = kinds(user, PATH=path)

    safe = {name for name, check in before.items() if check["safe_to_fix"]}
    assert safe and not safe & set(after)
    others = {name for name, check in before.items() if check["state"] != "fine"} - safe
    assert others <= set(after), "what is not safe to do unasked is left to the user"
    done = user.shell(before["trust.changed"]["command"])
    assert done.code == 0, done.err
    assert "trust.changed" not in kinds(user, PATH=path)


def test_doctor_says_what_keeps_ai_programs_to_their_copy(
    user: Machine, tmp_path: Path
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    fake_program(tools, "claude", "echo '2.1.197 (Claude Code)'")

    found = user.run("doctor", "--json", PATH=f"{tools}:{os.environ['PATH']}").json[
        "checks"
    ]

    said = {check["class"]: check["message"] for check in found}
    if landlock_version():
        assert "claude (landlock)" in said["confinement.held"]
    else:
        assert "claude" in said.get("confinement.missing", "") + said.get(
            "confinement.held", ""
        )


def test_settings_of_runtimes_that_are_broken_or_not_trusted_are_named(
    user: Machine,
) -> None:
    seats = user.project / ".bridge-settings.json"

    def told() -> dict[str, str]:
        found = user.run("doctor", "--json").json["checks"]
        return {
            one["class"]: one["message"]
            for one in found
            if one["class"].startswith("seats.")
        }

    assert told() == {}
    seats.write_text("{broken")
    assert "invalid json" in told()["seats.broken"]
    seats.write_text(
        '{"bridges": {"acp:goose": {"acp": "goose acp"}, "codex": {"model": "x", "bogus": 1}}}'
    )
    said = told()
    assert "unknown key codex.bogus" in said["seats.broken"]
    assert "codex.model, acp:goose" in said["seats.untrusted"]
    assert user.run("config", "trust", str(seats)).code == 0
    assert set(told()) == {"seats.broken"}
