"""events, record, pending and answer through the installed command."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from bridgehead.contract.events import Event
from bridgehead.contract.pending import Question
from bridgehead.contract.record_words import Part, PendingKind
from bridgehead.control_plane.stores import open_store
from support.installed import Machine

AT = "2026-11-15T10:15:02.000Z"


def record(user: Machine, *events: Event) -> None:
    with open_store(str(user.record)) as store:
        store.append(events)


def ask(user: Machine, **changes: object) -> str:
    fields = {
        "key": "k1",
        "kind": PendingKind.HALTED_RUNTIME,
        "part": Part.COUNCIL,
        "origin": "flow",
        "title": "Which one?",
    }
    with open_store(str(user.record)) as store:
        return store.open_pending(Question(**{**fields, **changes}), AT).id  # type: ignore[arg-type]


def sent(number: int, project: str = "") -> Event:
    return Event(
        id=f"e{number}",
        kind="rig.sent",
        part=Part.RIGS,
        at=AT,
        project=project,
        data={"path": f"t/ACK-{number}.md"},
    )


def test_listing_an_absent_record_is_empty_and_creates_nothing(user: Machine) -> None:
    assert user.run("events").out == "no events yet\n"
    assert user.run("pending").out == "nothing is waiting\n"
    assert not user.record.exists()


def test_events_are_listed_oldest_first_and_limited_to_the_newest(
    user: Machine,
) -> None:
    record(user, *(sent(number) for number in range(5)))

    page = user.run("events", "--kind", "rig.sent", "--limit", "2", "--json").json

    assert [event["id"] for event in page["events"]] == ["e3", "e4"]
    assert page["schema_version"] == "1.0"
    assert page["last_seq"] == page["events"][-1]["seq"]


def test_after_continues_where_a_reader_stopped(user: Machine) -> None:
    record(user, *(sent(number) for number in range(4)))
    first = user.run("events", "--kind", "rig.sent", "--limit", "4", "--json").json[
        "events"
    ][1]["seq"]

    page = user.run("events", "--after", str(first), "--json").json

    assert [event["id"] for event in page["events"]] == ["e2", "e3"]


def test_events_are_found_by_text_and_day(user: Machine) -> None:
    record(user, *(sent(number) for number in range(3)))

    def found(*limits: str) -> list[str]:
        return [
            event["id"]
            for event in user.run(
                "events", "--kind", "rig.sent", "--json", *limits
            ).json["events"]
        ]

    assert found("--text", "ack-1") == ["e1"]
    assert (
        found("--since", "2026-11-14") == ["e0", "e1", "e2"]
        and found("--until", "2026-11-14") == []
    )
    refused = user.run("events", "--since", "yesterday")
    assert (
        refused.code == 1
        and "not a day or time" in refused.err
        and "2026-11-15" in refused.err
    )


def test_here_limits_to_the_project_of_the_directory(user: Machine) -> None:
    record(user, sent(1, project=str(user.project)), sent(2, project="/elsewhere"))

    page = user.run("events", "--here", "--json").json

    assert [event["id"] for event in page["events"]] == ["e1"]


def test_following_prints_new_events_as_they_are_recorded_and_ends_on_ctrl_c(
    user: Machine,
) -> None:
    record(user, sent(1))
    follower = user.start("events", "--follow", "--kind", "rig.sent", "--json")
    assert follower.stdout is not None
    try:
        assert json.loads(follower.stdout.readline())["id"] == "e1"
        record(user, sent(2))
        assert json.loads(follower.stdout.readline())["id"] == "e2"
    finally:
        follower.send_signal(signal.SIGINT)
        _, err = follower.communicate(timeout=20)
    assert follower.returncode == 130
    assert "Traceback" not in err


def test_a_reader_that_leaves_early_is_no_error(user: Machine) -> None:
    record(user, *(sent(number) for number in range(2000)))
    lister = user.start("events", "--limit", "2000")
    assert lister.stdout is not None and lister.stderr is not None
    lister.stdout.readline()
    lister.stdout.close()
    assert lister.stderr.read() == ""
    assert lister.wait(timeout=20) == 0
    lister.stderr.close()


def test_pending_shows_who_waits_and_how_to_answer(user: Machine) -> None:
    item = ask(
        user, origin="runtime codex", choices=("retry", "skip"), advice="codex login"
    )
    spoken = ask(
        user,
        key="k2",
        part=Part.BUS,
        kind=PendingKind.BUS_APPROVAL,
        origin="bus",
        title="oven off?",
    )

    shown = user.run("pending").out

    assert item in shown and "runtime codex" in shown
    assert f"codex login, then bridgehead answer {item} retry|skip" in shown
    assert f"bridgehead answer {spoken} TEXT" in shown


def test_the_question_itself_is_shown_with_its_choices_and_schema(
    user: Machine,
) -> None:
    schema = {"type": "object", "properties": {"score": {"type": "integer"}}}
    item = ask(
        user,
        prompt="Line one \x1b[2J\nline two",
        schema=schema,
        expires_at="2026-12-01T00:00:00Z",
    )
    choosing = ask(user, key="k2", prompt="Ship it?", schema={"enum": ["yes", "no"]})

    shown = user.run("pending", "show", item)
    assert shown.out == user.run("pending", item).out
    assert (
        "  Line one \\x1b[2J\n  line two\n" in shown.out and "2026-12-01" in shown.out
    )
    assert (
        '"score": {' in shown.out
        and f"bridgehead answer {item} --file FILE" in shown.out
    )
    assert (
        user.run("pending", item, "--json").json["item"]["question"]["schema"] == schema
    )
    assert "choices: yes | no" in user.run("pending", choosing).out
    bare = user.run("answer", choosing)
    assert (bare.code, bare.out) == (1, "")
    assert "Ship it?" in bare.err and f"bridgehead answer {choosing} yes|no" in bare.err
    user.run("answer", choosing, "yes", "--by", "ada")
    assert user.run("pending", "show", choosing).out.endswith(
        "\n\nanswered by ada:\n  yes\n"
    )
    assert "one ID" in user.run("pending", item, choosing).err


def test_a_flow_s_question_says_for_whom_about_what_until_when_and_what_comes_after(
    user: Machine,
) -> None:
    (user.project / "ship.py").write_text(
        "from bridgehead.flows import flow\n\n\n@flow(name='ship')\ndef ship(ctx):\n"
        "    return ctx.ask('beta', agent='writer', prompt='How long?', expires=3600, context={'last': {'days': 14}})\n"
    )
    assert user.run("flow", "run", "ship.py").code == 42

    told = [
        line.strip() for line in user.run("pending", "show", "q-1").out.splitlines()
    ]

    assert {"agent: writer", 'last: {"days":14}'} <= set(told)
    assert [line.partition(" ")[0] for line in told[2:4]] == ["expires", "agent:"]
    assert any(line.startswith("deadline: 20") for line in told)
    assert f"response_file: {user.project / '.agent-response.json'}" in told
    answered = user.run("answer", "q-1", "two weeks")
    assert answered.err.endswith(
        f"to do it now: bridgehead flow resume --dir {user.project}\n"
    )
    assert user.run("flow", "resume", "--dir", str(user.project)).out == "two weeks\n"


def test_show_without_an_item_says_what_is_missing(user: Machine) -> None:
    refused = user.run("pending", "show")
    assert (refused.code, refused.out) == (1, "")
    assert (
        refused.err
        == "bridgehead: `pending show` takes one ID\n  hint: `bridgehead pending` lists the open items\n"
    )


def test_the_parts_of_a_council_are_listed_together(user: Machine) -> None:
    for seat in ("claude", "codex"):
        ask(user, key=seat, run_id="k3v9qa", title="halted: not logged in")
    ask(user, key="other", kind=PendingKind.BUS_APPROVAL, title="may the den join?")

    lines = user.run("pending").out.splitlines()

    assert "may the den join?" in lines[1]
    assert (
        "council k3v9qa: 2 parts" in lines[2]
        and "bridgehead council resume k3v9qa" in lines[2]
    )
    assert (
        lines[3].startswith("  q-2")
        and "(2 of 2)" in lines[3]
        and lines[4].startswith("  q-1")
    )


def test_an_item_takes_one_answer(user: Machine) -> None:
    item = ask(user)

    first = user.run("answer", item, "the second one", "--by", "ann", "--json")
    second = user.run("answer", item, "the first one")

    assert first.code == 0
    assert first.json["item"]["answer"] == {
        **first.json["item"]["answer"],
        "text": "the second one",
        "by": "ann",
    }
    assert second.code == 1 and second.out == ""
    assert "already answered by ann" in second.err
    assert user.run("pending").out == "nothing is waiting\n"
    assert "answered by ann" in user.run("pending", "--all").out


@pytest.mark.parametrize("way", ["file", "stdin"])
def test_an_answer_may_come_from_a_file_or_standard_input(
    user: Machine, way: str
) -> None:
    item = ask(user)
    (user.project / "reply.txt").write_text("grün\n", encoding="utf-8")
    arguments = ["--file", "reply.txt"] if way == "file" else ["-"]

    done = user.run("answer", item, *arguments, "--json", stdin="grün\n")

    assert done.json["item"]["answer"]["text"] == "grün\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["q-99", "x"], "q-99"),
        (["q-1"], "empty"),
        (["q-1", "x", "--file", "y"], "not both"),
        (["q-1", "--file", "absent.txt"], "absent.txt"),
        (["q-1", "--status", "error"], "message"),
        (["q-1", "x", "--status", "fine"], "fine"),
        (["q-1", "x", "--message", "why"], "either a text"),
        (["q-1", "x", "--status", "error", "--message", "why"], "either a text"),
        ([], "ID"),
    ],
)
def test_a_mistaken_answer_is_refused_and_changes_nothing(
    user: Machine, arguments: list[str], complaint: str
) -> None:
    ask(user)

    done = user.run("answer", *arguments)

    assert (done.code, done.out) == (1, "")
    assert complaint in done.err and "Traceback" not in done.err
    with open_store(str(user.record), read_only=True) as store:
        assert len(store.pending()) == 1


def test_foreign_text_cannot_drive_the_terminal(user: Machine) -> None:
    ask(
        user,
        title="innocent \x1b[2J\x1b]0;owned\x07 \u202etitle",
        origin="rig \x1b[31mred",
    )

    assert "\x1b" not in user.run("pending").out
    assert "\u202e" not in user.run("pending").out


def test_a_record_of_a_newer_version_is_refused_with_its_own_words(
    user: Machine,
) -> None:
    import sqlite3

    record(user, sent(1))
    with sqlite3.connect(user.record) as database:
        database.execute("PRAGMA user_version = 9999")
    database.close()
    before = user.record.read_bytes()

    done = user.run("events")

    assert done.code == 2 and done.out == ""
    assert "newer" in done.err
    assert user.record.read_bytes() == before


def test_a_postgres_url_without_the_server_is_an_error_that_hides_the_password(
    user: Machine,
) -> None:
    done = user.run(
        "events", BRIDGEHEAD_STORE_URL="postgresql://ann:hunter2@127.0.0.1:1/none"
    )

    assert done.code == 2
    assert "hunter2" not in done.err and "127.0.0.1" in done.err


def test_the_record_is_private(user: Machine) -> None:
    record(user, sent(1))

    assert Path(user.record).stat().st_mode & 0o777 == 0o600


def test_a_whole_record_is_checked_copied_and_exported(user: Machine) -> None:
    record(user, sent(1), sent(2))
    ask(user)

    checked = user.run("record", "check", "--json").json
    assert checked["whole"] and checked["damage"] == []
    assert checked["counts"] == {"events": 4, "runs": 0, "pending": 1}
    assert (
        user.run("record", "backup", "kept.db", "--json").json["counts"]
        == checked["counts"]
    )
    again = user.run("record", "backup", "kept.db")
    assert again.code == 1 and "already exists" in again.err
    lines = [json.loads(line) for line in user.run("record", "export").out.splitlines()]
    assert [line["row"]["id"] for line in lines if line["table"] == "events"][1:3] == [
        "e1",
        "e2",
    ]
    assert all(
        line["schema_version"] == "1.0" and "damage" not in line for line in lines
    )


def test_what_is_old_is_pruned_and_what_waits_is_not(user: Machine) -> None:
    old = "2020-01-01T00:00:00.000Z"
    record(
        user,
        *(
            Event(id=f"o{n}", kind="doctor.checked", part=Part.RECORD, at=old)
            for n in range(40)
        ),
        sent(1),
    )
    item = ask(user)

    unlimited = {
        "BRIDGEHEAD_COUNCIL_KEEP_DAYS": "0",
        "BRIDGEHEAD_COUNCIL_KEEP_MIB": "0",
    }
    needs = user.run("record", "prune", **unlimited)
    assert needs.code == 1 and "store.keep_days" in needs.err
    by_itself = user.run("record", "prune")
    assert by_itself.out == "deleted 0 events, 0 runs, 0 pending items, 0 councils\n"
    would = user.run("record", "prune", "--days", "365", "--dry-run", "--json").json
    assert (
        would["deleted"] == {"events": 40, "runs": 0, "pending": 0} and would["dry_run"]
    )
    assert user.run("record", "check", "--json").json["counts"]["events"] == 43
    assert user.run("record", "prune", BRIDGEHEAD_STORE_KEEP_DAYS="365").out.startswith(
        "deleted 40 events, 0 runs, 0 pending items, 0 councils from before 20"
    )
    assert user.run("record", "check", "--json").json["counts"]["events"] == 4
    assert [one["id"] for one in user.run("pending", "--json").json["items"]] == [item]


def test_a_prune_creates_no_record_and_touches_no_damaged_one(user: Machine) -> None:
    assert user.run("record", "prune", "--days", "1").out.startswith("deleted nothing")
    assert not user.record.exists()
    record(user, sent(1))
    file = bytearray(user.record.read_bytes())
    file[file.index(b"t/ACK-1.md")] ^= 1
    user.record.write_bytes(file)

    refused = user.run("record", "prune", "--days", "0")

    assert (
        refused.code == 2
        and "is damaged" in refused.err
        and user.record.read_bytes() == file
    )


def test_a_damaged_record_is_refused_by_every_writer_and_what_is_readable_is_exported(
    user: Machine,
) -> None:
    record(user, *(sent(number) for number in range(30)))
    file = bytearray(user.record.read_bytes())
    place = file.index(b"t/ACK-17.md")
    file[place] ^= 1
    user.record.write_bytes(file)

    checked = user.run("record", "check")
    said = checked.out
    assert (
        checked.code == 2
        and "is damaged" in said
        and "row 19 was changed after it was written" in said
        and "record export" in said
    )
    diagnoses = user.run("doctor", "--json").json["checks"]
    assert [one["class"] for one in diagnoses if one["group"] == "record"] == [
        "record.unusable"
    ]
    assert "is damaged" in user.run("events", "--follow").err
    assert user.record.read_bytes() == file
    exported = user.run("record", "export", "--output", "left.jsonl")
    assert (exported.code, exported.out) == (
        2,
        "",
    ) and "damaged places: 2" in exported.err
    lines = [
        json.loads(line)
        for line in (user.project / "left.jsonl").read_text().splitlines()
    ]
    assert len([line for line in lines if line["row"] and "damage" not in line]) == 30
    assert (user.project / "left.jsonl").stat().st_mode & 0o777 == 0o600
