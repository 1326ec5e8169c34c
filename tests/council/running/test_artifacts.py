"""Names, logs and masking of the files a council leaves (council §18)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridgehead.contract.report import Output
from bridgehead.contract.task import BridgeInput
from bridgehead.contract.words import Confidence, LocalCouncilType, OutputType, Severity
from bridgehead.council.calls import SeatEvent
from bridgehead.council.reporting.render.markdown import render_seat
from bridgehead.council.reporting.seat_report import (
    Analysed,
    SeatFacts,
    completed_report,
)
from bridgehead.council.running.artifacts import Mask, OutputFolder
from bridgehead.errors import FileError
from bridgehead.host.clock import ManualClock

TASK = BridgeInput(
    session_id="k3v9qa", scope="src/", task_description="look", domains=("security",)
)
EVENT = SeatEvent("claude", "warning", {"detail": "x"})


def folder(
    project: Path, *, goes_on: bool = False, session: str = "k3v9qa"
) -> OutputFolder:
    mask = Mask({"MY_API_KEY": "sk-very-secret", "PATH": "/bin"})
    return OutputFolder(project, session, ManualClock(), mask=mask, goes_on=goes_on)


def report(title: str = "t") -> object:
    output = Output(
        id="C001",
        type=OutputType.FINDING,
        severity=Severity.HIGH,
        status=None,
        title=title,
        description="d",
        evidence="a.py:1",
        action=None,
        domain="security",
        agent="expert",
    )
    facts = SeatFacts(
        name="claude",
        timeout_seconds=60,
        started_at="a",
        finished_at="b",
        connection="cli",
    )
    found = Analysed(
        (output,), Confidence.HIGH, LocalCouncilType.AGENT_COUNCIL, ("security",)
    )
    return completed_report(TASK, facts, found)


def names(project: Path) -> list[str]:
    return sorted(
        path.relative_to(project).as_posix()
        for path in (project / ".outputs").rglob("*")
        if path.is_file()
    )


def test_names_say_who_and_when_and_which_run(tmp_path: Path) -> None:
    outputs = folder(tmp_path)
    outputs.write_event(EVENT)
    outputs.write_event(SeatEvent("rig:win-5080", "warning", {}))
    outputs.write_council(markdown="m", document={"a": 1}, html="h")

    assert names(tmp_path) == [
        ".outputs/.gitignore",
        ".outputs/bridges/claude-20261115-101502-k3v9qa.jsonl",
        ".outputs/bridges/rig-win-5080-20261115-101502-k3v9qa.jsonl",
        ".outputs/council/20261115-101502-council-k3v9qa.html",
        ".outputs/council/20261115-101502-council-k3v9qa.json",
        ".outputs/council/20261115-101502-council-k3v9qa.md",
    ]
    assert (tmp_path / ".outputs/.gitignore").read_text() == "*\n"


def test_a_name_that_is_taken_gets_a_number(tmp_path: Path) -> None:
    for _ in range(2):
        folder(tmp_path).write_event(EVENT)
        written = folder(tmp_path).write_council(markdown="m", document={}, html="h")

    assert (
        tmp_path / ".outputs/bridges/claude-20261115-101502-k3v9qa-2.jsonl"
    ).exists()
    assert written == ".outputs/council/20261115-101502-council-k3v9qa-2"


def test_a_resumed_run_continues_its_logs_and_a_new_seating_opens_another(
    tmp_path: Path,
) -> None:
    folder(tmp_path).write_event(EVENT)
    later = folder(tmp_path, goes_on=True)

    assert later.write_event(EVENT)["seq"] == 2
    later.new_seating("claude")
    assert later.write_event(EVENT)["seq"] == 1
    assert len(list((tmp_path / ".outputs/bridges").iterdir())) == 2


def test_a_resumed_run_leaves_the_log_of_a_run_alone_whose_name_begins_like_its_own(
    tmp_path: Path,
) -> None:
    for session in ("r1", "r10"):
        folder(tmp_path, session=session).write_event(EVENT)
    line = folder(tmp_path, session="r1", goes_on=True).write_event(EVENT)
    counted = {
        path.stem.rpartition("-")[2]: path.read_bytes().count(b"\n")
        for path in (tmp_path / ".outputs/bridges").glob("*.jsonl")
    }
    assert line["seq"] == 2
    assert counted == {"r1": 2, "r10": 1}


def test_every_line_has_its_event_time_and_number_and_no_secret(tmp_path: Path) -> None:
    outputs = folder(tmp_path)
    outputs.write_event(
        SeatEvent(
            "claude",
            "agent_failed",
            {"reason": "sk-very-secret was refused", "round": 1},
        )
    )

    line = json.loads(
        (tmp_path / ".outputs/bridges/claude-20261115-101502-k3v9qa.jsonl").read_text()
    )
    assert line == {
        "event": "agent_failed",
        "ts": "2026-11-15T10:15:02.123Z",
        "seq": 1,
        "reason": "[masked] was refused",
        "round": 1,
    }


def test_a_secret_of_digits_leaves_numbers_alone_and_is_kept_from_watchers_too(
    tmp_path: Path,
) -> None:
    outputs = OutputFolder(
        tmp_path, "r1", ManualClock(), mask=Mask({"PIN_TOKEN": "120000"})
    )
    told = outputs.write_event(
        SeatEvent("claude", "agent_reply", {"chars": 120000, "detail": "pin 120000"})
    )
    (log,) = (tmp_path / ".outputs/bridges").glob("*.jsonl")

    assert (told["chars"], told["detail"]) == (120000, "pin [masked]")
    assert json.loads(log.read_text()) == told


@pytest.mark.parametrize("session", ["../../etc", "a/b", "x y"])
def test_no_session_id_leads_out_of_the_folder(tmp_path: Path, session: str) -> None:
    folder(tmp_path, session=session).write_event(EVENT)

    assert all(name.startswith(".outputs/") for name in names(tmp_path))
    assert len(list((tmp_path / ".outputs/bridges").iterdir())) == 1


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    project = tmp_path / "project"
    project.mkdir()
    (project / ".outputs").symlink_to(elsewhere)

    with pytest.raises(FileError):
        folder(project).write_event(EVENT)
    assert list(elsewhere.iterdir()) == []


def test_the_summary_names_its_files_and_cannot_be_broken_out_of(
    tmp_path: Path,
) -> None:
    outputs = folder(tmp_path)
    outputs.write_event(EVENT)
    artifacts = outputs.write_seat(report("</td> | [click](http://evil) ```"))  # type: ignore[arg-type]

    text = (tmp_path / (artifacts.markdown or "")).read_text()
    table = next(line for line in text.splitlines() if line.startswith("| C001"))
    assert r"&lt;/td&gt; \| \[click\]\(http://evil\)" in table
    assert f'"jsonl": "{artifacts.jsonl}"' in text
    assert text.startswith('---\nbridge: "claude"\n')


def test_the_summary_shows_what_preflight_found_out() -> None:
    preflight = [
        {
            "step": "auth_check",
            "result": "failed",
            "connection": "cli",
            "detail": "not_authenticated",
        }
    ]
    text = render_seat(report(), preflight, timestamp="2026-11-15T10:15:02.123Z")  # type: ignore[arg-type]

    assert "| auth\\_check | failed | cli, not\\_authenticated |" in text


def test_half_characters_do_not_stop_the_log(tmp_path: Path) -> None:
    folder(tmp_path).write_event(
        SeatEvent("claude", "warning", {"detail": "cut \ud83d"})
    )

    assert (
        "cut ?"
        in (
            tmp_path / ".outputs/bridges/claude-20261115-101502-k3v9qa.jsonl"
        ).read_text()
    )


@pytest.mark.parametrize(
    ("environment", "text", "expected"),
    [
        ({"A_KEY": "abcdef"}, "is abcdef", "is [masked]"),
        (
            {"GITHUB_TOKEN": "ghp_123456", "DB_PASSWORD": "hunter22"},
            "ghp_123456:hunter22",
            "[masked]:[masked]",
        ),
        ({"A_KEY": "abc"}, "abc", "abc"),
        ({"HOME": "/home/me"}, "/home/me", "/home/me"),
        ({}, "x", "x"),
    ],
)
def test_values_of_keys_tokens_and_passwords_are_masked(
    environment: dict[str, str], text: str, expected: str
) -> None:
    assert Mask(environment)(text) == expected


def test_a_value_is_masked_as_json_writes_it_too() -> None:
    password = 'pa"ss\\wörd'
    line = json.dumps({"detail": f"refused {password}"}, ensure_ascii=False)
    assert json.loads(Mask({"DB_PASSWORD": password})(line)) == {
        "detail": "refused [masked]"
    }
