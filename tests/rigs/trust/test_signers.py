"""The file of signers is edited line by line; what we did not write stays as it was."""

from __future__ import annotations

import subprocess

import pytest

from bridgehead.errors import NotFound, UserError
from bridgehead.rigs.trust.membership import Pin
from bridgehead.rigs.trust.signers import (
    KeyInvalid,
    parse_public_key,
    signers,
    with_signer,
    without_signer,
)

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKt0"
OTHER = "sk-ssh-ed25519@openssh.com AAAAGnNr comment with blanks"
FILE = f"""\
# people we trust

alice@example.com namespaces="git" {KEY} alice's laptop
bob@example.com,*@ops.example.com {OTHER}
carol@example.com cert-authority,valid-before="20300101" {KEY}
not a line that makes sense
"""


def test_every_signer_of_the_file_is_read():
    assert [
        (s.principals, s.options, s.key.key_type, s.key.comment) for s in signers(FILE)
    ] == [
        ("alice@example.com", 'namespaces="git"', "ssh-ed25519", "alice's laptop"),
        (
            "bob@example.com,*@ops.example.com",
            "",
            "sk-ssh-ed25519@openssh.com",
            "comment with blanks",
        ),
        (
            "carol@example.com",
            'cert-authority,valid-before="20300101"',
            "ssh-ed25519",
            "",
        ),
    ]


def test_a_commented_signer_is_none():
    assert (
        list(
            signers(
                f"#eve@example.com {KEY}\n  # eve@example.com {KEY}\n# {KEY} eve@example.com\n"
            )
        )
        == []
    )


def test_a_private_key_is_called_one():
    with pytest.raises(KeyInvalid, match="it is a private key"):
        parse_public_key(
            "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----"
        )


def test_a_signer_is_appended_and_nothing_else_changes():
    key = parse_public_key(f"{OTHER}\n")
    assert (
        with_signer(FILE, "dora@example.com", key)
        == f'{FILE}dora@example.com namespaces="git" {OTHER}\n'
    )
    assert with_signer("", "d@x", key) == f'd@x namespaces="git" {OTHER}\n'
    assert (
        with_signer("# no line end", "d@x", key)
        == f'# no line end\nd@x namespaces="git" {OTHER}\n'
    )


def test_the_same_key_is_not_added_twice_but_a_second_key_is():
    with pytest.raises(UserError, match=r"alice@example\.com"):
        with_signer(FILE, "alice@example.com", parse_public_key(KEY))
    assert (
        with_signer(FILE, "alice@example.com", parse_public_key(OTHER)).count(
            "alice@example.com"
        )
        == 2
    )


def test_a_signer_is_removed_with_all_keys_and_others_on_the_line_stay():
    without_alice = without_signer(FILE, "alice@example.com")
    assert without_alice == FILE.replace(
        f'alice@example.com namespaces="git" {KEY} alice\'s laptop\n', ""
    )
    assert "\n*@ops.example.com " in without_signer(FILE, "bob@example.com")
    with pytest.raises(NotFound, match="nobody"):
        without_signer(FILE, "nobody")


@pytest.mark.parametrize(
    "typed", ["", "two words", 'quo"te', "a,b", "#hash", "new\nline", ",", "tab\t"]
)
def test_a_name_the_file_cannot_hold_is_refused(typed):
    with pytest.raises(UserError, match="is not a valid principal"):
        with_signer("", typed, parse_public_key(KEY))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "AAAA",
        "ssh-ed25519",
        "ssh-ed25519 not/base64?",
        f"{KEY}\n{KEY}",
        'command="x" ssh-ed25519 AAAA',
        "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----",
    ],
)
def test_what_is_not_one_public_key_is_refused_and_never_echoed(text):
    with pytest.raises(KeyInvalid) as refused:
        parse_public_key(text)
    assert isinstance(refused.value, UserError)
    assert "AAAA" not in str(refused.value)


@pytest.mark.parametrize(
    ("principals", "email", "expected"),
    [
        ("a@x", "a@x", True),
        ("a@x", "A@x", False),
        ("a@x,b@x", "b@x", True),
        ("*@x", "anyone@x", True),
        ("*@x,!eve@x", "eve@x", False),
        ("?@x", "a@x", True),
        ("?@x", "ab@x", False),
        ("[ab]@x", "a@x", False),
        ("", "a@x", False),
    ],
)
def test_principals_are_patterns_as_openssh_reads_them(principals, email, expected):
    assert Pin("SHA256:x", tuple(principals.split(","))).covers(email) is expected


def test_what_we_write_is_what_ssh_keygen_accepts(make_key, tmp_path):
    public = make_key("alice")
    file = tmp_path / "signers"
    file.write_text(
        with_signer(
            "# first\n", "alice@example.com", parse_public_key(public.read_text())
        )
    )
    message = tmp_path / "m"
    message.write_text("hello")
    private = public.with_suffix("")
    subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-f", private, "-n", "git", message],
        check=True,
        capture_output=True,
    )
    verified = subprocess.run(
        [
            "ssh-keygen",
            "-Y",
            "verify",
            "-f",
            file,
            "-I",
            "alice@example.com",
            "-n",
            "git",
            "-s",
            f"{message}.sig",
        ],
        input=b"hello",
        capture_output=True,
        check=False,
    )
    assert verified.returncode == 0, verified.stderr
