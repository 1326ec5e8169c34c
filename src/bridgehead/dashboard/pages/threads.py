"""Show the threads of all known clones, single threads, and the reply form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from bridgehead.assembly.council.reviews import CouncilReviews
from bridgehead.assembly.rigs.clones import RigClone, find_clone, known_clones
from bridgehead.assembly.rigs.replies import NotShared, Reply, send_reply
from bridgehead.assembly.rigs.rig import make_rig
from bridgehead.assembly.rigs.views import (
    PAGE_LENGTH,
    ThreadLine,
    ThreadView,
    view_clone,
    view_thread,
)
from bridgehead.contract.doors import Door
from bridgehead.dashboard.page import (
    Form,
    Page,
    PageContext,
    Paging,
    answer_from,
    logger,
    number_of,
)
from bridgehead.dashboard.pages.actions import refuse_elsewhere
from bridgehead.dashboard.pages.thread_bodies import body_markup
from bridgehead.errors import BridgeheadError, SecretRefused, UserError
from bridgehead.rigs.envelope.fields import MESSAGE_TYPES
from bridgehead.rigs.envelope.names import RELAY_SUFFIX
from bridgehead.rigs.operations.quarantine import list_quarantine
from bridgehead.rigs.threads.quarantine import QuarantineEntry
from bridgehead.rigs.trust.council_mark import read_mark
from bridgehead.rigs.views.results import Sent

CLONES_SHOWN: Final = 10
THREADS_SHOWN: Final = 8
"""Of each clone, in the list of all."""
FRESH: Final = Reply("RESPONSE", recipients="", text="")
STATES: Final[Mapping[str, Callable[[ThreadLine], bool]]] = {
    "open": lambda line: not line.summary.is_closed,
    "closed": lambda line: line.summary.is_closed,
    "waiting for you": lambda line: line.waiting > 0,
    "diverged": lambda line: line.heads > 1,
    "broken": lambda line: line.summary.unverified > 0,
}
HUES: Final = 4
LINES: Final = 4


@dataclass(frozen=True, slots=True)
class RefusedReply:
    """A reply that was refused, and why, to be shown again; empty on a new page."""

    form: str = ""
    """`reply`, or the id of what was to be answered."""
    reply: Reply = FRESH
    message: str = ""
    hint: str | None = None
    secret: bool = False


NOTHING_TYPED: Final = RefusedReply()


def show_list(context: PageContext, request: Request) -> Response:
    clones = known_clones(context.assembly.places.project, context.store)
    paging = Paging.of(PAGE.path, request.query_params, CLONES_SHOWN)
    waiting = context.waiting()
    views = [view_clone(clone, waiting) for clone in paging.cut(clones)]
    return context.show(
        request,
        PAGE,
        "threads.html",
        # What waits for this rig before the rest; each newest first.
        clones=[
            (
                view,
                sorted(view.threads, key=lambda line: not line.waiting)[:THREADS_SHOWN],
            )
            for view in views
        ],
        before=paging.before(),
        after=paging.after(len(clones)),
    )


def show_clone(context: PageContext, request: Request) -> Response:
    clone = _clone(context, request)
    view = view_clone(clone, context.waiting())
    named = request.query_params.get("named", "").strip()
    state = request.query_params.get("state", "")
    is_in_state: Callable[[ThreadLine], bool] = STATES.get(state, lambda _line: False)
    threads = [
        line
        for line in view.threads
        if named in line.id and (not state or is_in_state(line))
    ]
    paging = Paging.of(address_of(clone), request.query_params, PAGE_LENGTH)
    return context.show(
        request,
        PAGE,
        "clone.html",
        view=view,
        held=_quarantined(clone),
        is_relay=view.rig_id.endswith(RELAY_SUFFIX),
        threads=paging.cut(threads),
        found=len(threads),
        named=named,
        state=state,
        states=STATES,
        before=paging.before(),
        after=paging.after(len(threads)),
    )


def reply(context: PageContext, request: Request, form: Form) -> Response:
    """Send one envelope. What is refused is shown again as it was typed."""
    clone = _clone(context, request)
    thread_id = str(request.path_params["thread_id"])
    written = Reply(
        message_type=form.get("type", ""),
        recipients=form.get("to", ""),
        text=form.get("text", ""),
        tldr=form.get("tldr", ""),
        by=form.get("by", ""),
        push="push" in form,
        allow_secret="allow_secret" in form,
    )
    messages: list[str] = []
    try:
        refuse_elsewhere(context, f"the rig of {clone.name}", clone.root)
        sent = send_reply(clone, thread_id, written, messages.append, CouncilReviews)
    except NotShared as error:
        return context.go(
            request,
            address_of(clone, thread_id),
            f"{error.message}. {error.hint}.",
            bad=True,
        )
    except BridgeheadError as error:
        return show_thread(context, request, _refused("reply", written, error))
    finally:
        context.forget_waiting()
    return context.go(
        request, address_of(clone, thread_id), " · ".join([_sentence(sent), *messages])
    )


def answer(context: PageContext, request: Request, form: Form) -> Response:
    """Answer a waiting envelope, as `bridgehead answer` does."""
    clone = _clone(context, request)
    thread_id = str(request.path_params["thread_id"])
    item_id = str(request.path_params["item_id"])
    written = FRESH._replace(text=form.get("text", ""))
    context.forget_waiting()
    if all(item.id != item_id for item in context.waiting()):
        late = UserError(
            "this envelope is no longer open: it was answered, or its thread was "
            "closed",
            hint="you can send your text as a reply",
        )
        return show_thread(context, request, _refused("reply", written, late))
    try:
        item = context.pending.answer(item_id, answer_from(context, form), Door.PAGE)
    except BridgeheadError as error:
        return show_thread(context, request, _refused(item_id, written, error))
    finally:
        context.forget_waiting()
    return context.go(
        request, address_of(clone, thread_id), f"{item.question.title} answered"
    )


def address_of(clone: RigClone, thread_id: str | None = None) -> str:
    """Return the address of the page of a clone, or of one of its threads."""
    return f"/threads/{clone.id}" + (
        f"/{quote(thread_id, safe='')}" if thread_id else ""
    )


def show_thread(
    context: PageContext, request: Request, typed: RefusedReply = NOTHING_TYPED
) -> Response:
    clone = _clone(context, request)
    thread_id = str(request.path_params["thread_id"])
    view = view_thread(
        clone,
        thread_id,
        context.waiting(),
        start=number_of(request.query_params.get("start", "")),
    )
    address = address_of(clone, thread_id)
    return context.show(
        request,
        PAGE,
        "thread.html",
        status=422 if typed.message else 200,
        view=view,
        marks=marks_of([*view.rigs, view.rig_id]),
        body_markup=body_markup,
        read_mark=read_mark,
        known_mark=CouncilReviews(clone.root).known_mark,
        typed=typed,
        reply=_prefilled(view, typed),
        types=MESSAGE_TYPES,
        page_length=PAGE_LENGTH,
        address=address,
        earlier=f"{address}?start={max(0, view.start - PAGE_LENGTH)}"
        if view.start
        else None,
        later=f"{address}?start={end}"
        if (end := view.start + PAGE_LENGTH) < view.total
        else None,
    )


def _clone(context: PageContext, request: Request) -> RigClone:
    return find_clone(
        context.assembly.places.project,
        context.store,
        str(request.path_params["clone_id"]),
    )


def _quarantined(clone: RigClone) -> list[QuarantineEntry]:
    try:
        entries = list_quarantine(make_rig(clone.root, logger.warning)).entries
    except BridgeheadError:
        return []  # the page says what is wrong with the clone
    return [entry for entry in entries if not entry.accepted and not entry.verdict]


def _prefilled(view: ThreadView, typed: RefusedReply) -> Reply:
    if typed.form == "reply" and typed.reply.recipients:
        return typed.reply
    text = typed.reply.text if typed.form == "reply" else ""
    return typed.reply._replace(recipients=next(iter(view.partners), ""), text=text)


def _refused(form: str, written: Reply, error: BridgeheadError) -> RefusedReply:
    secret = isinstance(error, SecretRefused)
    return RefusedReply(
        form, written, error.message, None if secret else error.hint, secret
    )


def _sentence(sent: Sent) -> str:
    shared = "" if sent.pushed else "; not pushed, so the others do not have it yet"
    return (
        f"{sent.type} sent to {', '.join(sent.to)} as {sent.file_path} "
        f"({sent.commit_sha[:7]}){shared}"
    )


@dataclass(frozen=True, slots=True)
class RigMark:
    """The mark of a rig: letters, for those who do not see the colours, and classes."""

    letters: str
    css_classes: str


def marks_of(rigs: Iterable[str]) -> dict[str, RigMark]:
    """Return a mark for each rig; sixteen differ in both colour and pattern."""
    return {
        rig: RigMark(
            letters_of(rig),
            f"rig-hue-{(place + place // LINES) % HUES} rig-line-{place % LINES}",
        )
        for place, rig in enumerate(dict.fromkeys(rigs))
    }


def letters_of(rig: str) -> str:
    """`win-5080` is W5: the beginnings of the first two words, or of the only one."""
    words = [word for word in rig.split("-") if word] or ["?"]
    return (words[0][0] + words[1][0] if len(words) > 1 else words[0][:2]).upper()


PAGE: Final = Page(
    "Threads",
    "/threads",
    views={
        "/threads": show_list,
        "/threads/{clone_id}": show_clone,
        "/threads/{clone_id}/{thread_id}": show_thread,
    },
    actions={
        "/threads/{clone_id}/{thread_id}": reply,
        "/threads/{clone_id}/{thread_id}/answer/{item_id}": answer,
    },
)
