"""Handlers for `flow drive` that flows cannot make themselves: an AI runtime here, a rig elsewhere (flows §14)."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bridgehead.assembly.application import Assembly
from bridgehead.contract.words import CapabilityProfile, ErrorClass
from bridgehead.errors import UserError
from bridgehead.flows.files.agent_files import AgentRequest
from bridgehead.flows.files.checkpoint_files import CheckpointFiles
from bridgehead.flows.handlers import Handler, HandlerMaker, HandlerUnusable, Reply
from bridgehead.flows.words import ErrorType, RequestStatus

if TYPE_CHECKING:
    from bridgehead.council.runtimes.exchange import CallOutcome
    from bridgehead.council.seating.preflight import Ready

POLL_SECONDS: Final = 5.0
_ERROR_TYPES: Final = {ErrorClass.TIMEOUT: ErrorType.TIMEOUT}


def handler_makers(assembly: Assembly, say: Callable[[str], None]) -> dict[str, HandlerMaker]:
    """By scheme: `runtime:NAME` asks an agent here, `rig:ID` one on another machine."""
    return {
        "runtime": lambda name: RuntimeHandler(assembly, name),
        "rig": lambda rig_id: RigHandler(assembly.places.project, rig_id, say),
    }


class RuntimeHandler(Handler):
    """Puts the prompt to one AI runtime, read-only, in an empty directory: the prompt must say everything."""

    def __init__(self, assembly: Assembly, name: str) -> None:
        from bridgehead.council.runtimes import runtime_names

        if name not in runtime_names() or name == "static":
            known = ", ".join(known for known in runtime_names() if known != "static")
            raise UserError(f"there is no runtime {name!r} to answer with", hint=f"runtimes: {known}")
        self._assembly = assembly
        self._name = name

    def answer(self, request: AgentRequest, files: CheckpointFiles) -> Reply:
        import anyio

        from bridgehead.assembly.council.seats import seat_of
        from bridgehead.council.runtimes.exchange import RuntimeRefusal
        from bridgehead.council.seating.preflight import Ready

        seated = seat_of(self._assembly, self._name)
        if not isinstance(seated, Ready):
            said = f"{seated.reason}. {seated.message}".strip().rstrip(".")
            raise HandlerUnusable(f"{self._name} cannot answer: {said}")
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="bridgehead-ask-") as workspace:
            outcome = anyio.run(_call_runtime, seated, request, Path(workspace))
        took = round(time.monotonic() - started, 3)
        if isinstance(outcome, RuntimeRefusal):
            timed_out = outcome.error_class is ErrorClass.TIMEOUT
            return Reply(
                RequestStatus.TIMEOUT if timed_out else RequestStatus.ERROR,
                error_type=_ERROR_TYPES.get(outcome.error_class, ErrorType.INVOCATION_FAILED).value,
                message=outcome.message,
                duration_seconds=took,
            )
        return Reply(text=outcome.text, model=outcome.model, duration_seconds=took)


class RigHandler(Handler):
    """Sends the prompt to a rig as a REQUEST and waits for the RESPONSE that references it."""

    def __init__(self, project: Path, rig_id: str, say: Callable[[str], None]) -> None:
        from bridgehead.rigs.envelope.names import RigId

        self._project = project
        self._rig_id = RigId.parse(rig_id)
        self._say = say

    def answer(self, request: AgentRequest, files: CheckpointFiles) -> Reply:
        from bridgehead.assembly.council.reviews import CouncilReviews
        from bridgehead.assembly.rigs.rig import make_rig
        from bridgehead.rigs.operations.init import NewRequest, new
        from bridgehead.rigs.operations.send import SendRequest, send

        rig = make_rig(str(self._project), self._say, CouncilReviews)
        thread_id = f"flow-{request.request_id[:8]}"
        new(rig, NewRequest(thread_id))
        sent = send(
            rig,
            SendRequest(
                "REQUEST", thread_id, [self._rig_id], tldr=request.agent_name, body=lambda: request.prompt
            ),
        )
        self._say(f"asked {self._rig_id} in thread {thread_id}; waiting for its RESPONSE")
        deadline = time.monotonic() + request.timeout_seconds
        while time.monotonic() < deadline:
            text = _answer_from_rig(str(self._project), thread_id, self._rig_id, sent.commit_sha, self._say)
            if text is not None:
                return Reply(text=text)
            time.sleep(min(POLL_SECONDS, max(0.0, deadline - time.monotonic())))
        message = f"{self._rig_id} did not answer within {request.timeout_seconds} s"
        return Reply(RequestStatus.TIMEOUT, error_type=ErrorType.TIMEOUT.value, message=message)


def _answer_from_rig(
    project: str, thread_id: str, rig_id: str, asked: str, say: Callable[[str], None]
) -> str | None:
    """The body of the answer, once it has arrived and nothing speaks against it."""
    from bridgehead.assembly.council.reviews import CouncilReviews
    from bridgehead.assembly.rigs.rig import make_rig
    from bridgehead.rigs.operations.sync import SyncRequest, sync
    from bridgehead.rigs.operations.thread import thread
    from bridgehead.rigs.trust.verification_kinds import VerificationState

    rig = make_rig(project, lambda _text: None, CouncilReviews)
    sync(rig, SyncRequest(auto=True))
    for envelope in thread(rig, thread_id).envelopes:
        frontmatter = envelope.frontmatter
        references = frontmatter.get("references")
        names_it = isinstance(references, list) and any(asked.startswith(str(entry)) for entry in references)
        if frontmatter.get("type") == "RESPONSE" and frontmatter.get("from") == rig_id and names_it:
            if envelope.verification.state is VerificationState.BROKEN:
                say(f"{envelope.filename} was not used: {', '.join(envelope.verification.kinds)}")
                continue
            return envelope.body
    return None


async def _call_runtime(seated: Ready, request: AgentRequest, workspace: Path) -> CallOutcome:
    from bridgehead.council.calls import Answer, Call, CallKey, Role, Step
    from bridgehead.council.running.call_runner import CallRunner
    from bridgehead.council.runtimes.exchange import RuntimeRequest

    seat = seated.seat
    ask = RuntimeRequest(
        prompt=request.prompt,
        workspace=workspace,
        timeout_seconds=request.timeout_seconds,
        profile=CapabilityProfile.INSPECT,
        model=seat.models[0],
        reasoning=seated.reasoning,
        title=f"bridgehead flow: {request.agent_name}",
    )
    key = CallKey(seat=seat.name, round=1, step=Step.ANALYSIS, role=Role.EXPERT, domain=request.agent_name)
    call = Call(key, request.prompt, request.timeout_seconds, Answer.NOTES, CapabilityProfile.INSPECT)
    async with CallRunner() as runner:
        return await runner.carry(seated.connection, call, ask)
