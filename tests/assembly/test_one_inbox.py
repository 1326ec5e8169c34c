"""The one list of what waits: what belongs together is one thing to do, and no two titles are alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.pending import grouped, pending_list
from bridgehead.contract.pending import Question
from bridgehead.contract.record_words import Part, PendingKind
from bridgehead.control_plane.records import OPEN_ITEMS
from bridgehead.dashboard.page import answer_fields
from bridgehead.doctor.checkup import check_everything


def asked(key: str, **changes: Any) -> Question:
    fields = {
        "kind": PendingKind.FLOW_REQUEST,
        "part": Part.FLOWS,
        "origin": "flow",
        "title": "Which one?",
    }
    return Question(key=key, **{**fields, **changes})


def test_the_seats_of_a_council_are_one_thing_to_do_and_doctor_counts_as_the_page_does(
    tmp_path: Path,
) -> None:
    assembly = Assembly(
        tmp_path, {"BRIDGEHEAD_HOME": str(tmp_path / "home"), "PATH": ""}
    )
    halted = {
        "kind": PendingKind.HALTED_RUNTIME,
        "part": Part.COUNCIL,
        "run_id": "k3v9qa",
    }
    with assembly.store() as store:
        store.open_pending(asked("alone"), "2026-11-15T10:00:00.000Z")
        store.open_pending(
            asked("host", run_id="council-k3v9qa"), "2026-11-15T10:00:01.000Z"
        )
        for second, seat in enumerate(("claude", "codex"), start=2):
            store.open_pending(
                asked(seat, origin=seat, **halted), f"2026-11-15T10:00:0{second}.000Z"
            )
        store.open_pending(
            asked("flow", run_id="flow-1", title="Another?"), "2026-11-15T10:00:09.000Z"
        )
        items = pending_list(assembly, store, lambda _text: None).items(
            OPEN_ITEMS, limit=10
        )

    assert [
        (council, [item.question.key for item in parts])
        for council, parts in grouped(items)
    ] == [
        (None, ["flow"]),
        ("k3v9qa", ["codex", "claude", "host"]),
        (None, ["alone"]),
    ]
    assert [item.question.title for item in items] == [
        "Another?",
        "Which one? (4 of 4)",
        "Which one? (3 of 4)",
        "Which one? (2 of 4)",
        "Which one? (1 of 4)",
    ]
    checkup = check_everything(assembly)
    [waiting] = [one for one in checkup.diagnoses if one.kind == "record.pending"]
    assert waiting.message.startswith("3 waiting")
    with assembly.store() as store:
        [said] = [
            one.event.data
            for one in store.events()
            if one.event.kind == "doctor.checked"
        ]
    assert said == checkup.counts


def test_a_flat_object_has_fields_and_anything_else_has_none() -> None:
    schema = {
        "type": "object",
        "required": ["score"],
        "properties": {
            "score": {"type": "integer", "description": "1 to 10"},
            "kind": {"type": "string", "enum": ["bug", "style"]},
            "urgent": {"type": "boolean"},
        },
    }
    score, kind, urgent = answer_fields(schema)
    assert (score.about, score.required, score.value("7"), score.value("seven")) == (
        "1 to 10",
        True,
        7,
        "seven",
    )
    assert (kind.choices, urgent.choices, urgent.value("yes")) == (
        ("bug", "style"),
        ("yes", "no"),
        True,
    )
    assert (
        answer_fields({"type": "object", "properties": {"inner": {"type": "object"}}})
        == []
    )
    assert answer_fields({"type": "array"}) == answer_fields(None) == []
