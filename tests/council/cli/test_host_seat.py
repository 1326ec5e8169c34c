"""The agent that runs us takes a seat: exit 42, its answers, the report (council §4)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.installed import Done, Machine

pytestmark = pytest.mark.xdist_group("council_cli")

MOST_PAUSES = 12
FINDING = {
    "type": "finding",
    "severity": "CRITICAL",
    "title": "Order id reaches the SQL text",
    "description": "It is joined into the statement.",
    "evidence": "orders/store.py:10 `WHERE id = '\" + order_id`",
}


def begin(machine: Machine, *words: str) -> Done:
    return machine.run(
        *(
            "council",
            "review",
            "orders/store.py",
            "--host-seat",
            "claude",
            "--runtime",
            "claude",
        ),
        *("--intensity", "quick", "--domain", "security", *words),
    )


def request_of(machine: Machine) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(
        (machine.project / ".agent-request.json").read_text()
    )
    return loaded


def answer(machine: Machine, text: str) -> None:
    request = request_of(machine)
    response = {
        "request_id": request["request_id"],
        "version": "1.0",
        "status": "success",
        "response": text,
        "created_at": request["created_at"],
    }
    (machine.project / ".agent-response.json").write_text(json.dumps(response))


def test_the_host_answers_prompt_by_prompt_and_its_findings_are_in_the_report(
    orders: Machine,
) -> None:
    paused = begin(orders)
    assert paused.code == 42, paused.err
    assert "BRIDGEHEAD-PAUSE {" in paused.err
    assert request_of(orders)["agent_name"] == "council-claude"
    assert request_of(orders)["phase_name"] == "round1_analysis"

    asked: list[str] = []
    done = paused
    for _ in range(MOST_PAUSES):
        asked.append(request_of(orders)["request_id"])
        answer(orders, json.dumps({"outputs": [FINDING]}))
        done = orders.run("council", "resume", "--json")
        if done.code != 42:
            break

    assert done.code == 0, done.err
    assert len(set(asked)) == len(asked), "a request was handed out twice"
    assert done.json["verdict"] == "FAIL"
    assert done.json["participants"][0]["connection"] == "native-dispatch"
    assert not (orders.project / ".agent-request.json").exists()
    assert orders.run("pending", "--json").json["items"] == []

    found = done.json["single_source_findings"][0]["id"]
    assert (
        orders.run("council", "challenge", found, "is it bound elsewhere?").code == 42
    )
    note = {
        "finding_id": found,
        "outcome": "downgraded",
        "new_severity": "LOW",
        "response": f"{FINDING['evidence']}: only numbers get there",
    }
    answer(orders, json.dumps({"challenge_notes": [note]}))
    challenged = orders.run("council", "resume", "--json")
    assert challenged.code == 0, challenged.err
    assert challenged.json["single_source_findings"][0]["severity"] == "LOW"
    assert challenged.json["supersedes"] == done.json["report_files"]["markdown"]


def test_resuming_without_an_answer_waits_for_the_same_request(orders: Machine) -> None:
    begin(orders)
    first = request_of(orders)

    again = orders.run("council", "resume")

    assert again.code == 42
    assert request_of(orders) == first


def test_an_answer_through_the_pending_list_counts_like_a_file(orders: Machine) -> None:
    begin(orders)
    before = request_of(orders)["request_id"]
    items = orders.run("pending", "--json").json["items"]
    wanted = next(item["id"] for item in items if item["question"]["key"] == before)

    answered = orders.run("answer", wanted, json.dumps({"outputs": []}))
    orders.run("council", "resume")

    assert answered.code == 0, answered.err
    assert request_of(orders)["request_id"] != before


def test_closing_gives_the_waiting_seat_up_and_clears_the_desk(orders: Machine) -> None:
    begin(orders, "--runtime", "static")

    done = orders.run("council", "resume", "--close", "--json")

    assert done.code == 0, done.err
    assert done.json["skip_reasons"] == {"claude": "no_answer"}
    assert not (orders.project / ".agent-request.json").exists()
    assert orders.run("council", "resume").code == 1


def test_a_second_host_seat_in_the_same_project_is_refused_and_names_the_first(
    orders: Machine,
) -> None:
    begin(orders)
    held = request_of(orders)

    refused = begin(orders)

    assert (refused.code, refused.out) == (1, "")
    assert "has a paused run" in refused.err
    assert request_of(orders) == held
