"""One function per rig command: arguments in, operation called, result printed. Named like the command."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

from bridgehead.cli.rig_arguments import ArgumentRefused
from bridgehead.cli.rig_desk import Desk, body_reader
from bridgehead.errors import UserError
from bridgehead.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from bridgehead.rigs.operations.rig import Rig
    from bridgehead.rigs.operations.sync import SyncRequest
    from bridgehead.rigs.reviewed import CouncilMark


def init(desk: Desk) -> int:
    from bridgehead.rigs.operations.init import InitRequest, check_identity
    from bridgehead.rigs.operations.init import init as give_identity

    arguments = desk.arguments
    request = InitRequest(
        arguments.value("--rig-id"), arguments.value("--display-name"), arguments.has("--force")
    )
    identity = check_identity(request)
    rig = desk.make_rig()
    placed = give_identity(rig.repository, identity, force=request.force)
    desk.emit(placed.result)
    desk.tell(f"initialized rig {identity.rig_id}")
    desk.tell("config .bridge/config.yaml, kept out of commits by .git/info/exclude")
    desk.tell(f"hook {placed.hook_path}")
    return ExitCode.DONE


def new(desk: Desk) -> int:
    from bridgehead.rigs.operations.new import NewRequest
    from bridgehead.rigs.operations.new import new as open_thread

    request = NewRequest(desk.arguments.positional(0), desk.arguments.has("--force"))
    result = open_thread(desk.make_rig(), request)
    desk.emit(result)
    desk.tell(f"fill in {result.file_path}, then send it")
    return ExitCode.DONE


def send(desk: Desk) -> int:
    from bridgehead.rigs.operations.send import SendRequest
    from bridgehead.rigs.operations.send import send as send_envelope

    arguments = desk.arguments
    rig = desk.make_rig()
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
    desk.emit(result)
    _tell_posted(desk, f"sent {result.type}", result.file_path, result.commit_sha, pushed=result.pushed)
    return ExitCode.DONE


def close(desk: Desk) -> int:
    from bridgehead.rigs.operations.close import CloseRequest
    from bridgehead.rigs.operations.close import close as close_thread

    arguments = desk.arguments
    result = close_thread(
        desk.make_rig(),
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
    desk.emit(result)
    _tell_posted(
        desk, f"closed {result.thread_id}", result.file_path, result.commit_sha, pushed=result.pushed
    )
    return ExitCode.DONE


def status(desk: Desk) -> int:
    if desk.arguments.has("--watch"):
        return _watch(desk, "status", None)
    from bridgehead.rigs.operations.status import status as look

    wide = desk.arguments.has("--wide")
    found = look(desk.make_rig(), wide=wide, with_findings=desk.as_json)
    if desk.as_json:
        desk.put_object(found.json_object())
    else:
        desk.page(f"{line}\n" for line in found.lines(wide=wide, style=desk.style()))
    if not found.threads:
        desk.tell("no threads yet; new <thread-id> opens one")
    else:
        desk.tell(
            f"{found.open} open, {found.closed} closed" + ("" if wide else "; --wide shows more columns")
        )
    return ExitCode.DONE


def thread(desk: Desk) -> int:
    if desk.arguments.has("--watch"):
        return _watch(desk, "thread", desk.arguments.positional(0))
    from bridgehead.rigs.operations.thread_text import thread_text

    desk.page(
        thread_text(desk.make_rig(), desk.arguments.positional(0), as_json=desk.as_json, style=desk.style())
    )
    return ExitCode.DONE


def sync(desk: Desk) -> int:
    from bridgehead.rigs.operations.sync import check
    from bridgehead.rigs.operations.sync import sync as fetch

    if desk.arguments.has("--watch"):
        return _watch(desk, "sync", None)
    if desk.arguments.has("--check"):
        checked = check(desk.make_rig())
        desk.emit(checked)
        return ExitCode.DONE if checked.ok else ExitCode.USER
    desk.emit(fetch(desk.make_rig(), _sync_request(desk)))
    return ExitCode.DONE


def relay(desk: Desk) -> int:
    from bridgehead.rigs.operations import freezing
    from bridgehead.rigs.operations.relay import RelayRequest
    from bridgehead.rigs.operations.relay import relay as relay_turn

    arguments = desk.arguments
    begin, abort = arguments.has("--begin"), arguments.has("--abort")
    if begin or abort:
        _refuse_type_with(begin, abort, arguments.positional(0))
        request = freezing.FreezeRequest(arguments.value("--thread"), arguments.value("--in-reply-to"))
        rig = desk.make_rig()
        desk.emit(freezing.freeze(rig, request) if begin else freezing.thaw(rig, request))
        return ExitCode.DONE
    result = relay_turn(
        desk.make_rig(),
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
    desk.emit(result)
    _tell_posted(desk, f"relayed {result.type}", result.file_path, result.commit_sha, pushed=result.pushed)
    return ExitCode.DONE


def verify(desk: Desk) -> int:
    from bridgehead.rigs.operations.verify import VerifyRequest
    from bridgehead.rigs.operations.verify import verify as look

    request = VerifyRequest(desk.arguments.positional(0), desk.arguments.has("--require-council"))
    found = look(desk.make_rig(), request)
    desk.emit(found)
    return ExitCode.USER if found.verification.failed else ExitCode.DONE


def inbox(desk: Desk) -> int:
    if desk.arguments.has("--prompt"):
        return _inbox_for_agent(desk)
    from bridgehead.rigs.operations.inbox import inbox as look

    found = look(desk.make_rig())
    if desk.as_json:
        desk.put_object(found.json_object())
    else:
        desk.page(f"{line}\n" for line in found.lines(style=desk.style()))
    return ExitCode.DONE


def _inbox_for_agent(desk: Desk) -> int:
    from bridgehead.assembly.envelopes_for_agents import envelopes_for_agent

    found = envelopes_for_agent(desk.make_rig())
    if desk.as_json:
        desk.put_object(found.json_object())
    else:
        desk.put(found.prompt())
    return ExitCode.DONE


def trust(desk: Desk) -> int:
    from bridgehead.rigs.operations import trust as trusting

    arguments = desk.arguments
    verb, first, second = (arguments.positional(number) for number in range(3))
    rig = desk.make_rig()
    if verb == "list" and first is None:
        found = trusting.list_signers(rig)
    elif verb == "add":
        found = trusting.add_signer(rig, first, second)
    elif verb == "remove" and second is None:
        found = trusting.remove_signer(rig, first)
    else:
        raise ArgumentRefused("trust: list, add <principal> <key or .pub file>, or remove <principal>")
    if desk.as_json:
        desk.put_object(found.json_object())
    else:
        desk.put("\n".join(found.lines()) + "\n")
    if found.file:
        desk.tell(f"file {found.file}")
    return ExitCode.DONE


def reconcile(desk: Desk) -> int:
    from bridgehead.rigs.operations.reconcile import LedgerRequest
    from bridgehead.rigs.operations.reconcile import reconcile as bring_in_line

    desk.emit(bring_in_line(desk.make_rig(), LedgerRequest(desk.arguments.value("--thread"))))
    return ExitCode.DONE


def replay(desk: Desk) -> int:
    from bridgehead.rigs.operations.reconcile import LedgerRequest
    from bridgehead.rigs.operations.reconcile import replay as rebuild

    request = LedgerRequest(desk.arguments.value("--thread"), desk.arguments.has("--all"))
    desk.emit(rebuild(desk.make_rig(), request))
    return ExitCode.DONE


def watch(desk: Desk) -> int:
    return _watch(desk, "sync", desk.arguments.positional(0))


def _watch(desk: Desk, op: str, thread_id: str | None) -> int:
    from bridgehead.rigs.fields import parse_thread_id
    from bridgehead.rigs.operations.watch import WatchRequest, parse_interval
    from bridgehead.rigs.operations.watch import watch as follow

    gc.enable()
    if op == "thread" and thread_id is None:
        raise UserError("thread: <thread-id> is required")
    request = WatchRequest(
        op,
        parse_thread_id(thread_id) if thread_id is not None else None,
        parse_interval(desk.arguments.value("--interval"), fetching=op == "sync"),
        heartbeat=not desk.arguments.has("--no-heartbeat"),
        sync=_sync_request(desk),
    )
    rig = desk.make_rig()
    rig.sleep = _sleep_while_read
    for event in follow(rig, request):
        desk.put_object(event)
    return ExitCode.DONE


def _sleep_while_read(seconds: float) -> None:
    """Wait, unless the reader of stdout leaves: then there is nobody left to watch for (rigs §12)."""
    import select

    closed = select.poll()
    closed.register(sys.stdout.fileno(), select.POLLERR | select.POLLHUP)
    if any(happened & (select.POLLERR | select.POLLHUP) for _, happened in closed.poll(seconds * 1000)):
        raise BrokenPipeError


def _sync_request(desk: Desk) -> SyncRequest:
    from bridgehead.rigs.operations.sync import SyncRequest

    has = desk.arguments.has
    return SyncRequest(has("--auto"), has("--accept-unverified"), has("--accept-non-envelope"))


def _council_finder(rig: Rig, reference: str | None) -> Callable[[], CouncilMark] | None:
    """Looks the council up when its turn in the checks has come."""
    if reference is None:
        return None
    from bridgehead.assembly.reviewed_results import CouncilReviews

    return lambda: CouncilReviews(rig.repository.root).mark(reference)


def _refuse_type_with(begin: bool, abort: bool, message_type: str | None) -> None:
    if begin and abort:
        raise ArgumentRefused("relay: --begin and --abort exclude each other")
    if message_type is not None:
        raise ArgumentRefused(f'unexpected argument "{message_type}"')


def _tell_posted(desk: Desk, what: str, path: str, commit: str, *, pushed: bool) -> None:
    where = "pushed" if pushed else "not pushed yet: git push"
    desk.tell(f"{what} as {path}, commit {commit[:7]}, {where}")
