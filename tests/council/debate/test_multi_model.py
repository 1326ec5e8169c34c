"""One seat with several models: a first look each, joined; no debate unless asked for (council §12.1)."""

from __future__ import annotations

import json
from typing import Any

from msgspec import structs

from bridgehead.contract.report import BridgeReport
from bridgehead.contract.words import LocalCouncilType, Status
from bridgehead.council.calls import Call, DeadlineReached, Reply, Result, Role, Step
from bridgehead.council.debate.multi_model import MultiModelRun
from council.support.driving import AT, Driver, item, items, seat, surroundings, task
from tools.schema_files import violations

MODELS = ("glm/glm-4-7", "kimi/moonshot", "qwen/plus")
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon"]


def drive_models(finds: dict[str, Any], **fields: Any) -> tuple[Driver, BridgeReport]:
    def says(call: Call) -> object:
        if call.key.step is Step.ANALYSIS and call.key.role is Role.EXPERT:
            found = finds.get(call.key.model or "")
            return (
                None
                if found is None
                else items(
                    *(item(f"Problem {word} {word}x", evidence=None) for word in found)
                )
            )
        if call.key.model in finds or call.key.step is not Step.ANALYSIS:
            return {"outputs": [], "rulings": [], "challenges": [], "responses": []}
        return None

    several = seat("opencode", models=MODELS, **fields.pop("seat_fields", {}))
    driver = Driver(MultiModelRun(several, task(**fields), surroundings()), says)
    report = driver.drive()
    assert violations(report) == []
    return driver, report


def test_what_two_models_found_is_merged_and_the_rest_keeps_its_model() -> None:
    finds = {"glm/glm-4-7": WORDS, "kimi/moonshot": [*WORDS[:3], "zeta"]}
    _, report = drive_models(finds)
    ids = sorted(output.id for output in report.outputs)
    assert ids == [
        "O-glm-004",
        "O-glm-005",
        "O-kimi-004",
        "O-merged-001",
        "O-merged-002",
        "O-merged-003",
    ]
    merged = next(output for output in report.outputs if output.id == "O-merged-001")
    assert merged.confirmed_by_models == MODELS[:2]
    assert merged.intra_bridge_model_confirmed is True
    assert (
        report.models_used,
        report.instances_completed,
        report.intra_bridge_confirmed,
    ) == (MODELS[:2], 2, 3)
    assert (report.debate_rounds, report.local_council_type) == (
        0,
        LocalCouncilType.MODEL_COUNCIL,
    )


def test_every_model_is_asked_by_every_role_at_once() -> None:
    driver, _ = drive_models(
        {model: ["alpha"] for model in MODELS}, domains=["security", "api"]
    )
    assert len(driver.calls) == 3 * 4
    assert {call.key.model for call in driver.calls} == set(MODELS)
    assert len({str(call.key) for call in driver.calls}) == 12


def test_domains_that_models_point_to_are_named_as_unexplored() -> None:
    said = items(item(), signals=[{"domain": "database", "reason": "the schema"}])
    driver = Driver(
        MultiModelRun(seat("opencode", models=MODELS), task(), surroundings()),
        lambda call: said,
    )
    assert driver.drive().unexplored_domains == ("database",)


def test_no_model_with_an_answer_skips_the_seat() -> None:
    _, report = drive_models({})
    assert (report.status, report.models_used) == (Status.SKIPPED, ())


def test_at_the_deadline_the_models_that_answered_are_reported_under_their_names() -> (
    None
):
    run = MultiModelRun(seat("opencode", models=MODELS), task(), surroundings())
    calls = run.start(AT).calls
    for call in calls:
        if call.key.model == MODELS[1]:
            run.feed(Reply(key=call.key, text=json.dumps(items(item())), at=AT))
    report = run.feed(DeadlineReached(seat="opencode", at=AT)).seat_reports[0]
    assert {output.id[:7] for output in report.outputs} == {"O-kimi-"}
    assert (report.status, report.models_used, report.confidence) == (
        "COMPLETED",
        MODELS[1:2],
        "medium",
    )


def test_a_debate_over_the_joined_set_uses_the_first_model_once() -> None:
    driver, report = drive_models(
        {model: ["alpha"] for model in MODELS},
        seat_fields={"debate_merged": True},
        intensity="thorough",
    )
    later = [call for call in driver.calls if call.key.step is not Step.ANALYSIS]
    assert later and {call.key.model for call in later} == {MODELS[0]}
    assert report.debate_rounds == 1


def test_the_debating_model_goes_on_in_its_own_session() -> None:
    def says(call: Call) -> object:
        return (
            items(item())
            if call.key.step is Step.ANALYSIS
            else {"challenges": [], "outputs": []}
        )

    class Telling(Driver):
        def answer(self, call: Call) -> Result:
            said = super().answer(call)
            assert isinstance(said, Reply)
            return structs.replace(
                said, session=f"{call.key.agent} of {call.key.model}"
            )

    several = seat("opencode", models=MODELS, debate_merged=True, keeps_history=True)
    driver = Telling(MultiModelRun(several, task(), surroundings()), says)
    driver.drive()
    later = {call.session for call in driver.calls if call.key.step is Step.CHALLENGE}
    assert later == {f"integration of {MODELS[0]}", f"challenger of {MODELS[0]}"}
