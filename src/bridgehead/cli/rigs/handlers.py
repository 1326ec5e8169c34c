"""One function per rig command, named like it: arguments in, operation called, result
printed (rigs §7, §11).

One that can end in more than one way returns its exit code.
"""

import gc
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from bridgehead.cli.rigs.arguments import ArgumentRefused, Arguments, body_reader
from bridgehead.errors import UserError
from bridgehead.exit_codes import ExitCode
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.views.terminal import Style, uses_colour

if TYPE_CHECKING:
    from bridgehead.assembly.rigs.inbox import ArrivalRunner
    from bridgehead.rigs.operations.sync import SyncRequest
    from bridgehead.rigs.trust.council_mark import CouncilMark


class Result(Protocol):
    """What an operation returns when one line says it."""

    def line(self) -> str: ...

    def json_object(self) -> dict[str, object]: ...


class Listing(Protocol):
    """What an operation returns when it takes a few lines."""

    def lines(self) -> list[str]: ...

    def json_object(self) -> dict[str, object]: ...


class RigConsole(NamedTuple):
    """Where a command gets its rig and puts its words."""

    arguments: Arguments
    make_rig: Callable[[], Rig]
    say: Callable[[str], None]
    environ: Mapping[str, str]

    @property
    def as_json(self) -> bool:
        return self.arguments.has("--json")

    def put(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    def put_object(self, document: Mapping[str, object]) -> None:
        from json import dumps

        self.put(dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n")

    def emit(self, result: Result) -> None:
        if self.as_json:
            self.put_object(result.json_object())
        else:
            self.put(result.line() + "\n")

    def emit_lines(self, result: Listing) -> None:
        if self.as_json:
            self.put_object(result.json_object())
        else:
            self.put("\n".join(result.lines()) + "\n")

    def style(self) -> Style:
        terminal = sys.stdout.isatty()
        colour = uses_colour(
            self.environ,
            is_terminal=terminal,
            no_color=self.arguments.has("--no-color"),
            json=self.as_json,
        )
        return Style(colour=colour, escape_controls=terminal)

    def page(self, text: Iterable[str]) -> None:
        """Text that may be long: through the pager on a terminal, as it comes otherwise
        (rigs §11).
        """
        if not sys.stdout.isatty():
            sys.stdout.writelines(text)
            sys.stdout.flush()
            return
        from bridgehead.host.terminal import page as show

        show(
            "".join(text),
            stream=sys.stdout,
            environ=self.environ,
            no_pager_variable="RIG_BRIDGE_NO_PAGER",
        )


def init(console: RigConsole) -> None:
    from bridgehead.rigs.operations import init as giving_identity

    arguments = console.arguments
    request = giving_identity.InitRequest(
        arguments.value("--rig-id"),
        arguments.value("--display-name"),
        arguments.has("--force"),
        arguments.has("--sign"),
        arguments.value("--signing-key"),
    )
    identity = giving_identity.check_identity(request)
    rig = console.make_rig()
    result, hook_path = giving_identity.init(rig.repository, identity, request)
    console.emit(result)
    console.say(f"initialized rig {identity.rig_id}")
    console.say("config .bridge/config.yaml, kept out of commits by .git/info/exclude")
    console.say(f"hook {hook_path}")
    if result.signing_key:
        console.say(
            "git now signs in this clone; `member add` publishes the key to the other "
            "rigs"
        )


def new(console: RigConsole) -> None:
    from bridgehead.rigs.operations import init as opening

    request = opening.NewRequest(
        console.arguments.positional(0), console.arguments.has("--force")
    )
    result = opening.new(console.make_rig(), request)
    console.emit(result)
    console.say(f"fill in {result.file_path}, then send it")


def send(console: RigConsole) -> None:
    from bridgehead.rigs.operations import send as sending

    arguments = console.arguments
    rig = console.make_rig()
    result = sending.send(
        rig,
        sending.SendRequest(
            arguments.positional(0),
            arguments.value("--thread"),
            arguments.list("--to"),
            **_written(arguments),
            **_landing(arguments),
            despite_freeze=arguments.has("--despite-freeze"),
            unattested=arguments.has("--unattested"),
            allow_secret=arguments.has("--allow-secret"),
            by=arguments.value("--by"),
            council=_council_finder(rig, arguments.value("--council")),
        ),
    )
    console.emit(result)
    _say_posted(
        console,
        f"sent {result.type}",
        result.file_path,
        result.commit_sha,
        pushed=result.pushed,
    )


def close(console: RigConsole) -> None:
    from bridgehead.rigs.operations import send as sending

    arguments = console.arguments
    result = sending.close(
        console.make_rig(),
        sending.CloseRequest(
            arguments.positional(0),
            arguments.value("--status"),
            arguments.value("--note"),
            **_landing(arguments),
            despite_freeze=arguments.has("--despite-freeze"),
            allow_secret=arguments.has("--allow-secret"),
        ),
    )
    console.emit(result)
    _say_posted(
        console,
        f"closed {result.thread_id}",
        result.file_path,
        result.commit_sha,
        pushed=result.pushed,
    )


def status(console: RigConsole) -> int:
    if console.arguments.has("--watch"):
        return _watch(console, "status", None)
    from bridgehead.rigs.operations.status import status as read_status

    wide = console.arguments.has("--wide")
    found = read_status(console.make_rig(), wide=wide)
    if console.as_json:
        console.put_object(found.json_object())
    else:
        console.page(
            f"{line}\n" for line in found.lines(wide=wide, style=console.style())
        )
    if not found.threads:
        console.say("no threads yet; rig-bridge new <thread-id> opens one")
    else:
        console.say(
            f"{found.open} open, {found.closed} closed"
            + ("" if wide else "; --wide shows more columns")
        )
    if remark := found.debts():
        console.say(remark)
    return ExitCode.DONE


def thread(console: RigConsole) -> int:
    if console.arguments.has("--watch"):
        return _watch(console, "thread", console.arguments.positional(0))
    from bridgehead.rigs.operations.thread import thread_text

    console.page(
        thread_text(
            console.make_rig(),
            console.arguments.positional(0),
            as_json=console.as_json,
            style=console.style(),
        )
    )
    return ExitCode.DONE


def sync(console: RigConsole) -> int:
    from bridgehead.rigs.operations import sync as syncing

    if console.arguments.has("--watch"):
        return _watch(console, "sync", None)
    if console.arguments.has("--check"):
        checked = syncing.check(console.make_rig())
        console.emit(checked)
        return ExitCode.DONE if checked.ok else ExitCode.USER
    console.emit(syncing.sync(console.make_rig(), _sync_request(console)))
    return ExitCode.DONE


def relay(console: RigConsole) -> None:
    from bridgehead.rigs.operations import relay as relaying

    arguments = console.arguments
    begin = arguments.has("--begin")
    abort = arguments.has("--abort")
    if begin or abort:
        if begin and abort:
            raise ArgumentRefused("relay: --begin and --abort cannot be combined")
        if (message_type := arguments.positional(0)) is not None:
            raise ArgumentRefused(f'unexpected argument "{message_type}"')
        rig = console.make_rig()
        thread_id = arguments.value("--thread")
        if begin:
            console.emit(
                relaying.freeze(rig, thread_id, arguments.value("--in-reply-to"))
            )
        else:
            console.emit(relaying.thaw(rig, thread_id))
        return
    result = relaying.relay(
        console.make_rig(),
        relaying.RelayRequest(
            arguments.positional(0),
            arguments.value("--thread"),
            arguments.value("--in-reply-to"),
            arguments.list("--to"),
            **_written(arguments),
            **_landing(arguments),
            allow_unknown_parent=arguments.has("--allow-unknown-parent"),
            allow_secret=arguments.has("--allow-secret"),
        ),
    )
    console.emit(result)
    _say_posted(
        console,
        f"relayed {result.type}",
        result.file_path,
        result.commit_sha,
        pushed=result.pushed,
    )


def verify(console: RigConsole) -> int:
    from bridgehead.rigs.operations import verification

    required = console.arguments.has("--require-council")
    found = verification.verify(
        console.make_rig(), console.arguments.positional(0), require_council=required
    )
    console.emit(found)
    return ExitCode.USER if found.verification.failed else ExitCode.DONE


def inbox(console: RigConsole) -> int:
    if console.arguments.has("--prompt"):
        from bridgehead.assembly.rigs.inbox import envelopes_for_agent

        waiting = envelopes_for_agent(console.make_rig())
        if console.as_json:
            console.put_object(waiting.json_object())
        else:
            console.put(waiting.prompt())
        return ExitCode.DONE
    from bridgehead.rigs.operations.inbox import inbox as read_inbox

    found = read_inbox(console.make_rig())
    with_owed = console.arguments.has("--owed")
    if console.as_json:
        console.put_object(found.json_object())
    else:
        console.page(
            f"{line}\n"
            for line in found.lines(style=console.style(), with_owed=with_owed)
        )
    for remark in found.remarks(with_owed=with_owed):
        console.say(remark)
    return ExitCode.DONE


def wait(console: RigConsole) -> int:
    from bridgehead.rigs.envelope.fields import parse_message_type, parse_thread_id
    from bridgehead.rigs.operations.watch import (
        WaitRequest,
        parse_interval,
        parse_timeout,
    )
    from bridgehead.rigs.operations.watch import wait as wait_for_envelope

    arguments = console.arguments
    thread_id = arguments.value("--thread")
    types = arguments.value("--for")
    request = WaitRequest(
        parse_thread_id(thread_id) if thread_id is not None else None,
        frozenset(
            map(parse_message_type, types.split(",")) if types is not None else ()
        ),
        parse_timeout(arguments.value("--timeout")),
        parse_interval(arguments.value("--interval"), fetching=True),
    )
    found = wait_for_envelope(console.make_rig(), request)
    console.emit_lines(found)
    return ExitCode.DONE if found.arrived else ExitCode.USER


def push(console: RigConsole) -> None:
    from bridgehead.rigs.operations.posting import push_unsent

    console.emit(push_unsent(console.make_rig()))


def quarantine(console: RigConsole) -> None:
    from bridgehead.rigs.operations.quarantine import list_quarantine, show_quarantine

    verb = console.arguments.positional(0)
    path = console.arguments.positional(1)
    if verb not in ("list", "show") or (verb == "list" and path is not None):
        raise ArgumentRefused("quarantine: list, or show <path>")
    rig = console.make_rig()
    if verb == "list":
        console.emit_lines(list_quarantine(rig))
    else:
        from bridgehead.assembly.rigs.views import SENTENCES

        found = show_quarantine(rig, path)
        console.emit_lines(found)
        for kind in found.entry.findings.kinds:
            console.say(f"{kind}: {SENTENCES[kind]}")


def trust(console: RigConsole) -> None:
    from bridgehead.rigs.operations import trust as trusting

    arguments = console.arguments
    verb, first, second = (arguments.positional(number) for number in range(3))
    rig = console.make_rig()
    if verb == "list" and first is None:
        found = trusting.list_signers(rig)
    elif verb == "add":
        found = trusting.add_signer(rig, first, second)
    elif verb == "remove" and second is None:
        found = trusting.remove_signer(rig, first)
    else:
        raise ArgumentRefused(
            "trust: list, add <principal> <key or .pub file>, or remove <principal>"
        )
    console.emit_lines(found)
    if found.file:
        console.say(f"file {found.file}")


def member(console: RigConsole) -> None:
    from bridgehead.rigs.operations import trust as trusting

    arguments = console.arguments
    verb, first, second = (arguments.positional(number) for number in range(3))
    most = {"list": 0, "leave": 0, "remove": 1, "add": 2, "rotate": 2}.get(verb or "")
    if most is None or len(arguments.positionals) - 1 > most:
        raise ArgumentRefused(
            "member: list, add [<rig> [<key>]], rotate [<rig>] [<key>], remove <rig> "
            "or leave"
        )
    if verb == "rotate" and second is None:
        first, second = None, first
    request = trusting.MemberRequest(
        verb,
        first,
        second,
        arguments.value("--role"),
        arguments.value("--human"),
        arguments.value("--freeze-minutes"),
        arguments.value("--since"),
        **_landing(arguments),
    )
    found = trusting.member(console.make_rig(), request)
    console.emit_lines(found)
    if found.landed:
        _say_posted(
            console,
            "put on record",
            found.landed.path,
            found.landed.commit,
            pushed=found.landed.pushed,
        )


def reconcile(console: RigConsole) -> None:
    from bridgehead.rigs.operations import reconcile as reconciling

    console.emit(
        reconciling.reconcile(console.make_rig(), console.arguments.value("--thread"))
    )


def replay(console: RigConsole) -> None:
    from bridgehead.rigs.operations import reconcile as reconciling

    thread_id = console.arguments.value("--thread")
    everything = console.arguments.has("--all")
    console.emit(
        reconciling.replay(console.make_rig(), thread_id, everything=everything)
    )


def watch(console: RigConsole) -> int:
    return _watch(console, "sync", console.arguments.positional(0))


def _watch(console: RigConsole, op: str, thread_id: str | None) -> int:
    from bridgehead.rigs.envelope.fields import parse_thread_id
    from bridgehead.rigs.operations.watch import WatchRequest, parse_interval
    from bridgehead.rigs.operations.watch import watch as follow

    gc.enable()
    if op == "thread" and thread_id is None:
        raise UserError("thread: <thread-id> is required")
    request = WatchRequest(
        op,
        parse_thread_id(thread_id) if thread_id is not None else None,
        parse_interval(console.arguments.value("--interval"), fetching=op == "sync"),
        heartbeat=not console.arguments.has("--no-heartbeat"),
        sync=_sync_request(console),
    )
    rig = console.make_rig()
    rig.sleep = _sleep_while_read
    runner = _arrival_runner(console, rig, request.thread_id)
    numbers = count(1)
    if runner is not None:
        request = request._replace(sync=request.sync._replace(auto=True))
    for event in follow(rig, request):
        console.put_object({**event, "seq": next(numbers)})
        if event["event"] == "snapshot":
            _give_memory_back()
        if runner is not None and event["event"] in ("snapshot", "pulled", "envelope"):
            for outcome in runner.run():
                console.put_object({**outcome, "seq": next(numbers)})
    return ExitCode.DONE


def _give_memory_back() -> None:
    """Hand what the first look needed to the system, where the C library can do that: a
    watch goes on for days.
    """
    import ctypes

    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def _arrival_runner(
    console: RigConsole, rig: Rig, thread_id: str | None
) -> "ArrivalRunner | None":
    """Return what runs the command of --exec for what waits for this rig, each envelope
    once.
    """
    typed = console.arguments.value("--exec")
    if typed is None:
        return None
    from bridgehead.assembly.rigs.inbox import ArrivalRunner
    from bridgehead.rigs.operations.watch import parse_timeout

    timeout = parse_timeout(console.arguments.value("--timeout"))
    return ArrivalRunner(rig, typed, timeout, thread_id, console.environ)


def _sleep_while_read(seconds: float) -> None:
    """Wait, unless the reader of stdout leaves: then there is nobody left to watch for
    (rigs §12).
    """
    import select

    closed = select.poll()
    closed.register(sys.stdout.fileno(), select.POLLERR | select.POLLHUP)
    if any(
        happened & (select.POLLERR | select.POLLHUP)
        for _, happened in closed.poll(seconds * 1000)
    ):
        raise BrokenPipeError


def _written(arguments: Arguments) -> dict[str, Any]:
    """Return what an envelope says."""
    return {
        "status": arguments.value("--status"),
        "tldr": arguments.value("--tldr"),
        "body": body_reader(arguments.value("--body-file")),
        "references": arguments.list("--ref"),
    }


def _landing(arguments: Arguments) -> dict[str, Any]:
    """Return how far it is taken."""
    return {
        "push": not arguments.has("--no-push"),
        "retry": not arguments.has("--no-retry"),
    }


def _sync_request(console: RigConsole) -> "SyncRequest":
    from bridgehead.rigs.operations.sync import SyncRequest

    has = console.arguments.has
    return SyncRequest(
        has("--auto"), has("--accept-unverified"), has("--accept-non-envelope")
    )


def _council_finder(
    rig: Rig, reference: str | None
) -> "Callable[[], CouncilMark] | None":
    """Looks the council up when its turn in the checks has come."""
    if reference is None:
        return None
    from bridgehead.assembly.council.reviews import CouncilReviews

    return lambda: CouncilReviews(rig.repository.root).mark(reference)


def _say_posted(
    console: RigConsole, what: str, path: str, commit: str, *, pushed: bool
) -> None:
    where = "pushed" if pushed else "not pushed yet: rig-bridge push"
    console.say(f"{what} as {path}, commit {commit[:7]}, {where}")
