"""What `rig watch` announces, and that it announces everything once."""

from __future__ import annotations

from bridgehead.rigs.operations.watch import HEARTBEAT_MS, Event, Snapshot, Watch
from bridgehead.rigs.threads.causality import Divergence
from bridgehead.rigs.threads.freeze import Freeze
from bridgehead.rigs.threads.thread import turn_of
from bridgehead.rigs.trust.verification_kinds import Verification, VerificationState
from bridgehead.rigs.views.listings import Notice

EMPTY = Snapshot({}, frozenset(), {}, {})
FREEZE = Freeze("mike-relay", "s", "e")


def notice(path: str, position: int = 1) -> Notice:
    thread_id, _, filename = path.partition("/")
    turn = turn_of(
        thread_id,
        filename,
        {"type": "ACK", "date": "2026-05-15"},
        commit_sha="1" * 40,
        position=position,
    )
    return Notice(turn, Verification(VerificationState.UNVERIFIED))


def seeing(*paths: str) -> Snapshot:
    return EMPTY._replace(
        envelopes={path: notice(path, 9 - number) for number, path in enumerate(paths)}
    )


def started(snapshot: Snapshot = EMPTY, **options: bool) -> Watch:
    watch = Watch("status", **options)
    watch.begin(snapshot, {}, 0)
    return watch


def told(events: list[Event]) -> list[tuple[object, object]]:
    return [
        (event["event"], event.get("filename") or event.get("thread_id"))
        for event in events
    ]


def test_the_first_event_is_what_the_command_prints_once() -> None:
    one_shot = {"schema_version": "1.0", "op": "status", "threads": []}
    event = Watch("status").begin(EMPTY, one_shot, 1_500)
    assert list(event.items()) == [
        ("schema_version", "1.0"),
        ("op", "status"),
        ("event", "snapshot"),
        ("at", "1970-01-01T00:00:01.500Z"),
        ("seq", 1),
        ("threads", []),
    ]


def test_new_envelopes_are_announced_in_thread_order_with_running_numbers() -> None:
    events = started().update(seeing("t-1/B.md", "t-1/A.md"), 10)
    assert told(events) == [("envelope", "A.md"), ("envelope", "B.md")]
    assert [event["seq"] for event in events] == [2, 3]
    assert events[0] == {
        "schema_version": "1.0",
        "op": "status",
        "event": "envelope",
        "at": "1970-01-01T00:00:00.010Z",
        "seq": 2,
        **notice("t-1/A.md").json_object(),
    }


def test_an_envelope_is_announced_once_per_run_even_if_it_comes_back() -> None:
    watch = started(seeing("t-1/A.md"))
    assert watch.update(seeing("t-1/A.md"), 1) == []
    assert told(watch.update(seeing("t-1/A.md", "t-1/B.md"), 2)) == [
        ("envelope", "B.md")
    ]
    assert watch.update(EMPTY, 3) == []
    assert watch.update(seeing("t-1/A.md", "t-1/B.md"), 4) == []


def test_a_thread_closes_once() -> None:
    watch = started(EMPTY._replace(closed=frozenset({"old-1"})))
    closed = EMPTY._replace(closed=frozenset({"old-1", "t-1"}))
    assert told(watch.update(closed, 1)) == [("thread_closed", "t-1")]
    watch.update(EMPTY, 2)
    assert watch.update(closed, 3) == []


def test_a_divergence_is_told_when_it_appears_and_when_it_changes() -> None:
    watch = started()
    first = EMPTY._replace(divergences={"t-1": Divergence("t-1@root", ())})
    second = EMPTY._replace(divergences={"t-1": Divergence("t-1@1111111", ())})
    assert told(watch.update(first, 1)) == [("divergence", "t-1")]
    assert watch.update(first, 2) == []
    (event,) = watch.update(second, 3)
    assert (event["name"], event["heads"]) == ("t-1@1111111", [])
    assert watch.update(EMPTY, 4) == []


def test_freezing_and_thawing() -> None:
    watch = started()
    (frozen,) = watch.update(EMPTY._replace(freezes={"t-1": FREEZE}), 1)
    assert (frozen["event"], frozen["rig"], frozen["expires"]) == (
        "frozen",
        "mike-relay",
        "e",
    )
    assert told(watch.update(EMPTY, 2)) == [("thawed", "t-1")]


def test_silence_is_broken_by_a_heartbeat() -> None:
    watch = started()
    assert watch.update(EMPTY, HEARTBEAT_MS - 1) == []
    assert told(watch.update(EMPTY, HEARTBEAT_MS)) == [("heartbeat", None)]
    assert watch.update(EMPTY, HEARTBEAT_MS + 1) == []
    watch.error("git", "no network", 2 * HEARTBEAT_MS - 1)
    assert watch.update(EMPTY, 2 * HEARTBEAT_MS) == []


def test_the_heartbeat_can_be_declined() -> None:
    assert started(heartbeat=False).update(EMPTY, 10 * HEARTBEAT_MS) == []


def test_pulls_and_errors_are_numbered_with_the_rest() -> None:
    watch = started()
    pulled = watch.pulled({"new_envelopes": 2}, 5)
    error = watch.error("git", "git fetch failed", 6)
    assert (pulled["event"], pulled["seq"], pulled["new_envelopes"]) == ("pulled", 2, 2)
    assert (error["event"], error["seq"], error["category"], error["message"]) == (
        "error",
        3,
        "git",
        "git fetch failed",
    )
