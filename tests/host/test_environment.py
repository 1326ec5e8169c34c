"""A child program sees an allow-list, the runtime's own settings and nothing else."""

from __future__ import annotations

import pytest

from bridgehead.host.command import child_environment

PARENT = {
    "HOME": "/home/ada",
    "PATH": "/bin",
    "LANG": "de_DE.UTF-8",
    "TMPDIR": "/var/tmp",
    "TERM": "xterm-256color",
    "HTTPS_PROXY": "http://proxy:3128",
    "no_proxy": "localhost",
    "SSL_CERT_FILE": "/etc/ca.pem",
    "NODE_EXTRA_CA_CERTS": "/etc/extra.pem",
    "XDG_CONFIG_HOME": "/home/ada/.config",
    "XDG_RUNTIME_DIR": "/run/user/1000",
    "XDG_SESSION_ID": "3",
    "CODEX_HOME": "/home/ada/.codex",
    "ANTHROPIC_API_KEY": "parent's",
    "OPENAI_API_KEY": "parent's",
    "AWS_SECRET_ACCESS_KEY": "parent's",
    "GITHUB_TOKEN": "parent's",
    "CLAUDECODE": "1",
    "CLAUDE_CODE_ENTRYPOINT": "cli",
    "LD_PRELOAD": "/tmp/evil.so",
    "NODE_OPTIONS": "--require /tmp/evil.js",
    "SSH_AUTH_SOCK": "/tmp/agent",
    "HOME_EXTRA": "x",
}


def test_only_the_allow_list_is_inherited_and_the_terminal_is_dumb() -> None:
    assert child_environment({}, base=PARENT) == {
        "HOME": "/home/ada",
        "PATH": "/bin",
        "LANG": "de_DE.UTF-8",
        "TMPDIR": "/var/tmp",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "HTTPS_PROXY": "http://proxy:3128",
        "no_proxy": "localhost",
        "SSL_CERT_FILE": "/etc/ca.pem",
        "NODE_EXTRA_CA_CERTS": "/etc/extra.pem",
        "XDG_CONFIG_HOME": "/home/ada/.config",
        "CODEX_HOME": "/home/ada/.codex",
    }


def test_the_key_of_this_runtime_comes_in_and_those_of_others_stay_out() -> None:
    environment = child_environment({"ANTHROPIC_API_KEY": "ours"}, base=PARENT)
    assert environment["ANTHROPIC_API_KEY"] == "ours"
    assert not {"OPENAI_API_KEY", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY"} & set(
        environment
    )


def test_what_the_settings_list_is_passed_on_if_it_is_set() -> None:
    environment = child_environment(
        {}, keep=iter(["SSH_AUTH_SOCK", "NOT_SET"]), base=PARENT
    )
    assert environment["SSH_AUTH_SOCK"] == "/tmp/agent"
    assert "NOT_SET" not in environment


def test_what_is_given_wins_over_what_is_inherited_or_fixed() -> None:
    environment = child_environment(
        {"HOME": "/scratch", "TERM": "vt100"}, keep=["TERM"], base=PARENT
    )
    assert (environment["HOME"], environment["TERM"]) == ("/scratch", "vt100")


def test_our_own_environment_is_the_default_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("STRIPE_KEY", "ours")
    environment = child_environment({})
    assert environment["LANG"] == "C.UTF-8"
    assert "STRIPE_KEY" not in environment
