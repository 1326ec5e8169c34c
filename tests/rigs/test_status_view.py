from __future__ import annotations

from bridgehead.rigs.threads.freeze import Freeze
from bridgehead.rigs.threads.thread import ThreadSummary, turn_of
from bridgehead.rigs.views.listings import Status
from bridgehead.rigs.views.terminal import Style

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


def test_wide_rows_append_their_columns_and_heads_only_where_a_thread_diverged() -> None:
    _, alpha, beta = STATUS.lines(wide=True)
    assert alpha.endswith(f" from=windows-5080 to=mac-m5max closed=true envelopes=2 body_hash={'0' * 64}")
    assert beta.endswith(" from=mac-m5max to=windows-5080,ops closed=false envelopes=1 body_hash=- heads=2")


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
    odd = ThreadSummary(turn_of("odd-1", "X.md", {"type": "A\nthread=evil", "to": 5}), 1, False)
    _, row = Status([odd], [], []).lines(wide=True)
    assert row == (
        "thread=odd-1 last=- status=active type=A\\x0athread=evil dirty=false "
        "from= to= closed=false envelopes=1 body_hash=-"
    )
