"""A file with frontmatter that is no envelope's is shown as the reference shows it (rigs §8 thread)."""

from __future__ import annotations

from bridgehead.rigs.envelope.yaml_core import Value
from bridgehead.rigs.threads.causality import Divergence
from bridgehead.rigs.threads.freeze import Freeze
from bridgehead.rigs.threads.obligations import Obligation
from bridgehead.rigs.threads.thread import ThreadSummary, turn_of
from bridgehead.rigs.trust.verification_kinds import (
    Kind,
    Verification,
    VerificationState,
)
from bridgehead.rigs.views.listings import (
    Debt,
    Inbox,
    Notice,
    ShownEnvelope,
    Status,
    thread_blocks,
    thread_object,
)
from bridgehead.rigs.views.terminal import Style

NOTICE = Notice(
    turn_of(
        "demo-01",
        "REQUEST.md",
        {
            "from": "mac",
            "to": ["win"],
            "type": "REQUEST",
            "date": "2026-05-15T10:00:00Z",
            "status": "⏸ w",
            "tldr": "fans?",
        },
        commit_sha="1" * 40,
        position=3,
    ),
    Verification(VerificationState.VERIFIED),
)


ROW = "thread=demo-01 type=REQUEST from=mac last=2026-05-15 file=REQUEST.md verification=verified"
DEBT = Debt(NOTICE, Obligation(NOTICE.turn, "win"))


def test_rows_below_the_count() -> None:
    assert list(Inbox([DEBT]).lines()) == [
        "rig-bridge: inbox waiting=1",
        f'{ROW} tldr="fans?"',
    ]
    assert list(Inbox([]).lines()) == ["rig-bridge: inbox waiting=0"]
    all_of_it = Inbox([], [DEBT], [NOTICE], [DEBT], [(NOTICE.turn, NOTICE.turn)])
    assert list(all_of_it.remarks()) == [
        "others owe this rig 1 answer; rig-bridge inbox --owed lists them",
        "thread demo-01 was closed more than once: REQUEST.md, REQUEST.md",
        "last fetched from the remote: never; rig-bridge sync --auto fetches again",
    ]
    assert "others owe" not in "".join(all_of_it.remarks(with_owed=True)), (
        "they are listed"
    )
    assert list(all_of_it.lines(with_owed=True)) == [
        "rig-bridge: inbox waiting=2",
        f'{ROW} state=delivered tldr="fans?"',
        f'{ROW} escalated=true debtor=win tldr="fans?"',
        f'{ROW} owed_by=win tldr="fans?"',
    ]


def test_items_are_watch_events_with_a_summary() -> None:
    assert Inbox([DEBT]).json_object() == {
        "schema_version": "1.0",
        "op": "inbox",
        "envelopes": [
            {
                "thread_id": "demo-01",
                "filename": "REQUEST.md",
                "type": "REQUEST",
                "from": "mac",
                "to": ["win"],
                "status_class": "pending",
                "commit_sha": "1" * 40,
                "verification": {"state": "verified", "kinds": []},
                "tldr": "fans?",
                "debtor": "win",
                "state": "open",
                "due": None,
                "overdue": False,
            }
        ],
        "owed": [],
        "escalated": [],
        "conflicts": [],
        "rigs": [],
    }


ALPHA = ThreadSummary(
    turn_of(
        "alpha-1",
        "RESOLUTION.md",
        {
            "from": "windows-5080",
            "to": "mac-m5max",
            "date": "2026-05-03",
            "status": "✅ Completed",
            "type": "RESOLUTION",
            "body_hash": "0" * 64,
        },
    ),
    envelope_count=2,
    is_closed=True,
    last_modified="2026-05-03T10:00:00.000Z",
)
BETA = ThreadSummary(
    turn_of(
        "beta-2",
        "REQUEST.md",
        {
            "from": "mac-m5max",
            "to": ["windows-5080", "ops"],
            "date": "2026-05-02",
            "status": "⏸ w",
            "type": "REQUEST",
        },
    ),
    envelope_count=1,
    is_closed=False,
    dirty=True,
    frozen=Freeze("mike-relay", "s", "e"),
    unverified=1,
    heads=2,
)
STATUS = Status([ALPHA, BETA], ["M beta-2/REQUEST.md"], ["0123456 seed"])


def test_one_row_per_thread_below_the_counts() -> None:
    assert list(STATUS.lines()) == [
        "rig-bridge: status open=1 closed=1 dirty=1 unpushed=1",
        "thread=alpha-1 last=2026-05-03 status=completed type=RESOLUTION dirty=false",
        "thread=beta-2 last=2026-05-02 status=pending type=REQUEST dirty=true",
    ]


def test_wide_rows_append_their_columns_and_heads_only_where_a_thread_diverged() -> (
    None
):
    _, alpha, beta = STATUS.lines(wide=True)
    assert alpha.endswith(
        f" from=windows-5080 to=mac-m5max closed=true envelopes=2 body_hash={'0' * 64}"
    )
    assert beta.endswith(
        " from=mac-m5max to=windows-5080,ops closed=false envelopes=1 body_hash=- heads=2"
    )


def test_colour_marks_the_class_what_is_dirty_and_what_is_unpushed() -> None:
    header, alpha, beta = STATUS.lines(style=Style(colour=True))
    assert header.endswith("dirty=1 unpushed=\x1b[33m1\x1b[0m")
    assert "status=\x1b[32mcompleted\x1b[0m" in alpha
    assert alpha.endswith("dirty=false")
    assert beta.endswith("dirty=\x1b[31mtrue\x1b[0m")


def test_an_empty_bridge_is_one_line() -> None:
    assert list(Status([], [], []).lines(style=Style(colour=True))) == [
        "rig-bridge: status open=0 closed=0 dirty=0 unpushed=0"
    ]


def test_the_object_carries_the_contracts_fields_and_ours() -> None:
    assert STATUS.json_object() == {
        "schema_version": "1.0",
        "op": "status",
        "threads": [
            {
                "thread_id": "alpha-1",
                "envelope_count": 2,
                "is_closed": True,
                "status_class": "completed",
                "last_modified": "2026-05-03T10:00:00.000Z",
                "latest_envelope": {
                    "filename": "RESOLUTION.md",
                    "type": "RESOLUTION",
                    "date": "2026-05-03",
                    "from": "windows-5080",
                    "to": "mac-m5max",
                },
                "last": "2026-05-03",
                "dirty": False,
                "frozen": None,
                "unverified": 0,
            },
            {
                "thread_id": "beta-2",
                "envelope_count": 1,
                "is_closed": False,
                "status_class": "pending",
                "last_modified": "",
                "latest_envelope": {
                    "filename": "REQUEST.md",
                    "type": "REQUEST",
                    "date": "2026-05-02",
                    "from": "mac-m5max",
                    "to": ["windows-5080", "ops"],
                },
                "last": "2026-05-02",
                "dirty": True,
                "frozen": {"rig": "mike-relay", "since": "s", "expires": "e"},
                "unverified": 1,
            },
        ],
        "dirty_files": ["M beta-2/REQUEST.md"],
        "unpushed_commits": ["0123456 seed"],
        "open": 1,
        "closed": 1,
    }


def test_a_thread_whose_envelope_says_nothing_useful_still_has_its_row() -> None:
    odd = ThreadSummary(
        turn_of("odd-1", "X.md", {"type": "A\nthread=evil", "to": 5}), 1, False
    )
    _, row = Status([odd], [], []).lines(wide=True)
    assert row == (
        "thread=odd-1 last=- status=active type=A\\x0athread=evil dirty=false "
        "from= to= closed=false envelopes=1 body_hash=-"
    )


UNVERIFIED = Verification(VerificationState.UNVERIFIED, (Kind.BODY_HASH_ABSENT,))


def shown(
    filename: str, frontmatter: dict[str, Value], body: str = "ok\n"
) -> ShownEnvelope:
    return ShownEnvelope(filename, frontmatter, body, None, UNVERIFIED)


REQUEST = shown(
    "REQUEST.md",
    {
        "from": "mac",
        "to": "win",
        "date": "2026-05-01",
        "status": "▶ ask",
        "type": "REQUEST",
    },
)
ACK = shown(
    "ACK.md",
    {
        "type": "ACK",
        "to": ["mac", 5, "ops"],
        "display_name": "Win",
        "body_hash": "0" * 64,
    },
)


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
    hostile = shown(
        "A.md", {"type": "ACK", "status": "▶ \x1b[2J"}, "\x1b]0;title\x07\n"
    )
    (block,) = thread_blocks(
        "demo-02", [hostile], 1, style=Style(colour=True, escape_controls=True)
    )
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


BROKEN = Verification(VerificationState.BROKEN, (Kind.SCHEMA_INVALID,))


def test_fields_that_are_no_text_are_left_out_and_a_type_that_is_none_is_unknown() -> (
    None
):
    odd = ShownEnvelope(
        "README.md", {"from": 5, "to": ["ops", 5], "status": ["x"]}, "x\n", None, BROKEN
    )
    assert "".join(thread_blocks("demo-02", [odd], 1)) == (
        "rig-bridge: thread demo-02 envelope=1 of 1 type=(unknown) file=README.md\n"
        "---\nto: ops\ntype: (unknown)\n---\nx\n===========================\n"
    )
