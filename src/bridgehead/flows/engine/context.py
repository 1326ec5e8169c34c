"""Give a flow function what it works with.

It has steps that run once, asks that pause, branches and numbered phases.
"""

from __future__ import annotations

import json
import os
import typing
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from bridgehead.flows.calls import AskFailed, Failed, Outcome, StepFailed
from bridgehead.flows.definition import Flow, written_annotations
from bridgehead.flows.engine.asks import Ask, Blocked, Fallback, OpenCall
from bridgehead.flows.engine.replay import (
    BRANCH,
    FAILED,
    ONE_TRY,
    Effort,
    digest,
    encoded,
)
from bridgehead.flows.engine.run_pass import RunPass
from bridgehead.flows.engine.settlement import Judge
from bridgehead.flows.errors import FlowMistake, StateInvalid
from bridgehead.flows.files.checkpoint_files import NOT_RESTORED
from bridgehead.flows.journals.base import Record
from bridgehead.flows.values.codec import Unfit, decode, encode, from_plain, to_plain
from bridgehead.flows.values.ids import uuid_text
from bridgehead.flows.words import DEFAULT_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from bridgehead.contract.fencing import Fence


T = TypeVar("T")
Item = TypeVar("Item")


class Context:
    """The calls a flow can make.

    Each call has a path: the names that lead to it, each with an ordinal that tells it
    from others of the same name.
    """

    def __init__(
        self, run_pass: RunPass, prefix: str = "", phase: int | None = None
    ) -> None:
        self._run_pass = run_pass
        self._prefix = prefix
        self._phase = phase
        self._ordinals: dict[str, int] = {}
        self.replay = run_pass.replay

    def step(
        self,
        name: str,
        function: Callable[..., T],
        *arguments: Any,
        result: Any = None,
        on_change: Literal["refuse", "rerun"] = "refuse",
        retries: int = 0,
        backoff: float = 1.0,
        timeout: float | None = None,
        **keywords: Any,
    ) -> T:
        """Call `function` until it has succeeded once, and return its result.

        The result has the type `result`, or that of the function's return annotation.

        After an error the function is called again, up to `retries` times. The first
        retry waits `backoff` seconds, each further one twice as long. Each call may
        take `timeout` seconds. To pass the function an argument that has one of these
        names, wrap it in a lambda.
        """
        is_default = not retries and backoff == 1.0 and timeout is None
        effort = ONE_TRY if is_default else Effort(retries, backoff, timeout)
        path, input_sha, record = self.find_step(
            name, arguments, keywords, effort, rerun=on_change == "rerun"
        )
        if record is None:
            record = self.replay.perform(
                path,
                "step",
                input_sha,
                lambda: function(*arguments, **keywords),
                effort,
            )
        value: T = step_value(record, function, result)
        return value

    def find_step(
        self,
        name: str,
        arguments: tuple[Any, ...],
        keywords: Mapping[str, Any],
        effort: Effort,
        *,
        rerun: bool = False,
    ) -> tuple[str, str, Record | None]:
        """Return path, input digest and record (if any) of the next step."""
        path = self._next_path(name)
        effort.refuse_invalid(path)
        input_sha = digest([arguments, keywords] if keywords else arguments, path)
        record = self.replay.find(path, "step", input_sha, rerun_on_change=rerun)
        return path, input_sha, record

    def ask(
        self,
        name: str,
        *,
        agent: str,
        prompt: str,
        result: Any = None,
        schema: Mapping[str, Any] | None = None,
        timeout: int = DEFAULT_TIMEOUT_SECONDS,
        fallback: Fallback | None = None,
        judge: Judge | None = None,
        context: Mapping[str, Any] | None = None,
        max_retries: int | None = None,
        expires: float | None = None,
    ) -> Any:
        """Ask an agent, and pause until it has answered, however long that takes.

        `timeout` limits a single handler's attempt. The ask ends without an answer only
        if the handler gives up, or `expires` seconds after it was made. Then `fallback`
        provides the result; without one, AskFailed is raised. If the flow does not
        catch it, the question is asked again.
        """
        ask = Ask(
            name,
            agent,
            prompt,
            result,
            schema,
            timeout,
            fallback,
            judge,
            context or {},
            max_retries,
            expires,
        )
        record = self._run_pass.ask(self._next_path(name), ask, self._phase)
        if record.status == FAILED:
            raise AskFailed(record.path, _failure_in(record))
        return value_of(record, result)

    def ask_outcome(self, name: str, **described: Any) -> Outcome:
        """Ask as `ask` does, and return an outcome with the value or the failure."""
        ask = Ask(name, **described)
        record = self._run_pass.ask(self._next_path(name), ask, self._phase)
        if record.status == FAILED:
            return Outcome(failure=_failure_in(record))
        return Outcome(value=value_of(record, ask.result))

    def gather(self, *branches: Ask | Callable[[Context], Any]) -> list[Any]:
        """Run every branch until it blocks, then pause once for all of them.

        Return the results in the order of the branches.
        """
        return self._branches("gather", [as_branch(branch) for branch in branches])

    def map(
        self, name: str, function: Callable[[Context, Item], T], items: Iterable[Item]
    ) -> list[T]:
        """Run `function(ctx, item)` for each item, as a separate branch."""
        branches = [branch_for(function, item) for item in items]
        return self._branches(name, branches)

    def scope(self, name: str) -> Context:
        """Return a context that numbers its calls separately.

        It can also be used in a `with` statement.
        """
        return self.child(self._next_path(name))

    def call(self, flow: Flow, **given: Any) -> Any:
        """Run another flow as part of this one, and record its result as one call."""
        path, input_sha, record = self.find_flow(flow, given)
        if record is None:
            started = self.replay.now()
            value = self._run_pass.run_function(flow, self.child(path), given)
            recorded = encoded(value, f"flow {path} has run; its result")
            record = self.replay.add(path, "flow", input_sha, recorded, started)
        return value_of(record, _returned_type(flow.function))

    def find_flow(
        self, flow: Flow, given: Mapping[str, Any]
    ) -> tuple[str, str, Record | None]:
        """Return path, input digest and record (if any) of the next nested flow."""
        path = self._next_path(flow.name)
        input_sha = digest([flow.name, flow.version, given], path)
        return path, input_sha, self.replay.find(path, "flow", input_sha)

    def patched(self, name: str) -> bool:
        """Return whether a deliberate change of the code applies to this run.

        It does not apply to a run that had already passed this point. With `if
        ctx.patched("sign"): ctx.step("sign", sign)`, paused runs continue the old way
        and new runs take the new one.
        """
        path = self._next_path(f"patched {name}")
        replay = self._run_pass.replay
        if not replay.is_recorded(path):
            if replay.next_ahead(path) is not None:
                return False
            replay.add(path, "patch", None, "true")
        return replay.find(path, "patch", None) is not None

    def now(self) -> datetime:
        """Return the time at which the flow first reached this call."""
        return self.step("now", self._run_pass.clock.now, result=datetime)

    def sleep(self, seconds: float) -> None:
        """Wait until `seconds` have passed since the flow first reached this call.

        On a fleet, no worker is occupied meanwhile.
        """
        clock = self._run_pass.clock
        end = self.step(
            "sleep",
            lambda seconds: clock.now() + timedelta(seconds=seconds),
            seconds,
            result=datetime,
        )
        self._run_pass.sleep_until(end)

    def uuid(self) -> str:
        """Return a random UUID, the same on every replay."""
        return self.step("uuid", lambda: uuid_text(os.urandom(16)))

    def random(self) -> float:
        """Return a random number in [0, 1), the same on every replay."""
        return self.step("random", _random_number)

    def env(self, name: str, default: str | None = None) -> str | None:
        """Return the value a variable had when the flow first reached this call."""
        return self.step("env", lambda name: os.environ.get(name, default), name)

    def fence(self) -> Fence:
        """Return a fence for foreign text in a prompt, the same on every replay."""
        from bridgehead.contract.fencing import MARKER_LENGTH, Fence

        recorded = self.step("fence", lambda: os.urandom(MARKER_LENGTH).hex())
        numbers = iter(bytes.fromhex(recorded))
        return Fence(lambda alphabet: alphabet[next(numbers) % len(alphabet)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: a scope holds no resources."""

    def _branches(
        self, name: str, branches: list[Callable[[Context], Any]]
    ) -> list[Any]:
        parent = self.scope(name)
        results: list[Any] = []
        pauses: list[Blocked] = []
        for branch in branches:
            try:
                results.append(branch(parent.scope(BRANCH)))
            except Blocked as blocked:
                self.note_caught_pause()
                pauses.append(blocked)
        if pauses:
            raise self.joined(pauses)
        return results

    def note_caught_pause(self) -> None:
        """Note that a branch's pause was caught, to be joined with the others."""
        self._run_pass.open_blocks -= 1

    def joined(self, pauses: list[Blocked]) -> Blocked:
        """Return one pause for everything the branches wait for."""
        self._run_pass.open_blocks += 1
        waiting: list[OpenCall] = []
        for blocked in pauses:
            waiting += blocked.calls
        return Blocked(waiting)

    def child(self, path: str) -> Context:
        return type(self)(self._run_pass, f"{path}/", self._phase)

    def _next_path(self, name: str) -> str:
        if not name or "/" in name or "#" in name:
            raise FlowMistake(
                f"{name!r} is not a valid step name: it must not be empty or contain "
                "'/' or '#'"
            )
        self._run_pass.replay.refuse_use_inside_call()
        ordinal = self._ordinals.get(name, 0)
        self._ordinals[name] = ordinal + 1
        return f"{self._prefix}{name}#{ordinal}"


def asking(name: str, **described: Any) -> Ask:
    """Return an ask for `gather`; takes the same arguments as `Context.ask`."""
    return Ask(name, **described)


def as_branch(branch: Ask | Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that makes the ask; a function is returned unchanged."""
    if isinstance(branch, Ask):
        return lambda ctx: ctx.ask(**branch._asdict())
    return branch


def branch_for(function: Callable[[Any, Item], T], item: Item) -> Callable[[Any], T]:
    """Return the branch that calls `function(ctx, item)`."""
    return lambda ctx: function(ctx, item)


def _random_number() -> float:
    """Return 53 random bits as a number in [0, 1)."""
    bits = int.from_bytes(os.urandom(7)) >> 3
    return bits / (1 << 53)


def _failure_in(record: Record) -> Failed:
    return Failed(*json.loads(record.error or "[]"))


def step_value(record: Record, function: Callable[..., Any], result: Any) -> Any:
    """Return the recorded result of a step as the type it promises.

    Raise StepFailed if the record says that the step failed.
    """
    if record.status == FAILED:
        raise StepFailed(record.path, *json.loads(record.error or "[]"))
    if result is None:
        result = _returned_type(function)
    return value_of(record, result)


def value_of(record: Record, wanted: Any) -> Any:
    plain = None if record.result is None else decode(record.result)
    return plain if wanted is None else from_plain(plain, wanted)


@lru_cache(maxsize=1024)
def _returned_type(function: Callable[..., Any]) -> Any:
    """Return the type of a function's return annotation.

    Return None if there is none or it cannot be resolved.
    """
    if not written_annotations(function).get("return"):
        return None
    try:
        return typing.get_type_hints(function).get("return")
    except (NameError, TypeError):
        return None


class PhasedContext(Context):
    """A context with phases.

    A request made inside a phase carries the phase's number, and the ask's name as its
    phase name.
    """

    @property
    def flow_id(self) -> str:
        """Return the id of the run, the same on every replay."""
        return self._run_pass.replay.flow_id

    @property
    def root(self) -> Path:
        """Return the canonical path of the flow's root directory."""
        return self._run_pass.mailbox.files.root.path

    def phase(
        self,
        number: int,
        name: str,
        body: Callable[[PhasedContext], Any],
        *,
        key: str | None = None,
        result: Any = None,
        summary: Callable[[Any], str] = lambda _: "",
    ) -> Any:
        """Run `body` once, and return its result.

        The state file keeps the result under `key`; without a key it only notes that
        the phase is done. A phase restored from a state file that lacks its result
        returns None.
        """
        path = self._next_path(name)
        replay = self._run_pass.replay
        run_files = self._run_pass.run_files
        record = replay.find(path, "phase", None)
        if record is not None:
            value = value_of(record, result)
            if not run_files.has_completed(number):
                # The process died after writing the journal, before the state file.
                run_files.complete(number, name, key, to_plain(value), summary(value))
            return value
        restored = run_files.restored_phase(number, key)
        if restored is not NOT_RESTORED:
            value = self._as_result(restored, result, key)
            replay.add(path, "phase", None, encode(restored))
            return value
        run_files.enter(number, name)
        started = replay.now()
        value = body(PhasedContext(self._run_pass, f"{path}/", number))
        record = replay.add(path, "phase", None, encode(value), started)
        run_files.complete(number, name, key, to_plain(value), summary(value))
        run_files.save()
        return value_of(record, result)

    def _as_result(self, restored: Any, result: Any, key: str | None) -> Any:
        if restored is None or result is None:
            return restored
        try:
            return from_plain(restored, result)
        except Unfit as error:
            state = self._run_pass.mailbox.files.state_path
            raise StateInvalid(state, [f"phase_data/{key}: {error}"]) from error

    def remember(self, key: str, value: Any) -> None:
        """Keep a value in the state file, beside the results of phases."""
        self._run_pass.run_files.remember(key, to_plain(value))
