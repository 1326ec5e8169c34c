"""A seat on another machine: the bridge input goes out as a REQUEST, a bridge report comes back as a RESPONSE.

The remote does its own debate. What it sends is foreign text (council §23): parsed like a model's reply, types and
severities normalised, ids given anew, its verdict and confidence ignored. How envelopes travel and which of them are to
be refused is known by the transport that is handed in; this part never sees a repository.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Protocol

import msgspec

from bridgehead.contract.ids import numbered_id
from bridgehead.contract.report import BridgeReport, DisputedOutput, Output
from bridgehead.contract.task import BridgeInput, normalise_domain
from bridgehead.contract.words import Confidence, LocalCouncilType, OutputState, Status
from bridgehead.council.replies.items import Draft, Intake, as_line
from bridgehead.council.replies.reply import Answered, Found, read_reply
from bridgehead.council.reporting.seat_report import (
    Analysed,
    SeatFacts,
    completed_report,
    excerpt,
    skipped_report,
)
from bridgehead.council.request.domains import CROSS_DOMAIN
from bridgehead.council.runtimes.base import NO_CONNECTION, Runtime, runtime

UNKNOWN_FAMILY: Final = "unknown"
UNREADABLE: Final = "unreadable_report"
MOST_CLAIMED: Final = 200
MOST_MODELS: Final = 20
_USAGE: Final = (
    "calls",
    "prompt_chars",
    "reply_chars",
    "tokens_in",
    "tokens_out",
    "cost_usd",
)


@runtime("rig")
class RigRuntime(Runtime):
    model_family = UNKNOWN_FAMILY
    id_prefix: ClassVar = "R"
    missing = NO_CONNECTION
    missing_halt = NO_CONNECTION
    install_hint = "`bridgehead rig status` shows which rigs are known"


@dataclass(frozen=True, slots=True)
class RigAnswer:
    """A RESPONSE that may be used. `verified`: a good signature by a known signer."""

    body: str
    verified: bool


@dataclass(frozen=True, slots=True)
class RigRejected:
    """A RESPONSE that is there and must not be used; the seat stays pending."""

    reason: str


class SeatTransport(Protocol):
    """How a council reaches rigs; implemented over the rigs part and handed in by the assembly."""

    def knows(self, rig_id: str) -> bool:
        """Whether the configured repository has this rig."""
        ...

    def ask(self, rig_id: str, *, thread: str | None, title: str, body: str) -> str:
        """Send a REQUEST; returns the name under which its answer is looked for."""
        ...

    def answer(self, rig_id: str, request: str) -> RigAnswer | RigRejected | None:
        """The RESPONSE to that request; None while there is none."""
        ...


def request_body(task: BridgeInput, commit: str | None) -> str:
    """What a remote seat is told: the bridge input and the commit it is about, for people and for programs."""
    request = {"bridge_input": msgspec.to_builtins(task), "commit": commit}
    return (
        f"Please take a seat in council {task.session_id}: {task.task_type} of "
        f"{task.scope_text}.\n\n"
        "Answer with a RESPONSE in this thread that holds your bridge report as one "
        "fenced JSON block, with the\n"
        "`session_id` below and the `commit` you looked at.\n\n"
        f"```json\n{json.dumps(request, indent=2, ensure_ascii=False)}\n```\n"
    )


def read_answer(
    answer: RigAnswer, task: BridgeInput, commit: str | None, facts: SeatFacts
) -> BridgeReport | RigRejected:
    """The report in an answer, in our words, or why the answer cannot be used."""
    read = read_reply(answer.body, _read_report)
    if not isinstance(read, Answered):
        return RigRejected(UNREADABLE)
    document = read.value
    if document.get("session_id") != task.session_id:
        return RigRejected("other_session")
    if commit is not None and document.get("commit") != commit:
        return RigRejected("other_commit")
    return _in_our_words(
        document, answer, task, replace(facts, extra={"remote": _claim(document)})
    )


def _read_report(value: Any) -> Found[dict[str, Any]] | None:
    if not isinstance(value, dict):
        return None
    inner = value.get("bridge_report", value)
    if (
        not isinstance(inner, dict)
        or "session_id" not in inner
        or not isinstance(inner.get("outputs"), list)
    ):
        return None
    return Found(
        {**inner, "commit": inner.get("commit", value.get("commit"))},
        1 + len(inner["outputs"]),
    )


def _in_our_words(
    document: Mapping[str, Any], answer: RigAnswer, task: BridgeInput, facts: SeatFacts
) -> BridgeReport:
    family = _claimed(document.get("model_family")) if answer.verified else ""
    seated = replace(facts, model_family=family or UNKNOWN_FAMILY, connection="rig")
    if document.get("status") != Status.COMPLETED:
        reason = (
            as_line(document.get("skip_reason") or document.get("halt_reason"))
            or "it did not complete"
        )
        return skipped_report(task, seated, f"remote: {excerpt(reason)}")
    live, withdrawn, disputed = _outputs(document, task, verified=answer.verified)
    rounds = document.get("debate_rounds")
    found = Analysed(
        outputs=tuple(live),
        withdrawn_outputs=tuple(withdrawn),
        disputed_outputs=tuple(disputed),
        domains_covered=tuple(
            dict.fromkeys(
                filter(None, map(_domain, _listed(document.get("domains_covered"))))
            )
        ),
        debate_rounds=rounds
        if isinstance(rounds, int) and not isinstance(rounds, bool) and rounds >= 0
        else 0,
        confidence=Confidence.MEDIUM if answer.verified else Confidence.LOW,
        local_council_type=LocalCouncilType.RUNTIME_NATIVE_REVIEW,
        runtime=facts.name,
    )
    return completed_report(task, seated, found)


def _outputs(
    document: Mapping[str, Any], task: BridgeInput, *, verified: bool
) -> tuple[list[Output], list[Output], list[DisputedOutput]]:
    intake = Intake(task)
    live = [
        _output(entry, intake.draft(entry), number, verified=verified)
        for number, entry in enumerate(_entries(document.get("outputs")), start=1)
    ]
    disputed = [
        DisputedOutput(one, "disputed by the remote seat")
        for one in live
        if one.status is OutputState.DISPUTED
    ]
    withdrawn = [
        msgspec.structs.replace(
            _output(entry, intake.draft(entry), len(live) + number, verified=verified),
            status=OutputState.WITHDRAWN,
        )
        for number, entry in enumerate(
            _entries(document.get("withdrawn_outputs")), start=1
        )
    ]
    return live, withdrawn, disputed


def _output(
    entry: Mapping[str, Any], draft: Draft, number: int, *, verified: bool
) -> Output:
    status = entry.get("status")
    known = {
        state.value: state
        for state in OutputState
        if state is not OutputState.WITHDRAWN
    }
    optional = {
        "requirement_id": draft.requirement_id,
        "met": draft.met,
        "unverified": None if verified else True,
    }
    return draft.output(
        numbered_id("R", number),
        status=known.get(status) if isinstance(status, str) else None,
        domain=_domain(entry.get("domain")) or CROSS_DOMAIN,
        agent=_claimed(entry.get("agent")) or "remote",
        **{name: value for name, value in optional.items() if value is not None},
    )


def _claim(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the remote says about how it came to its report; kept as a claim, believed by nobody."""
    words = (
        "bridge",
        "model_family",
        "connection_used",
        "runtime",
        "toolchain",
        "verdict",
        "confidence",
    )
    claim: dict[str, Any] = {
        name: said for name in words if (said := _claimed(document.get(name)))
    }
    if models := [
        said
        for model in _listed(document.get("models_used"))
        if (said := _claimed(model))
    ]:
        claim["models_used"] = models[:MOST_MODELS]
    if isinstance(usage := document.get("usage"), dict):
        claim["usage"] = {
            name: usage[name]
            for name in _USAGE
            if isinstance(usage.get(name), int | float)
        }
    return claim


def _entries(value: object) -> Sequence[Mapping[str, Any]]:
    return [
        entry
        for entry in _listed(value)
        if isinstance(entry, dict)
        and isinstance(entry.get("title"), str)
        and entry["title"].strip()
    ]


def _domain(value: object) -> str:
    return normalise_domain(_claimed(value))


def _claimed(value: object) -> str:
    """A word of the remote on one line, of bearable length and writable; anything but a text is none."""
    return as_line(value)[:MOST_CLAIMED] if isinstance(value, str) else ""


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
