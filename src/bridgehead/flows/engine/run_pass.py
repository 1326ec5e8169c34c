"""Run a flow once over its records and outstanding calls."""

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from bridgehead.flows.calls import (
    Accepted,
    Attempt,
    Call,
    Failed,
    Remark,
    Verdict,
    outstanding_calls,
    prompt_sha256,
)
from bridgehead.flows.engine.asks import (
    Ask,
    Blocked,
    Fallback,
    OpenCall,
    Stopped,
    refuse_unwritable,
)
from bridgehead.flows.engine.mailbox import Mailbox
from bridgehead.flows.engine.replay import (
    COMPLETED,
    FAILED,
    FALLBACK,
    Replay,
    digest,
    encoded,
)
from bridgehead.flows.engine.settlement import Action, Rules, settle
from bridgehead.flows.errors import FlowMistake, NonDeterministic
from bridgehead.flows.files.checkpoint_files import RunFiles
from bridgehead.flows.files.documents import Contract
from bridgehead.flows.interfaces import Announcer
from bridgehead.flows.journals.base import Record
from bridgehead.flows.values.codec import NotRecordable, encode, to_plain
from bridgehead.flows.values.ids import new_request_id
from bridgehead.flows.values.times import deadline_after, utc_text
from bridgehead.flows.words import (
    ANSWER_SCHEMA,
    EXPIRES_AT,
    HEURISTICS_ONLY,
    AttemptStatus,
)
from bridgehead.host.clock import Clock

if TYPE_CHECKING:
    from bridgehead.flows.interfaces import AgentInvoker


class RunPass:
    """One pass of a flow: from its start to its end or next pause."""

    def __init__(
        self,
        *,
        replay: Replay,
        mailbox: Mailbox,
        rules: Rules,
        clock: Clock,
        run_files: RunFiles,
        attempts: Sequence[Attempt],
        actions: list[str],
        announcer: Announcer,
        invoker: "AgentInvoker | None" = None,
        heuristics_only: bool = False,
        new_id: Callable[[], str] = new_request_id,
        run_function: Callable[..., Any] = lambda flow, context, given: flow.function(
            context, **given
        ),
    ) -> None:
        self.replay = replay
        replay.on_forgotten = self._forget_calls
        self.mailbox = mailbox
        self.clock = clock
        self.run_files = run_files
        self.calls = outstanding_calls(attempts)
        """The outstanding calls by path, oldest first."""
        if rules.contract is Contract.OPEN:
            replay.expect_all(self.calls)
        self.actions = actions
        self.remarks: list[Remark] = []
        self.open_blocks = 0
        """How many Blocked were raised and not yet caught by the engine.

        A flow that returns while one is open has swallowed its pause.
        """
        self._rules = rules
        self._announcer = announcer
        self._invoker = invoker
        self._heuristics_only = heuristics_only
        self._new_id = new_id
        self.run_function = run_function
        """Calls a flow's function with a context and settings, in a loop if needed."""
        # Numbers the requests of flows without phases.
        self._request_count = len({attempt.path for attempt in attempts})

    def ask(self, path: str, ask: Ask, phase: int | None) -> Record:
        """Return the record of an ask that has ended.

        Raise Blocked if there is no answer yet.
        """
        input_sha = digest(ask.identity)
        record = self.replay.find(path, "ask", input_sha)
        if record is not None:
            self.run_files.note_result(path, record.result)
            return record
        restored = self.run_files.restored_result(path)
        if restored is not None:
            return self.replay.add(path, "ask", input_sha, restored)
        if self._heuristics_only:
            reason = Failed(HEURISTICS_ONLY, "no agent is asked in this run")
            return self._conclude(path, ask, input_sha, reason, ())
        if self._invoker is not None:
            from bridgehead.flows.engine.agents import invoke

            verdict = invoke(self._invoker, ask, self._rules)
            return self._conclude(path, ask, input_sha, verdict, ())
        call = self._known_call(path, ask) or self._adopt(path, ask, phase)
        if call is None:
            new_call = self._new_call(path, ask, phase)
            raise self._block(OpenCall(new_call, None))
        return self._settle(call, ask, input_sha)

    def moment(self) -> datetime:
        """Return the time against which expiry is checked."""
        return self.clock.now()

    def sleep_until(self, end: datetime) -> None:
        """Sleep until `end`; a run that was killed meanwhile sleeps the rest."""
        self.clock.sleep(max(0.0, (end - self.clock.now()).total_seconds()))

    def _known_call(self, path: str, ask: Ask) -> Call | None:
        """Return the outstanding call at `path`.

        Raise NonDeterministic if it asks something else, because its answer must not
        be used.
        """
        call = self.calls.get(path)
        # A call restored from a state file may have been worded by another program.
        is_ours = self._rules.contract is Contract.OPEN
        if call is not None and is_ours and not ask.is_asked_by(call):
            raise NonDeterministic(path, "another question is waiting")
        return call

    def refuse_unvisited(self) -> None:
        """Raise if the flow did not reach every record and every outstanding call."""
        self.replay.refuse_unvisited()
        for path in self.calls:
            raise NonDeterministic(
                path, "the question that waits here was not asked again"
            )

    def _forget_calls(self) -> None:
        """Withdraw the questions asked after a step that is rerun."""
        for call in self.calls.values():
            self._announcer.settled(
                call.current.request_id,
                self.mailbox.root,
                AttemptStatus.SUPERSEDED.value,
            )
        self.calls.clear()

    def _settle(self, call: Call, ask: Ask, input_sha: str) -> Record:
        answer = self.mailbox.answers.get(call.path)
        settled = settle(
            call,
            answer.matched if answer else None,
            ask.verdict_on,
            ask.rules(self._rules),
            request_on_file=self.mailbox.holds(call.current.request_id),
            now=self.moment(),
            new_id=self._new_id,
        )
        if settled.ignored_old_attempt:
            self.actions.append("ignored:old_attempt")
            self.mailbox.reject(call.path, "it answers an attempt that was abandoned")
        if settled.action is Action.REISSUE:
            self.mailbox.refuse_unsupported_request()
        if settled.action is not Action.QUEUED:
            self.actions.append(settled.action.value)
        match settled.action:
            case Action.ACCEPT | Action.ACCEPT_WITH_WARNING | Action.FALLBACK:
                assert settled.verdict is not None
                return self._conclude(
                    call.path, ask, input_sha, settled.verdict, settled.attempts
                )
            case Action.STOP:
                assert isinstance(settled.verdict, Failed)
                raise Stopped(settled.verdict, ask.agent, settled.attempts)
            case _:
                newest = settled.attempts or (call.current,)
                call = call._replace(attempts=(*call.attempts[:-1], *newest))
                raise self._block(OpenCall(call, settled.action))

    def _conclude(
        self,
        path: str,
        ask: Ask,
        input_sha: str,
        verdict: Verdict,
        attempts: tuple[Attempt, ...],
    ) -> Record:
        """Record that a call has ended, and remove its files (flows §5).

        The journal is written first, then the run's files; the call's files go last.
        """
        record = self._record_of(path, ask, input_sha, verdict)
        self.replay.complete(record, attempts)
        self.calls.pop(path, None)
        self.run_files.note_attempts(attempts)
        self.run_files.note_result(path, record.result)
        self.run_files.save()
        self.mailbox.clear(path, [attempt.request_id for attempt in attempts])
        for attempt in attempts:
            self._announcer.settled(
                attempt.request_id, self.mailbox.root, attempt.status.value
            )
        return record

    def _record_of(
        self, path: str, ask: Ask, input_sha: str, verdict: Verdict
    ) -> Record:
        """Return the record of an ask that ended with this verdict.

        If it failed, its fallback is run.
        """
        status = COMPLETED
        result = None
        error = None
        if isinstance(verdict, Accepted):
            result = encode(verdict.value)
            if verdict.warning is not None:
                self.remarks.append(Remark(path, "warning", verdict.warning))
        else:
            self.remarks.append(Remark(path, "fallback", str(verdict)))
            error = json.dumps([verdict.reason, verdict.message])
            if ask.fallback is None:
                status = FAILED
            else:
                status = FALLBACK
                result = self._fall_back(path, ask.fallback, verdict)
        now = self.replay.now()
        return Record(path, "ask", input_sha, status, result, error, now, now)

    def _fall_back(self, path: str, fallback: Fallback, failure: Failed) -> str:
        with self.replay.without_context(path):
            return encoded(
                fallback(failure), f"the fallback of {path} has run; its result"
            )

    def _new_call(self, path: str, ask: Ask, phase: int | None) -> Call:
        if ask.expires is not None and not ask.expires > 0:
            raise FlowMistake(
                f"ask {ask.name!r} expires after {ask.expires} s; it must be more "
                "than 0"
            )
        self._request_count += 1
        prompt = ask.full_prompt
        now = self.replay.now()
        context = self._request_context(path, ask, now)
        context["response_file"] = self.mailbox.response_file
        context["prompt_sha256"] = prompt_sha256(prompt)
        document = {
            "request_id": self._new_id(),
            "version": self._rules.contract.value,
            "phase": self._request_count if phase is None else phase,
            "phase_name": ask.phase_name(self._rules.contract),
            "agent_name": ask.agent,
            "prompt": prompt,
            "context": context,
            "timeout_seconds": ask.timeout,
            "created_at": now,
            "retry_count": 0,
        }
        refuse_unwritable(document, self._rules.contract)
        return Call(path, (Attempt(path, document, AttemptStatus.QUEUED),))

    def _request_context(self, path: str, ask: Ask, now: str) -> dict[str, Any]:
        """Return the context of a request: about the run, the ask and its answer."""
        try:
            ask_context = to_plain(ask.context)
        except NotRecordable as error:
            raise error.named(f"{path} was not asked: its context") from None
        context: dict[str, Any] = {**self.run_files.request_context(), **ask_context}
        schema = ask.answer_schema
        if schema is not None:
            context[ANSWER_SCHEMA] = to_plain(schema)
        if ask.expires is not None:
            context[EXPIRES_AT] = utc_text(deadline_after(now, ask.expires))
        return context

    def _adopt(self, path: str, ask: Ask, phase: int | None) -> Call | None:
        """Return the call restored from the state file, if it fits this ask.

        The file has no paths, so the call goes to the first ask that fits.
        """
        if phase is None:
            return None
        call = self.run_files.restored_call(
            phase, ask.phase_name(self._rules.contract), ask.agent
        )
        if call is None:
            return None
        self.mailbox.rename(call.path, path)
        attempts = tuple(attempt._replace(path=path) for attempt in call.attempts)
        return Call(path, attempts)

    def _block(self, call: OpenCall) -> Blocked:
        self.open_blocks += 1
        return Blocked([call])
