"""Provide the handlers that flows cannot make themselves, and the watch (flows §14).

The handlers ask an AI runtime on this machine, or a rig elsewhere. The watch resumes
flows in all projects of the record, for `flow watch` and the dashboard.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bridgehead.assembly.application import Assembly
from bridgehead.contract.words import CapabilityProfile, ErrorClass
from bridgehead.errors import BridgeheadError, UserError
from bridgehead.flows.calls import Reply
from bridgehead.flows.engine.run_request import RunInputs, open_sqlite
from bridgehead.flows.files.agent_files import AgentRequest
from bridgehead.flows.files.checkpoint_files import CheckpointFiles
from bridgehead.flows.handlers import Handler, HandlerMaker, HandlerUnusable
from bridgehead.flows.operations.drive import (
    DEFAULT_CONCURRENCY,
    Watch,
    Watched,
    resume_in_process,
)
from bridgehead.flows.words import ErrorType, RequestStatus
from bridgehead.host.command import Cancel

if TYPE_CHECKING:
    from bridgehead.council.runtimes.exchange import CallOutcome, ToolServer
    from bridgehead.council.seating.preflight import Ready
    from bridgehead.rigs.rig import Rig

POLL_SECONDS: Final = 5.0
WATCH_SECONDS: Final = 1.0
SHARED: Final = (
    "the record is shared, and entries of other users must not start programs here"
)
SERVER_PATIENCE_SECONDS: Final = 3.0
"""How long a server leaves it to others to resume a run.

A script that answers and then resumes takes less; both at once would conflict.
"""


def is_shared(record_url: str) -> bool:
    """Return whether other users also write to the record."""
    return "://" in record_url and not record_url.startswith("sqlite:")


@contextmanager
def watching(
    assembly: Assembly,
    say: Callable[[str], None],
    show: Callable[[bytes], None] = lambda _: None,
    *,
    roots: Sequence[Path] = (),
    concurrency: int = DEFAULT_CONCURRENCY,
    patience_seconds: float = 0.0,
) -> Iterator[Watch]:
    """Yield a watch over `roots`, or over every project with a paused flow.

    The runs it resumed are stopped at the end.
    """
    from bridgehead.assembly.flows.recording import size_limits
    from bridgehead.assembly.flows.views import paused_projects

    cancel = Cancel()
    if not roots and is_shared(assembly.record_url):
        raise UserError(
            SHARED, hint="name the directories: bridgehead flow watch --dir DIR"
        )

    def places() -> list[Watched]:
        if roots:
            return [Watched(root) for root in roots]
        with assembly.store(read_only=True) as store:
            return [Watched(root, ids) for root, ids in paused_projects(store).items()]

    inputs = RunInputs(size_limits=size_limits(assembly.settings))
    resume = partial(resume_in_process, say=say, show=show, cancel=cancel)
    watch = Watch(
        places,
        resume,
        inputs,
        concurrency=concurrency,
        patience_seconds=patience_seconds,
    )
    try:
        yield watch
    finally:
        cancel.cancel()
        watch.wait()


@contextmanager
def watching_beside(assembly: Assembly, say: Callable[[str], None]) -> Iterator[None]:
    """Watch all projects in a thread, beside a server."""
    if is_shared(assembly.record_url):
        say(f"flows are not resumed: {SHARED}")
        yield
        return
    stopped = threading.Event()
    with watching(assembly, say, patience_seconds=SERVER_PATIENCE_SECONDS) as watch:

        def look() -> None:
            while not stopped.wait(WATCH_SECONDS):
                try:
                    watch.look()
                except BridgeheadError as error:
                    say(f"flows are not watched: {error.message}")
                    return

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join()


def handler_makers(
    assembly: Assembly, say: Callable[[str], None], tools: tuple[ToolServer, ...] = ()
) -> dict[str, HandlerMaker]:
    """Return handler makers by scheme.

    `runtime:NAME` asks an agent here, `rig:ID` one on another machine.
    """
    return {
        "runtime": lambda name: RuntimeHandler(assembly, name, tools),
        "rig": lambda rig_id: RigHandler(assembly.places.project, rig_id, say),
    }


class RuntimeHandler(Handler):
    """Gives the prompt to an AI runtime, read-only, in an empty directory.

    The prompt must contain everything the runtime needs.
    """

    def __init__(
        self, assembly: Assembly, name: str, tools: tuple[ToolServer, ...] = ()
    ) -> None:
        from bridgehead.council.request.settings import is_acp
        from bridgehead.council.runtimes import runtime_names

        if name == "static" or (name not in runtime_names() and not is_acp(name)):
            others = [other for other in runtime_names() if other != "static"]
            raise UserError(
                f"there is no runtime named {name!r}",
                hint=f"runtimes: {', '.join(others)}",
            )
        self._assembly = assembly
        self._name = name
        self._tools = tools

    def answer(self, request: AgentRequest, files: CheckpointFiles) -> Reply:
        import anyio

        from bridgehead.assembly.council.seats import seat_of
        from bridgehead.council.runtimes.exchange import RuntimeRefusal
        from bridgehead.council.seating.preflight import Ready

        seated = seat_of(self._assembly, self._name)
        if not isinstance(seated, Ready):
            reason = f"{seated.reason}. {seated.message}".strip().rstrip(".")
            raise HandlerUnusable(f"{self._name} cannot answer: {reason}")
        if self._tools and not seated.connection.takes_tools:
            raise HandlerUnusable(
                f"{self._name} cannot use tools when it runs as "
                f"{seated.connection.runtime_name}"
            )
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="bridgehead-ask-") as folder:
            outcome = anyio.run(
                _call_runtime, seated, request, Path(folder), self._tools
            )
        took = round(time.monotonic() - started, 3)
        if isinstance(outcome, RuntimeRefusal):
            status = RequestStatus.ERROR
            error_type = ErrorType.INVOCATION_FAILED
            if outcome.error_class is ErrorClass.TIMEOUT:
                status = RequestStatus.TIMEOUT
                error_type = ErrorType.TIMEOUT
            return Reply(
                status,
                error_type=error_type.value,
                message=outcome.message,
                duration_seconds=took,
            )
        return Reply(text=outcome.text, model=outcome.model, duration_seconds=took)


class RigHandler(Handler):
    """Sends the prompt to a rig as a REQUEST and waits for its RESPONSE.

    The thread is named after the question, not after one attempt. If the process is
    killed or times out, the next attempt finds the REQUEST in the thread, does not send
    it again, and collects a RESPONSE that has arrived since.
    """

    def __init__(self, project: Path, rig_id: str, say: Callable[[str], None]) -> None:
        from bridgehead.rigs.envelope.names import RigId

        self._project = project
        self._rig_id = RigId.parse(rig_id)
        self._say = say
        self._one_at_a_time = threading.Lock()

    def answer(self, request: AgentRequest, files: CheckpointFiles) -> Reply:
        thread_id = f"flow-{first_asked_as(request.request_id, files)[:8]}"
        with self._one_at_a_time:
            self._ask_once(thread_id, request)
        self._say(
            f"asked {self._rig_id} in thread {thread_id}; waiting for its RESPONSE"
        )
        deadline = time.monotonic() + request.timeout_seconds
        while not self.cancel.cancelled:
            with self._one_at_a_time:
                text = self._answer_in(thread_id)
            if text is not None:
                return Reply(text=text)
            seconds_left = deadline - time.monotonic()
            if seconds_left <= 0:
                break
            time.sleep(min(POLL_SECONDS, seconds_left))
        message = f"{self._rig_id} did not answer within {request.timeout_seconds} s"
        return Reply(
            RequestStatus.TIMEOUT, error_type=ErrorType.TIMEOUT.value, message=message
        )

    def _rig(self, say: Callable[[str], None]) -> Rig:
        from bridgehead.assembly.council.reviews import CouncilReviews
        from bridgehead.assembly.rigs.rig import make_rig

        return make_rig(str(self._project), say, CouncilReviews)

    def _ask_once(self, thread_id: str, request: AgentRequest) -> None:
        from bridgehead.rigs.operations.init import NewRequest, new
        from bridgehead.rigs.operations.send import SendRequest, send

        rig = self._rig(self._say)
        if not rig.repository.has_directory(thread_id):
            new(rig, NewRequest(thread_id))
        elif _request_in(rig, thread_id) is not None:
            return
        wanted = SendRequest(
            "REQUEST",
            thread_id,
            [self._rig_id],
            tldr=request.agent_name,
            body=lambda: request.prompt,
        )
        send(rig, wanted)

    def _answer_in(self, thread_id: str) -> str | None:
        """Return the body of the answer; None if no valid one has arrived yet."""
        from bridgehead.rigs.operations.sync import SyncRequest, sync
        from bridgehead.rigs.operations.thread import thread
        from bridgehead.rigs.trust.verification_kinds import VerificationState

        rig = self._rig(lambda _text: None)
        sync(rig, SyncRequest(auto=True))
        request = _request_in(rig, thread_id)
        if request is None:
            return None
        if any(record.commit == request for record in rig.repository.unpushed()):
            with rig.repository.lock():  # killed between commit and push
                rig.repository.push(rig.repository.upstream(), request)
        for envelope in thread(rig, thread_id).envelopes:
            if not self._is_answer(envelope.frontmatter, request):
                continue
            if envelope.verification.state is not VerificationState.BROKEN:
                return envelope.body
            self._say(
                f"{envelope.filename} was not used: "
                f"{', '.join(envelope.verification.kinds)}"
            )
        return None

    def _is_answer(self, frontmatter: Mapping[str, Any], request: str) -> bool:
        """Return whether an envelope is the rig's RESPONSE to the commit `request`."""
        if frontmatter.get("type") != "RESPONSE":
            return False
        if frontmatter.get("from") != self._rig_id:
            return False
        references = frontmatter.get("references")
        if not isinstance(references, list):
            return False
        return any(request.startswith(str(commit)) for commit in references)


def first_asked_as(request_id: str, files: CheckpointFiles) -> str:
    """Return the id of the first attempt at a question.

    After a successful answer that the flow could not use, counting starts again.
    """
    if not files.root.journal.exists():
        return request_id
    with open_sqlite(files.root) as journal:
        owner = journal.owner(request_id)
        if owner is None:
            return request_id
        run, asked_attempt = owner
        attempts = [
            attempt
            for attempt in journal.attempts(run.id)
            if attempt.path == asked_attempt.path
        ]
    first = attempts[0].request_id
    for attempt, following in pairwise(attempts):
        response = attempt.response or {}
        if response.get("status") == RequestStatus.SUCCESS.value:
            first = following.request_id
    return first


def _request_in(rig: Rig, thread_id: str) -> str | None:
    """Return the commit of the REQUEST that this rig sent in a thread."""
    from bridgehead.rigs.operations.thread import thread

    own = rig.config.rig_id
    for envelope in thread(rig, thread_id).envelopes:
        is_request = envelope.frontmatter.get("type") == "REQUEST"
        is_own = envelope.frontmatter.get("from") == own
        if is_request and is_own and envelope.commit_sha:
            return envelope.commit_sha
    return None


async def _call_runtime(
    seated: Ready,
    request: AgentRequest,
    folder: Path,
    tools: tuple[ToolServer, ...] = (),
) -> CallOutcome:
    from bridgehead.council.calls import Answer, Call, CallKey, Role, Step
    from bridgehead.council.running.call_runner import CallRunner
    from bridgehead.council.runtimes.exchange import RuntimeRequest

    seat = seated.seat
    workspace = folder / "empty"
    workspace.mkdir()
    ask = RuntimeRequest(
        prompt=request.prompt,
        workspace=workspace,
        timeout_seconds=request.timeout_seconds,
        most_seconds=request.timeout_seconds,
        profile=CapabilityProfile.INSPECT,
        model=seat.models[0],
        reasoning=seated.reasoning,
        title=f"bridgehead flow: {request.agent_name}",
        scratch=folder / "seat",
        tools=tools,
    )
    key = CallKey(
        seat=seat.name,
        round=1,
        step=Step.ANALYSIS,
        role=Role.EXPERT,
        domain=request.agent_name,
    )
    call = Call(
        key,
        request.prompt,
        request.timeout_seconds,
        Answer.NOTES,
        CapabilityProfile.INSPECT,
    )
    async with CallRunner() as runner:
        return await runner.carry(seated.connection, call, ask)
