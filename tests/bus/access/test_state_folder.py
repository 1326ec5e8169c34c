"""Records, settings and files of the state folder: what is written, what is refused, what survives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridgehead.bus.access.enrolled import REST_S, EnrolledParticipants, EnrolmentChange
from bridgehead.bus.access.enrolment import (
    Enrolment,
    enrol,
    listing,
    parse_duration,
    revoke,
    set_key,
    try_admission,
    without_rights,
)
from bridgehead.bus.access.join_file import BadJoinFile, read_join_file
from bridgehead.bus.access.state_folder import StateFolder
from bridgehead.bus.bridge.settings import BridgeSettings
from bridgehead.bus.bridge.state_store import BridgeStateUnusable, SqliteState
from bridgehead.bus.participants.limits import (
    TokenBucket,
    ViolationCount,
    is_deeper_than,
)
from bridgehead.bus.participants.record import Grant, Role, parse_record
from bridgehead.bus.settings import Address, BusSettings
from bridgehead.bus.wire.topics import TopicPatterns, is_poll, is_poll_answer
from bridgehead.errors import BridgeheadError, ConfigError
from bridgehead.host.clock import ManualClock, SystemClock


@pytest.mark.parametrize(
    "table",
    [
        {"role": "king"},
        {"mode": "both"},
        {"colour": "red"},
        {"grants": {"everything": True}},
        {"publish": ["a.*.b"]},
        {"publish": [""]},
        {"deliver": ["*x"]},
        {"policy": {"blacklisted_skills": "x"}},
        {"policy": {"pipeline": []}},
        {"policy": {"lang": "en"}},
        {"policy": {"denylist_merge": "sometimes"}},
        {"managed_session_id": "default"},
        {"limits": {"burst": "many"}},
        {"tts": "no"},
    ],
    ids=str,
)
def test_a_record_that_cannot_be_is_refused_by_name(table: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="'den'"):
        parse_record("den", table)


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "ü", "a/b", "a\x00"])
def test_participant_ids_are_plain(name: str) -> None:
    with pytest.raises(ConfigError):
        parse_record(name, {})


def test_a_skill_host_may_register_skills_unless_the_record_denies_it() -> None:
    host = parse_record("h", {"role": "skill_host"})
    denied = parse_record(
        "h", {"role": "skill_host", "grants": {"register_skills": False}}
    )
    assert host.has(Grant.REGISTER_SKILLS) and not denied.has(Grant.REGISTER_SKILLS)
    for topic in (
        "ovos.intent.register.template",
        "ovos.utterance.speak",
        "x.converse.pong",
        "ovos.intent.handler.start",
    ):
        assert host.may_publish(topic) and not denied.may_publish(topic)
    assert not host.may_publish("ovos.converse.ping")
    assert all(
        parse_record("p", {"role": role}).grants == frozenset()
        for role in Role
        if role != "skill_host"
    )


@pytest.mark.parametrize(
    ("pattern", "topic", "fits"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.b.c", False),
        ("a.*", "a.b.c", True),
        ("a.*", "a", False),
        ("a.*", "ab.c", False),
        ("s:*", "s:on", True),
        ("*", "anything:at.all", True),
    ],
)
def test_topic_patterns(pattern: str, topic: str, fits: bool) -> None:
    assert TopicPatterns.parse([pattern]).match(topic) is fits


@pytest.mark.parametrize(
    ("topic", "poll", "answer"),
    [
        ("ovos.converse.ping", True, False),
        ("music.skill.fallback.pong", True, True),
        ("skill.stop.pong", True, True),
        ("ovos.skills.fallback.ping", True, False),
        ("question:query", True, False),
        ("question:query.response", True, True),
        ("ovos.common_query.request", True, False),
        ("ovos.network.ping", False, False),
        ("converse.ping.more", False, False),
    ],
)
def test_polls_are_known_whatever_stands_before_them(
    topic: str, poll: bool, answer: bool
) -> None:
    assert (is_poll(topic), is_poll_answer(topic)) == (poll, answer)


@pytest.mark.parametrize(
    "table",
    [
        {"routing": ["telepathy"]},
        {"grace_s": -1},
        {"bridge_id": ""},
        {"nonsense": 1},
        {"listen": "0.0.0.0"},
        {"listen": "x:99999"},
        {"hub_listen": "0.0.0.0:8181"},
        {"tls_cert": "a.pem"},
        {"client_ca": "ca.pem"},
        {"chat_grants": ["everything"]},
        {"deployment": "our home.*"},
    ],
    ids=str,
)
def test_settings_that_cannot_work_are_refused(table: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        BusSettings.parse(table)


def test_beyond_loopback_there_is_only_tls() -> None:
    assert not BusSettings.parse({}).uses_tls
    assert not BusSettings.parse({"listen": "[::1]:8182"}).uses_tls
    assert BusSettings.parse({"listen": "0.0.0.0:8182"}).uses_tls
    assert BusSettings.parse(
        {"listen": "192.168.1.5:8182", "client_ca": "ca.pem"}
    ).uses_tls
    assert str(Address.parse("[::1]:8182")) == "[::1]:8182"


def test_hand_written_comments_survive_what_commands_write(tmp_path: Path) -> None:
    folder, clock = StateFolder(tmp_path / "bus"), ManualClock()
    enrol(folder, Enrolment("den", {}, "ws://x/bridge/v1"), clock)
    text = folder.records_file.read_text() + "\n# mind the dog\n[hall]\ntts = false\n"
    folder.records_file.write_text(text)
    set_key(folder, "den", "grants.notices", "true")
    assert "# mind the dog" in folder.records_file.read_text()
    records = folder.records()
    assert records["den"].has(Grant.NOTICES) and records["hall"].tts is False
    assert [(p.id, p.credential) for p in listing(folder, clock.now())] == [
        ("den", "key"),
        ("hall", "none"),
    ]


def test_two_managed_participants_cannot_share_a_session(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "bus")
    folder.prepare()
    folder.records_file.write_text(
        '[a]\nmode="manage"\nmanaged_session_id="m"\n[b]\nmode="manage"\nmanaged_session_id="m"\n'
    )
    with pytest.raises(ConfigError, match="have the same session"):
        folder.records()


@pytest.mark.parametrize("content", ["[x", "x = 1", "[x]\nrole = 5", "[x]\n\xff"])
def test_a_broken_file_leaves_what_is_in_force(tmp_path: Path, content: str) -> None:
    folder = StateFolder(tmp_path / "bus")
    enrol(folder, Enrolment("den", {"tts": False}, "ws://x/bridge/v1"), ManualClock())
    directory = EnrolledParticipants(folder)
    folder.records_file.write_bytes(content.encode("latin-1"))
    change = directory.reload(0.0)
    assert change.changed == change.revoked == () and directory.problem is not None
    assert directory.records["den"].tts is False
    with pytest.raises(BridgeheadError):
        set_key(folder, "den", "tts", "true")


def test_a_reload_tells_whose_record_changed_and_who_was_revoked(
    tmp_path: Path,
) -> None:
    folder, clock = StateFolder(tmp_path / "bus"), ManualClock()
    for name in ("a", "b", "c"):
        enrol(folder, Enrolment(name, {}, "ws://x/bridge/v1"), clock)
    directory = EnrolledParticipants(folder)
    set_key(folder, "a", "tts", "false")
    revoke(folder, "b")
    change = directory.reload(0.0)
    assert ([record.id for record in change.changed], change.revoked) == (["a"], ("b",))
    assert (
        directory.by_certificate("b") is None
        and directory.by_certificate("c") is not None
    )
    assert directory.reload(0.0).changed == ()


def test_a_file_that_is_being_saved_by_an_editor_revokes_nobody(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path)
    folder.put_table("kitchen", {})
    folder.put_table("study", {})
    directory = EnrolledParticipants(folder)
    whole = folder.records_file.read_text()

    folder.records_file.write_text("")  # truncated, not yet written
    assert directory.reload(10.0) == EnrolmentChange()
    folder.records_file.write_text(whole.replace("[study]", ""))
    assert directory.reload(10.0 + REST_S) == EnrolmentChange(), (
        "it changed again meanwhile"
    )
    assert directory.reload(10.0 + 2 * REST_S).revoked == ("study",)


def test_the_bridges_secret_is_made_once(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "bus")
    folder.prepare()
    assert folder.secret() == folder.secret() and len(folder.secret()) == 32
    (folder.path / "bridge.secret").write_bytes(b"short")
    with pytest.raises(ConfigError):
        folder.secret()


def test_a_state_file_that_is_none_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "bridge.db").write_bytes(
        b"this is not a database, and long enough to be noticed" * 20
    )
    with pytest.raises(BridgeStateUnusable) as broken:
        SqliteState(tmp_path / "bridge.db")
    assert "move it away" in (broken.value.hint or "")


@pytest.mark.parametrize(
    "content",
    [
        "nonsense",
        "[]",
        '{"v":2,"url":"ws://x","participant":"a","key":"k"}',
        '{"v":1,"url":"http://x","participant":"a","key":"k"}',
        '{"v":1,"url":"ws://x","participant":"a b","key":"k"}',
        '{"v":1,"url":"ws://x","participant":"a"}',
        '{"v":1,"url":"ws://x","participant":"a","key":"k","token":"t"}',
    ],
)
def test_a_join_file_that_is_none_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.join.json"
    path.write_text(content)
    with pytest.raises(BadJoinFile):
        read_join_file(path)
    with pytest.raises(BridgeheadError):
        read_join_file(tmp_path / "missing.json")


def test_policy_can_be_tried_without_a_bus() -> None:
    record = parse_record("den", {"policy": {"blacklisted_skills": ["shell"]}})
    settings = BridgeSettings()
    admitted = try_admission(settings, record, b'{"type":"ovos.stop"}', bytes(32))
    assert admitted.admitted and admitted.bus[0]["context"]["session"][
        "blacklisted_skills"
    ] == ["shell"]
    refused = try_admission(settings, record, b'{"type":"x.y"}', bytes(32))
    assert refused.refused == {"code": "policy_denied", "field": "type", "value": "x.y"}
    dropped = try_admission(
        settings, record, b'{"type":"ovos.session.sync"}', bytes(32)
    )
    assert not dropped.admitted and dropped.sentence() == "dropped without an error"


def test_the_rate_is_kept_whatever_the_clock_does() -> None:
    bucket = TokenBucket(rate=10, burst=2, now=100.0)
    assert [bucket.take(100.0) for _ in range(3)] == [True, True, False]
    assert not bucket.take(50.0), "a clock that jumps back gives nothing"
    assert bucket.take(100.2)
    assert [bucket.take(1e9) for _ in range(3)] == [True, True, False]


def test_violations_count_only_within_their_minute() -> None:
    count = ViolationCount(limit=3)
    assert [count.too_many(t) for t in (0, 10, 61)] == [False, False, False]
    assert count.too_many(62)


@pytest.mark.parametrize(("depth", "deep"), [(3, False), (4, True)])
def test_nesting_is_measured_exactly(depth: int, deep: bool) -> None:
    value: Any = {}
    for _ in range(depth - 1):
        value = [value]
    assert is_deeper_than(value, 3) is deep


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90d", 7_776_000), ("12h", 43_200), ("30m", 1800), ("5s", 5), ("1w", 604_800)],
)
def test_lengths_of_time(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


def test_whoever_is_revoked_loses_tools_and_the_answers_of_a_person_and_a_pairing_names_them() -> (
    None
):
    table = {"assistant": {"tools": ["clock"]}, "person": "ada", "tts": False}
    assert without_rights(table) == {"tts": False}
    assert (
        parse_record("den", table)
        .rights()
        .endswith(", tools: clock, late answers for ada")
    )


def test_a_long_file_of_records_is_read_in_a_thread_and_somebody_is_revoked_meanwhile(
    tmp_path: Path,
) -> None:
    folder = StateFolder(tmp_path / "bus")
    for name in ("first", "last"):
        enrol(folder, Enrolment(name, {}, "ws://127.0.0.1:1/bridge/v1"), SystemClock())
    with folder.records_file.open("a") as records:
        records.write(
            "".join(
                f"[participant-{number}]\nrole = 'satellite'\n"
                for number in range(10_000)
            )
        )
    enrolled = EnrolledParticipants(folder)
    table = folder.records_file.read_text()
    folder.records_file.write_text(table + "[one-more]\n")
    credential = folder.credentials()["first"]
    folder.put_credential("first", msgspec.structs.replace(credential, revoked=True))
    # On the loop nothing but the short file is read.
    change = enrolled.reload(0.0)
    assert (change.changed, change.revoked) == (
        (),
        ("first",),
    ) and "one-more" not in enrolled.records
    enrolled.read_ahead()
    (added,) = enrolled.reload(1.0).changed
    assert added.id == "one-more" and enrolled.reload(2.0).changed == ()
    # One that does not parse is reported, and what is in force stays.
    folder.records_file.write_text(table + "[one-more")
    enrolled.read_ahead()
    assert enrolled.reload(3.0).revoked == () and "one-more" in enrolled.records
    assert enrolled.problem is not None
