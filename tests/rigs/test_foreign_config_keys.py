"""Keys of .bridge/config.yaml that are somebody else's survive our changes to the file (rigs §2)."""

from __future__ import annotations

from bridgehead.rigs.config import read_values, write_config


def test_nested_values_and_odd_keys_of_others_are_kept() -> None:
    values = read_values(b'rig_id: mac\nfoo:\n  a: [1, {b: "x: y"}]\n"a: b": [yes, []]\nnull: 1\n')
    kept = read_values(write_config({**values, "allowed_signers": "s"}).encode())
    assert kept == {**values, "allowed_signers": "s"}
