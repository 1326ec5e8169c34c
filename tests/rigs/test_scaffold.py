from __future__ import annotations

from bridgehead.rigs.envelope.envelope import Envelope, parse_envelope
from bridgehead.rigs.operations.drafts import draft_scaffold, edited_scaffold_body, is_scaffold
from bridgehead.rigs.rig import Author
from bridgehead.rigs.trust.envelope_problems import check_envelope


def written() -> Envelope:
    parsed = parse_envelope(draft_scaffold(Author("mac-m5max"), "demo-01", "2026-05-15").text.encode())
    assert isinstance(parsed, Envelope)
    return parsed


def test_a_scaffold_names_its_rig_and_thread_and_no_recipient() -> None:
    assert draft_scaffold(Author("mac-m5max", "Mac Claude"), "demo-01", "2026-05-15").text.startswith(
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
