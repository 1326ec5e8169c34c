"""A council with the static seat alone, through the installed command."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from council.cli.conftest import committed_orders
from support.installed import Done, Machine

pytestmark = pytest.mark.xdist_group("council_cli")

BARE = "/usr/local/bin:/usr/bin:/bin"


def council(machine: Machine, *words: str, stdin: str = "") -> Done:
    return machine.run("council", *words, stdin=stdin, PATH=BARE)


def review(machine: Machine, *words: str) -> Done:
    return council(machine, "review", "--runtime", "static", *words)


def test_a_review_without_any_agent_reports_what_the_analysers_found_and_says_that_it_is_alone(
    orders: Machine,
) -> None:
    done = council(orders, "review")

    assert done.code == 0, done.err
    assert done.out.startswith("CONCERNS   ")
    assert "orders/store.py:10" in done.out
    assert "no model took part" in done.out
    assert "claude, gemini, codex and opencode (not installed)" in done.out
    written = sorted(
        path.suffix for path in (orders.project / ".outputs" / "council").iterdir()
    )
    assert written == [".html", ".json", ".md"]


@dataclass(frozen=True)
class Reviewed:
    """A machine on which a review has been made; tests only look."""

    machine: Machine
    document: dict[str, Any]
    sarif: Path


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> Reviewed:
    folder = tmp_path_factory.mktemp("reviewed")
    machine, sarif = committed_orders(folder), folder / "findings.sarif"
    return Reviewed(
        machine, review(machine, "--json", "--sarif", str(sarif)).json, sarif
    )


def test_json_is_the_report_with_its_schema_version_and_its_files(
    reviewed: Reviewed,
) -> None:
    document = reviewed.document

    assert document["schema_version"] == "1.0"
    assert document["type"] == "deep-council"
    saved = json.loads(
        (reviewed.machine.project / document["report_files"]["json"]).read_text()
    )
    assert saved["review_id"] == document["review_id"]
    assert saved["verdict"] == document["verdict"] == "CONCERNS"


def test_what_was_understood_of_the_request_is_kept(reviewed: Reviewed) -> None:
    (kept,) = (reviewed.machine.project / ".outputs" / "context").glob("*.json")
    understood = json.loads(kept.read_text())["scope_clarification"]

    assert (understood["intent"], understood["questions_asked"]) == ("review", 0)
    assert sorted(understood) == [
        *(
            "artifact",
            "assumptions",
            "confidence",
            "constraints",
            "domains",
            "intent",
            "questions_asked",
        )
    ]


def test_a_gate_turns_the_verdict_into_exit_code_3(orders: Machine) -> None:
    assert review(orders, "--gate", "fail").code == 0
    assert review(orders, "--gate", "concerns").code == 3
    assert council(orders, "gate").code == 0
    assert council(orders, "gate", "--level", "concerns").code == 3


def test_nothing_found_is_one_line_and_passes(orders: Machine) -> None:
    (orders.project / "orders" / "fine.py").write_text('"""Nothing to see."""\n')

    done = review(orders, "orders/fine.py")

    assert done.out.splitlines()[0].startswith("PASS   nothing found by 1 seat")


def test_a_dismissed_finding_is_listed_apart_and_later_runs_know_the_rest(
    orders: Machine,
) -> None:
    first = review(orders, "--json").json
    worst = first["single_source_findings"][0]

    dismissed = council(
        orders, "dismiss", worst["id"], "--reason", "rotated", "--until", "2999-01-01"
    )
    second = review(orders, "--json").json

    assert dismissed.code == 0, dismissed.err
    assert [one["title"] for one in second["dismissed_findings"]] == [worst["title"]]
    assert second["comparison"]["previous_review_id"] == first["review_id"]
    assert second["comparison"]["new"] == []
    assert len(second["comparison"]["persistent"]) == len(
        second["single_source_findings"]
    )
    assert (
        len(second["single_source_findings"])
        == len(first["single_source_findings"]) - 1
    )


def test_looking_at_one_file_says_nothing_about_findings_elsewhere(
    orders: Machine,
) -> None:
    review(orders)

    narrow = review(orders, "orders/store.py", "--json").json
    whole = review(orders, "--json").json

    assert narrow["comparison"]["fixed"] == []
    assert whole["comparison"]["new"] == whole["comparison"]["regressed"] == []


def test_a_gate_is_about_the_files_that_were_reviewed(orders: Machine) -> None:
    review(orders, "orders/store.py")
    file = orders.project / "orders" / "store.py"
    before = file.read_text()
    (orders.project / "orders" / "new.py").write_text("x = 1\n")
    (orders.project / ".bridgehead").mkdir(exist_ok=True)
    (orders.project / ".bridgehead" / "dismissals.toml").write_text(
        ""
    )  # ours, never part of a review
    assert council(orders, "gate").code == 0  # the next commit would not have it
    subprocess.run(["git", "add", "--all"], cwd=orders.project, check=True)

    narrower = council(orders, "gate", "--json")
    assert (narrower.code, narrower.json["passed"]) == (3, False)
    assert narrower.json["refused_because"] == [
        "it did not look at what the working tree changes: orders/new.py"
    ]
    assert (
        council(orders, "gate", "--commit", "HEAD").code == 0
    )  # the commit does not have it

    file.write_text(before + "\n# later\n")
    commit_all(orders.project)
    other = council(orders, "gate", "--commit", "HEAD", "--json")
    assert other.code == 3
    assert other.json["refused_because"] == [
        "it is about another state than commit HEAD: orders/store.py",
        "it did not look at what commit HEAD changes: orders/new.py",
    ]

    assert council(orders, "gate", "--require-runtime", "claude").code == 3


def commit_all(project: Path) -> None:
    identity = [
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@example.org",
        "-c",
        "commit.gpgsign=false",
    ]
    subprocess.run(["git", "add", "--all"], cwd=project, check=True)
    subprocess.run(
        ["git", *identity, "commit", "--quiet", "-m", "more"], cwd=project, check=True
    )


def test_a_change_cannot_dismiss_its_own_finding_for_the_gate(orders: Machine) -> None:
    source = orders.project / "orders" / "store.py"
    source.write_text(
        source.read_text() + "\n\ndef run(text: str):\n    return eval(text)\n"
    )
    found = review(orders, "--diff", "HEAD", "--json").json["single_source_findings"]
    for finding in found:
        council(orders, "dismiss", finding["id"], "--reason", "trust me")

    refused = review(orders, "--diff", "HEAD", "--gate", "concerns")
    allowed = review(
        orders, "--diff", "HEAD", "--gate", "concerns", "--allow-new-dismissals"
    )

    assert (refused.code, allowed.code) == (3, 0), refused.out + allowed.out


def test_watch_prints_one_object_per_line_and_ends_with_the_report(
    orders: Machine,
) -> None:
    lines = [json.loads(line) for line in review(orders, "--watch").out.splitlines()]

    assert lines[0]["event"] == "council_start"
    assert {"bridge_start", "output", "bridge_complete"} <= {
        line["event"] for line in lines
    }
    assert lines[-1]["event"] == "report"
    assert lines[-1]["verdict"] == "CONCERNS"


def test_sarif_is_written_where_asked_and_shown_from_an_earlier_report(
    reviewed: Reviewed,
) -> None:
    written = json.loads(reviewed.sarif.read_text())
    shown = json.loads(council(reviewed.machine, "show", "--format", "sarif").out)

    assert written == shown
    assert written["version"] == "2.1.0"


def test_the_record_knows_the_council_its_lines_and_its_report(
    reviewed: Reviewed,
) -> None:
    review_id = reviewed.document["review_id"]

    events = reviewed.machine.run(
        "events", "--run", review_id, "--json", "--limit", "200"
    ).json["events"]
    listed = council(reviewed.machine, "list", "--json").json["councils"]

    kinds = [event["kind"] for event in events]
    assert kinds[0] == "council.started" and kinds[-2:] == [
        "council.reported",
        "notice",
    ]
    assert (events[-1]["data"]["kind"], events[-1]["data"]["status"]) == (
        "council",
        "finished",
    )
    assert events[-1]["data"]["title"].startswith("CONCERNS: review of ")
    assert [one["review_id"] for one in listed] == [review_id]
    assert listed[0]["state"] == "done"


def test_a_dry_run_names_who_makes_no_call_and_writes_nothing(orders: Machine) -> None:
    done = council(orders, "review", "--dry-run")

    assert done.code == 0, done.err
    assert "static   no model call: static analysis" in done.out
    assert done.out.endswith("at least 0 calls, at most 0; none was made\n")
    assert not (orders.project / ".outputs").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("review", "nowhere.py"), "there is no such file"),
        (("review", "--runtime", "mystery"), "there is no runtime named 'mystery'"),
        (("review", "--staged", "--diff", "HEAD"), "give only one of"),
        (("plan", "--gate", "fail", "--task", "x"), "--gate needs a verdict"),
        (("implement", "--task", "x"), "implement takes exactly one --runtime"),
        (("review", "--host-seat"), "cannot tell which agent"),
        (("review", "--id", ".."), "--id '..' is not a valid council ID"),
        (("ask",), "ask needs a request"),
        (("resume",), "no council of this project is open"),
        (("resume", "nobody"), "no council 'nobody'"),
        (("show",), "no report in this project yet"),
        (("gate",), "no report in this project yet"),
        (("dismiss", "SS001", "--reason", "x"), "no report in this project yet"),
        (("review", "--intensity", "endless"), "invalid value for '--intensity'"),
    ],
)
def test_a_mistake_exits_1_says_what_it_was_and_prints_nothing(
    orders: Machine, words: tuple[str, ...], says: str
) -> None:
    done = council(orders, *words)

    assert (done.code, done.out) == (1, "")
    assert says in done.err
    assert "Traceback" not in done.err


def test_a_critical_finding_is_dismissed_only_on_purpose(orders: Machine) -> None:
    found = review(orders, "--json").json
    path = orders.project / found["report_files"]["json"]
    found["single_source_findings"][0]["severity"] = "CRITICAL"
    path.write_text(json.dumps(found))
    critical = found["single_source_findings"][0]["id"]

    refused = council(orders, "dismiss", critical, "--reason", "x")

    assert refused.code == 1
    assert "--accept-critical" in refused.err
    assert not (orders.project / ".bridgehead" / "dismissals.toml").exists()


def test_the_tree_stays_clean(reviewed: Reviewed) -> None:
    shown = subprocess.run(
        ["git", "status", "--porcelain"],
        cwd=reviewed.machine.project,
        env=reviewed.machine.environ(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == ""


def test_rules_of_ours_say_in_sarif_what_is_wrong_and_what_to_do(
    reviewed: Reviewed,
) -> None:
    (run,) = json.loads(reviewed.sarif.read_text())["runs"]
    rules = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
    rule = rules["ast-grep/py-sql-built"]

    assert (
        rule["shortDescription"]["text"]
        == "SQL injection: the query is built from strings and executed"
    )
    assert "second argument of execute" in rule["help"]["text"]
    assert {"security", "external/cwe/cwe-089"} <= set(rule["properties"]["tags"])
    assert all(
        run["tool"]["driver"]["rules"][one["ruleIndex"]]["id"] == one["ruleId"]
        for one in run["results"]
    )


ONE_PLACE = "function a(file) {\n  exec('convert ' + file, done)\n}\n"
ANOTHER_PLACE = "function b(file) {\n  exec('remove all of ' + file, done)\n}\n"


@pytest.fixture
def accepted(tmp_path: Path) -> Machine:
    """A project whose findings are accepted."""
    machine = committed_orders(tmp_path)
    (machine.project / "images.js").write_text(ONE_PLACE)
    assert review(machine, ".").code == 0
    done = council(machine, "baseline", "--json", "--reason", "as it is")
    assert done.json["accepted"] > 1, done.err
    return machine


def test_a_finding_of_one_source_cannot_be_split(tmp_path: Path) -> None:
    machine = committed_orders(tmp_path)
    (machine.project / "images.js").write_text(ONE_PLACE)
    finding = review(machine, "images.js", "--json").json["single_source_findings"][0]
    [source] = [one["finding_id"] for one in finding["source_findings"]]

    refused = machine.run("council", "split", finding["id"], source)

    assert refused.code == 1 and f"is made of {source}" in refused.err
    assert not (machine.project / ".bridgehead" / "splits.toml").exists()


def standing(machine: Machine) -> list[str]:
    document = review(machine, ".", "--json").json
    return [entry["title"] for entry in document["single_source_findings"]]


def test_after_a_baseline_only_new_findings_speak(accepted: Machine) -> None:
    written = (accepted.project / ".bridgehead" / "baseline.toml").read_text()

    assert standing(accepted) == []
    assert (
        'title = "Command injection: the shell command is built from strings"'
        in written
    )
    assert written.count("\n") == written.count("fingerprint =") + 3
    assert (
        "!baseline.toml"
        in (accepted.project / ".bridgehead" / ".gitignore").read_text()
    )


def test_moved_lines_stay_accepted_and_one_more_place_does_not(
    accepted: Machine,
) -> None:
    images = accepted.project / "images.js"

    images.write_text(f"// moved\n\n{ONE_PLACE}")
    assert standing(accepted) == []
    images.write_text(ONE_PLACE + ANOTHER_PLACE)
    assert standing(accepted) == [
        "Command injection: the shell command is built from strings (2 places)"
    ]


def test_a_baseline_of_one_file_keeps_the_others_and_lets_go_of_what_is_gone(
    accepted: Machine,
) -> None:
    images, more = accepted.project / "images.js", accepted.project / "more.js"
    more.write_text(ANOTHER_PLACE)
    assert review(accepted, "more.js").code == 0
    one = council(accepted, "baseline", "--json").json
    assert standing(accepted) == []
    images.unlink()
    assert review(accepted, ".").code == 0
    other = council(accepted, "baseline", "--json").json

    assert (one["accepted"], other["accepted"], other["kept"]) == (1, 0, one["kept"])
    assert (
        "images.js"
        not in (accepted.project / ".bridgehead" / "baseline.toml").read_text()
    )


def test_code_that_changed_since_the_review_is_not_accepted(accepted: Machine) -> None:
    (accepted.project / "more.js").write_text(ANOTHER_PLACE)
    assert review(accepted, ".").code == 0
    (accepted.project / "more.js").write_text("\n")
    done = council(accepted, "baseline")

    assert done.code == 1
    assert "has changed since the review" in done.err
