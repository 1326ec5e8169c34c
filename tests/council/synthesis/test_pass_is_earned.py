"""No mixture of seats that did not look ends in a PASS or opens a gate: a property with an oracle of its own.

The oracle knows which behaviour is a whole look because the test made it; it reads
nothing of the code under test. `make fuzz` tries many more examples.
"""

from __future__ import annotations

import json
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from bridgehead.contract.looks import Unlooked
from bridgehead.contract.words import ErrorClass
from bridgehead.council.calls import (
    CallFailed,
    Input,
    Reply,
    Step,
)
from bridgehead.council.reporting.gate import GateDemands, GatedState, decide_gate
from bridgehead.council.reporting.report import CouncilReport
from council.support.driving import AT, item
from council.test_council import Council, ready, skipped

DOMAINS: Final = ("security", "testing", "performance")
CLEAN: Final = json.dumps({"outputs": []})
INVENTED: Final = json.dumps(
    {"outputs": [item("Invented", severity="HIGH", evidence="src/orders.py:900")]}
)
TEXTS: Final = {
    "clean": CLEAN,
    "clean in prose": f"I looked at every file and found nothing to report.\n{CLEAN}",
    "clean in a fence": f"```json\n{CLEAN}\n```",
    "refused": f"I can't help with that.\n{CLEAN}",
    "refused in other words": f"I'm sorry, but I cannot review this code. {CLEAN}",
    "no access": f"I don't have access to the files you mention. {CLEAN}",
    "nothing given": f"No code was provided, so there is nothing to report. {CLEAN}",
    "prose": "Looks good to me!",
    "silence": "",
    "cut JSON": '{"outputs": [{"title": "A',
    "invented": INVENTED,
}
WHOLE: Final = frozenset({"clean", "clean in prose", "clean in a fence"})
FAILURES: Final = (
    ErrorClass.AUTH,
    ErrorClass.QUOTA,
    ErrorClass.TIMEOUT,
    ErrorClass.CONTENT_FILTER,
    ErrorClass.OTHER,
)
Behaviour = tuple[str, Unlooked | ErrorClass | None]

behaviours = st.one_of(
    st.tuples(st.sampled_from(sorted(TEXTS)), st.none()),
    st.tuples(
        st.sampled_from(sorted(TEXTS)),
        st.sampled_from([Unlooked.CUT, Unlooked.FILTERED, Unlooked.REFUSED]),
    ),
    st.tuples(st.just("failure"), st.sampled_from(FAILURES)),
)
seats = st.dictionaries(
    st.sampled_from(["claude", "codex", "gemini", "opencode"]),
    st.one_of(
        st.none(), st.tuples(*[behaviours] * len(DOMAINS))
    ),  # None: not installed
    min_size=1,
    max_size=3,
)


class Behaving(Council):
    """Answers the expert of a domain as the example says, and everybody else cleanly."""

    def __init__(self, example: dict[str, tuple[Behaviour, ...] | None]) -> None:
        self.example = example
        made = {
            name: ready(name) if behaviour else skipped(name)
            for name, behaviour in example.items()
        }
        super().__init__(made, lambda call: {}, task_fields={"domains": list(DOMAINS)})

    def feed(self, happened: Input) -> Council:
        return super().feed(self._behaving(happened))

    def _behaving(self, happened: Input) -> Input:
        if not isinstance(happened, Reply | CallFailed):
            return happened
        key = happened.key
        answered = key.step is Step.ANALYSIS and key.domain in DOMAINS
        if not answered:
            return Reply(key=key, text=CLEAN, at=AT)
        chosen = self.example[key.seat]
        assert chosen is not None
        text, how = chosen[DOMAINS.index(key.domain)]
        if isinstance(how, ErrorClass):
            return CallFailed(key=key, reason="cli_error: x", error_class=how, at=AT)
        return Reply(key=key, text=TEXTS[text], at=AT, shortfall=how)


def looked_to_the_end(behaviour: Behaviour) -> bool:
    text, how = behaviour
    return text in WHOLE and how is None


@given(example=seats)
def test_property_only_domains_that_a_model_looked_at_to_the_end_pass(
    example: dict[str, tuple[Behaviour, ...] | None],
) -> None:
    council = Behaving(example).drive()
    report = council.run.report
    present = [behaviour for behaviour in example.values() if behaviour is not None]
    is_covered = bool(present) and all(
        any(looked_to_the_end(behaviour[place]) for behaviour in present)
        for place in range(len(DOMAINS))
    )
    if not isinstance(report, CouncilReport):
        assert not is_covered
        return
    state = GatedState("the working tree", {})
    decision = decide_gate(report, GateDemands(), [state])
    assert decision.passed is is_covered, report.not_looked_at
    assert (report.verdict == "PASS") is is_covered
