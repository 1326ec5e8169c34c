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
from bridgehead.contract.words import CouncilProtocol, ErrorClass
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


# What one section of a shared answer says; in one call, a role may look and another not.
SECTIONS: Final = {
    "clean": {"outputs": []},
    "clean, said": {"outputs": [], "summary": "I read every file; nothing to report."},
    "missing": None,
    "no list": {"summary": "nothing"},
    "nothing valid": {"outputs": ["x"]},
    "refused": {"outputs": [], "summary": "I cannot review this code."},
    "invented": json.loads(INVENTED),
}
WHOLE_SECTIONS: Final = frozenset({"clean", "clean, said"})
AROUND: Final = {
    "plain": "{}",
    "in prose": "I looked at every file and found nothing to report.\n{}",
    "in a fence": "```json\n{}\n```",
    "refused": "I can't help with that.\n{}",
    "silence": "",
    "prose": "Looks good to me!",
}
WHOLE_REPLIES: Final = frozenset({"plain", "in prose", "in a fence"})
Shared = tuple[str, Unlooked | ErrorClass | None, tuple[str, ...]]

shared_seats = st.dictionaries(
    st.sampled_from(["claude", "codex", "gemini", "opencode"]),
    st.one_of(
        st.none(),
        st.tuples(
            st.sampled_from(sorted(AROUND)),
            st.one_of(
                st.none(),
                st.sampled_from([Unlooked.CUT, Unlooked.FILTERED, Unlooked.REFUSED]),
                st.sampled_from(FAILURES),
            ),
            st.tuples(*[st.sampled_from(sorted(SECTIONS))] * len(DOMAINS)),
        ),
    ),
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


class BehavingTogether(Council):
    """Answers the one call of a seat as the example says, and every other one cleanly."""

    def __init__(self, example: dict[str, Shared | None]) -> None:
        self.example = example
        made = {
            name: ready(name) if behaviour else skipped(name)
            for name, behaviour in example.items()
        }
        super().__init__(
            made,
            lambda call: {},
            task_fields={"domains": list(DOMAINS)},
            protocol=CouncilProtocol.SHARED,
        )

    def feed(self, happened: Input) -> Council:
        return super().feed(self._behaving(happened))

    def _behaving(self, happened: Input) -> Input:
        if not isinstance(happened, Reply | CallFailed):
            return happened
        key = happened.key
        if key.step is not Step.ANALYSIS:
            return Reply(key=key, text=CLEAN, at=AT)
        chosen = self.example[key.seat]
        assert chosen is not None
        around, how, said = chosen
        if isinstance(how, ErrorClass):
            return CallFailed(key=key, reason="cli_error: x", error_class=how, at=AT)
        listed = [
            {"domain": domain, **section}
            for domain, name in zip(DOMAINS, said, strict=True)
            if (section := SECTIONS[name]) is not None
        ]
        text = AROUND[around].replace("{}", json.dumps({"sections": listed}))
        return Reply(key=key, text=text, at=AT, shortfall=how)


def section_to_the_end(behaviour: Shared, place: int) -> bool:
    around, how, said = behaviour
    is_whole = around in WHOLE_REPLIES and how is None
    return is_whole and said[place] in WHOLE_SECTIONS


def looked_to_the_end(behaviour: Behaviour) -> bool:
    text, how = behaviour
    return text in WHOLE and how is None


@given(example=seats)
def test_property_only_domains_that_a_model_looked_at_to_the_end_pass(
    example: dict[str, tuple[Behaviour, ...] | None],
) -> None:
    council = Behaving(example).drive()
    present = [behaviour for behaviour in example.values() if behaviour is not None]
    is_covered = bool(present) and all(
        any(looked_to_the_end(behaviour[place]) for behaviour in present)
        for place in range(len(DOMAINS))
    )
    assert_it_passes_exactly_if(is_covered, council)


@given(example=shared_seats)
def test_property_in_shared_calls_too_only_sections_of_whole_looks_pass(
    example: dict[str, Shared | None],
) -> None:
    council = BehavingTogether(example).drive()
    present = [behaviour for behaviour in example.values() if behaviour is not None]
    is_covered = bool(present) and all(
        any(section_to_the_end(behaviour, place) for behaviour in present)
        for place in range(len(DOMAINS))
    )
    assert_it_passes_exactly_if(is_covered, council)


def assert_it_passes_exactly_if(is_covered: bool, council: Council) -> None:
    report = council.run.report
    if not isinstance(report, CouncilReport):
        assert not is_covered
        return
    state = GatedState("the working tree", {})
    decision = decide_gate(report, GateDemands(), [state])
    assert decision.passed is is_covered, report.not_looked_at
    assert (report.verdict == "PASS") is is_covered
