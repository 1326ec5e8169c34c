"""Keys of .bridge/config.yaml that are somebody else's survive our changes to the file (rigs §2)."""

from __future__ import annotations

import pytest

from bridgehead.errors import ConfigError
from bridgehead.rigs.config import (
    RigConfig,
    new_config,
    parse_config,
    read_values,
    write_config,
)
from bridgehead.rigs.envelope.names import RigId


def test_nested_values_and_odd_keys_of_others_are_kept() -> None:
    values = read_values(
        b'rig_id: mac\nfoo:\n  a: [1, {b: "x: y"}]\n"a: b": [yes, []]\nnull: 1\n'
    )
    kept = read_values(write_config({**values, "allowed_signers": "s"}).encode())
    assert kept == {**values, "allowed_signers": "s"}


def test_the_three_keys_of_the_reference_are_read():
    config = parse_config(
        b"rig_id: mac-m5max\ndisplay_name: Mac Claude\ndefault_thread: null\n"
    )
    assert config == RigConfig(RigId("mac-m5max"), "Mac Claude")


@pytest.mark.parametrize(
    "text",
    [
        "rig_id: r1\r\ndisplay_name: x\r\n",
        "rig_id: r1\rdisplay_name: x\r",
        "\ufeffrig_id: r1\ndisplay_name: x",
        "# who we are\nrig_id: 'r1'   # short\n\ndisplay_name: \"x\"\n",
        "{rig_id: r1, display_name: x}\n",
    ],
)
def test_line_ends_comments_and_other_yaml_do_not_matter(text):
    assert parse_config(text.encode()) == RigConfig(RigId("r1"), "x")


def test_our_own_keys_are_read_and_unknown_ones_ignored():
    text = """\
rig_id: r1
auto_references: true
allowed_signers: .bridge/allowed_signers
control_plane: true
branch: wire
remote: hub
freeze_minutes: 2.5
somebody_elses: [1, 2]
"""
    config = parse_config(text.encode())
    assert config == RigConfig(
        RigId("r1"),
        auto_references=True,
        allowed_signers=".bridge/allowed_signers",
        control_plane=True,
        branch="wire",
        remote="hub",
        freeze_minutes=2.5,
    )


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("", "must be a YAML mapping"),
        ("- a\n", "must be a YAML mapping"),
        ("just text\n", "must be a YAML mapping"),
        ("rig_id: [\n", "not valid YAML"),
        ("rig_id: a\nrig_id: b\n", "not valid YAML"),
        ("display_name: x\n", "rig_id is required and must be a string"),
        ("rig_id: 12\n", "rig_id is required and must be a string"),
        (
            "rig_id: Mac-M5\n",
            'is not a canonical kebab-case slug. Did you mean "mac-m5"?',
        ),
        ("rig_id: 5_x\n", "is not a canonical kebab-case slug"),
        ("rig_id: r1\ndisplay_name: 7\n", "display_name must be a string"),
        ("rig_id: r1\ndisplay_name:\n", "display_name must be a string"),
        (f"rig_id: r1\ndisplay_name: {'n' * 81}\n", "exceeds 80-char cap"),
        ("rig_id: r1\ndefault_thread: 7\n", "default_thread must be a string or null"),
        ("rig_id: r1\nauto_references: yes\n", "auto_references must be true or false"),
        (
            "rig_id: r1\nallowed_signers: 7\n",
            "allowed_signers must be a string or null",
        ),
        ("rig_id: r1\ncontrol_plane: 7\n", "control_plane must be a path or true"),
        ("rig_id: r1\nfreeze_minutes: 0\n", "freeze_minutes must be a positive number"),
        (
            "rig_id: r1\nfreeze_minutes: true\n",
            "freeze_minutes must be a positive number",
        ),
        (
            "rig_id: r1\nfreeze_minutes: soon\n",
            "freeze_minutes must be a positive number",
        ),
    ],
)
def test_what_cannot_be_used_is_named(text, fragment):
    with pytest.raises(ConfigError) as refused:
        parse_config(text.encode())
    assert fragment in str(refused.value)
    assert refused.value.exit_code == 1


def test_written_values_keep_the_order_and_the_keys_of_others():
    values = read_values(b"extra: 1\ndisplay_name: old\nrig_id: r1\n")
    text = write_config({**values, "allowed_signers": "x", "display_name": "yes: no"})
    assert text == 'rig_id: r1\ndisplay_name: "yes: no"\nextra: 1\nallowed_signers: x\n'
    assert parse_config(text.encode()).display_name == "yes: no"


def test_a_display_name_beyond_the_cap_is_refused_before_it_is_written():
    with pytest.raises(ConfigError, match="exceeds 80-char cap"):
        new_config(RigId("r1"), "n" * 81)
    assert (
        write_config(new_config(RigId("r1"), "n" * 80))
        == f"rig_id: r1\ndisplay_name: {'n' * 80}\n"
    )
