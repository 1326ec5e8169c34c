from __future__ import annotations

from bridgehead.rigs.envelope.yaml_core import Value
from bridgehead.rigs.threads.causality import Divergence
from bridgehead.rigs.trust.verification_kinds import Kind, Verification, VerificationState
from bridgehead.rigs.views.listings import ShownEnvelope, thread_blocks, thread_object
from bridgehead.rigs.views.terminal import Style

UNVERIFIED = Verification(VerificationState.UNVERIFIED, (Kind.BODY_HASH_ABSENT,))


def shown(filename: str, frontmatter: dict[str, Value], body: str = "ok\n") -> ShownEnvelope:
    return ShownEnvelope(filename, frontmatter, body, None, UNVERIFIED)


REQUEST = shown(
    "REQUEST.md", {"from": "mac", "to": "win", "date": "2026-05-01", "status": "▶ ask", "type": "REQUEST"}
)
ACK = shown("ACK.md", {"type": "ACK", "to": ["mac", 5, "ops"], "display_name": "Win", "body_hash": "0" * 64})


def test_every_envelope_gets_the_same_block_with_the_fields_it_has() -> None:
    assert list(thread_blocks("demo-02", [REQUEST, ACK], 2)) == [
        (
            "rig-bridge: thread demo-02 envelope=1 of 2 type=REQUEST file=REQUEST.md\n"
            "---\nfrom: mac\nto: win\ndate: 2026-05-01\ntype: REQUEST\nstatus: ▶ ask\n---\n"
            "ok\n===========================\n"
        ),
        (
            "rig-bridge: thread demo-02 envelope=2 of 2 type=ACK file=ACK.md\n"
            f"---\nto: mac,ops\ntype: ACK\nbody_hash: {'0' * 64}\n---\n"
            "ok\n===========================\n"
        ),
    ]


def test_colour_is_on_the_type_alone_and_controls_are_escaped_on_a_terminal() -> None:
    hostile = shown("A.md", {"type": "ACK", "status": "▶ \x1b[2J"}, "\x1b]0;title\x07\n")
    (block,) = thread_blocks("demo-02", [hostile], 1, style=Style(colour=True, escape_controls=True))
    assert "type=\x1b[32mACK\x1b[0m file=A.md\n---\ntype: ACK\n" in block
    assert "status: ▶ \\x1b[2J\n" in block
    assert "\\x1b]0;title\\x07\n" in block


def test_blocks_are_made_as_they_are_asked_for() -> None:
    blocks = thread_blocks("demo-02", iter([REQUEST, ACK]), 2)
    assert next(blocks).startswith("rig-bridge: thread demo-02 envelope=1 of 2 ")


def test_the_object_holds_frontmatter_as_parsed() -> None:
    assert thread_object(
        "demo-02", [ACK._replace(commit_sha="1" * 40)], [Divergence("demo-02@root", ())]
    ) == {
        "schema_version": "1.0",
        "op": "thread",
        "thread_id": "demo-02",
        "envelope_count": 1,
        "envelopes": [
            {
                "frontmatter": {
                    "type": "ACK",
                    "to": ["mac", 5, "ops"],
                    "display_name": "Win",
                    "body_hash": "0" * 64,
                },
                "body": "ok\n",
                "filename": "ACK.md",
                "commit_sha": "1" * 40,
                "verification": {"state": "unverified", "kinds": ["body_hash_absent"]},
            }
        ],
        "divergences": [{"name": "demo-02@root", "heads": []}],
    }


def test_a_thread_without_envelopes_is_an_empty_object_and_no_text() -> None:
    assert list(thread_blocks("void-1", [], 0)) == []
    assert thread_object("void-1", [], [])["envelopes"] == []
    assert thread_object("void-1", [], [])["divergences"] == []
