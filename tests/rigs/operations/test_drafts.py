"""Envelopes before they are sent: what each command puts into them."""

from __future__ import annotations

import re

import pytest

from bridgehead.errors import UserError
from bridgehead.rigs.envelope.envelope import Envelope, parse_envelope
from bridgehead.rigs.envelope.fields import StatusClass
from bridgehead.rigs.operations.drafts import (
    close_subject,
    draft_close,
    draft_relay,
    draft_scaffold,
    draft_send,
    edited_scaffold_body,
    is_scaffold,
    parse_outcome,
    relay_subject,
    send_subject,
)
from bridgehead.rigs.rig import Author
from bridgehead.rigs.trust.attestation import Attestation
from bridgehead.rigs.trust.envelope_problems import check_envelope

MAC = Author("mac-m5max")
MIKE = Author("mike-relay", "ignored: the operator's name is written")
DAY = "2026-05-15"
PARENT = "4ec6442b6e50b35af47b83dfea98b028fa1ce872387924da7b127d33ac817ae2"
ATTESTATION = Attestation(
    "SHA256:key", "2026-05-16T10:30:00.123Z", "01KRNJ0NG0-0000000000"
)


def test_a_message_with_nothing_but_its_address() -> None:
    draft = draft_send(MAC, "REQUEST", "demo-01", ["windows-5080"], DAY)
    assert draft.text == (
        "---\nfrom: mac-m5max\nto: windows-5080\ndate: 2026-05-15\nstatus: ▶ REQUEST sent\ntype: REQUEST\n"
        f"thread: demo-01\nbody_hash: {PARENT}\n---\n"
        "# demo-01 — REQUEST\n\n(body authored on mac-m5max)\n\nStanding by.\n"
    )
    assert draft.body_hash == PARENT


def test_a_message_with_everything() -> None:
    draft = draft_send(
        Author("mac-m5max", "Mac Claude"),
        "HANDOFF",
        "demo-01",
        ["windows-5080", "mike-relay", "windows-5080"],
        DAY,
        status="✅ Done: all # ok",
        tldr="first contact",
        references=["a1b2c3d", "1234567"],
        body="\ufeff\ufeff# Hi  \r\n\r\nbody\t\r\n\r\n",
    )
    assert draft.text == (
        "---\nfrom: mac-m5max\nto:\n  - windows-5080\n  - mike-relay\n  - windows-5080\ndate: 2026-05-15\n"
        'status: "✅ Done: all # ok"\ntype: HANDOFF\nthread: demo-01\ndisplay_name: Mac Claude\n'
        'tldr: first contact\nreferences:\n  - a1b2c3d\n  - "1234567"\n'
        "body_hash: e866f86219e66d033ec2142497b4e76e47a554272f5baf985cd61f7c98a7cc0a\n---\n# Hi\n\nbody\n"
    )


@pytest.mark.parametrize(
    ("outcome", "note", "status", "body"),
    [
        (
            StatusClass.COMPLETED,
            None,
            "✅ Completed",
            "# d1 — RESOLUTION (completed)\n\nStanding by.\n",
        ),
        (
            StatusClass.CANCELLED,
            "",
            "❌ Cancelled",
            "# d1 — RESOLUTION (cancelled)\n\nStanding by.\n",
        ),
        (
            StatusClass.COMPLETED,
            " \n",
            "✅ Completed",
            "# d1 — RESOLUTION (completed)\n\nStanding by.\n",
        ),
        (
            StatusClass.COMPLETED,
            "все готово",
            "✅ Completed — все готово",
            "# d1 — RESOLUTION (completed)\n\nвсе готово\n\nStanding by.\n",
        ),
        (
            StatusClass.CANCELLED,
            "line one\r\nline two",
            "❌ Cancelled — line one",
            "# d1 — RESOLUTION (cancelled)\n\nline one\nline two\n\nStanding by.\n",
        ),
    ],
)
def test_closing_puts_the_first_line_of_the_note_into_the_status(
    outcome: StatusClass, note: str | None, status: str, body: str
) -> None:
    draft = draft_close(MAC, "d1", outcome, "windows-5080", DAY, note=note)
    assert draft.frontmatter["status"] == status
    assert draft.frontmatter["type"] == "RESOLUTION"
    assert draft.body == body


def test_a_relay_turn_carries_its_attestation_in_writing_order() -> None:
    draft = draft_relay(
        MIKE,
        "Mike Op",
        "DECISIONS",
        "demo-01",
        ["mac-m5max"],
        PARENT,
        ATTESTATION,
        tldr="B",
    )
    assert draft.text == (
        "---\nfrom: mike-relay\nto: mac-m5max\ndate: 2026-05-16\nstatus: ▶ Relayed DECISIONS\ntype: DECISIONS\n"
        f"thread: demo-01\nin_reply_to: {PARENT}\nattested_by: SHA256:key\n"
        "attested_at: 2026-05-16T10:30:00.123Z\nnonce: 01KRNJ0NG0-0000000000\ndisplay_name: Mike Op\ntldr: B\n"
        f"body_hash: {draft.body_hash}\n---\n"
        "# demo-01 — DECISIONS (relayed by Mike Op)\n\n"
        "Relayed via mike-relay on 2026-05-16T10:30:00.123Z.\n\nStanding by.\n"
    )


def test_every_draft_is_a_valid_envelope_when_read_back() -> None:
    drafts = [
        draft_send(
            MAC,
            "ACK",
            "demo-01",
            ["ops"],
            DAY,
            tldr="two\nlines\n\n",
            body="\ufeff\ufeffx\ud800",
        ),
        draft_close(
            MAC, "demo-01", StatusClass.COMPLETED, "ops", DAY, note="why: # because"
        ),
        draft_relay(
            MIKE,
            "Mike Op",
            "ACK",
            "demo-01",
            ["a", "b"],
            PARENT,
            ATTESTATION,
            references=["1234567"],
        ),
    ]
    for draft in drafts:
        parsed = parse_envelope(draft.text.encode())
        assert check_envelope(parsed).valid
        assert parsed == (draft.frontmatter, draft.body)


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"references": ["zzz"]}, "/references/0"),
        ({"references": ["a1b2c3d", "a1b2c3d"]}, "/references"),
        ({"status": "✅done"}, "/status"),
        ({"status": ""}, "/status"),
        ({"tldr": ""}, "/tldr"),
        ({"tldr": "not \udcff text"}, "/tldr"),
    ],
)
def test_a_draft_that_breaks_the_schema_is_refused(
    changes: dict[str, object], path: str
) -> None:
    with pytest.raises(UserError, match="failed schema validation") as refused:
        draft_send(MAC, "ACK", "demo-01", ["ops"], DAY, **changes)  # type: ignore[arg-type]
    assert re.findall(r" (/\S+) ", refused.value.message) == [path]


def test_an_operator_with_an_overlong_name_cannot_relay() -> None:
    with pytest.raises(UserError, match="/display_name"):
        draft_relay(MIKE, "M" * 81, "ACK", "demo-01", ["a"], PARENT, ATTESTATION)


@pytest.mark.parametrize(
    ("tldr", "expected"),
    [
        (None, "ACK: demo-01/ACK.md"),
        ("", "ACK: demo-01/ACK.md"),
        ("short", "ACK: short"),
        ("first\nsecond", "ACK: first"),
        ("--literal", "ACK: --literal"),
    ],
)
def test_the_subject_of_a_message_is_one_line(tldr: str | None, expected: str) -> None:
    assert send_subject("ACK", "demo-01/ACK.md", tldr) == expected


def test_the_other_subjects() -> None:
    assert (
        close_subject("demo-01", StatusClass.COMPLETED)
        == "RESOLUTION: demo-01 completed"
    )
    assert relay_subject("ACK", "demo-01", "N-1") == "ACK (relay): demo-01 nonce=N-1"


def test_a_thread_is_completed_or_cancelled() -> None:
    assert parse_outcome("completed") is StatusClass.COMPLETED
    for typed in ("done", "active", "Completed"):
        with pytest.raises(
            UserError, match='--status must be "cancelled" or "completed"'
        ):
            parse_outcome(typed)


def written() -> Envelope:
    parsed = parse_envelope(
        draft_scaffold(Author("mac-m5max"), "demo-01", "2026-05-15").text.encode()
    )
    assert isinstance(parsed, Envelope)
    return parsed


def test_a_scaffold_names_its_rig_and_thread_and_no_recipient() -> None:
    assert draft_scaffold(
        Author("mac-m5max", "Mac Claude"), "demo-01", "2026-05-15"
    ).text.startswith(
        "---\nfrom: mac-m5max\nto: (set --to recipient when sending)\ndate: 2026-05-15\n"
        "status: ▶ demo-01 opened\ntype: REQUEST\nthread: demo-01\ndisplay_name: Mac Claude\n---\n# demo-01 — REQUEST\n"
    )


def test_a_scaffold_is_recognised_and_could_not_be_sent_as_it_is() -> None:
    assert is_scaffold(written())
    assert not check_envelope(written()).valid
    assert not is_scaffold(Envelope({"to": "windows-5080"}, ""))


def test_an_untouched_template_counts_as_no_body() -> None:
    assert edited_scaffold_body(written(), "demo-01") is None


def test_what_was_written_into_it_is_the_body() -> None:
    edited = written()._replace(body="Please check the fans.\n")
    assert edited_scaffold_body(edited, "demo-01") == "Please check the fans.\n"
