"""One function per rig command: arguments in, operation called, result printed (rigs §7, §11). Named like the
command.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from bridgehead.cli.rigs.arguments import ArgumentRefused, Arguments
from bridgehead.errors import UserError
from bridgehead.exit_codes import ExitCode
from bridgehead.host.file_errors import translated
from bridgehead.rigs.rig import Rig
from bridgehead.rigs.views.terminal import EncodedText, Style, uses_colour

if TYPE_CHECKING:
    from bridgehead.rigs.operations.sync import SyncRequest
    from bridgehead.rigs.trust.council_mark import CouncilMark


MAX_BODY_BYTES = 50 * 1024 * 1024


class Result(Protocol):
    """What an operation returns when one line says it."""

    def line(self) -> str: ...

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

    def style(self) -> Style:
        terminal = sys.stdout.isatty()
        colour = uses_colour(
            self.environ, is_terminal=terminal, no_color=self.arguments.has("--no-color"), json=self.as_json
        )
        return Style(colour=colour, escape_controls=terminal)

    def page(self, text: Iterable[str]) -> None:
        """Text that may be long: through the pager on a terminal, as it comes otherwise (rigs §11)."""
        if not sys.stdout.isatty():
            _put_out(text)
            return
        from bridgehead.host.terminal import page as show

        show("".join(text), stream=sys.stdout, environ=self.environ, no_pager_variable="RIG_BRIDGE_NO_PAGER")


def _put_out(text: Iterable[str]) -> None:
    if isinstance(text, EncodedText) and (sys.stdout.encoding or "").lower() == "utf-8":
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encoded)
    else:
        sys.stdout.writelines(text)
    sys.stdout.flush()


def body_reader(typed: str | None) -> Callable[[], str] | None:
    """Reads the body when its turn in the checks has come; `-` is standard input."""
    if typed is None:
        return None
    return lambda: _read_body(typed)


def _read_body(typed: str) -> str:
    raw = sys.stdin.buffer.read(MAX_BODY_BYTES + 1) if typed == "-" else _read_file(typed)
    if len(raw) > MAX_BODY_BYTES:
        raise UserError(f"--body-file {typed} is larger than the 50 MiB an envelope may have")
    return raw.decode("utf-8", "replace")


def _read_file(typed: str) -> bytes:
    """Read a file, or a pipe with a name, as `<(command)` is."""
    with translated(typed, "read"):
        if not typed or not Path(typed).exists():
            raise UserError(f"--body-file not found: {typed}")
        with Path(typed).open("rb") as file:
            return file.read(MAX_BODY_BYTES + 1)


def init(console: RigConsole) -> int:
    from bridgehead.rigs.operations.init import InitRequest, check_identity
    from bridgehead.rigs.operations.init import init as give_identity

    arguments = console.arguments
    request = InitRequest(
        arguments.value("--rig-id"), arguments.value("--display-name"), arguments.has("--force")
    )
    identity = check_identity(request)
    rig = console.make_rig()
    placed = give_identity(rig.repository, identity, force=request.force)
    console.emit(placed.result)
    console.say(f"initialized rig {identity.rig_id}")
    console.say("config .bridge/config.yaml, kept out of commits by .git/info/exclude")
    console.say(f"hook {placed.hook_path}")
    return ExitCode.DONE


def new(console: RigConsole) -> int:
    from bridgehead.rigs.operations.new import NewRequest
    from bridgehead.rigs.operations.new import new as open_thread

    request = NewRequest(console.arguments.positional(0), console.arguments.has("--force"))
    result = open_thread(console.make_rig(), request)
    console.emit(result)
    console.say(f"fill in {result.file_path}, then send it")
    return ExitCode.DONE


def send(console: RigConsole) -> int:
    from bridgehead.rigs.operations.send import SendRequest
    from bridgehead.rigs.operations.send import send as send_envelope

    arguments = console.arguments
    rig = console.make_rig()
    result = send_envelope(
        rig,
        SendRequest(
            arguments.positional(0),
            arguments.value("--thread"),
            arguments.list("--to"),
            status=arguments.value("--status"),
            tldr=arguments.value("--tldr"),
            body=body_reader(arguments.value("--body-file")),
            references=arguments.list("--ref"),
            push=not arguments.has("--no-push"),
            retry=not arguments.has("--no-retry"),
            despite_freeze=arguments.has("--despite-freeze"),
            unattested=arguments.has("--unattested"),
            allow_secret=arguments.has("--allow-secret"),
            council=_council_finder(rig, arguments.value("--council")),
        ),
    )
    console.emit(result)
    _say_posted(console, f"sent {result.type}", result.file_path, result.commit_sha, pushed=result.pushed)
    return ExitCode.DONE


def close(console: RigConsole) -> int:
    from bridgehead.rigs.operations.close import CloseRequest
    from bridgehead.rigs.operations.close import close as close_thread

    arguments = console.arguments
    result = close_thread(
        console.make_rig(),
        CloseRequest(
            arguments.positional(0),
            arguments.value("--status"),
            arguments.value("--note"),
            push=not arguments.has("--no-push"),
            retry=not arguments.has("--no-retry"),
            despite_freeze=arguments.has("--despite-freeze"),
            allow_secret=arguments.has("--allow-secret"),
        ),
    )
    console.emit(result)
    _say_posted(
        console, f"closed {result.thread_id}", result.file_path, result.commit_sha, pushed=result.pushed
    )
    return ExitCode.DONE


def status(console: RigConsole) -> int:
    if console.arguments.has("--watch"):
        return _watch(console, "status", None)
    from bridgehead.rigs.operations.status import status as read_status

    wide = console.arguments.has("--wide")
    found = read_status(console.make_rig(), wide=wide, with_findings=console.as_json)
    if console.as_json:
        console.put_object(found.json_object())
    else:
        console.page(f"{line}\n" for line in found.lines(wide=wide, style=console.style()))
    if not found.threads:
        console.say("no threads yet; new <thread-id> opens one")
    else:
        console.say(
            f"{found.open} open, {found.closed} closed" + ("" if wide else "; --wide shows more columns")
        )
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
    from bridgehead.rigs.operations.sync import check
    from bridgehead.rigs.operations.sync import sync as fetch

    if console.arguments.has("--watch"):
        return _watch(console, "sync", None)
    if console.arguments.has("--check"):
        checked = check(console.make_rig())
        console.emit(checked)
        return ExitCode.DONE if checked.ok else ExitCode.USER
    console.emit(fetch(console.make_rig(), _sync_request(console)))
    return ExitCode.DONE


def relay(console: RigConsole) -> int:
    from bridgehead.rigs.operations import freeze
    from bridgehead.rigs.operations.relay import RelayRequest
    from bridgehead.rigs.operations.relay import relay as relay_turn

    arguments = console.arguments
    begin, abort = arguments.has("--begin"), arguments.has("--abort")
    if begin or abort:
        _refuse_type_with(begin, abort, arguments.positional(0))
        request = freeze.FreezeRequest(arguments.value("--thread"), arguments.value("--in-reply-to"))
        rig = console.make_rig()
        console.emit(freeze.freeze(rig, request) if begin else freeze.thaw(rig, request))
        return ExitCode.DONE
    result = relay_turn(
        console.make_rig(),
        RelayRequest(
            arguments.positional(0),
            arguments.value("--thread"),
            arguments.value("--in-reply-to"),
            arguments.list("--to"),
            status=arguments.value("--status"),
            tldr=arguments.value("--tldr"),
            body=body_reader(arguments.value("--body-file")),
            references=arguments.list("--ref"),
            push=not arguments.has("--no-push"),
            retry=not arguments.has("--no-retry"),
            allow_unknown_parent=arguments.has("--allow-unknown-parent"),
            allow_secret=arguments.has("--allow-secret"),
        ),
    )
    console.emit(result)
    _say_posted(console, f"relayed {result.type}", result.file_path, result.commit_sha, pushed=result.pushed)
    return ExitCode.DONE


def verify(console: RigConsole) -> int:
    from bridgehead.rigs.operations.verification import VerifyRequest
    from bridgehead.rigs.operations.verification import verify as verify_envelopes

    request = VerifyRequest(console.arguments.positional(0), console.arguments.has("--require-council"))
    found = verify_envelopes(console.make_rig(), request)
    console.emit(found)
    return ExitCode.USER if found.verification.failed else ExitCode.DONE


def inbox(console: RigConsole) -> int:
    if console.arguments.has("--prompt"):
        return _inbox_for_agent(console)
    from bridgehead.rigs.operations.inbox import inbox as read_inbox

    found = read_inbox(console.make_rig())
    if console.as_json:
        console.put_object(found.json_object())
    else:
        console.page(f"{line}\n" for line in found.lines(style=console.style()))
    return ExitCode.DONE


def _inbox_for_agent(console: RigConsole) -> int:
    from bridgehead.assembly.rigs.inbox import envelopes_for_agent

    found = envelopes_for_agent(console.make_rig())
    if console.as_json:
        console.put_object(found.json_object())
    else:
        console.put(found.prompt())
    return ExitCode.DONE


def quarantine(console: RigConsole) -> int:
    from bridgehead.rigs.operations.quarantine import list_quarantine, show_quarantine

    verb, path = console.arguments.positional(0), console.arguments.positional(1)
    if verb not in ("list", "show") or (verb == "list" and path is not None):
        raise ArgumentRefused("quarantine: list, or show <path>")
    rig = console.make_rig()
    found = list_quarantine(rig) if verb == "list" else show_quarantine(rig, path)
    if console.as_json:
        console.put_object(found.json_object())
    else:
        console.put("\n".join(found.lines()) + "\n")
    return ExitCode.DONE


def trust(console: RigConsole) -> int:
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
        raise ArgumentRefused("trust: list, add <principal> <key or .pub file>, or remove <principal>")
    if console.as_json:
        console.put_object(found.json_object())
    else:
        console.put("\n".join(found.lines()) + "\n")
    if found.file:
        console.say(f"file {found.file}")
    return ExitCode.DONE


def reconcile(console: RigConsole) -> int:
    from bridgehead.rigs.operations.reconcile import LedgerRequest
    from bridgehead.rigs.operations.reconcile import reconcile as bring_in_line

    console.emit(bring_in_line(console.make_rig(), LedgerRequest(console.arguments.value("--thread"))))
    return ExitCode.DONE


def replay(console: RigConsole) -> int:
    from bridgehead.rigs.operations.reconcile import LedgerRequest
    from bridgehead.rigs.operations.reconcile import replay as rebuild

    request = LedgerRequest(console.arguments.value("--thread"), console.arguments.has("--all"))
    console.emit(rebuild(console.make_rig(), request))
    return ExitCode.DONE


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
    for event in follow(rig, request):
        console.put_object(event)
    return ExitCode.DONE


def _sleep_while_read(seconds: float) -> None:
    """Wait, unless the reader of stdout leaves: then there is nobody left to watch for (rigs §12)."""
    import select

    closed = select.poll()
    closed.register(sys.stdout.fileno(), select.POLLERR | select.POLLHUP)
    if any(happened & (select.POLLERR | select.POLLHUP) for _, happened in closed.poll(seconds * 1000)):
        raise BrokenPipeError


def _sync_request(console: RigConsole) -> SyncRequest:
    from bridgehead.rigs.operations.sync import SyncRequest

    has = console.arguments.has
    return SyncRequest(has("--auto"), has("--accept-unverified"), has("--accept-non-envelope"))


def _council_finder(rig: Rig, reference: str | None) -> Callable[[], CouncilMark] | None:
    """Looks the council up when its turn in the checks has come."""
    if reference is None:
        return None
    from bridgehead.assembly.council.reviews import CouncilReviews

    return lambda: CouncilReviews(rig.repository.root).mark(reference)


def _refuse_type_with(begin: bool, abort: bool, message_type: str | None) -> None:
    if begin and abort:
        raise ArgumentRefused("relay: --begin and --abort exclude each other")
    if message_type is not None:
        raise ArgumentRefused(f'unexpected argument "{message_type}"')


def _say_posted(console: RigConsole, what: str, path: str, commit: str, *, pushed: bool) -> None:
    where = "pushed" if pushed else "not pushed yet: git push"
    console.say(f"{what} as {path}, commit {commit[:7]}, {where}")
