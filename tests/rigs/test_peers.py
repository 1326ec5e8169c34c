from __future__ import annotations

import pytest

from bridgehead.rigs.envelope.names import RigId
from bridgehead.rigs.envelope.yaml_core import Value
from bridgehead.rigs.threads.thread import closing_recipient, relay_recipient

OWN = RigId("mac")


def named(sender: Value, to: Value) -> dict[str, Value]:
    return {"from": sender, "to": to}


def test_a_thread_is_closed_towards_the_rig_it_names_most() -> None:
    thread = [named("mac", ["ops", "win"]), named("WIN ", "mac"), named("mac", None)]
    assert closing_recipient(OWN, thread, []) == "win"


def test_ties_go_to_the_lower_id_when_closing_and_to_the_first_seen_when_relaying() -> None:
    thread = [named("win", "ops")]
    assert closing_recipient(OWN, thread, []) == "ops"
    assert relay_recipient(OWN, thread) == "win"


def test_the_repository_is_asked_only_when_the_thread_names_nobody_else() -> None:
    never_read = (pytest.fail("not needed") for _ in range(1))
    assert closing_recipient(OWN, [named("mac", "lab")], never_read) == "lab"
    assert closing_recipient(OWN, [named("mac", "Mac")], [named("ops", "mac"), named("a", "ops")]) == "ops"


def test_a_rig_alone_writes_to_itself() -> None:
    assert closing_recipient(OWN, [], [named("mac", "(set --to recipient when sending)")]) == OWN
    assert relay_recipient(OWN, [named(5, [None, "Bad_Id"])]) == OWN
