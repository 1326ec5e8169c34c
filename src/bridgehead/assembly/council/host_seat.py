"""Prompts of the host seat as flow requests to the agent that runs us, answers folded
in later (council §4).

The requests are kept in the flow journal of the project like those of any flow, so that
`flow respond`, `answer` and `flow drive` work on them. All prompts of a step are
outstanding together; the oldest lies in the request file.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bridgehead.assembly.application import Assembly
from bridgehead.assembly.council.journal import StoredCouncil
from bridgehead.contract.record_words import AnswerStatus, Part, PendingState
from bridgehead.contract.timeouts import (
    DEFAULT_CONCURRENCY,
    bridge_deadline,
    estimate_timeout,
)
from bridgehead.contract.words import ErrorClass
from bridgehead.control_plane.records import QuestionKey
from bridgehead.council.calls import Call, CallFailed, Reply, Result
from bridgehead.errors import BridgeheadError
from bridgehead.flows.calls import Attempt, outstanding_calls
from bridgehead.flows.engine.mailbox import Mailbox
from bridgehead.flows.engine.run_request import Pause
from bridgehead.flows.errors import OtherRun
from bridgehead.flows.files.agent_files import AgentRequest
from bridgehead.flows.files.checkpoint_files import CheckpointFiles
from bridgehead.flows.files.documents import Contract
from bridgehead.flows.files.root import FlowRoot
from bridgehead.flows.interfaces import OpenRequest
from bridgehead.flows.journals.base import Run
from bridgehead.flows.journals.sqlite import SqliteJournal
from bridgehead.flows.operations.pending_items import question_of
from bridgehead.flows.words import (
    MASK_ANSWERS,
    AttemptStatus,
    RequestStatus,
    RunStatus,
)
from bridgehead.host.clock import Clock, iso_ms
from bridgehead.host.secrets_scan import with_secrets_masked

__all__ = ["HostSeatRequests", "Pause"]

NAME: Final = "council"
CONTRACT: Final = "1.1"
MOST_SECONDS: Final = 86_400


def _without_secrets(document: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return an answer as it may be kept: the words of the host are a reply like any."""
    if document is None:
        return None
    return {
        name: with_secrets_masked(value)[0] if isinstance(value, str) else value
        for name, value in document.items()
    }


@dataclass
class HostSeatRequests:
    """`HostDesk` over the flow journal and the pair of files."""

    assembly: Assembly
    council: StoredCouncil
    clock: Clock
    root: FlowRoot
    _posted: dict[str, Call] = field(default_factory=dict)

    @classmethod
    def of(
        cls, assembly: Assembly, council: StoredCouncil, clock: Clock
    ) -> HostSeatRequests | None:
        """Return the requests of a council that has a host seat.

        A root that another flow is paused in is refused.
        """
        if council.request.options.host_seat is None:
            return None
        root = FlowRoot.open(assembly.places.project)
        root.prepare()
        requests = cls(assembly, council, clock, root)
        with requests._journal() as journal:
            paused = journal.unfinished()
        if paused is not None and paused.id != requests.flow_id:
            raise OtherRun(
                root.path,
                f"{paused.name} ({paused.id})",
                f"council {council.review_id}",
                f"resume it, or cancel it: bridgehead flow cancel {paused.id}",
            )
        return requests

    @property
    def flow_id(self) -> str:
        return f"council-{self.council.review_id}"

    def post(self, call: Call) -> None:
        """Remember the call.

        It becomes a request when the council pauses, all of a step at once.
        """
        self._posted[str(call.key)] = call

    def answers(self, outstanding: Sequence[Call]) -> Sequence[Result]:
        """Results of the calls that were answered, cancelled, or whose time is over."""
        with self._journal() as journal:
            if journal.run(self.flow_id) is None:
                return []
            asked = outstanding_calls(journal.attempts(self.flow_id))
            mailbox = Mailbox(self._files(), Contract.OPEN)
            mailbox.collect(list(asked.values()), accept_foreign_owner=False)
            results: list[Result] = []
            for call in outstanding:
                made = asked.get(str(call.key))
                if made is None:
                    continue
                filed = mailbox.answers.get(made.path)
                document = (
                    dict(filed.matched.document)
                    if filed
                    else self._recorded_answer(made.current)
                )
                document = _without_secrets(document)
                result = self._result(call, made.current, document)
                if result is None:
                    continue
                status = (
                    AttemptStatus.COMPLETED
                    if isinstance(result, Reply)
                    else AttemptStatus.FAILED
                )
                journal.hold(
                    self.flow_id,
                    [made.current.ended(status)._replace(response=document)],
                    at=self._now(),
                )
                mailbox.clear(made.path, [made.current.request_id])
                self._withdraw(made.current)
                self._posted.pop(str(call.key), None)
                results.append(result)
            return results

    def pause(self, calls: Sequence[Call]) -> Pause | None:
        """Make the open calls durable, hand out the oldest, and say where it lies."""
        with self._journal() as journal:
            self._begin(journal)
            known = outstanding_calls(journal.attempts(self.flow_id))
            waiting = [
                known[str(call.key)].current
                if str(call.key) in known
                else self._request(call)
                for call in calls
            ]
            gone = [
                one.current
                for path, one in known.items()
                if path not in {str(c.key) for c in calls}
            ]
            head = waiting[0]
            if head.status is AttemptStatus.QUEUED:
                head = head.issued(self.clock.now())
            ended = [attempt.ended(AttemptStatus.CANCELLED) for attempt in gone]
            journal.hold(self.flow_id, [*ended, head, *waiting[1:]], at=self._now())
        files = self._files()
        files.write(files.request_path, head.document)
        with self.assembly.store() as store:
            for attempt in (head, *waiting[1:]):
                asked = OpenRequest(
                    self.flow_id,
                    NAME,
                    str(self.root.path),
                    dict(attempt.document),
                    None,
                )
                store.open_pending(question_of(asked))
        return Pause(
            request_file=files.request_path,
            response_file=files.response_path,
            request_id=head.request_id,
            agent_name=str(head.document["agent_name"]),
            timeout_seconds=int(head.document["timeout_seconds"]),
            outstanding=len(waiting),
        )

    def end(self) -> None:
        """The council does not wait for its host any more: withdraw what is open and
        clear the files.
        """
        with self._journal() as journal:
            run = journal.run(self.flow_id)
            if run is None or run.status.ended:
                return
            open_calls = outstanding_calls(journal.attempts(self.flow_id)).values()
            withdrawn = [
                call.current.ended(AttemptStatus.CANCELLED) for call in open_calls
            ]
            journal.end(
                self.flow_id, RunStatus.COMPLETED, at=self._now(), attempts=withdrawn
            )
        files = self._files()
        on_file = Mailbox(files, Contract.OPEN).request_on_file
        if on_file in {attempt.request_id.lower() for attempt in withdrawn}:
            files.remove(files.request_path)
        for attempt in withdrawn:
            self._withdraw(attempt)

    # -- requests

    def _request(self, call: Call) -> Attempt:
        key = call.key
        request = AgentRequest(
            phase=key.round,
            phase_name=key.phase_name,
            agent_name=f"council-{key.seat}",
            prompt=call.prompt,
            version=CONTRACT,
            context={
                "review_id": self.council.review_id,
                "session_id": self.council.review_id,
                "bridge": key.seat,
                "role": key.role.value,
                "domain": key.domain,
                "capability_profile": call.profile.value,
            },
            timeout_seconds=self._deadline(key.seat),
        )
        return Attempt(str(key), request.to_file_dict(), AttemptStatus.QUEUED)

    def _deadline(self, bridge: str) -> int:
        """Return the whole seat's time, because the host may answer one after the other
        (council §4, §5).
        """
        task = self.council.task
        estimate = estimate_timeout(
            files=task.files, loc=task.loc, intensity=task.intensity, bridge=bridge
        )
        seconds = bridge_deadline(
            estimate.timeout_s, task.intensity, len(task.domains), DEFAULT_CONCURRENCY
        )
        return max(1, min(seconds, MOST_SECONDS))

    def _result(
        self, call: Call, attempt: Attempt, document: dict[str, Any] | None
    ) -> Result | None:
        at = self._now()
        if document is None:
            handed_out = attempt.status is AttemptStatus.PENDING
            if not handed_out or self.clock.now() <= attempt.deadline:
                return None
            seconds = attempt.document["timeout_seconds"]
            return CallFailed(
                key=call.key,
                reason=f"timeout_after_{seconds}s",
                error_class=ErrorClass.TIMEOUT,
                at=at,
            )
        text = document.get("response")
        if (
            document.get("status") == RequestStatus.SUCCESS.value
            and isinstance(text, str)
            and text.strip()
        ):
            return Reply(key=call.key, text=text, at=at)
        said = str(document.get("error_message") or document.get("status") or "no text")
        return CallFailed(
            key=call.key,
            reason=f"cli_error: {said[:500]}",
            error_class=ErrorClass.OTHER,
            at=at,
            detail=said,
        )

    # -- the record: one list of what waits, whoever answers

    def _recorded_answer(self, attempt: Attempt) -> dict[str, Any] | None:
        """Return an answer given through the record instead of the files."""
        try:
            with self.assembly.store(read_only=True) as store:
                item = store.pending_item(self._question_key(attempt))
        except BridgeheadError:
            return None
        if item.state is not PendingState.ANSWERED or item.answer is None:
            return None
        success = item.answer.status is AnswerStatus.SUCCESS
        return {
            "request_id": attempt.request_id,
            "status": (RequestStatus.SUCCESS if success else RequestStatus.ERROR).value,
            "response": item.answer.text,
            "error_message": item.answer.message,
        }

    def _withdraw(self, attempt: Attempt) -> None:
        try:
            with self.assembly.store() as store:
                store.withdraw_pending(
                    self._question_key(attempt), reason="the council has its answer"
                )
        except BridgeheadError:
            return  # nobody had been asked through the record

    def _question_key(self, attempt: Attempt) -> QuestionKey:
        return QuestionKey(
            part=Part.FLOWS, key=attempt.request_id, project=str(self.root.path)
        )

    # -- the journal

    def _begin(self, journal: SqliteJournal) -> None:
        if journal.run(self.flow_id) is None:
            at = self._now()
            journal.begin(
                Run(
                    id=self.flow_id,
                    name=NAME,
                    version=CONTRACT,
                    source=f"{NAME}:{self.council.review_id}",
                    root=str(self.root.path),
                    status=RunStatus.RUNNING,
                    input={"review_id": self.council.review_id, MASK_ANSWERS: True},
                    created=at,
                    updated=at,
                )
            )

    def _journal(self) -> closing[SqliteJournal]:
        return closing(SqliteJournal(Path(self.root.journal)))

    def _files(self) -> CheckpointFiles:
        return CheckpointFiles(self.root, self.clock)

    def _now(self) -> str:
        return iso_ms(self.clock.now())
